"""ldmatrix and mma in the simulator: numbers, layouts, and what is planted around them."""

import numpy as np
import pytest
import tvm
from edits import edit
from pipelines import tensor_core_matmul
from tvm.s_tir import Schedule
from tvm.tirx import BufferStore, Evaluate, For, call_intrin
from warps import (
    load_bytes_transposed,
    load_once,
    multiply_in_warp_memory,
    multiply_once,
    store_once,
)

from tirstep import transforms as tr
from tirstep.lowering_checks import DeviceError, check_numbers, get_device
from tirstep.lowering_checks.devices.simulator import (
    lower,
    merge_shared_memory,
    simulate,
    simulate_lowered,
)
from tirstep.lowering_checks.devices.simulator.merged_memory import get_origins
from tirstep.modules import matmul
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


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize(("dtype", "swizzled"), [("float16", True), ("bfloat16", False)])
def test_a_matmul_on_tensor_cores_is_right(stages: int, dtype: str, swizzled: bool) -> None:
    module = tensor_core_matmul(stages=stages, dtype=dtype, swizzled=swizzled)
    problem = matmul.problem(64, 64, 128, dtype=dtype)
    assert check_numbers(problem, module, SIMULATOR, where="here") == []


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


def test_tf32_ignores_the_lowest_bits() -> None:
    a, b, zero = np.ones((16, 8), "f4"), np.ones((8, 8), "f4"), np.zeros((16, 8), "f4")
    a[:] = np.float32(1) + np.float32(2**-11)
    result = simulate(multiply_once(8, "float32", "tf32", "float32", "fp32"), [a, b, zero, zero])
    np.testing.assert_array_equal(result.arguments[3], 8)


def test_a_sum_is_rounded_once() -> None:
    """1 and sixteen times 2^-25: rounded after each product, the sum would stay 1."""
    a, b = np.full((16, 16), 2.0**-12, "f2"), np.full((16, 8), 2.0**-13, "f2")
    one, zero = np.ones((16, 8), "f4"), np.zeros((16, 8), "f4")
    result = simulate(multiply_once(16, *MULTIPLICATIONS[0][1:]), [a, b, one, zero])
    np.testing.assert_array_equal(result.arguments[3], np.float32(1 + 16 * 2.0**-25))


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


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"threads": 16}, "divergent warp instruction"),
        ({"shift": 1}, "misaligned access"),
        ({"has_barrier": False}, "race"),
        ({"row": lambda lane: lane % 16}, "race"),
        ({"row": lambda lane: lane + 1}, "out of bounds"),
    ],
    ids=["threads", "shift", "no barrier", "same rows", "a row too far"],
)
def test_a_store_of_matrices_that_goes_wrong_is_found(change: dict, kind: str) -> None:
    given = np.arange(256, dtype="float16").reshape(32, 8)
    result = simulate(store_once(4, **change), [given, np.zeros(512, "float16")])
    assert kind in {finding.kind for finding in result.findings}


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


def load(**planted) -> tuple[np.ndarray, list]:
    values = np.arange(512, dtype="float16")
    result = simulate(load_once(4, **planted), [values, np.full((32, 8), np.nan, "float16")])
    return result.arguments[1], result.findings


def test_swapped_row_addresses_give_wrong_numbers() -> None:
    right, _ = load()
    wrong, found = load(row=lambda lane: lane ^ 1)
    assert found == []
    assert np.count_nonzero(right != wrong) == right.size


def test_a_misaligned_row_is_found() -> None:
    _, (finding,) = load(row=lambda lane: lane % 31, shift=4)
    assert finding.kind == "misaligned access"
    assert "vector access at S[4] by " in finding.message
    assert finding.count == 32


def test_a_row_beyond_the_buffer_is_found() -> None:
    _, (finding,) = load(row=lambda lane: lane + 1)
    assert finding.kind == "out of bounds"
    assert (
        "load of S[512] by thread (31, 0, 0) of block (0, 0, 0) (S has 512 elements)"
        in finding.message
    )


def test_rows_that_nobody_wrote_are_found() -> None:
    _, (finding,) = load(begin=16)
    assert finding.kind == "uninitialized read"
    assert "load of S[0] by thread (0, 0, 0) of block (0, 0, 0) before any store" in finding.message
    assert finding.count == 8


def test_a_load_without_a_barrier_races() -> None:
    """TVM inserts none: it sees one element behind a pointer, the thread's own."""
    _, (finding,) = load(has_barrier=False)
    assert finding.kind == "race"
    assert (
        "load of S[1] by thread (0, 0, 0) of block (0, 0, 0) and store by thread (1"
        in finding.message
    )


@pytest.mark.parametrize("threads", [1, 16, 31])
def test_a_divergent_load_is_found(threads: int) -> None:
    _, (finding,) = load(threads=threads)
    assert finding.kind == "divergent warp instruction"
    assert finding.message == (
        f"ptx_legacy.ldmatrix reached by {threads} threads of the warp of thread (0, 0, 0) of "
        "block (0, 0, 0), and not by all 32"
    )


