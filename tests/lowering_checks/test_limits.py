"""The cost of a compilation, estimated before it begins: as TVM then makes it, and refused."""

import pytest
import tvm
from kernels import at_block
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import Schedule
from tvm.tirx import BufferStore, For, ForKind

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.compile import compiling
from tirstep.lowering_checks.compile.compiling import (
    MAX_LANES,
    MAX_STATEMENTS,
    compile_module,
    count_copies,
    require_compilable,
)
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.lowering_checks.devices import cpu
from tirstep.modules import get_kernel, matmul, row_sum, vector_add
from tirstep.transforms.tir import find_all

TARGET = "nvidia/nvidia-h100"


def tiled(rows: int, columns: int, depth: int) -> tuple[Schedule, dict[str, object]]:
    """A bound matmul whose threads have rows×columns elements, and its inner loops by name."""
    sch, _, i, j, k = at_block(matmul(8 * rows, 8 * columns, 8 * depth), "C")
    blocks, row = sch.split(i, [None, rows])
    threads, column = sch.split(j, [None, columns])
    steps, step = sch.split(k, [None, depth])
    sch.reorder(blocks, threads, steps, row, column, step)
    sch.bind(blocks, "blockIdx.x")
    sch.bind(threads, "threadIdx.x")
    return sch, {"threads": threads, "steps": steps, "row": row, "column": column, "step": step}


def unrolled(rows: int, columns: int, depth: int = 1) -> tvm.IRModule:
    sch, loops = tiled(rows, columns, depth)
    for name in ("row", "column", "step"):
        sch.unroll(loops[name])
    return sch.mod


def virtual(rows: int, columns: int, depth: int) -> tvm.IRModule:
    sch, loops = tiled(rows, columns, depth)
    sch.reorder(loops["row"], loops["column"], loops["steps"])
    sch.bind(loops["row"], "vthread.x")
    sch.bind(loops["column"], "vthread.y")
    sch.unroll(loops["step"])
    return sch.mod


def wished(at: str, limit: int, explicit: int, *, also_unrolled: bool = False) -> tvm.IRModule:
    sch, loops = tiled(4, 4, 4)
    sch.annotate(loops[at], "pragma_auto_unroll_max_step", limit)
    sch.annotate(loops[at], "pragma_unroll_explicit", explicit)
    if also_unrolled:
        sch.unroll(loops["column"])
    return sch.mod


def count_statements_of_tvm(module: tvm.IRModule) -> int:
    """The stores behind TVM's pass that unrolls."""
    counts = []

    @pass_instrument
    class Watch:
        def run_after_pass(self, lowered: tvm.IRModule, info: object) -> None:
            if str(info.name) == "tirx.UnrollLoop":
                counts.append(len(find_all(lowered["main"].body, BufferStore)))

    with tvm.transform.PassContext(instruments=[Watch()]):
        tvm.compile(module, target=TARGET)
    (count,) = counts
    return count


CASES = {
    "nothing": lambda: tiled(4, 4, 4)[0].mod,
    "unrolled": lambda: unrolled(4, 4, 4),
    "vthreads and an unrolled loop": lambda: virtual(4, 2, 4),
    "a vthread axis of 16 is a loop": lambda: virtual(16, 4, 1),
    "a wish for the innermost loop": lambda: wished("threads", 8, 1),
    "a wish for all loops": lambda: wished("threads", 1024, 1),
    "a wish left to NVIDIA's compiler": lambda: wished("threads", 1024, 0),
    "unrolled in a wish": lambda: wished("threads", 8, 1, also_unrolled=True),
    "unrolled, left to NVIDIA's compiler": lambda: wished("row", 8, 0, also_unrolled=True),
}


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_what_tvm_makes(case: str) -> None:
    module = CASES[case]()
    assert count_copies(module["main"].body).statements == count_statements_of_tvm(module)


def test_the_estimate_names_the_loops_that_copy() -> None:
    copies = count_copies(unrolled(4, 2, 3)["main"].body)
    assert (copies.largest, copies.loops) == (24, (("i_1", 4), ("j_1", 2), ("k_1", 3)))


def test_a_tile_of_a_thousand_that_nvidia_s_compiler_unrolls_is_no_matter() -> None:
    sch, loops = tiled(8, 8, 16)
    sch.annotate(loops["steps"], "pragma_auto_unroll_max_step", 4096)
    sch.annotate(loops["steps"], "pragma_unroll_explicit", 0)
    require_compilable(sch.mod)
    assert "#pragma unroll" in compile_module(sch.mod, TARGET).mod.imports[0].inspect_source()


SENTENCE = (
    r"function 'main' would have 8192 statements once TVM has copied them, one of them 4096 times "
    r"by the loops i_1=64 \* j_1=64, and more than 2048 take minutes to compile; unroll smaller "
    r"loops, leave them to NVIDIA's compiler with suggest_unrolling, or raise the limit with the "
    r"environment variable TIRSTEP_COMPILE_STATEMENTS$"
)


