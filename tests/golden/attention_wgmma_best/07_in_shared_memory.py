# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 2, 150, 40), "bfloat16"), K: T.Buffer((1, 2, 250, 40), "bfloat16"), V: T.Buffer((1, 2, 250, 40), "bfloat16"), Y: T.Buffer((1, 2, 150, 40), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep", "tirstep_own_lanes": 1})
            largest_local = T.sblock_alloc_buffer((1, 2, 24, 1, 8), scope="local")
            total_local = T.sblock_alloc_buffer((1, 2, 24, 1, 8), scope="local")
            scores_local = T.sblock_alloc_buffer((1, 2, 12, 16, 32, 8), scope="local")
            weighted_local = T.sblock_alloc_buffer((1, 2, 12, 4, 32, 8), scope="local")
            power_bfloat16_local = T.sblock_alloc_buffer((1, 2, 12, 16, 32, 8), "bfloat16", scope="local")
            largest_tile_local = T.sblock_alloc_buffer((1, 2, 24, 8, 4), scope="local")
            largest_previous_local = T.sblock_alloc_buffer((1, 2, 24, 1, 8), scope="local")
            power_running_local = T.sblock_alloc_buffer((1, 2, 12, 16, 32, 8), scope="local")
            total_tile_local = T.sblock_alloc_buffer((1, 2, 24, 8, 4), scope="local")
            V_global_shared_dyn = T.sblock_alloc_buffer((1, 2, 1, 256, 8, 8), "bfloat16", scope="shared.dyn")
            K_global_shared_dyn = T.sblock_alloc_buffer((1, 2, 1, 256, 8, 8), "bfloat16", scope="shared.dyn")
            Q_global_shared_dyn = T.sblock_alloc_buffer((1, 2, 1, 192, 8, 8), "bfloat16", scope="shared.dyn")
            for b in T.thread_binding(1, thread="blockIdx.y"):
                for h in T.thread_binding(2, thread="blockIdx.x"):
                    for i_0 in T.thread_binding(3, thread="blockIdx.z"):
                        for i_1_0 in T.thread_binding(4, thread="threadIdx.z"):
                            for ax0_ax1_ax2_ax3_fused_0 in range(4):
                                for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                    for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                        for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                            for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                with T.sblock("Q_global_shared.dyn"):
                                                    v0 = T.axis.spatial(1, 0)
                                                    v1 = T.axis.spatial(2, h)
                                                    v2 = T.axis.spatial(192, i_0 * 64 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 64)
                                                    v3 = T.axis.spatial(64, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 64)
                                                    T.reads(Q[v0, v1, v2, v3])
                                                    T.writes(Q_global_shared_dyn[v0, v1, 0, v2, 0:8, v3 % 8])
                                                    Q_global_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8) % 8, v3 % 8] = T.if_then_else(v2 < 150 and v3 < 40, Q[v0, v1, v2, v3], T.bfloat16(0.0))
                            for j_0 in range(4):
                                for ax0_ax1_ax2_ax3_fused_0 in range(4):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("K_global_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(2, h)
                                                        v2 = T.axis.spatial(256, j_0 * 64 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 64)
                                                        v3 = T.axis.spatial(64, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 64)
                                                        T.reads(K[v0, v1, v2, v3])
                                                        T.writes(K_global_shared_dyn[v0, v1, 0, v2, 0:8, v3 % 8])
                                                        K_global_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8) % 8, v3 % 8] = T.if_then_else(v2 < 250 and v3 < 40, K[v0, v1, v2, v3], T.bfloat16(0.0))
                                for ax0_ax1_ax2_ax3_fused_0 in range(4):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("V_global_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(2, h)
                                                        v2 = T.axis.spatial(256, j_0 * 64 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 64)
                                                        v3 = T.axis.spatial(64, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 64)
                                                        T.reads(V[v0, v1, v2, v3])
                                                        T.writes(V_global_shared_dyn[v0, v1, 0, v2, 0:8, v3 % 8])
                                                        V_global_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8) % 8, v3 % 8] = T.if_then_else(v2 < 250 and v3 < 40, V[v0, v1, v2, v3], T.bfloat16(0.0))
                                for ax0, ax1, ax2, ax3, ax4 in T.grid(1, 1, 16, 64, 64):
                                    with T.sblock("scores"):
                                        vb = T.axis.spatial(1, ax0)
                                        vh = T.axis.spatial(2, h + ax1)
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + ax2)
                                        vj = T.axis.spatial(256, j_0 * 64 + ax3)
                                        vd = T.axis.reduce(64, ax4)
                                        T.reads(Q_global_shared_dyn[vb, vh, 0, vi, 0:8, vd % 8], K_global_shared_dyn[vb, vh, 0, vj, 0:8, vd % 8])
                                        T.writes(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                        with T.init():
                                            scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = T.float32(0.0)
                                        scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] + T.Cast("float32", Q_global_shared_dyn[vb, vh, 0, vi, (vd // 8 ^ vi % 8) % 8, vd % 8]) * T.Cast("float32", K_global_shared_dyn[vb, vh, 0, vj, (vd // 8 ^ vj % 8) % 8, vd % 8])
                                for i_1_1, j_1 in T.grid(16, 64):
                                    with T.sblock("max_tile"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                        T.reads(scores_local[vb, vh, vi // 16, vj_0 * 4 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                        T.writes(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        with T.init():
                                            largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.max(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0], T.if_then_else(vj_0 * 64 + vj_1 <= vi + 100 and vj_0 * 64 + vj_1 < 250, scores_local[vb, vh, vi // 16, vj_0 * 4 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2], T.float32(-340282346638528859811704183484516925440.0)))
                                for i_1_1 in range(16):
                                    with T.sblock("max"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0 = T.axis.reduce(4, j_0)
                                        T.reads(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        T.writes(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_previous_local[vb, vh, vi // 8, 0, vi % 8])
                                        with T.init():
                                            largest_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_previous_local[vb, vh, vi // 8, 0, vi % 8] = largest_local[vb, vh, vi // 8, 0, vi % 8]
                                        largest_local[vb, vh, vi // 8, 0, vi % 8] = T.max(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                for i_1_1, j_1 in T.grid(16, 64):
                                    with T.sblock("exp_running"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj = T.axis.spatial(256, j_0 * 64 + j_1)
                                        T.reads(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2], largest_local[vb, vh, vi // 8, 0, vi % 8])
                                        T.writes(power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                        T.sblock_attr({"tirstep_exponents": "fused"})
                                        power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = T.if_then_else(vj <= vi + 100 and vj < 250, T.exp2(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] * T.float32(0.22811011491194377) - largest_local[vb, vh, vi // 8, 0, vi % 8] * T.float32(0.22811011491194377)), T.float32(0.0))
                                for i_1_1, j_1 in T.grid(16, 64):
                                    with T.sblock("sum_tile"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                        T.reads(power_running_local[vb, vh, vi // 16, vj_0 * 4 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                        T.writes(total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        with T.init():
                                            total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(0.0)
                                        total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] + power_running_local[vb, vh, vi // 16, vj_0 * 4 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2]
                                for i_1_1 in range(16):
                                    with T.sblock("sum"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vj_0 = T.axis.reduce(4, j_0)
                                        T.reads(largest_previous_local[vb, vh, vi // 8, 0, vi % 8], largest_local[vb, vh, vi // 8, 0, vi % 8], total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        T.writes(total_local[vb, vh, vi // 8, 0, vi % 8])
                                        with T.init():
                                            total_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(0.0)
                                        total_local[vb, vh, vi // 8, 0, vi % 8] = total_local[vb, vh, vi // 8, 0, vi % 8] * T.exp2((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(0.22811011491194377)) + total_tile_local[vb, vh, vi // 8, vi % 8, vj_0]
                                for i_1_1, j_1 in T.grid(16, 64):
                                    with T.sblock("power_global"):
                                        v0, v1 = T.axis.remap("SS", [b, h])
                                        v2 = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        v3 = T.axis.spatial(256, j_0 * 64 + j_1)
                                        T.reads(power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                        T.writes(power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                        power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2] = T.Cast("bfloat16", power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                for i_1_1_init, d_init in T.grid(16, 64):
                                    with T.sblock("weighted_init"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1_init)
                                        vd, vj_0 = T.axis.remap("SS", [d_init, j_0])
                                        T.reads()
                                        T.writes(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2])
                                        weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] * T.exp2((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(0.22811011491194377)))
                                for i_1_1, d, j_1 in T.grid(16, 64, 64):
                                    with T.sblock("weighted_update"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                                        vd, vj_0, vj_1 = T.axis.remap("SSR", [d, j_0, j_1])
                                        T.reads(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2], power_bfloat16_local[vb, vh, vi // 16, vj_0 * 4 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2], V_global_shared_dyn[vb, vh, 0, vj_0 * 64 + vj_1, 0:8, vd % 8])
                                        T.writes(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2])
                                        weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] = weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] + T.Cast("float32", power_bfloat16_local[vb, vh, vi // 16, vj_0 * 4 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2]) * T.Cast("float32", V_global_shared_dyn[vb, vh, 0, vj_0 * 64 + vj_1, (vd // 8 ^ vj_1 % 8) % 8, vd % 8])
                            for ax0, ax1, ax2, ax3 in T.grid(1, 1, 16, 40):
                                with T.sblock("Y"):
                                    vb = T.axis.spatial(1, ax0)
                                    vh = T.axis.spatial(2, h + ax1)
                                    vi = T.axis.spatial(150, i_0 * 64 + i_1_0 * 16 + ax2)
                                    vd = T.axis.spatial(40, ax3)
                                    T.where(i_0 * 64 + i_1_0 * 16 + ax2 < 150)
                                    T.reads(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2], total_local[vb, vh, vi // 8, 0, vi % 8])
                                    T.writes(Y[vb, vh, vi, vd])
                                    Y[vb, vh, vi, vd] = T.Cast("bfloat16", weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] / total_local[vb, vh, vi // 8, 0, vi % 8])
