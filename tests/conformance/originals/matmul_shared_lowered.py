# matmul(m=64, n=48, k=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    A_1 = A.view(2048)
    B_1 = B.view(1536)
    C_1 = C.view(3072)
    with T.launch_thread("blockIdx.x", 4) as blockIdx_x:
        A_shared = T.alloc_shared((128,))
        B_shared = T.alloc_shared((128,))
        with T.launch_thread("blockIdx.y", 3) as blockIdx_y:
            threadIdx_x = T.launch_thread("threadIdx.x", 16)
            threadIdx_y = T.launch_thread("threadIdx.y", 16)
            cse_v1: T.let[T.int32] = blockIdx_y * 16
            cse_v3: T.let[T.int32] = blockIdx_x * 768 + threadIdx_x * 48 + cse_v1 + threadIdx_y
            C_1[cse_v3] = T.float32(0.0)
            for k_0 in range(4):
                cse_v2: T.let[T.int32] = threadIdx_y * 16 + threadIdx_x
                T.tvm_storage_sync("shared", T.bool(False), -1)
                if threadIdx_y < 8:
                    A_shared[cse_v2] = A_1[blockIdx_x * 512 + threadIdx_y * 64 + threadIdx_x // 8 * 32 + k_0 * 8 + threadIdx_x % 8]
                if threadIdx_y < 8:
                    B_shared[cse_v2] = B_1[k_0 * 384 + threadIdx_y * 48 + cse_v1 + threadIdx_x]
                T.tvm_storage_sync("shared", T.bool(False), -1)
                for k_1 in range(8):
                    C_1[cse_v3] = C_1[cse_v3] + A_shared[threadIdx_x * 8 + k_1] * B_shared[k_1 * 16 + threadIdx_y]
