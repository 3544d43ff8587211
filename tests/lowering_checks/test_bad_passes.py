"""Nobody innocent is accused: wrong passes and wrong steps of many kinds, whose place is known.

Each must be named exactly, or lie between the two states that are named; what is right must not be
accused at all.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from types import FunctionType

import numpy as np
import planted_passes as broken
import pytest
import tvm
from golden_runs import run_golden
from kernels import parse_kernel
from planted_passes import NAME, Change, plant
from tvm import s_tir
from tvm.s_tir import Schedule

from tirstep.lowering_checks import Run, check_numbers, run_recipe
from tirstep.lowering_checks.bisect import (
    FirstBad,
    bisect_run,
    find_bad_pass,
    run_reproducer,
    write_reproducer,
)
from tirstep.lowering_checks.bisect.bisection import find_stages
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.lowering_checks.devices import DeviceError, find_unbound_sblocks
from tirstep.lowering_checks.devices.simulator import interpreter
from tirstep.transforms.recipes import find_recipe

GPU = "nvidia/nvidia-h100"


def make_run(
    name: str, shape: dict[str, int] | None = None, options: dict[str, object] | None = None
) -> Run:
    """A recipe at a shape, at the golden example's where none is given."""
    one = find_recipe(name)
    if shape is None:
        return run_golden(one)
    return run_recipe(one, shape, options=options, config=SIZES.get(name, {}))


SIZES = {
    "vector_add_bound": {"threads": 8, "tail": "guard"},
    "relu_bound": {"threads": 8, "tail": "guard"},
    "window_sum_shared": {"tail": "guard"},
    "row_sum_threads": {"threads": 32},
    "row_sum_naive": {"threads": 4, "tail": "guard"},
    "softmax_naive": {"threads": 4, "tail": "guard"},
    "layer_norm_naive": {"threads": 4, "tail": "guard"},
}
WINDOW = "window_sum_shared"
VECTOR = ("vector_add_bound", {"n": 24})
ODD = ("vector_add_bound", {"n": 21})
SUM = ("row_sum_naive", {"m": 8, "n": 6})
SOFTMAX = ("softmax_naive", {"m": 8, "n": 6})
NORM = ("layer_norm_naive", {"m": 8, "n": 6})
RELU = ("relu_bound", {"n": 24})


def ask_for(run: Run, pipeline: str) -> Run:
    """The run, each of whose steps asks for a pipeline."""

    def annotate(module: tvm.IRModule) -> tvm.IRModule:
        sch = Schedule(module)
        sch.annotate(sch.get_sblock("root"), "tir_pipeline", pipeline)
        return sch.mod

    return replace(run, steps=tuple(replace(it, module=annotate(it.module)) for it in run.steps))


def find_truth(found: FirstBad) -> int:
    """The number of the pass that was planted, in the step where it was found."""
    return number_of(found.step.module)


def number_of(module: tvm.IRModule) -> int:
    target = "llvm" if find_unbound_sblocks(module) else GPU
    passes = lower_through_passes(module, target).passes
    return next(step.number for step in passes if step.name == NAME and step.changed)


def require_truth_between(label: str, truth: int) -> None:
    first, last = (int(number) for number in re.findall(r"after pass (\d+)", label))
    assert first < truth <= last


def require_between(found: FirstBad, truth: int) -> None:
    """The pass of this number lies behind the right state and not behind the wrong one."""
    label = f"step {found.step.index:02d}_{found.step.name} "
    assert found.right.startswith(label)
    assert found.wrong.startswith(label)
    last_right = re.search(r"after pass (\d+)", found.right)
    assert (int(last_right.group(1)) if last_right else 0) < truth <= found.number


