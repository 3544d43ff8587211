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
    def main(
        heads: T.Buffer((3, 40, 24), "float32"),
        keys: T.Buffer((3, 56, 24), "float32"),
        scores: T.Buffer((3, 40, 56), "float32"),
    ):
        for head, query, key, depth in T.grid(3, 40, 56, 24):
            with T.sblock("attention_scores"):
                vh, vq, vk, vd = T.axis.remap("SSSR", [head, query, key, depth])
                with T.init():
                    scores[vh, vq, vk] = T.float32(0)
                scores[vh, vq, vk] = scores[vh, vq, vk] + heads[vh, vq, vd] * keys[vh, vk, vd]


sch = Schedule(Theirs, debug_mask="all")
block = sch.get_sblock("attention_scores")
tile = tile_block(sch, block, threads=(1, 8, 4), per_thread=(1, 1, 2))
accumulate_in_registers(sch, block, tile.threads[2])
steps = split_reduction(sch, block, inner=8)
for operand in (0, 1):
    copy = cache_read_at(sch, block, steps.outer, operand=operand)
    pad_shared_rows(sch, copy, elements=4)
    fetch_cooperatively(sch, copy, threads=(1, 8, 4), vector=2)
decompose_reduction_at(sch, block, steps.outer)
source = tvm.compile(sch.mod, target="nvidia/nvidia-h100").mod.imports[0].inspect_source()
assert "__shared__" in source and "float2" in source, source

from tirstep.lowering_checks.devices import CpuDevice

generator = np.random.default_rng(1)
heads = generator.integers(-4, 5, (3, 40, 24)).astype("float32")
keys = generator.integers(-4, 5, (3, 56, 24)).astype("float32")
blank = np.full((3, 40, 56), np.nan, "float32")
scores = CpuDevice().compile(sch.mod)([heads, keys, blank])[2]
assert np.array_equal(scores, heads @ keys.transpose(0, 2, 1))

import tirstep.transforms

print(tirstep.transforms.__file__)
"""


def test_a_script_with_the_wheel_alone_schedules_its_own_kernel(installed_wheel, tmp_path: Path):
    script = tmp_path / "theirs.py"
    script.write_text(SCRIPT)
    where = Path(installed_wheel.run(script).strip().splitlines()[-1])
    assert installed_wheel.folder in where.parents
