"""Any number of elements: the config of an elementwise kernel, by rules.

The rules are those of 460 measurements on an H200, of relu, gelu and vector_add in float32 and
bfloat16, from 2^13 to 2^26 elements, where they lose 2 % of the fastest config that was timed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.ir import Call
from tvm.s_tir import Schedule

from ..errors import TransformError
from ..tir import constant, find_all
from ..vectorize import WIDEST
from .elementwise import TENSOR, FlatConfig, schedule
from .ladder import Ladder
from .recipe import Example, Recipe, get_sblocks, recipe

THREADS = 256
HALF = 2
"""Bytes of an element of half precision."""
MANY = 1 << 21
"""Elements from which on a heavy function of half precision takes two vectors a thread."""


def _make_best(kernel: str, block: str) -> Recipe:
    """The recipe ``<kernel>_best``."""

    def best(sch: Schedule) -> Iterator[str]:
        (block,) = get_sblocks(sch)
        node = sch.get(block)
        elements = constant(node.iter_vars[0].dom.extent)
        if elements is None:
            raise TransformError(
                f"{kernel}_best", "the number of elements is not constant", "give the kernel its n"
            )
        size = node.reads[0].source.dtype.itemsize
        yield from schedule(
            sch, choose_config(elements, size, is_heavy=bool(find_all(node.body, Call)))
        )

    best.__name__ = f"{kernel}_best"
    best.__doc__ = (
        "Threads of a block, and vectors of a thread, by the number of elements.\n\n"
        "Any number: all but the last vector are whole."
    )
    return recipe(
        kernel=kernel,
        blocks=(block,),
        default_example=TENSOR,
        golden=Example({"n": 1536}),
        expects={"bound": ("scalar_loads == 0", "scalar_stores == 0")},
    )(best)


def choose_config(elements: int, size: int, *, is_heavy: bool) -> FlatConfig:
    """The config for so many elements of so many bytes; `is_heavy` with functions such as exp.

    One vector a thread was fastest, but for many elements of half precision of which each takes
    long: with two, loads of one are under way while the other is computed.
    """
    each = 2 if is_heavy and size == HALF and elements >= MANY else 1
    return FlatConfig(threads=THREADS, vector=WIDEST, each=each, tail="guard")


ELEMENTWISE_BEST = tuple(
    Ladder(
        f"{kernel}_best",
        kernel,
        "any number of elements",
        (_make_best(kernel, block),),
        TENSOR.shape,
    )
    for kernel, block in (("vector_add", "C"), ("relu", "B"), ("gelu", "B"))
)
"""For each elementwise kernel the recipe that chooses for any number of elements."""
