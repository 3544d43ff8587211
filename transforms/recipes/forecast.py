"""What a model of time expects of any config of a family, of those too that nobody has measured.

The model has rates of some tiles; a config whose tile is none of them borrows those of the most
similar one. That is a guess, good enough to say which of some hundred configs to time first.
`list_choosers` has the recipes whose configs the model chooses by itself.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tvm import DataType
from tvm.s_tir import Schedule

from . import gemm_best, mma, skinny, wgmma, wgmma_tiles
from .costs import read_costs
from .gemm import GemmConfig
from .gpus import H200, Gpu
from .ladder import Rung
from .mma import MmaConfig
from .odd_rows import Config, choose_without_copies
from .recipe import Recipe
from .time_model import Costs, Product, Rank, TileRate, borrow_rates, choose
from .wgmma import WgmmaConfig


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
    for model in _MODELS.values():
        name = "_".join(filter(None, (kernel, model.kind, "best")))
        # Of products; but for conv2d, whose product is none of its sizes.
        if name in RECIPES and "matmul" in kernel:
            table = "matmul" if kernel.startswith("matmul") else kernel
            found.append(Chooser(name, model.rank, "_".join(filter(None, (table, model.kind)))))
    return found


def choose_instead(recipe: str, sch: Schedule, gpu: Gpu) -> Config | None:
    """The config of another ladder that a recipe takes in place of its tiles, if any: without tiles
    for few rows, and for wgmma those that read odd rows as they lie.
    """
    if recipe == "matmul_best":
        return gemm_best.choose_few_rows(sch, gpu)
    if recipe == "matmul_mma_best":
        return skinny.choose_for_odd_rows(sch, mma.read_sizes_of(sch), gpu)
    if recipe == "matmul_wgmma_best":
        return choose_without_copies(sch, wgmma.read_sizes_of(sch), wgmma.rank_configs, gpu)
    return None


_WARP = 32
_WARPGROUP = 128


class _Model(NamedTuple):
    """The model of a family.

    Attributes
    ----------
    kind : the word that recipes have between their kernel and "best"
    describe : the tile of a config, for elements of so many bytes, without its rates
    measured : the tiles whose rates are known, for elements of so many bytes
    costs : for elements of so many bytes, on a GPU
    """

    kind: str
    rank: Rank
    describe: Callable[[Any, int], TileRate]
    measured: Callable[[int], Sequence[TileRate]]
    costs: Callable[[int, Gpu], Costs]


_borrow_rates = functools.lru_cache(maxsize=4096)(borrow_rates)
"""Thousands of configs have a few hundred tiles."""


class Forecast(NamedTuple):
    """What is expected of the configs of a recipe, for a product on a GPU."""

    recipe: Rung
    product: Product
    gpu: Gpu

    def predict(self, config: Mapping[str, object]) -> float:
        """The microseconds of a config, whose other knobs are the recipe's; infinite where its tile
        has no room.
        """
        model = _MODELS[self.recipe.family.config]
        made = self.recipe.family.config(**{**self.recipe.config, **config})
        tile = model.describe(made, self.product.size)
        tile = _borrow_rates(tile, tuple(model.measured(self.product.size)))
        costs = model.costs(self.product.size, self.gpu)
        us = choose(self.product, tile, made.split_k, costs).estimate.us
        return us if math.isfinite(us) else math.inf

    def list_best(self, count: int) -> list[dict[str, object]]:
        """The knobs of configs that the model itself would choose, fastest first, one a tile."""
        first: dict[TileRate, dict[str, object]] = {}
        for it in _MODELS[self.recipe.family.config].rank(self.product, self.gpu):
            first.setdefault(it.choice.rate, dict(vars(it.config)))
        return [*first.values()][:count]


def make_forecast(recipe: Recipe, problem: Any, gpu: Gpu) -> Forecast | None:
    """A forecast for a problem of a recipe's kernel; None for a recipe without a model of time."""
    if not isinstance(recipe, Rung) or recipe.family.config not in _MODELS:
        return None
    if [*problem.shape][-3:] != ["m", "n", "k"]:  # a convolution is a product of other sizes
        return None
    return Forecast(recipe, read_product(problem), gpu)


def read_product(problem: Any) -> Product:
    """The product of matrices that a problem of a kernel is: sizes m, n, k, behind a batch."""
    *outer, m, n, k = problem.shape.values()
    size, stored = (DataType(problem.arguments[it].dtype).itemsize for it in (0, -1))
    return Product(m, n, k, size, outer[0] if outer else 1, stored)


def _describe_mma(config: MmaConfig, size: int) -> TileRate:
    threads = max(1, config.warps) * _WARP
    return TileRate(config.tile, config.warp, 1.0, threads, config.tile_k * size, config.stages)


def _describe_wgmma(config: WgmmaConfig, size: int) -> TileRate:
    by_tma = config.copies == "tma"
    roles = by_tma and config.roles
    return TileRate(
        config.tile,
        config.warpgroups,
        1.0,
        (max(1, config.groups) + roles) * _WARPGROUP,
        config.tile_k * size,
        config.stages,
        copies=config.copies,
        roles=roles,
        stays=-(-config.persistent // H200.multiprocessors) if roles else 0,
    )


_MODELS: Mapping[type, _Model] = {
    WgmmaConfig: _Model(
        "wgmma",
        wgmma.rank_configs,
        _describe_wgmma,
        lambda size: wgmma_tiles.TILES,
        lambda size, gpu: wgmma_tiles.get_costs(size).scale(gpu),
    ),
    MmaConfig: _Model(
        "mma",
        mma.rank_configs,
        _describe_mma,
        lambda size: mma.TILES,
        lambda size, gpu: Costs(flops_per_us=mma.FLOPS_PER_US).scale(gpu),
    ),
    GemmConfig: _Model(
        "",
        gemm_best.rank_configs,
        gemm_best.describe_tile,
        lambda size: [tile.rate for tile in gemm_best.list_tiles(size)],
        lambda size, gpu: read_costs("matmul").costs.scale(gpu),
    ),
}
"""By the config of a family; what is fastest comes first."""
