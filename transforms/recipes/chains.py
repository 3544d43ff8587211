"""The gated layer and the product behind a normalization, a kernel for each block or fewer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm.s_tir import Schedule

from .ladder import Family, Ladder, Rung, knob
from .recipe import Example, get_sblocks
from .unfused import TilesConfig, bind_elements, share_rows, tile_product

SHAPE = {"m": 4096, "n": 4096, "k": 4096}
SMALL = {"m": 8, "n": 12, "k": 16}
SMALL_CONFIG = {"threads": (2, 2), "thread_tile": (2, 2), "tile_k": 4}
TILES = ("thread_tile", "tile_k")


@dataclass(frozen=True, kw_only=True)
class NormProductConfig(TilesConfig):
    """Knobs of a product behind a normalization."""

    rows: bool = knob(False, "whether the threads of a warp share a row of squares")


def schedule_swiglu(sch: Schedule, config: TilesConfig) -> Iterator[str]:
    """Two products, and a function of both."""
    gate, up, result = get_sblocks(sch)
    if config.tiled:
        for block, name in ((gate, "gate"), (up, "up")):
            tile_product(sch, block, config)
            yield f"{name}_tiled"
    for block in [result] if config.tiled else [gate, up, result]:
        bind_elements(sch, block, config)
    yield "bound"


def schedule_norm_product(sch: Schedule, config: NormProductConfig) -> Iterator[str]:
    """Squares of rows, rows by their roots, and a product of these."""
    squares, normed, product, result = get_sblocks(sch)
    if config.tiled:
        tile_product(sch, product, config)  # whose fetch normalizes
        yield "product_tiled"
    if config.rows:
        share_rows(sch, squares, config)
        yield "rows_shared"
    rows = [] if config.rows else [squares]
    for block in (*rows, *([] if config.tiled else [normed, product]), result):
        bind_elements(sch, block, config)
    yield "bound"


def _make_family(
    kernel: str,
    blocks: str,
    config: type[TilesConfig],
    schedule: Callable[[Schedule, Any], Iterator[str]],
) -> Family:
    return Family(
        kernel=kernel,
        config=config,
        schedule=schedule,
        blocks=(blocks,),
        default_example=Example(SHAPE),
        small=Example(SMALL, config=SMALL_CONFIG),
        tiles=("threads",),
    )


def _begin(
    family: Family, kernels: int, *, tiled: int, products: int, why: str
) -> tuple[Rung, Rung]:
    """The first rungs of a chain of so many kernels, and of so many once products are tiled."""
    naive = family.root(
        "naive",
        why="Each block of the program is a kernel, and each element has a thread",
        expects={"bound": (f"kernels == {kernels}", "barriers == 0")},
    )
    return naive, naive.plus(
        "tiled",
        tiled=True,
        searched=TILES,
        why=f"Tiles of operands in shared memory{why}, and of the products in registers",
        expects={"bound": (f"kernels == {tiled}", f"barriers_per_step == {2 * products}")},
    )


SWIGLU = _make_family("mlp_swiglu", "G U D", TilesConfig, schedule_swiglu)
MLP_SWIGLU = Ladder(
    "mlp_swiglu",
    "mlp_swiglu",
    "a kernel for each block",
    _begin(SWIGLU, 3, tiled=3, products=2, why=""),
    SHAPE,
)
NORM_PRODUCT = _make_family(
    "rms_norm_matmul", "sum R C C_cast", NormProductConfig, schedule_norm_product
)
norm_naive, norm_tiled = _begin(
    NORM_PRODUCT, 4, tiled=3, products=1, why=", where rows are normalized as they are fetched"
)
norm_rows = norm_tiled.plus(
    "rows", rows=True, why="A warp shares each row, so that its threads read side by side"
)
RMS_NORM_MATMUL = Ladder(
    "rms_norm_matmul",
    "rms_norm_matmul",
    "a kernel for each block, and one less",
    (norm_naive, norm_tiled, norm_rows),
    SHAPE,
)
