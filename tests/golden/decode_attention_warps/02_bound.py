# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((3, 2, 1, 4), "float32"), K: T.Buffer((3, 2, 12, 4), "float32"), V: T.Buffer((3, 2, 12, 4), "float32"), lengths: T.Buffer((3,), "int32"), Y: T.Buffer((3, 2, 1, 4), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        scores = T.sblock_alloc_buffer((3, 2, 1, 12))
        largest = T.sblock_alloc_buffer((3, 2, 1))
        power = T.sblock_alloc_buffer((3, 2, 1, 12))
        total = T.sblock_alloc_buffer((3, 2, 1))
        weighted = T.sblock_alloc_buffer((3, 2, 1, 4))
        for b_h_i_j_fused_0 in T.thread_binding(36, thread="blockIdx.x"):
            for b_h_i_j_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                for d_0_0 in range(1):
                    for d_0_1 in T.thread_binding(32, thread="threadIdx.x"):
                        for d_1 in range(1):
                            with T.sblock("scores"):
                                vb = T.axis.spatial(3, (b_h_i_j_fused_0 * 2 + b_h_i_j_fused_1) // 24)
                                vh = T.axis.spatial(2, (b_h_i_j_fused_0 * 2 + b_h_i_j_fused_1) % 24 // 12)
                                vi = T.axis.spatial(1, 0)
                                vj = T.axis.spatial(12, (b_h_i_j_fused_0 * 2 + b_h_i_j_fused_1) % 12)
                                vd = T.axis.reduce(4, d_0_0 * 32 + d_0_1 + d_1)
                                T.where(d_0_0 * 32 + d_0_1 < 4)
                                T.reads(Q[vb, vh, vi, vd], K[vb, vh, vj, vd])
                                T.writes(scores[vb, vh, vi, vj])
                                with T.init():
                                    scores[vb, vh, vi, vj] = T.float32(0.0)
                                scores[vb, vh, vi, vj] = scores[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K[vb, vh, vj, vd]
        for b_h_i_fused_0 in T.thread_binding(3, thread="blockIdx.x"):
            for b_h_i_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                for j_0_0 in range(1):
                    for j_0_1 in T.thread_binding(32, thread="threadIdx.x"):
                        for j_1 in range(1):
                            with T.sblock("max"):
                                vb = T.axis.spatial(3, (b_h_i_fused_0 * 2 + b_h_i_fused_1) // 2)
                                vh = T.axis.spatial(2, (b_h_i_fused_0 * 2 + b_h_i_fused_1) % 2)
                                vi = T.axis.spatial(1, 0)
                                vj = T.axis.reduce(12, j_0_0 * 32 + j_0_1 + j_1)
                                T.where(j_0_0 * 32 + j_0_1 < 12)
                                T.reads(lengths[vb], scores[vb, vh, vi, vj])
                                T.writes(largest[vb, vh, vi])
                                with T.init():
                                    largest[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                                largest[vb, vh, vi] = T.max(largest[vb, vh, vi], T.if_then_else(vj < lengths[vb], scores[vb, vh, vi, vj], T.float32(-340282346638528859811704183484516925440.0)))
        for b_h_i_j_fused_0 in T.thread_binding(12, thread="blockIdx.x"):
            for b_h_i_j_fused_1 in T.thread_binding(6, thread="threadIdx.x"):
                with T.sblock("exp"):
                    vb = T.axis.spatial(3, (b_h_i_j_fused_0 * 6 + b_h_i_j_fused_1) // 24)
                    vh = T.axis.spatial(2, (b_h_i_j_fused_0 * 6 + b_h_i_j_fused_1) % 24 // 12)
                    vi = T.axis.spatial(1, 0)
                    vj = T.axis.spatial(12, (b_h_i_j_fused_0 * 6 + b_h_i_j_fused_1) % 12)
                    T.reads(lengths[vb], scores[vb, vh, vi, vj], largest[vb, vh, vi])
                    T.writes(power[vb, vh, vi, vj])
                    power[vb, vh, vi, vj] = T.if_then_else(vj < lengths[vb], T.exp((scores[vb, vh, vi, vj] - largest[vb, vh, vi]) * T.float32(0.5)), T.float32(0.0))
        for b_h_i_fused_0 in T.thread_binding(3, thread="blockIdx.x"):
            for b_h_i_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                for j_0_0 in range(1):
                    for j_0_1 in T.thread_binding(32, thread="threadIdx.x"):
                        for j_1 in range(1):
                            with T.sblock("sum"):
                                vb = T.axis.spatial(3, (b_h_i_fused_0 * 2 + b_h_i_fused_1) // 2)
                                vh = T.axis.spatial(2, (b_h_i_fused_0 * 2 + b_h_i_fused_1) % 2)
                                vi = T.axis.spatial(1, 0)
                                vj = T.axis.reduce(12, j_0_0 * 32 + j_0_1 + j_1)
                                T.where(j_0_0 * 32 + j_0_1 < 12)
                                T.reads(power[vb, vh, vi, vj])
                                T.writes(total[vb, vh, vi])
                                with T.init():
                                    total[vb, vh, vi] = T.float32(0.0)
                                total[vb, vh, vi] = total[vb, vh, vi] + power[vb, vh, vi, vj]
        for b_h_i_d_fused_0 in T.thread_binding(4, thread="blockIdx.x"):
            for b_h_i_d_fused_1 in T.thread_binding(6, thread="threadIdx.x"):
                for j in range(12):
                    with T.sblock("weighted"):
                        vb = T.axis.spatial(3, (b_h_i_d_fused_0 * 6 + b_h_i_d_fused_1) // 8)
                        vh = T.axis.spatial(2, (b_h_i_d_fused_0 * 6 + b_h_i_d_fused_1) % 8 // 4)
                        vi = T.axis.spatial(1, 0)
                        vd = T.axis.spatial(4, (b_h_i_d_fused_0 * 6 + b_h_i_d_fused_1) % 4)
                        vj = T.axis.reduce(12, j)
                        T.reads(power[vb, vh, vi, vj], V[vb, vh, vj, vd])
                        T.writes(weighted[vb, vh, vi, vd])
                        with T.init():
                            weighted[vb, vh, vi, vd] = T.float32(0.0)
                        weighted[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] + power[vb, vh, vi, vj] * V[vb, vh, vj, vd]
        for b_h_i_d_fused_0 in T.thread_binding(4, thread="blockIdx.x"):
            for b_h_i_d_fused_1 in T.thread_binding(6, thread="threadIdx.x"):
                with T.sblock("Y"):
                    vb = T.axis.spatial(3, (b_h_i_d_fused_0 * 6 + b_h_i_d_fused_1) // 8)
                    vh = T.axis.spatial(2, (b_h_i_d_fused_0 * 6 + b_h_i_d_fused_1) % 8 // 4)
                    vi = T.axis.spatial(1, 0)
                    vd = T.axis.spatial(4, (b_h_i_d_fused_0 * 6 + b_h_i_d_fused_1) % 4)
                    T.reads(weighted[vb, vh, vi, vd], total[vb, vh, vi])
                    T.writes(Y[vb, vh, vi, vd])
                    Y[vb, vh, vi, vd] = weighted[vb, vh, vi, vd] / total[vb, vh, vi]
