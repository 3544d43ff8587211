"""A user's kernel or module in the bench: its recipes, its own function of tensors, dlight."""

import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
from fake_machine import FakeMachine
from own_files import write_programs

from tirstep.bench.cases import CaseChoice
from tirstep.bench.compile_pool import find_recipe_of
from tirstep.bench.session import Settings, run_bench
from tirstep.cli import main
from tirstep.cli.bench import plan_all
from tirstep.modules import KernelError
from tirstep.programs.benching import find_peer, plan_program
from tirstep.programs.naming import ProgramError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    write_programs(tmp_path)
    with (tmp_path / "kern.py").open("a") as file:
        file.write("\n\nTORCH = {'twice': lambda a: a + a}\n")
    yield tmp_path
    for name in ("kern", "mine"):
        sys.modules.pop(name, None)


def test_a_kernel_with_its_peers():
    (case,), _ = plan_program("kern.py:twice")
    assert (case.problem.shape, [it.name for it in case.recipes]) == ({"n": 4096}, ["twice_bound"])
    assert [peer.name for peer in case.peers] == ["torch", "dlight"]
    launch = case.peers[0].functions([3], None, case.problem)
    assert launch() == 6
    cases, _ = plan_program("kern.py:twice", [(64,), (96,)], "float16")
    assert [dict(it.problem.shape) for it in cases] == [{"n": 64}, {"n": 96}]
    assert cases[0].problem.options["dtype"] == "float16"


def test_a_module_is_measured_beside_names():
    planned = plan_all(CaseChoice(["mine.py", "relu"], quick=True), None)
    assert [case.problem.kernel.name for case in planned][-1] == "Mine"
    assert planned[0].problem.kernel.name == "relu"
    assert [peer.name for peer in planned[-1].peers] == ["dlight"]


@pytest.mark.parametrize("text", ["kern.py:twice", "mine.py"])
def test_it_runs(machine: FakeMachine, tmp_path: Path, text: str):
    machine.peers = {"torch": lambda a: a + a, "dlight": lambda a: a + a}
    cases, _ = plan_program(text)
    *_, run = run_bench(cases, machine, Settings(rounds=2), lambda line: None)
    (case,) = run.cases
    outcomes = {outcome.candidate: outcome for outcome in case.outcomes}
    assert case.dtype == "float32"
    name = cases[0].recipes[0].name
    assert {it.name for it in (*cases[0].recipes, *cases[0].peers)} == set(outcomes)
    assert outcomes[name].status == "ok", outcomes[name].note


def test_another_process_finds_the_recipe():
    assert find_recipe_of("kern.py:twice_bound").name == "twice_bound"


def test_what_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(KernelError, match="twice: 2 sizes are given, and it has 1: n"):
        plan_program("kern.py:twice", [(3, 4)])
    with pytest.raises(ProgramError, match="Mine has no option dtype"):
        plan_program("mine.py", dtype="float16")
    (folder / "wrong.py").write_text((folder / "kern.py").read_text() + "\nTORCH = [3]\n")
    with pytest.raises(ProgramError, match=r"wrong.py:\d+: TORCH is not a dict of functions"):
        plan_program("wrong.py")
    assert main(["bench", "kern.py", "--recipe", "twice_bound"]) == 2
    assert "give kern.py:NAME instead" in capfd.readouterr().err
    assert main(["bench", "relu", "--function", "main"]) == 2


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch is installed, as far as peers ask."""
    torch = types.ModuleType("torch")
    torch.__spec__ = ModuleSpec("torch", None)
    monkeypatch.setitem(sys.modules, "torch", torch)


SEARCH = ("search", "kern.py:twice_bound", "--shape", "96")


@pytest.mark.usefixtures("no_farm", "fake_torch")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("a + a", "ratio    2.000 times as fast as torch"),
        ("2 * a + 1", "torch: computes something else: C[0] is -51421, and float64 has -51422"),
        ("a + b", "torch: does not run: NameError: name 'b' is not defined"),
    ],
)
def test_a_search_ends_with_the_file_s_own_function(
    folder: Path,
    machine: FakeMachine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    function: str,
    said: str,
):
    monkeypatch.setattr("tirstep.cli.search.make_machine", lambda command: machine)
    file = folder / "kern.py"
    file.write_text(file.read_text().replace("lambda a: a + a}", f"lambda a: {function}}}"))
    machine.seconds = [1e-3, 2e-3]  # of 32 threads and of the peer: 64 do not divide 96
    assert main([*SEARCH]) == 0
    assert said in capsys.readouterr().out


def test_a_worker_of_a_cluster_has_the_file_s_kernel_and_function(machine: FakeMachine):
    pytest.importorskip("ray", reason="the extra cluster: Ray is not installed")
    from tirstep.bench.ray_workers import GpuWorker

    made = GpuWorker("kern.py:twice_bound", {"n": 96}, Settings(), 60, 1, lambda: machine).plan
    assert (made.recipe.spelling, made.problem.kernel.name) == ("kern.py:twice_bound", "twice")
    assert made.peer.functions([3], None, made.problem)() == 6
    (case,), _ = plan_program("mine.py")
    assert find_peer(case.recipes[0]).name == "dlight"


NUMBERED = """
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Numbered:
    @T.prim_func(s_tir=True)
    def main(n: T.int32, a: T.handle, f: T.float32, b: T.handle):
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.sblock("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * f + T.Cast("float32", n)


def bound(sch):
    (loop,) = sch.get_loops(sch.get_sblock("B"))
    outer, inner = sch.split(loop, [None, 8])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")


TORCH = {"Numbered": lambda n, a, f: a * f + n}
"""


@pytest.mark.usefixtures("fake_torch")
def test_numbers_among_the_parameters_are_numbers(folder: Path, machine: FakeMachine):
    (folder / "numbered.py").write_text(NUMBERED)
    machine.peers = {"dlight": lambda n, a, f: a * np.float32(f) + n}
    cases, _ = plan_program("numbered.py:bound", [(37,)])
    *_, run = run_bench(cases, machine, Settings(rounds=2), lambda line: None)
    outcomes = {outcome.candidate: outcome for outcome in run.cases[0].outcomes}
    named = {name: each.status for name, each in outcomes.items()}
    assert named == dict.fromkeys(("bound", "torch", "dlight"), "ok"), outcomes