PLANTED: list[tuple[str, str, Change, tuple]] = [
    ("LowerCrossThreadReduction", "first", broken.subtract, VECTOR),
    ("LowerInitBlock", "constant", broken.change_constant, SUM),
    ("LowerInitBlock", "short", broken.shorten_loops, SUM),
    ("PlanAndUpdateBufferAllocationLocation", "store", broken.drop_store, VECTOR),
    ("ConvertBlocksToOpaque", "subtract", broken.subtract, VECTOR),
    ("ConvertBlocksToOpaque", "unbound", broken.subtract, SUM),
    ("CompactBufferAllocation", "operands", broken.swap_operands, NORM),
    ("UnifyThreadBinding", "maximum", broken.turn_maximum, RELU),
    ("LowerOpaqueBlock", "guard", broken.drop_guard, ODD),
    ("LowerOpaqueBlock", "shift", broken.shift_loads, SUM),
    ("FlattenBuffer", "slow", broken.and_sleep(broken.subtract), VECTOR),
    ("VectorizeLoop", "odd", broken.at_odd_shapes(broken.subtract), ODD),
    (
        "StorageRewrite",
        "float16",
        broken.in_float16(broken.subtract),
        (*VECTOR, {"dtype": "float16"}),
    ),
    ("LoopPartition", "operands", broken.swap_operands, SOFTMAX),
    ("UnrollLoop", "block", broken.spoil_one_block, VECTOR),
    ("UnrollLoop", "threads", broken.lose_threads, VECTOR),
    ("CommonSubexprElim", "maximum", broken.turn_maximum, SOFTMAX),
    ("AnnotateEntryFunc", "guard", broken.drop_guard, ODD),
    ("ThreadSync", "barriers", broken.drop_barriers, (WINDOW,)),
    ("LowerThreadAllreduce", "barriers", broken.drop_barriers, (WINDOW,)),
    ("MergeSharedMemoryAllocations", "subtract", broken.subtract, (WINDOW,)),
    ("SplitHostDevice", "block", broken.spoil_one_block, VECTOR),
    ("LowerWarpMemory", "store", broken.drop_store, VECTOR),
]


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("behind", "change", "of"),
    [(behind, change, of) for behind, _, change, of in PLANTED],
    ids=[f"{behind}-{name}" for behind, name, *_ in PLANTED],
)
def test_a_wrong_pass_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, behind: str, change: Change, of: tuple
) -> None:
    run = make_run(*of)
    plant(monkeypatch, behind, change)
    found = bisect_run(run).first_bad
    assert (found.kind, found.name, found.not_run) == ("pass", NAME, ())
    assert found.number == find_truth(found)
    sentences = {
        broken.drop_barriers: "with no barrier in between",
        broken.subtract: "elements are wrong",
    }
    assert sentences.get(change, "") in found.finding.message
    assert found.diff.removed
    write_reproducer(found, tmp_path / "why.py")
    compile((tmp_path / "why.py").read_text(), "why.py", "exec")


@pytest.mark.parametrize("change", [broken.subtract, broken.lose_threads, broken.spoil_one_block])
@pytest.mark.parametrize(("begin", "end"), [("FlattenBuffer", "UnrollLoop")])
def test_what_cannot_be_interpreted_is_between(
    monkeypatch: pytest.MonkeyPatch, change: Change, begin: str, end: str
) -> None:
    """Behind the wrong pass nothing can be run until a right one takes the obstacle away."""
    run = make_run(*VECTOR)
    plant(monkeypatch, begin, broken.hide(change))
    plant(monkeypatch, end, broken.unhide)
    found = bisect_run(run).first_bad
    assert found.kind == "between"
    assert any("stack_alloca" in text for text in found.not_run)
    require_between(found, find_truth(found))


RIGHT: list[tuple[str, Change, tuple]] = [
    ("LowerInitBlock", broken.sleep, VECTOR),
    ("LowerInitBlock", broken.rename, SUM),
    ("ConvertBlocksToOpaque", broken.commute, SUM),
    ("LowerOpaqueBlock", broken.rename, VECTOR),
    ("FlattenBuffer", broken.round_otherwise, SOFTMAX),
    ("UnrollLoop", broken.round_otherwise, NORM),
    ("UnrollLoop", broken.commute, (WINDOW,)),
    ("StorageRewrite", broken.in_float16(broken.subtract), VECTOR),
    ("VectorizeLoop", broken.at_odd_shapes(broken.subtract), VECTOR),
    ("LowerOpaqueBlock", broken.drop_guard, VECTOR),
    ("ThreadSync", broken.rename, (WINDOW,)),
]


