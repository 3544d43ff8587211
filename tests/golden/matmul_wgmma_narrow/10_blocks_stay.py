# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128, 192), "float16"), B: T.Buffer((192, 256), "float16"), C: T.Buffer((128, 256), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            C_shared_dyn = T.sblock_alloc_buffer((8, 128, 8, 4), scope="shared.dyn")
            C_shared_dyn_local = T.sblock_alloc_buffer((2, 8, 128, 16), scope="local")
            A_shared_dyn = T.sblock_alloc_buffer((3, 128, 8, 8), "float16", scope="shared.dyn")
            B_shared_dyn = T.sblock_alloc_buffer((8, 192, 4, 8), "float16", scope="shared.dyn")
            for i_0_j_0_i_1_fused in T.thread_binding(16, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                    with T.sblock("C_init_o"):
                        vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2)
                        vj_o = T.axis.spatial(8, i_0_j_0_i_1_fused // 2)
                        T.reads()
                        T.writes(C_shared_dyn_local[vi_o, vj_o, 0:128, 0:16])
                        C_1 = T.match_buffer(C_shared_dyn_local[vi_o, vj_o, 0:128, 0:16], (1, 1, 128, 16), scope="local", offset_factor=1)
                        for _ in T.thread_binding(128, thread="threadIdx.x"):
                            for i, j, element in T.grid(1, 1, 16):
                                C_1[i, j, 0, element] = T.float32(0.0)
                    for k_0 in T.serial(3, annotations={"tirstep_tma_in_flight": 1, "tirstep_tma_persistent": 3, "tirstep_tma_roles": [128, 0, 0], "tirstep_tma_stages": 3}):
                        for ax0_ax1_fused_0 in range(4):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("A_shared.dyn"):
                                            v0 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                            v1 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                            T.reads(A[v0, v1])
                                            T.writes(A_shared_dyn[v1 // 64, v0, 0:8, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [128, 1, 64, 64]})
                                            A_shared_dyn[v1 // 64, v0, (v1 % 64 // 8 ^ v0 % 8) % 8, v1 % 8] = A[v0, v1]
                        for ax0_ax1_fused_0 in range(2):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("B_shared.dyn"):
                                            v0 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                            v1 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                            T.reads(B[v0, v1])
                                            T.writes(B_shared_dyn[v1 // 32, v0, 0:4, v1 % 8])
                                            T.sblock_attr({"tirstep_tma_copy": [64, 1, 64, 32]})
                                            B_shared_dyn[v1 // 32, v0, (v1 % 32 // 8 ^ v0 % 8 // 2) % 4, v1 % 8] = B[v0, v1]
                        with T.sblock("C_update_o"):
                            vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2)
                            vj_o = T.axis.spatial(8, i_0_j_0_i_1_fused // 2)
                            vk_o = T.axis.reduce(3, k_0)
                            T.reads(C_shared_dyn_local[vi_o, vj_o, 0:128, 0:16], A_shared_dyn[vk_o, vi_o * 64:vi_o * 64 + 64, 0:8, 0:8], B_shared_dyn[vj_o, vk_o * 64:vk_o * 64 + 64, 0:4, 0:8])
                            T.writes(C_shared_dyn_local[vi_o, vj_o, 0:128, 0:16])
                            A_1 = T.match_buffer(A_shared_dyn[vk_o, vi_o * 64:vi_o * 64 + 64, 0:8, 0:8], (1, 64, 8, 8), "float16", strides=("s", 64, 8, 1), scope="shared.dyn", offset_factor=1)
                            B_1 = T.match_buffer(B_shared_dyn[vj_o, vk_o * 64:vk_o * 64 + 64, 0:4, 0:8], (1, 64, 4, 8), "float16", strides=("t", 32, 8, 1), scope="shared.dyn", offset_factor=1)
                            C_1 = T.match_buffer(C_shared_dyn_local[vi_o, vj_o, 0:128, 0:16], (1, 1, 128, 16), scope="local", offset_factor=1)
                            for _ in T.thread_binding(128, thread="threadIdx.x"):
                                with T.sblock("group"):
                                    T.reads(C_1[0, 0, 0:128, 0:16], A_1[0, 0:64, 0:8, 0:8], B_1[0, 0:64, 0:4, 0:8])
                                    T.writes(C_1[0, 0, 0:128, 0:16])
                                    d = T.sblock_alloc_buffer((2,), "uint64", scope="local")
                                    T.ptx.fence("proxy", "async", "shared::cta", "")
                                    T.tvm_storage_sync("shared.dyn", T.bool(False), -1)
                                    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), T.tvm_access_ptr(T.type_annotation("float16"), A_1.data, A_1.elem_offset, A_1.strides[0], 1), 1, 64, 3)
                                    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[1]), T.tvm_access_ptr(T.type_annotation("float16"), B_1.data, B_1.elem_offset, B_1.strides[0], 1), B_1.strides[0] * 2 // 16, 32, 2)
                                    T.ptx.wgmma("fence", "sync", "aligned", "")
                                    for step in T.unroll(4):
                                        for i in T.unroll(1):
                                            for j in T.unroll(1):
                                                T.ptx.wgmma(C_1[i, j, 0, 0], C_1[i, j, 0, 1], C_1[i, j, 0, 2], C_1[i, j, 0, 3], C_1[i, j, 0, 4], C_1[i, j, 0, 5], C_1[i, j, 0, 6], C_1[i, j, 0, 7], C_1[i, j, 0, 8], C_1[i, j, 0, 9], C_1[i, j, 0, 10], C_1[i, j, 0, 11], C_1[i, j, 0, 12], C_1[i, j, 0, 13], C_1[i, j, 0, 14], C_1[i, j, 0, 15], d[0] + T.Cast("uint64", step // 4 * (A_1.strides[0] * 2 // 16) + step % 4 * 2 + i * 512), d[1] + T.Cast("uint64", step * 16 * 4 + j * (B_1.strides[0] * 2 // 16)), T.bool(True), 1, 1, 0, 1, "mma_async", "sync", "aligned", "m64n32k16", "f32", "f16", "f16", "p18")
                                    T.ptx.wgmma("commit_group", "sync", "aligned", "")
                                    T.ptx.wgmma(1, "wait_group", "sync", "aligned", "")
                    with T.sblock("C_shared.dyn_local_o"):
                        v0_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2)
                        v1_o = T.axis.spatial(8, i_0_j_0_i_1_fused // 2)
                        T.reads(C_shared_dyn_local[v0_o, v1_o, 0:128, 0:16])
                        T.writes(C_shared_dyn[v1_o, v0_o * 64:v0_o * 64 + 64, 0:8, 0:4])
                        C_1 = T.match_buffer(C_shared_dyn_local[v0_o, v1_o, 0:128, 0:16], (1, 1, 128, 16), scope="local", offset_factor=1)
                        for tx in T.thread_binding(128, thread="threadIdx.x"):
                            T.ptx.wgmma(0, "wait_group", "sync", "aligned", "")
                            for i in T.unroll(1):
                                for j in T.unroll(1):
                                    for part in T.unroll(8):
                                        for of_pair in T.vectorized(2):
                                            C_shared_dyn[v1_o, v0_o * 64 + tx // 32 * 16 + part % 2 * 8 + tx % 32 // 4, (part // 2 * 2 + tx % 4 // 2 ^ tx % 32 // 4) % 8, tx % 2 * 2 + of_pair] = C_1[0, 0, 0, part * 2 + of_pair]
                for ax0_ax1_fused_0 in range(4):
                    for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(4):
                                with T.sblock("C_shared.dyn"):
                                    v0 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 32)
                                    v1 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 32)
                                    T.reads(C_shared_dyn[v1 // 32, v0, 0:8, v1 % 4])
                                    T.writes(C[v0, v1])
                                    T.sblock_attr({"tirstep_tma_store": [128, 1, 64, 32]})
                                    C[v0, v1] = C_shared_dyn[v1 // 32, v0, (v1 % 32 // 4 ^ v0 % 8) % 8, v1 % 4]
