"""``tirstep pass``: what a pass does to recipes, files and the corpus."""

import functools
import re
import sys
from pathlib import Path

import pytest
import warm_python

from tirstep.experiments import shrinking

from .conftest import Command

ROOT = Path(__file__).resolve().parents[2]
WRONG = ROOT / "examples/passes/wrong_passes.py"
RIGHT = """
import tvm
from tvm.tirx.transform import StmtSimplify as Again

nothing = 3


def pipeline():
    from tirstep.experiments.editing import take_passes
    return take_passes()


def barrierless():
    from tirstep.experiments import take_passes
    return [each for each in take_passes() if each.info.name != "s_tir.ThreadSync"]


def hidden():
    @tvm.transform.module_pass(opt_level=0, name="all")
    def run(module, context):
        return tvm.transform.Sequential(barrierless())(module)
    return run


def explode(module):
    raise ValueError("it cannot be")
"""
MODULE = """
@T.prim_func
def double(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        if i < 7:
            C[i] = A[i + 1] - A[i]
        else:
            C[i] = A[i]
"""
SHARED = """
@T.prim_func
def turn(C: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_shared((4,), "int32")
        S[tx] = tx
        C[tx] = S[3 - tx]
"""
RAISING = """
import tvm
from tvm import tirx
from tvm_ffi import structural_map, structural_walk


class Found(Exception):
    pass


def rewrite(module, post):
    functions = {
        name.name_hint: structural_map(function, (tirx.For, post))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions)


def visits(module):
    def post(loop):
        return loop.nonsense
    return rewrite(module, post)


def walks(module):
    def post(loop):
        return loop.nonsense
    for _, function in module.functions_items():
        structural_walk(function.body, [(tirx.For, post)])


def forgets(module):
    return rewrite(module, lambda loop: None)


def mixes(module):
    def post(loop):
        return tirx.Evaluate(tirx.Add(loop.loop_var, tirx.const(1.0, "float32")))
    return rewrite(module, post)


def stops_early(module):
    def post(loop):
        raise Found
    for _, function in module.functions_items():
        try:
            structural_walk(function.body, [(tirx.For, post)])
        except Found:
            pass
    return module
"""
FILES = {"right.py": RIGHT, "module.py": MODULE, "shared.py": SHARED, "raising.py": RAISING}


def test_a_pass_that_changes_nothing_was_not_tested(command: Command, folder: Path):
    words = ["pass", f"{folder}/right.py:Again", "--after", "StmtSimplify", "relu_bound"]
    result = command(*words)
    assert (result.code, result.err) == (3, "")
    assert "Again after StmtSimplify" in result.out
    assert "2 modules: 2 unchanged" in result.out
    assert "nothing was tested: Again after StmtSimplify changes none of 2 modules; " in result.out
    assert command(*words, "--json").document["tested"] == 0


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("visits", "AttributeError: 'For' object has no attribute 'nonsense'"),
        ("walks", "AttributeError: 'For' object has no attribute 'nonsense'"),
        ("forgets", "TypeError: a callback returns None for a For; let it return the node itself "),
        ("mixes", "TypeError: Check failed: (a_ty->dtype == b_ty->dtype) is false: mismatched "),
    ],
)
def test_an_error_of_the_pass_s_own_ends_the_run_at_the_first_module(
    command: Command, folder: Path, name: str, told: str
):
    result = command("pass", f"raising.py:{name}", "--before", "tirx.UnrollLoop", "--corpus", 200)
    assert result.code == 1
    assert re.search(r"\n *refused\nprogram +1\n", result.out)  # of 200
    traceback = result.out.partition("Traceback (most recent call last):")[2]
    assert re.search(rf'File ".*raising.py", line \d+, in (post|{name}|<dictcomp>)', traceback)
    assert told in traceback
    assert "small" not in result.out


