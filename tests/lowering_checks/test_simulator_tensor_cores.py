"""ldmatrix and mma in the simulator: numbers, layouts, and what is planted around them."""

import numpy as np
import pytest
import tvm
from edits import edit
from golden_runs import run_golden
from tvm.ir import Call
from tvm.tirx import BufferStore, Evaluate, For, call_intrin
from warps import (
    load_bytes_transposed,
    load_once,
    multiply_in_warp_memory,
    multiply_once,
    store_once,
)

from tirstep.lowering_checks import DeviceError, get_device
from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices.simulator import (
    lower,
    simulate_lowered,
)
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.tir import find_all

SIMULATOR = get_device("simulator")
MULTIPLICATIONS = [
    (16, "float16", "fp16", "float32", "fp32"),
    (16, "float16", "fp16", "float16", "fp16"),
    (8, "float16", "fp16", "float32", "fp32"),
    (16, "bfloat16", "bf16", "float32", "fp32"),
    (8, "bfloat16", "bf16", "float32", "fp32"),
    (8, "float32", "tf32", "float32", "fp32"),
    (4, "float32", "tf32", "float32", "fp32"),
    (32, "int8", "int8", "int32", "int32"),
    (16, "int8", "int8", "int32", "int32"),
    (32, "uint8", "uint8", "int32", "int32"),
    (32, "float8_e4m3fn", "e4m3", "float32", "fp32"),
]


