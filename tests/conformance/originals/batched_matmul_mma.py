# batched_matmul(batch=2, m=32, n=64, k=96, dtype="bfloat16", out="bfloat16")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((2, 32, 96), "bfloat16"), B: T.Buffer((2, 96, 64), "bfloat16"), C: T.Buffer((2, 32, 64), "bfloat16")):
    T.func_attr({"tirx.noalias": True})
    with T.sblock("root"):
        T.sblock_attr({"tir_pipeline": "tirstep"})
        C_acc_shared_dyn = T.sblock_alloc_buffer((2, 32, 64), scope="shared.dyn")
        C_acc_shared_dyn_local = T.sblock_alloc_buffer((2, 2, 4, 32, 8), scope="local")
        A_shared_dyn = T.sblock_alloc_buffer((2, 32, 96), "bfloat16", scope="shared.dyn")
        B_shared_dyn = T.sblock_alloc_buffer((2, 96, 64), "bfloat16", scope="shared.dyn")
        A_shared_dyn_local = T.sblock_alloc_buffer((2, 2, 6, 32, 8), "bfloat16", scope="local")
        B_shared_dyn_local = T.sblock_alloc_buffer((2, 6, 4, 32, 8), "bfloat16", scope="local")
        for b_fused in T.thread_binding(2, thread="blockIdx.z"):
            for i_0_j_0_i_1_fused in T.thread_binding(4, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                    for i_3_init in T.unroll(1):
                        for j_2_init in T.unroll(1):
                            with T.sblock("C_o_init"):
                                vb_o = T.axis.spatial(2, b_fused)
                                vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + i_3_init)
                                vj_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + j_2_init)
                                T.writes(C_acc_shared_dyn_local[vb_o, vi_o, vj_o, 0:32, 0:8])
                                C_1 = T.match_buffer(C_acc_shared_dyn_local[vb_o, vi_o, vj_o, 0:32, 0:8], (32, 8), scope="local", offset_factor=8)
                                for _ in T.thread_binding(32, thread="threadIdx.x"):
                                    for element in T.unroll(8):
                                        C_1[0, element] = T.float32(0.0)
                    for k_0 in range(3):
                        for ax0_ax1_ax2_fused_0 in range(1):
                            for ax0_ax1_ax2_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                for ax0_ax1_ax2_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_ax2_fused_3 in T.vectorized(8):
                                        with T.sblock("A_shared.dyn"):
                                            v0 = T.axis.spatial(2, b_fused)
                                            v1 = T.axis.spatial(32, i_0_j_0_i_1_fused % 2 * 16 + (ax0_ax1_ax2_fused_0 * 512 + ax0_ax1_ax2_fused_1 * 256 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) // 32)
                                            v2 = T.axis.spatial(96, k_0 * 32 + (ax0_ax1_ax2_fused_0 * 512 + ax0_ax1_ax2_fused_1 * 256 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) % 32)
                                            T.sblock_attr({"permuted_layout": 1})
                                            A_shared_dyn[v0, v1, v2] = A[v0, v1, v2]
                        for ax0_ax1_ax2_fused_0 in range(2):
                            for ax0_ax1_ax2_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                for ax0_ax1_ax2_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_ax2_fused_3 in T.vectorized(8):
                                        with T.sblock("B_shared.dyn"):
                                            v0 = T.axis.spatial(2, b_fused)
                                            v1 = T.axis.spatial(96, k_0 * 32 + (ax0_ax1_ax2_fused_0 * 512 + ax0_ax1_ax2_fused_1 * 256 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) // 32)
                                            v2 = T.axis.spatial(64, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_ax2_fused_0 * 512 + ax0_ax1_ax2_fused_1 * 256 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) % 32)
                                            T.sblock_attr({"permuted_layout": 1})
                                            B_shared_dyn[v0, v1, v2] = B[v0, v1, v2]
                        for k_1 in T.serial(2, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                            for ax0 in range(1):
                                for ax1_0 in T.unroll(1):
                                    for ax2_0 in T.unroll(1):
                                        with T.sblock("A_shared.dyn_local_o"):
                                            v0_o = T.axis.spatial(2, b_fused + ax0)
                                            v1_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + ax1_0)
                                            v2_o = T.axis.spatial(6, k_0 * 2 + k_1 + ax2_0)
                                            T.reads(A_shared_dyn[v0_o, v1_o * 16:v1_o * 16 + 16, v2_o * 16:v2_o * 16 + 16])
                                            T.writes(A_shared_dyn_local[v0_o, v1_o, v2_o, 0:32, 0:8])
                                            T.sblock_attr({"permuted_layout": 1})
                                            F = T.match_buffer(A_shared_dyn_local[v0_o, v1_o, v2_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                            S = T.match_buffer(A_shared_dyn[v0_o, v1_o * 16:v1_o * 16 + 16, v2_o * 16:v2_o * 16 + 16], (16, 16), "bfloat16", strides=("s0", "s1"), scope="shared.dyn", offset_factor=8)
                                            for tx in T.thread_binding(32, thread="threadIdx.x"):
                                                T.ptx_legacy.ldmatrix("bfloat16", T.bool(False), 4, ".b16", F.data, F.elem_offset, T.tvm_access_ptr(T.type_annotation("bfloat16"), S.data, S.elem_offset, S.strides[0] * 16, 1), S.strides[0] * (tx % 8 + 8 * (tx // 8 % 2)) + 8 * (tx // 8 // 2))
                            for ax0 in range(1):
                                for ax1_0 in T.unroll(1):
                                    for ax2_0 in T.unroll(1):
                                        with T.sblock("B_shared.dyn_local_o"):
                                            v0_o = T.axis.spatial(2, b_fused + ax0)
                                            v1_o = T.axis.spatial(6, k_0 * 2 + k_1 + ax1_0)
                                            v2_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + ax2_0)
                                            T.reads(B_shared_dyn[v0_o, v1_o * 16:v1_o * 16 + 16, v2_o * 16:v2_o * 16 + 16])
                                            T.writes(B_shared_dyn_local[v0_o, v1_o, v2_o, 0:32, 0:8])
                                            T.sblock_attr({"permuted_layout": 1})
                                            F = T.match_buffer(B_shared_dyn_local[v0_o, v1_o, v2_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                            S = T.match_buffer(B_shared_dyn[v0_o, v1_o * 16:v1_o * 16 + 16, v2_o * 16:v2_o * 16 + 16], (16, 16), "bfloat16", strides=("s0", "s1"), scope="shared.dyn", offset_factor=8)
                                            for tx in T.thread_binding(32, thread="threadIdx.x"):
                                                T.ptx_legacy.ldmatrix("bfloat16", T.bool(True), 4, ".b16", F.data, F.elem_offset, T.tvm_access_ptr(T.type_annotation("bfloat16"), S.data, S.elem_offset, S.strides[0] * 16, 1), S.strides[0] * (tx % 8 + 8 * (tx // 8 % 2)) + 8 * (tx // 8 // 2))
                            for i_3 in T.unroll(1):
                                for j_2 in T.unroll(1):
                                    with T.sblock("C_o_update"):
                                        vb_o = T.axis.spatial(2, b_fused)
                                        vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + i_3)
                                        vj_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + j_2)
                                        vk_o = T.axis.reduce(6, k_0 * 2 + k_1)
                                        T.reads(C_acc_shared_dyn_local[vb_o, vi_o, vj_o, 0:32, 0:8], A_shared_dyn_local[vb_o, vi_o, vk_o, 0:32, 0:8], B_shared_dyn_local[vb_o, vk_o, vj_o, 0:32, 0:8])
                                        T.writes(C_acc_shared_dyn_local[vb_o, vi_o, vj_o, 0:32, 0:8])
                                        A_1 = T.match_buffer(A_shared_dyn_local[vb_o, vi_o, vk_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                        B_1 = T.match_buffer(B_shared_dyn_local[vb_o, vk_o, vj_o, 0:32, 0:8], (32, 8), "bfloat16", scope="local", offset_factor=8)
                                        C_1 = T.match_buffer(C_acc_shared_dyn_local[vb_o, vi_o, vj_o, 0:32, 0:8], (32, 8), scope="local", offset_factor=8)
                                        for _ in T.thread_binding(32, thread="threadIdx.x"):
                                            for half in T.unroll(2):
                                                T.ptx_legacy.mma("m16n8k16", "row", "col", "bf16", "bf16", "fp32", A_1.data, A_1.elem_offset, B_1.data, B_1.elem_offset + half * 4, C_1.data, C_1.elem_offset + half * 4, T.bool(False))
                    for ax0 in range(1):
                        for ax1_0 in T.unroll(1):
                            for ax2_0 in T.unroll(1):
                                with T.sblock("C_acc_shared.dyn_local_o"):
                                    v0_o = T.axis.spatial(2, b_fused + ax0)
                                    v1_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + ax1_0)
                                    v2_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + ax2_0)
                                    T.reads(C_acc_shared_dyn_local[v0_o, v1_o, v2_o, 0:32, 0:8])
                                    T.sblock_attr({"buffer_dim_align": [[0, 1, 32, 8]]})
                                    C_1 = T.match_buffer(C_acc_shared_dyn_local[v0_o, v1_o, v2_o, 0:32, 0:8], (32, 8), scope="local", offset_factor=8)
                                    D = T.match_buffer(C_acc_shared_dyn[v0_o, v1_o * 16:v1_o * 16 + 16, v2_o * 16:v2_o * 16 + 16], (16, 16), strides=("s0", "s1"), scope="shared.dyn", offset_factor=1)
                                    for tx in T.thread_binding(32, thread="threadIdx.x"):
                                        for pair in T.unroll(4):
                                            for of_pair in T.vectorized(2):
                                                D[tx // 4 + 8 * ((pair * 2 + of_pair) // 2 % 2), tx % 4 * 2 + 8 * ((pair * 2 + of_pair) // 4) + (pair * 2 + of_pair) % 2] = C_1[0, pair * 2 + of_pair]
                for ax0, ax1_ax2_fused_0 in T.grid(1, 2):
                    for ax1_ax2_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                        for ax1_ax2_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                            for ax1_ax2_fused_3 in T.vectorized(4):
                                with T.sblock("C_cast"):
                                    vb = T.axis.spatial(2, b_fused + ax0)
                                    vi = T.axis.spatial(32, i_0_j_0_i_1_fused % 2 * 16 + (ax1_ax2_fused_0 * 256 + ax1_ax2_fused_1 * 128 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) // 32)
                                    vj = T.axis.spatial(64, i_0_j_0_i_1_fused // 2 * 32 + (ax1_ax2_fused_0 * 256 + ax1_ax2_fused_1 * 128 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) % 32)
                                    C[vb, vi, vj] = T.Cast("bfloat16", C_acc_shared_dyn[vb, vi, vj])