@pytest.mark.parametrize("device", ["cpu", "simulator"])
def test_every_device_refuses_thousands_of_copies(device: str) -> None:
    with pytest.raises(DeviceError, match=SENTENCE) as caught:
        get_device(device).compile(unrolled(64, 64))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "is_taken"), [(2**31 - 1, False), (2**30, False), (2**30 - 1, True)]
)
def test_a_loop_whose_statements_tvm_counts_beyond_32_bits(columns: int, is_taken: bool) -> None:
    """TVM's pass takes it for one of few: here it is told to copy none, and marks it alone."""
    module = row_sum(1, columns)
    lowered = tvm.s_tir.transform.LowerInitBlock()(module)
    leaving = {"tirx.UnrollLoop": {"explicit_unroll": 0}}
    with tvm.transform.PassContext(config=leaving):
        marked = tvm.tirx.transform.UnrollLoop()(lowered)
    *_, loop = find_all(marked["main"].body, For)
    assert (loop.kind == ForKind.UNROLLED) == (not is_taken)
    if is_taken:
        require_compilable(module)
        return
    with pytest.raises(
        DeviceError,
        match=rf"would have {2 * columns} statements once TVM has copied them, one of them "
        rf"{columns} times by the loops k={columns}, and more than 2048 take minutes to compile; "
        "split the longest, whose statements TVM counts in 32 bits$",
    ):
        require_compilable(module)


@pytest.mark.gpu
def test_cuda_refuses_thousands_of_copies() -> None:
    with pytest.raises(DeviceError, match=SENTENCE):
        get_device("cuda").compile(unrolled(64, 64))


def test_looking_at_the_passes_refuses_thousands_of_copies() -> None:
    failed = lower_through_passes(unrolled(64, 64), TARGET).failed
    assert failed is not None
    assert str(failed).startswith("tvm.compile refuses the module: function 'main' would have 8192")
    assert (failed.number, failed.name, failed.is_limit) == (0, "tvm.compile", True)


def test_a_vthread_is_refused_with_what_it_multiplies() -> None:
    with pytest.raises(DeviceError, match=r"i_1=15 \* j_1=15 \* k_1=8|k_1=8 \* i_1=15 \* j_1=15"):
        require_compilable(virtual(15, 15, 8))


@pytest.mark.parametrize(("lanes", "is_taken"), [(MAX_LANES, True), (2 * MAX_LANES, False)])
def test_vectors_have_a_limit(lanes: int, is_taken: bool) -> None:
    sch, loops = tiled(1, lanes, 1)
    sch.reorder(loops["step"], loops["row"], loops["column"])
    sch.vectorize(loops["column"])
    if is_taken:
        require_compilable(sch.mod)
        return
    with pytest.raises(
        DeviceError,
        match=r"function 'main' would have vectors of 512 lanes, by the loops j_1=512, and more "
        "than 256 take minutes to compile; split the loops and vectorize an inner part of 2 to 16",
    ):
        get_device("cpu").compile(sch.mod)


def test_the_limit_is_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    module = unrolled(4, 4, 4)
    require_compilable(module)
    monkeypatch.setenv("TIRSTEP_COMPILE_STATEMENTS", "127")
    with pytest.raises(DeviceError, match=r"128 statements .* more than 127 take minutes"):
        require_compilable(module)
    monkeypatch.setenv("TIRSTEP_COMPILE_STATEMENTS", str(4 * MAX_STATEMENTS))
    require_compilable(unrolled(64, 64))


@pytest.mark.parametrize("text", ["many", "0", "-1", "nan"])
def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TIRSTEP_COMPILE_STATEMENTS", text)
    sentence = f"TIRSTEP_COMPILE_STATEMENTS is '{text}'; give a number above zero"
    with pytest.raises(DeviceError, match=sentence):
        require_compilable(unrolled(1, 1))


def test_a_host_that_nobody_runs_is_no_llvm_code_and_its_kernels_are_the_same() -> None:
    module = unrolled(2, 4)
    run, unrun = (
        make(module, compiling.TARGET).mod
        for make in (compiling.compile_module, compiling.compile_unrun)
    )
    assert (run.kind, unrun.kind) == ("llvm", "c")
    assert run.imports[0].inspect_source() == unrun.imports[0].inspect_source()
    sch, block, *_ = at_block(vector_add(64), "C")
    copy, (loop,) = sch.cache_read(block, 0, "global"), sch.get_loops(block)
    outer, _ = sch.split(loop, [None, 8])
    sch.bind(outer, "blockIdx.x")
    sch.compute_at(copy, outer)
    with pytest.raises(RuntimeError, match="Cannot allocate global memory"):
        compiling.compile_unrun(sch.mod, compiling.TARGET)


@pytest.mark.parametrize(
    ("n", "symbolic", "level"), [(64, (), 0), (cpu.LONG, (), None), (64, ("n",), None)]
)
def test_llvm_optimizes_what_runs_long(n: int, symbolic: tuple[str, ...], level: object) -> None:
    module = get_kernel("relu").problem(n=n, symbolic=symbolic).module
    assert cpu._choose_target(module).attrs.get("opt-level") == level
