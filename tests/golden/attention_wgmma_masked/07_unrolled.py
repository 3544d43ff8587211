# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(Q: T.Buffer((1, 1, 128, 32), "bfloat16"), K: T.Buffer((1, 1, 128, 32), "bfloat16"), V: T.Buffer((1, 1, 128, 32), "bfloat16"), A: T.Buffer((1, 1, 128, 128), "bfloat16"), Y: T.Buffer((1, 1, 128, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep", "tirstep_own_lanes": 1})
            scores_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), scope="local")
            mask_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), "bfloat16", scope="local")
            masked_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), scope="local")
            largest_local = T.sblock_alloc_buffer((1, 1, 16, 1, 8), scope="local")
            total_local = T.sblock_alloc_buffer((1, 1, 16, 1, 8), scope="local")
            weighted_local = T.sblock_alloc_buffer((1, 1, 8, 2, 32, 8), scope="local")
            power_bfloat16_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), "bfloat16", scope="local")
            largest_tile_local = T.sblock_alloc_buffer((1, 1, 16, 8, 4), scope="local")
            largest_previous_local = T.sblock_alloc_buffer((1, 1, 16, 1, 8), scope="local")
            power_running_local = T.sblock_alloc_buffer((1, 1, 8, 8, 32, 8), scope="local")
            total_tile_local = T.sblock_alloc_buffer((1, 1, 16, 8, 4), scope="local")
            V_shared_dyn = T.sblock_alloc_buffer((1, 1, 1, 128, 4, 8), "bfloat16", scope="shared.dyn")
            K_shared_dyn = T.sblock_alloc_buffer((1, 1, 1, 128, 4, 8), "bfloat16", scope="shared.dyn")
            Q_shared_dyn = T.sblock_alloc_buffer((1, 1, 1, 128, 4, 8), "bfloat16", scope="shared.dyn")
            for b in T.thread_binding(1, thread="blockIdx.z"):
                for h in T.thread_binding(1, thread="blockIdx.y"):
                    for i_0 in T.thread_binding(2, thread="blockIdx.x"):
                        for i_1_0 in T.thread_binding(4, thread="threadIdx.z"):
                            for ax0_ax1_ax2_ax3_fused_0 in range(2):
                                for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                    for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                        for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                            for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                with T.sblock("Q_shared.dyn"):
                                                    v0 = T.axis.spatial(1, 0)
                                                    v1 = T.axis.spatial(1, 0)
                                                    v2 = T.axis.spatial(128, i_0 * 64 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                    v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                    T.reads(Q[v0, v1, v2, v3])
                                                    T.writes(Q_shared_dyn[v0, v1, 0, v2, 0:4, v3 % 8])
                                                    Q_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8 // 2) % 4, v3 % 8] = Q[v0, v1, v2, v3]
                            for j_0 in range(4):
                                for ax0_ax1_ax2_ax3_fused_0 in range(1):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("K_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(1, 0)
                                                        v2 = T.axis.spatial(128, j_0 * 32 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                        v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                        T.reads(K[v0, v1, v2, v3])
                                                        T.writes(K_shared_dyn[v0, v1, 0, v2, 0:4, v3 % 8])
                                                        K_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8 // 2) % 4, v3 % 8] = K[v0, v1, v2, v3]
                                for ax0_ax1_ax2_ax3_fused_0 in range(1):
                                    for ax0_ax1_ax2_ax3_fused_1 in T.thread_binding(4, thread="threadIdx.z"):
                                        for ax0_ax1_ax2_ax3_fused_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax0_ax1_ax2_ax3_fused_3 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax0_ax1_ax2_ax3_fused_4 in T.vectorized(8):
                                                    with T.sblock("V_shared.dyn"):
                                                        v0 = T.axis.spatial(1, 0)
                                                        v1 = T.axis.spatial(1, 0)
                                                        v2 = T.axis.spatial(128, j_0 * 32 + (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) // 32)
                                                        v3 = T.axis.spatial(32, (ax0_ax1_ax2_ax3_fused_0 * 1024 + ax0_ax1_ax2_ax3_fused_1 * 256 + ax0_ax1_ax2_ax3_fused_2 * 32 + ax0_ax1_ax2_ax3_fused_3 * 8 + ax0_ax1_ax2_ax3_fused_4) % 32)
                                                        T.reads(V[v0, v1, v2, v3])
                                                        T.writes(V_shared_dyn[v0, v1, 0, v2, 0:4, v3 % 8])
                                                        V_shared_dyn[v0, v1, 0, v2, (v3 // 8 ^ v2 % 8 // 2) % 4, v3 % 8] = V[v0, v1, v2, v3]
                                for ax0, ax1 in T.grid(1, 1):
                                    with T.sblock("scores_o"):
                                        vb_o, vh_o = T.axis.remap("SS", [ax0, ax1])
                                        vi_o = T.axis.spatial(8, i_0 * 4 + i_1_0)
                                        vj_o = T.axis.spatial(4, j_0)
                                        vd_o = T.axis.reduce(1, 0)
                                        T.reads(Q_shared_dyn[vb_o, vh_o, 0, vi_o * 16:vi_o * 16 + 16, 0:4, 0:8], K_shared_dyn[vb_o, vh_o, 0, vj_o * 32:vj_o * 32 + 32, 0:4, 0:8])
                                        T.writes(scores_local[vb_o, vh_o, vi_o, vj_o * 2:vj_o * 2 + 2, 0:32, 0:8])
                                        A_1 = T.match_buffer(Q_shared_dyn[vb_o, vh_o, 0, vi_o * 16:vi_o * 16 + 16, 0:4, 0:8], (1, 16, 4, 8), "bfloat16", strides=("s", 32, 8, 1), scope="shared.dyn", offset_factor=1)
                                        B = T.match_buffer(K_shared_dyn[vb_o, vh_o, 0, vj_o * 32:vj_o * 32 + 32, 0:4, 0:8], (1, 32, 4, 8), "bfloat16", strides=("t", 32, 8, 1), scope="shared.dyn", offset_factor=1)
                                        C = T.match_buffer(scores_local[vb_o, vh_o, vi_o, vj_o * 2:vj_o * 2 + 2, 0:32, 0:8], (2, 32, 8), scope="local", offset_factor=8)
                                        for warp in T.thread_binding(4, thread="threadIdx.z"):
                                            for _row in T.thread_binding(8, thread="threadIdx.y"):
                                                for _column in T.thread_binding(4, thread="threadIdx.x"):
                                                    with T.sblock("group"):
                                                        T.reads(A_1[0, 0:16, 0:4, 0:8], B[0, 0:32, 0:4, 0:8])
                                                        T.writes(C[0:2, 0:32, 0:8])
                                                        d = T.sblock_alloc_buffer((2,), "uint64", scope="local")
                                                        T.ptx.fence("proxy", "async", "shared::cta", "")
                                                        T.tvm_storage_sync("shared.dyn", T.bool(False), -1)
                                                        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), T.tvm_access_ptr(T.type_annotation("bfloat16"), A_1.data, A_1.elem_offset, A_1.strides[0], 1), 1, 32, 2)
                                                        T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[1]), T.tvm_access_ptr(T.type_annotation("bfloat16"), B.data, B.elem_offset, B.strides[0], 1), 1, 32, 2)
                                                        for at in T.unroll(2):
                                                            for element in T.unroll(8):
                                                                C[at, 0, element] = T.float32(0.0)
                                                        T.ptx.wgmma("fence", "sync", "aligned", "")
                                                        for step in T.unroll(2):
                                                            for j in T.unroll(1):
                                                                T.ptx.wgmma(C[j * 2, 0, 0], C[j * 2, 0, 1], C[j * 2, 0, 2], C[j * 2, 0, 3], C[j * 2, 0, 4], C[j * 2, 0, 5], C[j * 2, 0, 6], C[j * 2, 0, 7], C[j * 2 + 1, 0, 0], C[j * 2 + 1, 0, 1], C[j * 2 + 1, 0, 2], C[j * 2 + 1, 0, 3], C[j * 2 + 1, 0, 4], C[j * 2 + 1, 0, 5], C[j * 2 + 1, 0, 6], C[j * 2 + 1, 0, 7], d[0] - T.Cast("uint64", warp % 4 * 64) + T.Cast("uint64", step // 2 * (A_1.strides[0] * 2 // 16) + step % 2 * 2), d[1] + T.Cast("uint64", step // 2 * (B.strides[0] * 2 // 16) + step % 2 * 2 + j * 128), step > 0, 1, 1, 0, 0, "mma_async", "sync", "aligned", "m64n32k16", "f32", "bf16", "bf16", "p18")
                                                        T.ptx.wgmma("commit_group", "sync", "aligned", "")
                                                        T.ptx.wgmma(0, "wait_group", "sync", "aligned", "")
                                for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for ax1, ax2_0, ax2_1 in T.grid(1, 1, 2):
                                        for ax2_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax3_0, ax3_1 in T.grid(2, 2):
                                                for ax3_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                    for ax3_3 in T.vectorized(2):
                                                        with T.sblock("mask"):
                                                            vb, vh = T.axis.remap("SS", [ax0, ax1])
                                                            vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + ax2_0 * 16 + ax2_1 * 8 + ax2_2)
                                                            vj = T.axis.spatial(128, j_0 * 32 + ax3_0 * 16 + ax3_1 * 8 + ax3_2 * 2 + ax3_3)
                                                            T.reads(A[0, 0, vi, vj])
                                                            T.writes(mask_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                                            mask_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = A[0, 0, vi, vj]
                                for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for ax1, ax2_0, ax2_1 in T.grid(1, 1, 2):
                                        for ax2_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for ax3_0, ax3_1 in T.grid(2, 2):
                                                for ax3_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                    for ax3_3 in range(2):
                                                        with T.sblock("masked"):
                                                            vb, vh = T.axis.remap("SS", [ax0, ax1])
                                                            vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + ax2_0 * 16 + ax2_1 * 8 + ax2_2)
                                                            vj = T.axis.spatial(128, j_0 * 32 + ax3_0 * 16 + ax3_1 * 8 + ax3_2 * 2 + ax3_3)
                                                            T.reads(scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2], mask_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                                            T.writes(masked_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                                            masked_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = scores_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] * T.float32(0.17677669529663687) + T.Cast("float32", mask_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                for i_1_1_0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for i_1_1_1 in range(2):
                                        for i_1_1_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for j_1_0, j_1_1 in T.grid(2, 2):
                                                for j_1_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                    for j_1_3 in range(2):
                                                        with T.sblock("max_tile"):
                                                            vb, vh = T.axis.remap("SS", [b, h])
                                                            vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_0 * 16 + i_1_1_1 * 8 + i_1_1_2)
                                                            vj_0 = T.axis.spatial(4, j_0)
                                                            vj_1 = T.axis.reduce(32, j_1_0 * 16 + j_1_1 * 8 + j_1_2 * 2 + j_1_3)
                                                            T.reads(masked_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                                            T.writes(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                                            with T.init():
                                                                largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(-340282346638528859811704183484516925440.0)
                                                            largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.max(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0], masked_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                for i_1_1_0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for i_1_1_1 in range(2):
                                        for i_1_1_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            with T.sblock("max"):
                                                vb, vh = T.axis.remap("SS", [b, h])
                                                vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_0 * 16 + i_1_1_1 * 8 + i_1_1_2)
                                                vj_0 = T.axis.reduce(4, j_0)
                                                T.reads(largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                                T.writes(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_previous_local[vb, vh, vi // 8, 0, vi % 8])
                                                with T.init():
                                                    largest_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(-340282346638528859811704183484516925440.0)
                                                largest_previous_local[vb, vh, vi // 8, 0, vi % 8] = largest_local[vb, vh, vi // 8, 0, vi % 8]
                                                largest_local[vb, vh, vi // 8, 0, vi % 8] = T.max(largest_local[vb, vh, vi // 8, 0, vi % 8], largest_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                for i_1_1_0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for i_1_1_1 in range(2):
                                        for i_1_1_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for j_1_0, j_1_1 in T.grid(2, 2):
                                                for j_1_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                    for j_1_3 in range(2):
                                                        with T.sblock("exp_running"):
                                                            vb, vh = T.axis.remap("SS", [b, h])
                                                            vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_0 * 16 + i_1_1_1 * 8 + i_1_1_2)
                                                            vj = T.axis.spatial(128, j_0 * 32 + j_1_0 * 16 + j_1_1 * 8 + j_1_2 * 2 + j_1_3)
                                                            T.reads(masked_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2], largest_local[vb, vh, vi // 8, 0, vi % 8])
                                                            T.writes(power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2])
                                                            power_running_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] = T.exp2((masked_local[vb, vh, vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(1.4426950408889634))
                                for i_1_1_0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for i_1_1_1 in range(2):
                                        for i_1_1_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for j_1_0, j_1_1 in T.grid(2, 2):
                                                for j_1_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                    for j_1_3 in range(2):
                                                        with T.sblock("sum_tile"):
                                                            vb, vh = T.axis.remap("SS", [b, h])
                                                            vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_0 * 16 + i_1_1_1 * 8 + i_1_1_2)
                                                            vj_0 = T.axis.spatial(4, j_0)
                                                            vj_1 = T.axis.reduce(32, j_1_0 * 16 + j_1_1 * 8 + j_1_2 * 2 + j_1_3)
                                                            T.reads(power_running_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2])
                                                            T.writes(total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                                            with T.init():
                                                                total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = T.float32(0.0)
                                                            total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] = total_tile_local[vb, vh, vi // 8, vi % 8, vj_0] + power_running_local[vb, vh, vi // 16, vj_0 * 2 + vj_1 // 16, vi % 8 * 4 + vj_1 % 8 // 2, vj_1 % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj_1 % 2]
                                for i_1_1_0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for i_1_1_1 in range(2):
                                        for i_1_1_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            with T.sblock("sum"):
                                                vb, vh = T.axis.remap("SS", [b, h])
                                                vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_0 * 16 + i_1_1_1 * 8 + i_1_1_2)
                                                vj_0 = T.axis.reduce(4, j_0)
                                                T.reads(largest_previous_local[vb, vh, vi // 8, 0, vi % 8], largest_local[vb, vh, vi // 8, 0, vi % 8], total_tile_local[vb, vh, vi // 8, vi % 8, vj_0])
                                                T.writes(total_local[vb, vh, vi // 8, 0, vi % 8])
                                                with T.init():
                                                    total_local[vb, vh, vi // 8, 0, vi % 8] = T.float32(0.0)
                                                total_local[vb, vh, vi // 8, 0, vi % 8] = total_local[vb, vh, vi // 8, 0, vi % 8] * T.exp2((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(1.4426950408889634)) + total_tile_local[vb, vh, vi // 8, vi % 8, vj_0]
                                for i_1_1_0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for i_1_1_1 in range(2):
                                        for i_1_1_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for j_1_0, j_1_1 in T.grid(2, 2):
                                                for j_1_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                    for j_1_3 in range(2):
                                                        with T.sblock("power_global"):
                                                            v0, v1 = T.axis.remap("SS", [b, h])
                                                            v2 = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_0 * 16 + i_1_1_1 * 8 + i_1_1_2)
                                                            v3 = T.axis.spatial(128, j_0 * 32 + j_1_0 * 16 + j_1_1 * 8 + j_1_2 * 2 + j_1_3)
                                                            T.reads(power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                                            T.writes(power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                                            power_bfloat16_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2] = T.Cast("bfloat16", power_running_local[v0, v1, v2 // 16, v3 // 16, v2 % 8 * 4 + v3 % 8 // 2, v3 % 16 // 8 * 4 + v2 % 16 // 8 * 2 + v3 % 2])
                                for i_1_1_init_0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                    for i_1_1_init_1 in range(2):
                                        for i_1_1_init_2 in T.thread_binding(8, thread="threadIdx.y"):
                                            for d_init_0, d_init_1 in T.grid(2, 2):
                                                for d_init_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                    for d_init_3 in range(2):
                                                        with T.sblock("weighted_init"):
                                                            vb, vh = T.axis.remap("SS", [b, h])
                                                            vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + i_1_1_init_0 * 16 + i_1_1_init_1 * 8 + i_1_1_init_2)
                                                            vd = T.axis.spatial(32, d_init_0 * 16 + d_init_1 * 8 + d_init_2 * 2 + d_init_3)
                                                            vj_0 = T.axis.spatial(4, j_0)
                                                            T.reads()
                                                            T.writes(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2])
                                                            weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] = T.if_then_else(vj_0 == 0, T.float32(0.0), weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] * T.exp2((largest_previous_local[vb, vh, vi // 8, 0, vi % 8] - largest_local[vb, vh, vi // 8, 0, vi % 8]) * T.float32(1.4426950408889634)))
                                with T.sblock("weighted_update_o"):
                                    vb_o, vh_o = T.axis.remap("SS", [b, h])
                                    vi_o = T.axis.spatial(8, i_0 * 4 + i_1_0)
                                    vd_o = T.axis.spatial(1, 0)
                                    vj_0_o = T.axis.spatial(4, j_0)
                                    vj_1_o = T.axis.reduce(1, 0)
                                    T.reads(weighted_local[vb_o, vh_o, vi_o, 0:2, 0:32, 0:8], power_bfloat16_local[vb_o, vh_o, vi_o, vj_0_o * 2:vj_0_o * 2 + 2, 0:32, 0:8], V_shared_dyn[vb_o, vh_o, 0, vj_0_o * 32:vj_0_o * 32 + 32, 0:4, 0:8])
                                    T.writes(weighted_local[vb_o, vh_o, vi_o, 0:2, 0:32, 0:8])
                                    A_1 = T.match_buffer(power_bfloat16_local[vb_o, vh_o, vi_o, vj_0_o * 2:vj_0_o * 2 + 2, 0:32, 0:8], (2, 32, 8), "bfloat16", scope="local", offset_factor=8)
                                    B = T.match_buffer(V_shared_dyn[vb_o, vh_o, 0, vj_0_o * 32:vj_0_o * 32 + 32, 0:4, 0:8], (1, 32, 4, 8), "bfloat16", strides=("t", 32, 8, 1), scope="shared.dyn", offset_factor=1)
                                    C = T.match_buffer(weighted_local[vb_o, vh_o, vi_o, 0:2, 0:32, 0:8], (2, 32, 8), scope="local", offset_factor=8)
                                    for warp in T.thread_binding(4, thread="threadIdx.z"):
                                        for _row in T.thread_binding(8, thread="threadIdx.y"):
                                            for _column in T.thread_binding(4, thread="threadIdx.x"):
                                                with T.sblock("group"):
                                                    T.reads(C[0:2, 0:32, 0:8], A_1[0:2, 0:32, 0:8], B[0, 0:32, 0:4, 0:8])
                                                    T.writes(C[0:2, 0:32, 0:8])
                                                    d = T.sblock_alloc_buffer((1,), "uint64", scope="local")
                                                    T.ptx.fence("proxy", "async", "shared::cta", "")
                                                    T.tvm_storage_sync("shared.dyn", T.bool(False), -1)
                                                    T.cuda.wgmma.encode_matrix_descriptor(T.address_of(d[0]), T.tvm_access_ptr(T.type_annotation("bfloat16"), B.data, B.elem_offset, B.strides[0], 1), B.strides[0] * 2 // 16, 32, 2)
                                                    T.ptx.wgmma("fence", "sync", "aligned", "")
                                                    for step in T.unroll(2):
                                                        for j in T.unroll(1):
                                                            T.ptx.wgmma(C[j * 2, 0, 0], C[j * 2, 0, 1], C[j * 2, 0, 2], C[j * 2, 0, 3], C[j * 2, 0, 4], C[j * 2, 0, 5], C[j * 2, 0, 6], C[j * 2, 0, 7], C[j * 2 + 1, 0, 0], C[j * 2 + 1, 0, 1], C[j * 2 + 1, 0, 2], C[j * 2 + 1, 0, 3], C[j * 2 + 1, 0, 4], C[j * 2 + 1, 0, 5], C[j * 2 + 1, 0, 6], C[j * 2 + 1, 0, 7], T.reinterpret("uint32", A_1[step, 0, T.Ramp(0, 1, 2)]), T.reinterpret("uint32", A_1[step, 0, T.Ramp(2, 1, 2)]), T.reinterpret("uint32", A_1[step, 0, T.Ramp(4, 1, 2)]), T.reinterpret("uint32", A_1[step, 0, T.Ramp(6, 1, 2)]), d[0] + T.Cast("uint64", step * 16 * 4 + j * (B.strides[0] * 2 // 16)), T.bool(True), 1, 1, 1, "mma_async", "sync", "aligned", "m64n32k16", "f32", "bf16", "bf16", "p21")
                                                    T.ptx.wgmma("commit_group", "sync", "aligned", "")
                                                    T.ptx.wgmma(0, "wait_group", "sync", "aligned", "")
                            for ax0 in T.serial(1, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax1, ax2_0, ax2_1 in T.grid(1, 1, 2):
                                    for ax2_2 in T.thread_binding(8, thread="threadIdx.y"):
                                        for ax3_0, ax3_1 in T.grid(2, 2):
                                            for ax3_2 in T.thread_binding(4, thread="threadIdx.x"):
                                                for ax3_3 in T.vectorized(2):
                                                    with T.sblock("Y"):
                                                        vb, vh = T.axis.remap("SS", [ax0, ax1])
                                                        vi = T.axis.spatial(128, i_0 * 64 + i_1_0 * 16 + ax2_0 * 16 + ax2_1 * 8 + ax2_2)
                                                        vd = T.axis.spatial(32, ax3_0 * 16 + ax3_1 * 8 + ax3_2 * 2 + ax3_3)
                                                        T.reads(weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2], total_local[vb, vh, vi // 8, 0, vi % 8])
                                                        T.writes(Y[vb, vh, vi, vd])
                                                        Y[vb, vh, vi, vd] = T.Cast("bfloat16", weighted_local[vb, vh, vi // 16, vd // 16, vi % 8 * 4 + vd % 8 // 2, vd % 16 // 8 * 4 + vi % 16 // 8 * 2 + vd % 2] / total_local[vb, vh, vi // 8, 0, vi % 8])
