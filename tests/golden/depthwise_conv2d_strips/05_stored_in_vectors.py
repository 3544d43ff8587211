# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((2, 4, 16, 32), "float32"), F: T.Buffer((4, 1, 3, 3), "float32"), Y: T.Buffer((2, 4, 16, 32), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            padded_local = T.sblock_alloc_buffer((2, 4, 18, 10, 4), scope="local")
            Y_local = T.sblock_alloc_buffer((2, 4, 16, 32), scope="local")
            F_local = T.sblock_alloc_buffer((4, 1, 3, 3), scope="local")
            for b_0_c_0_fused in T.thread_binding(2, thread="blockIdx.x"):
                for h_0_0 in T.thread_binding(4, thread="blockIdx.y"):
                    for w_0_0 in T.thread_binding(2, thread="blockIdx.z"):
                        for c_1_b_1_h_0_1_w_0_1_fused in T.thread_binding(16, thread="threadIdx.x"):
                            for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 8192, "pragma_unroll_explicit": 0}):
                                for ax1, ax2, ax3 in T.grid(1, 6, 3):
                                    for ax4 in T.vectorized(4):
                                        with T.sblock("padded"):
                                            v_at_0 = T.axis.spatial(2, c_1_b_1_h_0_1_w_0_1_fused % 8 // 4 + ax0)
                                            v_at_1 = T.axis.spatial(4, b_0_c_0_fused * 2 + c_1_b_1_h_0_1_w_0_1_fused // 8 + ax1)
                                            v_at_2 = T.axis.spatial(18, h_0_0 * 4 + ax2)
                                            v_axis3 = T.axis.spatial(10, w_0_0 * 4 + c_1_b_1_h_0_1_w_0_1_fused % 4 + ax3)
                                            v_axis4 = T.axis.spatial(4, ax4)
                                            T.reads(X[v_at_0, v_at_1, v_at_2 - 1, v_axis3 * 4 + v_axis4 - 3 - 1])
                                            T.writes(padded_local[v_at_0, v_at_1, v_at_2, v_axis3, v_axis4])
                                            padded_local[v_at_0, v_at_1, v_at_2, v_axis3, v_axis4] = T.if_then_else(v_axis3 == 0 and v_axis4 < 3 or v_axis3 == 9 and 1 <= v_axis4, T.float32(0.0), T.if_then_else(v_at_2 >= 1 and v_at_2 < 17 and v_axis3 * 4 + v_axis4 - 3 >= 1 and v_axis3 * 4 + v_axis4 - 3 < 33, X[v_at_0, v_at_1, v_at_2 - 1, v_axis3 * 4 + v_axis4 - 3 - 1], T.float32(0.0)))
                            for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax1, ax2, ax3 in T.grid(1, 3, 3):
                                    with T.sblock("F_local"):
                                        v0 = T.axis.spatial(4, b_0_c_0_fused * 2 + c_1_b_1_h_0_1_w_0_1_fused // 8 + ax0)
                                        v1, v2, v3 = T.axis.remap("SSS", [ax1, ax2, ax3])
                                        T.reads(F[v0, v1, v2, v3])
                                        T.writes(F_local[v0, v1, v2, v3])
                                        F_local[v0, v1, v2, v3] = F[v0, v1, v2, v3]
                            for h_1 in T.serial(4, annotations={"pragma_auto_unroll_max_step": 8192, "pragma_unroll_explicit": 0}):
                                for ry, rx, w_1 in T.grid(3, 3, 4):
                                    with T.sblock("Y"):
                                        vb = T.axis.spatial(2, c_1_b_1_h_0_1_w_0_1_fused % 8 // 4)
                                        vc = T.axis.spatial(4, b_0_c_0_fused * 2 + c_1_b_1_h_0_1_w_0_1_fused // 8)
                                        vh = T.axis.spatial(16, h_0_0 * 4 + h_1)
                                        vw = T.axis.spatial(32, w_0_0 * 16 + c_1_b_1_h_0_1_w_0_1_fused % 4 * 4 + w_1)
                                        vy, vx = T.axis.remap("RR", [ry, rx])
                                        T.reads(padded_local[vb, vc, vh + vy, (vw + vx + 3) // 4, (vw + vx + 3) % 4], F_local[vc, 0, vy, vx])
                                        T.writes(Y_local[vb, vc, vh, vw])
                                        with T.init():
                                            Y_local[vb, vc, vh, vw] = T.float32(0.0)
                                        Y_local[vb, vc, vh, vw] = Y_local[vb, vc, vh, vw] + padded_local[vb, vc, vh + vy, (vw + vx + 3) // 4, (vw + vx + 3) % 4] * F_local[vc, 0, vy, vx]
                                for ax0, ax1, ax2 in T.grid(1, 1, 1):
                                    for ax3 in T.vectorized(4):
                                        with T.sblock("Y_local"):
                                            v0 = T.axis.spatial(2, c_1_b_1_h_0_1_w_0_1_fused % 8 // 4 + ax0)
                                            v1 = T.axis.spatial(4, b_0_c_0_fused * 2 + c_1_b_1_h_0_1_w_0_1_fused // 8 + ax1)
                                            v2 = T.axis.spatial(16, h_0_0 * 4 + h_1 + ax2)
                                            v3 = T.axis.spatial(32, w_0_0 * 16 + c_1_b_1_h_0_1_w_0_1_fused % 4 * 4 + ax3)
                                            T.reads(Y_local[v0, v1, v2, v3])
                                            T.writes(Y[v0, v1, v2, v3])
                                            Y[v0, v1, v2, v3] = Y_local[v0, v1, v2, v3]
