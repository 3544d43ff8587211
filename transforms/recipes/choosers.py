"""The recipes whose configs a model of time chooses, and what each chooses for a shape."""

from __future__ import annotations

from typing import NamedTuple

from tvm.s_tir import Schedule

from . import gemm_best, mma, skinny, wgmma
from .gpus import Gpu
from .skinny import SkinnyConfig
from .time_model import Rank

_RANKS: dict[str, Rank] = {
    "wgmma": wgmma.rank_configs,
    "mma": mma.rank_configs,
    "": gemm_best.rank_configs,
}
"""By the word that recipes have between their kernel and "best"; what is fastest comes first."""


class Chooser(NamedTuple):
    """The name of a recipe, and the configs that it chooses among, fastest first.

    Attributes
    ----------
    table : the name of its table of searches
    """

    recipe: str
    rank: Rank
    table: str


def list_choosers(kernel: str) -> list[Chooser]:
    """The choosers of a kernel; their recipes are for some types or GPUs only."""
    from . import RECIPES

    found = []
    for kind, rank in _RANKS.items():
        words = [word for word in (kernel, kind, "best") if word]
        name = "_".join(words)
        # Of products; but for conv2d, whose product is none of its sizes.
        if name in RECIPES and "matmul" in kernel:
            table = "matmul" if kernel.startswith("matmul") else kernel
            found.append(Chooser(name, rank, "_".join(filter(None, (table, kind)))))
    return found


def choose_few_rows(recipe: str, sch: Schedule, gpu: Gpu) -> SkinnyConfig | None:
    """The config of the ladder matmul_skinny that a recipe takes in place of a tile, if any."""
    if recipe == "matmul_best":
        return gemm_best.choose_few_rows(sch, gpu)
    read = {"matmul_mma_best": mma.read_sizes_of, "matmul_wgmma_best": wgmma.read_sizes_of}
    return skinny.choose_for_odd_rows(sch, read[recipe](sch), gpu) if recipe in read else None
