"""What TVM refuses is a `DeviceError` of one sentence, whatever TVM's type of error."""

import numpy as np
import pytest
import tvm
from kernels import at_block
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks import DeviceError, check_numbers, count_accesses, get_device
from tirstep.lowering_checks.compile.advice import add_advice
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.lowering_checks.device import convert_tvm_errors, get_reason, is_tvm_error
from tirstep.modules import get_kernel, row_sum, vector_add

DEVICES = ["cpu", "simulator"]
PROBLEM = get_kernel("window_sum").problem(n=64, width=2)


def bind(sch):
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    sch.bind(sch.get_loops(block)[0], "blockIdx.x")  # bind_loop refuses a pipeline


def make_lost_pipeline(sch):
    """A pipeline whose first part is inlined afterwards: TVM raises ValueError, "Check failed"."""
    block = sch.get_sblock("C")
    (loop,) = sch.get_loops(block)
    tr.cache_write_at(sch, block, loop, scope="local")
    tr.prefetch_fragments(sch, loop)
    sch.compute_inline(sch.get_sblock("C"))  # inline_producers refuses it


def note(key, value):
    return lambda sch: sch.annotate(sch.get_sblock("root"), key, value)


BROKEN = {
    # What it takes, and the type of error that TVM has for it.
    "pipeline": (make_lost_pipeline, ValueError, "should be SeqStmt"),
    "option": (note("pass_config.tirx.UnrollLoop", 1), AttributeError, "tirx.UnrollLoop"),
    "no option": (note("pass_config.nonsense", True), AttributeError, "'nonsense'"),
    "no pipeline": (note("tir_pipeline", "nonsense"), ValueError, "nonsense"),
}


def make_broken(name):
    sch = Schedule(PROBLEM.module)
    BROKEN[name][0](sch)
    bind(sch)
    return sch.mod


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("device_name", DEVICES)
def test_a_module_that_tvm_refuses_is_a_device_error(device_name, name):
    module, device = make_broken(name), get_device(device_name)
    if device_name == "cpu" and name == "pipeline":
        assert check_numbers(PROBLEM, module, device, where="cpu") == []  # it drops pipelines
        return
    with pytest.raises(DeviceError, match=BROKEN[name][2]) as caught:
        check_numbers(PROBLEM, module, device, where=device_name)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value.__cause__, DeviceError)
    with pytest.raises(BROKEN[name][1]):  # TVM's own; if it changes, so do the cases here
        raise caught.value.__cause__


@pytest.mark.parametrize("name", BROKEN)
def test_passes_and_counts_of_a_module_that_tvm_refuses(name):
    module = make_broken(name)
    assert BROKEN[name][2] in lower_through_passes(module).failed.reason
    with pytest.raises(DeviceError, match=BROKEN[name][2]):
        count_accesses(PROBLEM, module)


@pytest.mark.parametrize("device_name", DEVICES)
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda *all_: all_[:2], "the module takes A, B, C, and 2 arguments are given"),
        (
            lambda a, b, c: (a, b, c[:5]),
            r"C is float32 of shape \(48,\), .* float32 of shape \(5,\)",
        ),
        (lambda a, b, c: (a, b, c[None]), r"C is float32 of shape \(48,\), .* shape \(1, 48\)"),
        (lambda a, b, c: (a, b.astype("int32"), c), r"B is float32 .* argument is int32 of shape"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(device_name, change, sentence):
    sch = Schedule(vector_add(48))
    bind(sch)
    program = get_device(device_name).compile(sch.mod)
    arrays = [np.ones(48, "float32") for _ in "ABC"]
    assert program(arrays)[2].tolist() == [2.0] * 48
    with pytest.raises(DeviceError, match=sentence):
        program(change(*arrays))


@pytest.mark.parametrize("device_name", DEVICES)
def test_sizes_that_are_open_fit_each_other(device_name):
    module = vector_add.problem(n=48, symbolic=("n",)).module
    sch = Schedule(module)
    bind(sch)
    program = get_device(device_name).compile(sch.mod)
    for size in (7, 48):
        arrays = [np.ones(size, "float32") for _ in "ABC"]
        assert program(arrays)[2].tolist() == [2.0] * size
    with pytest.raises(DeviceError, match=r"C is float32 of shape \(n,\), .* of shape \(3,\)"):
        program([*arrays[:2], arrays[2][:3]])


def test_a_mistake_of_ours_is_no_device_error():
    for error in (ValueError("ours"), TypeError("ours"), KeyError("ours")):
        with pytest.raises(type(error), match="ours"), convert_tvm_errors("it does not run"):
            raise error
    with (
        pytest.raises(DeviceError, match=r"^it does not run: ours$"),
        convert_tvm_errors("it does not run"),
    ):
        raise tvm.error.InternalError("a program\nours\n")
    with (
        pytest.raises(DeviceError, match=r"^this is said already$"),
        convert_tvm_errors("it does not run"),
    ):
        raise DeviceError("this is said already")


def test_a_launch_that_fails_is_told_by_cuda_s_error_and_not_by_its_source():
    said = """CUDALaunch Error: CUDA_ERROR_OUT_OF_MEMORY
 grid=(4,1,1),  block=(32,5,1)
// func_name=main_kernel
// CUDA Source
// -----------
#include <cuda.h>
extern "C" __global__ void main_kernel() {}
"""
    told = get_reason(tvm.error.InternalError(said))
    assert told == "CUDALaunch Error: CUDA_ERROR_OUT_OF_MEMORY grid=(4,1,1),  block=(32,5,1)"


def test_addresses_which_differ_from_run_to_run_are_left_out():
    said = "Check failed: (allow_append_) is false: 0x55937aba6d60 shared"
    assert get_reason(tvm.error.InternalError(said)) == said.replace("0x55937aba6d60 ", "")
    assert "0x18000 bytes" in get_reason(tvm.error.InternalError("uses 0x18000 bytes"))


def test_errors_of_tvm_s_python_are_tvm_errors():
    with pytest.raises(ValueError, match="candidates") as caught:
        tvm.compile(vector_add(8), target="llvm", tir_pipeline="nonsense")
    assert is_tvm_error(caught.value)


PROGRAM = """# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer((64,), "float32")):
    for i in range(64):
        A[i] = T.float32(0)
# Metadata omitted. Use show_meta=True in script() method to show it."""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Check failed: (x) is false: too deep", "Check failed: (x) is false: too deep"),
        (
            f"Variable `C` is not bound.\nDid you forget to bind?\n{PROGRAM}",
            "Did you forget to bind?",
        ),
        (
            f"Check failed: (x) is false: no loop\nin\n{PROGRAM}",
            "Check failed: (x) is false: no loop in",
        ),
        (
            f"{PROGRAM}\nError message: the loop is no parent\nof it.",
            "the loop is no parent of it.",
        ),
        (
            f"Traceback:\n  somewhere\nInternalError: Check failed: no\n{PROGRAM}",
            "Check failed: no",
        ),
        (PROGRAM.splitlines()[-1], "ValueError"),
        (
            "NVRTC compilation failed:\ncuda_fp8.hpp(1461): warning #1444-D: class\n    ^\n"
            'tvm_kernels.cu(12): error: identifier "a" is undefined\n#include <a>\n\0\0',
            'tvm_kernels.cu(12): error: identifier "a" is undefined',
        ),
        (
            f"{PROGRAM}\nCompilation error:\ntvm_kernels.cu(81): warning #177-D: never used\n"
            "ptxas application ptx input, line 9; error   : Instruction 'x' not supported\n\0",
            "line 9; error   : Instruction 'x' not supported",
        ),
        ("", "ValueError"),
    ],
)
def test_tvms_reason_is_told_and_not_its_program(text, reason):
    found = get_reason(ValueError(text))
    assert found.endswith(reason)
    assert "Metadata" not in found
    assert "\n" not in found


