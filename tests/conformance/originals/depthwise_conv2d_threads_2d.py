# depthwise_conv2d(b=5, c=2, h=6, w=8, k=3)
@T.prim_func(s_tir=True)
def main(X: T.Buffer((5, 2, 6, 8), "float32"), F: T.Buffer((2, 1, 3, 3), "float32"), Y: T.Buffer((5, 2, 6, 8), "float32")):
    T.func_attr({"tirx.noalias": True})
    for b_c_fused in T.thread_binding(10, thread="blockIdx.x"):
        for h_0 in T.thread_binding(2, thread="blockIdx.y"):
            for h_1 in T.thread_binding(3, thread="threadIdx.y"):
                for w_0 in range(2):
                    for w_1 in T.thread_binding(4, thread="threadIdx.x"):
                        for ry, rx in T.grid(3, 3):
                            with T.sblock("Y"):
                                vb = T.axis.spatial(5, b_c_fused // 2)
                                vc = T.axis.spatial(2, b_c_fused % 2)
                                vh = T.axis.spatial(6, h_0 * 3 + h_1)
                                vw = T.axis.spatial(8, w_0 * 4 + w_1)
                                vy, vx = T.axis.remap("RR", [ry, rx])
                                with T.init():
                                    Y[vb, vc, vh, vw] = T.float32(0.0)
                                Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + T.if_then_else(vh + vy >= 1 and vh + vy < 7 and vw + vx >= 1 and vw + vx < 9, X[vb, vc, vh + vy - 1, vw + vx - 1], T.float32(0.0)) * F[vc, 0, vy, vx]
