"""The recipe that picks another recipe of matmul, and its sizes, by what a search found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tvm.s_tir import Schedule

from ..errors import TransformError
from ..tir import constant
from .best import find_best
from .matmul_fast import BLOCKS, GEMM, SHAPE, matmul_grouped
from .matmul_pipelined import matmul_async, matmul_prefetched, matmul_split_k
from .recipe import Example, Recipe, recipe

CANDIDATES = (matmul_grouped, matmul_prefetched, matmul_async, matmul_split_k)


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=Example(SHAPE),
    expects={"parts_added": ("vector_stores >= 1",)},
)
def matmul_best(sch: Schedule, *, device: str = "NVIDIA H200") -> Iterator[str]:
    """The recipe and the sizes that a search found best for this shape, or for the nearest one.

    Where its tiles do not divide the shape, the problem is padded as it was there. Sizes: device,
    the name of the GPU that was searched on (transforms/recipes/best/matmul.json has them all).
    """
    chosen, sizes = choose(sch, device)
    yield from chosen.body(sch, **sizes)


def choose(sch: Schedule, device: str) -> tuple[Recipe, Mapping[str, object]]:
    """The recipe of `matmul_best` for a schedule of matmul, and the sizes that it gets."""
    block = sch.get(sch.get_sblock("C"))
    shape = [constant(iterator.dom.extent) for iterator in block.iter_vars]
    if None in shape:
        raise TransformError(
            "matmul_best", f"the shape {shape} is not constant", "use matmul_prefetched with sizes"
        )
    dtype = str(block.reads[-1].source.dtype)
    best = find_best("matmul", device=device, dtype=dtype, shape=[size or 1 for size in shape])
    by_name = {one.name: one for one in CANDIDATES}
    chosen = by_name.get(best.recipe)
    if chosen is None:
        raise TransformError(
            "matmul_best",
            f"the search chose '{best.recipe}'",
            f"search one of {', '.join(by_name)}",
        )
    _require_sizes(chosen, best.config)
    searched = best.config.get("tail", "pad")
    for tail in ("refuse", "pad" if searched == "refuse" else searched):
        sizes = {**best.config, "tail": tail}
        if _fits(chosen, sch, sizes):
            return chosen, sizes
    return matmul_prefetched, {"tail": "pad"}


def _require_sizes(chosen: Recipe, sizes: Mapping[str, object]) -> None:
    """Refuse sizes that no search can have found: a table is a file, and may be damaged."""
    for name, value in sizes.items():
        default = chosen.config.get(name)
        is_of_its_type = default is None or type(value) is type(default)
        if name not in chosen.config or not (
            is_of_its_type or value in chosen.choices.get(name, ())
        ):
            raise TransformError(
                "matmul_best",
                f"the search chose {chosen.name} with {name}={value!r}, which it does not take",
                "search again: tirstep search",
            )


def _fits(chosen: Recipe, sch: Schedule, sizes: Mapping[str, object]) -> bool:
    try:
        chosen(sch.copy(), **sizes)
    except TransformError:
        return False
    return True
