# attention(batch=1, heads=2, queries=12, keys=16, dim=8, causal=True)
@T.prim_func(s_tir=True)
def main(Q: T.Buffer((1, 2, 12, 8), "float32"), K: T.Buffer((1, 2, 16, 8), "float32"), V: T.Buffer((1, 2, 16, 8), "float32"), Y: T.Buffer((1, 2, 12, 8), "float32")):
    T.func_attr({"tirx.noalias": True})
    with T.sblock("root"):
        T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True, "tir_pipeline": "tirstep"})
        scores_local = T.sblock_alloc_buffer((1, 2, 12, 16), scope="local")
        largest_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
        total_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
        weighted_local = T.sblock_alloc_buffer((1, 2, 12, 8), scope="local")
        largest_tile_local = T.sblock_alloc_buffer((1, 2, 12, 4), scope="local")
        largest_previous_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
        power_running_shared = T.sblock_alloc_buffer((1, 2, 12, 16), scope="shared")
        total_tile_local = T.sblock_alloc_buffer((1, 2, 12, 4), scope="local")
        K_shared = T.sblock_alloc_buffer((1, 2, 16, 8), scope="shared")
        V_shared = T.sblock_alloc_buffer((1, 2, 16, 8), scope="shared")
        Q_shared = T.sblock_alloc_buffer((1, 2, 12, 8), scope="shared")
        for b in T.thread_binding(1, thread="blockIdx.z"):
            for h in T.thread_binding(2, thread="blockIdx.y"):
                for i_0 in T.thread_binding(3, thread="blockIdx.x"):
                    for i_1_0 in T.thread_binding(2, thread="threadIdx.y"):
                        for ax0_ax1_ax2_ax3_fused_0 in range(8):
                            for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                    with T.sblock("Q_shared"):
                                        v0 = T.axis.spatial(1, 0)
                                        v1 = T.axis.spatial(2, h)
                                        v2 = T.axis.spatial(12, i_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) // 8)
                                        v3 = T.axis.spatial(8, (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) % 8)
                                        Q_shared[v0, v1, v2, v3] = Q[v0, v1, v2, v3]
                        for j_0 in range(4):
                            for ax0_ax1_ax2_ax3_fused_0 in range(8):
                                for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                    for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("K_shared"):
                                            v0 = T.axis.spatial(1, 0)
                                            v1 = T.axis.spatial(2, h)
                                            v2 = T.axis.spatial(16, j_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) // 8)
                                            v3 = T.axis.spatial(8, (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) % 8)
                                            T.sblock_attr({"buffer_dim_align": [[0, 2, 8, 1]]})
                                            K_shared[v0, v1, v2, v3] = K[v0, v1, v2, v3]
                            for ax0_init, ax1_init in T.grid(1, 1):
                                for ax3_0_init in T.thread_binding(2, thread="threadIdx.x"):
                                    for ax2_init, ax3_1_init in T.grid(2, 2):
                                        with T.sblock("scores_init"):
                                            vb = T.axis.spatial(1, ax0_init)
                                            vh = T.axis.spatial(2, h + ax1_init)
                                            vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + ax2_init)
                                            vj = T.axis.spatial(16, j_0 * 4 + ax3_0_init * 2 + ax3_1_init)
                                            scores_local[vb, vh, vi, vj] = T.float32(0.0)
                            for ax4 in T.serial(8, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax0, ax1 in T.grid(1, 1):
                                    for ax3_0 in T.thread_binding(2, thread="threadIdx.x"):
                                        for ax2, ax3_1 in T.grid(2, 2):
                                            with T.sblock("scores_update"):
                                                vb = T.axis.spatial(1, ax0)
                                                vh = T.axis.spatial(2, h + ax1)
                                                vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + ax2)
                                                vj = T.axis.spatial(16, j_0 * 4 + ax3_0 * 2 + ax3_1)
                                                vd = T.axis.reduce(8, ax4)
                                                scores_local[vb, vh, vi, vj] = scores_local[vb, vh, vi, vj] + Q_shared[vb, vh, vi, vd] * K_shared[vb, vh, vj, vd]
                            for i_1_1, j_1_0_0 in T.grid(2, 1):
                                for j_1_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                    for j_1_1 in range(2):
                                        with T.sblock("max_tile"):
                                            vb, vh = T.axis.remap("SS", [b, h])
                                            vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                            vj_0 = T.axis.spatial(4, j_0)
                                            vj_1 = T.axis.reduce(4, j_1_0_0 * 4 + j_1_0_1 * 2 + j_1_1)
                                            with T.init():
                                                largest_tile_local[vb, vh, vi, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                            largest_tile_local[vb, vh, vi, vj_0] = T.max(largest_tile_local[vb, vh, vi, vj_0], T.if_then_else(vj_0 * 4 + vj_1 <= vi + 4, scores_local[vb, vh, vi, vj_0 * 4 + vj_1], T.float32(-340282346638528859811704183484516925440.0)))
                            for i_1_1 in range(2):
                                with T.sblock("max"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                    vj_0 = T.axis.reduce(4, j_0)
                                    with T.init():
                                        largest_local[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                                    largest_previous_local[vb, vh, vi] = largest_local[vb, vh, vi]
                                    largest_local[vb, vh, vi] = T.max(largest_local[vb, vh, vi], largest_tile_local[vb, vh, vi, vj_0])
                            for i_1_1, j_1_0_0 in T.grid(2, 1):
                                for j_1_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                    for j_1_1 in range(2):
                                        with T.sblock("exp_running"):
                                            vb, vh = T.axis.remap("SS", [b, h])
                                            vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                            vj = T.axis.spatial(16, j_0 * 4 + j_1_0_0 * 4 + j_1_0_1 * 2 + j_1_1)
                                            power_running_shared[vb, vh, vi, vj] = T.if_then_else(vj <= vi + 4, T.exp((scores_local[vb, vh, vi, vj] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)), T.float32(0.0))
                            for i_1_1, j_1_0_0 in T.grid(2, 1):
                                for j_1_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                    for j_1_1 in range(2):
                                        with T.sblock("sum_tile"):
                                            vb, vh = T.axis.remap("SS", [b, h])
                                            vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                            vj_0 = T.axis.spatial(4, j_0)
                                            vj_1 = T.axis.reduce(4, j_1_0_0 * 4 + j_1_0_1 * 2 + j_1_1)
                                            with T.init():
                                                total_tile_local[vb, vh, vi, vj_0] = T.float32(0.0)
                                            total_tile_local[vb, vh, vi, vj_0] = total_tile_local[vb, vh, vi, vj_0] + power_running_shared[vb, vh, vi, vj_0 * 4 + vj_1]
                            for i_1_1 in range(2):
                                with T.sblock("sum"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                    vj_0 = T.axis.reduce(4, j_0)
                                    with T.init():
                                        total_local[vb, vh, vi] = T.float32(0.0)
                                    total_local[vb, vh, vi] = total_local[vb, vh, vi] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)) + total_tile_local[vb, vh, vi, vj_0]
                            for ax0_ax1_ax2_ax3_fused_0 in range(8):
                                for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                    for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("V_shared"):
                                            v0 = T.axis.spatial(1, 0)
                                            v1 = T.axis.spatial(2, h)
                                            v2 = T.axis.spatial(16, j_0 * 4 + (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) // 8)
                                            v3 = T.axis.spatial(8, (ax0_ax1_ax2_ax3_fused_0 * 4 + ax0_ax1_ax2_ax3_fused_1 * 2 + ax0_ax1_ax2_ax3_fused_2) % 8)
                                            V_shared[v0, v1, v2, v3] = V[v0, v1, v2, v3]
                            for d_0_init in T.thread_binding(2, thread="threadIdx.x"):
                                for i_1_1_init, d_1_init in T.grid(2, 4):
                                    with T.sblock("weighted_init"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1_init)
                                        vd = T.axis.spatial(8, d_0_init * 4 + d_1_init)
                                        vj_0 = T.axis.spatial(4, j_0)
                                        T.reads()
                                        weighted_local[vb, vh, vi, vd] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi, vd] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)))
                            for j_1 in T.serial(4, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for d_0 in T.thread_binding(2, thread="threadIdx.x"):
                                    for i_1_1, d_1 in T.grid(2, 4):
                                        with T.sblock("weighted_update"):
                                            vb, vh = T.axis.remap("SS", [b, h])
                                            vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                            vd = T.axis.spatial(8, d_0 * 4 + d_1)
                                            vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                            T.reads(weighted_local[vb, vh, vi, vd], largest_previous_local[vb, vh, vi], largest_local[vb, vh, vi], power_running_shared[vb, vh, vi, vj_0 * 4 + vj_1], V_shared[vb, vh, vj_0 * 4 + vj_1, vd])
                                            weighted_local[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] + power_running_shared[vb, vh, vi, vj_0 * 4 + vj_1] * V_shared[vb, vh, vj_0 * 4 + vj_1, vd]
                        for ax0, ax1, ax2 in T.grid(1, 1, 2):
                            for ax3_0 in T.thread_binding(2, thread="threadIdx.x"):
                                for ax3_1 in range(4):
                                    with T.sblock("Y"):
                                        vb = T.axis.spatial(1, ax0)
                                        vh = T.axis.spatial(2, h + ax1)
                                        vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + ax2)
                                        vd = T.axis.spatial(8, ax3_0 * 4 + ax3_1)
                                        Y[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] / total_local[vb, vh, vi]
