# depthwise_conv2d(b=2, c=2, h=4, w=8, k=3)
@T.prim_func(s_tir=True)
def main(X: T.Buffer((2, 2, 4, 8), "float32"), F: T.Buffer((2, 1, 3, 3), "float32"), Y: T.Buffer((2, 2, 4, 8), "float32")):
    T.func_attr({"tirx.noalias": True})
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for c, h, w, ry, rx in T.grid(2, 4, 8, 3, 3):
            with T.sblock("Y"):
                vb, vc, vh, vw, vy, vx = T.axis.remap("SSSSRR", [b, c, h, w, ry, rx])
                with T.init():
                    Y[vb, vc, vh, vw] = T.float32(0.0)
                Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + T.if_then_else(vh + vy >= 1 and vh + vy < 5 and vw + vx >= 1 and vw + vx < 9, X[vb, vc, vh + vy - 1, vw + vx - 1], T.float32(0.0)) * F[vc, 0, vy, vx]
