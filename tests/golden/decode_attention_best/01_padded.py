# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((3, 2, 1, 40), "float32"), K: T.Buffer((3, 2, 1201, 40), "float32"), V: T.Buffer((3, 2, 1201, 40), "float32"), lengths: T.Buffer((3,), "int32"), Y: T.Buffer((3, 2, 1, 40), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        largest = T.sblock_alloc_buffer((3, 2, 1))
        total = T.sblock_alloc_buffer((3, 2, 1))
        weighted = T.sblock_alloc_buffer((3, 2, 1, 40))
        scores = T.sblock_alloc_buffer((3, 2, 1, 1536))
        power = T.sblock_alloc_buffer((3, 2, 1, 1536))
        V_global = T.sblock_alloc_buffer((3, 2, 1536, 40))
        K_global = T.sblock_alloc_buffer((3, 2, 1536, 40))
        for ax0, ax1, ax2, ax3 in T.grid(3, 2, 1536, 40):
            with T.sblock("V_global"):
                v0, v1, v2, v3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
                T.reads(lengths[v0], V[v0, v1, v2, v3])
                T.writes(V_global[v0, v1, v2, v3])
                V_global[v0, v1, v2, v3] = T.if_then_else(v2 < lengths[v0] and v2 < 1201, V[v0, v1, v2, v3], T.float32(0.0))
        for ax0, ax1, ax2, ax3 in T.grid(3, 2, 1536, 40):
            with T.sblock("K_global"):
                v0, v1, v2, v3 = T.axis.remap("SSSS", [ax0, ax1, ax2, ax3])
                T.reads(lengths[v0], K[v0, v1, v2, v3])
                T.writes(K_global[v0, v1, v2, v3])
                K_global[v0, v1, v2, v3] = T.if_then_else(v2 < lengths[v0] and v2 < 1201, K[v0, v1, v2, v3], T.float32(0.0))
        for b, h, i, j, d in T.grid(3, 2, 1, 1536, 40):
            with T.sblock("scores"):
                vb, vh, vi, vj, vd = T.axis.remap("SSSSR", [b, h, i, j, d])
                T.reads(Q[vb, vh, vi, vd], K_global[vb, vh, vj, vd])
                T.writes(scores[vb, vh, vi, vj])
                with T.init():
                    scores[vb, vh, vi, vj] = T.float32(0.0)
                scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K_global[vb, vh, vj, vd]
        for b, h, i, j in T.grid(3, 2, 1, 1536):
            with T.sblock("max"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                T.reads(lengths[vb], scores[vb, vh, vi, vj])
                T.writes(largest[vb, vh, vi])
                with T.init():
                    largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                largest[vb, vh, vi] = T.max(largest[vb, vh, vi], T.if_then_else(vj < lengths[vb] and vj < 1201, scores[vb, vh, vi, vj], T.float32(-340282346638528859811704183484516925440.0)))
        for b, h, i, j in T.grid(3, 2, 1, 1536):
            with T.sblock("exp"):
                vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                T.reads(lengths[vb], scores[vb, vh, vi, vj], largest[vb, vh, vi])
                T.writes(power[vb, vh, vi, vj])
                power[vb, vh, vi, vj] = T.if_then_else(vj < lengths[vb] and vj < 1201, T.exp((scores[vb, vh, vi, vj] - largest[vb, vh, vi]) * T.float32(0.15811388300841897)), T.float32(0.0))
        for b, h, i, j in T.grid(3, 2, 1, 1536):
            with T.sblock("sum"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                T.reads(power[vb, vh, vi, vj])
                T.writes(total[vb, vh, vi])
                with T.init():
                    total[vb, vh, vi] = T.float32(0.0)
                total[vb, vh, vi] = total[vb, vh, vi] + power[vb, vh, vi, vj]
        for b, h, i, d, j in T.grid(3, 2, 1, 40, 1536):
            with T.sblock("weighted"):
                vb, vh, vi, vd, vj = T.axis.remap("SSSSR", [b, h, i, d, j])
                T.reads(power[vb, vh, vi, vj], V_global[vb, vh, vj, vd])
                T.writes(weighted[vb, vh, vi, vd])
                with T.init():
                    weighted[vb, vh, vi, vd] = T.float32(0.0)
                weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + power[vb, vh, vi, vj] * V_global[vb, vh, vj, vd]
        for b, h, i, d in T.grid(3, 2, 1, 40):
            with T.sblock("Y"):
                vb, vh, vi, vd = T.axis.remap("SSSS", [b, h, i, d])
                T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                T.writes(Y[vb, vh, vi, vd])
                Y[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] / total[vb, vh, vi]
