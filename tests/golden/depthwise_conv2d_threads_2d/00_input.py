# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((3, 4, 16, 32), "float32"), F: T.Buffer((4, 1, 5, 5), "float32"), Y: T.Buffer((3, 4, 16, 32), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded = T.sblock_alloc_buffer((3, 4, 20, 36))
        for b, c, y, x in T.grid(3, 4, 20, 36):
            with T.sblock("padded"):
                vb, vc, vy, vx = T.axis.remap("SSSS", [b, c, y, x])
                T.reads(X[vb, vc, vy - 2, vx - 2])
                T.writes(padded[vb, vc, vy, vx])
                padded[vb, vc, vy, vx] = T.if_then_else(vy >= 2 and vy < 18 and vx >= 2 and vx < 34, X[vb, vc, vy - 2, vx - 2], T.float32(0.0))
        for b, c, h, w, ry, rx in T.grid(3, 4, 16, 32, 5, 5):
            with T.sblock("Y"):
                vb, vc, vh, vw, vy, vx = T.axis.remap("SSSSRR", [b, c, h, w, ry, rx])
                T.reads(padded[vb, vc, vh + vy, vw + vx], F[vc, 0, vy, vx])
                T.writes(Y[vb, vc, vh, vw])
                with T.init():
                    Y[vb, vc, vh, vw] = T.float32(0.0)
                Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + padded[vb, vc, vh + vy, vw + vx] * F[vc, 0, vy, vx]
