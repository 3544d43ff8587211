"""Windows of convolutions in rectangles: a pair, numbers on the CPU, tiles by the TMA, refusals."""

import functools

import numpy as np
import pytest
from edits import edit
from hypothesis import assume, given
from hypothesis import strategies as st
from kernels import parse_kernel
from pairs import check_pair, refuses
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.script import from_source
from tvm.tirx import BufferLoad, IterVar, Var

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, run_recipe
from tirstep.lowering_checks.devices import CpuDevice, get_device
from tirstep.modules import KernelError, conv2d
from tirstep.transforms.hopper.tma_tiles import TMA_COPY, CopyShape, find_box
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.conv2d import choose_rectangle, cover
from tirstep.transforms.tir import is_end, replace_fields

BEFORE = """
x (2, 9, 8), f (5, 3, 8), y (2, 7, 5)
n:2 t:7 o:5 i:3 c:8  y[n, t, o] += x[n, t + i, c] * f[o, i, c]
"""
AFTER = """
x (2, 9, 8), f (5, 3, 8), y (2, 7, 5)
windows (16, 24), filters (8, 24), sums (16, 8), tiles (16, 8)
p:16 k:24  windows[p, k] = T.if_then_else(p // 8 * 4 + p % 4 + k // 8 < 9,
    x[p % 8 // 4, p // 8 * 4 + p % 4 + k // 8, k % 8], T.float32(0))
o:8 k:24  filters[o, k] = T.if_then_else(o < 5, f[o, k // 8, k % 8], T.float32(0))
p:16 o:8 k:24  sums[p, o] += windows[p, k] * filters[o, k]
p:16 o:8  tiles[p, o] = sums[p, o]
for p, o in T.grid(16, 8):
    with T.sblock("y_crop"):
        vp, vo = T.axis.remap("SS", [p, o])
        if vp // 8 * 4 + vp % 4 < 7 and vo < 5:
            y[vp % 8 // 4, vp // 8 * 4 + vp % 4, vo] = tiles[vp, vo]
"""


SIZES = {"tile": (2, 4), "columns": 8, "depth": 8}


def tile(sch: Schedule, block: str = "y", **sizes: object):
    return tr.tile_windows(sch, sch.get_sblock(block), **{**SIZES, **sizes})


def test_tile_windows_pair() -> None:
    after = AFTER.replace("sums[", "y_sums[").replace("sums (", "y_sums (")
    text = parse_kernel(after.replace(" tiles", " y_tiles")).script()
    text = text.replace('sblock("y_sums")', 'sblock("y")').replace('("y_tiles")', '("y_result")')
    check_pair(parse_kernel(BEFORE), tile, from_source(text), is_replayable=False)


@st.composite
def draw_convolutions(draw):
    n, h, w = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    channels, window = ([draw(st.integers(1, most)) for _ in "12"] for most in (9, 4))
    steps = {it: draw(st.integers(1, 3)) for it in ("stride", "dilation")}
    out = draw(st.sampled_from(["float32", "bfloat16"]))
    options = {**steps, "padding": draw(st.integers(0, 4)), "dtype": "bfloat16", "out": out}
    rectangle = tuple(draw(st.sampled_from((1, 2, 4))) for _ in "nhw")
    others = {"columns": draw(st.integers(1, 8)), "depth": draw(st.integers(1, 8))}
    return (
        (n, h, w, *channels, *window),
        options,
        {"tile": rectangle, **others, "copies": draw(st.booleans())},
    )


@given(draw_convolutions())
def test_numbers_stay_as_they_were(drawn: tuple) -> None:
    """Whatever rectangles go beyond, and whatever the windows are."""
    sizes, options, chosen = drawn
    try:
        problem = conv2d.problem(*sizes, **options)
    except KernelError:  # no window fits
        assume(False)
    sch = Schedule(problem.module)
    tile(sch, "Y", **chosen)
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="windows") == []


CUBES = """
x (3, 5, 4, 6, 2) int32, f (3, 2, 2, 2, 2) int32, y (3, 4, 3, 3, 3) int32
z:3 a:4 b:3 c:3 o:3 i:2 j:2 k:2 d:2  y[z, a, b, c, o] += x[z, a + i,
    b + j, c * 2 + k, d] * f[o, i, j, k, d]
"""


