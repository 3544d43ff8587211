"""What is measured: suites of kernels, shapes, types and peers, and what is chosen of them.

Shapes of products and of rows are drawn at random: each size between 1 and 16384, evenly by its
logarithm; of every two shapes one has multiples of 64 alone. The same seed draws the same shapes.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from tirstep.lowering_checks.steps import suggest
from tirstep.modules import Problem, get_kernel, kernels
from tirstep.modules.convolution import count_outputs
from tirstep.modules.dtypes import get_storage
from tirstep.transforms.recipes import LADDERS, RECIPES, Recipe

from . import BenchError
from .peers import PEERS, SUITE_PEERS, Peer

Sizes = tuple[int, int, int]
"""m, n and k of a product of (m, k) by (k, n)."""
LARGEST = 16384
MOST_PRODUCTS = 2**36
UNIT = 64
SEED = 16
TEST = 60


def draw_size(dice: random.Random, least: float, most: float) -> float:
    """A size from the least to the most, evenly by its logarithm."""
    return math.exp(dice.uniform(math.log(least), math.log(most)))


def draw_shapes(seed: int) -> Iterator[Sizes]:
    """Shapes without an end, all different, by turns of multiples of 64 and of any size."""
    dice, seen = random.Random(seed), set[Sizes]()
    for unit in itertools.cycle((UNIT, 1)):
        while True:
            m, n, k = (unit * round(draw_size(dice, 1, LARGEST / unit)) for _ in "mnk")
            if (m, n, k) not in seen and m * n * k <= MOST_PRODUCTS:
                break
        seen.add((m, n, k))
        yield m, n, k


PRODUCTS_DRAWN = tuple(islice(draw_shapes(SEED), TEST))
"""A model of time is judged by these; it is calibrated with others."""

Plane = tuple[int, int]
"""Rows and their length."""
LONGEST_ROW = 2**20


def draw_planes(
    seed: int, count: int, *, most_rows: int, shortest: int, most_elements: int
) -> tuple[Plane, ...]:
    """Rows up to 2^20 elements long, all different, with lengths by turns of multiples of 64 and of
    any size.
    """
    dice = random.Random(seed)
    found: list[Plane] = []
    while len(found) < count:
        unit = 1 if len(found) % 2 else UNIT
        rows = round(draw_size(dice, 1, most_rows))
        plane = rows, unit * round(draw_size(dice, shortest, LONGEST_ROW) / unit)
        if math.prod(plane) <= most_elements and plane not in found:
            found.append(plane)
    return tuple(found)


PLANES_DRAWN = draw_planes(17, 40, most_rows=10**6, shortest=128, most_elements=2**25)
LONG_DRAWN = draw_planes(41, 20, most_rows=256, shortest=2**15, most_elements=2**26)
"""Rows longer than the registers of a thread block hold."""

HEADS_SEED, HEADS_COUNT, LONGEST = 18, 24, 8192
MOST_SCORES = 2**33


def draw_heads() -> Iterator[tuple[tuple[int, ...], dict[str, object]]]:
    """Sizes and options of attention: lengths from 1 to 8192, evenly by their logarithms, and heads
    of 64 to 256 elements, in multiples of 8.

    Of three one is causal, with as many keys as queries, and in one several heads share keys. The
    batch is halved while scores times elements of a head are more than 2^33.
    """
    dice = random.Random(HEADS_SEED)
    for number in range(HEADS_COUNT):
        queries, keys = (round(draw_size(dice, 1, LONGEST)) for _ in range(2))
        options: dict[str, object] = dict(ROUNDED)
        batch, shared = dice.choice((1, 2, 4, 8)), dice.choice((1, 5, 8, 12, 16, 24, 32))
        dim, group = 8 * dice.randint(8, 32), dice.choice((2, 4, 8))
        if number % 3 == 0:
            keys, options["causal"] = queries, True
        heads = shared * group if number % 3 == 1 else shared
        if number % 3 == 1:
            options["group"] = group
        while batch > 1 and batch * heads * queries * keys * dim > MOST_SCORES:
            batch //= 2
        yield (batch, heads, queries, keys, dim), options


DECODED_COUNT, DECODED_SEED = 20, 40
FEWEST_KEYS, MOST_KEYS, MOST_CACHED = 32, 2**16, 2**29
DIMS, GROUPS = (64, 80, 96, 128, 192, 256), (1, 1, 1, 1, 4, 8)


def draw_decoding() -> Iterator[tuple[tuple[int, ...], dict[str, object]]]:
    """Sizes (batch, heads, keys, dim) and options of decoding: up to 64 sequences, 32 heads of
    keys, and 32 to 2^16 keys, evenly by logarithms.

    At most 2^29 elements of keys; a third has groups of heads that share keys, and every other
    problem lengths of its own for its sequences.
    """
    dice, found = random.Random(DECODED_SEED), 0
    while found < DECODED_COUNT:
        batch, heads, keys = (
            round(draw_size(dice, least, most))
            for least, most in ((1, 64), (1, 32), (FEWEST_KEYS, MOST_KEYS))
        )
        dim, group = dice.choice(DIMS), dice.choice(GROUPS)
        if batch * heads * keys * dim <= MOST_CACHED:
            options = {**BFLOAT16, "group": group, "full": found % 2 == 0}
            yield (batch, heads * group, keys, dim), options
            found += 1


LAYER_COUNT, LAYERS_SEED = 16, 41


def draw_layers() -> Iterator[tuple[tuple[int, ...], dict[str, object]]]:
    """Sizes and options of convolutions as networks have them: images of 7 to 112 pixels a side,
    16 to 2048 channels in multiples of 8, windows of 1, 3, 5 or 7.

    A third has a stride of 2, one in six a dilation of 2, and all but one in five a rim that keeps
    the size. The batch, up to 64, is halved while there are more than 2^36 products.
    """
    dice = random.Random(LAYERS_SEED)
    for _ in range(LAYER_COUNT):
        batch, window = dice.choice((1, 4, 16, 32, 64)), dice.choice((1, 3, 3, 3, 5, 7))
        side = dice.choice((7, 14, 17, 28, 35, 40, 56, 64, 80, 112))
        channels = [8 * round(draw_size(dice, 2, 256)) for _ in "io"]
        stride, dilation = dice.choice((1, 1, 2)), dice.choice((1, 1, 1, 1, 1, 2))
        dilation = min(dilation, max(1, (side - 1) // max(1, window - 1)))
        padding = dilation * (window - 1) // 2 if dice.random() < 0.8 else 0
        outputs = count_outputs(side, window, stride, padding, dilation) ** 2
        while batch > 1 and batch * outputs * window**2 * math.prod(channels) > MOST_PRODUCTS:
            batch //= 2
        steps = {"stride": stride, "dilation": dilation, "padding": padding}
        yield (batch, side, side, *channels, window, window), {**BFLOAT16, **steps}


PRODUCTS_SEED, FEW_COUNT, LARGE_COUNT, FLOAT32_COUNT = 41, 16, 16, 40
MOST_FEW, WEIGHTS = 96, (4096, 32000)
LARGE_UNIT, LEAST_PRODUCTS = 32, 2**30


def draw_few_rows() -> Iterator[Sizes]:
    """Products of 1 to 96 rows by weights of 4096 to 32000 a side, by turns of multiples of 64 and
    of any size.
    """
    dice = random.Random(PRODUCTS_SEED)
    for number in range(FEW_COUNT):
        unit = 1 if number % 2 else UNIT
        n, k = (round(draw_size(dice, *WEIGHTS) / unit) * unit for _ in "nk")
        yield round(draw_size(dice, 1, MOST_FEW)), n, k


def draw_large() -> Iterator[Sizes]:
    """Products of multiples of 32, of 2^30 to 2^36 multiplications."""
    dice, found = random.Random(PRODUCTS_SEED), 0
    while found < LARGE_COUNT:
        m, n, k = (LARGE_UNIT * round(draw_size(dice, 256, LARGEST) / LARGE_UNIT) for _ in "mnk")
        if LEAST_PRODUCTS <= m * n * k <= MOST_PRODUCTS:
            found += 1
            yield m, n, k


PRODUCT_SHAPES, ROW_SHAPES = "product-shapes", "row-shapes"
HEAD_SHAPES, DECODING = "attention-shapes", "decoding-shapes"
LAYER_SHAPES, OTHER_PRODUCTS, LONG_ROWS = "layer-shapes", "more-products", "long-rows"
"""The suites of drawn shapes."""
LADDER_SUITES = TUTORIAL, RUNGS = "tutorial", "rungs"
"""The suites of whole ladders: what they show is every recipe, and not the fastest alone."""
NOT_MEASURED: tuple[str, ...] = (PRODUCT_SHAPES, ROW_SHAPES)
"""Suites that are younger than the stored runs: no document has their tables yet."""
MEANINGS = ("causal", "mask", "mask_dtype", "mask_op")
"""Options that say what is computed: those of the problem, whatever a recipe is shown at."""

Options = Mapping[str, object]
Shapes = tuple[tuple[int, ...], ...]
FLOAT32: Options = {"dtype": "float32"}
FLOAT16: Options = {"dtype": "float16", "out": "float16"}
BFLOAT16: Options = {"dtype": "bfloat16", "out": "bfloat16"}
# Attention whose exponents may be rounded as the vendor's libraries round them.
ROUNDED: Options = {**BFLOAT16, "fused_exponents": True}
# B as (columns, k), as networks keep their weights, and the vendor's float8 takes it. Sums of
# float8 are those of Hopper's tensor cores (fp22), PyTorch's use_fast_accum; results are bfloat16,
# of int8 int32.
TRANSPOSED: Options = {"transpose_b": True}
FLOAT8: Options = {"dtype": "float8_e4m3fn", "acc": "fp22", "out": "bfloat16", **TRANSPOSED}
INT8: Options = {"dtype": "int8", **TRANSPOSED}
TF32: Options = {"dtype": "tf32"}


@dataclass(frozen=True)
class SuiteEntry:
    """One kernel at some shapes and types.

    Attributes
    ----------
    shapes : sizes by place; a kernel of one size takes their product
    options : of the kernel; an option that it does not have is left out
    recipes : names, ladders, or ``"first"``, ``"last"`` or ``"all"`` of the kernel's recipes
    peers : of `tirstep.bench.peers.PEERS`, or one's own
    """

    kernel: str
    shapes: Shapes
    options: tuple[Options, ...] = (FLOAT32,)
    recipes: tuple[str, ...] = ("first", "last")
    peers: tuple[Peer, ...] = SUITE_PEERS


def _read(text: str) -> Shapes:
    """Shapes as ``1024x512x2048``."""
    return tuple(tuple(map(int, shape.split("x"))) for shape in text.split())


TORCH = (PEERS["torch"],)
ATTENTION_PEERS = (PEERS["torch"], PEERS["cudnn"], PEERS["flash_attention"])
# Products that fill tensor cores, leave them idle, or do not divide.
EVEN = _read(
    "1024x512x2048 512x512x512 1024x1024x1024 2048x2048x2048 4096x4096x4096 8192x8192x8192 "
    "4096x1024x4096 16x4096x4096 8192x128x8192"
)
PRODUCTS = (*EVEN, (1000, 776, 328))
# Larger than the L2 cache of an H100 or H200, but for the shape that no tile divides.
PLANES = _read("4096x4096 8192x8192 16384x1024 1021x4099")
# Batch, heads, queries, keys and dim of attention that fills a GPU, with short and long rows.
ATTENTION = _read("4x32x4096x4096x128 1x32x16384x16384x128 16x16x1024x1024x64 8x16x2048x2048x128")
ROW_KERNELS = ("row_sum", "softmax", "layer_norm", "rms_norm", "matvec")
ELEMENT_KERNELS = ("relu", "gelu", "vector_add")
OVER_MEMORY = (*ROW_KERNELS[:-1], "transpose", *ELEMENT_KERNELS, ROW_KERNELS[-1])


def _on_tensor_cores(shapes: Shapes, *options: Options) -> SuiteEntry:
    """The fastest matmul of each ladder of tensor cores, against the vendor's."""
    recipes = ("matmul_mma_best", "matmul_wgmma_best")
    return SuiteEntry("matmul", shapes, options, recipes, TORCH)


