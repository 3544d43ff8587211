# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 1, 128, 32), "bfloat16"), K: T.Buffer((1, 1, 128, 32), "bfloat16"), V: T.Buffer((1, 1, 128, 32), "bfloat16"), Y: T.Buffer((1, 1, 128, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep", "tirstep_own_lanes": 1})
            scores_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), scope="local")
            largest_local = T.sblock_alloc_buffer((1, 1, 16, 1, 8), scope="local")
            total_local = T.sblock_alloc_buffer((1, 1, 16, 1, 8), scope="local")
            weighted_local = T.sblock_alloc_buffer((1, 1, 8, 2, 32, 8), scope="local")
            power_bfloat16_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), "bfloat16", scope="local")
            largest_tile_local = T.sblock_alloc_buffer((1, 1, 16, 8, 4), scope="local")
            largest_previous_local = T.sblock_alloc_buffer((1, 1, 16, 1, 8), scope="local")
            power_running_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), scope="local")
            total_tile_local = T.sblock_alloc_buffer((1, 1, 16, 8, 4), scope="local")
            V_shared_dyn = T.sblock_alloc_buffer((1, 1, 1, 128, 4, 8), "bfloat16", scope="shared.dyn")
            K_shared_dyn = T.sblock_alloc_buffer((1, 1, 1, 128, 4, 8), "bfloat16", scope="shared.dyn")
            Q_shared_dyn = T.sblock_alloc_buffer((1, 1, 1, 128, 4, 8), "bfloat16", scope="shared.dyn")
            for b in T.thread_binding(1, thread="blockIdx.z"):
                for h in T.thread_binding(1, thread="blockIdx.y"):
                    for i_0 in T.thread_binding(2, thread="blockIdx.x"):
                        for i_1_0 in T.thread_binding(4, thread="threadIdx.z"):
                            for ax0_ax1_ax2_ax3_fused_0 in range(2):
                                for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                    for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                        for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                            for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                with T.sblock("Q_shared.dyn"):
                                                    v0 = T.axis.spatial(1, 0)
                                                    v1 = T.axis.spatial(1, 0)
                                                    v2 = T.axis.spatial(128, i_0 * 64 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                    v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                    T.reads(Q[v0, v1, v2, v3])
                                                    T.writes(Q_shared_dyn[v0, v1, 0, v2, 0:4, v3 % 8])
                                                    Q_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8 // 2) % 4, v3 % 8] = Q[v0, v1, v2, v3]
                            for j_0 in range(4):
                                for ax0_ax1_ax2_ax3_fused_0 in range(1):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("K_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(1, 0)
                                                        v2 = T.axis.spatial(128, j_0 * 32 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                        v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                        T.reads(K[v0, v1, v2, v3])
                                                        T.writes(K_shared_dyn[v0, v1, 0, v2, 0:4, v3 % 8])
                                                        K_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8 // 2) % 4, v3 % 8] = K[v0, v1, v2, v3]
                                for ax0_ax1_ax2_ax3_fused_0 in range(1):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("V_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(1, 0)
                                                        v2 = T.axis.spatial(128, j_0 * 32 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                        v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                        T.reads(V[v0, v1, v2, v3])
                                                        T.writes(V_shared_dyn[v0, v1, 0, v2, 0:4, v3 % 8])
                                                        V_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8 // 2) % 4, v3 % 8] = V[v0, v1, v2, v3]
                                for ax0, ax1, ax2, ax3, ax4 in T.grid(1, 1, 16, 32, 32):
                                    with T.sblock("scores"):
                                        vb, vh = T.axis.remap("SS", [ax0, ax1])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + ax2)
                                        vj = T.axis.spatial(128, j_0 * 32 + ax3)
                                        vd = T.axis.reduce(32, ax4)
                                        T.reads(Q_shared_dyn[vb, vh, 0, vi, 0:4, vd % 8], K_shared_dyn[vb, vh, 0, vj, 0:4, vd % 8])
                                        T.writes(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                        with T.init():
                                            scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = T.float32(0.0)
                                        scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] + T.Cast("float32", Q_shared_dyn[vb, vh, 0, vi, (vd // 8 ^ vi % 8 // 2) % 4, vd % 8]) * T.Cast("float32", K_shared_dyn[vb, vh, 0, vj, (vd // 8 ^ vj % 8 // 2) % 4, vd % 8])
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("max_tile"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                        T.reads(scores_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                        T.writes(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        with T.init():
                                            largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.max(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0], scores_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                for i_1_1 in range(16):
                                    with T.sblock("max"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0 = T.axis.reduce(4, j_0)
                                        T.reads(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        T.writes(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_previous_local[vb, vh, vi // 8, 0, vi % 8])
                                        with T.init():
                                            largest_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_previous_local[vb, vh, vi // 8, 0, vi % 8] = largest_local[vb, vh, vi // 8, 0, vi % 8]
                                        largest_local[vb, vh, vi // 8, 0, vi % 8] = T.max(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("exp_running"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj = T.axis.spatial(128, j_0 * 32 + j_1)
                                        T.reads(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2], largest_local[vb, vh, vi // 8, 0, vi % 8])
                                        T.writes(power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                        T.sblock_attr({"tirstep_exponents": "fused"})
                                        power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = T.exp2(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] * T.float32(0.25503486164919736) - largest_local[vb, vh, vi // 8, 0, vi % 8] * T.float32(0.25503486164919736))
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("sum_tile"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                        T.reads(power_running_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                        T.writes(total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        with T.init():
                                            total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(0.0)
                                        total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] + power_running_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2]
                                for i_1_1 in range(16):
                                    with T.sblock("sum"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0 = T.axis.reduce(4, j_0)
                                        T.reads(largest_previous_local[vb, vh, vi // 8, 0, vi % 8], largest_local[vb, vh, vi // 8, 0, vi % 8], total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        T.writes(total_local[vb, vh, vi // 8, 0, vi % 8])
                                        with T.init():
                                            total_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(0.0)
                                        total_local[vb, vh, vi // 8, 0, vi % 8] = total_local[vb, vh, vi // 8, 0, vi % 8] * T.exp2((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(0.25503486164919736)) + total_tile_local[vb, vh, vi // 8, vi % 8, vj_0]
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("power_global"):
                                        v0, v1 = T.axis.remap("SS", [b, h])
                                        v2 = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        v3 = T.axis.spatial(128, j_0 * 32 + j_1)
                                        T.reads(power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                        T.writes(power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                        power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2] = T.Cast("bfloat16", power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                for i_1_1_init, d_init in T.grid(16, 32):
                                    with T.sblock("weighted_init"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_init)
                                        vd, vj_0 = T.axis.remap("SS", [d_init, j_0])
                                        T.reads()
                                        T.writes(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2])
                                        weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] * T.exp2((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(0.25503486164919736)))
                                for i_1_1, d, j_1 in T.grid(16, 32, 32):
                                    with T.sblock("weighted_update"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vd, vj_0, vj_1 = T.axis.remap("SSR", [d, j_0, j_1])
                                        T.reads(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2], power_bfloat16_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2], V_shared_dyn[vb, vh, 0, vj_0 * 32 + vj_1, 0:4, vd % 8])
                                        T.writes(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2])
                                        weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] = weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] + T.Cast("float32", power_bfloat16_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2]) * T.Cast("float32", V_shared_dyn[vb, vh, 0, vj_0 * 32 + vj_1, (vd // 8 ^ vj_1 % 8 // 2) % 4, vd % 8])
                            for ax0, ax1, ax2, ax3 in T.grid(1, 1, 16, 32):
                                with T.sblock("Y"):
                                    vb, vh = T.axis.remap("SS", [ax0, ax1])
                                    vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + ax2)
                                    vd = T.axis.spatial(32, ax3)
                                    T.reads(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2], total_local[vb, vh, vi // 8, 0, vi % 8])
                                    T.writes(Y[vb, vh, vi, vd])
                                    Y[vb, vh, vi, vd] = T.Cast("bfloat16", weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] / total_local[vb, vh, vi // 8, 0, vi % 8])
