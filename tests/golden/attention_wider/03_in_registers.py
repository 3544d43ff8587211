# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 2, 12, 8), "float32"), K: T.Buffer((1, 2, 16, 8), "float32"), V: T.Buffer((1, 2, 16, 8), "float32"), Y: T.Buffer((1, 2, 12, 8), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True, "tir_pipeline": "tirstep"})
            scores_local = T.sblock_alloc_buffer((1, 2, 12, 16), scope="local")
            largest_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
            total_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
            weighted_local = T.sblock_alloc_buffer((1, 2, 12, 8), scope="local")
            largest_tile_local = T.sblock_alloc_buffer((1, 2, 12, 2), scope="local")
            largest_previous_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
            power_running_shared = T.sblock_alloc_buffer((1, 2, 12, 16), scope="shared")
            total_tile_local = T.sblock_alloc_buffer((1, 2, 12, 2), scope="local")
            for b in T.thread_binding(1, thread="blockIdx.z"):
                for h in T.thread_binding(2, thread="blockIdx.y"):
                    for i_0 in T.thread_binding(3, thread="blockIdx.x"):
                        for i_1_0 in T.thread_binding(2, thread="threadIdx.y"):
                            for j_0 in range(2):
                                for ax0, ax1, ax2 in T.grid(1, 1, 2):
                                    for ax3_0 in T.thread_binding(2, thread="threadIdx.x"):
                                        for ax3_1, ax4 in T.grid(4, 8):
                                            with T.sblock("scores"):
                                                vb = T.axis.spatial(1, ax0)
                                                vh = T.axis.spatial(2, h + ax1)
                                                vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + ax2)
                                                vj = T.axis.spatial(16, j_0 * 8 + ax3_0 * 4 + ax3_1)
                                                vd = T.axis.reduce(8, ax4)
                                                T.reads(Q[vb, vh, vi, vd], K[vb, vh, vj, vd])
                                                T.writes(scores_local[vb, vh, vi, vj])
                                                with T.init():
                                                    scores_local[vb, vh, vi, vj] = T.float32(0.0)
                                                scores_local[vb, vh, vi, vj] = scores_local[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K[vb, vh, vj, vd]
                                for i_1_1, j_1_0_0 in T.grid(2, 1):
                                    for j_1_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        for j_1_1 in range(4):
                                            with T.sblock("max_tile"):
                                                vb, vh = T.axis.remap("SS", [b, h])
                                                vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                                vj_0 = T.axis.spatial(2, j_0)
                                                vj_1 = T.axis.reduce(8, j_1_0_0 * 8 + j_1_0_1 * 4 + j_1_1)
                                                T.reads(scores_local[vb, vh, vi, vj_0 * 8 + vj_1])
                                                T.writes(largest_tile_local[vb, vh, vi, vj_0])
                                                with T.init():
                                                    largest_tile_local[vb, vh, vi, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                                largest_tile_local[vb, vh, vi, vj_0] = T.max(largest_tile_local[vb, vh, vi, vj_0], scores_local[vb, vh, vi, vj_0 * 8 + vj_1])
                                for i_1_1 in range(2):
                                    with T.sblock("max"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                        vj_0 = T.axis.reduce(2, j_0)
                                        T.reads(largest_tile_local[vb, vh, vi, vj_0])
                                        T.writes(largest_local[vb, vh, vi], largest_previous_local[vb, vh, vi])
                                        with T.init():
                                            largest_local[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                                        largest_previous_local[vb, vh, vi] = largest_local[vb, vh, vi]
                                        largest_local[vb, vh, vi] = T.max(largest_local[vb, vh, vi], largest_tile_local[vb, vh, vi, vj_0])
                                for i_1_1, j_1_0_0 in T.grid(2, 1):
                                    for j_1_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        for j_1_1 in range(4):
                                            with T.sblock("exp_running"):
                                                vb, vh = T.axis.remap("SS", [b, h])
                                                vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                                vj = T.axis.spatial(16, j_0 * 8 + j_1_0_0 * 8 + j_1_0_1 * 4 + j_1_1)
                                                T.reads(scores_local[vb, vh, vi, vj], largest_local[vb, vh, vi])
                                                T.writes(power_running_shared[vb, vh, vi, vj])
                                                power_running_shared[vb, vh, vi, vj] = T.exp((scores_local[vb, vh, vi, vj] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373))
                                for i_1_1, j_1_0_0 in T.grid(2, 1):
                                    for j_1_0_1 in T.thread_binding(2, thread="threadIdx.x"):
                                        for j_1_1 in range(4):
                                            with T.sblock("sum_tile"):
                                                vb, vh = T.axis.remap("SS", [b, h])
                                                vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                                vj_0 = T.axis.spatial(2, j_0)
                                                vj_1 = T.axis.reduce(8, j_1_0_0 * 8 + j_1_0_1 * 4 + j_1_1)
                                                T.reads(power_running_shared[vb, vh, vi, vj_0 * 8 + vj_1])
                                                T.writes(total_tile_local[vb, vh, vi, vj_0])
                                                with T.init():
                                                    total_tile_local[vb, vh, vi, vj_0] = T.float32(0.0)
                                                total_tile_local[vb, vh, vi, vj_0] = total_tile_local[vb, vh, vi, vj_0] + power_running_shared[vb, vh, vi, vj_0 * 8 + vj_1]
                                for i_1_1 in range(2):
                                    with T.sblock("sum"):
                                        vb, vh = T.axis.remap("SS", [b, h])
                                        vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                        vj_0 = T.axis.reduce(2, j_0)
                                        T.reads(largest_previous_local[vb, vh, vi], largest_local[vb, vh, vi], total_tile_local[vb, vh, vi, vj_0])
                                        T.writes(total_local[vb, vh, vi])
                                        with T.init():
                                            total_local[vb, vh, vi] = T.float32(0.0)
                                        total_local[vb, vh, vi] = total_local[vb, vh, vi] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)) + total_tile_local[vb, vh, vi, vj_0]
                                for i_1_1 in range(2):
                                    for d_0 in T.thread_binding(2, thread="threadIdx.x"):
                                        for d_1, j_1 in T.grid(4, 8):
                                            with T.sblock("weighted"):
                                                vb, vh = T.axis.remap("SS", [b, h])
                                                vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + i_1_1)
                                                vd = T.axis.spatial(8, d_0 * 4 + d_1)
                                                vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                                T.reads(largest_previous_local[vb, vh, vi], largest_local[vb, vh, vi], power_running_shared[vb, vh, vi, vj_0 * 8 + vj_1], V[vb, vh, vj_0 * 8 + vj_1, vd])
                                                T.writes(weighted_local[vb, vh, vi, vd])
                                                with T.init():
                                                    weighted_local[vb, vh, vi, vd] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi, vd] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)))
                                                weighted_local[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] + power_running_shared[vb, vh, vi, vj_0 * 8 + vj_1] * V[vb, vh, vj_0 * 8 + vj_1, vd]
                            for ax0, ax1, ax2 in T.grid(1, 1, 2):
                                for ax3_0 in T.thread_binding(2, thread="threadIdx.x"):
                                    for ax3_1 in range(4):
                                        with T.sblock("Y"):
                                            vb = T.axis.spatial(1, ax0)
                                            vh = T.axis.spatial(2, h + ax1)
                                            vi = T.axis.spatial(12, i_0 * 4 + i_1_0 * 2 + ax2)
                                            vd = T.axis.spatial(8, ax3_0 * 4 + ax3_1)
                                            T.reads(weighted_local[vb, vh, vi, vd], total_local[vb, vh, vi])
                                            T.writes(Y[vb, vh, vi, vd])
                                            Y[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] / total_local[vb, vh, vi]
