# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((2, 4, 16, 32), "float32"), F: T.Buffer((4, 1, 3, 3), "float32"), Y: T.Buffer((2, 4, 16, 32), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded = T.sblock_alloc_buffer((2, 4, 18, 34))
        for b, c, y, x in T.grid(2, 4, 18, 34):
            with T.sblock("padded"):
                vb, vc, vy, vx = T.axis.remap("SSSS", [b, c, y, x])
                T.reads(X[vb, vc, vy - 1, vx - 1])
                T.writes(padded[vb, vc, vy, vx])
                padded[vb, vc, vy, vx] = T.if_then_else(vy >= 1 and vy < 17 and vx >= 1 and vx < 33, X[vb, vc, vy - 1, vx - 1], T.float32(0.0))
        for b_c_0_fused in T.thread_binding(8, thread="blockIdx.x"):
            for h_0_0 in T.thread_binding(1, thread="blockIdx.y"):
                for w_0_0 in T.thread_binding(1, thread="blockIdx.z"):
                    for c_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for h_0_1_w_0_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                            for ry, rx, h_1, w_1 in T.grid(3, 3, 4, 4):
                                with T.sblock("Y"):
                                    vb = T.axis.spatial(2, b_c_0_fused // 4)
                                    vc = T.axis.spatial(4, b_c_0_fused % 4 + c_1)
                                    vh = T.axis.spatial(16, h_0_0 * 16 + h_0_1_w_0_1_fused // 8 * 4 + h_1)
                                    vw = T.axis.spatial(32, w_0_0 * 32 + h_0_1_w_0_1_fused % 8 * 4 + w_1)
                                    vy, vx = T.axis.remap("RR", [ry, rx])
                                    T.reads(padded[vb, vc, vh + vy, vw + vx], F[vc, 0, vy, vx])
                                    T.writes(Y[vb, vc, vh, vw])
                                    with T.init():
                                        Y[vb, vc, vh, vw] = T.float32(0.0)
                                    Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + padded[vb, vc, vh + vy, vw + vx] * F[vc, 0, vy, vx]
