"""Programs in the forms of tutorials, issues and forum posts of 2021 to 2025, for TVM of their time."""

VECTOR_ADD = """
import numpy as np
import tvm
from tvm.ir.module import IRModule
from tvm.script import tir as T


@tvm.script.ir_module
class VectorAdd:
    @T.prim_func
    def main(A: T.Buffer[(96,), "float32"], B: T.Buffer[(96,), "float32"], C: T.Buffer[(96,), "float32"]):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in range(96):
            with T.block("C"):
                vi = T.axis.spatial(96, i)
                C[vi] = A[vi] + B[vi]


sch = tvm.tir.Schedule(VectorAdd)
i, = sch.get_loops(sch.get_block("C"))
i0, i1 = sch.split(i, factors=[None, 32])
sch.bind(i0, "blockIdx.x")
sch.bind(i1, "threadIdx.x")
assert isinstance(sch.mod, IRModule)
built = tvm.build(VectorAdd, target="llvm")
a = tvm.nd.array(np.arange(96, dtype="float32"))
b = tvm.nd.array(np.ones(96, dtype="float32"))
c = tvm.nd.array(np.zeros(96, dtype="float32"))
built["main"](a, b, c)
np.testing.assert_allclose(c.asnumpy(), a.asnumpy() + 1)
print(built.time_evaluator(built.entry_name, tvm.cpu(), number=1)(a, b, c).mean)
"""
HANDLES = """
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [24, 16])
    B = T.match_buffer(b, [20, 16], dtype="float32")
    C = T.match_buffer(c, (24, 20), "float32")
    for i, j, k in T.grid(24, 20, 16):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


def tiled(sch: tir.Schedule):
    i, j, k = sch.get_loops(sch.get_block("update"))
    io, ii = sch.split(i, [None, 8])
    sch.reorder(io, j, k, ii)
    sch.decompose_reduction(sch.get_block("update"), j)
"""
PRINTED = """
# from tvm.script import ir as I
# from tvm.script import tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((16, 24), "float32"), B: T.Buffer((16,), "float32")):
        T.func_attr({"global_symbol": "main", "tir.is_scheduled": T.bool(True), "tir.noalias": T.bool(True)})
        # with T.block("root"):
        B_local = T.alloc_buffer((16,), scope="local")
        for i in T.thread_binding(16, thread="threadIdx.x"):
            for k in range(24):
                with T.block("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(A[vi, vk])
                    T.writes(B_local[vi])
                    T.block_attr({"tag": 1})
                    with T.init():
                        B_local[vi] = T.float32(0)
                    B_local[vi] = B_local[vi] + A[vi, vk]
            with T.block("B_local"):
                v0 = T.axis.spatial(16, i)
                T.reads(B_local[v0])
                T.writes(B[v0])
                B[v0] = B_local[v0]
"""
OPEN_SIZES = """
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Rows:
    @T.prim_func
    def main(var_x: T.handle, var_y: T.handle):
        T.func_attr({"tir.noalias": T.bool(True)})
        n = T.int64(is_size_var=True)
        m = T.int64()
        x = T.match_buffer(var_x, (n, m))
        y = T.match_buffer(var_y, (n,))
        for i, k in T.grid(n, m):
            with T.block("y"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    y[vi] = T.min_value("float32")
                y[vi] = T.max(y[vi], x[vi, vk])
"""
GATHER = """
from tvm.script import tir as T


@T.prim_func
def gather(table: T.Buffer((32, 8), "float32"), at: T.Buffer((12,), "int32"), out: T.Buffer((12, 8), "float32")):
    for i, j in T.grid(12, 8):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            row = at[vi]
            column: T.int32 = (vj + 1) % 8
            out[vi, vj] = table[row, column]
"""
LOWERED = """
import tvm
from tvm.script import tir as T


@T.prim_func
def reverse(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.func_attr({"tir.noalias": True})
    bx = T.launch_thread("blockIdx.x", 4)
    shared = T.allocate([64], "float32", "shared")
    tx = T.launch_thread("threadIdx.x", 64)
    staged = T.Buffer((64,), data=shared, scope="shared")
    staged[tx] = A[bx * 64 + tx]
    T.tvm_storage_sync("shared")
    B[bx * 64 + tx] = staged[63 - tx]
"""
TARGETS = """
import tvm
from tvm.script import ir as I, tir as T


@I.ir_module
class Scale:
    @T.prim_func
    def main(A: T.Buffer((40,), "float16"), B: T.Buffer((40,), "float32")):
        for i in T.serial(0, 40):
            with T.block("B"):
                v = T.axis.S(40, i)
                B[v] = T.cast(A[v], "float32") * T.float32(2)


target = tvm.target.Target("llvm -mcpu=generic -num-cores=4")
with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True, "tir.UnrollLoop": {"auto_max_step": 4}}):
    lib = tvm.build(Scale, target=target)
text = lib.get_source()
kernels = lib.imported_modules
"""
TYPED = """
from tvm.script import tir as T
from tvm.tir import PrimFunc, Schedule
from tvm.tir.schedule import BlockRV, LoopRV


@T.prim_func
def add_one(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in T.serial(64):
        with T.block("B"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] + 1


def find(sch: Schedule, name: str) -> BlockRV:
    block: BlockRV = sch.get_block(name)
    return block


def vectorized(sch: Schedule):
    loop: LoopRV = sch.get_loops(find(sch, "B"))[0]
    sch.vectorize(sch.split(loop, [None, 4])[1])


assert isinstance(add_one, PrimFunc)
"""
SOURCE = """
import tvm

mod = tvm.script.from_source('''
@tvm.script.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer[(48,), "float32"], B: T.Buffer[(48,), "float32"]):
        for i in T.serial(48):
            with T.block("B"):
                v = T.axis.spatial(48, i)
                B[v] = T.sqrt(A[v] * A[v])
''')
assert tvm.ir.structural_equal(mod, mod)
"""
CONVOLUTION = """
from tvm.script import tir
import tvm


@tir.prim_func
def conv1d(x: tir.Buffer((4, 30), "float32"), w: tir.Buffer((6, 4, 3), "float32"), y: tir.Buffer((6, 30), "float32")):
    tir.func_attr({"tir.noalias": True})
    padded = tir.alloc_buffer((4, 32), "float32")
    for c, i in tir.grid(4, 32):
        with tir.block("padded"):
            vc, vi = tir.axis.remap("SS", [c, i])
            before = vi - 1
            padded[vc, vi] = tir.if_then_else(1 <= vi and vi < 31, x[vc, before], tir.float32(0), dtype="float32")
    for o, i, c, k in tir.grid(6, 30, 4, 3):
        with tir.block("y"):
            vo, vi, vc, vk = tir.axis.remap("SSRR", [o, i, c, k])
            with tir.init():
                y[vo, vi] = tir.float32(0)
            y[vo, vi] = y[vo, vi] + padded[vc, vi + vk] * w[vo, vc, vk]
"""
DLIGHT = """
import tvm
from tvm import dlight as dl
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Twice:
    @T.prim_func
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
        for i in range(128):
            with T.block("B"):
                v = T.axis.spatial(128, i)
                B[v] = A[v] * T.float32(2)


with tvm.target.Target("nvidia/geforce-rtx-3090"):
    scheduled = dl.ApplyDefaultSchedule(dl.gpu.Fallback())(Twice)
"""
TUNED = """
import tvm
from tvm import meta_schedule as ms
from tvm.script import tir as T


@T.prim_func
def total(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")) -> None:
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i, k in T.grid(8, 32):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.block_attr({"schedule_rule": "None"})
            with T.init():
                B[vi] = 0.0
            B[vi] = B[vi] + A[vi, vk]


def tune(work_dir):
    return ms.tune_tir(total, target="llvm", work_dir=work_dir, max_trials_global=8)


def across_threads(sch):
    block = sch.get_block("B")
    i, k = sch.get_loops(block)
    _, inner = sch.split(k, [None, 8])
    factored = sch.rfactor(inner, 0)
    assert sch.get(factored) is not None
"""
PASSES = """
import tvm
from tvm.script import tir as T


@T.prim_func
def fill(A: T.Buffer((10,), "int32")):
    for i in range(10):
        A[i] = i * 2 + 0


@tvm.tir.transform.prim_func_pass(opt_level=0)
class Renamed:
    def transform_function(self, func, mod, ctx):
        return func.with_attr("renamed", 1)


mod = tvm.transform.Sequential([Renamed(), tvm.tir.transform.Simplify(), tvm.tir.transform.LowerInitBlock()])(
    tvm.IRModule({"fill": fill})
)
one = tvm.arith.Analyzer().simplify(tvm.tir.IntImm("int32", 1))
"""
REGISTERED = """
import tvm
import tvm.tir.tensor_intrin
from tvm.contrib import nvcc, utils
from tvm.script import tir as T


@tvm.register_func("old.noted", override=True)
def noted(code):
    return nvcc, utils.tempdir(), tvm._ffi.get_global_func("old.noted")


@T.prim_func
def negate(A: T.Buffer((20,), "float32"), B: T.Buffer((20,), "float32")):
    for i in T.parallel(20):
        with T.block("B"):
            vi = T.axis.spatial(20, i)
            B[vi] = -A[vi]
"""
DEVICES = """
import numpy as np
import tvm
import tvm.tir as tir
from tvm.script import tir as T


@T.prim_func
def scan(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    with T.block("scan"):
        B[0] = A[0]
        for i in range(15):
            B[i + 1] = B[i] + A[i + 1]


def main():
    func = tvm.build(scan, "cuda -arch=sm_80")
    dev = tvm.gpu(0)
    a: tvm.nd.NDArray = tvm.nd.empty((16,), "float32", dev)
    func(tvm.nd.array(np.zeros(16, "float32"), dev), a)
    print(func.imported_modules[0].get_source(), a.asnumpy(), tir.Schedule, tir.PrimFunc)


if __name__ == "__main__":
    main()
"""
SCHEDULED_TENSORS = """
import tvm
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute(A.shape, lambda i: A[i] + 1.0, name="B")
s = te.create_schedule(B.op)
outer, inner = s[B].split(B.op.axis[0], factor=64)
s[B].bind(outer, te.thread_axis("blockIdx.x"))
print(tvm.lower(s, [A, B], simple_mode=True))
fadd = tvm.build(s, [A, B], "cuda", target_host="llvm", name="myadd")
"""
MODELS = """
import tvm
from tvm import autotvm, relay
from tvm.contrib import graph_executor


def compile_model(mod, params):
    with tvm.transform.PassContext(opt_level=3, config={"tir.usmp.enable": True}):
        lib = relay.build(mod, target=tvm.target.cuda(), params=params)
    return graph_executor.GraphModule(lib["default"](tvm.cpu()))
"""
BUILT_BY_HAND = """
import tvm
from tvm.script import tir as T

ib = tvm.tir.ir_builder.create()


def visit(func, names):
    tvm.tir.stmt_functor.post_order_visit(func.body, lambda node: names.append(node.name_hint))


@T.prim_func
def early(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (8, 8))
    C = T.match_buffer(c, (8, 8))
    with T.block([8, 8], "C") as [vi, vj]:
        C[vi, vj] = A[vi, vj]
    for i in T.serial(2):
        C[i, 0:8] = A[i, 0:8]
    T.store(C.data, 0, T.float32(1), True)
"""
RELAX = """
from tvm import relax
from tvm.script import ir as I, relax as R, tir as T


@I.ir_module
class Net:
    @T.prim_func
    def row_max(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"op_pattern": 4, "tir.noalias": T.bool(True)})
        for i0, i1 in T.grid(8, 16):
            with T.block("B"):
                v0, v1 = T.axis.remap("SR", [i0, i1])
                T.reads([A[v0, v1]])
                T.writes([B[v0]])
                with T.init():
                    B[v0] = T.float32("-inf")
                B[v0] = T.max(B[v0], A[v0, v1])

    @R.function
    def main(x: R.Tensor((8, 16), "float32")) -> R.Tensor((8,), "float32"):
        cls = Net
        with R.dataflow():
            y = R.call_tir(cls.row_max, (x,), out_sinfo=R.Tensor((8,), dtype="float32"))
            R.output(y)
        return y


def build():
    return relax.VirtualMachine(relax.vm.build(Net, "llvm"), relax.TensorStructInfo)
"""
COMPILED = {
    "vector_add": VECTOR_ADD,
    "handles": HANDLES,
    "printed": PRINTED,
    "open_sizes": OPEN_SIZES,
    "gather": GATHER,
    "lowered": LOWERED,
    "targets": TARGETS,
    "typed": TYPED,
    "source": SOURCE,
    "convolution": CONVOLUTION,
    "dlight": DLIGHT,
    "tuned": TUNED,
    "passes": PASSES,
    "registered": REGISTERED,
    "devices": DEVICES,
    "relax": RELAX,
}
"""Those that compile as `tirstep modernize` writes them."""
MARKED = {
    "scheduled_tensors": (
        SCHEDULED_TENSORS,
        [
            "8: TVM 0.27 has no te.create_schedule; make a PrimFunc of the tensors with "
            "tvm.te.create_prim_func, and schedule it with tvm.s_tir.Schedule",
            "11: TVM 0.27 has no tvm.lower; tvm.compile lowers by itself; tirstep lower shows every "
            "pass",
            "12: tvm.compile takes no name; give an IRModule, with it",
            '12: tvm.compile takes no target_host; give target=tvm.target.Target(TARGET, host="llvm")',
            "12: tvm.compile takes only a module; make a PrimFunc of the tensors with "
            "tvm.te.create_prim_func, and schedule it with tvm.s_tir.Schedule",
        ],
    ),
    "models": (
        MODELS,
        [
            "3: TVM 0.27 has no tvm.autotvm; tune with tvm.s_tir.meta_schedule, or schedule by hand",
            "3: TVM 0.27 has no tvm.relay; models are now tvm.relax's",
            "4: TVM 0.27 has no tvm.contrib.graph_executor; models run on a "
            "tvm.relax.VirtualMachine",
            "8: TVM 0.27 has no option or attribute tir.usmp.enable",
            '9: TVM 0.27 has no tvm.target.cuda; write tvm.target.Target({"kind": "cuda", "arch": '
            '"sm_80"})',
        ],
    ),
    "built_by_hand": (
        BUILT_BY_HAND,
        [
            "5: TVM 0.27 has no tvm.tir.ir_builder.create; write the loops as a @T.prim_func",
            "9: TVM 0.27 has no tvm.tir.stmt_functor.post_order_visit; walk with "
            "tvm_ffi.structural_walk, change with tvm_ffi.structural_map",
            "9: for a variable this is .name now; for a GlobalVar it stays",
            "16: write the axes in the block, as vi = T.axis.spatial(n, i)",
            "19: write the elements one by one, in a loop of T.vectorized",
            "20: TVM 0.27 has no T.store; write BUFFER[INDEX] = VALUE",
        ],
    ),
}
"""Those that need a decision, with the lines that are marked."""
