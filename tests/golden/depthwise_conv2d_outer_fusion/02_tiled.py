# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((3, 4, 16, 32), "float32"), F: T.Buffer((4, 1, 5, 5), "float32"), Y: T.Buffer((3, 4, 16, 32), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for b_c_fused, h_0, w_0, h_1, w_1, ry, rx in T.grid(12, 1, 2, 16, 16, 5, 5):
            with T.sblock("Y"):
                vb = T.axis.spatial(3, b_c_fused // 4)
                vc = T.axis.spatial(4, b_c_fused % 4)
                vh = T.axis.spatial(16, h_0 * 16 + h_1)
                vw = T.axis.spatial(32, w_0 * 16 + w_1)
                vy, vx = T.axis.remap("RR", [ry, rx])
                T.reads(X[vb, vc, vh + vy - 2, vw + vx - 2], F[vc, 0, vy, vx])
                T.writes(Y[vb, vc, vh, vw])
                with T.init():
                    Y[vb, vc, vh, vw] = T.float32(0.0)
                Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + T.if_then_else(vh + vy >= 2 and vh + vy < 18 and vw + vx >= 2 and vw + vx < 34, X[vb, vc, vh + vy - 2, vw + vx - 2], T.float32(0.0)) * F[vc, 0, vy, vx]
