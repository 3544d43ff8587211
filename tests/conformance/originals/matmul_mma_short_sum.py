# matmul(m=4, n=16, k=7, dtype="int8", acc="int32", out="int32", transpose_b=True)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4, 7), "int8"), B: T.Buffer((16, 7), "int8"), C: T.Buffer((4, 16), "int32")):
    T.func_attr({"tirx.noalias": True})
    with T.sblock("root"):
        T.sblock_attr({"tir_pipeline": "tirstep"})
        C_pad_shared_dyn = T.sblock_alloc_buffer((32, 16), "int32", scope="shared.dyn")
        C_pad_shared_dyn_local = T.sblock_alloc_buffer((2, 1, 32, 8), "int32", scope="local")
        A_pad_shared_dyn = T.sblock_alloc_buffer((32, 32), "int8", scope="shared.dyn")
        B_pad_shared_dyn = T.sblock_alloc_buffer((16, 32), "int8", scope="shared.dyn")
        A_pad_shared_dyn_local = T.sblock_alloc_buffer((2, 1, 32, 16), "int8", scope="local")
        B_pad_shared_dyn_local = T.sblock_alloc_buffer((1, 1, 32, 16), "int8", scope="local")
        for i_0_j_0_i_1_fused in T.thread_binding(1, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                for i_3_init in T.unroll(1):
                    for j_2_init in T.unroll(1):
                        with T.sblock("C_o_init"):
                            vi_o = T.axis.spatial(2, i_2_j_1_fused + i_3_init)
                            vj_o = T.axis.spatial(1, j_2_init)
                            T.writes(C_pad_shared_dyn_local[vi_o, 0, 0:32, 0:8])
                            C_1 = T.match_buffer(C_pad_shared_dyn_local[vi_o, 0, 0:32, 0:8], (32, 8), "int32", scope="local", offset_factor=8)
                            for _ in T.thread_binding(32, thread="threadIdx.x"):
                                for element in T.unroll(8):
                                    C_1[0, element] = 0
                for k_0 in range(1):
                    for ax0_ax1_fused_0 in range(16):
                        for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                            for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                with T.sblock("A_pad_shared.dyn"):
                                    v0 = T.axis.spatial(32, (ax0_ax1_fused_0 * 64 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) // 32)
                                    v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 64 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) % 32)
                                    T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 16]]})
                                    A_pad_shared_dyn[v0, v1] = T.if_then_else(v0 < 4 and v1 < 7, A[v0, v1], T.int8(0))
                    for ax0_ax1_fused_0 in range(8):
                        for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                            for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                with T.sblock("B_pad_shared.dyn"):
                                    v0 = T.axis.spatial(16, (ax0_ax1_fused_0 * 64 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) // 32)
                                    v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 64 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) % 32)
                                    T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 16]]})
                                    B_pad_shared_dyn[v0, v1] = T.if_then_else(v1 < 7, B[v0, v1], T.int8(0))
                    for k_1 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                        for ax0_0 in T.unroll(1):
                            for ax1_0 in T.unroll(1):
                                with T.sblock("A_pad_shared.dyn_local_o"):
                                    v0_o = T.axis.spatial(2, i_2_j_1_fused + ax0_0)
                                    v1_o = T.axis.spatial(1, ax1_0)
                                    T.reads(A_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, 0:32])
                                    T.writes(A_pad_shared_dyn_local[v0_o, 0, 0:32, 0:16])
                                    F = T.match_buffer(A_pad_shared_dyn_local[v0_o, 0, 0:32, 0:16], (32, 16), "int8", scope="local", offset_factor=16)
                                    S = T.match_buffer(A_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, 0:32], (16, 32), "int8", strides=("s0", "s1"), scope="shared.dyn", offset_factor=16)
                                    for tx in T.thread_binding(32, thread="threadIdx.x"):
                                        T.ptx_legacy.ldmatrix("int8", T.bool(False), 4, ".b16", F.data, F.elem_offset, T.tvm_access_ptr(T.type_annotation("int8"), S.data, S.elem_offset, S.strides[0] * 16, 1), S.strides[0] * (tx % 8 + 8 * (tx // 8 % 2)) + 16 * (tx // 8 // 2))
                        for ax0_0 in T.unroll(1):
                            for ax1_0 in T.unroll(1):
                                with T.sblock("B_pad_shared.dyn_local_o"):
                                    v0_o, v1_o = T.axis.remap("SS", [ax0_0, ax1_0])
                                    T.reads(B_pad_shared_dyn[0:16, 0:32])
                                    T.writes(B_pad_shared_dyn_local[0, 0, 0:32, 0:16])
                                    F = T.match_buffer(B_pad_shared_dyn_local[0, 0, 0:32, 0:16], (32, 16), "int8", scope="local", offset_factor=16)
                                    S = T.match_buffer(B_pad_shared_dyn[0:16, 0:32], (16, 32), "int8", strides=("s0", "s1"), scope="shared.dyn", offset_factor=16)
                                    for tx in T.thread_binding(32, thread="threadIdx.x"):
                                        T.ptx_legacy.ldmatrix("int8", T.bool(False), 4, ".b16", F.data, F.elem_offset, T.tvm_access_ptr(T.type_annotation("int8"), S.data, S.elem_offset, S.strides[0] * 16, 1), S.strides[0] * (tx % 8 + 8 * (tx // 8 // 2)) + 16 * (tx // 8 % 2))
                        for i_3 in T.unroll(1):
                            for j_2 in T.unroll(1):
                                with T.sblock("C_o_update"):
                                    vi_o = T.axis.spatial(2, i_2_j_1_fused + i_3)
                                    vj_o = T.axis.spatial(1, j_2)
                                    vk_o = T.axis.reduce(1, k_0 + k_1)
                                    T.reads(C_pad_shared_dyn_local[vi_o, 0, 0:32, 0:8], A_pad_shared_dyn_local[vi_o, 0, 0:32, 0:16], B_pad_shared_dyn_local[0, 0, 0:32, 0:16])
                                    T.writes(C_pad_shared_dyn_local[vi_o, 0, 0:32, 0:8])
                                    A_1 = T.match_buffer(A_pad_shared_dyn_local[vi_o, 0, 0:32, 0:16], (32, 16), "int8", scope="local", offset_factor=16)
                                    B_1 = T.match_buffer(B_pad_shared_dyn_local[0, 0, 0:32, 0:16], (32, 16), "int8", scope="local", offset_factor=16)
                                    C_1 = T.match_buffer(C_pad_shared_dyn_local[vi_o, 0, 0:32, 0:8], (32, 8), "int32", scope="local", offset_factor=8)
                                    for _ in T.thread_binding(32, thread="threadIdx.x"):
                                        for half in T.unroll(2):
                                            T.ptx_legacy.mma("m16n8k32", "row", "col", "int8", "int8", "int32", A_1.data, A_1.elem_offset, B_1.data, B_1.elem_offset + half * 8, C_1.data, C_1.elem_offset + half * 4, T.bool(False))
                for ax0_0 in range(1):
                    for ax1_0 in T.unroll(1):
                        with T.sblock("C_pad_shared.dyn_local_o"):
                            v0_o = T.axis.spatial(2, i_2_j_1_fused + ax0_0)
                            v1_o = T.axis.spatial(1, ax1_0)
                            T.reads(C_pad_shared_dyn_local[v0_o, 0, 0:32, 0:8])
                            T.sblock_attr({"buffer_dim_align": [[0, 0, 16, 8]]})
                            C_1 = T.match_buffer(C_pad_shared_dyn_local[v0_o, 0, 0:32, 0:8], (32, 8), "int32", scope="local", offset_factor=8)
                            D = T.match_buffer(C_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, 0:16], (16, 16), "int32", strides=("s0", "s1"), scope="shared.dyn", offset_factor=1)
                            for tx in T.thread_binding(32, thread="threadIdx.x"):
                                for pair in T.unroll(4):
                                    for of_pair in T.vectorized(2):
                                        D[tx // 4 + 8 * ((pair * 2 + of_pair) // 2 % 2), tx % 4 * 2 + 8 * ((pair * 2 + of_pair) // 4) + (pair * 2 + of_pair) % 2] = C_1[0, pair * 2 + of_pair]
            for ax0_ax1_fused_0 in range(1):
                for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                    for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                        for ax0_ax1_fused_3 in T.vectorized(4):
                            with T.sblock("C_pad"):
                                v0 = T.axis.spatial(4, (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 16)
                                v1 = T.axis.spatial(16, (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 16)
                                T.where(((ax0_ax1_fused_0 * 2 + ax0_ax1_fused_1) * 32 + ax0_ax1_fused_2) * 4 + ax0_ax1_fused_3 < 64)
                                C[v0, v1] = C_pad_shared_dyn[v0, v1]