def test_a_step_that_no_smaller_program_shows_is_named(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(shrinking, "shrink_trial", lambda *_, **__: None)
    result = command("pass", f"{WRONG}:sort_operands", "module.py:double")
    assert result.code == 1
    assert re.search(r"\ndouble 00_input shows it, and no smaller program by itself", result.out)


def test_a_file_alone_is_told_its_passes(command: Command, folder: Path):
    declared = (
        "from tirstep.experiments import pass_experiment\n"
        "def helper(node): return node\n"
        '@pass_experiment(before="tirx.RemoveNoOp")\ndef mine(module): return module\n'
    )
    (folder / "alone.py").write_text(declared)
    result = command("pass", "alone.py", "--corpus", 1)
    assert result.code == 2
    assert "the pass has a name in it; give alone.py:mine" in result.err


def test_an_error_that_a_pass_catches_is_its_own_affair(command: Command, folder: Path):
    words = ["--before", "tirx.UnrollLoop", "module.py", "--json"]
    result = command("pass", "raising.py:stops_early", *words)
    assert (result.code, result.document["counts"]) == (3, {"unchanged": 1})


@pytest.mark.share(2)
def test_a_wrong_pass_is_told_with_a_script_that_shows_it(command: Command, folder: Path):
    result = command("pass", f"{WRONG}:sort_operands", "module.py:double", "--json")
    document = result.document
    assert result.code == 1
    assert not document["ok"]
    (module,) = document["modules"]
    assert module["status"] == "wrong"
    assert "+" in module["diff"]
    (first,) = module["devices"]  # no other runs what is wrong
    assert (first["device"], first["before"]) == ("interpreter", [])
    assert first["after"]
    found = document["counterexample"]
    assert found["shown"]
    assert found["lines"] <= 6
    script = folder / found["script"]
    done = warm_python.run([sys.executable, script], text=True)
    assert done.returncode == 1
    assert "WRONG: " in done.stdout


def test_a_file_of_another_hand_stays_and_is_told_before_the_work(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tirstep.experiments.try_change", lambda *_, **__: pytest.fail("worked"))
    (folder / "thesis").write_text("years")
    result = command("pass", f"{WRONG}:sort_operands", "module.py:double", "-o", "thesis")
    assert (result.code, result.out) == (2, "")
    assert "thesis is not a script of tirstep pass, and is kept; give " in result.err
    assert (folder / "thesis").read_text() == "years"


@pytest.mark.share(9)
def test_facts_that_differ_are_told(command: Command, folder: Path):
    result = command("pass", "--drop", "s_tir.ThreadSync", "window_sum_shared", "-o", "small.py")
    assert result.code == 1
    assert "barriers 1 → 0" in result.out
    assert "race: " in result.out
    assert "the script shows it: WRONG: " in result.out
    assert (folder / "small.py").exists()


def test_a_pass_that_raises_is_refused(command: Command, folder: Path):
    result = command(
        "pass", "right.py:explode", "--before", "tirx.UnrollLoop", "relu_bound", "--json"
    )
    assert result.code == 1
    assert {each["status"] for each in result.document["modules"]} == {"refused"}
    reason = result.document["modules"][0]["reason"]
    assert re.search(r"explode refuses the module: right\.py:\d+: ValueError: it cannot be", reason)


def test_a_whole_pipeline_takes_the_place_of_tvm_s(command: Command, folder: Path):
    result = command("pass", "--pipeline", "right.py:pipeline", "relu_bound", "--json")
    assert result.code == 3  # it is the same as TVM's
    assert result.document["counts"] == {"unchanged": 2}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", ["barrierless", "hidden"])
def test_a_wrong_pipeline_is_made_small_and_shown_by_a_script(
    command: Command, folder: Path, name: str
):
    words = ["pass", "--pipeline", f"right.py:{name}", "shared.py"]
    found = command(*words, "--json").document["counterexample"]
    assert found["shown"]
    assert found["last_line"].startswith("WRONG: ")
    assert found["lines"] <= 8
    done = warm_python.run([sys.executable, folder / found["script"]], capture_output=True)
    assert done.returncode == 1


@pytest.mark.share(12)
@pytest.mark.usefixtures("folder")
def test_the_corpus_is_searched_and_goes_on_from_a_trial(
    command: Command, monkeypatch: pytest.MonkeyPatch
):
    quick = functools.partial(shrinking.find_counterexample, seconds=6)
    monkeypatch.setattr(shrinking, "find_counterexample", quick)
    words = ["pass", f"{WRONG}:hoist_store", "--seed", 6, "--json"]
    result = command(*words, "--corpus", 2)
    assert result.code == 1
    assert len(result.document["trials"]) == 2
    assert result.document["counterexample"]["shown"]
    more = command(*words, "--corpus", 1, "--from", 2)
    assert [each["trial"] for each in more.document["trials"]] == [2]


@pytest.mark.parametrize("given", [["module.py"], ["--corpus", "3"]])
def test_an_interrupt_in_a_pass_ends_the_command(command: Command, folder: Path, given: list[str]):
    """It is no refusal of the module."""
    (folder / "hangs.py").write_text("def hangs(module):\n    raise KeyboardInterrupt\n")
    result = command("pass", "hangs.py:hangs", "--after", "tirx.FlattenBuffer", *given)
    assert result.code == 130
    assert "refused" not in result.out
