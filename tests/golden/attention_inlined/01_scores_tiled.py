# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 2, 12, 8), "float32"), K: T.Buffer((1, 2, 16, 8), "float32"), V: T.Buffer((1, 2, 16, 8), "float32"), Y: T.Buffer((1, 2, 12, 8), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        scores = T.sblock_alloc_buffer((1, 2, 12, 16))
        largest = T.sblock_alloc_buffer((1, 2, 12))
        power = T.sblock_alloc_buffer((1, 2, 12, 16))
        total = T.sblock_alloc_buffer((1, 2, 12))
        weighted = T.sblock_alloc_buffer((1, 2, 12, 8))
        scores_local = T.sblock_alloc_buffer((1, 2, 12, 16), scope="local")
        Q_shared = T.sblock_alloc_buffer((1, 2, 12, 8), scope="shared")
        K_shared = T.sblock_alloc_buffer((1, 2, 16, 8), scope="shared")
        for b_h_fused in T.thread_binding(2, thread="blockIdx.z"):
            for i_0 in T.thread_binding(3, thread="blockIdx.y"):
                for j_0 in T.thread_binding(4, thread="blockIdx.x"):
                    for i_1 in T.thread_binding(2, thread="threadIdx.y"):
                        for j_1 in T.thread_binding(2, thread="threadIdx.x"):
                            for i_2_init, j_2_init in T.grid(2, 2):
                                with T.sblock("scores_init"):
                                    vb = T.axis.spatial(1, 0)
                                    vh = T.axis.spatial(2, b_h_fused)
                                    vi = T.axis.spatial(12, i_0 * 4 + i_1 * 2 + i_2_init)
                                    vj = T.axis.spatial(16, j_0 * 4 + j_1 * 2 + j_2_init)
                                    T.reads()
                                    T.writes(scores_local[vb, vh, vi, vj])
                                    scores_local[vb, vh, vi, vj] = T.float32(0.0)
                            for d_0 in range(2):
                                for ax0_ax1_ax2_ax3_fused_0 in range(4):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                            with T.sblock("Q_shared"):
                                                v0 = T.axis.spatial(1, 0)
                                                v1 = T.axis.spatial(2, b_h_fused)
                                                v2 = T.axis.spatial(12, i_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) // 4)
                                                v3 = T.axis.spatial(8, d_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) % 4)
                                                T.reads(Q[v0, v1, v2, v3])
                                                T.writes(Q_shared[v0, v1, v2, v3])
                                                Q_shared[v0, v1, v2, v3] = Q[v0, v1, v2, v3]
                                for ax0_ax1_ax2_ax3_fused_0 in range(4):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                            with T.sblock("K_shared"):
                                                v0 = T.axis.spatial(1, 0)
                                                v1 = T.axis.spatial(2, b_h_fused)
                                                v2 = T.axis.spatial(16, j_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) // 4)
                                                v3 = T.axis.spatial(8, d_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) % 4)
                                                T.reads(K[v0, v1, v2, v3])
                                                T.writes(K_shared[v0, v1, v2, v3])
                                                K_shared[v0, v1, v2, v3] = K[v0, v1, v2, v3]
                                for d_1, i_2, j_2 in T.grid(4, 2, 2):
                                    with T.sblock("scores_update"):
                                        vb = T.axis.spatial(1, 0)
                                        vh = T.axis.spatial(2, b_h_fused)
                                        vi = T.axis.spatial(12, i_0 * 4 + i_1 * 2 + i_2)
                                        vj = T.axis.spatial(16, j_0 * 4 + j_1 * 2 + j_2)
                                        vd = T.axis.reduce(8, d_0 * 4 + d_1)
                                        T.reads(scores_local[vb, vh, vi, vj], Q_shared[vb, vh, vi, vd], K_shared[vb, vh, vj, vd])
                                        T.writes(scores_local[vb, vh, vi, vj])
                                        scores_local[vb, vh, vi, vj] = scores_local[vb, vh, vi, vj] + Q_shared[vb, vh, vi, vd] * K_shared[vb, vh, vj, vd]
                            for ax0, ax1, ax2, ax3 in T.grid(1, 1, 2, 2):
                                with T.sblock("scores_local"):
                                    v0 = T.axis.spatial(1, ax0)
                                    v1 = T.axis.spatial(2, b_h_fused + ax1)
                                    v2 = T.axis.spatial(12, i_0 * 4 + i_1 * 2 + ax2)
                                    v3 = T.axis.spatial(16, j_0 * 4 + j_1 * 2 + ax3)
                                    T.reads(scores_local[v0, v1, v2, v3])
                                    T.writes(scores[v0, v1, v2, v3])
                                    scores[v0, v1, v2, v3] = scores_local[v0, v1, v2, v3]
        for b, h, i, j in T.grid(1, 2, 12, 16):
            with T.sblock("max"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                T.reads(scores[vb, vh, vi, vj])
                T.writes(largest[vb, vh, vi])
                with T.init():
                    largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                largest[vb, vh, vi] = T.max(largest[vb, vh, vi], scores[vb, vh, vi, vj])
        for b, h, i, j in T.grid(1, 2, 12, 16):
            with T.sblock("exp"):
                vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                T.reads(scores[vb, vh, vi, vj], largest[vb, vh, vi])
                T.writes(power[vb, vh, vi, vj])
                power[vb, vh, vi, vj] = T.exp((scores[vb, vh, vi, vj] - largest[vb, vh, vi]) * T.float32(0.35355339059327373))
        for b, h, i, j in T.grid(1, 2, 12, 16):
            with T.sblock("sum"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                T.reads(power[vb, vh, vi, vj])
                T.writes(total[vb, vh, vi])
                with T.init():
                    total[vb, vh, vi] = T.float32(0.0)
                total[vb, vh, vi] = total[vb, vh, vi] + power[vb, vh, vi, vj]
        for b, h, i, d, j in T.grid(1, 2, 12, 8, 16):
            with T.sblock("weighted"):
                vb, vh, vi, vd, vj = T.axis.remap("SSSSR", [b, h, i, d, j])
                T.reads(power[vb, vh, vi, vj], V[vb, vh, vj, vd])
                T.writes(weighted[vb, vh, vi, vd])
                with T.init():
                    weighted[vb, vh, vi, vd] = T.float32(0.0)
                weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + power[vb, vh, vi, vj] * V[vb, vh, vj, vd]
        for b, h, i, d in T.grid(1, 2, 12, 8):
            with T.sblock("Y"):
                vb, vh, vi, vd = T.axis.remap("SSSS", [b, h, i, d])
                T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                T.writes(Y[vb, vh, vi, vd])
                Y[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] / total[vb, vh, vi]
