# decode_attention(batch=3, heads=2, keys=32, dim=16)
@T.prim_func(s_tir=True)
def main(Q: T.Buffer((3, 2, 1, 16), "float32"), K: T.Buffer((3, 2, 32, 16), "float32"), V: T.Buffer((3, 2, 32, 16), "float32"), lengths: T.Buffer((3,), "int32"), Y: T.Buffer((3, 2, 1, 16), "float32")):
    T.func_attr({"tirx.noalias": True})
    scores_local = T.sblock_alloc_buffer((3, 2, 1, 32), scope="local")
    largest_local = T.sblock_alloc_buffer((3, 2, 1), scope="local")
    total_local = T.sblock_alloc_buffer((3, 2, 1), scope="local")
    weighted_local = T.sblock_alloc_buffer((3, 2, 1, 16), scope="local")
    largest_tile_local = T.sblock_alloc_buffer((3, 2, 1, 8), scope="local")
    largest_previous_local = T.sblock_alloc_buffer((3, 2, 1), scope="local")
    power_running_local = T.sblock_alloc_buffer((3, 2, 1, 32), scope="local")
    for b in T.thread_binding(3, thread="blockIdx.y"):
        for h in T.thread_binding(2, thread="blockIdx.x"):
            for i in range(1):
                for j_0 in range(8):
                    for ax0, ax1, ax2, ax3, ax4 in T.grid(1, 1, 1, 4, 16):
                        with T.sblock("scores"):
                            vb = T.axis.spatial(3, b + ax0)
                            vh = T.axis.spatial(2, h + ax1)
                            vi = T.axis.spatial(1, ax2)
                            vj = T.axis.spatial(32, j_0 * 4 + ax3)
                            vd = T.axis.reduce(16, ax4)
                            with T.init():
                                scores_local[vb, vh, vi, vj] = T.float32(0.0)
                            scores_local[vb, vh, vi, vj] = scores_local[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K[vb, vh, vj, vd]
                    for j_1 in range(4):
                        with T.sblock("max_tile"):
                            vb, vh, vi, vj_0, vj_1 = T.axis.remap("SSSSR", [b, h, i, j_0, j_1])
                            with T.init():
                                largest_tile_local[vb, vh, vi, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                            largest_tile_local[vb, vh, vi, vj_0] = T.max(largest_tile_local[vb, vh, vi, vj_0], T.if_then_else(vj_0 * 4 + vj_1 < lengths[vb], scores_local[vb, vh, vi, vj_0 * 4 + vj_1], T.float32(-340282346638528859811704183484516925440.0)))
                    with T.sblock("max"):
                        vb, vh, vi, vj_0 = T.axis.remap("SSSR", [b, h, i, j_0])
                        with T.init():
                            largest_local[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                        largest_previous_local[vb, vh, vi] = largest_local[vb, vh, vi]
                        largest_local[vb, vh, vi] = T.max(largest_local[vb, vh, vi], largest_tile_local[vb, vh, vi, vj_0])
                    for j_1 in range(4):
                        with T.sblock("exp_running"):
                            vb, vh, vi = T.axis.remap("SSS", [b, h, i])
                            vj = T.axis.spatial(32, j_0 * 4 + j_1)
                            power_running_local[vb, vh, vi, vj] = T.if_then_else(vj < lengths[vb], T.exp((scores_local[vb, vh, vi, vj] - largest_local[vb, vh, vi]) * T.float32(0.25)), T.float32(0.0))
                    for j_1 in range(4):
                        with T.sblock("sum"):
                            vb, vh, vi, vj_0, vj_1 = T.axis.remap("SSSSR", [b, h, i, j_0, j_1])
                            with T.init():
                                total_local[vb, vh, vi] = T.if_then_else(vj_0 == 0, T.float32(0.0), total_local[vb, vh, vi] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.25)))
                            total_local[vb, vh, vi] = total_local[vb, vh, vi] + power_running_local[vb, vh, vi, vj_0 * 4 + vj_1]
                    for d, j_1 in T.grid(16, 4):
                        with T.sblock("weighted"):
                            vb, vh, vi, vd, vj_0, vj_1 = T.axis.remap("SSSSSR", [b, h, i, d, j_0, j_1])
                            with T.init():
                                weighted_local[vb, vh, vi, vd] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi, vd] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.25)))
                            weighted_local[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] + power_running_local[vb, vh, vi, vj_0 * 4 + vj_1] * V[vb, vh, vj_0 * 4 + vj_1, vd]
                for ax0 in range(16):
                    with T.sblock("Y"):
                        vb, vh = T.axis.remap("SS", [b, h])
                        vi = T.axis.spatial(1, 0)
                        vd = T.axis.spatial(16, ax0)
                        Y[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] / total_local[vb, vh, vi]
