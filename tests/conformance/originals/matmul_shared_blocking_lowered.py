# matmul(m=64, n=48, k=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    A_1 = A.view(2048)
    B_1 = B.view(1536)
    C_1 = C.view(3072)
    with T.launch_thread("blockIdx.y", 4) as blockIdx_y:
        C_local = T.alloc_local((8,))
        A_shared = T.alloc_shared((64,))
        B_shared = T.alloc_shared((64,))
        with T.launch_thread("blockIdx.x", 3) as blockIdx_x:
            threadIdx_x = T.launch_thread("threadIdx.x", 32)
            for i_2_init, j_2_init in T.grid(4, 2):
                C_local[i_2_init * 2 + j_2_init] = T.float32(0.0)
            cse_v2: T.let[T.int32] = blockIdx_x * 16
            cse_v3: T.let[T.int32] = threadIdx_x // 8
            cse_v5: T.let[T.int32] = threadIdx_x % 8 * 2
            for k_0 in range(8):
                cse_v1: T.let[T.int32] = threadIdx_x * 4
                T.tvm_storage_sync("shared", T.bool(False), -1)
                if threadIdx_x < 16:
                    A_shared[cse_v1:cse_v1 + 4] = A_1[T.Ramp(blockIdx_y * 512 + threadIdx_x * 32 + k_0 * 4, 1, 4)]
                if threadIdx_x < 16:
                    B_shared[cse_v1:cse_v1 + 4] = B_1[T.Ramp(k_0 * 192 + threadIdx_x // 4 * 48 + cse_v2 + threadIdx_x % 4 * 4, 1, 4)]
                T.tvm_storage_sync("shared", T.bool(False), -1)
                for k_1, i_2, j_2 in T.grid(4, 4, 2):
                    cse_v4: T.let[T.int32] = i_2 * 2 + j_2
                    C_local[cse_v4] = C_local[cse_v4] + A_shared[cse_v3 * 16 + i_2 * 4 + k_1] * B_shared[k_1 * 16 + cse_v5 + j_2]
            for ax0, ax1 in T.grid(4, 2):
                C_1[blockIdx_y * 768 + cse_v3 * 192 + ax0 * 48 + cse_v2 + cse_v5 + ax1] = C_local[ax0 * 2 + ax1]
