# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((4, 6, 5, 8), "bfloat16"), F: T.Buffer((32, 3, 2, 8), "bfloat16"), Y: T.Buffer((4, 6, 6, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            Y_acc_sums_local = T.sblock_alloc_buffer((192, 64), scope="local")
            Y_tiles_shared_dyn = T.sblock_alloc_buffer((192, 64), "bfloat16", scope="shared.dyn")
            windows_shared_dyn = T.sblock_alloc_buffer((6, 192, 2, 8), "bfloat16", scope="shared.dyn")
            filters_shared_dyn = T.sblock_alloc_buffer((6, 64, 2, 8), "bfloat16", scope="shared.dyn")
            for p_0_o_0_p_1_fused in T.thread_binding(3, thread="blockIdx.x"):
                for p_2_o_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                    for p_3_init, o_2_init in T.grid(64, 64):
                        with T.sblock("Y_init"):
                            vp = T.axis.spatial(192, p_0_o_0_p_1_fused * 64 + p_3_init)
                            vo = T.axis.spatial(64, o_2_init)
                            T.reads()
                            T.writes(Y_acc_sums_local[vp, vo])
                            Y_acc_sums_local[vp, vo] = T.float32(0.0)
                    for k_0 in T.serial(6, annotations={"tirstep_tma_in_flight": 1, "tirstep_tma_stages": 3}):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("windows_shared.dyn"):
                                            v0 = T.axis.spatial(192, p_0_o_0_p_1_fused * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 16)
                                            v1 = T.axis.spatial(96, k_0 * 16 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 16)
                                            T.reads(X[v0 % 64 // 16, v0 // 64 * 2 + v0 % 16 // 8 + v1 // 32 - 1, v0 % 8 + v1 % 32 // 16 - 1, v1 % 16])
                                            T.writes(windows_shared_dyn[v1 // 16, v0, 0:2, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [32, 1, 4, 2, 8, 16]})
                                            windows_shared_dyn[v1 // 16, v0, (v1 % 16 // 8 ^ v0 % 8 // 4) % 2, v1 % 8] = T.if_then_else(v0 // 64 * 2 + v0 % 16 // 8 + v1 // 32 - 1 >= 0 and v0 // 64 * 2 + v0 % 16 // 8 + v1 // 32 - 1 < 6 and v0 % 8 + v1 % 32 // 16 - 1 >= 0 and v0 % 8 + v1 % 32 // 16 - 1 < 5 and v1 % 16 < 8, X[v0 % 64 // 16, v0 // 64 * 2 + v0 % 16 // 8 + v1 // 32 - 1, v0 % 8 + v1 % 32 // 16 - 1, v1 % 16], T.bfloat16(0.0))
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("filters_shared.dyn"):
                                            v0 = T.axis.spatial(64, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 16)
                                            v1 = T.axis.spatial(96, k_0 * 16 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 16)
                                            T.reads(F[v0, v1 // 32, v1 % 32 // 16, v1 % 16])
                                            T.writes(filters_shared_dyn[v1 // 16, v0, 0:2, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [32, 1, 64, 1, 1, 16]})
                                            filters_shared_dyn[v1 // 16, v0, (v1 % 16 // 8 ^ v0 % 8 // 4) % 2, v1 % 8] = T.if_then_else(v0 < 32 and v1 % 16 < 8, F[v0, v1 // 32, v1 % 32 // 16, v1 % 16], T.bfloat16(0.0))
                        for p_3, o_2, k_1 in T.grid(64, 64, 16):
                            with T.sblock("Y_update"):
                                vp = T.axis.spatial(192, p_0_o_0_p_1_fused * 64 + p_3)
                                vo = T.axis.spatial(64, o_2)
                                vk = T.axis.reduce(96, k_0 * 16 + k_1)
                                T.reads(Y_acc_sums_local[vp, vo], windows_shared_dyn[vk // 16, vp, 0:2, vk % 8], filters_shared_dyn[vk // 16, vo, 0:2, vk % 8])
                                T.writes(Y_acc_sums_local[vp, vo])
                                Y_acc_sums_local[vp, vo] = Y_acc_sums_local[vp, vo] + T.Cast("float32", windows_shared_dyn[vk // 16, vp, (vk % 16 // 8 ^ vp % 8 // 4) % 2, vk % 8]) * T.Cast("float32", filters_shared_dyn[vk // 16, vo, (vk % 16 // 8 ^ vo % 8 // 4) % 2, vk % 8])
                    for ax0, ax1 in T.grid(64, 64):
                        with T.sblock("Y_cast"):
                            vp = T.axis.spatial(192, p_0_o_0_p_1_fused * 64 + ax0)
                            vo = T.axis.spatial(64, ax1)
                            T.reads(Y_acc_sums_local[vp, vo])
                            T.writes(Y_tiles_shared_dyn[vp, vo])
                            T.sblock_attr({"tirstep_tile_store": 1})
                            Y_tiles_shared_dyn[vp, vo] = T.Cast("bfloat16", Y_acc_sums_local[vp, vo])
                for ax0_ax1_fused_0 in range(4):
                    for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(8):
                                with T.sblock("Y_crop"):
                                    vp = T.axis.spatial(192, p_0_o_0_p_1_fused * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                    vo = T.axis.spatial(64, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                    T.reads(Y_tiles_shared_dyn[vp, vo])
                                    T.writes(Y[vp % 64 // 16, vp // 64 * 2 + vp % 16 // 8, vp % 8, vo])
                                    if vp % 8 < 6 and vo < 32:
                                        Y[vp % 64 // 16, vp // 64 * 2 + vp % 16 // 8, vp % 8, vo] = Y_tiles_shared_dyn[vp, vo]
