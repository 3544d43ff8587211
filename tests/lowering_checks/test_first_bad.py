"""The first bad step or pass is the one that was planted; no other is named."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
import warm_python
from compilers import find_compiler, needs_compiler
from golden_runs import run_golden
from kernels import parse_kernel
from planted import read_original
from planted_passes import fail, plant, subtract
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep import lowering_checks
from tirstep.lowering_checks import (
    CheckError,
    Device,
    DeviceError,
    Finding,
    Run,
    check_numbers,
    run_recipe,
)
from tirstep.lowering_checks.bisect import (
    FirstBad,
    bisect_run,
    find_bad_pass,
    write_reproducer,
)
from tirstep.lowering_checks.bisect.bisection import ModuleBisection, find_stages, join
from tirstep.lowering_checks.compile import passes
from tirstep.lowering_checks.compile.passes import find_kernels, lower_through_passes
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.lowering_checks.facts import cuda_compilers
from tirstep.lowering_checks.judgement import Judgement, Status
from tirstep.modules import vector_add
from tirstep.transforms import set_pass_option
from tirstep.transforms.recipes import Example, Recipe, find_recipe, recipe

GPU = "nvidia/nvidia-h100"
EXAMPLE = Example({"m": 32, "n": 32, "k": 8})


Twice = parse_kernel("""
    A (1024,), E (1024,)
    C = T.sblock_alloc_buffer((1024,))
    for i in range(1024):
        with T.sblock("C"):
            v = T.axis.spatial(1024, i)
            C[v] = A[v] + T.float32(1)
    for i in range(1024):
        with T.sblock("E"):
            v = T.axis.spatial(1024, i)
            E[v] = C[v] + C[v]
