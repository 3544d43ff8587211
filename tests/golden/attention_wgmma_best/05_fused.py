# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 2, 150, 40), "bfloat16"), K: T.Buffer((1, 2, 250, 40), "bfloat16"), V: T.Buffer((1, 2, 250, 40), "bfloat16"), Y: T.Buffer((1, 2, 150, 40), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        largest = T.sblock_alloc_buffer((1, 2, 192))
        total = T.sblock_alloc_buffer((1, 2, 192))
        scores = T.sblock_alloc_buffer((1, 2, 192, 256))
        Q_global = T.sblock_alloc_buffer((1, 2, 192, 64), "bfloat16")
        K_global = T.sblock_alloc_buffer((1, 2, 256, 64), "bfloat16")
        V_global = T.sblock_alloc_buffer((1, 2, 256, 64), "bfloat16")
        weighted = T.sblock_alloc_buffer((1, 2, 192, 64))
        power_bfloat16 = T.sblock_alloc_buffer((1, 2, 192, 256), "bfloat16")
        largest_tile = T.sblock_alloc_buffer((1, 2, 192, 4))
        largest_previous = T.sblock_alloc_buffer((1, 2, 192))
        power_running = T.sblock_alloc_buffer((1, 2, 192, 256))
        total_tile = T.sblock_alloc_buffer((1, 2, 192, 4))
        for ax0, ax1, ax2, ax3 in T.grid(1, 2, 256, 64):
            with T.sblock("V_global"):
                v0, v1, v2, v3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
                T.reads(V[v0, v1, v2, v3])
                T.writes(V_global[v0, v1, v2, v3])
                V_global[v0, v1, v2, v3] = T.if_then_else(v2 < 250 and v3 < 40, V[v0, v1, v2, v3], T.bfloat16(0.0))
        for ax0, ax1, ax2, ax3 in T.grid(1, 2, 256, 64):
            with T.sblock("K_global"):
                v0, v1, v2, v3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
                T.reads(K[v0, v1, v2, v3])
                T.writes(K_global[v0, v1, v2, v3])
                K_global[v0, v1, v2, v3] = T.if_then_else(v2 < 250 and v3 < 40, K[v0, v1, v2, v3], T.bfloat16(0.0))
        for ax0, ax1, ax2, ax3 in T.grid(1, 2, 192, 64):
            with T.sblock("Q_global"):
                v0, v1, v2, v3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
                T.reads(Q[v0, v1, v2, v3])
                T.writes(Q_global[v0, v1, v2, v3])
                Q_global[v0, v1, v2, v3] = T.if_then_else(v2 < 150 and v3 < 40, Q[v0, v1, v2, v3], T.bfloat16(0.0))
        for b, h, i_0, i_1_0 in T.grid(1, 2, 3, 4):
            for j_0 in range(4):
                for ax0, ax1, ax2, ax3, ax4 in T.grid(1, 1, 16, 64, 64):
                    with T.sblock("scores"):
                        vb = T.axis.spatial(1, ax0)
                        vh = T.axis.spatial(2, h + ax1)
                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + ax2)
                        vj = T.axis.spatial(256, j_0 * 64 + ax3)
                        vd = T.axis.reduce(64, ax4)
                        T.reads(Q_global[vb, vh, vi, vd], K_global[vb, vh, vj, vd])
                        T.writes(scores[vb, vh, vi, vj])
                        with T.init():
                            scores[vb, vh, vi, vj] = T.float32(0.0)
                        scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + T.Cast("float32", Q_global[vb, vh, vi, vd]) * T.Cast("float32", K_global[vb, vh, vj, vd])
                for i_1_1, j_1 in T.grid(16, 64):
                    with T.sblock("max_tile"):
                        vb, vh = T.axis.remap("SS", [b, h])
                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                        T.reads(scores[vb, vh, vi, vj_0 * 64 + vj_1])
                        T.writes(largest_tile[vb, vh, vi, vj_0])
                        with T.init():
                            largest_tile[vb, vh, vi, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                        largest_tile[vb, vh, vi, vj_0] = T.max(largest_tile[vb, vh, vi, vj_0], T.if_then_else(vj_0 * 64 + vj_1 <= vi + 100 and vj_0 * 64 + vj_1 < 250, scores[vb, vh, vi, vj_0 * 64 + vj_1], T.float32(-340282346638528859811704183484516925440.0)))
                for i_1_1 in range(16):
                    with T.sblock("max"):
                        vb, vh = T.axis.remap("SS", [b, h])
                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                        vj_0 = T.axis.reduce(4, j_0)
                        T.reads(largest_tile[vb, vh, vi, vj_0])
                        T.writes(largest[vb, vh, vi], largest_previous[vb, vh, vi])
                        with T.init():
                            largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                        largest_previous[vb, vh, vi] = largest[vb, vh, vi]
                        largest[vb, vh, vi] = T.max(largest[vb, vh, vi], largest_tile[vb, vh, vi, vj_0])
                for i_1_1, j_1 in T.grid(16, 64):
                    with T.sblock("exp_running"):
                        vb, vh = T.axis.remap("SS", [b, h])
                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                        vj = T.axis.spatial(256, j_0 * 64 + j_1)
                        T.reads(scores[vb, vh, vi, vj], largest[vb, vh, vi])
                        T.writes(power_running[vb, vh, vi, vj])
                        T.sblock_attr({"tirstep_exponents": "fused"})
                        power_running[vb, vh, vi, vj] = T.if_then_else(vj <= vi + 100 and vj < 250, T.exp2(scores[vb, vh, vi, vj] * T.float32(0.22811011491194377) - largest[vb, vh, vi] * T.float32(0.22811011491194377)), T.float32(0.0))
                for i_1_1, j_1 in T.grid(16, 64):
                    with T.sblock("sum_tile"):
                        vb, vh = T.axis.remap("SS", [b, h])
                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                        vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                        T.reads(power_running[vb, vh, vi, vj_0 * 64 + vj_1])
                        T.writes(total_tile[vb, vh, vi, vj_0])
                        with T.init():
                            total_tile[vb, vh, vi, vj_0] = T.float32(0.0)
                        total_tile[vb, vh, vi, vj_0] = total_tile[vb, vh, vi, vj_0] + power_running[vb, vh, vi, vj_0 * 64 + vj_1]
                for i_1_1 in range(16):
                    with T.sblock("sum"):
                        vb, vh = T.axis.remap("SS", [b, h])
                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                        vj_0 = T.axis.reduce(4, j_0)
                        T.reads(largest_previous[vb, vh, vi], largest[vb, vh, vi], total_tile[vb, vh, vi, vj_0])
                        T.writes(total[vb, vh, vi])
                        with T.init():
                            total[vb, vh, vi] = T.float32(0.0)
                        total[vb, vh, vi] = total[vb, vh, vi] * T.exp2((largest_previous[vb, vh, vi] - largest[vb, vh, vi]) * T.float32(0.22811011491194377)) + total_tile[vb, vh, vi, vj_0]
                for i_1_1, j_1 in T.grid(16, 64):
                    with T.sblock("power_global"):
                        v0, v1 = T.axis.remap("SS", [b, h])
                        v2 = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                        v3 = T.axis.spatial(256, j_0 * 64 + j_1)
                        T.reads(power_running[v0, v1, v2, v3])
                        T.writes(power_bfloat16[v0, v1, v2, v3])
                        power_bfloat16[v0, v1, v2, v3] = T.Cast("bfloat16", power_running[v0, v1, v2, v3])
                for i_1_1, d, j_1 in T.grid(16, 64, 64):
                    with T.sblock("weighted"):
                        vb, vh = T.axis.remap("SS", [b, h])
                        vi = T.axis.spatial(192, i_0 * 64 + i_1_0 * 16 + i_1_1)
                        vd, vj_0, vj_1 = T.axis.remap("SSR", [d, j_0, j_1])
                        T.reads(largest_previous[vb, vh, vi], largest[vb, vh, vi], power_bfloat16[vb, vh, vi, vj_0 * 64 + vj_1], V_global[vb, vh, vj_0 * 64 + vj_1, vd])
                        T.writes(weighted[vb, vh, vi, vd])
                        with T.init():
                            weighted[vb, vh, vi, vd] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted[vb, vh, vi, vd] * T.exp2((largest_previous[vb, vh, vi] - largest[vb, vh, vi]) * T.float32(0.22811011491194377)))
                        weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + T.Cast("float32", power_bfloat16[vb, vh, vi, vj_0 * 64 + vj_1]) * T.Cast("float32", V_global[vb, vh, vj_0 * 64 + vj_1, vd])
            for ax0, ax1, ax2, ax3 in T.grid(1, 1, 16, 40):
                with T.sblock("Y"):
                    vb = T.axis.spatial(1, ax0)
                    vh = T.axis.spatial(2, h + ax1)
                    vi = T.axis.spatial(150, i_0 * 64 + i_1_0 * 16 + ax2)
                    vd = T.axis.spatial(40, ax3)
                    T.where(i_0 * 64 + i_1_0 * 16 + ax2 < 150)
                    T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                    T.writes(Y[vb, vh, vi, vd])
                    Y[vb, vh, vi, vd] = T.Cast("bfloat16", weighted[vb, vh, vi, vd] / total[vb, vh, vi])