def test_three_dimensions() -> None:
    """A convolution of cubes, that is not ours."""
    module = parse_kernel(CUBES)
    sch = Schedule(module)
    tile(sch, tile=(2, 1, 4, 2), columns=2, depth=4, copies=True)
    rng = np.random.default_rng(0)
    shapes = (3, 5, 4, 6, 2), (3, 2, 2, 2, 2), (3, 4, 3, 3, 3)
    arrays = [rng.integers(-9, 9, shape).astype("int32") for shape in shapes]
    right, got = (CpuDevice().compile(it)([*map(np.copy, arrays)])[2] for it in (module, sch.mod))
    np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize(
    ("before", "sizes", "message"),
    [
        (
            BEFORE,
            {"tile": (2, 4, 4)},
            r"tile=\(2, 4, 4\), columns=8 and depth=8 do not fit the 2 i",
        ),
        (BEFORE, {"columns": 0}, "give a size of at least 1"),
        (BEFORE.replace(" += ", " = T.float32(9) -> y[n, t, o] * "), {}, "by y.* * x.* * f"),
        (BEFORE.replace(" * f[o, i, c]", ""), {}, "does not sum products"),
        (BEFORE.replace("f[o, i, c]", "f[o, i, n]"), {}, "not a convolution with rows of windows"),
        (BEFORE.replace("c:8", "c:6").replace("t + i, c]", "t + i, c + 1]"), {}, "channels last"),
        (
            BEFORE.replace("* f[o", "* T.exp(f[o").replace("c]\n", "c])\n"),
            {},
            "neither an element of a tens",
        ),
        (
            BEFORE.replace("x[n, t + i, c]", "T.if_then_else(t < 5, x[n, t + i, c], T.float32(0))"),
            {},
            "takes zeros where .* does not hold",
        ),
        (BEFORE.replace("c:8", "c:6"), {}, "sums 6 of the channels of both operands"),
        (BEFORE.replace("y (2, 7, 5)", "y (2, 8, 5)"), {}, "elements that block 'y' does not comp"),
        (
            BEFORE.replace("(2, 9, 8)", "(2, m, 8)").replace("t:7", "t:m"),
            {},
            "is not constant; use constant sizes",
        ),
    ],
)
def test_tile_windows_refuses(before: str, sizes: dict, message: str) -> None:
    sch = Schedule(parse_kernel(before))
    block = sch.get_sblock("y")
    with refuses(sch, f"tile_windows: .*{message}"):
        tr.tile_windows(sch, block, **{**SIZES, **sizes})


def test_tile_windows_refuses_shared_loops() -> None:
    text = BEFORE.replace(", y (2, 7, 5)\n", ", z (2, 7, 5)\ny (2, 7, 5)\n")
    sch = Schedule(parse_kernel(f"{text}n:2 t:7 o:5  z[n, t, o] = y[n, t, o]\n"))
    block = sch.get_sblock("y")
    sch.reverse_compute_at(sch.get_sblock("z"), sch.get_loops(block)[0])
    with refuses(sch, "tile_windows: .*(shares a loop|loops)"):
        tr.tile_windows(sch, block, **SIZES)


def test_tile_windows_refuses_an_epilogue_that_reads_more() -> None:
    text = BEFORE.replace(", y (2, 7, 5)\n", ", z (2, 7, 5), b (5,)\ny (2, 7, 5)\n")
    sch = Schedule(parse_kernel(f"{text}n:2 t:7 o:5  z[n, t, o] = y[n, t, o] + b[o]\n"))
    block = sch.get_sblock("y")
    with refuses(sch, "tile_windows: block 'z' uses more than each sum at its own indices"):
        tr.tile_windows(sch, block, **SIZES)


AT = tuple(Var(it, "int32") for it in "rk")


