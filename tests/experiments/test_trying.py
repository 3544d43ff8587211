"""Where a module is run with a change of the pipeline: behind that change, and not for ever."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm_ffi import structural_map

from tirstep.cli.pass_ import list_subjects
from tirstep.experiments import Edit, Experiment, trying
from tirstep.experiments.editing import get_pass
from tirstep.experiments.promises import attempt_change
from tirstep.experiments.trying import (
    UNJUDGED,
    DeviceVerdict,
    ModuleOracle,
    make_subject,
    try_change,
)
from tirstep.strategies.drawn_programs import parse_program

TUTORIAL = Path(__file__).resolve().parents[2] / "examples/tutorial/mm_relu.py"


def make_experiment(kind: Any, change: Any, *place: str) -> Experiment:
    """Of a pass that maps all nodes of a kind."""

    def run(module: tvm.IRModule) -> tvm.IRModule:
        functions = {
            name: structural_map(function, (kind, change))
            for name, function in module.functions_items()
        }
        return tirx.transform.ConvertSSA()(tvm.IRModule(functions, attrs=module.attrs))

    where, anchor = place or ("before", "tirx.VectorizeLoop")
    return Experiment("change", Edit(where, anchor, get_pass(run, "change")))


def run(*modules: str, drop: str) -> list[DeviceVerdict]:
    """The verdicts on the last step of some modules, without a pass of TVM's."""
    edit = Edit("drop", drop)
    subjects, _ = list_subjects(modules, 0, edit)
    experiment = Experiment("drop", edit)
    return list(try_change(experiment, subjects[-1], devices=("cpu",)).verdicts)


def test_a_state_in_front_of_the_change_is_no_answer():
    """What can be interpreted of it stands before StorageRewrite, where nothing was dropped yet."""
    interpreted, run_on_cpu = run(f"{TUTORIAL}:for_cpu", drop="tirx.StorageRewrite")
    assert interpreted.after is None
    assert "too much to interpret" in interpreted.note
    assert run_on_cpu.before == run_on_cpu.after == ()


def test_a_state_behind_the_change_is_one():
    (verdict, _) = run("window_sum_shared", drop="tirx.StorageRewrite")
    assert (verdict.device, verdict.before, verdict.after) == ("simulator", (), ())


def test_a_run_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trying, "SECONDS", 0.0)
    (verdict, _) = run("window_sum_shared", drop="tirx.StorageRewrite")
    assert verdict.before is None
    assert verdict.note == "it takes more than 0 s to run"


def test_a_pass_that_drops_the_function_is_refused():
    """Nothing can be run behind it, which is no reason to say that nothing is known."""
    edit = Edit("after", "tirx.FlattenBuffer", get_pass(lambda module: tvm.IRModule({}), "drop"))
    subjects, _ = list_subjects(["window_sum_shared"], 0)
    experiment = Experiment("drop", edit)
    found = try_change(experiment, subjects[0])
    reason = "the module has no function 'main' after it"
    assert (found.status, found.what, found.reason) == ("refused", "refused", reason)


STORES = """
# from tvm.script import tirx as T
@T.prim_func
def main(C: T.Buffer((4,), "int32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        S = T.alloc_buffer((4,), "int32", scope="shared")
        S[(tx + 1) % 4] = 7
        U = T.alloc_buffer((4,), "int32", scope="shared")
        C[tx] = 0
        for i in range(2):
            U[tx] = i + tx
            C[tx] = C[tx] + U[0]
"""
CHOICE = """
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    T.func_attr({"tirstep.ends": ["A"]})
    for i in range(64):
        C[i] = T.Select(A[i] < T.float32(1.0), T.float32(3.0), T.float32(5.0))
"""


def peel(loop: tirx.For) -> tirx.Stmt:
    """A short loop's iterations, one after the other."""
    if loop.kind != tirx.ForKind.SERIAL or loop.loop_var.name != "i":
        return loop

    def copy(at: int) -> tirx.Stmt:
        def bind(it: tirx.Var) -> Any:
            return tirx.const(at, "int32") if it.same_as(loop.loop_var) else it

        return structural_map(loop.body, (tirx.Var, bind))

    return tirx.SeqStmt([copy(0), copy(1)])


OVERWRITTEN = """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    P = T.alloc_buffer((4,), "float32")
    Y = T.alloc_buffer((4,), "float32")
    for i in range(4):
        P[i] = A[i]
    for i in range(4):
        Y[i] = T.float32(0)
        Y[i] = Y[i] + P[i] * T.float32(3)
    for i in range(4):
        C[i] = Y[i]
"""


def store_in_one_place(store: tirx.BufferStore) -> tirx.Stmt:
    if store.buffer.scope() != "shared":
        return store
    return tirx.BufferStore(store.buffer, store.value, [tirx.const(0, "int32")])


