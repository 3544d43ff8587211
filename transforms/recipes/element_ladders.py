"""The elementwise kernels: one schedule, and the ladder that each of them climbs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import Cast

from ..binding import bind_loop, tile_block
from ..loops import Tail, split_loop, unroll_loop
from ..pass_options import set_pipeline
from ..queries import get_extent
from ..schedule import TransformError
from ..thread_rows import find_vector, find_widest, spread_over_threads
from ..tir import constant, find_all
from ..vectorize import WIDEST, vectorize_loop
from .recipe import Example, Recipe, get_sblocks, recipe
from .rungs import Family, Ladder, knob, order


@dataclass(frozen=True, kw_only=True)
class FlatConfig:
    """Knobs of a kernel with one loop over all elements."""

    threads: int = knob(256, "threads of a block", choices=(64, 128, 256, 512))
    vector: int = knob(1, "elements of a thread's vector, at most", choices=(2, 4, 8))
    each: int = knob(1, "vectors of a thread", choices=(1, 2, 4, 8))
    tail: Tail = knob("refuse", "what happens where these do not divide the elements")


def schedule(sch: Schedule, config: FlatConfig) -> Iterator[str]:
    """Single elements, or vectors and batches of them, for each thread."""
    (block,) = get_sblocks(sch)
    yield from schedule_elements(sch, block, config)


def schedule_elements(sch: Schedule, block: SBlockRV, config: FlatConfig) -> Iterator[str]:
    """The steps of a config, on a block with one loop, beside others."""
    if config.vector == config.each == 1:
        tile_block(sch, block, threads=(config.threads,), tail=config.tail)
        yield "bound"
        return
    (loop,) = sch.get_loops(block)
    dtype = next(iter([*sch.get(block).reads, *sch.get(block).writes])).source.dtype
    # Constants of eight float32 or int8 in a vector: TVM writes what CUDA does not compile.
    is_plain = dtype.itemsize > 1 and not find_all(sch.get(block).body, Cast)
    most = config.vector if is_plain else min(config.vector, 4)
    extent = get_extent(sch, loop)
    vector, widest = find_vector(extent, dtype, most=most), find_widest(dtype, most=most)
    if config.tail == "guard" and extent is not None and vector < widest:
        vector = widest
        set_pipeline(sch)  # it makes whole vectors of all but the last one
    spread = spread_over_threads(
        sch, block, threads=config.threads, vector=vector, tail=config.tail
    )
    if vector > 1:
        vectorize_loop(sch, spread.elements)
    yield "vectorized"
    steps, batch = split_loop(sch, spread.steps, inner=config.each, tail=config.tail)
    bind_loop(sch, steps, axis="blockIdx.x")
    unroll_loop(sch, batch)
    yield "bound"


@recipe(
    kernel="vector_add",
    blocks=("C",),
    default_example=Example({"n": 1024}),
    golden=Example({"n": 1024}),
    choices={"threads": (32, 64, 128, 256, 512)},
    symbolic=("n",),
    expects={"bound": ("threads == 128", "guards == 0")},
)
def vector_add_bound(sch: Schedule, *, threads: int = 128, tail: Tail = "refuse") -> Iterator[str]:
    """One element for each thread: split and bind, as the "GPU and hardware acceleration" notes do.

    Knobs: threads of a block.
    """
    block = sch.get_sblock("C")
    (i,) = sch.get_loops(block)
    outer, inner = split_loop(sch, i, inner=threads, tail=tail)
    yield "split"
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    yield "bound"


TENSOR = Example({"n": 4096 * 4096})


def _make_ladder(kernel: str, block: str, first: Recipe | None = None) -> Ladder:
    """The ladder of an elementwise kernel; `first` is the recipe of a tutorial, if there is one."""
    family = Family(
        kernel=kernel,
        config=FlatConfig,
        schedule=schedule,
        blocks=(block,),
        default_example=TENSOR,
        small=Example({"n": 1536}, config={"threads": 32}),
        tiles=("threads",),
    )
    told: dict[str, Any] = {
        "vector": 8,
        "why": "One load moves 16 bytes",
        "golden": {"vector": 4},
        "expects": {"bound": ("scalar_loads == 0", "scalar_stores == 0")},
    }
    if first is not None:
        vectors = family.root("vectors", **told)
    else:
        first = bound = family.root(
            "bound",
            why="One element for each thread",
            expects={"bound": ("barriers == 0",)},
            changes={"symbolic": ("n",)},
        )
        vectors = bound.plus("vectors", **told, changes={"symbolic": ()})
    wide = vectors.plus(
        "wide",
        threads=512,
        why="Half as many blocks are started; sets up batches",
        golden={"threads": 64},
    )
    batches = wide.plus(
        "batches",
        each=4,
        why="Several vectors of a thread are in flight at the same time; slower by up to 2 % where "
        "so many blocks have enough in flight",
        golden={"each": 2},
    )
    title = "vectors, and several of them for each thread"
    return order(title, first, vectors, wide, batches)


VECTOR_ADD = _make_ladder("vector_add", "C", vector_add_bound)
RELU, GELU = _make_ladder("relu", "B"), _make_ladder("gelu", "B")


MANY = 1 << 21
"""Elements from which on a heavy function of half precision takes two vectors a thread."""


def choose_config(elements: int, size: int, *, is_heavy: bool) -> FlatConfig:
    """The config for so many elements of so many bytes; `is_heavy` with functions such as exp.

    The rules are those of 460 measurements on an H200, of relu, gelu and vector_add in float32 and
    bfloat16, from 2^13 to 2^26 elements, where they lose 2 % of the fastest config that was timed.
    One vector a thread was fastest, but for many elements of half precision of which each takes
    long: with two, loads of one are under way while the other is computed.
    """
    each = 2 if is_heavy and size == 2 and elements >= MANY else 1
    return FlatConfig(threads=256, vector=WIDEST, each=each, tail="guard")


def _make_best(kernel: str, block: str) -> Ladder:
    """The ladder of the recipe ``<kernel>_best``."""

    def best(sch: Schedule) -> Iterator[str]:
        (block,) = get_sblocks(sch)
        node = sch.get(block)
        elements = constant(node.iter_vars[0].dom.extent)
        if elements is None:
            raise TransformError(
                f"{kernel}_best", "the number of elements is not constant", "give the kernel its n"
            )
        size, is_heavy = node.reads[0].source.dtype.itemsize, bool(find_all(node.body, Call))
        yield from schedule(sch, choose_config(elements, size, is_heavy=is_heavy))

    best.__name__ = f"{kernel}_best"
    best.__doc__ = (
        "Threads of a block, and vectors of a thread, by the number of elements.\n\n"
        "Any number: all but the last vector are whole."
    )
    made = recipe(
        kernel=kernel,
        blocks=(block,),
        default_example=TENSOR,
        golden=Example({"n": 1536}),
        expects={"bound": ("scalar_loads == 0", "scalar_stores == 0")},
    )(best)
    return order("any number of elements", made, name=made.name)


ELEMENTWISE_BEST = tuple(
    _make_best(kernel, block)
    for kernel, block in (("vector_add", "C"), ("relu", "B"), ("gelu", "B"))
)
"""For each elementwise kernel the recipe that chooses for any number of elements."""
LADDERS = (VECTOR_ADD, RELU, GELU, *ELEMENTWISE_BEST)