@pytest.mark.parametrize(
    ("indices", "wanted"),
    [
        (lambda r, k: (r, k), ([16, 8], [1, 1])),
        (lambda r, k: (r // 4, r % 4, k), ([4, 4, 8], [1, 1, 1])),
        (
            lambda r, k: (r // 8 + k // 8, r % 8 // 2 * 3 - 1, r % 2 * 2, k % 8),
            ([2, 4, 2, 8], [1, 3, 2, 1]),
        ),
        (lambda r, k: (7, r, k + 5), ([1, 16, 8], [1, 1, 1])),
        (lambda r, k: (r, k * 2), None),  # the TMA has no strides within a row
        (lambda r, k: (r % 4, r // 4, k), None),
        (lambda r, k: (r // 4, k), None),  # several rows at one place
        (lambda r, k: (r // 4, r % 4 + k % 2, k), None),
        (lambda r, k: (r // 3, r % 3, k), None),  # rows of one tile that end within a rectangle
        (lambda r, k: (r * r, k), None),
    ],
)
def test_rectangles(indices, wanted) -> None:
    found = find_box(indices(*AT), dict(zip(AT, (16, 8), strict=True)), AT)
    assert (None if found is None else found[:2]) == wanted


def test_digits_are_seen_where_tiles_are_aligned() -> None:
    r, k = AT
    indices, extents = (r // 16, r % 16, k), dict(zip(AT, (16, 8), strict=True))
    assert find_box(indices, extents, AT) is not None
    assert find_box(indices, extents, (k,)) is None


def test_ends_of_tensors_are_known_in_any_form() -> None:
    r, k = AT
    iterators = [IterVar(Range(0, 64), it, IterVar.DataPar) for it in AT]
    indices, shape = (r // 8 - 1, k * 2 + 4), (7, 90)
    for said, wanted in (
        (r // 8 - 1 >= 0, True),
        (r >= 8, True),
        (r < 64, True),  # it always holds
        (r < 0, False),
        (r // 8 < 7, False),
        (k * 2 < 86, True),
        (k < 43, True),
        (k < 42, False),
        (k >= 3, False),
        (r // 8 - 1 < k, False),
    ):
        assert is_end(said, indices, shape, iterators) == wanted, said


@given(st.tuples(*[st.integers(1, 300)] * 3), st.sampled_from((64, 128, 256)))
def test_rectangles_cover_images_with_few_others(lengths: tuple[int, ...], rows: int) -> None:
    sides = choose_rectangle(lengths, rows)
    assert np.prod(sides) == rows
    least = cover(lengths, sides)
    powers = [1 << power for power in range(9)]
    others = ((rows // (y * x), y, x) for y in powers for x in powers if y * x <= rows)
    assert all(least <= cover(lengths, it) for it in others)


STRIDED = dict(zip(("n", "h", "w", "ci", "co", "kh", "kw"), (2, 9, 7, 24, 16, 3, 2), strict=True))


@functools.cache
def run_strided():
    options = {"dtype": "bfloat16", "out": "bfloat16", "stride": 2, "padding": 1, "dilation": 1}
    config = {"tile": (64, 16), "warpgroups": (1, 1), "tile_k": 32, "stages": 2}
    return run_recipe(RECIPES["conv2d_wgmma_tma"], STRIDED, options=options, config=config)


def shift(load, dimension: int):
    moved = [at + (place == dimension) for place, at in enumerate(load.indices)]
    return BufferLoad(load.source, moved)


@pytest.mark.parametrize(
    "planted", ["none", "a tap late", "a row late", "a channel late", "strides"]
)
def test_what_the_tma_copies_is_what_the_module_says(planted: str) -> None:
    run = run_strided()
    module = run.steps[-1].module
    if planted == "strides":

        def forget(block: SBlock):
            shape = CopyShape.of_list(block.annotations[TMA_COPY])
            return replace_fields(
                block,
                annotations={**block.annotations, TMA_COPY: shape._replace(strides=()).to_list()},
            )

        def is_strided(block: SBlock):
            return len(block.annotations.get(TMA_COPY, ())) > 7

        module = edit(module, SBlock, is_strided, forget)
    elif planted != "none":
        dimension = ["a row late", "a tap late", "a channel late"].index(planted) + 1
        module = edit(
            module,
            TensorLoad,
            lambda load: load.source.name == "X",
            lambda load: shift(load, dimension),
        )
    findings = check_numbers(run.problem, module, get_device("simulator"), where=planted)
    assert bool(findings) == (planted != "none")