@pytest.mark.parametrize(
    ("program", "kind", "change", "status"),
    [
        # StorageRewrite gives U the memory of S, and ThreadSync orders no store after a store.
        (STORES, tirx.For, peel, "unjudged"),
        (STORES, tirx.BufferStore, store_in_one_place, "wrong"),
        # TVM makes `1 <= A[i]` of `not A[i] < 1`, which it is not for a NaN.
        (
            CHOICE,
            tirx.Select,
            lambda it: tirx.Select(tirx.Not(it.condition), it.false_value, it.true_value),
            "unjudged",
        ),
        (
            CHOICE,
            tirx.Select,
            lambda it: tirx.Select(it.condition, it.false_value, it.true_value),
            "wrong",
        ),
        # StorageRewrite computes Y in the place of P, where Y is stored before P is read.
        (OVERWRITTEN, tirx.Mul, lambda it: it.a, "wrong"),
        (OVERWRITTEN, tirx.Add, lambda it: it.b, "unjudged"),
    ],
)
def test_what_tvm_spoils_behind_a_pass_is_no_fault_of_it(
    program: str, kind: type, change: Callable[[Any], Any], status: str
):
    it = make_experiment(kind, change)
    found = try_change(it, make_subject("a program", parse_program(program)))
    assert found.status == status
    assert found.reason.startswith("TVM's passes after it change the") == (status == "unjudged")


def test_a_change_of_the_host_s_part_is_judged_by_the_cpu():
    """Nothing of it is interpreted."""

    def swap(it: tirx.Select) -> tirx.Select:
        return tirx.Select(it.condition, it.false_value, it.true_value)

    def run(function: tirx.PrimFunc, _module: tvm.IRModule, _context: Any) -> tirx.PrimFunc:
        return structural_map(function, (tirx.Select, swap))

    swaps = tirx.transform.prim_func_pass(run, opt_level=0, name="swaps")
    subject = make_subject("choice", parse_program(CHOICE.replace('["A"]', "[]")))
    experiment = Experiment("swaps", Edit("after", "tirx.LowerIntrin", swaps))
    assert try_change(experiment, subject).status == UNJUDGED
    found = attempt_change(experiment, subject)
    assert found["status"] == "wrong"
    assert found["reason"].startswith("cpu: C[")


IN_PLACE = """# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(7):
        B[i + 1] = A[i + 1] - A[i]
    for i in range(7):
        A[i + 1] = B[i + 1] * T.float32(0.5)
"""
"""A program whose argument is an input and an output."""


def test_a_program_that_works_in_place_is_its_own_reference():
    """What it loads of its argument before it stores there is what the caller gave."""
    experiment = Experiment("nothing", Edit("drop", "tirx.StmtSimplify"))
    trial = try_change(experiment, make_subject("in place", parse_program(IN_PLACE)))
    assert trial.status in ("right", "unchanged"), trial.reason
    oracle = ModuleOracle(parse_program(IN_PLACE), 0)
    assert (oracle.expected[1][1:] == np.diff(oracle.arguments[0])).all()


COUNTED = """# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    N = T.alloc_buffer((1,), "int32", scope="local")
    N[0] = 0
    while N[0] < 8:
        B[N[0]] = A[N[0]]
        N[0] = N[0] + 1
"""


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (lambda it: it.a, "wrong", "endless loop: an iteration of a while loop changes nothing"),
        (lambda it: it.b - it.a, "unjudged", "a while loop does not end within 20000"),  # 0, 1, 0
    ],
)
def test_a_loop_that_a_pass_makes_endless_is_run_on_no_device(
    change: Callable[[Any], Any], status: str, reason: str
):
    it = make_experiment(tirx.Add, change)
    found = try_change(it, make_subject("a program", parse_program(COUNTED)), devices=("cpu",))
    assert found.status == status
    assert reason in found.reason


SQUARED = """from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16, 4), "float32")):
    for i in range(16):
        for v in T.vectorized(4):
            C[i, v] = A[i] * A[i] + C[i, v] * C[i, v]
"""


def test_a_program_without_a_judge_is_left_out(tmp_path: Path):
    """And ends no run over others; here rounding errors may grow without bound."""
    path = tmp_path / "mine.py"
    path.write_text(SQUARED)
    (subject,), _ = list_subjects([f"{path}:main"], 0)
    lowering = trying.lower_through_passes(subject.module, subject.target)
    findings, reason = trying._check(subject, trying.LoweredDevice(subject.target, lowering))
    assert findings is None
    assert "cannot be judged" in reason


SELECT = """# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        if i % 4 != 0:
            B[i] = A[i] // (i % 4)
        else:
            B[i] = A[i]
"""


def test_llvm_computes_both_values_of_a_choice():
    """A pass behind the one that makes choices safe must not make new ones that are not."""

    def choose(branch: Any) -> Any:
        one, other = branch.then_case, branch.else_case
        value = tirx.Select(branch.condition, one.value, other.value)
        return tirx.BufferStore(one.buffer, value, one.indices)

    experiment = make_experiment(tirx.IfThenElse, choose, "after", "s_tir.RewriteUnsafeSelect")
    trial = try_change(experiment, make_subject("choice", parse_program(SELECT)))
    assert trial.status == "wrong"
    assert "division by zero" in trial.reason


