# conv1d(m=100, n=32)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((100,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((131,), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    A_1 = T.decl_buffer((100,), data=A.data)
    W_1 = T.decl_buffer((32,), data=W.data)
    B_1 = T.decl_buffer((131,), data=B.data)
    with T.launch_thread("blockIdx.x", 5) as blockIdx_x:
        B_local = T.alloc_local((1,))
        W_shared = T.alloc_shared((4,))
        with T.launch_thread("threadIdx.x", 32) as threadIdx_x:
            cse_v2: T.let[T.int32] = blockIdx_x * 32 + threadIdx_x
            if cse_v2 < 131:
                B_local[0] = T.float32(0.0)
            for r_0 in range(8):
                cse_v1: T.let[T.int32] = r_0 * 4
                T.tvm_storage_sync("shared", T.bool(False), -1)
                if threadIdx_x < 4:
                    W_shared[threadIdx_x] = W_1[cse_v1 + threadIdx_x]
                T.tvm_storage_sync("shared", T.bool(False), -1)
                for r_1 in range(4):
                    if cse_v2 < 131:
                        cse_v3: T.let[T.int32] = cse_v2 - r_1 - cse_v1
                        B_local[0] = B_local[0] + T.if_then_else(0 <= cse_v3 and cse_v3 < 100, A_1[cse_v3], T.float32(0.0)) * W_shared[r_1]
            if cse_v2 < 131:
                B_1[cse_v2] = B_local[0]
