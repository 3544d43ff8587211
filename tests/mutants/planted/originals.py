"""The programs that mutants are made of, small and right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import Run, run_golden, run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.transforms.recipes import RECIPES

from .own_programs import (
    SHORT_SUM,
    TENSORIZED,
    decode_in_blocks,
    matmul_asynchronous,
    matmul_prefetched,
    matmul_sum_over_threads,
    run_by_warp,
    run_short_sum,
    run_tensorized,
)
from .plant import Edit, RecipeMutant
from .traces import TraceEdit, edit_trace


@dataclass(frozen=True)
class Original:
    """A run of a recipe.

    `has_golden` tells whether it is the one that tests/golden was made of, `is_for_gpu` whether it
    has instructions that no CPU has.
    """

    run: Run
    has_golden: bool
    is_for_gpu: bool = False

    @property
    def module(self) -> tvm.IRModule:
        """The module of the last step."""
        return self.run.steps[-1].module


TENSOR_CORES = "matmul on tensor cores"
_FOR_GPUS = (TENSOR_CORES, SHORT_SUM, TENSORIZED)
# At the shapes of their goldens these recipes would not show what is planted.
_ELSEWHERE: dict[str, Callable[[], Run]] = {
    "matmul_sum_over_threads": lambda: run_golden(matmul_sum_over_threads),
    "matmul_prefetched": lambda: run_golden(matmul_prefetched),
    "matmul_asynchronous": lambda: run_golden(matmul_asynchronous),
    "decode_in_blocks": lambda: run_golden(decode_in_blocks),
    TENSOR_CORES: run_by_warp,
    SHORT_SUM: run_short_sum,
    TENSORIZED: run_tensorized,
    "matmul_naive, square": lambda: run_recipe(RECIPES["matmul_naive"], {"m": 16, "n": 16, "k": 8}),
    "matmul_naive, int8": lambda: run_recipe(
        RECIPES["matmul_naive"], {"m": 12, "n": 10, "k": 24}, options={"dtype": "int8"}
    ),
    "matmul_registers, float16": lambda: run_recipe(
        RECIPES["matmul_registers"],
        {"m": 32, "n": 16, "k": 64},
        options={"dtype": "float16", "out": "float16"},
        config={"rows": 16, "columns": 8},
    ),
    "matmul_shared, deep": lambda: run_recipe(
        RECIPES["matmul_shared"],
        {"m": 32, "n": 32, "k": 256},
        config={"rows": 32, "columns": 32, "tile_k": 32},
    ),
    "vector_add_bound, longer": lambda: run_recipe(
        RECIPES["vector_add_bound"], {"n": 70000}, config={"threads": 100}
    ),
    "vector_add_bound, long": lambda: run_recipe(RECIPES["vector_add_bound"], {"n": 4096}),
    "depthwise_conv2d_naive, small": lambda: run_recipe(
        RECIPES["depthwise_conv2d_naive"], {"b": 2, "c": 2, "h": 4, "w": 8, "k": 3}
    ),
}


@functools.cache
def find_original(name: str) -> Original:
    """The original of a name: one of `_ELSEWHERE`, or a recipe's golden example."""
    if name in _ELSEWHERE:
        return Original(_ELSEWHERE[name](), has_golden=False, is_for_gpu=name in _FOR_GPUS)
    return Original(run_golden(RECIPES[name]), has_golden=True)


@functools.cache
def find_lowered(name: str) -> tvm.IRModule:
    """An original's lowered module, printed and parsed again as its mutants are."""
    return from_source(lower(find_original(name).module).script())


def edit_module(module: tvm.IRModule, edits: Sequence[Edit]) -> tvm.IRModule:
    """The module whose text is the edited one."""
    return from_source(apply_all(edits, module.script()))


def plant_in_recipe(run: Run, mutant: RecipeMutant) -> Run | None:
    """The run whose last step has the mistake; None of a mutant that makes no program.

    Raises `ScheduleError` where TVM refuses the mistake, too.
    """
    if mutant.trace:
        return replay(run, mutant.trace, mutant.primitives)
    if mutant.primitives is not None:
        sch = Schedule(run.steps[-1].module)
        mutant.primitives(sch)
        return _end_with(run, sch.mod)
    return run_with(run, mutant.config) if mutant.config else None


def replay(
    run: Run,
    edits: Sequence[TraceEdit] = (),
    primitives: Callable[[Schedule], object] | None = None,
) -> Run:
    """The run whose last step is made by its trace after all edits, and then by the primitives."""
    sch = Schedule(run.problem.module)
    edit_trace(run.steps, edits).apply_to_schedule(sch, remove_postproc=False)
    if primitives is not None:
        primitives(sch)
    return _end_with(run, sch.mod)


def _end_with(run: Run, module: tvm.IRModule) -> Run:
    return replace(run, steps=(*run.steps[:-1], replace(run.steps[-1], module=module)))


def run_with(run: Run, config: Mapping[str, object]) -> Run:
    """The same recipe at the same problem with some other knobs."""
    config = {**run.config, **config}
    return replace(run, config=config, steps=tuple(run.recipe.steps(run.problem.module, **config)))


def apply_all(edits: Sequence[Edit], text: str) -> str:
    """The text after all edits."""
    for edit in edits:
        text = edit.apply(text)
    return text
