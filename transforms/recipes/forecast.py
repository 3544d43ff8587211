"""What a model of time expects of any config of a family, of those too that nobody has measured.

The model has rates of some tiles; a config whose tile is none of them borrows those of the most
similar one. That is a guess, good enough to say which of some hundred configs to time first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tvm import DataType

from .costs import read_tiles
from .gemm import GemmConfig
from .gpus import Gpu
from .ladder import Rung
from .matmul_best import describe_tile, get_costs, list_tiles, rank_gemm, rank_mma, rank_wgmma
from .mma import MmaConfig
from .recipe import Recipe
from .time_model import Product, Ranked, TileRate, estimate
from .wgmma import WgmmaConfig

_MODELS: Mapping[type, tuple[str, Callable[[Product, Gpu], list[Ranked]]]] = {
    WgmmaConfig: ("matmul_wgmma", rank_wgmma),
    MmaConfig: ("matmul_mma", rank_mma),
    GemmConfig: ("matmul", rank_gemm),
}
"""By the config of a family: its table of costs, and who ranks its configs for a product."""
LEAST_REGISTERS = 32
"""Of a thread."""


class Forecast(NamedTuple):
    """What is expected of the configs of a recipe, for a product on a GPU."""

    recipe: Rung
    product: Product
    gpu: Gpu

    def predict(self, config: Mapping[str, object]) -> float:
        """The microseconds of a config, whose other knobs are the recipe's; infinite where its tile
        has no room.
        """
        size, (table, _) = self.product.size, _MODELS[self.recipe.family.config]
        made = self.recipe.family.config(**{**self.recipe.config, **config})
        tile = _borrow_rates(describe_tile(made, size), table, size)
        return estimate(self.product, tile, made.split_k, get_costs(table, size, self.gpu)).us

    def list_best(self, count: int) -> list[dict[str, object]]:
        """The knobs of configs that the model itself would choose, fastest first, one a tile."""
        _, rank = _MODELS[self.recipe.family.config]
        return [dict(vars(it.config)) for it in keep_tiles(rank(self.product, self.gpu))[:count]]


def keep_tiles(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The fastest of each tile; the others differ in slices."""
    first: dict[TileRate, Ranked] = {}
    for it in ranked:
        first.setdefault(it.choice.rate, it)
    return [*first.values()]


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


@functools.lru_cache(maxsize=4096)  # thousands of configs have a few hundred tiles
def _borrow_rates(tile: TileRate, table: str, size: int) -> TileRate:
    """A tile with the rates of that measured one which is most like it.

    Alike are tiles by the factors between their rows and columns, those of their warps, their
    threads, bytes along k and stages, and by who copies and whether blocks stay.
    """

    def differ(known: TileRate) -> float:
        pair = tile, known
        sizes = ((*it.tile, *it.part, it.threads, it.row_bytes, it.stages) for it in pair)
        ways = ((it.copies, it.roles, it.stays) for it in pair)
        factors = (abs(math.log2(one / other)) for one, other in zip(*sizes, strict=True))
        return sum(factors) + sum(one != other for one, other in zip(*ways, strict=True))

    is_gemm = table == "matmul"
    measured = [it.rate for it in list_tiles(size)] if is_gemm else read_tiles(table)
    like = min(measured, key=differ)
    registers = 0
    if like.registers:
        mine, known = (it.tile[0] * it.tile[1] // it.threads for it in (tile, like))
        registers = max(LEAST_REGISTERS, mine - known + like.registers)
    return tile._replace(
        rate=like.rate, crowded=like.crowded, registers=registers, store=like.store
    )
