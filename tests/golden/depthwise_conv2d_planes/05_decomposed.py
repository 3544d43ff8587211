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
        padded_local = T.sblock_alloc_buffer((2, 4, 18, 34), scope="local")
        F_local = T.sblock_alloc_buffer((4, 1, 3, 3), scope="local")
        X_shared = T.sblock_alloc_buffer((2, 4, 16, 32), scope="shared")
        for b_c_0_fused in T.thread_binding(4, thread="blockIdx.x"):
            for h_0_0 in T.thread_binding(1, thread="blockIdx.y"):
                for w_0_0 in T.thread_binding(1, thread="blockIdx.z"):
                    for ax0 in range(1):
                        for ax1 in T.thread_binding(2, thread="threadIdx.y"):
                            for ax2 in T.serial(18, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax3_0_0 in range(1):
                                    for ax3_0_1 in T.thread_binding(32, thread="threadIdx.x"):
                                        for ax3_1 in T.vectorized(2):
                                            with T.sblock("padded_pad_const"):
                                                vb = T.axis.spatial(2, b_c_0_fused // 2 + ax0)
                                                vc = T.axis.spatial(4, b_c_0_fused % 2 * 2 + ax1)
                                                vy = T.axis.spatial(18, ax2)
                                                vx = T.axis.spatial(34, (ax3_0_0 * 32 + ax3_0_1) * 2 + ax3_1)
                                                T.where(ax3_0_0 * 32 + ax3_0_1 < 17)
                                                T.reads()
                                                T.writes(padded_shared[vb, vc, vy, vx])
                                                T.sblock_attr({"buffer_dim_align": [[0, 2, 34, 2]]})
                                                padded_shared[vb, vc, vy, vx] = T.float32(0.0)
                    for ax0_ax1_ax2_ax3_fused_0 in range(4):
                        for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                            for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_ax2_ax3_fused_3 in T.vectorized(4):
                                    with T.sblock("X_shared"):
                                        v0 = T.axis.spatial(2, b_c_0_fused // 2)
                                        v1 = T.axis.spatial(4, b_c_0_fused % 2 * 2 + (ax0_ax1_ax2_ax3_fused_0 * 256 + ax0_ax1_ax2_ax3_fused_1 * 128 + ax0_ax1_ax2_ax3_fused_2 * 4 + ax0_ax1_ax2_ax3_fused_3) // 512)
                                        v2 = T.axis.spatial(16, (ax0_ax1_ax2_ax3_fused_0 * 256 + ax0_ax1_ax2_ax3_fused_1 * 128 + ax0_ax1_ax2_ax3_fused_2 * 4 + ax0_ax1_ax2_ax3_fused_3) % 512 // 32)
                                        v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 256 + ax0_ax1_ax2_ax3_fused_1 * 128 + ax0_ax1_ax2_ax3_fused_2 * 4 + ax0_ax1_ax2_ax3_fused_3) % 32)
                                        T.reads(X[v0, v1, v2, v3])
                                        T.writes(X_shared[v0, v1, v2, v3])
                                        X_shared[v0, v1, v2, v3] = X[v0, v1, v2, v3]
                    for ax0 in range(1):
                        for ax1 in T.thread_binding(2, thread="threadIdx.y"):
                            for ax2 in T.serial(16, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax3_0_0 in range(1):
                                    for ax3_0_1 in T.thread_binding(32, thread="threadIdx.x"):
                                        for ax3_1 in range(1):
                                            with T.sblock("padded"):
                                                vb = T.axis.spatial(2, b_c_0_fused // 2)
                                                vc = T.axis.spatial(4, b_c_0_fused % 2 * 2 + ax1)
                                                vy = T.axis.spatial(16, ax2)
                                                vx = T.axis.spatial(32, ax3_0_0 * 32 + ax3_0_1 + ax3_1)
                                                T.reads(X_shared[vb, vc, vy, vx])
                                                T.writes(padded_shared[vb, vc, vy + 1, vx + 1])
                                                padded_shared[vb, vc, vy + 1, vx + 1] = X_shared[vb, vc, vy, vx]
                    for c_1 in T.thread_binding(2, thread="threadIdx.y"):
                        for h_0_1_w_0_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                            for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax1, ax2, ax3 in T.grid(1, 6, 6):
                                    with T.sblock("padded_local"):
                                        v0 = T.axis.spatial(2, b_c_0_fused // 2 + ax0)
                                        v1 = T.axis.spatial(4, b_c_0_fused % 2 * 2 + c_1 + ax1)
                                        v2 = T.axis.spatial(18, h_0_1_w_0_1_fused // 8 * 4 + ax2)
                                        v3 = T.axis.spatial(34, h_0_1_w_0_1_fused % 8 * 4 + ax3)
                                        T.reads(padded_shared[v0, v1, v2, v3])
                                        T.writes(padded_local[v0, v1, v2, v3])
                                        padded_local[v0, v1, v2, v3] = padded_shared[v0, v1, v2, v3]
                            for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax1, ax2, ax3 in T.grid(1, 3, 3):
                                    with T.sblock("F_local"):
                                        v0 = T.axis.spatial(4, b_c_0_fused % 2 * 2 + c_1 + ax0)
                                        v1, v2, v3 = T.axis.remap("SSS", [ax1, ax2, ax3])
                                        T.reads(F[v0, v1, v2, v3])
                                        T.writes(F_local[v0, v1, v2, v3])
                                        F_local[v0, v1, v2, v3] = F[v0, v1, v2, v3]
                            for h_1_init, w_1_init in T.grid(4, 4):
                                with T.sblock("Y_init"):
                                    vb = T.axis.spatial(2, b_c_0_fused // 2)
                                    vc = T.axis.spatial(4, b_c_0_fused % 2 * 2 + c_1)
                                    vh = T.axis.spatial(16, h_0_0 * 16 + h_0_1_w_0_1_fused // 8 * 4 + h_1_init)
                                    vw = T.axis.spatial(32, w_0_0 * 32 + h_0_1_w_0_1_fused % 8 * 4 + w_1_init)
                                    T.reads()
                                    T.writes(Y_local[vb, vc, vh, vw])
                                    Y_local[vb, vc, vh, vw] = T.float32(0.0)
                            for ry in T.serial(3, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for rx, h_1, w_1 in T.grid(3, 4, 4):
                                    with T.sblock("Y_update"):
                                        vb = T.axis.spatial(2, b_c_0_fused // 2)
                                        vc = T.axis.spatial(4, b_c_0_fused % 2 * 2 + c_1)
                                        vh = T.axis.spatial(16, h_0_0 * 16 + h_0_1_w_0_1_fused // 8 * 4 + h_1)
                                        vw = T.axis.spatial(32, w_0_0 * 32 + h_0_1_w_0_1_fused % 8 * 4 + w_1)
                                        vy, vx = T.axis.remap("RR", [ry, rx])
                                        T.reads(Y_local[vb, vc, vh, vw], padded_local[vb, vc, vh + vy, vw + vx], F_local[vc, 0, vy, vx])
                                        T.writes(Y_local[vb, vc, vh, vw])
                                        Y_local[vb, vc, vh, vw] = Y_local[vb, vc, vh, vw] + padded_local[vb, vc, vh + vy, vw + vx] * F_local[vc, 0, vy, vx]
                            for ax0, ax1, ax2 in T.grid(1, 1, 4):
                                for ax3 in T.vectorized(4):
                                    with T.sblock("Y_local"):
                                        v0 = T.axis.spatial(2, b_c_0_fused // 2 + ax0)
                                        v1 = T.axis.spatial(4, b_c_0_fused % 2 * 2 + c_1 + ax1)
                                        v2 = T.axis.spatial(16, h_0_1_w_0_1_fused // 8 * 4 + ax2)
                                        v3 = T.axis.spatial(32, h_0_1_w_0_1_fused % 8 * 4 + ax3)
                                        T.reads(Y_local[v0, v1, v2, v3])
                                        T.writes(Y[v0, v1, v2, v3])
                                        Y[v0, v1, v2, v3] = Y_local[v0, v1, v2, v3]