def _get_rung_options(recipe: Recipe) -> Options:
    """The types that a ladder is timed in, and what its first recipe computes."""
    example = recipe.default_example.options
    meant = {name: example[name] for name in MEANINGS if name in example}
    return {**(FLOAT16 if recipe.dtypes else FLOAT32), **meant}


LAYERS = _read("4096x4096x4096 8192x14336x4096")
BATCHES = _read("128x512x512x64 64x1024x1024x128 16x4096x128x4096")
BATCHED = tuple(f"batched_matmul_{it}" for it in ("mma_best", "wgmma", "wgmma_best"))
CONVOLVED = ("conv2d_mma", "conv2d_wgmma", "conv2d_wgmma_best")
# Images of 32, their channels and the size of the window: layers of a ResNet.
WINDOWED = _read("32x56x56x64x64x3x3 32x14x14x256x256x3x3 32x28x28x128x128x3x3")
ATTENDED: tuple[tuple[Options, tuple[str, ...]], ...] = tuple(
    (causal, (mma, wgmma, "attention_wgmma_best"))
    for causal, mma, wgmma in (
        ({}, "attention_mma_exp2", "attention_wgmma_overlap"),
        ({"causal": True}, "attention_mma_causal_parted", "attention_wgmma_causal_parted"),
    )
)
NEXT_TOKEN = _read("64x32x8192x128 1x32x65536x128")
DECODING_BEST, HEADS_BEST = ("decode_attention_best",), ("attention_wgmma_best",)
IN_TURNS, ROW_PEERS = ROW_KERNELS + ELEMENT_KERNELS, (PEERS["torch"], PEERS["triton"])
LONG_PEERS = (*ROW_PEERS, PEERS["dlight"])
ROW_TYPES = tuple({"dtype": dtype} for dtype in ("float32", "float16", "bfloat16"))
ANY = _read(
    "1024x512x2048 512x512x512 1024x1024x1024 2048x2048x2048 16x4096x4096 8192x128x8192 "
    "1000x777x333 1024x768x336"  # the last one is the nearest that tiles divide
)
LARGE = _read("4096x4096x4096 8192x8192x8192 4096x1024x4096")
"""Where the naive kernel takes seconds, and would say nothing new."""
WINDOWS = tuple(f"conv1d_{it}" for it in ["unrolled", "window", "registers", "coalesced"])
"""What does not walk over the whole signal for each output, as the naive kernel does."""
CONV1D, DEPTHWISE = _read("16384x32 16777216x32"), _read("3x4x16x32x7 4096x4x16x32x7")
"""The shape of the convolution's tutorial, and one that fills a GPU."""
SQUARES = _read("1024x512x2048 256x256x256 512x512x512 1024x1024x1024 2048x2048x2048")

