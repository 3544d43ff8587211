# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((2, 4, 16, 32), "float32"), F: T.Buffer((4, 1, 3, 3), "float32"), Y: T.Buffer((2, 4, 16, 32), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            padded = T.sblock_alloc_buffer((2, 4, 18, 10, 4))
            for at_0, at_1, at_2, axis3, axis4 in T.grid(2, 4, 18, 10, 4):
                with T.sblock("padded"):
                    v_at_0, v_at_1, v_at_2, v_axis3, v_axis4 = T.axis.remap("SSSSS", [at_0, at_1, at_2, axis3, axis4])
                    T.reads(X[v_at_0, v_at_1, v_at_2 - 1, v_axis3 * 4 + v_axis4 - 3 - 1])
                    T.writes(padded[v_at_0, v_at_1, v_at_2, v_axis3, v_axis4])
                    padded[v_at_0, v_at_1, v_at_2, v_axis3, v_axis4] = T.if_then_else(v_axis3 == 0 and v_axis4 < 3 or v_axis3 == 9 and 1 <= v_axis4, T.float32(0.0), T.if_then_else(v_at_2 >= 1 and v_at_2 < 17 and v_axis3 * 4 + v_axis4 - 3 >= 1 and v_axis3 * 4 + v_axis4 - 3 < 33, X[v_at_0, v_at_1, v_at_2 - 1, v_axis3 * 4 + v_axis4 - 3 - 1], T.float32(0.0)))
            for b, c, h, w, ry, rx in T.grid(2, 4, 16, 32, 3, 3):
                with T.sblock("Y"):
                    vb, vc, vh, vw, vy, vx = T.axis.remap("SSSSRR", [b, c, h, w, ry, rx])
                    T.reads(padded[vb, vc, vh + vy, (vw + vx + 3) // 4, (vw + vx + 3) % 4], F[vc, 0, vy, vx])
                    T.writes(Y[vb, vc, vh, vw])
                    with T.init():
                        Y[vb, vc, vh, vw] = T.float32(0.0)
                    Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + padded[vb, vc, vh + vy, (vw + vx + 3) // 4, (vw + vx + 3) % 4] * F[vc, 0, vy, vx]