@pytest.mark.share(9)
@pytest.mark.parametrize(
    ("behind", "change", "of"),
    RIGHT,
    ids=[f"{case[0]}-{number}" for number, case in enumerate(RIGHT)],
)
def test_a_pass_that_is_right_here_is_not_accused(
    monkeypatch: pytest.MonkeyPatch, behind: str, change: Change, of: tuple
) -> None:
    run = make_run(*of)
    plant(monkeypatch, behind, change)
    found = bisect_run(run)
    assert found.first_bad is None, str(found.first_bad)


@pytest.mark.share(4)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_pass_that_comes_several_times_is_named_by_its_number(
    monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    plant(monkeypatch, "ThreadSync", broken.drop_barriers, which=which)
    found = bisect_run(make_run(WINDOW)).first_bad
    assert (found.kind, found.name) == ("pass", NAME)
    assert found.number == find_truth(found)


def test_a_pass_that_leaves_out_what_it_is_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes nothing, so that it is no stage by itself."""
    broken.replace_pass(monkeypatch, "ThreadSync", lambda module: module)
    found = bisect_run(make_run(WINDOW)).first_bad
    assert (found.kind, found.name) == ("pass", "s_tir.ThreadSync")
    passes = lower_through_passes(found.step.module, GPU).passes
    assert found.number == next(step.number for step in passes if step.name == "s_tir.ThreadSync")


def test_a_module_that_is_refused_is_wrong_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the wrong pass one of TVM's refuses the module, which is the innocent."""
    plant(monkeypatch, "LowerInitBlock", broken.subtract)
    broken.replace_pass(monkeypatch, "UnrollLoop", broken.fail)
    found = bisect_run(make_run(*VECTOR)).first_bad
    assert (found.kind, found.name) == ("pass", NAME)


@pytest.mark.parametrize("pipeline", ["default", "tirstep"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_wrong_pass_of_a_pipeline_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, pipeline: str, is_first: bool
) -> None:
    """At its end the host's part cannot be interpreted any more."""
    right = tvm.tirx.compilation_pipeline.PIPELINE_MAP["tirstep"]
    right = s_tir.pipeline.default_s_tir_pipeline if pipeline == "default" else right

    def own():
        begin, *finalize = right()

        @tvm.transform.module_pass(opt_level=0, name=NAME)
        def planted(module: tvm.IRModule, _) -> tvm.IRModule:
            return broken.subtract(module)

        both = [planted, begin] if is_first else [begin, planted]
        return tvm.transform.Sequential(both), *finalize

    monkeypatch.setitem(tvm.tirx.compilation_pipeline.PIPELINE_MAP, "own", own)
    run = make_run(*VECTOR)
    assert bisect_run(ask_for(run, pipeline)).first_bad is None
    found = bisect_run(ask_for(run, "own")).first_bad
    assert found is not None
    if is_first:
        assert (found.kind, found.name) == ("pass", NAME)
        assert found.number == find_truth(found)
    else:
        assert found.kind == "between"
        require_between(found, find_truth(found))


def test_what_a_pipeline_does_outside_of_passes_is_no_passes_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next pass is given another module than the one before it made."""
    default = s_tir.pipeline.default_s_tir_pipeline

    def own():
        begin, *finalize = default()

        @tvm.transform.module_pass(opt_level=0, name="_pipeline")
        def _pipeline(module: tvm.IRModule, _) -> tvm.IRModule:
            return begin(broken.subtract(module))

        return _pipeline, *finalize

    monkeypatch.setitem(tvm.tirx.compilation_pipeline.PIPELINE_MAP, "own", own)
    found = bisect_run(ask_for(make_run(*VECTOR), "own")).first_bad
    assert found.kind == "between"
    assert " before pass " in found.wrong
    assert found.right


@pytest.mark.parametrize("name", ["matmul_naive"])
def test_unbound_steps_of_a_wrong_pipeline_accuse_nobody_else(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A right module whose blocks are opaque was called racy, and the pass that made them so."""
    default = s_tir.pipeline.default_s_tir_pipeline
    transform = FunctionType(default.__code__, default.__globals__)
    monkeypatch.setitem(tvm.tirx.compilation_pipeline.PIPELINE_MAP, "own", transform)
    plant(monkeypatch, "UnrollLoop", broken.subtract)
    run = ask_for(make_run(name, {"m": 16, "n": 16, "k": 8}), "own")
    found = bisect_run(run).first_bad
    assert (found.kind, found.name) == ("pass", NAME)


def test_what_a_pass_leaves_undefined_is_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can run what comes out of it, and a later pass refuses it."""
    plant(monkeypatch, "LowerOpaqueBlock", broken.forget_threads)
    found = bisect_run(make_run(*VECTOR)).first_bad
    assert found.kind in ("between", "refused")
    assert found.step is not None
    truth = find_truth(found)
    last_right = re.search(r"after pass (\d+)", found.right)
    assert int(last_right.group(1)) < truth
    (said,) = (text for text in found.not_run if f"after {truth} {NAME}: " in text)
    assert "is not defined where it is used" in said


def test_a_pass_that_takes_too_long_is_not_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the one that runs when the time is over."""
    run = make_run(*VECTOR)
    plant(monkeypatch, "LowerOpaqueBlock", broken.sleep)
    monkeypatch.setenv("TIRSTEP_COMPILE_SECONDS", "0.1")
    found = bisect_run(run)
    assert found.first_bad is None
    assert any("as TVM lowers it: compiling took more than 0.1 s" in text for text in found.not_run)


def test_what_is_too_large_to_interpret_is_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that first makes it small enough is not accused of what is wrong before."""
    run = make_run(*VECTOR)
    monkeypatch.setattr(interpreter, "MAX_STORES", 1)
    monkeypatch.setattr(interpreter, "MAX_SECONDS", 0.0)
    assert bisect_run(run).first_bad is None
    wrong = replace(run.steps[1], module=broken.subtract(run.steps[1].module))
    found = bisect_run(replace(run, steps=(run.steps[0], wrong, run.steps[2]))).first_bad
    assert (found.kind, found.number) in (("step", 1), ("between", 1))
    assert found.right == "step 00_input as scheduled (right: cpu)"
    assert found.wrong.startswith("step 01_")


def test_an_expectation_that_nothing_meets_accuses_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only a late stage can be interpreted, it was CompactBufferAllocation."""
    run = make_run("matmul_registers", {"m": 128, "n": 128, "k": 128})
    inputs = run.problem.integer_inputs(0)
    blank = np.full((128, 128), np.nan, "float32")
    wrong = run.problem.reference(inputs)[0].astype("float32") + 1
    found = find_bad_pass(run.steps[-1].module, [*inputs, blank], [wrong], GPU)
    assert (found.kind, found.number, found.wrong) == (
        *("step", 0),
        "the module as scheduled (wrong: cpu)",
    )


def test_iterations_that_say_that_they_may_run_at_once_need_not() -> None:
    """A running sum whose iterator is spatial: in order it is right, and no race is told of."""
    module = parse_kernel(RUNNING_SUM)
    array = np.arange(8, dtype="float32")
    found = find_bad_pass(module, [array, np.zeros(8, "float32")], [np.cumsum(array)], "llvm")
    assert found is None


RUNNING_SUM = """
A (8,), C (8,)
for i in range(8):
    with T.sblock("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = T.if_then_else(vi > 0, C[vi - 1], T.float32(0)) + A[vi]
"""


BOTH_KINDS = """
A (64,), C (64,)
static = T.sblock_alloc_buffer((64,), scope="shared")
dynamic = T.sblock_alloc_buffer((64,), scope="shared.dyn")
for _ in T.thread_binding(1, thread="blockIdx.x"):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.sblock("static"):
            vi = T.axis.spatial(64, i)
            static[vi] = A[vi]
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.sblock("dynamic"):
            vi = T.axis.spatial(64, i)
            dynamic[vi] = static[63 - vi]
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.sblock("C"):
            vi = T.axis.spatial(64, i)
            C[vi] = dynamic[63 - vi]
"""


@pytest.mark.parametrize("which", [0, 1, 2])
def test_barriers_for_two_kinds_of_shared_memory(
    monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    """Threads are in order behind the second pass alone; the first may be at fault as well."""
    module, array = parse_kernel(BOTH_KINDS), np.arange(64, dtype="float32")
    case = (module, [array, np.zeros(64, "float32")], [array], GPU)
    assert find_bad_pass(*case) is None
    plant(monkeypatch, "ThreadSync", broken.drop_barriers, which=which)
    found = find_bad_pass(*case)
    assert found is not None
    truth = number_of(module)
    if found.kind == "pass":
        assert found.number == truth
    else:
        require_truth_between(found.label, truth)


TWO_KERNELS = """
A (64,), C (64,)
B = T.sblock_alloc_buffer((64,))
for i in T.thread_binding(64, thread="threadIdx.x"):
    with T.sblock("B"):
        vi = T.axis.spatial(64, i)
        B[vi] = A[vi] * T.float32(3)
for i in T.thread_binding(64, thread="threadIdx.x"):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        C[vi] = B[63 - vi] + A[vi]
"""


@pytest.mark.parametrize("behind", ["LowerOpaqueBlock", "ThreadSync", "LowerWarpMemory"])
def test_a_wrong_pass_for_the_second_of_two_kernels(
    monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    module, array = parse_kernel(TWO_KERNELS), np.arange(64, dtype="float32")
    case = (module, [array, np.zeros(64, "float32")], [array[::-1] * 3 + array], GPU)
    assert find_bad_pass(*case) is None
    plant(monkeypatch, behind, broken.subtract)
    found = find_bad_pass(*case)
    assert (found.kind, found.name) == ("pass", NAME)
    assert found.number == number_of(module)


ROWS = ("row_sum_threads", {"m": 4, "n": 64})


@pytest.mark.parametrize("behind", ["ThreadSync", "LowerOpaqueBlock", "LowerThreadAllreduce"])
def test_a_wrong_pass_near_a_reduction_over_threads(
    monkeypatch: pytest.MonkeyPatch, behind: str
) -> None:
    run = make_run(*ROWS)
    module, problem = run.steps[-1].module, run.problem
    inputs = problem.integer_inputs(0)
    right = problem.reference(inputs)[0].astype("float32")
    plant(monkeypatch, behind, broken.spoil_one_block, which=1 if behind == "ThreadSync" else 0)
    found = find_bad_pass(module, [*inputs, np.zeros_like(right)], [right], GPU)
    assert found is not None
    assert (found.kind, found.name, found.number) == ("pass", NAME, number_of(module))


@pytest.mark.parametrize("name", ["row_sum_threads", "softmax_online", "row_sum_vectors"])
def test_reductions_over_threads_are_run_in_every_stage_before_the_barriers(name: str) -> None:
    run = run_golden(find_recipe(name))
    stages = find_stages(lower_through_passes(run.steps[-1].module, GPU))
    names = [stage.name for stage in stages]
    first, last = (
        names.index(f"s_tir.{name}") for name in ("LowerCrossThreadReduction", "ThreadSync")
    )
    assert last - first > 8
    for stage in stages[first:last]:
        assert stage.program is not None
        device = interpreter.Interpreter(is_compact=stage.is_compact)
        assert check_numbers(run.problem, stage.program, device, where=stage.name) == []


def only_at_tensor_cores(change: Change) -> Change:
    """The change, in modules that multiply on tensor cores."""
    words = ("ptx_legacy.mma", "ptx.mma.legacy", "ptx.wgmma")  # TVM 0.27, 0.26, both
    return lambda module: (
        change(module) if any(word in str(module.script()) for word in words) else module
    )


def at_last_step(name: str) -> Run:
    """The kernel and the last step of a recipe: states on the way take long to interpret.

    The product on warpgroups has four thread blocks, of all the rounds that the golden ones have.
    """
    run = run_golden(find_recipe(name))
    if name == "matmul_wgmma":
        run = run_recipe(run.recipe, {"m": 128, "n": 64, "k": 192}, config=run.config)
    return replace(run, steps=(run.steps[0], run.steps[-1]))


TENSOR_CORES = [
    ("matmul_mma", "LowerInitBlock", broken.change_constant, 0),
    ("matmul_mma", "ThreadSync", broken.drop_barriers, 1),
    ("matmul_mma", "MergeSharedMemoryAllocations", broken.move_pointers, 0),
    ("matmul_wgmma", "VectorizeLoop", broken.drop_waits, 0),
    ("matmul_wgmma", "FlattenBuffer", broken.move_pointers, 0),
]


@pytest.mark.share(12)
@pytest.mark.parametrize(("name", "behind", "change", "which"), TENSOR_CORES)
def test_a_wrong_pass_for_tensor_cores_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    behind: str,
    change: Change,
    which: int,
) -> None:
    """A script cannot plant the pass, and says so."""
    run = at_last_step(name)
    plant(monkeypatch, behind, only_at_tensor_cores(change), which=which)
    found = bisect_run(run).first_bad
    assert (found.kind, found.name, found.not_run) == ("pass", NAME, ())
    assert found.step is run.steps[-1]
    write_reproducer(found, tmp_path / "why.py")
    shown = run_reproducer(tmp_path / "why.py")
    assert not shown.is_shown
    assert shown.text.startswith("planted is not one of TVM's passes, so this script cannot run it")


@pytest.mark.share(9)
def test_nothing_is_wrong_with_tensor_cores_in_any_stage() -> None:
    """A wait for products reads shared memory to its end, before threads store there again."""
    run = at_last_step("matmul_wgmma")
    module = run.steps[-1].module
    for stage in find_stages(lower_through_passes(module, GPU)):
        if stage.program is not None:
            device = interpreter.Interpreter(
                in_order=stage.is_in_order, is_compact=stage.is_compact
            )
            found = check_numbers(run.problem, stage.program, device, where=stage.label)
            assert not found, stage.label


@pytest.mark.share(10)
@pytest.mark.parametrize(
    ("behind", "change"),
    [
        ("LowerInitBlock", broken.in_exponents),
        ("ThreadSync", broken.drop_barriers),
        ("UnrollLoop", broken.turn_maximum),
    ],
)
def test_a_wrong_pass_for_attention_is_named(
    monkeypatch: pytest.MonkeyPatch, behind: str, change: Change
) -> None:
    run = at_last_step("attention_staged")
    plant(monkeypatch, behind, change)
    found = bisect_run(run).first_bad
    assert (found.kind, found.name, found.not_run) == ("pass", NAME, ())


def test_a_large_step_in_the_middle_leaves_time_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A step takes as long as it is given, and nothing is wrong with it."""
    run = run_golden(find_recipe("matmul_mma"))
    run = replace(run, steps=(*run.steps[:2], run.steps[-1]))
    given: list[float] = []

    def take_all(gpu: interpreter.SimulatedGpu, *_: object) -> None:
        assert gpu.deadline is not None
        given.append(gpu.deadline)
        raise DeviceError("the time that is left is too short")

    monkeypatch.setattr(interpreter.SimulatedGpu, "run", take_all)
    started = time.monotonic()
    assert bisect_run(run, timeout=600).first_bad is None
    assert max(given[:1]) < started + 250 < started + 290 < max(given)