def test_a_divergent_multiplication_is_found() -> None:
    case = MULTIPLICATIONS[0]
    a, b, zero = np.ones((16, 16), "f2"), np.ones((16, 8), "f2"), np.zeros((16, 8), "f4")
    result = simulate(multiply_once(*case, threads=24), [a, b, zero, zero])
    (finding,) = result.findings
    assert finding.kind == "divergent warp instruction"
    assert "ptx_legacy.mma reached by 24 threads of the warp" in finding.message


def test_what_mma_does_not_take_is_refused_in_a_sentence() -> None:
    module = multiply_once(16, "float16", "bf16", "float32", "fp32")
    zeros = [np.zeros(shape, dtype) for shape, dtype in (((16, 16), "f2"), ((16, 8), "f2"))]
    program = SIMULATOR.compile(module)
    with pytest.raises(
        DeviceError, match=r"does not support ptx_legacy\.mma m16n8k16 row col bf16"
    ):
        program([*zeros, np.zeros((16, 8), "f4"), np.zeros((16, 8), "f4")])


def test_counts_see_matrix_instructions_and_bank_conflicts() -> None:
    """Rows of 64 bytes: without a swizzle, four of a matrix's eight rows lie in the same banks."""
    counts = {}
    for swizzled in (False, True):
        module = tensor_core_matmul(stages=1, swizzled=swizzled)
        zeros = [np.zeros(shape, "f2") for shape in ((64, 128), (128, 64))]
        counts[swizzled] = simulate(module, [*zeros, np.zeros((64, 64), "f4")]).counts
    plain, swizzled = counts[False], counts[True]
    assert plain.matrix_multiplies == swizzled.matrix_multiplies == 4 * 8 * 8
    assert plain.matrix_loads == 4 * 8 * 4
    assert plain.scopes["shared"].bank_conflicts > 3 * plain.matrix_loads
    assert swizzled.scopes["shared"].bank_conflicts == 0


def test_a_pair_of_sums_in_a_row_of_odd_length_is_misaligned() -> None:
    """Its index is a ramp plus nothing, which is a vector to TVM's code generator all the same."""
    problem = matmul.problem(32, 32, 16, dtype="float16", transpose_b=True)
    sch = Schedule(problem.module)

    def get_loop(name: str, index: int):
        return sch.get_loops(sch.get_sblock(name))[index]

    tr.tile_in_fragments(
        sch, sch.get_sblock("C"), tile=(32, 16), warp=(16, 16), tile_k=16, depth=16, swizzle=1
    )
    loops = get_loop("C_o", 0), get_loop("C_o", 1)
    tr.store_through_shared(sch, sch.get_sblock("C_o"), *loops, columns=16, warps=2, vector=1)
    sums = "C_shared.dyn_local"
    for operand in (0, 1):
        tr.stage_fragments_at(
            sch,
            sch.get_sblock("C_o"),
            get_loop("C_o", 2),
            operand=operand,
            warps=2,
            vector=2,
            layout="rows",
            tail="refuse",
        )
        tr.cache_read_at(
            sch, sch.get_sblock("C_o"), get_loop("C_o", 3), operand=operand, scope="local"
        )
    tr.decompose_reduction_at(sch, sch.get_sblock("C_o"), get_loop("C_o", 2))
    tr.tensorize_fragments(
        sch,
        sch.get_sblock("C_o_update"),
        [sch.get_sblock(f"{name}_shared.dyn_local") for name in "AB"],
        sch.get_sblock("C_o_init"),
        sch.get_sblock(sums),
        tf32=False,
    )
    # What pad_shared_rows refuses to do.
    sch.storage_align(sch.get_sblock(f"{sums}_o"), 0, axis=0, factor=16, offset=1)
    (finding, *_) = check_numbers(problem, sch.mod, SIMULATOR, where="here")
    assert "misaligned access: vector access at C_shared.dyn[17] by thread (4, " in str(finding)


def test_a_tile_begins_where_merging_puts_it_and_not_at_the_index_of_the_next_fragment() -> None:
    """Fragments ahead are read at k + 8, of a tile that begins at 0 and has no other index."""
    problem = matmul.problem(32, 16, 128, dtype="tf32", transpose_b=True)
    sch = Schedule(problem.module)
    sizes = {"tile": (32, 16), "warp": (32, 16), "tile_k": 64, "stages": 3, "tail": "pad"}
    for step in RECIPES["matmul_mma_rows"].run(sch, swizzle=1, **sizes):
        if step.name == "fragments_ahead":
            break
    lowered = lower(sch.mod)
    origins = get_origins(lowered["main"].body, merge_shared_memory(lowered)["main"].body)
    assert {origin.begin for origin in origins.values()} == {0, 16 * (64 + 4)}
    assert check_numbers(problem, sch.mod, SIMULATOR, where="here") == []