""")


def vectorize_and_compute_at() -> tvm.IRModule:
    sch = Schedule(Twice)
    _, inner = sch.split(sch.get_loops(sch.get_sblock("E"))[0], [None, 8])
    sch.vectorize(inner)
    sch.compute_at(sch.get_sblock("C"), inner)
    return sch.mod


def search_twice(module: tvm.IRModule, expected: np.ndarray | None = None) -> FirstBad | None:
    inputs = np.arange(1024, dtype="float32")
    right = 2 * inputs + 2 if expected is None else expected
    blank = np.full(1024, np.nan, "float32")
    return find_bad_pass(module, [inputs, blank], [right], "llvm", kernel=Twice)


def make_recipe(body) -> Recipe:
    return recipe(kernel="matmul", blocks=("C",), default_example=EXAMPLE, golden=EXAMPLE)(body)


def tile(sch: Schedule) -> tuple:
    i, j, k = sch.get_loops(sch.get_sblock("C"))
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, i1, j1, k)
    return i0, j0, i1, j1, k


def bind_twice(sch: Schedule) -> Iterator[str]:
    i0, j0, i1, j1, _ = tile(sch)
    yield "tiled"
    sch.bind(i1, "threadIdx.x")
    yield "threads"
    sch.bind(i0, "blockIdx.x")
    sch.bind(j0, "blockIdx.x")
    yield "bound"
    sch.unroll(j1)
    yield "unrolled"


def fetch_into_registers(sch: Schedule, scope: str = "local", among: int = 64) -> Iterator[str]:
    i0, j0, i1, j1, _ = tile(sch)
    yield "tiled"
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(sch.fuse(i1, j1), "threadIdx.x")
    yield "bound"
    copy = sch.cache_read(sch.get_sblock("C"), 0, scope)
    sch.compute_at(copy, j0)
    _, inner = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [None, among])
    sch.bind(inner, "threadIdx.x")
    yield "fetched"


def fetch_with_other_extent(sch: Schedule) -> Iterator[str]:
    yield from fetch_into_registers(sch, "shared", 32)


def run_planted(body) -> Run:
    planted = make_recipe(body)
    return run_recipe(planted, planted.golden.shape)


def test_vectorize_loop_is_named_for_vectorize_and_compute_at(tmp_path: Path) -> None:
    found = search_twice(vectorize_and_compute_at())
    assert (found.kind, found.name, found.not_run) == ("pass", "tirx.VectorizeLoop", ())
    assert "896 of 1024 elements are wrong" in found.finding.message
    assert "-            for i_1 in T.vectorized(8):" in found.diff.lines
    script = tmp_path / "why.py"
    write_reproducer(found, script)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "-            for i_1 in T.vectorized(8):" in done.stdout
    assert "of 1024 elements are wrong" in done.stdout
    assert done.stderr.rstrip().endswith("AssertionError")
    assert "tirstep" not in script.read_text().replace("# Written by `tirstep why`", "")


def test_a_right_module_has_no_bad_pass() -> None:
    assert search_twice(Twice) is None


def test_a_module_that_is_wrong_as_it_stands_is_a_step() -> None:
    found = search_twice(Twice, np.zeros(1024, "float32"))
    assert (found.kind, found.number) == ("step", 0)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("body", "number", "name", "sentence"),
    [
        (bind_twice, 3, "bound", "elements are wrong"),
        (fetch_into_registers, 3, "fetched", "in a register of its own"),
        (fetch_with_other_extent, 3, "fetched", "'threadIdx.x' has the extents"),
    ],
)
def test_a_planted_step_is_named(body, number: int, name: str, sentence: str) -> None:
    found = bisect_run(run_planted(body)).first_bad
    assert (found.kind, found.number, found.name) == ("step", number, name)
    assert found.finding.where == f"{body.__name__} {number:02d}_{name}"
    assert sentence in found.finding.message
    assert found.diff.added


@pytest.mark.parametrize(
    ("at_once", "in_a_row", "in_the_end", "asked"),
    [
        (False, True, False, ["at once"]),
        (True, False, False, ["at once", "in a row"]),
        (True, True, False, ["at once", "in a row"]),
        (False, True, True, ["at once", "in a row"]),
    ],
)
def test_threads_are_asked_at_once_and_accused_in_a_row(
    at_once: bool, in_a_row: bool, in_the_end: bool, asked: list[str]
) -> None:
    """What they do right at once is not asked again, unless the program is wrong in the end.

    What they do wrong must show in a row. No pass is accused of what threads in a row mean.
    """
    threaded, seen = tvm.IRModule(dict(Twice.functions_items())), []

    def judge(module: tvm.IRModule, device: Device) -> list[Finding]:
        if device.name != "interpreter":
            return [Finding("numbers", "main", "wrong")] if in_the_end else []
        seen.append("at once" if module is threaded else "in a row")
        is_wrong = at_once if module is threaded else in_a_row
        return [Finding("numbers", "main", "wrong")] if is_wrong else []

    bad = ModuleBisection(judge, Twice, threaded).find_first_bad("llvm")
    assert (bad is not None) == (in_a_row and (at_once or in_the_end))
    assert bad is None or bad.stage is None
    assert seen == asked


def test_a_step_behind_one_that_could_not_be_judged_is_not_accused_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judge(_problem, _module, _device, *, where: str, seed: int) -> Judgement:
        if "01" in where:
            raise DeviceError("too large")
        wrong = (Finding("numbers", where, "wrong"),) if "02" in where else ()
        return Judgement(Status.WRONG if wrong else Status.RIGHT, wrong)

    monkeypatch.setattr("tirstep.lowering_checks.bisect.first_bad.compare", judge)
    found = bisect_run(run_golden(find_recipe("vector_add_bound"))).first_bad
    assert found is not None
    assert (found.kind, found.number) == ("between", 2)
    assert found.right == "step 00_input as scheduled (right: interpreter)"
    assert any(text.startswith("01_") and text.endswith("too large") for text in found.not_run)


def test_a_wrong_kernel_is_step_0(monkeypatch: pytest.MonkeyPatch) -> None:
    right = vector_add.factory
    monkeypatch.setattr(
        vector_add, "factory", lambda *sizes, **options: subtract(right(*sizes, **options))
    )
    # Not the run that tests share: its kernel is right.
    run = lowering_checks.run_golden(find_recipe("vector_add_bound"))
    found = bisect_run(run).first_bad
    assert (found.kind, found.number, found.name) == ("step", 0, "input")


def test_a_pass_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "LowerOpaqueBlock", fail)
    found = bisect_run(run_golden(find_recipe("vector_add_bound"))).first_bad
    assert (found.kind, found.name) == ("refused", "planted")
    assert found.label.startswith("step 0 input, refused by pass ")
    assert found.label.endswith(
        ", behind step 00_input after pass 18 s_tir.LowerOpaqueBlock (right: interpreter)"
    )
    assert "planted failure" in found.finding.message


@pytest.mark.share(6)
@pytest.mark.parametrize(
    "name", ["vector_add_bound", "window_sum_shared", "conv1d_unrolled", "matmul_shared"]
)
def test_nothing_is_wrong_with_a_recipe(name: str) -> None:
    found = bisect_run(run_golden(find_recipe(name)))
    assert found.first_bad is None
    assert all(cuda_compilers.MISSING in text for text in found.not_run)
    judged = Counter((stage.device, stage.state) for stage in found.judged)
    steps = len(run_golden(find_recipe(name)).steps)
    assert judged["interpreter", "as scheduled"] == steps
    ends = judged["cpu", "as a program of the CPU"]
    ends += judged[find_compiler(), "as generated CUDA source"] or len(found.not_run)
    assert ends == steps


@pytest.mark.share(2)
@needs_compiler
def test_wrong_code_generation_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Planted in the source, which no pass has seen: a name that nothing declares."""
    right = passes._read_source

    def misspell(executable: object, language: str) -> str:
        return right(executable, language).replace("__syncthreads();", "__syncthreds();")

    monkeypatch.setattr(passes, "_read_source", misspell)
    found = bisect_run(run_golden(find_recipe("window_sum_shared"))).first_bad
    assert (found.kind, found.name, found.not_run) == ("between", "code generation", ())
    assert found.label == (
        "between step 02_window_in_every_thread after pass 58 tirx.StmtSimplify (right: "
        "interpreter) and step 02_window_in_every_thread as generated CUDA source "
        f"(wrong: {find_compiler()})"
    )
    assert 'identifier "__syncthreds" is undefined' in found.finding.message
    assert "__global__" in found.source
    write_reproducer(found, tmp_path / "why.py")
    done = warm_python.run([sys.executable, tmp_path / "why.py"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (2, "nothing is wrong here")


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_code_generation_is_not_run() -> None:
    found = bisect_run(run_golden(find_recipe("vector_add_bound")))
    assert found.first_bad is None
    assert found.not_run == (f"02_bound, as generated CUDA source: {cuda_compilers.MISSING}",)


def test_a_joined_program_has_the_threads_that_the_host_launches() -> None:
    module = run_golden(find_recipe("vector_add_bound")).steps[-1].module
    stages = find_stages(lower_through_passes(module, GPU))
    split = next(stage.module for stage in stages if stage.name == "tirx.SplitHostDevice")
    text = str(split["main"]).replace("C_1.data, 8, 128,", "C_1.data, 8, 64,")
    assert text != str(split["main"])
    joined = join(from_source(text), find_kernels(split))
    inputs = [np.ones(1024, "float32")] * 2
    *_, got = Interpreter(in_order=False).compile(joined)([*inputs, np.zeros(1024, "float32")])
    assert got.sum() == 1024, "64 threads of each block of 128 elements, and 2 for each element"


@pytest.mark.parametrize("name", ["matmul_registers", "depthwise_conv2d_fused_blocks"])
def test_every_kernel_behind_the_split_is_run_and_right(name: str) -> None:
    run = run_golden(find_recipe(name))
    stages = find_stages(lower_through_passes(run.steps[-1].module, GPU))
    names = [stage.name for stage in stages]
    behind = stages[names.index("tirx.SplitHostDevice") :]
    kernels = [stage for stage in behind if stage.program is not None]
    assert {"tirx.MakePackedAPI", "tirx.LowerIntrin"} <= {stage.name for stage in kernels}
    for stage in kernels:
        device = Interpreter(in_order=stage.is_in_order)
        assert check_numbers(run.problem, stage.program, device, where=stage.name) == []


def test_a_reproducer_sets_the_options_of_the_module(tmp_path: Path) -> None:
    sch = Schedule(vectorize_and_compute_at())
    set_pass_option(sch, name="tirx.disable_vectorize", value=True)
    assert search_twice(sch.mod) is None, "the loop is not vectorized, so that nothing is wrong"
    sch = Schedule(vectorize_and_compute_at())
    set_pass_option(sch, name="tirx.disable_storage_rewrite", value=True)
    found = search_twice(sch.mod)
    assert found is not None
    script = tmp_path / "why.py"
    write_reproducer(found, script)
    assert "OPTIONS = {'tirx.disable_storage_rewrite': True}" in script.read_text()
    done = warm_python.run([sys.executable, script], capture_output=True, text=True)
    assert done.stderr.rstrip().endswith("AssertionError")
    assert "-            for i_1 in T.vectorized(8):" in done.stdout


def test_a_kernel_for_tensor_cores_is_run_after_the_last_pass() -> None:
    shape = {"m": 16, "n": 16, "k": 32}
    run = run_recipe(find_recipe("matmul_naive"), shape, options={"dtype": "float16"})
    by_one_warp = replace(run.steps[-1], module=read_original("matmul_by_one_warp").module)
    found = bisect_run(replace(run, steps=(*run.steps[:-1], by_one_warp)))
    assert found.first_bad is None
    assert ("after tirx.LowerIntrin", "interpreter") in {
        (judged.state, judged.device) for judged in found.judged
    }


@pytest.mark.share(5)
@pytest.mark.parametrize(
    "name", ["window_sum_shared", "conv1d_memory_hierarchy", "matmul_mma_async"]
)
def test_every_stage_up_to_the_split_of_host_and_device_is_run_and_right(name: str) -> None:
    run = run_golden(find_recipe(name))
    stages = find_stages(lower_through_passes(run.steps[-1].module, GPU))
    names = [stage.name for stage in stages]
    behind = {"s_tir.MergeSharedMemoryAllocations", "tirx.SplitHostDevice"}
    ours = stages[: min(names.index(name) for name in behind if name in names)]
    assert len(ours) > 8
    for stage in ours:
        device = Interpreter(in_order=stage.is_in_order)
        assert check_numbers(run.problem, stage.module, device, where=stage.name) == []


def test_some_thread_blocks_of_a_scheduled_module_can_be_interpreted() -> None:
    """The first and the last; what these store is known, and what the others do is not."""
    run = run_golden(find_recipe("vector_add_bound"))
    program = Interpreter().compile(run.steps[-1].module, most_blocks=2)
    (a, b), out = run.problem.integer_inputs(0), np.full(run.problem.outputs[0].shape, np.nan)
    *_, after = program([a, b, out.astype("float32")])
    ran, total = map(int, re.findall(r"\d+", program.part))
    assert ran == 2 < total
    assert program.stored[2].sum() == out.size * ran // total
    np.testing.assert_array_equal(~np.isnan(after), program.stored[2])


def test_what_cannot_be_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "tirstep.lowering_checks.devices.simulator.interpreter"
    monkeypatch.setattr(f"{place}.MAX_SECONDS", 0.0)
    found = bisect_run(run_golden(find_recipe("vector_add_bound")))
    assert found.first_bad is None
    assert "00_input, as scheduled: its launches take" in found.not_run[0]


def test_cross_thread_reduction_means_that_threads_take_turns() -> None:
    Sum = parse_kernel("""
        A (4, 64), B (4,)
        for i in T.thread_binding(4, thread="blockIdx.x"):
            for k in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("B", "SR", i, k):
                    B[vi] += A[vi, vk]
    """)

    inputs = np.arange(256, dtype="float32").reshape(4, 64)
    program = Interpreter().compile(Sum)
    _, sums = program([inputs, np.full(4, np.nan, "float32")])
    np.testing.assert_array_equal(sums, inputs.sum(axis=1))
    assert list(program.findings) == []


def test_a_script_is_never_written_over_a_file_of_the_users(tmp_path: Path) -> None:
    found = search_twice(vectorize_and_compute_at())
    assert found is not None
    mine = tmp_path / "mine.py"
    mine.write_text("print('mine')\n")
    with pytest.raises(CheckError, match="give another name"):
        write_reproducer(found, mine)
    assert mine.read_text() == "print('mine')\n"
    write_reproducer(found, tmp_path / "why.py")
    write_reproducer(found, tmp_path / "why.py")
