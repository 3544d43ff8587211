"""Files as a user of tirstep has them: modules, schedules, kernels, passes, a database."""

from pathlib import Path

from kernels import write_function
from tvm.s_tir import Schedule, meta_schedule
from tvm.script import from_source
from tvm.target import Target

HEAD = "from tvm.script import ir as I\nfrom tvm.script import tirx as T\n"
FUNCTION = """@T.prim_func(s_tir=True)
def NAME(A: T.Buffer((SIZE,), "float32"), C: T.Buffer((SIZE,), "float32")):
    for i in range(SIZE):
        with T.sblock("C"):
            vi = T.axis.spatial(SIZE, i)
            C[vi] = A[vi] + A[vi]
"""


def indent(text: str) -> str:
    """One level deeper."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def make_function(name: str, size: int = 8) -> str:
    """A function that adds a vector to itself."""
    return FUNCTION.replace("NAME", name).replace("SIZE", str(size))


def make_module(name: str, text: str) -> str:
    """A module of one function, which `kernels.write_function` reads."""
    return f"@I.ir_module\nclass {name}:\n{write_function('main', text)}\n\n"


MODULE = f"@I.ir_module\nclass Mine:\n{indent(make_function('main'))}"
TILED = '''
def tiled(sch: Schedule, *, threads: int = 2):
    """Threads of a vector."""
    (loop,) = sch.get_loops(sch.get_sblock("C"))
    outer, inner = sch.split(loop, [None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
'''
SQUARE = """
A (8, 8), C (8, 8)
i:8 j:8  C[i, j] = A[i, j] + A[i, j]
"""
SKIPS = f"""

{make_module("Square", SQUARE)}

def skips(sch):
    for loop in sch.get_loops(sch.get_sblock("C")):
        sch.bind(loop, "threadIdx.x")  # the diagonal alone is computed
"""
KERNEL = '''
import tvm
from tirstep.modules import kernel


@kernel(
    reference=lambda a, **_: a + a,
    flops=lambda n, **_: n,
    elements=lambda n, **_: n,
    accumulators={"float32": ("float32",), "float16": ("float16",)},
)
def twice(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """C = A + A."""

    @I.ir_module
    class Twice:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((n,), dtype), C: T.Buffer((n,), dtype)):
            for i in range(n):
                with T.sblock("C"):
                    vi = T.axis.spatial(n, i)
                    C[vi] = A[vi] + A[vi]

    return Twice
'''
RECIPES = '''
from typing import Literal
from tirstep.transforms import tile_block
from tirstep.transforms.recipes import Example, recipe

SMALL = Example({"n": 96}, config={"threads": 32})


@recipe(
    kernel="twice",
    blocks=("C",),
    default_example=Example({"n": 4096}),
    golden=SMALL,
    choices={"threads": (32, 64)},
)
def twice_bound(sch, *, threads: int = 128, tail: Literal["refuse", "guard"] = "refuse"):
    """An element for each thread."""
    tile_block(sch, sch.get_sblock("C"), threads=(threads,), tail=tail)
    yield "bound"
'''
NET = f"""
from tvm.script import relax as R


@I.ir_module
class net:
{indent(make_function("add"))}
{indent(make_function("relu").replace("A[vi] + A[vi]", "T.max(A[vi], T.float32(0))"))}
    @R.function
    def forward(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = net
        with R.dataflow():
            lv = R.call_tir(cls.add, (x,), out_ty=R.Tensor((8,), "float32"))
            lv1 = R.call_tir(cls.add, (lv,), out_ty=R.Tensor((8,), "float32"))
            lv2 = R.call_tir(cls.relu, (lv1,), out_ty=R.Tensor((8,), "float32"))
            R.output(lv2)
        return lv2


def each(sch):
    (loop,) = sch.get_loops(sch.get_sblock("C"))
    sch.bind(loop, "threadIdx.x")
"""
ARGMAX = """
from tirstep.transforms import bind_loop, split_loop
from tirstep.transforms.recipes import Example, recipe


@recipe(
    kernel="row_argmax",
    blocks=("best",),
    default_example=Example({"m": 6, "n": 40}),
    golden=Example({"m": 6, "n": 40}),
    choices={"threads": (2, 3)},
)
def argmax_rows(sch, *, threads=2):
    row, _ = sch.get_loops(sch.get_sblock("best"))
    outer, inner = split_loop(sch, row, inner=threads)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    yield "bound"
"""
"""A recipe of a kernel with two outputs."""
PASSES = """
from tvm.ir.transform import module_pass


@module_pass(opt_level=0)
def do_nothing(module, context):
    return module


@module_pass(opt_level=0)
class DoNothing:
    def transform_module(self, module, context):
        return module
"""


def write_programs(folder: Path) -> None:
    """`mine.py`, `mine_wrong.py`, `kern.py`, `net.py` and `everything.py`."""
    schedule = f"from tvm.s_tir import Schedule\n{TILED}"
    alone = KERNEL.split("\n\n\n")[1].replace("twice", "alone").replace("Twice", "Alone")
    (folder / "mine.py").write_text(f"{HEAD}\n\n{MODULE}\n\n{schedule}")
    (folder / "mine_wrong.py").write_text(f"{HEAD}{SKIPS}")
    (folder / "kern.py").write_text(f"{HEAD}{KERNEL}\n\n{alone}\n{RECIPES}")
    (folder / "net.py").write_text(f"{HEAD}{NET}")
    function = make_function("alone")
    parts = [KERNEL, RECIPES, MODULE, function, schedule, PASSES]
    (folder / "everything.py").write_text(HEAD + "\n\n".join(parts))


def write_database(folder: Path, function: str = "main") -> None:
    """MetaSchedule's, with one workload and two records, the slower one first."""
    folder.mkdir()
    module = from_source(MODULE.replace("main", function))
    database = meta_schedule.database.JSONDatabase(work_dir=str(folder))
    workload = database.commit_workload(module)
    for seconds, inner in ((2.0, 4), (1.0, 2)):
        sch = Schedule(module)
        sch.work_on(function)
        sch.split(sch.get_loops(sch.get_sblock("C", function))[0], [8 // inner, inner])
        arguments = meta_schedule.arg_info.ArgInfo.from_prim_func(module[function])
        record = meta_schedule.database.TuningRecord(
            sch.trace, workload, [seconds], Target("llvm"), arguments
        )
        database.commit_tuning_record(record)
