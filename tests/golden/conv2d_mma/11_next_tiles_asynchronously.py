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
            Y_acc_reindex_shared_dyn = T.sblock_alloc_buffer((144, 32), scope="shared.dyn")
            Y_acc_reindex_shared_dyn_local = T.sblock_alloc_buffer((9, 2, 32, 8), scope="local")
            padded_reindex_pad_shared_dyn = T.sblock_alloc_buffer((144, 64), "bfloat16", scope="shared.dyn")
            F_reindex_pad_shared_dyn = T.sblock_alloc_buffer((32, 64), "bfloat16", scope="shared.dyn")
            padded_reindex_pad_shared_dyn_local = T.sblock_alloc_buffer((9, 4, 32, 8), "bfloat16", scope="local")
            F_reindex_pad_shared_dyn_local = T.sblock_alloc_buffer((2, 4, 32, 8), "bfloat16", scope="local")
            for ax0_0_ax1_0_ax0_1_fused in T.thread_binding(9, thread="blockIdx.x"):
                for ax0_2_ax1_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                    for ax0_3_init in T.unroll(1):
                        for ax1_2_init in T.unroll(1):
                            with T.sblock("Y_o_init"):
                                v0_o = T.axis.spatial(9, ax0_0_ax1_0_ax0_1_fused + ax0_3_init)
                                v1_o = T.axis.spatial(2, ax0_2_ax1_1_fused + ax1_2_init)
                                T.reads()
                                T.writes(Y_acc_reindex_shared_dyn_local[v0_o, v1_o, 0:32, 0:8])
                                C = T.match_buffer(Y_acc_reindex_shared_dyn_local[v0_o, v1_o, 0:32, 0:8], (32, 8), scope="local", offset_factor=8)
                                for _ in T.thread_binding(32, thread="threadIdx.x"):
                                    for element in T.unroll(8):
                                        C[0, element] = T.float32(0.0)
                    for ax2_0 in T.serial(2, annotations={"software_pipeline_async_stages": [0], "software_pipeline_order": [0, 1, 2, 3, 4], "software_pipeline_stage": [0, 0, 1, 1, 1]}):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("padded_reindex_pad_shared.dyn"):
                                            v0 = T.axis.spatial(144, ax0_0_ax1_0_ax0_1_fused * 16 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                            v1 = T.axis.spatial(64, ax2_0 * 32 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                            T.reads(X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8])
                                            T.writes(padded_reindex_pad_shared_dyn[v0, v1])
                                            T.sblock_attr({"double_buffer_scope": 0, "permuted_layout": 1})
                                            padded_reindex_pad_shared_dyn[v0, v1] = T.if_then_else(v1 < 48, T.if_then_else(v0 % 36 // 6 + v1 // 16 >= 1 and v0 % 36 // 6 + v1 // 16 < 7 and v0 % 6 + v1 % 16 // 8 >= 1 and v0 % 6 + v1 % 16 // 8 < 6, X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8], T.bfloat16(0.0)), T.bfloat16(0.0))
                        for ax0_ax1_fused_0 in range(2):
                            for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("F_reindex_pad_shared.dyn"):
                                            v0 = T.axis.spatial(32, (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                            v1 = T.axis.spatial(64, ax2_0 * 32 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                            T.reads(F[v0, v1 // 16, v1 % 16 // 8, v1 % 8])
                                            T.writes(F_reindex_pad_shared_dyn[v0, v1])
                                            T.sblock_attr({"double_buffer_scope": 0, "permuted_layout": 1})
                                            F_reindex_pad_shared_dyn[v0, v1] = T.if_then_else(v1 < 48, F[v0, v1 // 16, v1 % 16 // 8, v1 % 8], T.bfloat16(0.0))
                        for ax2_1 in T.serial(2, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0, "software_pipeline_order": [0, 1, 2], "software_pipeline_stage": [0, 0, 1]}):
                            for ax0_0 in T.unroll(1):
                                for ax1_0 in T.unroll(1):
                                    with T.sblock("padded_reindex_pad_shared.dyn_local_o"):
                                        v0_o = T.axis.spatial(9, ax0_0_ax1_0_ax0_1_fused + ax0_0)
                                        v1_o = T.axis.spatial(4, ax2_0 * 2 + ax2_1 + ax1_0)
                                        T.reads(padded_reindex_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, v1_o * 16:v1_o * 16 + 16])
                                        T.writes(padded_reindex_pad_shared_dyn_local[v0_o, v1_o, 0:32, 0:8])
                                        T.sblock_attr({"permuted_layout": 1})
                                        F_1 = T.match_buffer(padded_reindex_pad_shared_dyn_local[v0_o, v1_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                        S = T.match_buffer(padded_reindex_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, v1_o * 16:v1_o * 16 + 16], (16, 16), "bfloat16", strides=("s0", "s1"), scope="shared.dyn", offset_factor=8)
                                        for tx in T.thread_binding(32, thread="threadIdx.x"):
                                            T.ptx_legacy.ldmatrix("bfloat16", T.bool(False), 4, ".b16", F_1.data, F_1.elem_offset, T.tvm_access_ptr(T.type_annotation("bfloat16"), S.data, S.elem_offset, S.strides[0] * 16, 1), S.strides[0] * (tx % 8 + 8 * (tx // 8 % 2)) + 8 * (tx // 8 // 2))
                            for ax0_0 in T.unroll(1):
                                for ax1_0 in T.unroll(1):
                                    with T.sblock("F_reindex_pad_shared.dyn_local_o"):
                                        v0_o = T.axis.spatial(2, ax0_2_ax1_1_fused + ax0_0)
                                        v1_o = T.axis.spatial(4, ax2_0 * 2 + ax2_1 + ax1_0)
                                        T.reads(F_reindex_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, v1_o * 16:v1_o * 16 + 16])
                                        T.writes(F_reindex_pad_shared_dyn_local[v0_o, v1_o, 0:32, 0:8])
                                        T.sblock_attr({"permuted_layout": 1})
                                        F_1 = T.match_buffer(F_reindex_pad_shared_dyn_local[v0_o, v1_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                        S = T.match_buffer(F_reindex_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, v1_o * 16:v1_o * 16 + 16], (16, 16), "bfloat16", strides=("s0", "s1"), scope="shared.dyn", offset_factor=8)
                                        for tx in T.thread_binding(32, thread="threadIdx.x"):
                                            T.ptx_legacy.ldmatrix("bfloat16", T.bool(False), 4, ".b16", F_1.data, F_1.elem_offset, T.tvm_access_ptr(T.type_annotation("bfloat16"), S.data, S.elem_offset, S.strides[0] * 16, 1), S.strides[0] * (tx % 8 + 8 * (tx // 8 // 2)) + 8 * (tx // 8 % 2))
                            for ax0_3 in T.unroll(1):
                                for ax1_2 in T.unroll(1):
                                    with T.sblock("Y_o_update"):
                                        v0_o = T.axis.spatial(9, ax0_0_ax1_0_ax0_1_fused + ax0_3)
                                        v1_o = T.axis.spatial(2, ax0_2_ax1_1_fused + ax1_2)
                                        v2_o = T.axis.reduce(4, ax2_0 * 2 + ax2_1)
                                        T.reads(Y_acc_reindex_shared_dyn_local[v0_o, v1_o, 0:32, 0:8], padded_reindex_pad_shared_dyn_local[v0_o, v2_o, 0:32, 0:8], F_reindex_pad_shared_dyn_local[v1_o, v2_o, 0:32, 0:8])
                                        T.writes(Y_acc_reindex_shared_dyn_local[v0_o, v1_o, 0:32, 0:8])
                                        A = T.match_buffer(padded_reindex_pad_shared_dyn_local[v0_o, v2_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                        B = T.match_buffer(F_reindex_pad_shared_dyn_local[v1_o, v2_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                        C = T.match_buffer(Y_acc_reindex_shared_dyn_local[v0_o, v1_o, 0:32, 0:8], (32, 8), scope="local", offset_factor=8)
                                        for _ in T.thread_binding(32, thread="threadIdx.x"):
                                            for half in T.unroll(2):
                                                T.ptx_legacy.mma("m16n8k16", "row", "col", "bf16", "bf16", "fp32", A.data, A.elem_offset, B.data, B.elem_offset + half * 4, C.data, C.elem_offset + half * 4, T.bool(False))
                    for ax0_0 in T.unroll(1):
                        for ax1_0 in T.unroll(1):
                            with T.sblock("Y_acc_reindex_shared.dyn_local_o"):
                                v0_o = T.axis.spatial(9, ax0_0_ax1_0_ax0_1_fused + ax0_0)
                                v1_o = T.axis.spatial(2, ax0_2_ax1_1_fused + ax1_0)
                                T.reads(Y_acc_reindex_shared_dyn_local[v0_o, v1_o, 0:32, 0:8])
                                T.writes(Y_acc_reindex_shared_dyn[v0_o * 16:v0_o * 16 + 16, v1_o * 16:v1_o * 16 + 16])
                                T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                                C = T.match_buffer(Y_acc_reindex_shared_dyn_local[v0_o, v1_o, 0:32, 0:8], (32, 8), scope="local", offset_factor=8)
                                D = T.match_buffer(Y_acc_reindex_shared_dyn[v0_o * 16:v0_o * 16 + 16, v1_o * 16:v1_o * 16 + 16], (16, 16), strides=("s0", "s1"), scope="shared.dyn", offset_factor=1)
                                for tx in T.thread_binding(32, thread="threadIdx.x"):
                                    for pair in T.unroll(4):
                                        for of_pair in T.vectorized(2):
                                            D[tx // 4 + 8 * ((pair * 2 + of_pair) // 2 % 2), tx % 4 * 2 + 8 * ((pair * 2 + of_pair) // 4) + (pair * 2 + of_pair) % 2] = C[0, pair * 2 + of_pair]
                for ax0_ax1_fused_0 in range(2):
                    for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(4):
                                with T.sblock("Y_cast"):
                                    v0 = T.axis.spatial(144, ax0_0_ax1_0_ax0_1_fused * 16 + (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 32)
                                    v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 32)
                                    T.reads(Y_acc_reindex_shared_dyn[v0, v1])
                                    T.writes(Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1])
                                    Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1] = T.Cast("bfloat16", Y_acc_reindex_shared_dyn[v0, v1])
