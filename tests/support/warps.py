"""Kernels of one warp around a single instruction, with its operands and results in global memory.

The fragments are filled and read element by element, by the tables of the PTX ISA as they stand
there, so that the simulator's formulas are held against something else.
"""

import tvm
from kernels import parse_kernel
from tvm.s_tir import Schedule

from tirstep.transforms import set_pass_option

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "int8": 1, "uint8": 1, "float8_e4m3fn": 1}
PLACES_OF_A = {
    1: "lane // 4 + i // 4 % 2 * 8, lane % 4 * 4 + i % 4 + i // 8 * 16",
    2: "lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2 + i // 4 * 8",
    4: "lane // 4 + i % 2 * 8, lane % 4 + i // 2 * 4",
}
"""Row and column of a lane's element i of A, for elements of 1, 2 or 4 bytes."""
PLACES_OF_B = {
    1: "lane % 4 * 4 + i % 4 + i // 4 * 16, lane // 4",
    2: "lane % 4 * 2 + i % 2 + i // 2 * 8, lane // 4",
    4: "lane % 4 + i * 4, lane // 4",
}


def multiply_once(depth: int, dtype: str, ptx: str, sums: str, ptx_sums: str) -> tvm.IRModule:
    """D = C + A × B by one mma.m16n8k*; A (16, depth), B (depth, 8), C and D (16, 8)."""
    size = BYTES[dtype]
    return parse_kernel(f"""
        A (16, {depth}) {dtype}, B ({depth}, 8) {dtype}, C (16, 8) {sums}, D (16, 8) {sums}
        for lane in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("multiply"):
                T.reads(A[0:16, 0:{depth}], B[0:{depth}, 0:8], C[0:16, 0:8])
                T.writes(D[0:16, 0:8])
                a = T.sblock_alloc_buffer(({depth // 2},), "{dtype}", scope="local")
                b = T.sblock_alloc_buffer(({depth // 4},), "{dtype}", scope="local")
                c = T.sblock_alloc_buffer((4,), "{sums}", scope="local")
                for i in range({depth // 2}):
                    a[i] = A[{PLACES_OF_A[size]}]
                for i in range({depth // 4}):
                    b[i] = B[{PLACES_OF_B[size]}]
                for i in range(4):
                    c[i] = C[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2]
                T.evaluate(T.ptx_legacy.mma(
                    "m16n8k{depth}", "row", "col", "{ptx}", "{ptx}", "{ptx_sums}",
                    a.data, 0, b.data, 0, c.data, 0, False, dtype="{sums}"))
                for i in range(4):
                    D[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = c[i]
    """)


def store_once(count: int, *, transposed: bool = False) -> tvm.IRModule:
    """F (32, 16), of -1 but for `count` 8×8 matrices of a warp's A(lane, i), by one stmatrix.

    Each matrix is 8 rows of F, the first 8 columns; lane t gives row t.
    """
    name = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    registers = (f'T.reinterpret("uint32", f[T.Ramp({2 * it}, 1, 2)])' for it in range(count))
    return parse_kernel(f"""
        A (32, 8) float16, F (512,) float16
        for lane in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("store"):
                T.reads(A[0:32, 0:8])
                T.writes(F[0:512])
                S = T.sblock_alloc_buffer((512,), "float16", scope="shared")
                f = T.sblock_alloc_buffer((8,), "float16", scope="local")
                for i in range(16):
                    S[i * 32 + lane] = T.float16(-1)
                for i in range(8):
                    f[i] = A[lane, i]
                T.evaluate(T.tvm_storage_sync("shared"))
                T.evaluate(T.ptx["{name}"](
                    S.access_ptr("r", offset=lane * 16, extent=8), {", ".join(registers)}))
                T.evaluate(T.tvm_storage_sync("shared"))
                for i in range(16):
                    F[i * 32 + lane] = S[i * 32 + lane]
    """)


