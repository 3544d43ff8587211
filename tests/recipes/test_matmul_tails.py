"""What the fast recipes of matmul do with shapes that no tile divides."""

import pytest

from tirstep.lowering_checks import CheckError, check_numbers, get_device, run_recipe
from tirstep.lowering_checks.facts import KernelFacts, get_facts
from tirstep.lowering_checks.facts.compiled import compile_facts
from tirstep.transforms.recipes import RECIPES

SIZES = {"threads": (4, 8), "thread_tile": (4, 4), "tile_k": 8}


def find_kernels(tail: str, **shape: int) -> tuple[KernelFacts, ...]:
    run = run_recipe(RECIPES["matmul_prefetched"], shape, config={**SIZES, "tail": tail})
    return get_facts(run.steps[-1].module).kernels


def test_tiles_of_copied_operands_are_fetched_in_vectors() -> None:
    """Rows of 37 and 33 elements begin at any address; padded ones begin at that of a vector."""
    (padded,) = find_kernels("pad", m=50, n=37, k=33)
    *copies, copied = find_kernels("copy", m=50, n=37, k=33)
    assert padded.get_accesses("global", "load").vectors == 0
    assert copied.get_accesses("global", "load").scalars == 0
    assert [copy.threads for copy in copies] == [256, 256]


@pytest.mark.parametrize(
    ("shape", "kernels"), [((50, 37, 32), 2), ((50, 64, 32), 1), ((64, 64, 32), 1)]
)
def test_what_needs_no_padding_is_not_copied(shape: tuple[int, ...], kernels: int) -> None:
    m, n, k = shape
    """Rows of whole vectors get zeros as their tiles are fetched, still in vectors."""
    *_, last = found = find_kernels("copy", m=m, n=n, k=k)
    assert len(found) == kernels
    assert last.get_accesses("global", "load").scalars == 0


@pytest.mark.share(18)
@pytest.mark.parametrize("tail", ["refuse", "copy", "pad"])
@pytest.mark.parametrize(
    "dtype", ["float8_e4m3fn", "float8_e5m2", "int8", "float16", "bfloat16", "float32"]
)
def test_tiles_of_every_type_are_transposed_in_the_generated_source(dtype: str, tail: str) -> None:
    """CUDA's vectors of float8 have no elements that one could put into different rows."""
    sizes = {**SIZES, "tail": tail}
    shape, options = {"m": 32, "n": 32, "k": 32}, {"dtype": dtype}
    run = run_recipe(RECIPES["matmul_prefetched"], shape, options=options, config=sizes)
    module = run.steps[-1].module
    assert check_numbers(run.problem, module, get_device("simulator"), where="here") == []
    try:
        facts = compile_facts(get_facts(module).source, "sm_90a")
    except CheckError as error:
        pytest.skip(str(error))
    assert facts.refusal is None
