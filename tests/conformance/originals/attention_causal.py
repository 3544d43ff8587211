# attention(batch=1, heads=2, queries=12, keys=16, dim=8, causal=True)
@T.prim_func(s_tir=True)
def main(Q: T.Buffer((1, 2, 12, 8), "float32"), K: T.Buffer((1, 2, 16, 8), "float32"), V: T.Buffer((1, 2, 16, 8), "float32"), Y: T.Buffer((1, 2, 12, 8), "float32")):
    T.func_attr({"tirx.noalias": True})
    scores_local = T.sblock_alloc_buffer((1, 2, 12, 16), scope="local")
    largest_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
    total_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
    weighted_local = T.sblock_alloc_buffer((1, 2, 12, 8), scope="local")
    largest_tile_local = T.sblock_alloc_buffer((1, 2, 12, 4), scope="local")
    largest_previous_local = T.sblock_alloc_buffer((1, 2, 12), scope="local")
    power_local = T.sblock_alloc_buffer((1, 2, 12, 16), scope="local")
    total_tile_local = T.sblock_alloc_buffer((1, 2, 12, 4), scope="local")
    K_shared = T.sblock_alloc_buffer((1, 2, 16, 8), scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.z"):
        for h in T.thread_binding(2, thread="blockIdx.y"):
            for i_0 in T.thread_binding(3, thread="blockIdx.x"):
                for i_1 in T.thread_binding(4, thread="threadIdx.x"):
                    for j_0 in range(4):
                        for ax0 in range(8):
                            for ax1 in T.thread_binding(4, thread="threadIdx.x"):
                                with T.sblock("K_shared"):
                                    v0, v1 = T.axis.remap("SS", [b, h])
                                    v2 = T.axis.spatial(16, j_0 * 4 + (ax0 * 4 + ax1) // 8)
                                    v3 = T.axis.spatial(8, (ax0 * 4 + ax1) % 8)
                                    K_shared[v0, v1, v2, v3] = K[v0, v1, v2, v3]
                        for j_1, d in T.grid(4, 8):
                            with T.sblock("scores"):
                                vb, vh = T.axis.remap("SS", [b, h])
                                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                                vj = T.axis.spatial(16, j_0 * 4 + j_1)
                                vd = T.axis.reduce(8, d)
                                with T.init():
                                    scores_local[vb, vh, vi, vj] = T.float32(0.0)
                                scores_local[vb, vh, vi, vj] = scores_local[vb, vh, vi, vj] + Q[vb, vh, vi, vd] * K_shared[vb, vh, vj, vd]
                        for j_1 in range(4):
                            with T.sblock("max_tile"):
                                vb, vh = T.axis.remap("SS", [b, h])
                                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                                vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                with T.init():
                                    largest_tile_local[vb, vh, vi, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                largest_tile_local[vb, vh, vi, vj_0] = T.max(largest_tile_local[vb, vh, vi, vj_0], T.if_then_else(vj_0 * 4 + vj_1 <= vi + 4, scores_local[vb, vh, vi, vj_0 * 4 + vj_1], T.float32(-340282346638528859811704183484516925440.0)))
                        with T.sblock("max"):
                            vb, vh = T.axis.remap("SS", [b, h])
                            vi = T.axis.spatial(12, i_0 * 4 + i_1)
                            vj_0 = T.axis.reduce(4, j_0)
                            with T.init():
                                largest_local[vb, vh, vi] = T.float32(-340282346638528859811704183484516925440.0)
                            largest_previous_local[vb, vh, vi] = largest_local[vb, vh, vi]
                            largest_local[vb, vh, vi] = T.max(largest_local[vb, vh, vi], largest_tile_local[vb, vh, vi, vj_0])
                        for j_1 in range(4):
                            with T.sblock("exp_running"):
                                vb, vh = T.axis.remap("SS", [b, h])
                                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                                vj = T.axis.spatial(16, j_0 * 4 + j_1)
                                power_local[vb, vh, vi, vj] = T.if_then_else(vj <= vi + 4, T.exp((scores_local[vb, vh, vi, vj] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)), T.float32(0.0))
                        for j_1 in range(4):
                            with T.sblock("sum_tile"):
                                vb, vh = T.axis.remap("SS", [b, h])
                                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                                vj_0, vj_1 = T.axis.remap("SR", [j_0, j_1])
                                with T.init():
                                    total_tile_local[vb, vh, vi, vj_0] = T.float32(0.0)
                                total_tile_local[vb, vh, vi, vj_0] = total_tile_local[vb, vh, vi, vj_0] + power_local[vb, vh, vi, vj_0 * 4 + vj_1]
                        with T.sblock("sum"):
                            vb, vh = T.axis.remap("SS", [b, h])
                            vi = T.axis.spatial(12, i_0 * 4 + i_1)
                            vj_0 = T.axis.reduce(4, j_0)
                            with T.init():
                                total_local[vb, vh, vi] = T.float32(0.0)
                            total_local[vb, vh, vi] = total_local[vb, vh, vi] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)) + total_tile_local[vb, vh, vi, vj_0]
                        for d in range(8):
                            with T.sblock("weighted_init"):
                                vb, vh = T.axis.remap("SS", [b, h])
                                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                                vd, vj_0 = T.axis.remap("SS", [d, j_0])
                                weighted_local[vb, vh, vi, vd] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi, vd] * T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * T.float32(0.35355339059327373)))
                        for j_1, d in T.grid(4, 8):
                            with T.sblock("weighted_update"):
                                vb, vh = T.axis.remap("SS", [b, h])
                                vi = T.axis.spatial(12, i_0 * 4 + i_1)
                                vd, vj_0, vj_1 = T.axis.remap("SSR", [d, j_0, j_1])
                                weighted_local[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] + power_local[vb, vh, vi, vj_0 * 4 + vj_1] * V[vb, vh, vj_0 * 4 + vj_1, vd]
                    for d in range(8):
                        with T.sblock("Y"):
                            vb, vh = T.axis.remap("SS", [b, h])
                            vi = T.axis.spatial(12, i_0 * 4 + i_1)
                            vd = T.axis.spatial(8, d)
                            Y[vb, vh, vi, vd] = weighted_local[vb, vh, vi, vd] / total_local[vb, vh, vi]