def test_a_refusal_to_lower_says_what_to_do():
    """A sum over threads in a loop of one iteration that is a virtual thread."""
    sch, block, row, loop = at_block(row_sum(1, 16), "B")
    _, threads = sch.split(loop, [2, 8])
    inner = sch.add_unit_loop(block)
    for each, axis in ((row, "blockIdx.x"), (threads, "threadIdx.x")):
        sch.bind(each, axis)
    raw = sch.copy()
    raw.bind(inner, "vthread.x")
    with pytest.raises(DeviceError, match="; a sum over threads needs its reduction loops inn"):
        get_device("simulator").compile(raw.mod)
    with pytest.raises(tr.TransformError, match="TVM would sum for one virtual thread only"):
        tr.bind_loop(sch, inner, axis="vthread.x")


def place_parts(sch: Schedule) -> None:
    """Parts of a sum, one a thread, in the kernel that adds them up."""
    parts, total = (sch.get_sblock(name) for name in ("B_rf", "B"))
    row = sch.get_loops(total)[0]
    tr.compute_block_at(sch, parts, row)
    tr.bind_loop(sch, row, axis="blockIdx.x")
    tr.bind_loop(sch, sch.get_loops(parts)[1], axis="threadIdx.x")


@pytest.mark.parametrize("device", DEVICES[1:])
def test_parts_that_stay_in_global_memory_are_told_by_name(device: str):
    """Each of the sentence's ways ends in a kernel that TVM lowers."""
    sch = Schedule(row_sum(4, 16))
    tr.rfactor_reduction(sch, sch.get_sblock("B"), parts=4)
    apart = sch.copy()
    place_parts(sch)
    with pytest.raises(
        DeviceError, match=r": B\.rf stays in global memory inside a kernel: keep_i"
    ):
        get_device(device).compile(sch.mod)
    parts = apart.get_sblock("B_rf")
    tr.cache_write_at(apart, parts, apart.get_loops(parts)[0], scope="shared")
    tr.inline_producers(apart, apart.get_sblock("B"))
    place_parts(apart)
    get_device(device).compile(apart.mod)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("Check failed: condition_counter() == 0 : Cannot insert syncs inside condition", "pad_"),
        ("Check failed: (it != scope.buffer_byte_offsets.end()) is false: ", 'in scope "shared"'),
        ("variable ax1 has been used before definition!", "bind or split the loop before"),
        ("Check failed: (p.has_value()) is false: ", "undo the last steps one by one"),
    ],
)
def test_reasons_that_do_not_say_what_to_do_get_advice(reason, advice):
    assert advice in add_advice(reason).removeprefix(reason)


@pytest.mark.parametrize("checked", ["(x) is false", 'scope != "global" (global vs. global) '])
def test_a_reason_that_says_enough_stays_as_it_is(checked):
    reason = f"Check failed: {checked}: no memory there"
    assert add_advice(reason) == reason
    assert add_advice(f"Check failed: {checked}: ") != f"Check failed: {checked}: "
