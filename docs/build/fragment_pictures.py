"""Pictures of docs/tensor-cores.md, drawn from the functions that the intrinsics use."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pages import DOCS

from tirstep.files import write_file
from tirstep.transforms.intrinsics import get_depth, place_in_fragment
from tirstep.transforms.intrinsics.warpgroups import (
    SWIZZLES,
    get_tile_shape,
    place_in_accumulator,
    place_in_tile,
)

CELL, GAP, TOP = 22, 30, 26
BITS = 16
"""Of the type that is drawn."""
TILES = (
    ("A", "A: rows × k, 16 × 16", 16, get_depth(BITS)),
    ("B", "B: k × columns, 16 × 16", get_depth(BITS), 16),
    ("C", "C: rows × columns, 16 × 16", 16, 16),
)
SHADES = ("#cfe3f5", "#f8dcc4", "#d5ecd0", "#eadcf2")
"""Of the four registers, or of the four chunks' places."""
ROWS, CHUNKS, CHUNK_BYTES = 8, 8, 16


def draw_fragments() -> str:
    """Each element of a tile with the lane that holds it; the shade is the register."""
    parts: list[str] = []
    width = 0
    for role, title, rows, columns in TILES:

        def name(row: int, column: int, role: str = role) -> tuple[str, str]:
            lane, element = place_in_fragment(role, row, column, bits=BITS)  # type: ignore[arg-type]
            return str(lane), SHADES[element // 2]

        parts += draw_grid(width, title, rows, columns, name)
        width += columns * CELL + GAP
    return frame(width - GAP, TOP + 16 * CELL, parts)


def draw_swizzle() -> str:
    """Eight rows of 128 bytes: the chunk that lies in each 16 bytes, as they are and swizzled."""
    parts: list[str] = []
    for place, (title, swizzles) in enumerate((("rows", False), ("swizzled", True))):

        def name(row: int, column: int, swizzles: bool = swizzles) -> tuple[str, str]:
            chunk = column ^ (row % 8) if swizzles else column
            return str(chunk), "#cfe3f5" if chunk == 2 else "#ffffff"

        parts += draw_grid(place * (CHUNKS * CELL + GAP), title, ROWS, CHUNKS, name)
    return frame(2 * CHUNKS * CELL + GAP, TOP + ROWS * CELL, parts)


def draw_sums() -> str:
    """The sums of wgmma that the first warp of a warpgroup holds, with the thread of each."""

    def name(row: int, column: int) -> tuple[str, str]:
        thread, element = place_in_accumulator(row, column)
        return str(thread), SHADES[element // 2 % 4]

    title = "sums: rows × columns, the first 16 × 16 of 64 × N"
    return frame(16 * CELL, TOP + 16 * CELL, list(draw_grid(0, title, 16, 16, name)))


def draw_swizzles() -> str:
    """Rows 0 to 7 of tiles with each swizzle, in lines of 128 bytes: the row of each 16 bytes."""
    parts: list[str] = []
    width = 0
    for swizzle in SWIZZLES:
        shape = get_tile_shape(ROWS, swizzle * 8 // BITS, bits=BITS, swizzle=swizzle)
        held = {}
        for row in range(ROWS):
            for chunk in range(shape[2]):
                at = place_in_tile(row, chunk * shape[3], bits=BITS, swizzle=swizzle)
                held[divmod(row * shape[2] + at.chunk, CHUNKS)] = row, chunk

        def name(line: int, column: int, held: dict = held) -> tuple[str, str]:  # type: ignore[type-arg]
            row, chunk = held[line, column]
            return f"{row}.{chunk}", SHADES[0] if chunk == 0 else "#ffffff"

        lines = ROWS * swizzle // (CHUNKS * CHUNK_BYTES)
        title = f"{swizzle} bytes" if swizzle > CHUNK_BYTES else "16 bytes: none"
        parts += draw_grid(width, title, lines, CHUNKS, name)
        width += CHUNKS * CELL + GAP
    return frame(width - GAP, TOP + ROWS * CELL, parts)


def draw_grid(
    left: int, title: str, rows: int, columns: int, name: Callable[[int, int], tuple[str, str]]
) -> Iterator[str]:
    """A table of cells, each with a text and a colour."""
    yield f'<text x="{left}" y="16" text-anchor="start">{title}</text>'
    for row in range(rows):
        for column in range(columns):
            text, colour = name(row, column)
            x, y = left + column * CELL, TOP + row * CELL
            yield (
                f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour}" '
                f'stroke="#888"/><text x="{x + CELL // 2}" y="{y + 15}">{text}</text>'
            )


def frame(width: int, height: int, parts: list[str]) -> str:
    """A picture of so many pixels, with a white background for dark pages."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width + 16} {height + 16}" '
        'font-family="sans-serif" font-size="11" text-anchor="middle">'
        f'<rect x="-8" y="-8" width="{width + 16}" height="{height + 16}" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


PICTURES = {
    "fragments.svg": draw_fragments,
    "swizzle.svg": draw_swizzle,
    "wgmma_sums.svg": draw_sums,
    "wgmma_swizzles.svg": draw_swizzles,
}


def main() -> None:
    for file, draw in PICTURES.items():
        write_file(DOCS / "images" / file, draw())


if __name__ == "__main__":
    main()
