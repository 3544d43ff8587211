"""Vectors."""

import re

import pytest
from kernels import Scale, ScaleAnyLength, at_block, parse_kernel
from pairs import check_pair, compile_for_cuda, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.tirx import For, ForKind

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import matmul
from tirstep.transforms.tir import find_all

Matmul = parse_kernel("""
    A (16, 8) float16, B (8, 24) float16, C (16, 24)
    for i, j, k in T.grid(16, 24, 8):
        with T.sblock("C", "SSR", i, j, k):
            C[vi, vj] += T.float32(A[vi, vk]) * T.float32(B[vk, vj])
""")


def start(module=Scale, block="B", inner=4):
    """A schedule, one of its blocks, and the two parts of its last loop."""
    sch = Schedule(module, debug_mask="all")
    handle = sch.get_sblock(block)
    last = sch.get_loops(handle)[-1]
    return sch, handle, *tr.split_loop(sch, last, inner=inner, tail="guard")


def test_vectorize_loop_of_four():
    after = """
        for i, j_0 in T.grid(6, 5):
            for j_1 in T.vectorized(4):
                with T.sblock("B", "S", i):
                    vj = T.axis.spatial(20, j_0 * 4 + j_1)
                    B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        _, j = sch.get_loops(sch.get_sblock("B"))
        outer, inner = tr.split_loop(sch, j, inner=4)
        tr.vectorize_loop(sch, inner)
        return outer, inner

    check_pair(Scale, change, after)


def test_vectorize_loop_refuses_what_does_not_fit():
    sch, _, _, inner = start(Matmul, "C")
    with refuses(sch, r"^vectorize_loop: TVM refuses: .*block 'C' because some block iter"):
        tr.vectorize_loop(sch, inner)
    for inner in [1, 3, 5, 20]:
        sch, _, _, loop = start(inner=inner)
        with refuses(
            sch, rf"loop 'j_1' runs {inner} times; vectors have 2, 4, 8, 16 elements; split"
        ):
            tr.vectorize_loop(sch, loop)
    sch, _, _, loop = start(inner=8)
    with refuses(
        sch,
        r"loop 'j_1' makes vectors of 8 elements of 'A' \(float32\), 32 bytes, more than "
        "max_vector_bytes=16; split the loop by a smaller size first",
    ):
        tr.vectorize_loop(sch, loop)
    tr.vectorize_loop(sch, loop, max_vector_bytes=32)
    sch, block, outer, _ = start(inner=5)
    with refuses(sch, r"loop 'j_0' is not the innermost loop of one block \(inside: 'B'\); vector"):
        tr.vectorize_loop(sch, outer)
    copy = sch.cache_read(block, 0, "local")
    sch.compute_at(copy, outer)
    with refuses(sch, r"loop 'j_0' is not the innermost .* \(inside: 'A_local', 'B'\)"):
        tr.vectorize_loop(sch, outer)
    sch, block, _, inner = start()
    sch.compute_at(sch.cache_read(block, 0, "local"), inner)
    with refuses(sch, r"loop 'j_1' is not the innermost loop of one block \(inside: 'A_local', 'B"):
        tr.vectorize_loop(sch, inner)
    sch, _, loop = at_block(ScaleAnyLength, "B")
    with refuses(sch, r"vectorize_loop: loop 'i' has the symbolic extent n; split it with tail"):
        tr.vectorize_loop(sch, loop)
    tr.vectorize_loop(sch, tr.split_loop(sch, loop, inner=4, tail="guard").inner)
    sch, _, _, inner = start()
    tr.unroll_loop(sch, inner)
    with refuses(sch, r"vectorize_loop: loop 'j_1' is already unrolled; do this while"):
        tr.vectorize_loop(sch, inner)
    sch, _, _, inner = start()
    tr.split_loop(sch, inner, inner=2)
    with refuses(sch, r"vectorize_loop: the loop handle is dead"):
        tr.vectorize_loop(sch, inner)


def make_column(dtype):
    """A copy of a column of four elements: they lie apart in A, and side by side in B."""
    return parse_kernel(f"""
        A (4, 8) {dtype}, B (8, 4) {dtype}
        for j in T.thread_binding(8, thread="threadIdx.x"):
            for i in range(4):
                with T.sblock("B", "SS", i, j):
                    B[vj, vi] = A[vi, vj]
    """)


def test_vectorize_loop_repeats_one_element_of_float8():
    module = from_source(make_column("float8_e4m3fn").script().replace("A[vi, vj]", "A[0, 0]"))
    sch = Schedule(module, debug_mask="all")
    tr.vectorize_loop(sch, sch.get_loops(sch.get_sblock("B"))[1])
    assert "__nv_fp8x4_e4m3(make_float4(" in compile_for_cuda(sch.mod)


def test_vectorize_copy_of_a_tile():
    after = """
        A_local = T.sblock_alloc_buffer((6, 20), scope="local")
        for i in range(6):
            for ax0, ax1_0 in T.grid(1, 5):
                for ax1_1 in T.vectorized(4):
                    with T.sblock("A_local"):
                        v0 = T.axis.spatial(6, i + ax0)
                        v1 = T.axis.spatial(20, ax1_0 * 4 + ax1_1)
                        A_local[v0, v1] = A[v0, v1]
            for j in range(20):
                with T.sblock("B", "SS", i, j):
                    B[vi, vj] = A_local[vi, vj] * T.float32(2)
    """

    def change(sch):
        block = sch.get_sblock("B")
        copy = tr.cache_read_at(sch, block, sch.get_loops(block)[0], operand=0, scope="local")
        assert tr.vectorize_copy(sch, copy) == 4
        return copy, block

    check_pair(Scale, change, after)


def test_vectorize_copy_refuses_what_does_not_fit():
    sch, block, *_ = start(Matmul, "C")
    with refuses(
        sch, r"^vectorize_copy: vectorize_loop: TVM refuses: .*block 'C' because some blo"
    ):
        tr.vectorize_copy(sch, block)
    for vector in [0, -4]:
        sch, block, *_ = start()
        with refuses(sch, rf"vectorize_copy: vector={vector} must be >= 1; use an integer >= 1"):
            tr.vectorize_copy(sch, block, vector=vector)
    sch, block, _, inner = start()
    copy = sch.cache_read(block, 0, "local")
    sch.compute_at(copy, inner)
    with refuses(sch, r"vectorize_copy: block 'B' has no loop of its own; vectorize the loop that"):
        tr.vectorize_copy(sch, block)
    sch, block, outer, _ = start()
    tr.vectorize_copy(sch, block)
    with refuses(sch, r"vectorize_copy: loop 'j_1' is already vectorized"):
        tr.vectorize_copy(sch, block)
    sch, block, outer, inner = start()
    tr.bind_loop(sch, inner, axis="threadIdx.x")
    with refuses(sch, r"vectorize_copy: loop 'j_1' is already bound to 'threadIdx.x'"):
        tr.vectorize_copy(sch, block)
    assert sch.get(outer)
    sch = Schedule(Matmul, debug_mask="all")
    block = sch.get_sblock("C")
    tile = tr.tile_block(sch, block, threads=(4, 3), per_thread=(1, 8))
    copy = tr.cache_read_at(sch, block, tile.threads[1], operand=1)
    tr.pad_shared_rows(sch, copy, elements=4)
    with refuses(sch, r"rows of 'B_shared' are padded to 28 elements, so that vectors of 8 would"):
        tr.vectorize_copy(sch, copy, vector=8)
    assert tr.vectorize_copy(sch, copy) == 4


# ---- Vectors that TVM does not write as CUDA's


def make_kernel(dtype: str, value: str) -> tuple[Schedule, object, object]:
    """B[x] = value in a kernel of four threads; the loops of these and of 64 elements each."""

    Map = parse_kernel(f"""
        A (256,) {dtype}, B (256,) {dtype}
        for i, j in T.grid(4, 64):
            with T.sblock("B"):
                x = T.axis.spatial(256, i * 64 + j)
                B[x] = A[x]
    """)

    zero = f"T.{dtype}(0)" if "int" in dtype else f'T.Cast("{dtype}", 0.0)'
    text = Map.script().replace("= A[x]", f"= {value.replace('zero', zero)}")
    sch, _, threads, elements = at_block(from_source(text), "B")
    return sch, threads, elements


def find_refusal(sch: Schedule) -> str:
    """Why CUDA compiles no source of a module: what TVM says, a vector of too many arguments, or
    elements of float8 that are cast to a vector of another length or of integers.
    """
    try:
        source = compile_for_cuda(sch.mod)
    except (RuntimeError, ValueError) as error:
        return str(error).strip().splitlines()[-1]
    for call in re.finditer(r"make_[a-z]+(\d)\(", source):
        count, depth = 1, 1
        for letter in source[call.end() :]:
            depth += {"(": 1, ")": -1}.get(letter, 0)
            count += letter == "," and depth == 1
            if not depth:
                break
        if count != int(call.group(1)):
            return f"{count} arguments of {call.group()}"
    cast = re.search(r"\((?:u?int|u?longlong)\d\)\(\*\(", source)
    if "fp8" in source and cast:
        return f"no conversion {cast.group()}"
    return ""


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("dtype", "value", "most"),
    [
        ("int8", "T.if_then_else(x < 192, A[x], zero)", 4),
        ("uint8", "A[x] + T.uint8(3)", 4),
        ("int8", "zero", 4),
        ("int8", "A[x // 64]", 2),
        ("int16", "T.max(A[x], zero)", 4),
        ("float16", "T.max(A[x], zero)", 8),
        ("float16", "T.Select(x < 203, A[x], zero)", 4),
        ("float8_e4m3fn", "T.if_then_else(x < 192, A[x], zero)", 4),
        ("float8_e4m3fn", "T.if_then_else(x < 203, A[x], zero)", 16),  # which is taken apart
        ("float8_e4m3fn", "T.Cast('float8_e4m3fn', T.Cast('float32', A[x]))", 4),
        ("float8_e4m3fn", "T.Cast('float8_e4m3fn', T.Cast('int32', A[x]))", 1),
    ],
)
def test_vectorize_loop_refuses_vectors_that_cuda_has_not(dtype, value, most):
    """TVM writes 16 zeros of int8 as a ``make_int4`` of 16 arguments, say."""
    for lanes in (2, 4, 8, 16):
        sch, threads, elements = make_kernel(dtype, value)
        inner = tr.split_loop(sch, elements, inner=lanes).inner
        tr.bind_loop(sch, threads, axis="threadIdx.x")
        if lanes * (2 if "16" in dtype else 1) > 16:
            break
        if lanes > most:
            plain = sch.copy()
            plain.vectorize(inner)
            assert find_refusal(plain)
            with refuses(
                sch, "loop 'j_1' would make vectors of .*, which TVM cannot write in CUDA"
            ):
                tr.vectorize_loop(sch, inner)
        else:
            tr.vectorize_loop(sch, inner)
            assert find_refusal(sch) == ""


def test_bind_loop_refuses_vectors_that_cuda_has_not():
    """On a CPU there are such vectors: it is the kernel that has none."""
    sch, threads, elements = make_kernel("int8", "zero")
    tr.vectorize_loop(sch, tr.split_loop(sch, elements, inner=16).inner)
    with refuses(sch, "would make vectors of 16 elements of int8 out of one value"):
        tr.bind_loop(sch, threads, axis="threadIdx.x")


@pytest.mark.parametrize("vector", [4, 16])
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn"])
def test_zeros_of_a_padding_are_fetched_in_vectors_that_cuda_has(dtype, vector):
    problem = matmul.problem(8, 16, 48, dtype=dtype)
    sch, block, *_ = at_block(problem.module, "C")
    tr.pad_block(sch, block, multiples=(8, 16, 32))
    tr.tile_block(sch, block, threads=(4, 8))
    outer, _ = tr.split_reduction(sch, block, inner=32)
    for operand in range(2):
        tr.stage_operand_at(sch, block, outer, operand=operand, threads=(4, 8), vector=vector)
    tr.accumulate_in_registers(sch, block, sch.get_loops(block)[3])
    kinds = find_all(sch.mod["main"].body, For)
    lanes = {int(loop.extent) for loop in kinds if loop.kind == ForKind.VECTORIZED}
    assert lanes == {4} if dtype == "int8" else lanes <= {4}
    assert find_refusal(sch) == ""
    assert check_numbers(problem, sch.mod, get_device("simulator"), where="here") == []
