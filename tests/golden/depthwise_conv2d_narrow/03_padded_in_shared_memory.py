# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((2, 4, 16, 32), "float32"), F: T.Buffer((4, 1, 3, 3), "float32"), Y: T.Buffer((2, 4, 16, 32), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded_shared = T.sblock_alloc_buffer((2, 4, 18, 34), scope="shared")
        Y_local = T.sblock_alloc_buffer((2, 4, 16, 32), scope="local")
        for b_c_0_fused in T.thread_binding(8, thread="blockIdx.x"):
            for h_0_0 in T.thread_binding(4, thread="blockIdx.y"):
                for w_0_0 in T.thread_binding(4, thread="blockIdx.z"):
                    for ax0_ax1_ax2_ax3_fused_0 in range(2):
                        for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                            for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                with T.sblock("padded"):
                                    vb = T.axis.spatial(2, b_c_0_fused // 4)
                                    vc = T.axis.spatial(4, b_c_0_fused % 4)
                                    vy = T.axis.spatial(18, h_0_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 32 + ax0_ax1_ax2_ax3_fused_1 * 32 + ax0_ax1_ax2_ax3_fused_2) // 10)
                                    vx = T.axis.spatial(34, w_0_0 * 8 + (ax0_ax1_ax2_ax3_fused_0 * 32 + ax0_ax1_ax2_ax3_fused_1 * 32 + ax0_ax1_ax2_ax3_fused_2) % 10)
                                    T.where((ax0_ax1_ax2_ax3_fused_0 + ax0_ax1_ax2_ax3_fused_1) * 32 + ax0_ax1_ax2_ax3_fused_2 < 60)
                                    T.reads(X[vb, vc, vy - 1, vx - 1])
                                    T.writes(padded_shared[vb, vc, vy, vx])
                                    padded_shared[vb, vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 17 and vx >= 1 and vx < 33, X[vb, vc, vy - 1, vx - 1], T.float32(0.0))
                    for c_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for h_0_1_w_0_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                            for ry, rx, h_1, w_1 in T.grid(3, 3, 1, 1):
                                with T.sblock("Y"):
                                    vb = T.axis.spatial(2, b_c_0_fused // 4)
                                    vc = T.axis.spatial(4, b_c_0_fused % 4 + c_1)
                                    vh = T.axis.spatial(16, h_0_0 * 4 + h_0_1_w_0_1_fused // 8 + h_1)
                                    vw = T.axis.spatial(32, w_0_0 * 8 + h_0_1_w_0_1_fused % 8 + w_1)
                                    vy, vx = T.axis.remap("RR", [ry, rx])
                                    T.reads(padded_shared[vb, vc, vh + vy, vw + vx], F[vc, 0, vy, vx])
                                    T.writes(Y_local[vb, vc, vh, vw])
                                    with T.init():
                                        Y_local[vb, vc, vh, vw] = T.float32(0.0)
                                    Y_local[vb, vc, vh, vw] = Y_local[vb, vc, vh, vw] + padded_shared[vb, vc, vh + vy, vw + vx] * F[vc, 0, vy, vx]
                            for ax0, ax1, ax2, ax3 in T.grid(1, 1, 1, 1):
                                with T.sblock("Y_local"):
                                    v0 = T.axis.spatial(2, b_c_0_fused // 4 + ax0)
                                    v1 = T.axis.spatial(4, b_c_0_fused % 4 + ax1)
                                    v2 = T.axis.spatial(16, h_0_0 * 4 + h_0_1_w_0_1_fused // 8 + ax2)
                                    v3 = T.axis.spatial(32, w_0_0 * 8 + h_0_1_w_0_1_fused % 8 + ax3)
                                    T.reads(Y_local[v0, v1, v2, v3])
                                    T.writes(Y[v0, v1, v2, v3])
                                    Y[v0, v1, v2, v3] = Y_local[v0, v1, v2, v3]
