"""The programs that mutants are made of, small and right."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import Run, run_golden, run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.transforms import bind_loop, split_loop
from tirstep.transforms.recipes import RECIPES, Example, Recipe, recipe

from .pipelined import matmul_asynchronous, matmul_prefetched
from .plant import Edit
from .tensor_cores import run_by_warp


@recipe(
    kernel="matmul",
    blocks=("C",),
    seed=Example({"m": 4, "n": 6, "k": 128}),
    golden=Example({"m": 4, "n": 6, "k": 128}),
)
def matmul_sum_over_threads(sch: Schedule) -> Iterator[str]:
    """One element of C for each block, its sum over two warps: TVM lowers that to shuffles."""
    i, j, k = sch.get_loops(sch.get_sblock("C"))
    bind_loop(sch, i, axis="blockIdx.y")
    bind_loop(sch, j, axis="blockIdx.x")
    bind_loop(sch, split_loop(sch, k, inner=64).inner, axis="threadIdx.x")
    yield "bound"


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
# At the shapes of their goldens these recipes would not show what is planted.
_ELSEWHERE: dict[str, Callable[[], Run]] = {
    "matmul_sum_over_threads": lambda: run_golden(matmul_sum_over_threads),
    "matmul_prefetched": lambda: run_golden(matmul_prefetched),
    "matmul_asynchronous": lambda: run_golden(matmul_asynchronous),
    TENSOR_CORES: run_by_warp,
    "matmul_naive, square": lambda: run_recipe(RECIPES["matmul_naive"], {"m": 16, "n": 16, "k": 8}),
    "matmul_naive, int8": lambda: run_recipe(
        RECIPES["matmul_naive"], {"m": 12, "n": 10, "k": 24}, options={"dtype": "int8"}
    ),
    "matmul_registers, float16": lambda: run_recipe(
        RECIPES["matmul_registers"],
        {"m": 32, "n": 16, "k": 64},
        options={"dtype": "float16", "out": "float16"},
        sizes={"rows": 16, "columns": 8},
    ),
    "matmul_shared, deep": lambda: run_recipe(
        RECIPES["matmul_shared"],
        {"m": 32, "n": 32, "k": 256},
        sizes={"rows": 32, "columns": 32, "tile_k": 32},
    ),
    "vector_add_bound, longer": lambda: run_recipe(
        RECIPES["vector_add_bound"], {"n": 70000}, sizes={"threads": 100}
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
        return Original(_ELSEWHERE[name](), has_golden=False, is_for_gpu=name == TENSOR_CORES)
    return Original(run_golden(RECIPES[name]), has_golden=True)


@functools.cache
def find_lowered(name: str) -> tvm.IRModule:
    """An original's lowered module, printed and parsed again as its mutants are."""
    return _parse(lower(find_original(name).module).script())


def edit_module(module: tvm.IRModule, edits: Sequence[Edit]) -> tvm.IRModule:
    """The module whose text is the edited one."""
    return _parse(apply_all(edits, module.script()))


def _parse(text: str) -> tvm.IRModule:
    """The module of a printed text.

    TVM prints ldmatrix without its type, and writes CUDA for int8 where it is parsed without one.
    """
    return from_source(re.sub(r"(\.ldmatrix\(.*)\)$", r'\1, dtype="float16")', text, flags=re.M))


def edit_recipe(run: Run, edits: Sequence[Edit]) -> Run:
    """The run of the recipe whose own text is edited, as somebody would edit it."""
    one: Recipe = run.recipe
    source = inspect.getsource(one.body)
    text = apply_all(edits, source[source.index("\ndef ") + 1 :])
    names: dict[str, Any] = dict(vars(inspect.getmodule(one.body)))
    exec("from __future__ import annotations\n" + text, names)
    edited = replace(one, body=names[one.body.__name__])
    steps = edited.run(Schedule(run.problem.module), **run.sizes)
    return replace(run, steps=(run.steps[0], *steps))


def apply_all(edits: Sequence[Edit], text: str) -> str:
    """The text after all edits."""
    for edit in edits:
        text = edit.apply(text)
    return text
