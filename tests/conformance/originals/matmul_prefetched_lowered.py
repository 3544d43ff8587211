# matmul(m=16, n=16, k=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 32), "float32"), B: T.Buffer((32, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    A_1 = A.view(512)
    B_1 = B.view(512)
    C_1 = C.view(256)
    with T.launch_thread("blockIdx.y", 2) as blockIdx_y:
        C_local = T.alloc_local((1,))
        A_shared_local = T.alloc_local((1,))
        B_shared_local = T.alloc_local((1,))
        A_shared = T.alloc_shared((128,))
        B_shared = T.alloc_shared((128,))
        with T.launch_thread("blockIdx.x", 2) as blockIdx_x:
            threadIdx_x = T.launch_thread("threadIdx.x", 64)
            C_local[0] = T.float32(0.0)
            cse_v1: T.let[T.int32] = threadIdx_x // 8
            cse_v2: T.let[T.int32] = threadIdx_x % 8
            cse_v7: T.let[T.int32] = blockIdx_y * 256 + cse_v1 * 32
            A_shared_local[0] = A_1[cse_v7 + cse_v2]
            cse_v3: T.let[T.int32] = blockIdx_x * 8
            cse_v4: T.let[T.int32] = cse_v1 * 16
            B_shared_local[0] = B_1[cse_v4 + cse_v3 + cse_v2]
            A_shared[threadIdx_x] = A_shared_local[0]
            B_shared[threadIdx_x] = B_shared_local[0]
            cse_v6: T.let[T.int32] = cse_v1 * 8
            for k_0 in range(3):
                A_shared_local[0] = A_1[cse_v7 + k_0 * 8 + cse_v2 + 8]
                B_shared_local[0] = B_1[k_0 * 128 + cse_v4 + cse_v3 + cse_v2 + 128]
                T.tvm_storage_sync("shared", T.bool(False), -1)
                for k_1 in range(8):
                    cse_v5: T.let[T.int32] = k_0 % 2 * 64
                    C_local[0] = C_local[0] + A_shared[cse_v5 + cse_v6 + k_1] * B_shared[cse_v5 + k_1 * 8 + cse_v2]
                cse_v8: T.let[T.int32] = (k_0 + 1) % 2 * 64 + threadIdx_x
                T.tvm_storage_sync("shared", T.bool(False), -1)
                A_shared[cse_v8] = A_shared_local[0]
                B_shared[cse_v8] = B_shared_local[0]
            T.tvm_storage_sync("shared", T.bool(False), -1)
            for k_1 in range(8):
                C_local[0] = C_local[0] + A_shared[cse_v6 + k_1 + 64] * B_shared[k_1 * 8 + cse_v2 + 64]
            C_1[blockIdx_y * 128 + cse_v4 + cse_v3 + cse_v2] = C_local[0]
