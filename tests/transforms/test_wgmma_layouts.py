"""Tiles and sums of wgmma: one layout for the intrinsics, the simulator and the manual of PTX."""

import itertools

import pytest

from tirstep.lowering_checks.devices.simulator.warpgroups import place_tile
from tirstep.transforms import TransformError
from tirstep.transforms.hopper.wgmma_intrinsics import (
    NARROW_COLUMNS,
    SWIZZLES,
    WgmmaTile,
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


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("swizzle", SWIZZLES)
def test_a_swizzled_tile_is_what_an_instruction_reads(swizzle: int, bits: int) -> None:
    """Along k: every byte is where the simulator's own formula, of addresses, finds it."""
    rows, step = 64, 256 // bits
    columns = 4 * step
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
    assert seen == set(range(0, rows * columns * bits // 8, bits // 8))


def test_the_widest_swizzle_and_instruction_that_fit_are_chosen() -> None:
    assert [choose_swizzle(it) for it in (256, 128, 192, 96, 48, 24)] == [128, 128, 64, 32, 16, 16]
    assert [choose_columns(it, dtype="float16") for it in (256, 512, 96, 24, 12)] == [
        256, 256, 96, 24, None,
    ]  # fmt: skip
    assert choose_columns(96, dtype="float16", multiple=64) is None
    assert choose_columns(256, dtype="int8") == 128
    assert 40 not in NARROW_COLUMNS
    assert choose_columns(40, dtype="int8") == 8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float64"}, "wgmma does not multiply float64; use one of float16"),
        ({"acc": "float16"}, "products of float16 are not summed in float16 here; sum them"),
        ({"dtype": "int8", "acc": "int32"}, "reads int8 along k only, and B lies as"),
        ({"rows": 96}, r"tile rows \(96\) must be a multiple of 64 for wgmma"),
        ({"columns": 96}, "rows of 192 bytes of B must be multiples of the swizzle, 128 bytes"),
        ({"columns": 12, "transpose_b": True}, "no instruction of float16 has columns that"),
        ({"depth": 24, "swizzles": (16, 128)}, r"depth \(24\) must be a multiple of 16 for"),
        ({"swizzles": (24, 128)}, "rows of 128 bytes of A must be multiples of the swizzle,"),
        ({"in_flight": 8}, "in_flight=8 is not a number of groups that a wait can leave"),
    ],
)
def test_what_an_instruction_cannot_do_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(TransformError, match=message):
        get_wgmma_intrinsics(WgmmaTile(**{**vars(HALF), **changes}))
