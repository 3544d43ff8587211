# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 2, 64, 32), "bfloat16"), K: T.Buffer((1, 2, 64, 32), "bfloat16"), V: T.Buffer((1, 2, 64, 32), "bfloat16"), Y: T.Buffer((1, 2, 64, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        scores = T.sblock_alloc_buffer((1, 2, 64, 64))
        largest = T.sblock_alloc_buffer((1, 2, 64))
        total = T.sblock_alloc_buffer((1, 2, 64))
        weighted = T.sblock_alloc_buffer((1, 2, 64, 32))
        power_bfloat16 = T.sblock_alloc_buffer((1, 2, 64, 64), "bfloat16")
        largest_tile = T.sblock_alloc_buffer((1, 2, 64, 2))
        largest_previous = T.sblock_alloc_buffer((1, 2, 64))
        power_running = T.sblock_alloc_buffer((1, 2, 64, 64))
        total_tile = T.sblock_alloc_buffer((1, 2, 64, 2))
        for b in T.thread_binding(1, thread="blockIdx.z"):
            for h in T.thread_binding(2, thread="blockIdx.y"):
                for i_0 in T.thread_binding(2, thread="blockIdx.x"):
                    for i_1_0 in T.thread_binding(2, thread="threadIdx.z"):
                        for j_0 in range(2):
                            for ax0, ax1, ax4_0, ax3_0, ax2_0 in T.grid(1, 1, 2, 2, 1):
                                with T.sblock("scores_o"):
                                    vb_o = T.axis.spatial(1, ax0)
                                    vh_o = T.axis.spatial(2, h + ax1)
                                    vi_o = T.axis.spatial(4, i_0 * 2 + i_1_0 + ax2_0)
                                    vj_o = T.axis.spatial(4, j_0 * 2 + ax3_0)
                                    vd_o = T.axis.reduce(2, ax4_0)
                                    T.reads(Q[vb_o, vh_o, vi_o * 16:vi_o * 16 + 16, vd_o * 16:vd_o * 16 + 16], K[vb_o, vh_o, vj_o * 16:vj_o * 16 + 16, vd_o * 16:vd_o * 16 + 16])
                                    T.writes(scores[vb_o, vh_o, vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                                    with T.init():
                                        for ax2_1, ax3_1 in T.grid(16, 16):
                                            with T.sblock("scores_init"):
                                                vi_i_init, vj_i_init = T.axis.remap("SS", [ax2_1, ax3_1])
                                                T.reads()
                                                T.writes(scores[vb_o, vh_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                                scores[vb_o, vh_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                                    for ax2_1, ax3_1, ax4_1 in T.grid(16, 16, 16):
                                        with T.sblock("scores"):
                                            vi_i, vj_i, vd_i = T.axis.remap("SSR", [ax2_1, ax3_1, ax4_1])
                                            T.reads(scores[vb_o, vh_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i], Q[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i], K[vb_o, vh_o, vj_o * 16 + vj_i, vd_o * 16 + vd_i])
                                            T.writes(scores[vb_o, vh_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                            scores[vb_o, vh_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] = scores[vb_o, vh_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", Q[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i]) * T.Cast("float32", K[vb_o, vh_o, vj_o * 16 + vj_i, vd_o * 16 + vd_i])
                            for i_1_1, j_1 in T.grid(16, 32):
                                with T.sblock("max_tile"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                    vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                    T.reads(scores[vb, vh, vi, vj_0 * 32 + vj_1])
                                    T.writes(largest_tile[vb, vh, vi, vj_0])
                                    with T.init():
                                        largest_tile[vb, vh, vi, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                    largest_tile[vb, vh, vi, vj_0] = T.max(largest_tile[vb, vh, vi, vj_0], T.if_then_else(vj_0 * 32 + vj_1 <= vi, scores[vb, vh, vi, vj_0 * 32 + vj_1], T.float32(-340282346638528859811704183484516925440.0)))
                            for i_1_1 in range(16):
                                with T.sblock("max"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                    vj_0 = T.axis.reduce(2, j_0)
                                    T.reads(largest_tile[vb, vh, vi, vj_0])
                                    T.writes(largest[vb, vh, vi], largest_previous[vb, vh, vi])
                                    with T.init():
                                        largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                                    largest_previous[vb, vh, vi] = largest[vb, vh, vi]
                                    largest[vb, vh, vi] = T.max(largest[vb, vh, vi], largest_tile[vb, vh, vi, vj_0])
                            for i_1_1, j_1 in T.grid(16, 32):
                                with T.sblock("exp_running"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                    vj = T.axis.spatial(64, j_0 * 32 + j_1)
                                    T.reads(scores[vb, vh, vi, vj], largest[vb, vh, vi])
                                    T.writes(power_running[vb, vh, vi, vj])
                                    power_running[vb, vh, vi, vj] = T.if_then_else(vj <= vi, T.exp2((scores[vb, vh, vi, vj] - largest[vb, vh, vi]) * T.float32(0.25503486164919736)), T.float32(0.0))
                            for i_1_1, j_1 in T.grid(16, 32):
                                with T.sblock("sum_tile"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                    vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                    T.reads(power_running[vb, vh, vi, vj_0 * 32 + vj_1])
                                    T.writes(total_tile[vb, vh, vi, vj_0])
                                    with T.init():
                                        total_tile[vb, vh, vi, vj_0] = T.float32(0.0)
                                    total_tile[vb, vh, vi, vj_0] = total_tile[vb, vh, vi, vj_0] + power_running[vb, vh, vi, vj_0 * 32 + vj_1]
                            for i_1_1 in range(16):
                                with T.sblock("sum"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                    vj_0 = T.axis.reduce(2, j_0)
                                    T.reads(largest_previous[vb, vh, vi], largest[vb, vh, vi], total_tile[vb, vh, vi, vj_0])
                                    T.writes(total[vb, vh, vi])
                                    with T.init():
                                        total[vb, vh, vi] = T.float32(0.0)
                                    total[vb, vh, vi] = total[vb, vh, vi] * T.exp2((largest_previous[vb, vh, vi] - largest[vb, vh, vi]) * T.float32(0.25503486164919736)) + total_tile[vb, vh, vi, vj_0]
                            for i_1_1, j_1 in T.grid(16, 32):
                                with T.sblock("power_global"):
                                    v0, v1 = T.axis.remap("SS", [b, h])
                                    v2 = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1)
                                    v3 = T.axis.spatial(64, j_0 * 32 + j_1)
                                    T.reads(power_running[v0, v1, v2, v3])
                                    T.writes(power_bfloat16[v0, v1, v2, v3])
                                    power_bfloat16[v0, v1, v2, v3] = T.Cast("bfloat16", power_running[v0, v1, v2, v3])
                            for i_1_1_init, d_init in T.grid(16, 32):
                                with T.sblock("weighted_init"):
                                    vb, vh = T.axis.remap("SS", [b, h])
                                    vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + i_1_1_init)
                                    vd, vj_0 = T.axis.remap("SS", [d_init, j_0])
                                    T.reads()
                                    T.writes(weighted[vb, vh, vi, vd])
                                    weighted[vb, vh, vi, vd] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted[vb, vh, vi, vd] * T.exp2((largest_previous[vb, vh, vi] - largest[vb, vh, vi]) * T.float32(0.25503486164919736)))
                            for j_1_0, d_0, i_1_1_0 in T.grid(2, 2, 1):
                                with T.sblock("weighted_update_o"):
                                    vb_o, vh_o = T.axis.remap("SS", [b, h])
                                    vi_o = T.axis.spatial(4, i_0 * 2 + i_1_0 + i_1_1_0)
                                    vd_o, vj_0_o, vj_1_o = T.axis.remap("SSR", [d_0, j_0, j_1_0])
                                    T.reads(weighted[vb_o, vh_o, vi_o * 16:vi_o * 16 + 16, vd_o * 16:vd_o * 16 + 16], power_bfloat16[vb_o, vh_o, vi_o * 16:vi_o * 16 + 16, vj_0_o * 32 + vj_1_o * 16:vj_0_o * 32 + vj_1_o * 16 + 16], V[vb_o, vh_o, vj_0_o * 32 + vj_1_o * 16:vj_0_o * 32 + vj_1_o * 16 + 16, vd_o * 16:vd_o * 16 + 16])
                                    T.writes(weighted[vb_o, vh_o, vi_o * 16:vi_o * 16 + 16, vd_o * 16:vd_o * 16 + 16])
                                    for i_1_1_1, d_1, j_1_1 in T.grid(16, 16, 16):
                                        with T.sblock("weighted_update"):
                                            vi_i, vd_i, vj_1_i = T.axis.remap("SSR", [i_1_1_1, d_1, j_1_1])
                                            T.reads(weighted[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i], power_bfloat16[vb_o, vh_o, vi_o * 16 + vi_i, vj_0_o * 32 + vj_1_o * 16 + vj_1_i], V[vb_o, vh_o, vj_0_o * 32 + vj_1_o * 16 + vj_1_i, vd_o * 16 + vd_i])
                                            T.writes(weighted[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i])
                                            weighted[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i] = weighted[vb_o, vh_o, vi_o * 16 + vi_i, vd_o * 16 + vd_i] + T.Cast("float32", power_bfloat16[vb_o, vh_o, vi_o * 16 + vi_i, vj_0_o * 32 + vj_1_o * 16 + vj_1_i]) * T.Cast("float32", V[vb_o, vh_o, vj_0_o * 32 + vj_1_o * 16 + vj_1_i, vd_o * 16 + vd_i])
                        for ax0, ax1, ax2, ax3 in T.grid(1, 1, 16, 32):
                            with T.sblock("Y"):
                                vb = T.axis.spatial(1, ax0)
                                vh = T.axis.spatial(2, h + ax1)
                                vi = T.axis.spatial(64, i_0 * 32 + i_1_0 * 16 + ax2)
                                vd = T.axis.spatial(32, ax3)
                                T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                                T.writes(Y[vb, vh, vi, vd])
                                Y[vb, vh, vi, vd] = T.Cast("bfloat16", weighted[vb, vh, vi, vd] / total[vb, vh, vi])
