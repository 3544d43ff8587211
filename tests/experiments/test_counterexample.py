"""The script of a counterexample: what it takes from the file of the pass, and how it is run."""

import functools
import inspect
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.tirx import Evaluate

from tirstep.experiments import (
    Corpus,
    Edit,
    Experiment,
    ExperimentError,
    counterexample,
    emulator,
)
from tirstep.experiments.counterexample import read_source
from tirstep.experiments.editing import get_pass
from tirstep.experiments.hunting import (
    HuntState,
    TrialRecord,
    shrink_subject,
    try_subject,
    write_counterexample,
)
from tirstep.experiments.subject import make_subject
from tirstep.experiments.user_file import load_value
from tirstep.strategies.program_text import parse_program

SEVERAL_IMPORTS = '''
"""A pass."""
from __future__ import annotations

from typing import TYPE_CHECKING

import tvm

if TYPE_CHECKING:
    from tirstep.experiments import Declaration

try:
    from tirstep.experiments import (
        pass_experiment,
    )
except ImportError:
    pass_experiment = None


@pass_experiment(after="s_tir.ThreadSync")
def mine(module: Unknown) -> Declaration:
    return module
'''


def load(text: str) -> dict:
    names: dict = {"__name__": "own_pass"}
    exec(compile(text, "own_pass.py", "exec"), names)
    return names


def test_imports_of_tirstep_go_and_leave_whole_blocks(tmp_path: Path):
    file = tmp_path / "mine_alone.py"
    file.write_text(SEVERAL_IMPORTS)
    source = read_source(file, "mine")
    assert "pass_experiment(" not in source.text
    assert (source.needs_tirstep, source.module) == (False, "")
    assert load(source.text)["mine"](3) == 3  # its annotations stay texts


@pytest.mark.parametrize(
    "line",
    ["import tvm, tirstep.experiments", "import tvm; from tirstep.experiments import Edit"],
)
def test_an_import_beside_others_stays(tmp_path: Path, line: str):
    file = tmp_path / "mine_beside.py"
    file.write_text(f"{line}\n\ndef mine(module):\n    return module\n")
    source = read_source(file, "mine")
    assert source.text.startswith(f"{line}\n")
    assert source.needs_tirstep
    assert source.needs == ", NumPy, tirstep"


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
def test_a_pass_that_imports_its_neighbours_is_imported(tmp_path: Path, is_package: bool):
    """The program has a number among its parameters, whose names are in no order; and the place is
    spelt as people spell it.
    """
    folder = tmp_path / f"leaning_{is_package}"
    folder.mkdir()
    if is_package:
        (folder / "__init__.py").touch()
    (folder / "neighbour.py").write_text(NEIGHBOUR)
    name = ".neighbour" if is_package else "neighbour"
    (folder / f"leans_{is_package}.py").write_text(LEANS.replace("NEIGHBOUR", name))
    source = read_source(folder / f"leans_{is_package}.py", "swap")
    module = f"{folder.name}.leans_True" if is_package else "leans_False"
    assert (source.module, source.text) == (module, "")

    value = load_value(f"{folder / f'leans_{is_package}.py'}:swap")
    edit = Edit("before", "vectorizeloop", get_pass(value, "swap"))
    subject = make_subject("scalar", parse_program(SCALAR))
    with Experiment("swap", [edit]) as experiment:
        found = try_subject(experiment, subject)
        record = TrialRecord(0, "", "scalar", found.status, found.reason, found.kind)
        small = shrink_subject(experiment, subject, record, seconds=20)
    assert small is not None
    path = tmp_path / "wrong.py"
    small = write_counterexample(small, [edit], source, "swap", path)
    assert small.is_shown, small.last_line
    assert " elements of C, with" in small.last_line
    assert f"the module {module} of " in path.read_text()


WARP = """
@T.prim_func
def main(A: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
    for t in T.thread_binding(2, thread="threadIdx.x"):
        S = T.alloc_buffer((2,), "int32", scope="shared")
        S[t] = A[t]
        C[t] = S[1 - t]
"""


def test_the_barrier_of_a_warp_is_none_to_a_script():
    """TVM makes no code of it for CUDA, so that the simulator finds a race there."""

    def weaken(module: tvm.IRModule) -> tvm.IRModule:
        weak = Evaluate(tvm.tirx.call_intrin("int32", "tirx.tvm_storage_sync", "warp"))

        def change(node: Evaluate) -> Evaluate:
            return weak if "storage_sync" in str(node.value) else node

        return tvm.IRModule({"main": tvm_ffi.structural_map(module["main"], (Evaluate, change))})

    edit = Edit("after", "s_tir.ThreadSync", get_pass(weaken, "weaken"))
    subject = make_subject("warp", parse_program(WARP))
    with Experiment("weaken", [edit]) as experiment:
        found = try_subject(experiment, subject)
        assert found.kind == "race"
        record = TrialRecord(0, "", "warp", found.status, found.reason, found.kind)
        small = shrink_subject(experiment, subject, record, seconds=10)
    assert small is not None


COUNTS = """
@T.prim_func
def main(A: T.Buffer((3,), "int32"), n: T.int32, C: T.Buffer((3,), "int32")):
    x = T.alloc_buffer((1,), "int32")
    for i in range(3):
        x[0] = A[i]
        C[i] = n
        while x[0] > 0:
            x[0] = x[0] - 1
            C[i] = C[i] + 2
"""


def test_the_emulator_runs_while_and_takes_numbers():
    flat = tvm.tirx.transform.FlattenBuffer()(parse_program(COUNTS))
    arrays = [np.array([2, -1, 5], "int32"), np.array(7, "int32"), np.zeros(3, "int32")]
    emulator.emulate(flat["main"], arrays)
    assert arrays[2].tolist() == [11, 7, 17]


def test_a_state_is_of_one_text_of_a_pass(tmp_path: Path):
    """What the pass did before it was changed is no answer."""
    path, corpus = tmp_path / "state.jsonl", Corpus(0)
    HuntState(path, "mine", corpus, "one text").add(TrialRecord(0, "program", "", "wrong"))
    assert HuntState(path, "mine", corpus, "one text").records[0].status == "wrong"
    for digest in ("another text", ""):
        with pytest.raises(ExperimentError, match="is of another text of this pass"):
            HuntState(path, "mine", corpus, digest)
    with pytest.raises(ExperimentError, match="is of another search"):
        HuntState(path, "another", corpus, "one text")


@pytest.mark.parametrize(
    ("returned", "told"),
    [("None", "it returns nothing; let it return an IRModule"), ("3", "a value of type int; let")],
)
def test_a_pass_that_returns_no_module_is_told_so(returned: str, told: str):
    edit = Edit("after", "s_tir.ThreadSync", get_pass(eval(f"lambda module: {returned}"), "mine"))
    with Experiment("mine", [edit]) as experiment:
        found = try_subject(experiment, make_subject("scalar", parse_program(SCALAR)))
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
    """Here, and in the script of a counterexample, where tirstep may be missing."""
    space: dict[str, object] = {"tvm": tvm, "inspect": inspect}
    text = inspect.getsource(counterexample)
    exec(text[text.index("def get_pass(made):") : text.index("def list_whole(made):")], space)
    for make in (get_pass, space["get_pass"]):
        assert make(value)(tvm.IRModule()).attrs["factor"] == 2


@pytest.mark.parametrize("value", [Needing, lambda module, context: module, 3])
def test_what_needs_more_is_no_pass(value: object):
    with pytest.raises(ExperimentError, match="is no pass; give a pass of TVM"):
        get_pass(value, "mine")
