"""What Hypothesis draws: shapes, options and sizes of recipes, their steps, schedules, programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm
from hypothesis import strategies as st

from tirstep.lowering_checks.steps import Run, run_golden
from tirstep.modules import Problem, get_kernel
from tirstep.transforms.gpu_limits import MAX_SHARED_BYTES
from tirstep.transforms.hopper.wgmma_intrinsics import ARCHITECTURE
from tirstep.transforms.recipes import RECIPES, Recipe, Step

from .drawn_programs import BLOCKS, KERNEL, LOOPS, draw_program
from .problems import SIZES, draw_problem

PRIMES = (2, 3, 5, 7, 11, 13, 17, 31, 61)
MULTIPLES = tuple(range(8, 97, 8))
FLAT_KERNELS = ("vector_add", "relu", "gelu", "window_sum")
CHAINS = ("mlp_swiglu", "rms_norm_matmul")
# Sizes that mean something else than an extent, or that make a kernel slow.
SPECIAL = {
    **dict.fromkeys([(it, "n") for it in FLAT_KERNELS], st.integers(1, 3000)),
    ("conv1d", "m"): st.integers(1, 300),
    ("conv1d", "n"): st.integers(1, 40),
    ("batched_matmul", "batch"): st.integers(1, 3),
    **{("conv2d", size): st.integers(1, 8) for size in ("n", "h", "w", "ci", "co")},
    **{("conv2d", size): st.integers(1, 2) for size in ("kh", "kw")},
    ("depthwise_conv2d", "b"): st.integers(1, 3),
    ("depthwise_conv2d", "c"): st.integers(1, 4),
    ("depthwise_conv2d", "h"): st.integers(1, 37),
    ("depthwise_conv2d", "w"): st.integers(1, 37),
    ("depthwise_conv2d", "k"): st.sampled_from((1, 3, 5, 7)),
    **{("attention", size): st.integers(1, 2) for size in ("batch", "heads")},
    **{("attention", size): st.integers(1, 20) for size in ("queries", "keys", "dim")},
    **{("decode_attention", size): st.integers(1, 3) for size in ("batch", "heads")},
    **{("decode_attention", size): st.integers(1, 40) for size in ("keys", "dim")},
    **{(name, size): st.integers(1, 40) for name in CHAINS for size in ("m", "n", "k")},
}
# The simulator's time is per statement: with few threads, images must be small.
SIMULATED = {
    ("depthwise_conv2d", "h"): st.integers(1, 10),
    ("depthwise_conv2d", "w"): st.integers(1, 13),
    ("depthwise_conv2d", "c"): st.integers(1, 2),
    ("depthwise_conv2d", "k"): st.sampled_from((1, 3)),
}
NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
TAILS = ("guard", "pad", "copy")
EXTENT = st.one_of(st.just(1), st.sampled_from(PRIMES), st.sampled_from(MULTIPLES))


@st.composite
def shapes(draw: st.DrawFn, recipe: Recipe, device: str = "cpu") -> dict[str, int]:
    """Sizes of the recipe's kernel: 1, primes and multiples."""
    special = {**SPECIAL, **SIMULATED} if device == "simulator" else SPECIAL
    names = get_kernel(recipe.kernel).size_names
    drawn = {name: draw(special.get((recipe.kernel, name), EXTENT)) for name in names}
    if recipe.kernel == "conv2d":  # whose window lies within the image, dilated up to 3 times
        for side, window in (("h", "kh"), ("w", "kw")):
            drawn[side] = max(drawn[side], 3 * drawn[window] - 2)
    return drawn


@st.composite
def options(draw: st.DrawFn, recipe: Recipe, device: str = "simulator") -> dict[str, object]:
    """Options of the recipe's kernel, in a form whose blocks the recipe schedules."""
    kernel = get_kernel(recipe.kernel)
    taken = recipe.dtypes or kernel.dtypes
    sums, is_wgmma = kernel.meaning.accumulators, recipe.arch == ARCHITECTURE
    dtypes = [dtype for dtype in taken if dtype in sums]
    if device == "cpu" or is_wgmma:  # whose sums of float8 are fp22, which some kernels allow
        allowed = "fp22" if is_wgmma else None
        dtypes = [it for it in dtypes if not it.startswith("float8") or allowed in sums[it]]
    drawn: dict[str, object] = {"dtype": draw(st.sampled_from(dtypes))}
    if "transpose_b" in kernel.options:
        drawn["transpose_b"] = draw(st.booleans())
    if "width" in kernel.options:
        drawn["width"] = draw(st.sampled_from((1, 2, 3, 5)))
    if "acc" in kernel.options and drawn["dtype"] == "float16":
        drawn["acc"] = draw(st.sampled_from(("float32",) if is_wgmma else sums["float16"]))
    if is_wgmma and str(drawn["dtype"]).startswith("float8"):
        drawn["acc"] = "fp22"
    if "C C_cast" in recipe.blocks and drawn["dtype"] in NARROW:
        drawn["out"] = draw(st.sampled_from((None, drawn["dtype"])))
    return drawn


