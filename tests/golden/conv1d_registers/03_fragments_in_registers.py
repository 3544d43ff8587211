# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((900,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((931,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded_shared = T.sblock_alloc_buffer((2048,), scope="shared")
        sums_local = T.sblock_alloc_buffer((1024,), scope="local")
        W_shared = T.sblock_alloc_buffer((32,), scope="shared")
        padded_shared_local = T.sblock_alloc_buffer((2048,), scope="local")
        W_shared_local = T.sblock_alloc_buffer((32,), scope="local")
        for x in range(2048):
            with T.sblock("padded"):
                vx = T.axis.spatial(2048, x)
                T.reads(A[vx - 32])
                T.writes(padded_shared[vx])
                padded_shared[vx] = T.if_then_else(vx >= 32 and vx < 932, A[vx - 32], T.float32(0.0))
        for i_0 in T.thread_binding(2, thread="blockIdx.x"):
            for ax0_0 in range(1):
                for ax0_1 in T.thread_binding(256, thread="threadIdx.x"):
                    with T.sblock("W_shared"):
                        v0 = T.axis.spatial(32, ax0_0 * 256 + ax0_1)
                        T.where(ax0_0 * 256 + ax0_1 < 32)
                        T.reads(W[v0])
                        T.writes(W_shared[v0])
                        W_shared[v0] = W[v0]
            for i_1 in T.thread_binding(256, thread="threadIdx.x"):
                for r_0 in range(1):
                    for ax0 in range(33):
                        with T.sblock("padded_shared_local"):
                            v0 = T.axis.spatial(2048, i_0 * 512 + i_1 * 2 + 1 + ax0)
                            T.reads(padded_shared[v0])
                            T.writes(padded_shared_local[v0])
                            padded_shared_local[v0] = padded_shared[v0]
                    for ax0_0 in range(8):
                        for ax0_1 in T.vectorized(4):
                            with T.sblock("W_shared_local"):
                                v0 = T.axis.spatial(32, ax0_0 * 4 + ax0_1)
                                T.reads(W_shared[v0])
                                T.writes(W_shared_local[v0])
                                W_shared_local[v0] = W_shared[v0]
                    for r_1 in T.serial(32, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                        for i_2 in range(2):
                            with T.sblock("sums"):
                                vi = T.axis.spatial(1024, i_0 * 512 + i_1 * 2 + i_2)
                                vr = T.axis.reduce(32, r_0 * 32 + r_1)
                                T.reads(padded_shared_local[vi + 32 - vr], W_shared_local[vr])
                                T.writes(sums_local[vi])
                                with T.init():
                                    sums_local[vi] = T.float32(0.0)
                                sums_local[vi] = sums_local[vi] + padded_shared_local[vi + 32 - vr] * W_shared_local[vr]
                for ax0 in range(2):
                    with T.sblock("B"):
                        vi = T.axis.spatial(931, i_0 * 512 + i_1 * 2 + ax0)
                        T.where(i_0 * 512 + i_1 * 2 + ax0 < 931)
                        T.reads(sums_local[vi])
                        T.writes(B[vi])
                        B[vi] = sums_local[vi]
