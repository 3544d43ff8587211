# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((3, 2, 1, 16), "float32"), K: T.Buffer((3, 2, 32, 16), "float32"), V: T.Buffer((3, 2, 32, 16), "float32"), lengths: T.Buffer((3,), "int32"), Y: T.Buffer((3, 2, 1, 16), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        scores = T.sblock_alloc_buffer((3, 2, 1, 32))
        largest = T.sblock_alloc_buffer((3, 2, 1))
        total = T.sblock_alloc_buffer((3, 2, 1))
        weighted = T.sblock_alloc_buffer((3, 2, 1, 16))
        largest_part = T.sblock_alloc_buffer((3, 2, 1, 2))
        power_part = T.sblock_alloc_buffer((3, 2, 1, 2, 16))
        total_part = T.sblock_alloc_buffer((3, 2, 1, 2))
        weighted_part = T.sblock_alloc_buffer((3, 2, 1, 2, 16))
        for b, h, i, j, d in T.grid(3, 2, 1, 32, 16):
            with T.sblock("scores"):
                vb, vh, vi, vj, vd = T.axis.remap("SSSSR", [b, h, i, j, d])
                T.reads(Q[vb, vh, vi, vd], K[vb, vh, vj, vd])
                T.writes(scores[vb, vh, vi, vj])
                with T.init():
                    scores[vb, vh, vi, vj] = T.float32(0.0)
                scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K[vb, vh, vj, vd]
        for b, h, i, part, j in T.grid(3, 2, 1, 2, 16):
            with T.sblock("max_part"):
                vb, vh, vi, vpart, vj = T.axis.remap("SSSSR", [b, h, i, part, j])
                T.reads(lengths[vb], scores[vb, vh, vi, vpart * 16 + vj])
                T.writes(largest_part[vb, vh, vi, vpart])
                with T.init():
                    largest_part[vb, vh, vi, vpart] = T.float32(-340282346638528859811704183484516925440.0)
                largest_part[vb, vh, vi, vpart] = T.max(largest_part[vb, vh, vi, vpart], T.if_then_else(vpart * 16 + vj < lengths[vb], scores[vb, vh, vi, vpart * 16 + vj], T.float32(-340282346638528859811704183484516925440.0)))
        for b, h, i, part in T.grid(3, 2, 1, 2):
            with T.sblock("max"):
                vb, vh, vi, vpart = T.axis.remap("SSSR", [b, h, i, part])
                T.reads(largest_part[vb, vh, vi, vpart])
                T.writes(largest[vb, vh, vi])
                with T.init():
                    largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                largest[vb, vh, vi] = T.max(largest[vb, vh, vi], largest_part[vb, vh, vi, vpart])
        for b, h, i, part, j in T.grid(3, 2, 1, 2, 16):
            with T.sblock("exp"):
                vb, vh, vi, vpart, vj = T.axis.remap("SSSSS", [b, h, i, part, j])
                T.reads(lengths[vb], scores[vb, vh, vi, vpart * 16 + vj], largest_part[vb, vh, vi, vpart])
                T.writes(power_part[vb, vh, vi, vpart, vj])
                power_part[vb, vh, vi, vpart, vj] = T.if_then_else(vpart * 16 + vj < lengths[vb], T.exp((scores[vb, vh, vi, vpart * 16 + vj] - largest_part[vb, vh, vi, vpart]) * T.float32(0.25)), T.float32(0.0))
        for b, h, i, part, j in T.grid(3, 2, 1, 2, 16):
            with T.sblock("sum_part"):
                vb, vh, vi, vpart, vj = T.axis.remap("SSSSR", [b, h, i, part, j])
                T.reads(power_part[vb, vh, vi, vpart, vj])
                T.writes(total_part[vb, vh, vi, vpart])
                with T.init():
                    total_part[vb, vh, vi, vpart] = T.float32(0.0)
                total_part[vb, vh, vi, vpart] = total_part[vb, vh, vi, vpart] + power_part[vb, vh, vi, vpart, vj]
        for b, h, i, part in T.grid(3, 2, 1, 2):
            with T.sblock("sum"):
                vb, vh, vi, vpart = T.axis.remap("SSSR", [b, h, i, part])
                T.reads(total_part[vb, vh, vi, vpart], largest_part[vb, vh, vi, vpart], largest[vb, vh, vi])
                T.writes(total[vb, vh, vi])
                with T.init():
                    total[vb, vh, vi] = T.float32(0.0)
                total[vb, vh, vi] = total[vb, vh, vi] + total_part[vb, vh, vi, vpart] * T.exp((largest_part[vb, vh, vi, vpart] - largest[vb, vh, vi]) * T.float32(0.25))
        for b, h, i, part, d, j in T.grid(3, 2, 1, 2, 16, 16):
            with T.sblock("weighted_part"):
                vb, vh, vi, vpart, vj, vd = T.axis.remap("SSSSRS", [b, h, i, part, j, d])
                T.reads(power_part[vb, vh, vi, vpart, vj], V[vb, vh, vpart * 16 + vj, vd])
                T.writes(weighted_part[vb, vh, vi, vpart, vd])
                with T.init():
                    weighted_part[vb, vh, vi, vpart, vd] = T.float32(0.0)
                weighted_part[vb, vh, vi, vpart, vd] = weighted_part[vb, vh, vi, vpart, vd] + power_part[vb, vh, vi, vpart, vj] * V[vb, vh, vpart * 16 + vj, vd]
        for b, h, i, d, part in T.grid(3, 2, 1, 16, 2):
            with T.sblock("weighted"):
                vb, vh, vi, vd, vpart = T.axis.remap("SSSSR", [b, h, i, d, part])
                T.reads(weighted_part[vb, vh, vi, vpart, vd], largest_part[vb, vh, vi, vpart], largest[vb, vh, vi])
                T.writes(weighted[vb, vh, vi, vd])
                with T.init():
                    weighted[vb, vh, vi, vd] = T.float32(0.0)
                weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + weighted_part[vb, vh, vi, vpart, vd] * T.exp((largest_part[vb, vh, vi, vpart] - largest[vb, vh, vi]) * T.float32(0.25))
        for b, h, i, d in T.grid(3, 2, 1, 16):
            with T.sblock("Y"):
                vb, vh, vi, vd = T.axis.remap("SSSS", [b, h, i, d])
                T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                T.writes(Y[vb, vh, vi, vd])
                Y[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] / total[vb, vh, vi]
