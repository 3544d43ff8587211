"""Another project takes our transforms along: only the wheel, a kernel and names of its own."""

from pathlib import Path

SCRIPT = """
import numpy as np
import tvm
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.transforms import (
    accumulate_in_registers,
    cache_read_at,
    decompose_reduction_at,
    fetch_cooperatively,
    pad_shared_rows,
    split_reduction,
    tile_block,
)


@I.ir_module
class Theirs:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((40, 24)), B: T.Buffer((24, 56)), C: T.Buffer((40, 56))):
        for i, j, k in T.grid(40, 56, 24):
            with T.sblock("theirs"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]


sch = Schedule(Theirs, debug_mask="all")
block = sch.get_sblock("theirs")
tile = tile_block(sch, block, threads=(8, 4), per_thread=(1, 2))
accumulate_in_registers(sch, block, tile.threads[1])
steps = split_reduction(sch, block, inner=8)
for operand in (0, 1):
    copy = cache_read_at(sch, block, steps.outer, operand=operand)
    pad_shared_rows(sch, copy, elements=4)
    fetch_cooperatively(sch, copy, threads=(8, 4), vector=2)
decompose_reduction_at(sch, block, steps.outer)
source = tvm.compile(sch.mod, target="nvidia/nvidia-h100").mod.imports[0].inspect_source()
assert "__shared__" in source and "float2" in source, source

from tirstep.lowering_checks.devices import CpuDevice

a, b = np.arange(40 * 24) % 7, np.arange(24 * 56) % 5
a, b = a.reshape(40, 24).astype("float32"), b.reshape(24, 56).astype("float32")
c = CpuDevice().compile(sch.mod)([a, b, np.full((40, 56), np.nan, "float32")])[2]
assert np.array_equal(c, a @ b)

import tirstep.transforms

print(tirstep.transforms.__file__)
"""


def test_a_script_with_the_wheel_alone_schedules_its_own_kernel(installed_wheel, tmp_path: Path):
    script = tmp_path / "theirs.py"
    script.write_text(SCRIPT)
    where = Path(installed_wheel.run(script).strip().splitlines()[-1])
    assert installed_wheel.folder in where.parents