def test_what_passes_within_a_pass_change_is_its_change():
    """The inner ones work on the module that it was given, one after the other."""

    @tirx.transform.prim_func_pass(opt_level=0, name="quarter")
    def quarter(function: Any, _module: Any, _context: Any) -> Any:
        return structural_map(function, (tirx.FloatImm, lambda _: tirx.const(0.25, "float32")))

    def run_both(module: tvm.IRModule) -> tvm.IRModule:
        return tirx.transform.ConvertSSA()(quarter(module))

    edit = Edit("before", "tirx.VectorizeLoop", get_pass(run_both, "quarter"))
    experiment = Experiment("quarter", edit)
    trial = try_change(experiment, make_subject("half", parse_program(IN_PLACE)))
    assert (trial.is_changed, trial.status) == (True, "wrong")


POWERS = """from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((4, 16), "float32"), C: T.Buffer((4, 16), "float32")):
    for i, j in T.grid(4, 16):
        C[i, j] = T.exp(A[i, j] - A[i, 0])
"""


TOTAL = """from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((100,), "uint8"), Y: T.Buffer((1,), "uint8")):
    for k in range(100):
        Y[0] = T.max(Y[0] + A[k], T.uint8(3))
"""


def take_apart(call: Any) -> Any:
    is_exp = call.op.name == "tirx.exp"
    return tirx.exp(call.args[0].a) / tirx.exp(call.args[0].b) if is_exp else call


def saturate(sum: Any) -> Any:
    is_byte = str(sum.ty.dtype) == "uint8"
    return tirx.Select(sum < sum.a, tirx.const(255, "uint8"), sum) if is_byte else sum


@pytest.mark.parametrize(
    ("program", "kind", "change"),
    [
        # Small numbers alone tell exp(a - b) from exp(a) / exp(b) nowhere.
        (POWERS, tvm.ir.Call, take_apart),
        # The first numbers do not wrap around; that Y is loaded first is no end of their tries.
        (TOTAL, tirx.Add, saturate),
    ],
)
def test_a_users_program_is_tried_on_special_values(
    program: str, kind: type, change: Callable[[Any], Any], tmp_path: Path
):
    path = tmp_path / "mine.py"
    path.write_text(program)
    experiment = make_experiment(kind, change)
    (subject,), _ = list_subjects([f"{path}:main"], 0, experiment.edit)
    trial = try_change(experiment, subject)
    assert (trial.status, trial.what) == ("wrong", "numbers"), trial.reason


def test_the_bits_of_nan_are_nobodys_promise(monkeypatch: pytest.MonkeyPatch):
    subject = make_subject("in place", parse_program(IN_PLACE))
    lowered = (trying.lower_through_passes(subject.module, subject.target),) * 2
    trial = trying.Trial(subject, "right", lowered=lowered)
    given = [[np.array([np.nan, 0.0])], [np.array([-np.nan, 0.0])], [np.array([np.nan, -0.0])]]
    for other, is_same in zip(given, (True, True, False), strict=True):
        results = iter([given[0], other])
        program = trying.Program(lambda _, results=results: (next(results), ()))
        monkeypatch.setattr(trying.LoweredDevice, "compile", lambda *_, made=program: made)
        assert trying.have_same_bits(trial) is is_same


HISTOGRAM = """# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "int32"), H: T.Buffer((8,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.cuda.atomic_add(T.address_of(H[tx % 8]), A[bx * 32 + tx]))
"""


def test_an_atomic_operation_takes_the_argument_that_is_there():
    """A change that only an addition to what H holds shows: of what is added, the double."""

    def double(call: Any) -> Any:
        if "atomic" not in str(call.op):
            return call
        arguments = [call.args[0], call.args[1] * 2]
        return tvm.ir.Call(call.op, arguments, call.attrs, ret_ty=call.ty)

    experiment = make_experiment(tvm.ir.Call, double)
    trial = try_change(experiment, make_subject("histogram", parse_program(HISTOGRAM)))
    assert (trial.status, trial.what) == ("wrong", "numbers"), trial.reason


RATIOS = """from tvm.script import tirx as T
@T.prim_func
def main(
    A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")
):
    for i in range(64):
        C[i] = T.Select(A[i] / B[i] < T.float32(2), A[i], B[i])
"""


def test_a_program_that_tvm_alone_gets_wrong_of_nan_is_judged_on_numbers(tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(RATIOS)  # whose signs the change forgets
    experiment = make_experiment(tirx.LT, lambda it: tirx.LT(it.a.a, it.b * it.a.b))
    (subject,), _ = list_subjects([f"{path}:main"], 0, experiment.edit)
    trial = try_change(experiment, subject)
    assert (trial.status, trial.what) == ("wrong", "numbers"), trial.reason
