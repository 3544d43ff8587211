# window_sum(n=1024)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((1027,), "float32"), B: T.Buffer((1024,), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    A_1 = T.decl_buffer((1027,), data=A.data)
    B_1 = T.decl_buffer((1024,), data=B.data)
    with T.launch_thread("blockIdx.x", 8) as blockIdx_x:
        A_shared = T.alloc_shared((130,))
        with T.launch_thread("threadIdx.x", 128) as threadIdx_x:
            cse_v1: T.let[T.int32] = blockIdx_x * 128
            for ax0_0 in range(2):
                if ax0_0 * 64 + threadIdx_x // 2 < 65:
                    cse_v2: T.let[T.int32] = ax0_0 * 128
                    A_shared[cse_v2 + threadIdx_x] = A_1[cse_v1 + cse_v2 + threadIdx_x]
            T.tvm_storage_sync("shared", T.bool(False), -1)
            B_1[cse_v1 + threadIdx_x] = A_shared[threadIdx_x] + A_shared[threadIdx_x + 1] + A_shared[threadIdx_x + 2]