@st.composite
def open_sizes(draw: st.DrawFn, recipe: Recipe) -> tuple[str, ...]:
    """The kernel's sizes that the module leaves open: some of those claimed, mostly none."""
    if not recipe.symbolic or draw(st.integers(0, 3)):
        return ()
    drawn = draw(st.sets(st.sampled_from(recipe.symbolic), min_size=1))
    return tuple(name for name in recipe.symbolic if name in drawn)


@st.composite
def sizes(draw: st.DrawFn, recipe: Recipe, tails: tuple[str, ...] = TAILS) -> dict[str, object]:
    """The recipe's own sizes out of its choices, for a block of at most 1024 threads."""
    drawn: dict[str, Any] = {
        name: draw(st.sampled_from(recipe.choices[name]))
        for name in recipe.config
        if name in recipe.choices
    }
    # Where a warp has rows of its own, a block is as high and as wide as a warp, or more. Tiles
    # are kept small: large ones are padded to, and tell nothing new.
    if "warp" in drawn and "threads" in drawn:
        (rows, columns), warp = drawn["threads"], drawn["warp"]
        drawn["thread_tile"] = (drawn["thread_tile"][0], min(drawn["thread_tile"][1], 8))
        drawn["threads"] = (max(min(rows, 8), warp[0]), max(min(columns, 16), warp[1]))
    if "tile" in drawn and "warpgroups" in drawn:
        rows, columns = drawn["tile"]
        drawn["tile"] = min(rows, 128), min(columns, 64)
    # As many stages of tiles as shared memory has room for in the widest type, of 32 bits.
    if "tile" in drawn and "stages" in drawn:
        stage = sum(drawn["tile"]) * drawn["tile_k"] * 4
        drawn["stages"] = max(1, min(drawn["stages"], MAX_SHARED_BYTES["shared.dyn"] // stage))
    threads = [
        drawn[name]
        for name in ("threads", "rows", "columns", "lanes", "block_y", "block_x")
        if isinstance(drawn.get(name), int)  # None fits itself, and pairs are small enough
    ]
    while math.prod(threads) > 1024:
        largest = max(drawn, key=lambda name: drawn[name] if drawn[name] in threads else 0)
        threads[threads.index(drawn[largest])] //= 2
        drawn[largest] //= 2
    possible = [tail for tail in tails if tail in recipe.tails]
    if possible:
        drawn["tail"] = draw(st.sampled_from(possible))
    return drawn


class Drawn:
    """What draws for problems and programs, out of a test's data."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def one(self, values: Sequence[Any], label: str) -> Any:
        """One of the values."""
        return self._data.draw(st.sampled_from(list(values)), label=label)


@st.composite
def kernels(draw: st.DrawFn, names: Sequence[str] = tuple(SIZES)) -> Problem:
    """Small problems of these kernels: sizes of one element and odd ones among them."""
    choice = Drawn(draw(st.data()))
    return draw_problem(choice, draw(st.sampled_from(list(names))))


@st.composite
def programs(draw: st.DrawFn, *, blocks: bool | None = None) -> tvm.IRModule:
    """A drawn program of one function ``main``; of blocks, of plain statements, or either."""
    forms = {True: (BLOCKS,), False: (LOOPS, KERNEL), None: (LOOPS, KERNEL, BLOCKS)}[blocks]
    choice = Drawn(draw(st.data()))
    return draw_program(choice, draw(st.sampled_from(forms)))


@st.composite
def recipe_steps(draw: st.DrawFn, names: Sequence[str] = tuple(RECIPES)) -> tuple[Run, Step]:
    """A step of one of these recipes, at its golden's shape, with the run that it is one of."""
    run = run_golden(RECIPES[draw(st.sampled_from(list(names)))])
    return run, draw(st.sampled_from(run.steps))
