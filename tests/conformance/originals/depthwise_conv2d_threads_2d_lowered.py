# depthwise_conv2d(b=5, c=2, h=6, w=8, k=3)
@T.prim_func(s_tir=True)
def main(X: T.Buffer((5, 2, 6, 8), "float32"), F: T.Buffer((2, 1, 3, 3), "float32"), Y: T.Buffer((5, 2, 6, 8), "float32")):
    T.func_attr({"target": T.target({"arch": "sm_90a", "host": {"keys": ["cpu"], "kind": "c", "tag": ""}, "keys": ["cuda", "gpu"], "kind": "cuda", "l2_cache_size_bytes": 52428800, "max_num_threads": 1024, "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024, "registers_per_block": 65536, "tag": "", "thread_warp_size": 32}), "tirx.is_entry_func": True, "tirx.noalias": True})
    X_1 = X.view(480)
    F_1 = F.view(18)
    Y_1 = Y.view(480)
    with T.launch_thread("blockIdx.x", 10) as blockIdx_x:
        blockIdx_y = T.launch_thread("blockIdx.y", 2)
        threadIdx_y = T.launch_thread("threadIdx.y", 3)
        threadIdx_x = T.launch_thread("threadIdx.x", 4)
        for w_0, ry, rx in T.grid(2, 3, 3):
            cse_v1: T.let[T.int32] = w_0 * 4
            cse_v2: T.let[T.int32] = blockIdx_x * 48 + blockIdx_y * 24 + threadIdx_y * 8
            cse_v5: T.let[T.int32] = cse_v2 + cse_v1 + threadIdx_x
            if ry == 0 and rx == 0:
                Y_1[cse_v5] = T.float32(0.0)
            cse_v3: T.let[T.int32] = blockIdx_y * 3 + threadIdx_y + ry
            cse_v4: T.let[T.int32] = cse_v1 + threadIdx_x + rx
            Y_1[cse_v5] = Y_1[cse_v5] + T.if_then_else(1 <= cse_v3 and cse_v3 < 7 and 1 <= cse_v4 and cse_v4 < 9, X_1[cse_v2 + ry * 8 + cse_v1 + threadIdx_x + rx - 9], T.float32(0.0)) * F_1[blockIdx_x % 2 * 9 + ry * 3 + rx]
