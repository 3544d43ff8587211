# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((3, 2, 1, 40), "float32"), K: T.Buffer((3, 2, 1201, 40), "float32"), V: T.Buffer((3, 2, 1201, 40), "float32"), lengths: T.Buffer((3,), "int32"), Y: T.Buffer((3, 2, 1, 40), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True, "tir_pipeline": "tirstep"})
            largest_local = T.sblock_alloc_buffer((3, 2, 1), scope="local")
            total_local = T.sblock_alloc_buffer((3, 2, 1), scope="local")
            weighted_local = T.sblock_alloc_buffer((3, 2, 1, 40), scope="local")
            scores_local = T.sblock_alloc_buffer((3, 2, 1, 1536), scope="local")
            largest_part_local = T.sblock_alloc_buffer((3, 2, 1, 24), scope="local")
            total_part_local = T.sblock_alloc_buffer((3, 2, 1, 24), scope="local")
            weighted_part_local = T.sblock_alloc_buffer((3, 2, 1, 24, 40), scope="local")
            largest_part_part_local = T.sblock_alloc_buffer((3, 2, 1, 24, 16), scope="local")
            total_part_part_local = T.sblock_alloc_buffer((3, 2, 1, 24, 16), scope="local")
            weighted_part_part_local = T.sblock_alloc_buffer((3, 2, 1, 24, 16, 5, 2, 4), scope="local")
            largest_part_part_tile_local = T.sblock_alloc_buffer((3, 2, 1, 24, 16, 2), scope="local")
            largest_part_part_previous_local = T.sblock_alloc_buffer((3, 2, 1, 24, 16), scope="local")
            power_part_part_running_local = T.sblock_alloc_buffer((3, 2, 1, 24, 16, 2, 2), scope="local")
            largest_part_part_shared = T.sblock_alloc_buffer((3, 2, 1, 24, 16), scope="shared")
            total_part_part_shared = T.sblock_alloc_buffer((3, 2, 1, 24, 16), scope="shared")
            weighted_part_part_shared = T.sblock_alloc_buffer((3, 2, 1, 24, 16, 40), scope="shared")
            largest_part_global = T.sblock_alloc_buffer((3, 2, 1, 24))
            total_part_global = T.sblock_alloc_buffer((3, 2, 1, 24))
            weighted_part_global = T.sblock_alloc_buffer((3, 2, 1, 24, 40))
            largest_tile_local = T.sblock_alloc_buffer((3, 2, 1, 3), scope="local")
            largest_previous_local = T.sblock_alloc_buffer((3, 2, 1), scope="local")
            Q_local = T.sblock_alloc_buffer((3, 2, 1, 5, 2, 4), scope="local")
            K_global_local = T.sblock_alloc_buffer((3, 2, 1536, 5, 2, 4), scope="local")
            V_global_local = T.sblock_alloc_buffer((3, 2, 1536, 5, 2, 4), scope="local")
            for b in T.thread_binding(3, thread="blockIdx.y"):
                for h in T.thread_binding(2, thread="blockIdx.x"):
                    for i in range(1):
                        for part in T.thread_binding(24, thread="blockIdx.z"):
                            for part_1 in T.thread_binding(16, thread="threadIdx.y"):
                                for ax0, ax1, ax2, ax3_0_0 in T.grid(1, 1, 1, 5):
                                    for ax3_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        for ax3_1 in T.vectorized(4):
                                            with T.sblock("Q_local"):
                                                v0 = T.axis.spatial(3, b + ax0)
                                                v1 = T.axis.spatial(2, h + ax1)
                                                v2 = T.axis.spatial(1, ax2)
                                                v3 = T.axis.spatial(40, ax3_0_0 * 8 + ax3_0_1 * 4 + ax3_1)
                                                T.reads(Q[v0, v1, v2, v3])
                                                T.writes(Q_local[v0, v1, v2, v3 // 8, v3 % 8 // 4, v3 % 4])
                                                Q_local[v0, v1, v2, v3 // 8, v3 % 8 // 4, v3 % 4] = Q[v0, v1, v2, v3]
                                for j in T.serial(2, annotations={"tirstep_ends_at_mask": 1, "tirstep_splits_at_masks": 1}):
                                    for ax0, ax1, ax2, ax3_0_0 in T.grid(1, 1, 2, 5):
                                        for ax3_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                            for ax3_1 in T.vectorized(4):
                                                with T.sblock("V_global_local"):
                                                    v0 = T.axis.spatial(3, b + ax0)
                                                    v1 = T.axis.spatial(2, h + ax1)
                                                    v2 = T.axis.spatial(1536, part * 64 + j * 32 + part_1 * 2 + ax2)
                                                    v3 = T.axis.spatial(40, ax3_0_0 * 8 + ax3_0_1 * 4 + ax3_1)
                                                    T.reads(lengths[v0], V[v0, v1, v2, v3])
                                                    T.writes(V_global_local[v0, v1, v2, v3 // 8, v3 % 8 // 4, v3 % 4])
                                                    V_global_local[v0, v1, v2, v3 // 8, v3 % 8 // 4, v3 % 4] = T.if_then_else(v2 < lengths[v0] and v2 < 1201, V[v0, v1, v2, v3], T.float32(0.0))
                                    for ax0, ax1, ax2, ax3_0_0 in T.grid(1, 1, 2, 5):
                                        for ax3_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                            for ax3_1 in T.vectorized(4):
                                                with T.sblock("K_global_local"):
                                                    v0 = T.axis.spatial(3, b + ax0)
                                                    v1 = T.axis.spatial(2, h + ax1)
                                                    v2 = T.axis.spatial(1536, part * 64 + j * 32 + part_1 * 2 + ax2)
                                                    v3 = T.axis.spatial(40, ax3_0_0 * 8 + ax3_0_1 * 4 + ax3_1)
                                                    T.reads(lengths[v0], K[v0, v1, v2, v3])
                                                    T.writes(K_global_local[v0, v1, v2, v3 // 8, v3 % 8 // 4, v3 % 4])
                                                    K_global_local[v0, v1, v2, v3 // 8, v3 % 8 // 4, v3 % 4] = T.if_then_else(v2 < lengths[v0] and v2 < 1201, K[v0, v1, v2, v3], T.float32(0.0))
                                    for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                        for ax1, ax2, ax3, ax4_0_0 in T.grid(1, 1, 2, 5):
                                            for ax4_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                                for ax4_1 in range(4):
                                                    with T.sblock("scores"):
                                                        vb = T.axis.spatial(3, b + ax0)
                                                        vh = T.axis.spatial(2, h + ax1)
                                                        vi = T.axis.spatial(1, ax2)
                                                        vj = T.axis.spatial(1536, part * 64 + j * 32 + part_1 * 2 + ax3)
                                                        vd = T.axis.reduce(40, ax4_0_0 * 8 + ax4_0_1 * 4 + ax4_1)
                                                        T.reads(Q_local[vb, vh, vi, vd // 8, vd % 8 // 4, vd % 4], K_global_local[vb, vh, vj, vd // 8, vd % 8 // 4, vd % 4])
                                                        T.writes(scores_local[vb, vh, vi, vj])
                                                        with T.init():
                                                            scores_local[vb, vh, vi, vj] = T.float32(0.0)
                                                        scores_local[vb, vh, vi, vj] = scores_local[vb, vh, vi, vj] + Q_local[vb, vh, vi, vd // 8, vd % 8 // 4, vd % 4] * K_global_local[vb, vh, vj, vd // 8, vd % 8 // 4, vd % 4]
                                    for j_run in range(2):
                                        with T.sblock("max_part_part_tile"):
                                            vb, vh, vi, vpart, vpart_1, vj, vj_run = T.axis.remap("SSSSSSR", [b, h, i, part, part_1, j, j_run])
                                            T.reads(lengths[vb], scores_local[vb, vh, vi, vpart * 64 + vj * 32 + vpart_1 * 2 + vj_run])
                                            T.writes(largest_part_part_tile_local[vb, vh, vi, vpart, vpart_1, vj])
                                            with T.init():
                                                largest_part_part_tile_local[vb, vh, vi, vpart, vpart_1, vj] = T.float32(-340282346638528859811704183484516925440.0)
                                            largest_part_part_tile_local[vb, vh, vi, vpart, vpart_1, vj] = T.max(largest_part_part_tile_local[vb, vh, vi, vpart, vpart_1, vj], T.if_then_else(vpart * 64 + ((vj * 16 + vpart_1) * 2 + vj_run) < lengths[vb] and vpart * 64 + ((vj * 16 + vpart_1) * 2 + vj_run) < 1201, scores_local[vb, vh, vi, vpart * 64 + vj * 32 + vpart_1 * 2 + vj_run], T.float32(-340282346638528859811704183484516925440.0)))
                                    with T.sblock("max_part_part"):
                                        vb, vh, vi, vpart, vpart_1, vj = T.axis.remap("SSSSSR", [b, h, i, part, part_1, j])
                                        T.reads(largest_part_part_tile_local[vb, vh, vi, vpart, vpart_1, vj])
                                        T.writes(largest_part_part_local[vb, vh, vi, vpart, vpart_1], largest_part_part_previous_local[vb, vh, vi, vpart, vpart_1])
                                        with T.init():
                                            largest_part_part_local[vb, vh, vi, vpart, vpart_1] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_part_part_previous_local[vb, vh, vi, vpart, vpart_1] = largest_part_part_local[vb, vh, vi, vpart, vpart_1]
                                        largest_part_part_local[vb, vh, vi, vpart, vpart_1] = T.max(largest_part_part_local[vb, vh, vi, vpart, vpart_1], largest_part_part_tile_local[vb, vh, vi, vpart, vpart_1, vj])
                                    for j_run in range(2):
                                        with T.sblock("exp_running"):
                                            vb, vh, vi, vpart, vpart_1, vj, vj_run = T.axis.remap("SSSSSSS", [b, h, i, part, part_1, j, j_run])
                                            T.reads(lengths[vb], scores_local[vb, vh, vi, vpart * 64 + vj * 32 + vpart_1 * 2 + vj_run], largest_part_part_local[vb, vh, vi, vpart, vpart_1])
                                            T.writes(power_part_part_running_local[vb, vh, vi, vpart, vpart_1, vj, vj_run])
                                            power_part_part_running_local[vb, vh, vi, vpart, vpart_1, vj, vj_run] = T.if_then_else(vpart * 64 + ((vj * 16 + vpart_1) * 2 + vj_run) < lengths[vb] and vpart * 64 + ((vj * 16 + vpart_1) * 2 + vj_run) < 1201, T.exp((scores_local[vb, vh, vi, vpart * 64 + vj * 32 + vpart_1 * 2 + vj_run] - largest_part_part_local[vb, vh, vi, vpart, vpart_1]) * T.float32(0.15811388300841897)), T.float32(0.0))
                                    for j_run in range(2):
                                        with T.sblock("sum_part_part"):
                                            vb, vh, vi, vpart, vpart_1, vj, vj_run = T.axis.remap("SSSSSSR", [b, h, i, part, part_1, j, j_run])
                                            T.reads(largest_part_part_previous_local[vb, vh, vi, vpart, vpart_1], largest_part_part_local[vb, vh, vi, vpart, vpart_1], power_part_part_running_local[vb, vh, vi, vpart, vpart_1, vj, vj_run])
                                            T.writes(total_part_part_local[vb, vh, vi, vpart, vpart_1])
                                            with T.init():
                                                total_part_part_local[vb, vh, vi, vpart, vpart_1] = T.if_then_else(vj == 0, T.float32(0.0), total_part_part_local[vb, vh, vi, vpart, vpart_1] * T.exp((largest_part_part_previous_local[vb, vh, vi, vpart, vpart_1] - largest_part_part_local[vb, vh, vi, vpart, vpart_1]) * T.float32(0.15811388300841897)))
                                            total_part_part_local[vb, vh, vi, vpart, vpart_1] = total_part_part_local[vb, vh, vi, vpart, vpart_1] + power_part_part_running_local[vb, vh, vi, vpart, vpart_1, vj, vj_run]
                                    for d_0_0 in T.serial(5, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                        for d_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                            for d_1, j_run in T.grid(4, 2):
                                                with T.sblock("weighted_part_part"):
                                                    vb, vh, vi, vpart, vpart_1 = T.axis.remap("SSSSS", [b, h, i, part, part_1])
                                                    vd = T.axis.spatial(40, d_0_0 * 8 + d_0_1 * 4 + d_1)
                                                    vj, vj_run = T.axis.remap("SR", [j, j_run])
                                                    T.reads(largest_part_part_previous_local[vb, vh, vi, vpart, vpart_1], largest_part_part_local[vb, vh, vi, vpart, vpart_1], power_part_part_running_local[vb, vh, vi, vpart, vpart_1, vj, vj_run], V_global_local[vb, vh, vpart * 64 + vj * 32 + vpart_1 * 2 + vj_run, vd // 8, vd % 8 // 4, vd % 4])
                                                    T.writes(weighted_part_part_local[vb, vh, vi, vpart, vpart_1, vd // 8, vd % 8 // 4, vd % 4])
                                                    with T.init():
                                                        weighted_part_part_local[vb, vh, vi, vpart, vpart_1, vd // 8, vd % 8 // 4, vd % 4] = T.if_then_else(vj == 0, T.float32(0.0), weighted_part_part_local[vb, vh, vi, vpart, vpart_1, vd // 8, vd % 8 // 4, vd % 4] * T.exp((largest_part_part_previous_local[vb, vh, vi, vpart, vpart_1] - largest_part_part_local[vb, vh, vi, vpart, vpart_1]) * T.float32(0.15811388300841897)))
                                                    weighted_part_part_local[vb, vh, vi, vpart, vpart_1, vd // 8, vd % 8 // 4, vd % 4] = weighted_part_part_local[vb, vh, vi, vpart, vpart_1, vd // 8, vd % 8 // 4, vd % 4] + power_part_part_running_local[vb, vh, vi, vpart, vpart_1, vj, vj_run] * V_global_local[vb, vh, vpart * 64 + vj * 32 + vpart_1 * 2 + vj_run, vd // 8, vd % 8 // 4, vd % 4]
                                for ax0, ax1, ax2, ax3, ax4, u_0 in T.grid(1, 1, 1, 1, 1, 1):
                                    for u_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("largest_part_part_shared"):
                                            v0 = T.axis.spatial(3, b + ax0)
                                            v1 = T.axis.spatial(2, h + ax1)
                                            v2 = T.axis.spatial(1, ax2)
                                            v3 = T.axis.spatial(24, part + ax3)
                                            v4 = T.axis.spatial(16, part_1 + ax4)
                                            T.where(u_0 * 2 + u_1 < 1)
                                            T.reads(largest_part_part_local[v0, v1, v2, v3, v4])
                                            T.writes(largest_part_part_shared[v0, v1, v2, v3, v4])
                                            largest_part_part_shared[v0, v1, v2, v3, v4] = largest_part_part_local[v0, v1, v2, v3, v4]
                                for ax0, ax1, ax2, ax3, ax4, u_0 in T.grid(1, 1, 1, 1, 1, 1):
                                    for u_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("total_part_part_shared"):
                                            v0 = T.axis.spatial(3, b + ax0)
                                            v1 = T.axis.spatial(2, h + ax1)
                                            v2 = T.axis.spatial(1, ax2)
                                            v3 = T.axis.spatial(24, part + ax3)
                                            v4 = T.axis.spatial(16, part_1 + ax4)
                                            T.where(u_0 * 2 + u_1 < 1)
                                            T.reads(total_part_part_local[v0, v1, v2, v3, v4])
                                            T.writes(total_part_part_shared[v0, v1, v2, v3, v4])
                                            total_part_part_shared[v0, v1, v2, v3, v4] = total_part_part_local[v0, v1, v2, v3, v4]
                                for ax0, ax1, ax2, ax3, ax4, ax5_0_0 in T.grid(1, 1, 1, 1, 1, 5):
                                    for ax5_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        for ax5_1_0 in range(1):
                                            for ax5_1_1 in T.vectorized(4):
                                                with T.sblock("weighted_part_part_shared"):
                                                    v0 = T.axis.spatial(3, b + ax0)
                                                    v1 = T.axis.spatial(2, h + ax1)
                                                    v2 = T.axis.spatial(1, ax2)
                                                    v3 = T.axis.spatial(24, part + ax3)
                                                    v4 = T.axis.spatial(16, part_1 + ax4)
                                                    v5 = T.axis.spatial(40, ax5_0_0 * 8 + ax5_0_1 * 4 + ax5_1_0 * 4 + ax5_1_1)
                                                    T.reads(weighted_part_part_local[v0, v1, v2, v3, v4, v5 // 8, v5 % 8 // 4, v5 % 4])
                                                    T.writes(weighted_part_part_shared[v0, v1, v2, v3, v4, v5])
                                                    weighted_part_part_shared[v0, v1, v2, v3, v4, v5] = weighted_part_part_local[v0, v1, v2, v3, v4, v5 // 8, v5 % 8 // 4, v5 % 4]
                            for ax0, ax1, ax2, ax3, ax4 in T.grid(1, 1, 1, 1, 16):
                                with T.sblock("max_part"):
                                    vb = T.axis.spatial(3, b + ax0)
                                    vh = T.axis.spatial(2, h + ax1)
                                    vi = T.axis.spatial(1, ax2)
                                    vpart = T.axis.spatial(24, part + ax3)
                                    vpart_1 = T.axis.reduce(16, ax4)
                                    T.reads(largest_part_part_shared[vb, vh, vi, vpart, vpart_1])
                                    T.writes(largest_part_local[vb, vh, vi, vpart])
                                    with T.init():
                                        largest_part_local[vb, vh, vi, vpart] = T.float32(-340282346638528859811704183484516925440.0)
                                    largest_part_local[vb, vh, vi, vpart] = T.max(largest_part_local[vb, vh, vi, vpart], largest_part_part_shared[vb, vh, vi, vpart, vpart_1])
                            for ax0, ax1, ax2, ax3, ax4 in T.grid(1, 1, 1, 1, 16):
                                with T.sblock("sum_part"):
                                    vb = T.axis.spatial(3, b + ax0)
                                    vh = T.axis.spatial(2, h + ax1)
                                    vi = T.axis.spatial(1, ax2)
                                    vpart = T.axis.spatial(24, part + ax3)
                                    vpart_1 = T.axis.reduce(16, ax4)
                                    T.reads(total_part_part_shared[vb, vh, vi, vpart, vpart_1], largest_part_part_shared[vb, vh, vi, vpart, vpart_1], largest_part_local[vb, vh, vi, vpart])
                                    T.writes(total_part_local[vb, vh, vi, vpart])
                                    with T.init():
                                        total_part_local[vb, vh, vi, vpart] = T.float32(0.0)
                                    total_part_local[vb, vh, vi, vpart] = total_part_local[vb, vh, vi, vpart] + total_part_part_shared[vb, vh, vi, vpart, vpart_1] * T.exp((largest_part_part_shared[vb, vh, vi, vpart, vpart_1] - largest_part_local[vb, vh, vi, vpart]) * T.float32(0.15811388300841897))
                            for ax0, ax1, ax2, ax3, ax4_0_0 in T.grid(1, 1, 1, 1, 2):
                                for ax4_0_1 in T.thread_binding(16, thread="threadIdx.y"):
                                    for ax4_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        for ax5 in range(16):
                                            with T.sblock("weighted_part"):
                                                vb = T.axis.spatial(3, b + ax0)
                                                vh = T.axis.spatial(2, h + ax1)
                                                vi = T.axis.spatial(1, ax2)
                                                vpart = T.axis.spatial(24, part + ax3)
                                                vd = T.axis.spatial(40, (ax4_0_0 * 16 + ax4_0_1) * 2 + ax4_1)
                                                vpart_1 = T.axis.reduce(16, ax5)
                                                T.where(ax4_0_0 * 16 + ax4_0_1 < 20)
                                                T.reads(weighted_part_part_shared[vb, vh, vi, vpart, vpart_1, vd], largest_part_part_shared[vb, vh, vi, vpart, vpart_1], largest_part_local[vb, vh, vi, vpart])
                                                T.writes(weighted_part_local[vb, vh, vi, vpart, vd])
                                                with T.init():
                                                    weighted_part_local[vb, vh, vi, vpart, vd] = T.float32(0.0)
                                                weighted_part_local[vb, vh, vi, vpart, vd] = weighted_part_local[vb, vh, vi, vpart, vd] + weighted_part_part_shared[vb, vh, vi, vpart, vpart_1, vd] * T.exp((largest_part_part_shared[vb, vh, vi, vpart, vpart_1] - largest_part_local[vb, vh, vi, vpart]) * T.float32(0.15811388300841897))
                            for ax0, ax1, ax2, ax3, u_0_0 in T.grid(1, 1, 1, 1, 1):
                                for u_0_1 in T.thread_binding(16, thread="threadIdx.y"):
                                    for u_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("largest_part_global"):
                                            v0 = T.axis.spatial(3, b + ax0)
                                            v1 = T.axis.spatial(2, h + ax1)
                                            v2 = T.axis.spatial(1, ax2)
                                            v3 = T.axis.spatial(24, part + ax3)
                                            T.where((u_0_0 * 16 + u_0_1) * 2 + u_1 < 1 and u_0_0 * 16 + u_0_1 < 1)
                                            T.reads(largest_part_local[v0, v1, v2, v3])
                                            T.writes(largest_part_global[v0, v1, v2, v3])
                                            largest_part_global[v0, v1, v2, v3] = largest_part_local[v0, v1, v2, v3]
                            for ax0, ax1, ax2, ax3, u_0_0 in T.grid(1, 1, 1, 1, 1):
                                for u_0_1 in T.thread_binding(16, thread="threadIdx.y"):
                                    for u_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("total_part_global"):
                                            v0 = T.axis.spatial(3, b + ax0)
                                            v1 = T.axis.spatial(2, h + ax1)
                                            v2 = T.axis.spatial(1, ax2)
                                            v3 = T.axis.spatial(24, part + ax3)
                                            T.where((u_0_0 * 16 + u_0_1) * 2 + u_1 < 1 and u_0_0 * 16 + u_0_1 < 1)
                                            T.reads(total_part_local[v0, v1, v2, v3])
                                            T.writes(total_part_global[v0, v1, v2, v3])
                                            total_part_global[v0, v1, v2, v3] = total_part_local[v0, v1, v2, v3]
                            for ax0, ax1, ax2, ax3, ax4_0_0 in T.grid(1, 1, 1, 1, 2):
                                for ax4_0_1 in T.thread_binding(16, thread="threadIdx.y"):
                                    for ax4_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("weighted_part_global"):
                                            v0 = T.axis.spatial(3, b + ax0)
                                            v1 = T.axis.spatial(2, h + ax1)
                                            v2 = T.axis.spatial(1, ax2)
                                            v3 = T.axis.spatial(24, part + ax3)
                                            v4 = T.axis.spatial(40, (ax4_0_0 * 16 + ax4_0_1) * 2 + ax4_1)
                                            T.where(ax4_0_0 * 16 + ax4_0_1 < 20)
                                            T.reads(weighted_part_local[v0, v1, v2, v3, v4])
                                            T.writes(weighted_part_global[v0, v1, v2, v3, v4])
                                            weighted_part_global[v0, v1, v2, v3, v4] = weighted_part_local[v0, v1, v2, v3, v4]
            for b in T.thread_binding(3, thread="blockIdx.y"):
                for h in T.thread_binding(2, thread="blockIdx.x"):
                    for i in range(1):
                        for part_0 in T.serial(3, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                            for part_1 in range(8):
                                with T.sblock("max_tile"):
                                    vb, vh, vi, vpart_0, vpart_1 = T.axis.remap("SSSSR", [b, h, i, part_0, part_1])
                                    T.reads(largest_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1])
                                    T.writes(largest_tile_local[vb, vh, vi, vpart_0])
                                    with T.init():
                                        largest_tile_local[vb, vh, vi, vpart_0] = T.float32(-340282346638528859811704183484516925440.0)
                                    largest_tile_local[vb, vh, vi, vpart_0] = T.max(largest_tile_local[vb, vh, vi, vpart_0], largest_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1])
                            with T.sblock("max"):
                                vb, vh, vi, vpart_0 = T.axis.remap("SSSR", [b, h, i, part_0])
                                T.reads(largest_tile_local[vb, vh, vi, vpart_0])
                                T.writes(largest_local[vb, vh, vi], largest_previous_local[vb, vh, vi])
                                with T.init():
                                    largest_local[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                                largest_previous_local[vb, vh, vi] = largest_local[vb, vh, vi]
                                largest_local[vb, vh, vi] = T.max(largest_local[vb, vh, vi], largest_tile_local[vb, vh, vi, vpart_0])
                            for part_1 in range(8):
                                with T.sblock("sum"):
                                    vb, vh, vi, vpart_0, vpart_1 = T.axis.remap("SSSSR", [b, h, i, part_0, part_1])
                                    T.reads(largest_previous_local[vb, vh, vi], largest_local[vb, vh, vi], total_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1], largest_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1])
                                    T.writes(total_local[vb, vh, vi])
                                    with T.init():
                                        total_local[vb, vh, vi] = T.if_then_else(vpart_0 == 0, T.float32(0.0), total_local[vb, vh, vi] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.15811388300841897)))
                                    total_local[vb, vh, vi] = total_local[vb, vh, vi] + total_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1] * T.exp((largest_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1] - largest_local[vb, vh, vi]) * T.float32(0.15811388300841897))
                            for d in T.thread_binding(40, thread="threadIdx.x"):
                                for part_1 in range(8):
                                    with T.sblock("weighted"):
                                        vb, vh, vi, vd, vpart_0, vpart_1 = T.axis.remap("SSSSSR", [b, h, i, d, part_0, part_1])
                                        T.reads(largest_previous_local[vb, vh, vi], largest_local[vb, vh, vi], weighted_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1, vd], largest_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1])
                                        T.writes(weighted_local[vb, vh, vi, vd])
                                        with T.init():
                                            weighted_local[vb, vh, vi, vd] = T.if_then_else(vpart_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi, vd] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.15811388300841897)))
                                        weighted_local[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] + weighted_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1, vd] * T.exp((largest_part_global[vb, vh, vi, vpart_0 * 8 + vpart_1] - largest_local[vb, vh, vi]) * T.float32(0.15811388300841897))
                        for ax0, ax1, ax2 in T.grid(1, 1, 1):
                            for ax3 in T.thread_binding(40, thread="threadIdx.x"):
                                with T.sblock("Y"):
                                    vb = T.axis.spatial(3, b + ax0)
                                    vh = T.axis.spatial(2, h + ax1)
                                    vi, vd = T.axis.remap("SS", [ax2, ax3])
                                    T.reads(weighted_local[vb, vh, vi, vd], total_local[vb, vh, vi])
                                    T.writes(Y[vb, vh, vi, vd])
                                    Y[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] / total_local[vb, vh, vi]
