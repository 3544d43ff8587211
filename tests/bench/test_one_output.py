"""What the bench cannot hold against a reference is refused before anything is timed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from foreign_modules import MODULES

from tirstep.bench.candidates import require_one_output
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.modules import KernelError, get_kernel
from tirstep.programs.benching import plan_program

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.parametrize(
    ("name", "written"), [("Argmax", "index, value"), ("OutputFirst", "Y, total")]
)
def test_several_outputs_are_refused(name: str, written: str) -> None:
    problem = ModuleKernel(MODULES[name], name).problem()
    with pytest.raises(KernelError, match=f"{name}: timings need .* it writes {written}; check it"):
        require_one_output(problem)


@pytest.mark.parametrize("name", ["MatmulRelu", "Int8Conv"])
def test_an_output_that_is_last_is_taken(name: str) -> None:
    taken = [ModuleKernel(MODULES[name], name).problem(), get_kernel("matvec").problem(4, 5)]
    assert [require_one_output(problem) for problem in taken] == [None, None]


def test_a_file_with_such_a_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(SUPPORT)])
    Path("two_outputs.py").write_text("import foreign_modules\n\nMine = foreign_modules.Argmax\n")
    with pytest.raises(KernelError, match="it writes index, value"):
        plan_program("two_outputs.py")
    text = Path("two_outputs.py").read_text() + 'Other = foreign_modules.MODULES["MatmulRelu"]\n'
    Path("both.py").write_text(text)
    left_out: list[str] = []
    (case,) = plan_program("both.py", left_out=left_out)
    assert case.problem.kernel.name == "Other"
    (sentence,) = left_out
    assert sentence.startswith("Mine: timings need tensors with one output")
