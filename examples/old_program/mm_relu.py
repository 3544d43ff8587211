import tvm
from tvm.script import tir as T


@tvm.script.ir_module
class MmRelu:
    @T.prim_func
    def main(
        A: T.Buffer[(32, 16), "float32"],
        B: T.Buffer[(16, 24), "float32"],
        C: T.Buffer[(32, 24), "float32"],
    ):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        Y = T.alloc_buffer((32, 24), "float32")
        for i, j, k in T.grid(32, 24, 16):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 24):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def scheduled(sch: tvm.tir.Schedule):
    product = sch.get_block("Y")
    i, j, k = sch.get_loops(product)
    outer, inner = sch.split(j, factors=[None, 8])
    sch.reorder(i, outer, k, inner)
    sch.decompose_reduction(product, k)


if __name__ == "__main__":
    sch = tvm.tir.Schedule(MmRelu)
    scheduled(sch)
    print(tvm.build(sch.mod, target="llvm -num-cores=4").get_source())
