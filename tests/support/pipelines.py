"""Matmuls whose tiles are copied ahead, asynchronously, for tests of the simulator."""

from __future__ import annotations

import tvm
from tvm.s_tir import Schedule

from tirstep.lowering_checks import run_recipe
from tirstep.modules import matmul
from tirstep.transforms import (
    accumulate_in_registers,
    set_pass_option,
    split_reduction,
    tile_block,
)
from tirstep.transforms.recipes import RECIPES


def asynchronous_matmul(*, stages: int) -> tvm.IRModule:
    """Float32, by TVM's own verbs: 4×8 threads with 4×2 sums each, 8 steps of k at once."""
    sch = Schedule(matmul(32, 32, 40))
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(4, 8), per_thread=(4, 2))
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=8)
    for operand in (0, 1):
        copy = sch.cache_read(block, operand, "shared.dyn")
        sch.compute_at(copy, steps.outer)
        elements = sch.fuse(*sch.get_loops(copy)[-2:])
        _, row, column, lanes = sch.split(elements, [None, 4, 8, 4])
        sch.bind(row, "threadIdx.y")
        sch.bind(column, "threadIdx.x")
        sch.vectorize(lanes)
    sch.decompose_reduction(block, steps.outer)
    sch.annotate(steps.outer, "software_pipeline_stage", [0, 0, stages - 1])
    sch.annotate(steps.outer, "software_pipeline_order", [0, 1, 2])
    sch.annotate(steps.outer, "software_pipeline_async_stages", [0])
    for name in ("tirx.use_async_copy", "tirx.disable_storage_rewrite"):
        set_pass_option(sch, name=name, value=True)
    return sch.mod


def tensor_core_matmul(*, stages: int) -> tvm.IRModule:
    """64×64 tiles of four warps with 32×32 each; 32 steps of k at once, by ldmatrix and mma."""
    config = {"tile": (64, 64), "warp": (32, 32), "tile_k": 32, "stages": stages}
    shape = {"m": 64, "n": 64, "k": 128}
    options = {"dtype": "float16"}
    run = run_recipe(RECIPES["matmul_mma_async"], shape, options=options, config=config)
    return run.steps[-1].module
