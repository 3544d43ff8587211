"""How matmul's fast schedule is chosen for a shape: by a search, or else by a model of time.

The model knows a few dozens of tiles, with the rates that were measured of them, and any number of
slices of the reduction. It needs no GPU, and some milliseconds. The schedule and its rungs are in
`gemm.py`; the ladder of both is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from tvm.s_tir import Schedule

from ..errors import TransformError
from . import skinny
from .costs import read_costs
from .gemm import (
    GEMM,
    RUNGS,
    STRIP,
    GemmConfig,
    inner_rows,
    schedule,
    split,
)
from .gpus import Gpu, read_gpu
from .ladder import Ladder, read_pairs
from .recipe import Example, recipe
from .skinny import SkinnyConfig
from .tile_choice import Sizes, read_sizes
from .time_model import Product, Ranked, TileRate, choose, find_stream, list_parts
from .tuned import find_tuned, measure_distance

_FEW_ROWS, _LONG = 2, 512
"""Rows that are multiplied without tiles, along so long a k."""
_NEAR = 0.1
"""How far a shape may be that a search found something for: sizes that differ by a few percent."""


class MeasuredTile(NamedTuple):
    """A tile of the model: the config of its schedule, and its rates."""

    config: GemmConfig
    rate: TileRate


@recipe(
    kernel="matmul",
    blocks=GEMM.blocks,
    default_example=GEMM.default_example,
    golden=Example({"m": 32, "n": 48, "k": 1024}),
    expects={"parts_added": ("vector_stores >= 1",)},
)
def matmul_best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
    """The config that a search found best for this shape, or else the fastest by a model of time.

    Where its tiles do not divide the shape, zeros are padded as tiles are fetched; one row or two
    along a long k are multiplied without tiles, as by the ladder matmul_skinny. Knobs: device, the
    name of a GPU, or its properties, as "multiprocessors=84 megahertz=1695 shared_kib=99
    gigabytes=936" (transforms/recipes/tuned/matmul.json has the searches, costs/matmul.json what
    the model was fitted to).
    """
    few = choose_few_rows(sch, read_gpu(device))
    if few is None:
        yield from schedule(sch, choose_config(sch, device))
    else:
        yield from skinny.schedule(sch, few)


def choose_few_rows(sch: Schedule, gpu: Gpu) -> SkinnyConfig | None:
    """The config without tiles, where that is faster and no search found a tile; else None."""
    sizes = _read_sizes(sch)
    is_long = sizes.m <= _FEW_ROWS and sizes.k >= _LONG
    if not is_long or skinny.is_transposed(sch, sch.get_sblock("C")):
        return None
    return None if _find_tuned(sizes, gpu.name) else skinny.choose_config(sch, sizes, gpu)


def _read_sizes(sch: Schedule) -> Sizes:
    return read_sizes(sch, sch.get_sblock("C"), "matmul_best", "matmul_prefetched with sizes")


def choose_config(sch: Schedule, device: str) -> GemmConfig:
    """The config of `matmul_best` for a schedule of matmul."""
    sizes = _read_sizes(sch)
    tuned = _find_tuned(sizes, device)
    if tuned is not None:
        for config in (tuned, replace(tuned, tail="pad")):
            if fits(sch, config):
                return config
    ranked = rank_configs(sizes.product, read_gpu(device))
    if str(sizes.dtype) == "float32":
        return _get_config(ranked[0])
    # Types of other sizes have rules of their own for vectors.
    return next((it.config for it in ranked if fits(sch, it.config)), _get_config(ranked[0]))


def _get_config(ranked: Ranked) -> GemmConfig:
    config: GemmConfig = ranked.config
    return config


def rank_configs(product: Product, gpu: Gpu) -> list[Ranked]:
    """The configs that are tried for a product on a GPU, the fastest by the model first."""
    costs = read_costs("matmul").costs.scale(gpu)
    tiles = [
        (config, rate)
        for config, rate in list_tiles(product.size)
        if config.strip == STRIP or product.n % STRIP  # else whole vectors are stored
    ]
    cuts = [
        (config, rate, parts, 0)
        for config, rate in tiles
        for parts in list_parts(product, rate, costs)
    ]
    for config, rate in tiles:
        if stream := find_stream(product, rate, costs):
            cuts.append((config, rate, *stream))
    ranked = [
        Ranked(_complete(config, product, *cut), choose(product, rate, cut[0], costs, cut[1]))
        for config, rate, *cut in cuts
    ]
    return sorted(ranked, key=lambda it: it.choice.estimate.us)


def _complete(tile: GemmConfig, product: Product, parts: int, workers: int = 0) -> GemmConfig:
    """A tile's config with slices of k, or workers that share them, and with a padding where
    something does not divide.
    """
    divides = (
        product.m % tile.tile[0] == product.n % tile.tile[1] == 0
        and product.k % (tile.tile_k * parts) == 0
    )
    return replace(tile, split_k=parts, workers=workers, tail="refuse" if divides else "pad")


@cache
def list_tiles(size: int) -> tuple[MeasuredTile, ...]:
    """The tiles of the model, for elements of so many bytes."""
    return tuple(_make_tile(entry, size) for entry in read_costs("matmul").tiles)


def _make_tile(entry: Mapping[str, object], size: int) -> MeasuredTile:
    knobs: Mapping[str, object] = entry["config"]  # type: ignore[assignment]
    config = _read_config({**inner_rows.config, **knobs})
    rate = describe_tile(config, size)._replace(
        rate=float(entry["rate"]),  # type: ignore[arg-type]
        crowded=float(entry["crowded"]),  # type: ignore[arg-type]
        registers=int(entry["registers"]),  # type: ignore[call-overload]
    )
    return MeasuredTile(config, rate)


def describe_tile(config: GemmConfig, size: int) -> TileRate:
    """The tile of a config, for elements of so many bytes, without its rates."""
    return TileRate(
        config.tile,
        config.warp or (1, 32),
        1.0,
        config.threads[0] * config.threads[1],
        config.tile_k * size,
        config.stages if size == 4 else min(config.stages, 2),
        padding=config.padding,
        is_staged=False,
        strip=config.strip,
    )


def _find_tuned(sizes: Sizes, device: str) -> GemmConfig | None:
    """What a search found at a shape, or so near that the same rows are whole vectors."""
    tuned = find_tuned("matmul", device=device, dtype=str(sizes.dtype), shape=sizes.shape)
    if tuned is None:
        return None
    config = _read_config(tuned.config)
    is_alike = all(
        (size % STRIP == 0) == (known % STRIP == 0)
        for size, known in zip(sizes.shape, tuned.shape, strict=True)
    )
    is_near = measure_distance(tuned.shape, sizes.shape) <= _NEAR
    return config if is_alike and is_near and tuned.dtype == str(sizes.dtype) else None


def _read_config(tuned: Mapping[str, object]) -> GemmConfig:
    """Refuse values that no search can have found: a table is a file, and may be damaged."""
    for name, value in tuned.items():
        if name not in split.config or split.explain_wrong(name, value):
            raise TransformError(
                "matmul_best",
                f"the search chose {name}={value!r}, which no config of matmul has",
                "search again: tirstep search",
            )
    return GemmConfig(**read_pairs(tuned))  # type: ignore[arg-type]


def fits(sch: Schedule, config: GemmConfig) -> bool:
    """Whether the schedule takes a config for a matmul."""
    try:
        for _ in schedule(sch.copy(), config):
            pass
    except TransformError:
        return False
    return True


MATMUL = Ladder(
    name="matmul",
    kernel="matmul",
    title="tiles in registers, fed by a pipeline, one knob a rung",
    recipes=(*RUNGS, matmul_best),
    shape={"m": 4096, "n": 4096, "k": 4096},
)
