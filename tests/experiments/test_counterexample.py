"""A pass as people write it: what is one, and the script that shows where it is wrong."""

import functools
from pathlib import Path

import pytest
import tvm

from tirstep.experiments import (
    Edit,
    Experiment,
    ExperimentError,
    make_subject,
    show_counterexample,
    try_change,
)
from tirstep.experiments.editing import get_pass
from tirstep.experiments.promises import load_experiment
from tirstep.experiments.shrinking import find_counterexample
from tirstep.strategies.drawn_programs import parse_program

NEIGHBOUR = """
import tvm_ffi
import tvm

def change(module, kind, how):
    functions = module.functions_items()
    return tvm.IRModule({n.name_hint: tvm_ffi.structural_map(f, (kind, how)) for n, f in functions})
"""
LEANS = """
from tvm.tirx import Sub
from NEIGHBOUR import change

def swap(module):
    return change(module, Sub, lambda node: Sub(node.b, node.a))
"""
SCALAR = """
@T.prim_func
def main(Z: T.Buffer((4,), "float32"), s: T.float32, C: T.Buffer((4,), "float32")):
    for i in range(4):
        C[i] = Z[i] - s
"""


@pytest.mark.parametrize("is_package", [False, True])
def test_a_script_takes_a_pass_with_its_neighbours(
    tmp_path: Path, is_package: bool, capsys: pytest.CaptureFixture[str]
):
    """The program has a number among its parameters, whose names are in no order; and the place is
    spelt as people spell it.
    """
    folder = tmp_path / f"leaning_{is_package}"
    folder.mkdir()
    if is_package:
        (folder / "__init__.py").touch()
    (folder / "neighbour.py").write_text(NEIGHBOUR)
    name = ".neighbour" if is_package else "neighbour"
    file = folder / f"leans_{is_package}.py"
    file.write_text(LEANS.replace("NEIGHBOUR", name))
    path, subject = tmp_path / "wrong.py", make_subject("scalar", parse_program(SCALAR))
    experiment = load_experiment("before", "vectorizeloop", f"{file}:swap")
    small = find_counterexample(experiment, [subject], path, seconds=20)
    assert small is not None
    assert small.is_shown, small.last_line
    assert "C[0] is " in small.last_line
    assert f"{file.resolve()}:swap" in path.read_text()
    (folder / "mended.py").write_text("def swap(module):\n    return module\n")
    spec = f"{folder}/mended.py:swap"
    assert show_counterexample(SCALAR, "before", "VectorizeLoop", spec) == 0
    assert "unchanged" in capsys.readouterr().out


TOTAL = """
@T.prim_func
def main(Z: T.Buffer((4,), "float32"), C: T.Buffer((1,), "float32")):
    for i in range(4):
        C[0] = C[0] - Z[i]
"""


def test_a_parameter_of_one_element_is_made_small(tmp_path: Path):
    """TVM prints its element as its name, which TVM does not parse."""
    (tmp_path / "swap.py").write_text(
        (NEIGHBOUR + LEANS).replace("from NEIGHBOUR import change", "")
    )
    experiment = load_experiment("before", "tirx.VectorizeLoop", f"{tmp_path}/swap.py:swap")
    subject = make_subject("total", parse_program(TOTAL))
    small = find_counterexample(experiment, [subject], tmp_path / "wrong.py", seconds=20)
    assert small is not None
    assert small.is_shown, small.last_line


@pytest.mark.parametrize(
    ("returned", "told"),
    [("None", "it returns nothing; let it return an IRModule"), ("3", "a value of type int; let")],
)
def test_a_pass_that_returns_no_module_is_told_so(returned: str, told: str):
    edit = Edit("after", "s_tir.ThreadSync", get_pass(eval(f"lambda module: {returned}"), "mine"))
    experiment = Experiment("mine", edit)
    found = try_change(experiment, make_subject("scalar", parse_program(SCALAR)))
    assert found.status == "refused"
    assert told in found.reason


class Doubling:
    """A pass as a class: called with a module, it returns one."""

    def __init__(self, factor: int = 2) -> None:
        self.factor = factor

    def __call__(self, module: tvm.IRModule) -> tvm.IRModule:
        return module.with_attr("factor", self.factor)


class Needing:
    def __init__(self, factor: int) -> None: ...

    def __call__(self, module: tvm.IRModule) -> tvm.IRModule:
        return module


@pytest.mark.parametrize(
    "value", [Doubling, Doubling(), functools.partial(Doubling.__call__, Doubling())]
)
def test_what_is_called_with_a_module_is_a_pass(value: object):
    assert get_pass(value)(tvm.IRModule()).attrs["factor"] == 2


@pytest.mark.parametrize("value", [Needing, lambda module, context: module, 3])
def test_what_needs_more_is_no_pass(value: object):
    with pytest.raises(ExperimentError, match="is not a pass; give a pass of TVM, a function"):
        get_pass(value, "mine")
