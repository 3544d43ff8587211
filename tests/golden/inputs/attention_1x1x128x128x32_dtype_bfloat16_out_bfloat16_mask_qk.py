# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 1, 128, 32), "bfloat16"), K: T.Buffer((1, 1, 128, 32), "bfloat16"), V: T.Buffer((1, 1, 128, 32), "bfloat16"), A: T.Buffer((1, 1, 128, 128), "bfloat16"), Y: T.Buffer((1, 1, 128, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        scores = T.sblock_alloc_buffer((1, 1, 128, 128))
        mask = T.sblock_alloc_buffer((1, 1, 128, 128), "bfloat16")
        masked = T.sblock_alloc_buffer((1, 1, 128, 128))
        largest = T.sblock_alloc_buffer((1, 1, 128))
        power = T.sblock_alloc_buffer((1, 1, 128, 128))
        total = T.sblock_alloc_buffer((1, 1, 128))
        weighted = T.sblock_alloc_buffer((1, 1, 128, 32))
        for b, h, i, j, d in T.grid(1, 1, 128, 128, 32):
            with T.sblock("scores"):
                vb, vh, vi, vj, vd = T.axis.remap("SSSSR", [b, h, i, j, d])
                T.reads(Q[vb, vh, vi, vd], K[vb, vh, vj, vd])
                T.writes(scores[vb, vh, vi, vj])
                with T.init():
                    scores[vb, vh, vi, vj] = T.float32(0.0)
                scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + T.Cast("float32", Q[vb, vh, vi, vd]) * T.Cast("float32", K[vb, vh, vj, vd])
        for b, h, i, j in T.grid(1, 1, 128, 128):
            with T.sblock("mask"):
                vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                T.reads(A[0, 0, vi, vj])
                T.writes(mask[vb, vh, vi, vj])
                mask[vb, vh, vi, vj] = A[0, 0, vi, vj]
        for b, h, i, j in T.grid(1, 1, 128, 128):
            with T.sblock("masked"):
                vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                T.reads(scores[vb, vh, vi, vj], mask[vb, vh, vi, vj])
                T.writes(masked[vb, vh, vi, vj])
                masked[vb, vh, vi, vj] = scores[vb, vh, vi, vj] * T.float32(0.17677669529663687) + T.Cast("float32", mask[vb, vh, vi, vj])
        for b, h, i, j in T.grid(1, 1, 128, 128):
            with T.sblock("max"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                T.reads(masked[vb, vh, vi, vj])
                T.writes(largest[vb, vh, vi])
                with T.init():
                    largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                largest[vb, vh, vi] = T.max(largest[vb, vh, vi], masked[vb, vh, vi, vj])
        for b, h, i, j in T.grid(1, 1, 128, 128):
            with T.sblock("exp"):
                vb, vh, vi, vj = T.axis.remap("SSSS", [b, h, i, j])
                T.reads(masked[vb, vh, vi, vj], largest[vb, vh, vi])
                T.writes(power[vb, vh, vi, vj])
                power[vb, vh, vi, vj] = T.exp(masked[vb, vh, vi, vj] - largest[vb, vh, vi])
        for b, h, i, j in T.grid(1, 1, 128, 128):
            with T.sblock("sum"):
                vb, vh, vi, vj = T.axis.remap("SSSR", [b, h, i, j])
                T.reads(power[vb, vh, vi, vj])
                T.writes(total[vb, vh, vi])
                with T.init():
                    total[vb, vh, vi] = T.float32(0.0)
                total[vb, vh, vi] = total[vb, vh, vi] + power[vb, vh, vi, vj]
        for b, h, i, d, j in T.grid(1, 1, 128, 32, 128):
            with T.sblock("weighted"):
                vb, vh, vi, vd, vj = T.axis.remap("SSSSR", [b, h, i, d, j])
                T.reads(power[vb, vh, vi, vj], V[vb, vh, vj, vd])
                T.writes(weighted[vb, vh, vi, vd])
                with T.init():
                    weighted[vb, vh, vi, vd] = T.float32(0.0)
                weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + T.Cast("float32", T.Cast("bfloat16", power[vb, vh, vi, vj])) * T.Cast("float32", V[vb, vh, vj, vd])
        for b, h, i, d in T.grid(1, 1, 128, 32):
            with T.sblock("Y"):
                vb, vh, vi, vd = T.axis.remap("SSSS", [b, h, i, d])
                T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                T.writes(Y[vb, vh, vi, vd])
                Y[vb, vh, vi, vd] = T.Cast("bfloat16", weighted[vb, vh, vi, vd] / total[vb, vh, vi])
