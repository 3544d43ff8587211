# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((5, 2, 6, 8), "float32"), F: T.Buffer((2, 1, 3, 3), "float32"), Y: T.Buffer((5, 2, 6, 8), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded = T.sblock_alloc_buffer((5, 2, 8, 10))
        for b, c, y, x in T.grid(5, 2, 8, 10):
            with T.sblock("padded"):
                vb, vc, vy, vx = T.axis.remap("SSSS", [b, c, y, x])
                T.reads(X[vb, vc, vy - 1, vx - 1])
                T.writes(padded[vb, vc, vy, vx])
                padded[vb, vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 7 and vx >= 1 and vx < 9, X[vb, vc, vy - 1, vx - 1], T.float32(0.0))
        for b, c, h, w, ry, rx in T.grid(5, 2, 6, 8, 3, 3):
            with T.sblock("Y"):
                vb, vc, vh, vw, vy, vx = T.axis.remap("SSSSRR", [b, c, h, w, ry, rx])
                T.reads(padded[vb, vc, vh + vy, vw + vx], F[vc, 0, vy, vx])
                T.writes(Y[vb, vc, vh, vw])
                with T.init():
                    Y[vb, vc, vh, vw] = T.float32(0.0)
                Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + padded[vb, vc, vh + vy, vw + vx] * F[vc, 0, vy, vx]
