# matmul(m=16, n=16, k=32, dtype="float16")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 32), "float16"), B: T.Buffer((32, 16), "float16"), C: T.Buffer((16, 16), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    A_1 = A.view(512)
    B_1 = B.view(512)
    C_1 = C.view(256)
    with T.launch_thread("threadIdx.x", 32) as threadIdx_x:
        C_local = T.alloc_local((8,))
        A_shared = T.alloc_shared((256,), "float16")
        B_shared = T.alloc_shared((256,), "float16")
        A_local = T.alloc_local((8,), "float16")
        B_local = T.alloc_local((8,), "float16")
        for i in range(8):
            C_local[i] = T.float32(0.0)
        for k in range(2):
            T.tvm_storage_sync("shared", T.bool(False), -1)
            for i in range(8):
                cse_v1: T.let[T.int32] = threadIdx_x * 8
                cse_v2: T.let[T.int32] = cse_v1 + i
                A_shared[cse_v2] = A_1[threadIdx_x // 2 * 32 + k * 16 + threadIdx_x % 2 * 8 + i]
                B_shared[cse_v2] = B_1[k * 256 + cse_v1 + i]
            cse_v3: T.let[T.int32] = threadIdx_x % 16 * 16 + threadIdx_x // 16 * 8
            T.tvm_storage_sync("shared", T.bool(False), -1)
            T.ptx_legacy.ldmatrix("float16", T.bool(False), 4, ".b16", A_local.data, 0, T.tvm_access_ptr(T.type_annotation("float16"), A_shared, 0, 256, 1), cse_v3)
            T.ptx_legacy.ldmatrix("float16", T.bool(True), 4, ".b16", B_local.data, 0, T.tvm_access_ptr(T.type_annotation("float16"), B_shared, 0, 256, 1), cse_v3)
            T.ptx_legacy.mma("m16n8k16", "row", "col", "fp16", "fp16", "fp32", A_local.data, 0, B_local.data, 0, C_local.data, 0, T.bool(False))
            T.ptx_legacy.mma("m16n8k16", "row", "col", "fp16", "fp16", "fp32", A_local.data, 0, B_local.data, 4, C_local.data, 4, T.bool(False))
        for i in range(8):
            C_1[i % 4 // 2 * 128 + threadIdx_x // 4 * 16 + i // 4 * 8 + threadIdx_x % 4 * 2 + i % 2] = C_local[i]
