# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 2, 64, 32), "bfloat16"), K: T.Buffer((1, 2, 64, 32), "bfloat16"), V: T.Buffer((1, 2, 64, 32), "bfloat16"), Y: T.Buffer((1, 2, 64, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep", "tirstep_own_lanes": 1})
            scores_local = T.sblock_alloc_buffer((1, 2, 4, 4, 32, 8), scope="local")
            largest_local = T.sblock_alloc_buffer((1, 2, 8, 1, 8), scope="local")
            total_local = T.sblock_alloc_buffer((1, 2, 8, 1, 8), scope="local")
            weighted_local = T.sblock_alloc_buffer((1, 2, 4, 2, 32, 8), scope="local")
            power_bfloat16_local = T.sblock_alloc_buffer((1, 2, 4, 4, 32, 8), "bfloat16", scope="local")
            largest_tile_local = T.sblock_alloc_buffer((1, 2, 8, 8, 2), scope="local")
            largest_previous_local = T.sblock_alloc_buffer((1, 2, 8, 1, 8), scope="local")
            power_running_local = T.sblock_alloc_buffer((1, 2, 4, 4, 32, 8), scope="local")
            total_tile_local = T.sblock_alloc_buffer((1, 2, 8, 8, 2), scope="local")
            V_shared_dyn = T.sblock_alloc_buffer((1, 2, 64, 32), "bfloat16", scope="shared.dyn")
            K_shared_dyn = T.sblock_alloc_buffer((1, 2, 64, 32), "bfloat16", scope="shared.dyn")
            V_shared_dyn_local = T.sblock_alloc_buffer((1, 2, 64, 32), "bfloat16", scope="local")
            K_shared_dyn_local = T.sblock_alloc_buffer((1, 2, 64, 32), "bfloat16", scope="local")
            Q_local = T.sblock_alloc_buffer((1, 2, 64, 32), "bfloat16", scope="local")
            Q_shared_dyn = T.sblock_alloc_buffer((1, 2, 64, 32), "bfloat16", scope="shared.dyn")
            for b in T.thread_binding(1, thread="blockIdx.z"):
                for h in T.thread_binding(2, thread="blockIdx.y"):
                    for i_0 in T.thread_binding(2, thread="blockIdx.x"):
                        for i_1_0 in T.thread_binding(2, thread="threadIdx.z"):
                            for ax0_ax1_ax2_ax3_fused_0 in range(2):
                                for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.z"):
                                    for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                        for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                            for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                with T.sblock("Q_shared.dyn"):
                                                    v0 = T.axis.spatial(1, 0)
                                                    v1 = T.axis.spatial(2, h)
                                                    v2 = T.axis.spatial(64, i_0 * 32 + (ax0_ax1_ax2_ax3_fused_0 * 512 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                    v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 512 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                    T.reads(Q[v0, v1, v2, v3])
                                                    T.writes(Q_shared_dyn[v0, v1, v2, v3])
                                                    T.sblock_attr({"tirstep_swizzle": 1})
                                                    Q_shared_dyn[v0, v1, v2, v3] = Q[v0, v1, v2, v3]
                            for ax0, ax1, ax2, ax3 in T.grid(1, 1, 16, 32):
                                with T.sblock("Q_local"):
                                    v0 = T.axis.spatial(1, ax0)
                                    v1 = T.axis.spatial(2, h + ax1)
                                    v2 = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + ax2)
                                    v3 = T.axis.spatial(32, ax3)
                                    T.reads(Q_shared_dyn[v0, v1, v2, v3])
                                    T.writes(Q_local[v0, v1, v2, v3])
                                    Q_local[v0, v1, v2, v3] = Q_shared_dyn[v0, v1, v2, v3]
                            for j_0 in range(2):
                                for ax0_ax1_ax2_ax3_fused_0 in range(2):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("K_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(2, h)
                                                        v2 = T.axis.spatial(64, j_0 * 32 + (ax0_ax1_ax2_ax3_fused_0 * 512 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                        v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 512 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                        T.reads(K[v0, v1, v2, v3])
                                                        T.writes(K_shared_dyn[v0, v1, v2, v3])
                                                        T.sblock_attr({"tirstep_swizzle": 1})
                                                        K_shared_dyn[v0, v1, v2, v3] = K[v0, v1, v2, v3]
                                for ax0_ax1_ax2_ax3_fused_0 in range(2):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("V_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(2, h)
                                                        v2 = T.axis.spatial(64, j_0 * 32 + (ax0_ax1_ax2_ax3_fused_0 * 512 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                        v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 512 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                        T.reads(V[v0, v1, v2, v3])
                                                        T.writes(V_shared_dyn[v0, v1, v2, v3])
                                                        T.sblock_attr({"tirstep_swizzle": 1})
                                                        V_shared_dyn[v0, v1, v2, v3] = V[v0, v1, v2, v3]
                                for ax0, ax1, ax4_0, ax3_0 in T.grid(1, 1, 2, 2):
                                    for ax0_1, ax1_1, ax2, ax3 in T.grid(1, 1, 16, 16):
                                        with T.sblock("K_shared.dyn_local"):
                                            v0 = T.axis.spatial(1, ax0_1)
                                            v1 = T.axis.spatial(2, h + ax1_1)
                                            v2 = T.axis.spatial(64, j_0 * 32 + ax3_0 * 16 + ax2)
                                            v3 = T.axis.spatial(32, ax4_0 * 16 + ax3)
                                            T.reads(K_shared_dyn[v0, v1, v2, v3])
                                            T.writes(K_shared_dyn_local[v0, v1, v2, v3])
                                            K_shared_dyn_local[v0, v1, v2, v3] = K_shared_dyn[v0, v1, v2, v3]
                                    for ax2_0 in range(1):
                                        with T.sblock("scores_o"):
                                            vb_o = T.axis.spatial(1, ax0)
                                            vh_o = T.axis.spatial(2, h + ax1)
                                            vi_o = T.axis.spatial(4, i_0 * 2 + i_1_0 + ax2_0)
                                            vj_o = T.axis.spatial(4, j_0 * 2 + ax3_0)
                                            vd_o = T.axis.reduce(2, ax4_0)
                                            T.reads(Q_local[vb_o, vh_o, vi_o * 16:vi_o * 16 + 16, vd_o * 16:vd_o * 16 + 16], K_shared_dyn_local[vb_o, vh_o, vj_o * 16:vj_o * 16 + 16, vd_o * 16:vd_o * 16 + 16])
                                            T.writes(scores_local[vb_o, vh_o, vi_o, vj_o, 0:32, 0:8])
                                            with T.init():
                                                for ax2_1, ax3_1 in T.grid(16, 16):
                                                    with T.sblock("scores_init"):
                                                        vi_i_init, vj_i_init = T.axis.remap("SS", [ax2_1, ax3_1])
                                                        T.reads()
                                                        T.writes(scores_local[vb_o, vh_o, vi_o, vj_o, vi_i_init % 8 * 4 + vj_i_init % 8 // 2, vj_i_init // 8 * 4 + vi_i_init // 8 * 2 + vj_i_init % 2])
                                                        scores_local[vb_o, vh_o, vi_o, vj_o, vi_i_init % 8 * 4 + vj_i_init % 8 // 2, vj_i_init // 8 * 4 + vi_i_init // 8 * 2 + vj_i_init % 2] = T.float32(0.0)
                                            for ax2_1, ax3_1, ax4_1 in T.grid(16, 16, 16):
                                                with T.sblock("scores"):
                                                    vi_i, vj_i, vd_i = T.axis.remap("SSR", [ax2_1, ax3_1, ax4_1])
                                                    T.reads(scores_local[vb_o, vh_o, vi_o, vj_o, vi_i % 8 * 4 + vj_i % 8 // 2, vj_i // 8 * 4 + vi_i // 8 * 2 + vj_i % 2], Q_local[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i], K_shared_dyn_local[vb_o, vh_o, vj_o * 16 + vj_i, vd_o * 16 + vd_i])
                                                    T.writes(scores_local[vb_o, vh_o, vi_o, vj_o, vi_i % 8 * 4 + vj_i % 8 // 2, vj_i // 8 * 4 + vi_i // 8 * 2 + vj_i % 2])
                                                    scores_local[vb_o, vh_o, vi_o, vj_o, vi_i % 8 * 4 + vj_i % 8 // 2, vj_i // 8 * 4 + vi_i // 8 * 2 + vj_i % 2] = scores_local[vb_o, vh_o, vi_o, vj_o, vi_i % 8 * 4 + vj_i % 8 // 2, vj_i // 8 * 4 + vi_i // 8 * 2 + vj_i % 2] + T.Cast("float32", Q_local[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i]) * T.Cast("float32", K_shared_dyn_local[vb_o, vh_o, vj_o * 16 + vj_i, vd_o * 16 + vd_i])
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("max_tile"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                        T.reads(scores_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                        T.writes(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        with T.init():
                                            largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.max(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0], scores_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                for i_1_1 in range(16):
                                    with T.sblock("max"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                        vj_0 = T.axis.reduce(2, j_0)
                                        T.reads(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        T.writes(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_previous_local[vb, vh, vi // 8, 0, vi % 8])
                                        with T.init():
                                            largest_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_previous_local[vb, vh, vi // 8, 0, vi % 8] = largest_local[vb, vh, vi // 8, 0, vi % 8]
                                        largest_local[vb, vh, vi // 8, 0, vi % 8] = T.max(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("exp_running"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                        vj = T.axis.spatial(64, j_0 * 32 + j_1)
                                        T.reads(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2], largest_local[vb, vh, vi // 8, 0, vi % 8])
                                        T.writes(power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                        power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = T.exp((scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(0.17677669529663687))
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("sum_tile"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                        T.reads(power_running_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                        T.writes(total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        with T.init():
                                            total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(0.0)
                                        total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] + power_running_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2]
                                for i_1_1 in range(16):
                                    with T.sblock("sum"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                        vj_0 = T.axis.reduce(2, j_0)
                                        T.reads(largest_previous_local[vb, vh, vi // 8, 0, vi % 8], largest_local[vb, vh, vi // 8, 0, vi % 8], total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                        T.writes(total_local[vb, vh, vi // 8, 0, vi % 8])
                                        with T.init():
                                            total_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(0.0)
                                        total_local[vb, vh, vi // 8, 0, vi % 8] = total_local[vb, vh, vi // 8, 0, vi % 8] * T.exp((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(0.17677669529663687)) + total_tile_local[vb, vh, vi // 8, vi % 8, vj_0]
                                for i_1_1, j_1 in T.grid(16, 32):
                                    with T.sblock("power_global"):
                                        v0, v1 = T.axis.remap("SS", [b, h])
                                        v2 = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                        v3 = T.axis.spatial(64, j_0 * 32 + j_1)
                                        T.reads(power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                        T.writes(power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                        power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2] = T.Cast("bfloat16", power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                for i_1_1_init, d_init in T.grid(16, 32):
                                    with T.sblock("weighted_init"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1_init)
                                        vd, vj_0 = T.axis.remap("SS", [d_init, j_0])
                                        T.reads()
                                        T.writes(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2])
                                        weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] * T.exp((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(0.17677669529663687)))
                                for j_1_0, d_0 in T.grid(2, 2):
                                    for ax0, ax1, ax2, ax3 in T.grid(1, 1, 16, 16):
                                        with T.sblock("V_shared.dyn_local"):
                                            v0 = T.axis.spatial(1, ax0)
                                            v1 = T.axis.spatial(2, h + ax1)
                                            v2 = T.axis.spatial(64, j_0 * 32 + j_1_0 * 16 + ax2)
                                            v3 = T.axis.spatial(32, d_0 * 16 + ax3)
                                            T.reads(V_shared_dyn[v0, v1, v2, v3])
                                            T.writes(V_shared_dyn_local[v0, v1, v2, v3])
                                            V_shared_dyn_local[v0, v1, v2, v3] = V_shared_dyn[v0, v1, v2, v3]
                                    for i_1_1_0 in range(1):
                                        with T.sblock("weighted_update_o"):
                                            vb_o, vh_o = T.axis.remap("SS", [b, h])
                                            vi_o = T.axis.spatial(4, i_0 * 2 + i_1_0 + i_1_1_0)
                                            vd_o, vj_0_o, vj_1_o = T.axis.remap("SSR", [d_0, j_0, j_1_0])
                                            T.reads(weighted_local[vb_o, vh_o, vi_o, vd_o, 0:32, 0:8], power_bfloat16_local[vb_o, vh_o, vi_o, vj_0_o * 2 + vj_1_o, 0:32, 0:8], V_shared_dyn_local[vb_o, vh_o, vj_0_o * 32 + vj_1_o * 16:vj_0_o * 32 + vj_1_o * 16 + 16, vd_o * 16:vd_o * 16 + 16])
                                            T.writes(weighted_local[vb_o, vh_o, vi_o, vd_o, 0:32, 0:8])
                                            for i_1_1_1, d_1, j_1_1 in T.grid(16, 16, 16):
                                                with T.sblock("weighted_update"):
                                                    vi_i, vd_i, vj_1_i = T.axis.remap("SSR", [i_1_1_1, d_1, j_1_1])
                                                    T.reads(weighted_local[vb_o, vh_o, vi_o, vd_o, vi_i % 8 * 4 + vd_i % 8 // 2, vd_i // 8 * 4 + vi_i // 8 * 2 + vd_i % 2], power_bfloat16_local[vb_o, vh_o, vi_o, vj_0_o * 2 + vj_1_o, vi_i % 8 * 4 + vj_1_i % 8 // 2, vj_1_i // 8 * 4 + vi_i // 8 * 2 + vj_1_i % 2], V_shared_dyn_local[vb_o, vh_o, vj_0_o * 32 + vj_1_o * 16 + vj_1_i, vd_o * 16 + vd_i])
                                                    T.writes(weighted_local[vb_o, vh_o, vi_o, vd_o, vi_i % 8 * 4 + vd_i % 8 // 2, vd_i // 8 * 4 + vi_i // 8 * 2 + vd_i % 2])
                                                    weighted_local[vb_o, vh_o, vi_o, vd_o, vi_i % 8 * 4 + vd_i % 8 // 2, vd_i // 8 * 4 + vi_i // 8 * 2 + vd_i % 2] = weighted_local[vb_o, vh_o, vi_o, vd_o, vi_i % 8 * 4 + vd_i % 8 // 2, vd_i // 8 * 4 + vi_i // 8 * 2 + vd_i % 2] + T.Cast("float32", power_bfloat16_local[vb_o, vh_o, vi_o, vj_0_o * 2 + vj_1_o, vi_i % 8 * 4 + vj_1_i % 8 // 2, vj_1_i // 8 * 4 + vi_i // 8 * 2 + vj_1_i % 2]) * T.Cast("float32", V_shared_dyn_local[vb_o, vh_o, vj_0_o * 32 + vj_1_o * 16 + vj_1_i, vd_o * 16 + vd_i])
                            for ax0, ax1, ax2, ax3 in T.grid(1, 1, 16, 32):
                                with T.sblock("Y"):
                                    vb = T.axis.spatial(1, ax0)
                                    vh = T.axis.spatial(2, h + ax1)
                                    vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + ax2)
                                    vd = T.axis.spatial(32, ax3)
                                    T.reads(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2], total_local[vb, vh, vi // 8, 0, vi % 8])
                                    T.writes(Y[vb, vh, vi, vd])
                                    Y[vb, vh, vi, vd] = T.Cast("bfloat16", weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] / total_local[vb, vh, vi // 8, 0, vi % 8])
