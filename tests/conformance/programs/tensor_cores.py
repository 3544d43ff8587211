"""ldmatrix and mma: the rows that lanes name, the lanes that hold a fragment, the accumulators."""

from tvm.script import ir as I
from tvm.script import tirx as T


# right: lane t names row t, and each lane gets a pair of each matrix
# needs sm_75
# A = whole(512)
# F == fragments(A)
@I.ir_module
class LdmatrixOfFourMatrices:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 16]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# right: each lane gets a pair of each matrix' columns
# needs sm_75
# A = whole(512)
# F == fragments(A, is_transposed=True)
@I.ir_module
class LdmatrixOfFourMatricesTransposed:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(True),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 16]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# wrong, wrong numbers: TVM takes the elements for bytes, and copies them one by one; its printer
#   loses the type
# needs sm_75
# A = whole(512)
# F == fragments(A, is_transposed=True)
@I.ir_module
class TransposedLdmatrixWhoseCallHasNoType:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(True), 4, ".b16", f.data, 0, T.address_of(S[tx * 16]), 0
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# right: 48 bytes are a multiple of 16
# needs sm_75
# A = whole(512)
# F == fragments(A)
@I.ir_module
class LdmatrixOfPaddedRowsOf24:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((768,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[(i * 2 + tx // 16) * 24 + tx % 16] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 24]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# wrong, misaligned access: 40 bytes are no multiple of 16
# needs sm_75
# A = whole(512)
# F == fragments(A)
@I.ir_module
class LdmatrixOfPaddedRowsOf20:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((640,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[(i * 2 + tx // 16) * 20 + tx % 16] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 20]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# wrong, race: a row's elements are stored by other lanes
# needs sm_75
# A = whole(512)
# F == fragments(A)
@I.ir_module
class LdmatrixWithNoBarrierBehindTheStores:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.evaluate(0)
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 16]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# wrong, divergent warp instruction: all lanes of a warp must run it together
# needs sm_75
# A = whole(512)
@I.ir_module
class LdmatrixByHalfOfAWarp:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if tx < 16:
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 16]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# right: of two matrices the addresses of lanes 0 to 15 count alone
# needs sm_75
# A = whole(512)
# F == fragments(A, 2)
@I.ir_module
class LdmatrixOfTwoMatricesLanes16To31NameRowsNobodyWrote:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    if i < 8:
                        S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        2,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 16]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# wrong, uninitialized read: lanes 24 to 31 name rows that no thread stored
# needs sm_75
# A = whole(512)
@I.ir_module
class LdmatrixOfFourMatricesOneOfWhichNobodyWrote:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    if i < 12:
                        S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 16]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# wrong, wrong numbers: tx % 8 names the rows of matrix 0 four times
# needs sm_75
# A = whole(512)
# F == fragments(A)
@I.ir_module
class LdmatrixAllLanesNameTheFirstMatrix:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((512,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx % 8 * 16]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# wrong, out of bounds: row 31 begins at element 504 and ends at 512, and S has 508
# needs sm_75
# A = whole(512)
@I.ir_module
class LdmatrixOfARowBeyondTheBuffersEnd:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float16"), F: T.Buffer((256,), "float16")):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                S = T.alloc_shared((508,), "float16")
                f = T.alloc_local((8,), "float16")
                for i in range(16):
                    if i * 32 + tx < 508:
                        S[i * 32 + tx] = A[i * 32 + tx]
                for i in range(8):
                    f[i] = T.float16(0)
                T.tvm_storage_sync("shared")
                if T.bool(True):
                    T.ptx_legacy.ldmatrix(
                        T.bool(False),
                        4,
                        ".b16",
                        f.data,
                        0,
                        T.address_of(S[tx * 16 + 8]),
                        0,
                        dtype="float16",
                    )
                for i in range(8):
                    F[tx * 8 + i] = f[i]


# right: each lane holds its elements of A, B and the sums
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaOfFragmentsAsThePTXTablesHaveThem:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                for i in range(4):
                    c[i] = T.float32(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if T.bool(True):
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# right: each lane holds its elements of A, B and the sums
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaOfBfloat16:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "bfloat16"),
        B: T.Buffer((128,), "bfloat16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "bfloat16")
                b = T.alloc_local((4,), "bfloat16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                for i in range(4):
                    c[i] = T.float32(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if T.bool(True):
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "bf16",
                            "bf16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# right: the accumulators are cleared once, in front of the loop
# needs sm_80
# A = whole(512)
# B = whole(256, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaThatAddsToTheSumsOfTheOneBefore:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((512,), "float16"),
        B: T.Buffer((256,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                for i in range(4):
                    c[i] = T.float32(0)
                for k in range(2):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 32
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if T.bool(True):
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# wrong, wrong numbers: lane t holds row t // 4 of A, and not row t % 8
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaWithTheFragmentOfAnotherLane:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                for i in range(4):
                    c[i] = T.float32(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane % 8 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if T.bool(True):
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# wrong, uninitialized read: the sums begin with what was in the registers
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaAddsToAccumulatorsNobodyCleared:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                T.evaluate(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if T.bool(True):
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# wrong, uninitialized read: c[2] and c[3] begin with what was in the registers
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaWhoseLanesClearedHalfOfTheAccumulators:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                for i in range(2):
                    c[i] = T.float32(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if T.bool(True):
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# wrong, uninitialized read: a fragment is in the registers of all 32 lanes
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaWhoseOddLanesNeverLoadedB:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                for i in range(4):
                    c[i] = T.float32(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if lane % 2 == 0:
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if T.bool(True):
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# wrong, divergent warp instruction: all lanes of a warp must run it together
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
@I.ir_module
class MmaByHalfOfAWarp:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 32) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx
                for i in range(4):
                    c[i] = T.float32(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if lane < 16:
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if T.bool(True):
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# right: the branch is the same for all lanes of a warp
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaByOneWarpOfTwo:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 64) as tx:
                a = T.alloc_local((8,), "float16")
                b = T.alloc_local((4,), "float16")
                c = T.alloc_local((4,))
                lane: T.let[T.int32] = tx % 32
                for i in range(4):
                    c[i] = T.float32(0)
                for k in range(1):
                    for i in range(8):
                        a[i] = A[
                            (lane // 4 + i // 2 % 2 * 8) * 16
                            + k * 16
                            + lane % 4 * 2
                            + i % 2
                            + i // 4 * 8
                        ]
                    for i in range(4):
                        if T.bool(True):
                            b[i] = B[((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4]
                    if tx < 32:
                        T.ptx_legacy.mma(
                            "m16n8k16",
                            "row",
                            "col",
                            "fp16",
                            "fp16",
                            "fp32",
                            a.data,
                            0,
                            b.data,
                            0,
                            c.data,
                            0,
                            T.bool(False),
                        )
                if tx < 32:
                    for i in range(4):
                        D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# right: the lane is counted over x and y
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaByABlockOf16By2Threads:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 16) as tx:
                with T.launch_thread("threadIdx.y", 2) as ty:
                    a = T.alloc_local((8,), "float16")
                    b = T.alloc_local((4,), "float16")
                    c = T.alloc_local((4,))
                    lane: T.let[T.int32] = ty * 16 + tx
                    for i in range(4):
                        c[i] = T.float32(0)
                    for k in range(1):
                        for i in range(8):
                            a[i] = A[
                                (lane // 4 + i // 2 % 2 * 8) * 16
                                + k * 16
                                + lane % 4 * 2
                                + i % 2
                                + i // 4 * 8
                            ]
                        for i in range(4):
                            if T.bool(True):
                                b[i] = B[
                                    ((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4
                                ]
                        if T.bool(True):
                            T.ptx_legacy.mma(
                                "m16n8k16",
                                "row",
                                "col",
                                "fp16",
                                "fp16",
                                "fp32",
                                a.data,
                                0,
                                b.data,
                                0,
                                c.data,
                                0,
                                T.bool(False),
                            )
                    if T.bool(True):
                        for i in range(4):
                            D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]


# wrong, wrong numbers: lanes are counted over x first
# needs sm_80
# A = whole(256)
# B = whole(128, seed=8)
# D == (A.astype('float32').reshape(16, -1) @ B.astype('float32').reshape(-1, 8)).ravel()
@I.ir_module
class MmaByABlockOf2By16ThreadsTheLaneCountedOverYFirst:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((256,), "float16"),
        B: T.Buffer((128,), "float16"),
        D: T.Buffer((128,), "float32"),
    ):
        T.func_attr({"tirx.is_entry_func": True, "tirx.noalias": True})
        with T.launch_thread("blockIdx.x", 1) as bx:
            with T.launch_thread("threadIdx.x", 2) as tx:
                with T.launch_thread("threadIdx.y", 16) as ty:
                    a = T.alloc_local((8,), "float16")
                    b = T.alloc_local((4,), "float16")
                    c = T.alloc_local((4,))
                    lane: T.let[T.int32] = tx * 16 + ty
                    for i in range(4):
                        c[i] = T.float32(0)
                    for k in range(1):
                        for i in range(8):
                            a[i] = A[
                                (lane // 4 + i // 2 % 2 * 8) * 16
                                + k * 16
                                + lane % 4 * 2
                                + i % 2
                                + i // 4 * 8
                            ]
                        for i in range(4):
                            if T.bool(True):
                                b[i] = B[
                                    ((lane % 4 * 2 + i % 2 + i // 2 * 8) + k * 16) * 8 + lane // 4
                                ]
                        if T.bool(True):
                            T.ptx_legacy.mma(
                                "m16n8k16",
                                "row",
                                "col",
                                "fp16",
                                "fp16",
                                "fp32",
                                a.data,
                                0,
                                b.data,
                                0,
                                c.data,
                                0,
                                T.bool(False),
                            )
                    if T.bool(True):
                        for i in range(4):
                            D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]
