"""tirstep's own passes as experiments, with the modules that they change, and goldens of that.

``python tests/support/own_passes.py`` writes the goldens anew.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from golden_runs import run_golden
from masked_sums import bind_masked_sum, make_masked_sum, see
from mma_by_tma import MMA_BY_TMA, MMA_IN_ROLES
from tvm.s_tir import SBlock, Schedule
from tvm_ffi import structural_map

from tirstep.experiments import Declaration, Edit, Experiment, Subject, list_steps, try_change
from tirstep.experiments.editing import get_pass as make_pass
from tirstep.experiments.trying import make_subject
from tirstep.files import write_file
from tirstep.lowering_checks.steps import Run, run_recipe
from tirstep.modules import row_sum, softmax
from tirstep.transforms import pipeline
from tirstep.transforms.masked_loops import split_loop_at_mask
from tirstep.transforms.pass_options import KEY
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.row_ladders import RowConfig, schedule_rows
from tirstep.transforms.tir import replace_fields

GOLDENS = Path(__file__).resolve().parents[1] / "golden_passes"
EXACT = "changes no bits"
DECLARED = {
    "DropDoubledBarriers": Declaration(
        "before", "s_tir.LowerThreadAllreduce", (EXACT, "drops barriers only", "is idempotent")
    ),
    "DropRedundantBarriers": Declaration(
        "before", "s_tir.LowerThreadAllreduce", (EXACT, "drops barriers only", "is idempotent")
    ),
    "DropThreadDimensions": Declaration(
        "before", "tirx.FlattenBuffer", (EXACT, "adds no barriers", "is idempotent")
    ),
    "DropImpliedConditions": Declaration(
        "before", "tirx.FlattenBuffer", (EXACT, "adds no barriers")
    ),
    "EndLoopsAtMasks": Declaration(
        "before", "s_tir.LowerInitBlock", (EXACT, "adds no barriers", "is idempotent")
    ),
    "ExchangeByButterflies": Declaration(
        "before", "s_tir.MergeSharedMemoryAllocations", (EXACT, "adds no barriers")
    ),
    "FuseMarkedKernels": Declaration("before", "tirx.FlattenBuffer", (EXACT, "is idempotent")),
    "LowerTmaPipelines": Declaration(
        "before", "s_tir.InjectPermutedLayout", (EXACT, "is idempotent")
    ),
    "LowerTmaStores": Declaration("before", "s_tir.InjectPermutedLayout", (EXACT, "is idempotent")),
    "SplitGuardedVectors": Declaration(
        "before", "tirx.FlattenBuffer", (EXACT, "adds no barriers", "is idempotent")
    ),
    "SplitLoopsAtMasks": Declaration("before", "s_tir.LowerOpaqueBlock", (EXACT, "is idempotent")),
}
"""By name, in `tirstep.transforms.pipeline`."""
CHANGED = {
    "DropDoubledBarriers": ("matmul_wgmma_async",),
    "DropRedundantBarriers": ("matmul_prefetched",),
    "DropThreadDimensions": ("row_sum_vectors", "softmax_vectors"),
    "DropImpliedConditions": ("depthwise_conv2d_strips",),
    "EndLoopsAtMasks": ("attention_causal_ended",),
    "ExchangeByButterflies": (),
    "FuseMarkedKernels": (),
    "LowerTmaPipelines": (),
    "LowerTmaStores": ("matmul_wgmma",),
    "SplitGuardedVectors": ("vector_add_vectors", "relu_vectors"),
    "SplitLoopsAtMasks": (),
}
"""Recipes whose last steps they change, in TVM's own pipeline; none of a pass that needs another's
work there, which has a subject of its own.
"""


def get_pass(name: str) -> object:
    """The pass of a name."""
    return getattr(pipeline, name)


def list_subjects(name: str) -> list[Subject]:
    """The last steps of its recipes, which ask for TVM's own pipeline, or a masked sum."""
    if name == "SplitLoopsAtMasks":
        return [ask_for_default(make_subject("masked_sum", split_masked_sum()))]
    if name == "LowerTmaPipelines":
        runs = map(run_golden, (MMA_BY_TMA, MMA_IN_ROLES))
        return [ask_for_default(list(list_steps(run))[-1]) for run in runs]
    if name == "FuseMarkedKernels":
        return [ask_for_default(make_subject("softmax", share_rows_in_clusters()))]
    if name == "ExchangeByButterflies":
        return [ask_for_default(make_subject("row_sums", sum_by_lanes()))]
    return [ask_for_default(list(list_steps(run_guarded(each)))[-1]) for each in CHANGED[name]]


def ask_for_default(subject: Subject) -> Subject:
    """The subject in TVM's own pipeline, where it asks for another."""

    def drop(block: Any) -> Any:
        kept = {key: value for key, value in block.annotations.items() if str(key) != KEY}
        if len(kept) == len(block.annotations):
            return block
        return replace_fields(block, annotations=kept)

    functions = {
        name: structural_map(function, (SBlock, drop))
        for name, function in subject.module.functions_items()
    }
    return replace(subject, module=tvm.IRModule(functions))


def split_masked_sum() -> tvm.IRModule:
    """A sum up to the diagonal, of which whole tiles need no mask."""
    sch = Schedule(make_masked_sum(see))
    split_loop_at_mask(sch, bind_masked_sum(sch))
    return sch.mod


def sum_by_lanes() -> tvm.IRModule:
    """Sums of rows by four lanes each."""
    sch = Schedule(row_sum(6, 4))
    row, lane = sch.get_loops(sch.get_sblock("B"))
    sch.bind(lane, "threadIdx.x")
    sch.bind(row, "threadIdx.y")
    return sch.mod


def share_rows_in_clusters() -> tvm.IRModule:
    """Softmax of rows whose parts are the blocks of a cluster."""
    sch = Schedule(softmax(2, 32))
    config = RowConfig(threads=4, vector=4, in_registers=True, parts=2, clusters=True, tail="guard")
    list(schedule_rows(sch, config))
    return sch.mod


def run_guarded(name: str) -> Run:
    """The golden run; of vectors of elements, at a size that they do not divide, with a guard, and
    of rows, element by element; of wgmma, a tile that the TMA stores.
    """
    recipe = RECIPES[name]
    if name == "matmul_wgmma":  # by its own steps, which need no other pass of ours
        options = {**recipe.golden.options, "out": "float16"}
        return run_recipe(
            recipe,
            {"m": 64, "n": 32, "k": 64},
            options=options,
            config={**recipe.golden.config, "store": "tma"},
        )
    if not name.endswith("_vectors"):
        return run_golden(recipe)
    if "m" in recipe.golden.shape:
        config = {**recipe.golden.config, "vector": 1}
        return run_recipe(recipe, recipe.golden.shape, config=config)
    return run_recipe(recipe, {"n": 1003}, config={**recipe.golden.config, "tail": "guard"})


def make_golden(name: str) -> str:
    """What a pass does to its modules, as diffs; without the target of the host."""
    declared = DECLARED[name]
    edit = Edit(declared.place, declared.anchor, make_pass(get_pass(name), name))
    parts = []
    experiment = Experiment(name, edit)
    for subject in list_subjects(name):
        trial = try_change(experiment, subject)
        parts.append(f"# {subject.label}: {trial.status}\n{trial.diff or ''}\n")
    return re.sub(r'"host": {[^{}]*}, ', "", "".join(parts))


if __name__ == "__main__":
    GOLDENS.mkdir(exist_ok=True)
    for _name in DECLARED:
        write_file(GOLDENS / f"{_name}.diff", make_golden(_name))
