# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((4, 6, 5, 8), "bfloat16"), F: T.Buffer((32, 3, 2, 8), "bfloat16"), Y: T.Buffer((4, 3, 3, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        Y_acc_local = T.sblock_alloc_buffer((4, 3, 3, 32), scope="local")
        for n_y_x_o_fused_0 in T.thread_binding(9, thread="blockIdx.x"):
            for n_y_x_o_fused_1 in T.thread_binding(128, thread="threadIdx.x"):
                with T.sblock("Y_init"):
                    vn = T.axis.spatial(4, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) // 288)
                    vy = T.axis.spatial(3, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) % 288 // 96)
                    vx = T.axis.spatial(3, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) % 96 // 32)
                    vo = T.axis.spatial(32, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) % 32)
                    T.reads()
                    T.writes(Y_acc_local[vn, vy, vx, vo])
                    Y_acc_local[vn, vy, vx, vo] = T.float32(0.0)
                for i, j, c in T.grid(3, 2, 8):
                    with T.sblock("Y_update"):
                        vn = T.axis.spatial(4, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) // 288)
                        vy = T.axis.spatial(3, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) % 288 // 96)
                        vx = T.axis.spatial(3, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) % 96 // 32)
                        vo = T.axis.spatial(32, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) % 32)
                        vi, vj, vc = T.axis.remap("RRR", [i, j, c])
                        T.reads(Y_acc_local[vn, vy, vx, vo], X[vn, vy * 2 + vi - 1, vx * 2 + vj - 1, vc], F[vo, vi, vj, vc])
                        T.writes(Y_acc_local[vn, vy, vx, vo])
                        Y_acc_local[vn, vy, vx, vo] = Y_acc_local[vn, vy, vx, vo] + T.Cast("float32", T.if_then_else(vy * 2 + vi >= 1 and vy * 2 + vi < 7 and vx * 2 + vj >= 1 and vx * 2 + vj < 6, X[vn, vy * 2 + vi - 1, vx * 2 + vj - 1, vc], T.bfloat16(0.0))) * T.Cast("float32", F[vo, vi, vj, vc])
                for ax0, ax1, ax2, ax3 in T.grid(1, 1, 1, 1):
                    with T.sblock("Y_cast"):
                        vn = T.axis.spatial(4, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) // 288 + ax0)
                        vy = T.axis.spatial(3, (n_y_x_o_fused_0 * 128 + n_y_x_o_fused_1) % 288 // 96 + ax1)
                        vx = T.axis.spatial(3, (n_y_x_o_fused_0 * 4 + n_y_x_o_fused_1 // 32) % 3 + ax2)
                        vo = T.axis.spatial(32, n_y_x_o_fused_1 % 32 + ax3)
                        T.reads(Y_acc_local[vn, vy, vx, vo])
                        T.writes(Y[vn, vy, vx, vo])
                        Y[vn, vy, vx, vo] = T.Cast("bfloat16", Y_acc_local[vn, vy, vx, vo])
