"""Tiles and sums of wgmma: one layout for the intrinsics, the simulator and the manual of PTX."""

import itertools

import pytest

from tirstep.lowering_checks.devices.simulator.warpgroups import place_tile
from tirstep.transforms import TransformError
from tirstep.transforms.hopper.wgmma_intrinsics import (
    NARROW_COLUMNS,
    SWIZZLES,
    WgmmaTile,
    begin_with_slabs,
    choose_columns,
    choose_swizzle,
    get_step,
    get_strides,
    get_tile_shape,
    get_wgmma_intrinsics,
    place_in_tile,
)

HALF = WgmmaTile(
    dtype="float16",
    acc="float32",
    rows=64,
    columns=64,
    depth=64,
    transpose_b=False,
    swizzles=(128, 128),
)


def find_byte(row: int, column: int, shape: tuple[int, ...], bits: int, swizzle: int) -> int:
    """The address of an element in its tile, whose dimensions lie one after the other."""
    at = 0
    for size, index in zip(
        shape, place_in_tile(row, column, bits=bits, swizzle=swizzle), strict=True
    ):
        assert 0 <= index < size
        at = at * size + index
    return at * bits // 8


@pytest.mark.parametrize("steps", [4, 3])
@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_a_swizzled_tile_is_what_an_instruction_reads(swizzle: int, bits: int, steps: int) -> None:
    """Along k: every byte is where the simulator's own formula, of addresses, finds it, also where
    the last slab is not full.
    """
    rows, step = 64, 256 // bits
    columns = steps * step
    shape = get_tile_shape(rows, columns, bits=bits, swizzle=swizzle)
    slab = rows * swizzle
    leading, stride = (16 * it for it in get_strides(slab, swizzle=swizzle, is_along_k=True))
    seen = set()
    for row, column in itertools.product(range(rows), range(columns)):
        k, inside = divmod(column, step)
        start = 16 * get_step(slab, k, bits=bits, swizzle=swizzle, is_along_k=True)
        at = (start, leading, stride)
        byte = place_tile(at, swizzle, row, inside, bits // 8, is_across=False)
        assert byte == find_byte(row, column, shape, bits, swizzle)
        seen.add(byte)
    assert len(seen) == rows * columns
    if steps * 32 % swizzle == 0:
        assert seen == set(range(0, rows * columns * bits // 8, bits // 8))


@pytest.mark.parametrize("columns", [96, 144, 208])
def test_an_instruction_reads_a_tile_of_any_width_across_slabs(columns: int) -> None:
    """Across k: tiles side by side begin with slabs of their own, three or four of 64 columns."""
    depth, swizzle = 16, 128
    shape = get_tile_shape(depth, columns, bits=16, swizzle=swizzle)
    assert shape == (-(-columns // 64), depth, 8, 8)
    slab = depth * swizzle
    leading, stride = (16 * it for it in get_strides(slab, swizzle=swizzle, is_along_k=False))
    for tile, k, column in itertools.product(range(2), range(depth), range(columns)):
        at = begin_with_slabs(tile * columns + column, columns, bits=16, swizzle=swizzle)
        slabs, *place = place_in_tile(k, at, bits=16, swizzle=swizzle)
        byte = place_tile((0, leading, stride), swizzle, column, k, 2, is_across=True)
        own = (slabs - tile * shape[0], *place)
        assert all(0 <= index < size for index, size in zip(own, shape, strict=True))
        found = ((own[0] * depth + own[1]) * 8 + own[2]) * 8 + own[3]
        assert byte == 2 * found


def test_the_widest_swizzle_and_instruction_that_fit_are_chosen() -> None:
    assert [choose_swizzle(it) for it in (256, 128, 192, 96, 48, 24)] == [128, 128, 64, 32, 16, 16]
    rounded = [choose_swizzle(it, rounds_up=True) for it in (256, 192, 96, 64, 48, 24)]
    assert rounded == [128, 128, 64, 64, 32, 16]
    assert [choose_columns(it, dtype="float16") for it in (256, 512, 96, 24, 12)] == [
        256, 256, 96, 24, None,
    ]  # fmt: skip
    columns = [choose_columns(it, dtype="float16", multiple=64) for it in (96, 256, 288, 384)]
    assert columns == [96, 256, None, 192]
    assert choose_columns(256, dtype="int8") == 128
    assert 40 not in NARROW_COLUMNS
    assert choose_columns(40, dtype="int8") == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float64"}, "wgmma does not multiply float64; use one of float16"),
        ({"acc": "float16"}, "products of float16 are not summed in float16 here; sum them"),
        ({"dtype": "int8", "acc": "int32"}, "reads int8 only along k, and B is stored"),
        ({"rows": 96}, r"tile rows \(96\) must be a multiple of 64 for wgmma"),
        ({"columns": 288}, "columns that divide 288 and that 128 bytes divide; use a multiple of"),
        ({"columns": 12, "transpose_b": True}, "no instruction of float16 has columns that"),
        ({"depth": 24, "swizzles": (16, 128)}, r"depth \(24\) must be a multiple of 16 for"),
        (
            {"swizzles": (24, 128)},
            r"wgmma does not support swizzles of \(24, 128\) bytes; use 128, 64",
        ),
        ({"in_flight": 8}, "in_flight=8 is not a number of groups that a wait can leave"),
    ],
)
def test_what_an_instruction_cannot_do_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(TransformError, match=message):
        get_wgmma_intrinsics(WgmmaTile(**{**vars(HALF), **changes}))
