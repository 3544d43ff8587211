"""docs/bounds.md is of the kernels that there are, and only sums of products have loose bounds."""

from pathlib import Path

from planted import bounds

from tirstep.modules import kernels

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "bounds.md"


def test_loose_bounds_are_those_of_sums_that_whole_numbers_check() -> None:
    ratios = list(bounds.measure(("float32",)))
    assert {ratio.problem.kernel.name for ratio in ratios} == set(kernels())
    assert all(ratio.floats <= 1 and (ratio.corners or 0) <= 1 for ratio in ratios)
    assert all(ratio.problem.is_exact for ratio in ratios if ratio.reason)
    # The page says the same: a reason for the same kernels.
    lines = [line for line in DOCUMENT.read_text().splitlines() if "| float32 | float32 |" in line]
    written = {line.split("|")[1].strip(): line.split("|")[7].strip() for line in lines}
    assert written == {ratio.problem.kernel.name: ratio.reason for ratio in ratios}


def test_every_type_of_floats_is_in_the_page() -> None:
    lines = DOCUMENT.read_text().splitlines()
    for name, kernel in kernels().items():
        for dtype in kernel.dtypes:
            found = any(line.startswith(f"| {name} |") and f"| {dtype} |" in line for line in lines)
            assert found == ("float" in dtype), (name, dtype)
