# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((4, 6, 5, 8), "bfloat16"), F: T.Buffer((32, 3, 2, 8), "bfloat16"), Y: T.Buffer((4, 6, 6, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded = T.sblock_alloc_buffer((4, 8, 7, 8), "bfloat16")
        Y_acc = T.sblock_alloc_buffer((4, 6, 6, 32))
        for n, y, x, c in T.grid(4, 8, 7, 8):
            with T.sblock("padded"):
                vn, vy, vx, vc = T.axis.remap("SSSS", [n, y, x, c])
                T.reads(X[vn, vy - 1, vx - 1, vc])
                T.writes(padded[vn, vy, vx, vc])
                padded[vn, vy, vx, vc] = T.if_then_else(vy >= 1 and vy < 7 and vx >= 1 and vx < 6, X[vn, vy - 1, vx - 1, vc], T.bfloat16(0.0))
        for n, y, x, o, i, j, c in T.grid(4, 6, 6, 32, 3, 2, 8):
            with T.sblock("Y"):
                vn, vy, vx, vo, vi, vj, vc = T.axis.remap("SSSSRRR", [n, y, x, o, i, j, c])
                T.reads(padded[vn, vy + vi, vx + vj, vc], F[vo, vi, vj, vc])
                T.writes(Y_acc[vn, vy, vx, vo])
                with T.init():
                    Y_acc[vn, vy, vx, vo] = T.float32(0.0)
                Y_acc[vn, vy, vx, vo] = Y_acc[vn, vy, vx, vo] + T.Cast("float32", padded[vn, vy + vi, vx + vj, vc]) * T.Cast("float32", F[vo, vi, vj, vc])
        for n, y, x, o in T.grid(4, 6, 6, 32):
            with T.sblock("Y_cast"):
                vn, vy, vx, vo = T.axis.remap("SSSS", [n, y, x, o])
                T.reads(Y_acc[vn, vy, vx, vo])
                T.writes(Y[vn, vy, vx, vo])
                Y[vn, vy, vx, vo] = T.Cast("bfloat16", Y_acc[vn, vy, vx, vo])
