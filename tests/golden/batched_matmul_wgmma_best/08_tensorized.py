# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 64, 192), "bfloat16"), B: T.Buffer((2, 192, 128), "bfloat16"), C: T.Buffer((2, 64, 128), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.use_async_copy": True, "tir_pipeline": "tirstep"})
            C_acc_shared_dyn = T.sblock_alloc_buffer((2, 64, 128), scope="shared.dyn")
            C_acc_shared_dyn_local = T.sblock_alloc_buffer((2, 1, 2, 128, 32), scope="local")
            A_shared_dyn = T.sblock_alloc_buffer((2, 3, 64, 8, 8), "bfloat16", scope="shared.dyn")
            B_shared_dyn = T.sblock_alloc_buffer((2, 2, 192, 8, 8), "bfloat16", scope="shared.dyn")
            for b_fused in T.thread_binding(2, thread="blockIdx.z"):
                for i_0_j_0_i_1_fused in T.thread_binding(2, thread="blockIdx.x"):
                    for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                        with T.sblock("C_init_o"):
                            vb_o = T.axis.spatial(2, b_fused)
                            vi_o = T.axis.spatial(1, 0)
                            vj_o = T.axis.spatial(2, i_0_j_0_i_1_fused)
                            T.reads()
                            T.writes(C_acc_shared_dyn_local[vb_o, 0, vj_o, 0:128, 0:32])
                            C_1 = T.match_buffer(C_acc_shared_dyn_local[vb_o, 0, vj_o, 0:128, 0:32], (1, 1, 128, 32), scope="local", offset_factor=1)
                            for _ in T.thread_binding(128, thread="threadIdx.x"):
                                for i, j, element in T.grid(1, 1, 32):
                                    C_1[i, j, 0, element] = T.float32(0.0)
                        for k_0 in T.serial(3, annotations={"software_pipeline_async_stages": [0], "software_pipeline_order": [1, 2, 0], "software_pipeline_stage": [0, 0, 2]}):
                            for ax0_ax1_ax2_fused_0 in range(4):
                                for ax0_ax1_ax2_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                    for ax0_ax1_ax2_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                        for ax0_ax1_ax2_fused_3 in T.vectorized(8):
                                            with T.sblock("A_shared.dyn"):
                                                v0 = T.axis.spatial(2, b_fused)
                                                v1 = T.axis.spatial(64, (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) // 64)
                                                v2 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) % 64)
                                                T.reads(A[v0, v1, v2])
                                                T.writes(A_shared_dyn[v0, v2 // 64, v1, 0:8, v2 % 8])
                                                A_shared_dyn[v0, v2 // 64, v1, (v2 % 64 // 8 ^ v1 % 8) % 8, v2 % 8] = A[v0, v1, v2]
                            for ax0_ax1_ax2_fused_0 in range(4):
                                for ax0_ax1_ax2_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                    for ax0_ax1_ax2_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                        for ax0_ax1_ax2_fused_3 in T.vectorized(8):
                                            with T.sblock("B_shared.dyn"):
                                                v0 = T.axis.spatial(2, b_fused)
                                                v1 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) // 64)
                                                v2 = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) % 64)
                                                T.reads(B[v0, v1, v2])
                                                T.writes(B_shared_dyn[v0, v2 // 64, v1, 0:8, v2 % 8])
                                                B_shared_dyn[v0, v2 // 64, v1, (v2 % 64 // 8 ^ v1 % 8) % 8, v2 % 8] = B[v0, v1, v2]
                            with T.sblock("C_update_o"):
                                vb_o = T.axis.spatial(2, b_fused)
                                vi_o = T.axis.spatial(1, 0)
                                vj_o, vk_o = T.axis.remap("SR", [i_0_j_0_i_1_fused, k_0])
                                T.reads(C_acc_shared_dyn_local[vb_o, 0, vj_o, 0:128, 0:32], A_shared_dyn[vb_o, vk_o, 0:64, 0:8, 0:8], B_shared_dyn[vb_o, vj_o, vk_o * 64:vk_o * 64 + 64, 0:8, 0:8])
                                T.writes(C_acc_shared_dyn_local[vb_o, 0, vj_o, 0:128, 0:32])
                                A_1 = T.match_buffer(A_shared_dyn[vb_o, vk_o, 0:64, 0:8, 0:8], (1, 64, 8, 8), "bfloat16", strides=("s", 64, 8, 1), scope="shared.dyn", offset_factor=1)
                                B_1 = T.match_buffer(B_shared_dyn[vb_o, vj_o, vk_o * 64:vk_o * 64 + 64, 0:8, 0:8], (1, 64, 8, 8), "bfloat16", strides=("t", 64, 8, 1), scope="shared.dyn", offset_factor=1)
                                C_1 = T.match_buffer(C_acc_shared_dyn_local[vb_o, 0, vj_o, 0:128, 0:32], (1, 1, 128, 32), scope="local", offset_factor=1)
                                for _ in T.thread_binding(128, thread="threadIdx.x"):
                                    with T.sblock("group"):
                                        T.reads(C_1[0, 0, 0:128, 0:32], A_1[0, 0:64, 0:8, 0:8], B_1[0, 0:64, 0:8, 0:8])
                                        T.writes(C_1[0, 0, 0:128, 0:32])
                                        d = T.sblock_alloc_buffer((2,), "uint64", scope="local")
                                        T.ptx.fence("proxy", "async", "shared::cta", "")
                                        T.tvm_storage_sync("shared.dyn", T.bool(False), -1)
                                        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), T.tvm_access_ptr(T.type_annotation("bfloat16"), A_1.data, A_1.elem_offset, A_1.strides[0], 1), 1, 64, 3)
                                        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[1]), T.tvm_access_ptr(T.type_annotation("bfloat16"), B_1.data, B_1.elem_offset, B_1.strides[0], 1), B_1.strides[0] * 2 // 16, 64, 3)
                                        T.ptx.wgmma("fence", "sync", "aligned", "")
                                        for step in T.unroll(4):
                                            for i in T.unroll(1):
                                                for j in T.unroll(1):
                                                    T.ptx.wgmma(C_1[i, j, 0, 0], C_1[i, j, 0, 1], C_1[i, j, 0, 2], C_1[i, j, 0, 3], C_1[i, j, 0, 4], C_1[i, j, 0, 5], C_1[i, j, 0, 6], C_1[i, j, 0, 7], C_1[i, j, 0, 8], C_1[i, j, 0, 9], C_1[i, j, 0, 10], C_1[i, j, 0, 11], C_1[i, j, 0, 12], C_1[i, j, 0, 13], C_1[i, j, 0, 14], C_1[i, j, 0, 15], C_1[i, j, 0, 16], C_1[i, j, 0, 17], C_1[i, j, 0, 18], C_1[i, j, 0, 19], C_1[i, j, 0, 20], C_1[i, j, 0, 21], C_1[i, j, 0, 22], C_1[i, j, 0, 23], C_1[i, j, 0, 24], C_1[i, j, 0, 25], C_1[i, j, 0, 26], C_1[i, j, 0, 27], C_1[i, j, 0, 28], C_1[i, j, 0, 29], C_1[i, j, 0, 30], C_1[i, j, 0, 31], d[0] + T.Cast("uint64", step // 4 * (A_1.strides[0] * 2 // 16) + step % 4 * 2 + i * 512), d[1] + T.Cast("uint64", step * 16 * 8 + j * (B_1.strides[0] * 2 // 16)), T.bool(True), 1, 1, 0, 1, "mma_async", "sync", "aligned", "m64n64k16", "f32", "bf16", "bf16", "p34")
                                        T.ptx.wgmma("commit_group", "sync", "aligned", "")
                                        T.ptx.wgmma(1, "wait_group", "sync", "aligned", "")
                        for ax0 in range(1):
                            for ax1_0 in T.unroll(1):
                                for ax2_0 in T.unroll(1):
                                    with T.sblock("C_acc_shared.dyn_local_o"):
                                        v0_o = T.axis.spatial(2, b_fused + ax0)
                                        v1_o = T.axis.spatial(1, ax1_0)
                                        v2_o = T.axis.spatial(2, i_0_j_0_i_1_fused + ax2_0)
                                        T.reads(C_acc_shared_dyn_local[v0_o, 0, v2_o, 0:128, 0:32])
                                        T.writes(C_acc_shared_dyn[v0_o, 0:64, v2_o * 64:v2_o * 64 + 64])
                                        T.sblock_attr({"buffer_dim_align": [[0, 1, 64, 8]]})
                                        C_1 = T.match_buffer(C_acc_shared_dyn_local[v0_o, 0, v2_o, 0:128, 0:32], (128, 32), scope="local", offset_factor=1)
                                        D = T.match_buffer(C_acc_shared_dyn[v0_o, 0:64, v2_o * 64:v2_o * 64 + 64], (64, 64), strides=("s0", "s1"), scope="shared.dyn", offset_factor=1)
                                        for tx in T.thread_binding(128, thread="threadIdx.x"):
                                            T.ptx.wgmma(0, "wait_group", "sync", "aligned", "")
                                            for pair in T.unroll(16):
                                                for of_pair in T.vectorized(2):
                                                    D[tx // 32 * 16 + tx % 32 // 4 + (pair * 2 + of_pair) % 4 // 2 * 8, (pair * 2 + of_pair) // 4 * 8 + tx % 4 * 2 + (pair * 2 + of_pair) % 2] = C_1[0, pair * 2 + of_pair]
                    for ax0, ax1_ax2_fused_0 in T.grid(1, 8):
                        for ax1_ax2_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                            for ax1_ax2_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                for ax1_ax2_fused_3 in T.vectorized(4):
                                    with T.sblock("C_cast"):
                                        vb = T.axis.spatial(2, b_fused + ax0)
                                        vi = T.axis.spatial(64, (ax1_ax2_fused_0 * 512 + ax1_ax2_fused_1 * 512 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) // 64)
                                        vj = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + (ax1_ax2_fused_0 * 512 + ax1_ax2_fused_1 * 512 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) % 64)
                                        T.reads(C_acc_shared_dyn[vb, vi, vj])
                                        T.writes(C[vb, vi, vj])
                                        C[vb, vi, vj] = T.Cast("bfloat16", C_acc_shared_dyn[vb, vi, vj])
