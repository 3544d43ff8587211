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
        total = T.sblock_alloc_buffer((1, 2, 12))
        weighted = T.sblock_alloc_buffer((1, 2, 12, 8))
        largest_tile = T.sblock_alloc_buffer((1, 2, 12, 4))
        largest_previous = T.sblock_alloc_buffer((1, 2, 12))
        power_running = T.sblock_alloc_buffer((1, 2, 12, 16))
        for b, h, i, j, d in T.grid(1, 2, 12, 16, 8):
            with T.sblock("scores"):
                vb, vh, vi, vj, vd = T.axis.remap("SSSSR", [b, h, i, j, d])
                T.reads(Q[vb, vh, vi, vd], K[vb, vh, vj, vd])
                T.writes(scores[vb, vh, vi, vj])
                with T.init():
                    scores[vb, vh, vi, vj] = T.float32(0.0)
                scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K[vb, vh, vj, vd]
        for b, h, i_0, i_1, j_0 in T.grid(1, 2, 3, 4, 4):
            for j_1 in range(4):
                with T.sblock("max_tile"):
                    vb, vh = T.axis.remap("SS", [b, h])
                    vi = T.axis.spatial(12, i_0 * 4 + i_1)
                    vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                    T.reads(scores[vb, vh, vi, vj_0 * 4 + vj_1])
                    T.writes(largest_tile[vb, vh, vi, vj_0])
                    with T.init():
                        largest_tile[vb, vh, vi, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                    largest_tile[vb, vh, vi, vj_0] = T.max(largest_tile[vb, vh, vi, vj_0], scores[vb, vh, vi, vj_0 * 4 + vj_1])
            with T.sblock("max"):
                vb, vh = T.axis.remap("SS", [b, h])
                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                vj_0 = T.axis.reduce(4, j_0)
                T.reads(largest_tile[vb, vh, vi, vj_0])
                T.writes(largest[vb, vh, vi], largest_previous[vb, vh, vi])
                with T.init():
                    largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                largest_previous[vb, vh, vi] = largest[vb, vh, vi]
                largest[vb, vh, vi] = T.max(largest[vb, vh, vi], largest_tile[vb, vh, vi, vj_0])
            for j_1 in range(4):
                with T.sblock("exp_running"):
                    vb, vh = T.axis.remap("SS", [b, h])
                    vi = T.axis.spatial(12, i_0 * 4 + i_1)
                    vj = T.axis.spatial(16, j_0 * 4 + j_1)
                    T.reads(scores[vb, vh, vi, vj], largest[vb, vh, vi])
                    T.writes(power_running[vb, vh, vi, vj])
                    power_running[vb, vh, vi, vj] = T.exp((scores[vb, vh, vi, vj] - largest[vb, vh, vi]) * T.float32(0.35355339059327373))
            for j_1 in range(4):
                with T.sblock("sum"):
                    vb, vh = T.axis.remap("SS", [b, h])
                    vi = T.axis.spatial(12, i_0 * 4 + i_1)
                    vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                    T.reads(largest_previous[vb, vh, vi], largest[vb, vh, vi], power_running[vb, vh, vi, vj_0 * 4 + vj_1])
                    T.writes(total[vb, vh, vi])
                    with T.init():
                        total[vb, vh, vi] = T.if_then_else(vj_0 == 0, T.float32(0.0), total[vb, vh, vi] * T.exp((largest_previous[vb, vh, vi] - largest[vb, vh, vi]) * T.float32(0.35355339059327373)))
                    total[vb, vh, vi] = total[vb, vh, vi] + power_running[vb, vh, vi, vj_0 * 4 + vj_1]
            for d, j_1 in T.grid(8, 4):
                with T.sblock("weighted"):
                    vb, vh = T.axis.remap("SS", [b, h])
                    vi = T.axis.spatial(12, i_0 * 4 + i_1)
                    vd, vj_0, vj_1 = T.axis.remap("SSR", [d, j_0, j_1])
                    T.reads(largest_previous[vb, vh, vi], largest[vb, vh, vi], power_running[vb, vh, vi, vj_0 * 4 + vj_1], V[vb, vh, vj_0 * 4 + vj_1, vd])
                    T.writes(weighted[vb, vh, vi, vd])
                    with T.init():
                        weighted[vb, vh, vi, vd] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted[vb, vh, vi, vd] * T.exp((largest_previous[vb, vh, vi] - largest[vb, vh, vi]) * T.float32(0.35355339059327373)))
                    weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + power_running[vb, vh, vi, vj_0 * 4 + vj_1] * V[vb, vh, vj_0 * 4 + vj_1, vd]
        for b, h, i, d in T.grid(1, 2, 12, 8):
            with T.sblock("Y"):
                vb, vh, vi, vd = T.axis.remap("SSSS", [b, h, i, d])
                T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                T.writes(Y[vb, vh, vi, vd])
                Y[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] / total[vb, vh, vi]
