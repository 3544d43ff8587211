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
        total_part = T.sblock_alloc_buffer((3, 2, 1, 2))
        weighted_part = T.sblock_alloc_buffer((3, 2, 1, 2, 16))
        largest_part_part = T.sblock_alloc_buffer((3, 2, 1, 2, 2))
        power_part_part = T.sblock_alloc_buffer((3, 2, 1, 2, 2, 8))
        total_part_part = T.sblock_alloc_buffer((3, 2, 1, 2, 2))
        weighted_part_part = T.sblock_alloc_buffer((3, 2, 1, 2, 2, 16))
        for b, h, i, j, d in T.grid(3, 2, 1, 32, 16):
            with T.sblock("scores"):
                vb, vh, vi, vj, vd = T.axis.remap("SSSSR", [b, h, i, j, d])
                T.reads(Q[vb, vh, vi, vd], K[vb, vh, vj, vd])
                T.writes(scores[vb, vh, vi, vj])
                with T.init():
                    scores[vb, vh, vi, vj] = T.float32(0.0)
                scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K[vb, vh, vj, vd]
        for b, h, i, part, part_1, j in T.grid(3, 2, 1, 2, 2, 8):
            with T.sblock("max_part_part"):
                vb, vh, vi, vpart, vpart_1, vj = T.axis.remap("SSSSSR", [b, h, i, part, part_1, j])
                T.reads(lengths[vb], scores[vb, vh, vi, vpart * 16 + vpart_1 * 8 + vj])
                T.writes(largest_part_part[vb, vh, vi, vpart, vpart_1])
                with T.init():
                    largest_part_part[vb, vh, vi, vpart, vpart_1] = T.float32(-340282346638528859811704183484516925440.0)
                largest_part_part[vb, vh, vi, vpart, vpart_1] = T.max(largest_part_part[vb, vh, vi, vpart, vpart_1], T.if_then_else(vpart * 16 + (vpart_1 * 8 + vj) < lengths[vb], scores[vb, vh, vi, vpart * 16 + vpart_1 * 8 + vj], T.float32(-340282346638528859811704183484516925440.0)))
        for b, h, i, part, part_1 in T.grid(3, 2, 1, 2, 2):
            with T.sblock("max_part"):
                vb, vh, vi, vpart, vpart_1 = T.axis.remap("SSSSR", [b, h, i, part, part_1])
                T.reads(largest_part_part[vb, vh, vi, vpart, vpart_1])
                T.writes(largest_part[vb, vh, vi, vpart])
                with T.init():
                    largest_part[vb, vh, vi, vpart] = T.float32(-340282346638528859811704183484516925440.0)
                largest_part[vb, vh, vi, vpart] = T.max(largest_part[vb, vh, vi, vpart], largest_part_part[vb, vh, vi, vpart, vpart_1])
        for b, h, i, part in T.grid(3, 2, 1, 2):
            with T.sblock("max"):
                vb, vh, vi, vpart = T.axis.remap("SSSR", [b, h, i, part])
                T.reads(largest_part[vb, vh, vi, vpart])
                T.writes(largest[vb, vh, vi])
                with T.init():
                    largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                largest[vb, vh, vi] = T.max(largest[vb, vh, vi], largest_part[vb, vh, vi, vpart])
        for b, h, i, part, part_1, j in T.grid(3, 2, 1, 2, 2, 8):
            with T.sblock("exp"):
                vb, vh, vi, vpart, vpart_1, vj = T.axis.remap("SSSSSS", [b, h, i, part, part_1, j])
                T.reads(lengths[vb], scores[vb, vh, vi, vpart * 16 + vpart_1 * 8 + vj], largest_part_part[vb, vh, vi, vpart, vpart_1])
                T.writes(power_part_part[vb, vh, vi, vpart, vpart_1, vj])
                power_part_part[vb, vh, vi, vpart, vpart_1, vj] = T.if_then_else(vpart * 16 + (vpart_1 * 8 + vj) < lengths[vb], T.exp((scores[vb, vh, vi, vpart * 16 + vpart_1 * 8 + vj] - largest_part_part[vb, vh, vi, vpart, vpart_1]) * T.float32(0.25)), T.float32(0.0))
        for b, h, i, part, part_1, j in T.grid(3, 2, 1, 2, 2, 8):
            with T.sblock("sum_part_part"):
                vb, vh, vi, vpart, vpart_1, vj = T.axis.remap("SSSSSR", [b, h, i, part, part_1, j])
                T.reads(power_part_part[vb, vh, vi, vpart, vpart_1, vj])
                T.writes(total_part_part[vb, vh, vi, vpart, vpart_1])
                with T.init():
                    total_part_part[vb, vh, vi, vpart, vpart_1] = T.float32(0.0)
                total_part_part[vb, vh, vi, vpart, vpart_1] = total_part_part[vb, vh, vi, vpart, vpart_1] + power_part_part[vb, vh, vi, vpart, vpart_1, vj]
        for b, h, i, part, part_1 in T.grid(3, 2, 1, 2, 2):
            with T.sblock("sum_part"):
                vb, vh, vi, vpart, vpart_1 = T.axis.remap("SSSSR", [b, h, i, part, part_1])
                T.reads(total_part_part[vb, vh, vi, vpart, vpart_1], largest_part_part[vb, vh, vi, vpart, vpart_1], largest_part[vb, vh, vi, vpart])
                T.writes(total_part[vb, vh, vi, vpart])
                with T.init():
                    total_part[vb, vh, vi, vpart] = T.float32(0.0)
                total_part[vb, vh, vi, vpart] = total_part[vb, vh, vi, vpart] + total_part_part[vb, vh, vi, vpart, vpart_1] * T.exp((largest_part_part[vb, vh, vi, vpart, vpart_1] - largest_part[vb, vh, vi, vpart]) * T.float32(0.25))
        for b, h, i, part in T.grid(3, 2, 1, 2):
            with T.sblock("sum"):
                vb, vh, vi, vpart = T.axis.remap("SSSR", [b, h, i, part])
                T.reads(total_part[vb, vh, vi, vpart], largest_part[vb, vh, vi, vpart], largest[vb, vh, vi])
                T.writes(total[vb, vh, vi])
                with T.init():
                    total[vb, vh, vi] = T.float32(0.0)
                total[vb, vh, vi] = total[vb, vh, vi] + total_part[vb, vh, vi, vpart] * T.exp((largest_part[vb, vh, vi, vpart] - largest[vb, vh, vi]) * T.float32(0.25))
        for b, h, i, part, part_1, d, j in T.grid(3, 2, 1, 2, 2, 16, 8):
            with T.sblock("weighted_part_part"):
                vb, vh, vi, vpart, vpart_1, vj, vd = T.axis.remap("SSSSSRS", [b, h, i, part, part_1, j, d])
                T.reads(power_part_part[vb, vh, vi, vpart, vpart_1, vj], V[vb, vh, vpart * 16 + vpart_1 * 8 + vj, vd])
                T.writes(weighted_part_part[vb, vh, vi, vpart, vpart_1, vd])
                with T.init():
                    weighted_part_part[vb, vh, vi, vpart, vpart_1, vd] = T.float32(0.0)
                weighted_part_part[vb, vh, vi, vpart, vpart_1, vd] = weighted_part_part[vb, vh, vi, vpart, vpart_1, vd] + power_part_part[vb, vh, vi, vpart, vpart_1, vj] * V[vb, vh, vpart * 16 + vpart_1 * 8 + vj, vd]
        for b, h, i, part, d, part_1 in T.grid(3, 2, 1, 2, 16, 2):
            with T.sblock("weighted_part"):
                vb, vh, vi, vpart, vd, vpart_1 = T.axis.remap("SSSSSR", [b, h, i, part, d, part_1])
                T.reads(weighted_part_part[vb, vh, vi, vpart, vpart_1, vd], largest_part_part[vb, vh, vi, vpart, vpart_1], largest_part[vb, vh, vi, vpart])
                T.writes(weighted_part[vb, vh, vi, vpart, vd])
                with T.init():
                    weighted_part[vb, vh, vi, vpart, vd] = T.float32(0.0)
                weighted_part[vb, vh, vi, vpart, vd] = weighted_part[vb, vh, vi, vpart, vd] + weighted_part_part[vb, vh, vi, vpart, vpart_1, vd] * T.exp((largest_part_part[vb, vh, vi, vpart, vpart_1] - largest_part[vb, vh, vi, vpart]) * T.float32(0.25))
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
