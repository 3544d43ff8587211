# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((100,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((131,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        B_local = T.sblock_alloc_buffer((131,), scope="local")
        W_shared = T.sblock_alloc_buffer((32,), scope="shared")
        for i_0 in T.thread_binding(5, thread="blockIdx.x"):
            for i_1_0 in T.thread_binding(8, thread="threadIdx.y"):
                for i_1_1 in T.thread_binding(4, thread="threadIdx.x"):
                    with T.sblock("B_init"):
                        vi = T.axis.spatial(131, i_0 * 32 + i_1_0 * 4 + i_1_1)
                        T.where(i_0 * 32 + (i_1_0 * 4 + i_1_1) < 131)
                        T.reads()
                        T.writes(B_local[vi])
                        B_local[vi] = T.float32(0.0)
                    for r_0 in range(4):
                        for ax0_0 in range(1):
                            for ax0_1 in T.thread_binding(8, thread="threadIdx.y"):
                                for ax0_2 in T.thread_binding(4, thread="threadIdx.x"):
                                    with T.sblock("W_shared"):
                                        v0 = T.axis.spatial(32, r_0 * 8 + (ax0_0 * 32 + ax0_1 * 4 + ax0_2))
                                        T.where((ax0_0 * 8 + ax0_1) * 4 + ax0_2 < 8)
                                        T.reads(W[v0])
                                        T.writes(W_shared[v0])
                                        W_shared[v0] = W[v0]
                        for r_1 in T.unroll(8):
                            with T.sblock("B_update"):
                                vi = T.axis.spatial(131, i_0 * 32 + i_1_0 * 4 + i_1_1)
                                vr = T.axis.reduce(32, r_0 * 8 + r_1)
                                T.where(i_0 * 32 + (i_1_0 * 4 + i_1_1) < 131)
                                T.reads(B_local[vi], A[vi - vr], W_shared[vr])
                                T.writes(B_local[vi])
                                B_local[vi] = B_local[vi] + T.if_then_else(vi - vr >= 0 and vi - vr < 100, A[vi - vr], T.float32(0.0)) * W_shared[vr]
                    for ax0 in range(1):
                        with T.sblock("B_local"):
                            v0 = T.axis.spatial(131, i_0 * 32 + i_1_0 * 4 + i_1_1 + ax0)
                            T.where(i_0 * 32 + i_1_0 * 4 + i_1_1 < 131)
                            T.reads(B_local[v0])
                            T.writes(B[v0])
                            B[v0] = B_local[v0]