SUITES: Mapping[str, tuple[SuiteEntry, ...]] = MappingProxyType(
    {
        "matmul": (SuiteEntry("matmul", ANY), SuiteEntry("matmul", LARGE, recipes=("last",))),
        "half": (_on_tensor_cores(PRODUCTS, BFLOAT16, FLOAT16),),
        # PyTorch's float8 takes multiples of 16 alone.
        "eight-bit": (
            _on_tensor_cores((*EVEN, (1000, 784, 336)), FLOAT8),
            _on_tensor_cores(PRODUCTS, INT8),
        ),
        # Against PyTorch with its float32 precision "high".
        "tf32": (_on_tensor_cores(PRODUCTS, TF32, {**TF32, **TRANSPOSED}),),
        # The plain products first, with which those with a bias and a function are compared.
        "fused": (
            *(
                SuiteEntry(kernel, LAYERS, (BFLOAT16,), (f"{kernel}_wgmma_best",), TORCH)
                for kernel in ("matmul", "matmul_bias_gelu", "matmul_bias_relu")
            ),
            SuiteEntry("batched_matmul", BATCHES, (BFLOAT16,), BATCHED, TORCH),
        ),
        "conv2d": (
            SuiteEntry("conv2d", WINDOWED, ({**BFLOAT16, "padding": 1},), CONVOLVED, TORCH),
            SuiteEntry("conv2d", _read("32x14x14x1024x256x1x1"), (BFLOAT16,), CONVOLVED, TORCH),
        ),
        "attention": (
            *(
                SuiteEntry("attention", ATTENTION, ({**ROUNDED, **causal},), rungs, ATTENTION_PEERS)
                for causal, rungs in ATTENDED
            ),
            # The next token of a sequence reads all of its keys and values once.
            SuiteEntry("decode_attention", NEXT_TOKEN, (BFLOAT16,), ("last",), TORCH),
        ),
        # All recipes: which of a ladder's upper ones is the fastest depends on shape and type.
        "bandwidth": tuple(
            SuiteEntry(kernel, PLANES, options=(FLOAT32, FLOAT16), recipes=("all",))
            for kernel in OVER_MEMORY
        ),
        "convolution": (
            SuiteEntry("conv1d", CONV1D[:1], recipes=("all",)),
            SuiteEntry("conv1d", CONV1D[1:], recipes=WINDOWS),
            SuiteEntry("depthwise_conv2d", DEPTHWISE, recipes=("all",)),
        ),
        # What is chosen for any shape: these are drawn, and no rule was made for them.
        PRODUCT_SHAPES: (
            SuiteEntry("matmul", PRODUCTS_DRAWN, (FLOAT32,), ("matmul_best",), TORCH),
            SuiteEntry("matmul", PRODUCTS_DRAWN, (BFLOAT16,), ("matmul_wgmma_best",), TORCH),
        ),
        # Of all kernels by turns, and as many elements of those without rows. Every other plane has
        # odd rows: a kernel has both.
        ROW_SHAPES: tuple(
            SuiteEntry(kernel, (plane,), ROW_TYPES, (f"{kernel}_best",), ROW_PEERS)
            for number, plane in enumerate(PLANES_DRAWN)
            for kernel in [IN_TURNS[(number + number // len(IN_TURNS)) % len(IN_TURNS)]]
        ),
        LAYER_SHAPES: tuple(
            SuiteEntry("conv2d", (sizes,), (options,), ("conv2d_wgmma_best",), TORCH)
            for sizes, options in draw_layers()
        ),
        # Few rows, and large products that tiles divide; products of float32, of any size.
        OTHER_PRODUCTS: (
            SuiteEntry("matmul", (*draw_few_rows(),), (BFLOAT16,), ("matmul_wgmma_best",), TORCH),
            SuiteEntry("matmul", (*draw_large(),), (BFLOAT16,), ("matmul_wgmma_best",), TORCH),
            SuiteEntry(
                "matmul",
                (*islice(draw_shapes(PRODUCTS_SEED), FLOAT32_COUNT),),
                (FLOAT32,),
                ("matmul_best",),
                TORCH,
            ),
        ),
        LONG_ROWS: tuple(
            SuiteEntry(kernel, (plane,), (ROW_TYPES[number % 3],), (f"{kernel}_best",), LONG_PEERS)
            for number, plane in enumerate(LONG_DRAWN)
            for kernel in [ROW_KERNELS[1 + number % 3]]
        ),
        HEAD_SHAPES: tuple(
            SuiteEntry("attention", (sizes,), (options,), HEADS_BEST, ATTENTION_PEERS)
            for sizes, options in draw_heads()
        ),
        DECODING: tuple(
            SuiteEntry("decode_attention", (shape,), (options,), DECODING_BEST, ATTENTION_PEERS)
            for shape, options in draw_decoding()
        ),
        TUTORIAL: (
            SuiteEntry("matmul", SQUARES, recipes=("all",)),
            SuiteEntry("conv1d", CONV1D[:1], recipes=("all",)),
            SuiteEntry("depthwise_conv2d", DEPTHWISE[:1], recipes=("all",)),
        ),
        # Each fast ladder at its own shape, where it fills a GPU: what every rung adds.
        RUNGS: tuple(
            SuiteEntry(
                it.kernel, (tuple(it.shape.values()),), (_get_rung_options(it[0]),), (name,), TORCH
            )
            for name, it in LADDERS.items()
            if any(recipe.base for recipe in it)
        ),
    }
)


@dataclass(frozen=True)
class PlannedCase:
    """A problem, the recipes and the peers that solve it, and the suite that asks for it."""

    suite: str
    problem: Problem
    recipes: tuple[Recipe, ...]
    peers: tuple[Peer, ...]


@dataclass(frozen=True)
class CaseChoice:
    """What of the suites is chosen.

    Attributes
    ----------
    names : suites, kernels with all that the suites have of them, or ladders of other
        names at their own shape; all suites if there are none
    shapes : instead of those of the suites, for the kernels of as many sizes; one that fits no
        kernel is refused
    dtype, recipes : only these; recipes come instead of those that a suite names
    quick : only the first shape and type of each entry
    """

    names: Sequence[str] = ()
    shapes: Sequence[tuple[int, ...]] = ()
    dtype: str | None = None
    recipes: Sequence[str] = ()
    quick: bool = False


def plan_cases(
    choice: CaseChoice,
    suites: Mapping[str, Sequence[SuiteEntry]] = SUITES,
) -> tuple[list[PlannedCase], list[str]]:
    """The cases that are chosen, and a sentence for each kernel that is left out: a chosen shape
    fits another one, and not this.

    A suite has each problem once, with the recipes and peers of all its entries for that problem.

    Raises `BenchError` for a name that is neither suite nor kernel and for unknown recipes,
    `KernelError` for a shape that a kernel cannot have.
    """
    every = [(suite, entry) for suite, entries in suites.items() for entry in entries]
    known = dict.fromkeys([*suites, *(entry.kernel for _, entry in every), *LADDERS])
    for name in choice.names:
        if name in kernels() and name not in known:
            raise BenchError(
                f"{name} has no recipe to time; give a file with one of yours (@recipe), or "
                f"tirstep.modules:{name} for only its peers"
            )
        if name not in known:
            hint = suggest(name, known, f"there are {', '.join(known)}")
            raise BenchError(f"there is no suite and no kernel '{name}'; {hint}")
    for name in choice.recipes:
        if name not in RECIPES:
            hint = suggest(name, RECIPES, "see tirstep list")
            raise BenchError(f"there is no recipe '{name}'; {hint}")
    entries: list[tuple[str, SuiteEntry]] = []
    for name in choice.names or suites:
        found = [it for it in every if name in suites and it[0] == name]
        if not found and name in LADDERS and (ladder := LADDERS[name]).kernel != name:
            sizes, options = tuple(ladder.shape.values()), (_get_rung_options(ladder[0]),)
            found = [(name, SuiteEntry(ladder.kernel, (sizes,), options, (name,)))]
        found = found or [it for it in every if it[1].kernel == name]
        # A kernel that no suite has comes at the shapes of its ladders' examples.
        examples = [it.default_example.shape for it in RECIPES.values() if it.kernel == name]
        own = dict.fromkeys(tuple(shape.values()) for shape in examples)
        entries += found or [(name, SuiteEntry(name, (*own,)))]

    def fits(kernel: str, shape: Sequence[int]) -> bool:
        return len(get_kernel(kernel).size_names) in (1, len(shape))

    fitting = [it for it in choice.shapes if any(fits(entry.kernel, it) for _, entry in entries)]
    cases: dict[object, PlannedCase] = {}
    left_out: dict[str, None] = {}
    for suite, entry in entries:
        shapes = [it for it in choice.shapes if it not in fitting or fits(entry.kernel, it)]
        if choice.shapes and not shapes:
            names = ", ".join(get_kernel(entry.kernel).size_names)
            left_out[f"{entry.kernel} has the sizes {names}, which no --shape gives"] = None
            continue
        for planned in _expand(suite, entry, replace(choice, shapes=shapes)):
            place = suite, planned.problem
            if before := cases.get(place):
                recipes = {it.name: it for it in (*before.recipes, *planned.recipes)}
                peers = {it.name: it for it in (*before.peers, *planned.peers)}
                planned = PlannedCase(*place, (*recipes.values(),), (*peers.values(),))
            cases[place] = planned
    if not cases:
        raise BenchError("there is nothing to measure: no recipe fits; see tirstep list")
    return list(cases.values()), list(left_out)


def _expand(suite: str, entry: SuiteEntry, choice: CaseChoice) -> Iterator[PlannedCase]:
    """An entry's cases, at the shapes, types and recipes that are chosen; recipes are named, or a
    ladder's, or ``first``, ``last`` or ``all`` of the kernel's, in order.
    """
    kernel, shapes, every = get_kernel(entry.kernel), choice.shapes or entry.shapes, entry.options
    if choice.dtype is not None:
        every = ({**every[0], "dtype": choice.dtype, "out": choice.dtype},)
    if choice.quick:
        shapes, every = shapes[:1], every[:1]
    known, words = [it for it in RECIPES.values() if it.kernel == entry.kernel], entry.recipes
    words = (*choice.recipes,) or words
    picked = {*words, *(it.name for word in words for it in LADDERS.get(word, ()))}
    for word, some in {"all": known, "first": known[:1], "last": known[-1:]}.items():
        picked |= {it.name for it in some if word in words}
    recipes = [it for it in known if it.name in picked]
    for shape, given in itertools.product(shapes, every) if recipes else ():
        fitted = (math.prod(shape),) if len(kernel.size_names) == 1 else shape
        options: dict[str, Any] = {it: value for it, value in given.items() if it in kernel.options}
        # Sums of integers do not go back into a narrow type, nor any into tf32.
        own = str(options.get("dtype"))
        if options.get("out") == own and (own.startswith("int") or get_storage(own) != own):
            del options["out"]
        problem = kernel.problem(*fitted, **options)
        dtype = problem.options["dtype"]
        if fitting := tuple(it for it in recipes if not it.dtypes or dtype in it.dtypes):
            yield PlannedCase(suite, problem, fitting, entry.peers)
