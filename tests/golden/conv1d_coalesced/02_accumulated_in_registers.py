# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((900,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((931,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded = T.sblock_alloc_buffer((2048,))
        sums_shared = T.sblock_alloc_buffer((128, 8), scope="shared")
        W_shared = T.sblock_alloc_buffer((32,), scope="shared")
        sums_shared_local = T.sblock_alloc_buffer((128, 8), scope="local")
        for x in range(2048):
            with T.sblock("padded"):
                vx = T.axis.spatial(2048, x)
                T.reads(A[vx - 32])
                T.writes(padded[vx])
                padded[vx] = T.if_then_else(vx >= 32 and vx < 932, A[vx - 32], T.float32(0.0))
        for i_0 in T.thread_binding(4, thread="blockIdx.x"):
            for ax0_0 in range(1):
                for ax0_1 in T.thread_binding(32, thread="threadIdx.x"):
                    with T.sblock("W_shared"):
                        v0 = T.axis.spatial(32, ax0_0 * 32 + ax0_1)
                        T.reads(W[v0])
                        T.writes(W_shared[v0])
                        W_shared[v0] = W[v0]
            for i_1 in T.thread_binding(32, thread="threadIdx.x"):
                for r, i_2 in T.grid(32, 8):
                    with T.sblock("sums"):
                        vi = T.axis.spatial(1024, i_0 * 256 + i_1 * 8 + i_2)
                        vr = T.axis.reduce(32, r)
                        T.reads(padded[vi + 32 - vr], W_shared[vr])
                        T.writes(sums_shared_local[vi // 8, vi % 8])
                        with T.init():
                            sums_shared_local[vi // 8, vi % 8] = T.float32(0.0)
                        sums_shared_local[vi // 8, vi % 8] = sums_shared_local[vi // 8, vi % 8] + padded[vi + 32 - vr] * W_shared[vr]
                for ax0, ax1_0 in T.grid(1, 2):
                    for ax1_1 in T.vectorized(4):
                        with T.sblock("sums_shared_local"):
                            v0 = T.axis.spatial(128, i_0 * 32 + i_1 + ax0)
                            v1 = T.axis.spatial(8, ax1_0 * 4 + ax1_1)
                            T.reads(sums_shared_local[v0, v1])
                            T.writes(sums_shared[v0, v1])
                            T.sblock_attr({"buffer_dim_align": [[0, 0, 8, 4]]})
                            sums_shared[v0, v1] = sums_shared_local[v0, v1]
            for ax0_0_0 in T.unroll(8):
                for ax0_0_1 in T.thread_binding(32, thread="threadIdx.x"):
                    for ax0_1 in range(1):
                        with T.sblock("B"):
                            vi = T.axis.spatial(931, i_0 * 256 + ax0_0_0 * 32 + ax0_0_1 + ax0_1)
                            T.where(i_0 * 256 + (ax0_0_0 * 32 + ax0_0_1 + ax0_1) < 931)
                            T.reads(sums_shared[vi // 8, vi % 8])
                            T.writes(B[vi])
                            B[vi] = sums_shared[vi // 8, vi % 8]