def integers(shape: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    low = 0 if dtype.startswith("u") else -4
    values = np.random.default_rng(seed).integers(low, 5, shape)
    return values.astype("uint8" if dtype == "uint8" else dtype_facts(dtype).numpy)


@pytest.mark.parametrize("case", MULTIPLICATIONS, ids=lambda case: f"{case[1]}-k{case[0]}")
@pytest.mark.parametrize("device", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_multiplication_has_the_layouts_of_the_ptx_manual(case, device: str) -> None:
    depth, dtype, _, sums, _ = case
    a, b = integers((16, depth), dtype, 0), integers((depth, 8), dtype, 1)
    c = integers((16, 8), sums, 2)
    program = get_device(device).compile(multiply_once(*case))
    *_, d = program([a, b, c, np.zeros((16, 8), sums)])
    assert list(program.findings) == []
    expected = c.astype("float64") + a.astype("float64") @ b.astype("float64")
    np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("device", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_load_has_the_layout_of_the_ptx_manual(count, transposed, device) -> None:
    """Thread t gets elements 2 * (t % 4) and the next of row t // 4; transposed, of its column."""
    values = np.arange(512, dtype="float16")
    program = get_device(device).compile(load_once(count, transposed=transposed))
    _, got = program([values, np.full((32, 8), np.nan, "float16")])
    assert list(program.findings) == []
    matrices = values.reshape(4, 8, 16)[:, :, :8]
    for thread, register in np.ndindex(32, 8):
        one, element = divmod(register, 2)
        place = (thread // 4, thread % 4 * 2 + element)
        wanted = matrices[one][place[::-1] if transposed else place] if one < count else 0
        assert got[thread, register] == wanted


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("device", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_store_has_the_layout_of_the_ptx_manual(count, transposed, device) -> None:
    """Thread t has elements 2 * (t % 4) and the next of row t // 4; transposed, of its column."""
    given = np.arange(256, dtype="float16").reshape(32, 8)
    program = get_device(device).compile(store_once(count, transposed=transposed))
    _, got = program([given, np.full(512, np.nan, "float16")])
    assert list(program.findings) == []
    wanted = np.full((4, 8, 16), -1, "float16")
    for thread, register in np.ndindex(32, 2 * count):
        one, element = divmod(register, 2)
        place = (thread // 4, thread % 4 * 2 + element)
        wanted[one][place[::-1] if transposed else place] = given[thread, register]
    np.testing.assert_array_equal(got, wanted.ravel())


@pytest.mark.parametrize("device", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_transposed_bytes_are_loaded_as_b_of_an_mma(device: str) -> None:
    """ldmatrix cannot do that, and TVM generates loads in its place: two halves of 8 columns."""
    values = np.random.default_rng(0).integers(-128, 128, 512).astype("int8")
    program = get_device(device).compile(load_bytes_transposed())
    _, got = program([values, np.zeros((32, 16), "int8")])
    assert list(program.findings) == []
    matrix = values.reshape(32, 16)
    for thread, half, register in np.ndindex(32, 2, 8):
        row = thread % 4 * 4 + register % 4 + register // 4 * 16
        assert got[thread, half * 8 + register] == matrix[row, half * 8 + thread // 4]


@pytest.mark.parametrize("device", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_fragments_that_a_warp_holds_together_are_right(device: str) -> None:
    a, b = integers((16, 16), "float16", 0), integers((16, 16), "float16", 1)
    program = get_device(device).compile(multiply_in_warp_memory())
    *_, c = program([a.ravel(), b.ravel(), np.full(256, np.nan, "float32")])
    assert list(program.findings) == []
    np.testing.assert_array_equal(c.reshape(16, 16), a.astype("f8") @ b.astype("f8"))


def test_tvms_store_of_a_matrix_is_right() -> None:
    """It is put in place of the loop that stores; TVM generates it only beside its intrinsics."""

    def store(loop: For):
        (node,) = find_all(loop, BufferStore)
        target = tvm.tirx.tvm_access_ptr("float32", node.buffer.data, 0, 256, 2)
        source = node.value.source.data
        return Evaluate(
            call_intrin("float32", "tirx.mma_store_legacy", 16, 16, target, source, 0, 16)
        )

    lowered = lower(multiply_in_warp_memory())
    planted = edit(
        lowered,
        For,
        lambda loop: {node.buffer.name for node in find_all(loop, BufferStore)} == {"C"},
        store,
    )
    assert "mma_store_legacy" in planted.script()
    a, b = integers((16, 16), "float16", 0), integers((16, 16), "float16", 1)
    result = simulate_lowered(planted, [a.ravel(), b.ravel(), np.full(256, np.nan, "float32")])
    assert result.findings == []
    got = result.arguments[2].reshape(16, 16)
    np.testing.assert_array_equal(got, a.astype("f8") @ b.astype("f8"))


def test_what_mma_does_not_take_is_refused_in_a_sentence() -> None:
    module = multiply_once(16, "float16", "bf16", "float32", "fp32")
    zeros = [np.zeros(shape, dtype) for shape, dtype in (((16, 16), "f2"), ((16, 8), "f2"))]
    program = SIMULATOR.compile(module)
    with pytest.raises(
        DeviceError, match=r"does not support ptx_legacy\.mma m16n8k16 row col bf16"
    ):
        program([*zeros, np.zeros((16, 8), "f4"), np.zeros((16, 8), "f4")])


def test_a_tile_at_an_address_that_its_swizzle_does_not_divide_is_found() -> None:
    run = run_golden(RECIPES["matmul_wgmma_swizzled"])

    def shift(call: Call) -> Call:
        _, data, offset, *rest = call.args
        return call_intrin(call.ty, call.op, call.args[0], data, offset + 8, *rest)

    lowered = lower(run.steps[-1].module)
    planted = edit(lowered, Call, lambda it: str(it.op.name) == "tirx.tvm_access_ptr", shift)
    inputs = run.problem.integer_inputs(0)
    result = simulate_lowered(planted, [*inputs, *map(blank, run.problem.outputs)])
    found = [it.message for it in result.findings if it.kind == "misaligned access"]
    assert "(a swizzle of 128 bytes begins at a multiple of 1024)" in found[0]
    assert not np.array_equal(result.arguments[-1], run.problem.reference(inputs)[0])