def load_once(count: int, *, transposed: bool = False) -> tvm.IRModule:
    """F(lane, i) from the first `count` of the four 8×8 matrices of A (32, 16) by one ldmatrix.

    Each matrix is 8 rows of A, the first 8 columns; lane t gives row t.
    """
    return parse_kernel(f"""
        A (512,) float16, F (32, 8) float16
        for lane in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("load"):
                T.reads(A[0:512])
                T.writes(F[0:32, 0:8])
                S = T.sblock_alloc_buffer((512,), "float16", scope="shared")
                f = T.sblock_alloc_buffer((8,), "float16", scope="local")
                for i in range(16):
                    S[i * 32 + lane] = A[i * 32 + lane]
                for i in range(8):
                    f[i] = T.float16(0)
                T.evaluate(T.tvm_storage_sync("shared"))
                T.evaluate(T.ptx_legacy.ldmatrix(
                    {transposed}, {count}, ".b16", f.data, 0, T.address_of(S[lane * 16]), 0,
                    dtype="float16"))
                for i in range(8):
                    F[lane, i] = f[i]
    """)


def multiply_in_warp_memory() -> tvm.IRModule:
    """C = A × B, each 16×16, with fragments of scope "warp" as TVM's own intrinsics have them."""
    load = """T.evaluate(T.ptx_legacy.ldmatrix(
                            {}, 4, ".b16", {}.data, lane * 8,
                            {}.access_ptr("r", ptr_type="float16"),
                            lane % 16 * 16 + lane // 16 * 8, dtype="float16"))"""
    module = parse_kernel(f"""
        A (256,) float16, B (256,) float16, C (256,)
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            with T.sblock("whole"):
                T.reads(A[0:256], B[0:256])
                T.writes(C[0:256])
                S = T.sblock_alloc_buffer((256,), "float16", scope="shared")
                R = T.sblock_alloc_buffer((256,), "float16", scope="shared")
                a = T.sblock_alloc_buffer((256,), "float16", scope="warp")
                b = T.sblock_alloc_buffer((256,), "float16", scope="warp")
                c = T.sblock_alloc_buffer((256,), "float32", scope="warp")
                for lane in T.thread_binding(32, thread="threadIdx.x"):
                    with T.sblock("multiply"):
                        T.reads(A[0:256], B[0:256])
                        T.writes(C[0:256])
                        for i in range(8):
                            S[i * 32 + lane] = A[i * 32 + lane]
                            R[i * 32 + lane] = B[i * 32 + lane]
                        T.evaluate(T.tvm_storage_sync("shared"))
                        {load.format(False, "a", "S")}
                        {load.format(True, "b", "R")}
                        T.evaluate(T.cuda.mma_fill_legacy(8, c.data, 0, dtype="float32"))
                        for half in T.unroll(2):
                            T.evaluate(T.ptx_legacy.mma(
                                "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, lane * 8,
                                b.data, lane * 8 + half * 4, c.data, lane * 8 + half * 4, False,
                                dtype="float32"))
                        for i in range(8):
                            C[(i % 4 // 2 * 8 + lane // 4) * 16 + i // 4 * 8 + lane % 4 * 2 + i % 2
                              ] = c[lane * 8 + i]
    """)
    sch = Schedule(module)
    # Named parts of an index are more than TVM's pass for this scope can read.
    set_pass_option(sch, name="tirx.disable_cse_tir", value=True)
    return sch.mod


def load_bytes_transposed() -> tvm.IRModule:
    """F(lane, i) from S (32, 16) by what TVM makes of ldmatrix for transposed bytes."""
    return parse_kernel("""
        A (512,) int8, F (32, 16) int8
        for lane in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("load"):
                T.reads(A[0:512])
                T.writes(F[0:32, 0:16])
                S = T.sblock_alloc_buffer((512,), "int8", scope="shared")
                f = T.sblock_alloc_buffer((16,), "int8", scope="local")
                for i in range(16):
                    S[i * 32 + lane] = A[i * 32 + lane]
                T.evaluate(T.tvm_storage_sync("shared"))
                T.evaluate(T.ptx_legacy.ldmatrix(
                    True, 4, ".b16", f.data, 0, S.access_ptr("r", ptr_type="int8"), 16,
                    dtype="int8"))
                for i in range(16):
                    F[lane, i] = f[i]
    """)
