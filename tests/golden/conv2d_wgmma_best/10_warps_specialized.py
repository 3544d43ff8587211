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
            Y_acc_sums_local = T.sblock_alloc_buffer((3, 1, 128, 16), scope="local")
            Y_tiles_shared_dyn = T.sblock_alloc_buffer((1, 192, 4, 8), "bfloat16", scope="shared.dyn")
            windows_shared_dyn = T.sblock_alloc_buffer((6, 192, 8, 8), "bfloat16", scope="shared.dyn")
            filters_shared_dyn = T.sblock_alloc_buffer((6, 32, 8, 8), "bfloat16", scope="shared.dyn")
            for p_0_o_0_p_1_fused in T.thread_binding(3, thread="blockIdx.x"):
                for p_2_o_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                    with T.sblock("Y_init_o"):
                        vp_o = T.axis.spatial(3, p_0_o_0_p_1_fused)
                        vo_o = T.axis.spatial(1, 0)
                        T.reads()
                        T.writes(Y_acc_sums_local[vp_o, 0, 0:128, 0:16])
                        C = T.match_buffer(Y_acc_sums_local[vp_o, 0, 0:128, 0:16], (1, 1, 128, 16), scope="local", offset_factor=1)
                        for _ in T.thread_binding(128, thread="threadIdx.x"):
                            for i, j, element in T.grid(1, 1, 16):
                                C[i, j, 0, element] = T.float32(0.0)
                    for k_0 in T.serial(6, annotations={"tirstep_tma_in_flight": 1, "tirstep_tma_roles": [128, 0, 0], "tirstep_tma_stages": 6}):
                        for ax0_ax1_fused_0 in range(4):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("windows_shared.dyn"):
                                            v0 = T.axis.spatial(192, p_0_o_0_p_1_fused * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                            v1 = T.axis.spatial(384, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                            T.reads(X[v0 % 64 // 16, v0 // 64 * 2 + v0 % 16 // 8 + v1 // 128 - 1, v0 % 8 + v1 % 128 // 64 - 1, v1 % 64])
                                            T.writes(windows_shared_dyn[v1 // 64, v0, 0:8, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [128, 1, 4, 2, 8, 64]})
                                            windows_shared_dyn[v1 // 64, v0, (v1 % 64 // 8 ^ v0 % 8) % 8, v1 % 8] = T.if_then_else(v0 // 64 * 2 + v0 % 16 // 8 + v1 // 128 - 1 >= 0 and v0 // 64 * 2 + v0 % 16 // 8 + v1 // 128 - 1 < 6 and v0 % 8 + v1 % 128 // 64 - 1 >= 0 and v0 % 8 + v1 % 128 // 64 - 1 < 5 and v1 % 64 < 8, X[v0 % 64 // 16, v0 // 64 * 2 + v0 % 16 // 8 + v1 // 128 - 1, v0 % 8 + v1 % 128 // 64 - 1, v1 % 64], T.bfloat16(0.0))
                        for ax0_ax1_fused_0 in range(2):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("filters_shared.dyn"):
                                            v0 = T.axis.spatial(32, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                            v1 = T.axis.spatial(384, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                            T.reads(F[v0, v1 // 128, v1 % 128 // 64, v1 % 64])
                                            T.writes(filters_shared_dyn[v1 // 64, v0, 0:8, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [128, 1, 32, 1, 1, 64]})
                                            filters_shared_dyn[v1 // 64, v0, (v1 % 64 // 8 ^ v0 % 8) % 8, v1 % 8] = T.if_then_else(v1 % 64 < 8, F[v0, v1 // 128, v1 % 128 // 64, v1 % 64], T.bfloat16(0.0))
                        with T.sblock("Y_update_o"):
                            vp_o = T.axis.spatial(3, p_0_o_0_p_1_fused)
                            vo_o = T.axis.spatial(1, 0)
                            vk_o = T.axis.reduce(6, k_0)
                            T.reads(Y_acc_sums_local[vp_o, 0, 0:128, 0:16], windows_shared_dyn[vk_o, vp_o * 64:vp_o * 64 + 64, 0:8, 0:8], filters_shared_dyn[vk_o, 0:32, 0:8, 0:8])
                            T.writes(Y_acc_sums_local[vp_o, 0, 0:128, 0:16])
                            A = T.match_buffer(windows_shared_dyn[vk_o, vp_o * 64:vp_o * 64 + 64, 0:8, 0:8], (1, 64, 8, 8), "bfloat16", strides=("s", 64, 8, 1), scope="shared.dyn", offset_factor=1)
                            B = T.match_buffer(filters_shared_dyn[vk_o, 0:32, 0:8, 0:8], (1, 32, 8, 8), "bfloat16", strides=("t", 64, 8, 1), scope="shared.dyn", offset_factor=1)
                            C = T.match_buffer(Y_acc_sums_local[vp_o, 0, 0:128, 0:16], (1, 1, 128, 16), scope="local", offset_factor=1)
                            for _ in T.thread_binding(128, thread="threadIdx.x"):
                                with T.sblock("group"):
                                    T.reads(C[0, 0, 0:128, 0:16], A[0, 0:64, 0:8, 0:8], B[0, 0:32, 0:8, 0:8])
                                    T.writes(C[0, 0, 0:128, 0:16])
                                    d = T.sblock_alloc_buffer((2,), "uint64", scope="local")
                                    T.ptx.fence("proxy", "async", "shared::cta", "")
                                    T.tvm_storage_sync("shared.dyn", T.bool(False), -1)
                                    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), T.tvm_access_ptr(T.type_annotation("bfloat16"), A.data, A.elem_offset, A.strides[0], 1), 1, 64, 3)
                                    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[1]), T.tvm_access_ptr(T.type_annotation("bfloat16"), B.data, B.elem_offset, B.strides[0], 1), 1, 64, 3)
                                    T.ptx.wgmma("fence", "sync", "aligned", "")
                                    for step in T.unroll(4):
                                        for i in T.unroll(1):
                                            for j in T.unroll(1):
                                                T.ptx.wgmma(C[i, j, 0, 0], C[i, j, 0, 1], C[i, j, 0, 2], C[i, j, 0, 3], C[i, j, 0, 4], C[i, j, 0, 5], C[i, j, 0, 6], C[i, j, 0, 7], C[i, j, 0, 8], C[i, j, 0, 9], C[i, j, 0, 10], C[i, j, 0, 11], C[i, j, 0, 12], C[i, j, 0, 13], C[i, j, 0, 14], C[i, j, 0, 15], d[0] + T.Cast("uint64", step // 4 * (A.strides[0] * 2 // 16) + step % 4 * 2 + i * 512), d[1] + T.Cast("uint64", step // 4 * (B.strides[0] * 2 // 16) + step % 4 * 2 + j * 256), T.bool(True), 1, 1, 0, 0, "mma_async", "sync", "aligned", "m64n32k16", "f32", "bf16", "bf16", "p18")
                                    T.ptx.wgmma("commit_group", "sync", "aligned", "")
                                    T.ptx.wgmma(1, "wait_group", "sync", "aligned", "")
                    with T.sblock("Y_cast_o"):
                        vp_o = T.axis.spatial(3, p_0_o_0_p_1_fused)
                        vo_o = T.axis.spatial(1, 0)
                        T.reads(Y_acc_sums_local[vp_o, 0, 0:128, 0:16])
                        T.writes(Y_tiles_shared_dyn[0, vp_o * 64:vp_o * 64 + 64, 0:4, 0:8])
                        C = T.match_buffer(Y_acc_sums_local[vp_o, 0, 0:128, 0:16], (1, 1, 128, 16), scope="local", offset_factor=1)
                        D = T.match_buffer(Y_tiles_shared_dyn[0, vp_o * 64:vp_o * 64 + 64, 0:4, 0:8], (1, 64, 4, 8), "bfloat16", strides=("s0", 32, 8, 1), scope="shared.dyn", offset_factor=1)
                        for tx in T.thread_binding(128, thread="threadIdx.x"):
                            T.ptx.wgmma(0, "wait_group", "sync", "aligned", "")
                            for i in T.unroll(1):
                                for j in T.unroll(1):
                                    for part in T.unroll(2):
                                        with T.sblock("matrices"):
                                            T.reads(C[0, 0, 0:128, 0:16])
                                            T.writes(D[0, 0:64, 0:4, 0:8])
                                            values = T.sblock_alloc_buffer((8,), "bfloat16", scope="local")
                                            for of_pair in T.vectorized(2):
                                                values[of_pair] = T.Cast("bfloat16", C[0, 0, 0, part * 8 + of_pair])
                                            for of_pair in T.vectorized(2):
                                                values[2 + of_pair] = T.Cast("bfloat16", C[0, 0, 0, part * 8 + of_pair + 2])
                                            for of_pair in T.vectorized(2):
                                                values[4 + of_pair] = T.Cast("bfloat16", C[0, 0, 0, part * 8 + of_pair + 4])
                                            for of_pair in T.vectorized(2):
                                                values[6 + of_pair] = T.Cast("bfloat16", C[0, 0, 0, part * 8 + of_pair + 6])
                                            T.ptx.stmatrix(T.cuda.cvta_generic_to_shared(T.tvm_access_ptr(T.type_annotation("bfloat16"), D.data, D.elem_offset + ((i * 64 + tx // 32 * 16 + tx % 32 % 16) * 32 + ((j * 32 // 8 + part * 2 + tx % 32 // 16) % 4 ^ (i * 64 + tx // 32 * 16 + tx % 32 % 16) // 2 % 4) % 4 * 8), 8, 2)), T.reinterpret("uint32", values[T.Ramp(0, 1, 2)]), T.reinterpret("uint32", values[T.Ramp(2, 1, 2)]), T.reinterpret("uint32", values[T.Ramp(4, 1, 2)]), T.reinterpret("uint32", values[T.Ramp(6, 1, 2)]), "sync", "aligned", "m8n8", "x4", "", "shared", "b16", "")
                for ax0_ax1_fused_0 in range(2):
                    for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(8):
                                with T.sblock("Y_crop"):
                                    vp = T.axis.spatial(192, p_0_o_0_p_1_fused * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                    vo = T.axis.spatial(32, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                    T.reads(Y_tiles_shared_dyn[0, vp, 0:4, vo % 8])
                                    T.writes(Y[vp % 64 // 16, vp // 64 * 2 + vp % 16 // 8, vp % 8, vo])
                                    T.sblock_attr({"tirstep_tma_store": [64, 1, 4, 2, 8, 32]})
                                    if vp % 8 < 6:
                                        Y[vp % 64 // 16, vp // 64 * 2 + vp % 16 // 8, vp % 8, vo] = Y_tiles_shared_dyn[0, vp, (vo // 8 ^ vp % 8 // 2) % 4, vo % 8]
