# matmul(m=4, n=6, k=128)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((4, 128), "float32"), B: T.Buffer((128, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    A_1 = A.view(512)
    B_1 = B.view(768)
    C_1 = C.view(24)
    with T.launch_thread("blockIdx.y", 4) as blockIdx_y:
        in_thread_C = T.alloc_local((1,))
        red_result = T.alloc_shared((1,), annotations={"tirx.volatile": T.bool(True)})
        with T.launch_thread("blockIdx.x", 6) as blockIdx_x:
            threadIdx_x = T.launch_thread("threadIdx.x", 64)
            in_thread_C[0] = T.float32(0.0)
            for k_0 in range(2):
                in_thread_C[0] = in_thread_C[0] + A_1[blockIdx_y * 128 + k_0 * 64 + threadIdx_x] * B_1[k_0 * 384 + threadIdx_x * 6 + blockIdx_x]
            with T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0.0)]), "reduce_scope", 0):
                red_buf_staging = T.alloc_shared((2,))
                t0 = T.alloc_local((1,))
                mask = T.alloc_local((1,), "uint32")
                red_buf0 = T.alloc_local((1,))
                t0_1 = T.alloc_local((1,))
                mask_1 = T.alloc_local((1,), "uint32")
                red_buf0_1 = T.alloc_local((1,))
                red_buf0[0] = in_thread_C[0]
                mask[0] = T.tvm_warp_activemask()
                t0[0] = T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 16, 32, 32)
                red_buf0[0] = red_buf0[0] + t0[0]
                t0[0] = T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 8, 32, 32)
                red_buf0[0] = red_buf0[0] + t0[0]
                t0[0] = T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 4, 32, 32)
                red_buf0[0] = red_buf0[0] + t0[0]
                t0[0] = T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 2, 32, 32)
                red_buf0[0] = red_buf0[0] + t0[0]
                t0[0] = T.tvm_warp_shuffle_down(mask[0], red_buf0[0], 1, 32, 32)
                red_buf0[0] = red_buf0[0] + t0[0]
                if threadIdx_x % 32 == 0:
                    red_buf_staging[threadIdx_x // 32] = red_buf0[0]
                T.tvm_storage_sync("shared", T.bool(False), -1)
                if threadIdx_x < 2:
                    red_buf0_1[0] = red_buf_staging[threadIdx_x]
                mask_1[0] = T.tvm_warp_activemask()
                t0_1[0] = T.tvm_warp_shuffle_down(mask_1[0], red_buf0_1[0], 1, 32, 32)
                red_buf0_1[0] = red_buf0_1[0] + t0_1[0]
                if threadIdx_x == 0:
                    red_result[0] = red_buf0_1[0]
                T.tvm_storage_sync("shared", T.bool(False), -1)
            if threadIdx_x == 0:
                C_1[blockIdx_y * 6 + blockIdx_x] = red_result[0]
