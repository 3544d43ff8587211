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
            T.sblock_attr({"pass_config.tirx.use_async_copy": True, "tir_pipeline": "tirstep"})
            Y_acc_reindex_pad_shared_dyn = T.sblock_alloc_buffer((192, 64), scope="shared.dyn")
            Y_acc_reindex_pad_shared_dyn_local = T.sblock_alloc_buffer((3, 1, 128, 32), scope="local")
            padded_reindex_pad_shared_dyn = T.sblock_alloc_buffer((3, 192, 2, 8), "bfloat16", scope="shared.dyn")
            F_reindex_pad_shared_dyn = T.sblock_alloc_buffer((3, 64, 2, 8), "bfloat16", scope="shared.dyn")
            for ax0_0_ax1_0_ax0_1_fused in T.thread_binding(3, thread="blockIdx.x"):
                for ax0_2_ax1_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                    with T.sblock("Y_init_o"):
                        v0_o = T.axis.spatial(3, ax0_0_ax1_0_ax0_1_fused)
                        v1_o = T.axis.spatial(1, 0)
                        T.reads()
                        T.writes(Y_acc_reindex_pad_shared_dyn_local[v0_o, 0, 0:128, 0:32])
                        C = T.match_buffer(Y_acc_reindex_pad_shared_dyn_local[v0_o, 0, 0:128, 0:32], (1, 1, 128, 32), scope="local", offset_factor=1)
                        for _ in T.thread_binding(128, thread="threadIdx.x"):
                            for i, j, element in T.grid(1, 1, 32):
                                C[i, j, 0, element] = T.float32(0.0)
                    for ax2_0 in T.serial(3, annotations={"software_pipeline_async_stages": [0], "software_pipeline_order": [1, 2, 0], "software_pipeline_stage": [0, 0, 2]}):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("padded_reindex_pad_shared.dyn"):
                                            v0 = T.axis.spatial(192, ax0_0_ax1_0_ax0_1_fused * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 16)
                                            v1 = T.axis.spatial(48, ax2_0 * 16 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 16)
                                            T.reads(X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8])
                                            T.writes(padded_reindex_pad_shared_dyn[v1 // 16, v0, 0:2, v1 % 8])
                                            padded_reindex_pad_shared_dyn[v1 // 16, v0, (v1 % 16 // 8 ^ v0 % 8 // 4) % 2, v1 % 8] = T.if_then_else(v0 < 144, T.if_then_else(v0 % 36 // 6 + v1 // 16 >= 1 and v0 % 36 // 6 + v1 // 16 < 7 and v0 % 6 + v1 % 16 // 8 >= 1 and v0 % 6 + v1 % 16 // 8 < 6, X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8], T.bfloat16(0.0)), T.bfloat16(0.0))
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("F_reindex_pad_shared.dyn"):
                                            v0 = T.axis.spatial(64, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 16)
                                            v1 = T.axis.spatial(48, ax2_0 * 16 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 16)
                                            T.reads(F[v0, v1 // 16, v1 % 16 // 8, v1 % 8])
                                            T.writes(F_reindex_pad_shared_dyn[v1 // 16, v0, 0:2, v1 % 8])
                                            F_reindex_pad_shared_dyn[v1 // 16, v0, (v1 % 16 // 8 ^ v0 % 8 // 4) % 2, v1 % 8] = T.if_then_else(v0 < 32, F[v0, v1 // 16, v1 % 16 // 8, v1 % 8], T.bfloat16(0.0))
                        with T.sblock("Y_update_o"):
                            v0_o = T.axis.spatial(3, ax0_0_ax1_0_ax0_1_fused)
                            v1_o = T.axis.spatial(1, 0)
                            v2_o = T.axis.reduce(3, ax2_0)
                            T.reads(Y_acc_reindex_pad_shared_dyn_local[v0_o, 0, 0:128, 0:32], padded_reindex_pad_shared_dyn[v2_o, v0_o * 64:v0_o * 64 + 64, 0:2, 0:8], F_reindex_pad_shared_dyn[v2_o, 0:64, 0:2, 0:8])
                            T.writes(Y_acc_reindex_pad_shared_dyn_local[v0_o, 0, 0:128, 0:32])
                            A = T.match_buffer(padded_reindex_pad_shared_dyn[v2_o, v0_o * 64:v0_o * 64 + 64, 0:2, 0:8], (1, 64, 2, 8), "bfloat16", strides=("s", 16, 8, 1), scope="shared.dyn", offset_factor=1)
                            B = T.match_buffer(F_reindex_pad_shared_dyn[v2_o, 0:64, 0:2, 0:8], (1, 64, 2, 8), "bfloat16", strides=("t", 16, 8, 1), scope="shared.dyn", offset_factor=1)
                            C = T.match_buffer(Y_acc_reindex_pad_shared_dyn_local[v0_o, 0, 0:128, 0:32], (1, 1, 128, 32), scope="local", offset_factor=1)
                            for _ in T.thread_binding(128, thread="threadIdx.x"):
                                with T.sblock("group"):
                                    T.reads(C[0, 0, 0:128, 0:32], A[0, 0:64, 0:2, 0:8], B[0, 0:64, 0:2, 0:8])
                                    T.writes(C[0, 0, 0:128, 0:32])
                                    d = T.sblock_alloc_buffer((2,), "uint64", scope="local")
                                    T.ptx.fence("proxy", "async", "shared::cta", "")
                                    T.tvm_storage_sync("shared.dyn", T.bool(False), -1)
                                    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), T.tvm_access_ptr(T.type_annotation("bfloat16"), A.data, A.elem_offset, A.strides[0], 1), 1, 16, 1)
                                    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[1]), T.tvm_access_ptr(T.type_annotation("bfloat16"), B.data, B.elem_offset, B.strides[0], 1), 1, 16, 1)
                                    T.ptx.wgmma("fence", "sync", "aligned", "")
                                    for step in T.unroll(1):
                                        for i in T.unroll(1):
                                            for j in T.unroll(1):
                                                T.ptx.wgmma(C[i, j, 0, 0], C[i, j, 0, 1], C[i, j, 0, 2], C[i, j, 0, 3], C[i, j, 0, 4], C[i, j, 0, 5], C[i, j, 0, 6], C[i, j, 0, 7], C[i, j, 0, 8], C[i, j, 0, 9], C[i, j, 0, 10], C[i, j, 0, 11], C[i, j, 0, 12], C[i, j, 0, 13], C[i, j, 0, 14], C[i, j, 0, 15], C[i, j, 0, 16], C[i, j, 0, 17], C[i, j, 0, 18], C[i, j, 0, 19], C[i, j, 0, 20], C[i, j, 0, 21], C[i, j, 0, 22], C[i, j, 0, 23], C[i, j, 0, 24], C[i, j, 0, 25], C[i, j, 0, 26], C[i, j, 0, 27], C[i, j, 0, 28], C[i, j, 0, 29], C[i, j, 0, 30], C[i, j, 0, 31], d[0] + T.Cast("uint64", step * (A.strides[0] * 2 // 16) + i * 128), d[1] + T.Cast("uint64", step * (B.strides[0] * 2 // 16) + j * 128), T.bool(True), 1, 1, 0, 0, "mma_async", "sync", "aligned", "m64n64k16", "f32", "bf16", "bf16", "p34")
                                    T.ptx.wgmma("commit_group", "sync", "aligned", "")
                                    T.ptx.wgmma(1, "wait_group", "sync", "aligned", "")
                    for ax0_0 in T.unroll(1):
                        for ax1_0 in T.unroll(1):
                            with T.sblock("Y_acc_reindex_pad_shared.dyn_local_o"):
                                v0_o = T.axis.spatial(3, ax0_0_ax1_0_ax0_1_fused + ax0_0)
                                v1_o = T.axis.spatial(1, ax1_0)
                                T.reads(Y_acc_reindex_pad_shared_dyn_local[v0_o, 0, 0:128, 0:32])
                                T.writes(Y_acc_reindex_pad_shared_dyn[v0_o * 64:v0_o * 64 + 64, 0:64])
                                T.sblock_attr({"buffer_dim_align": [[0, 0, 64, 8]]})
                                C = T.match_buffer(Y_acc_reindex_pad_shared_dyn_local[v0_o, 0, 0:128, 0:32], (128, 32), scope="local", offset_factor=1)
                                D = T.match_buffer(Y_acc_reindex_pad_shared_dyn[v0_o * 64:v0_o * 64 + 64, 0:64], (64, 64), strides=("s0", "s1"), scope="shared.dyn", offset_factor=1)
                                for tx in T.thread_binding(128, thread="threadIdx.x"):
                                    T.ptx.wgmma(0, "wait_group", "sync", "aligned", "")
                                    for pair in T.unroll(16):
                                        for of_pair in T.vectorized(2):
                                            D[tx // 32 * 16 + tx % 32 // 4 + (pair * 2 + of_pair) % 4 // 2 * 8, (pair * 2 + of_pair) // 4 * 8 + tx % 4 * 2 + (pair * 2 + of_pair) % 2] = C[0, pair * 2 + of_pair]
                for ax0_ax1_fused_0 in range(4):
                    for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(4):
                                with T.sblock("Y_cast"):
                                    v0 = T.axis.spatial(144, ax0_0_ax1_0_ax0_1_fused * 64 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 32)
                                    v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 32)
                                    T.where(ax0_0_ax1_0_ax0_1_fused * 64 + (((ax0_ax1_fused_0 + ax0_ax1_fused_1) * 128 + ax0_ax1_fused_2) * 4 + ax0_ax1_fused_3) // 32 < 144)
                                    T.reads(Y_acc_reindex_pad_shared_dyn[v0, v1])
                                    T.writes(Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1])
                                    Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1] = T.Cast("bfloat16", Y_acc_reindex_pad_shared_dyn[v0, v1])
