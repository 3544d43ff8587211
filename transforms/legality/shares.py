"""Equal shares of the steps of all tiles: how many a worker has, and how many meet in a tile."""

from __future__ import annotations

from typing import NamedTuple


class Shares(NamedTuple):
    """Equal shares of the steps of tiles, one after the other, of which a worker has one each.

    Attributes
    ----------
    tiles, steps, parts : of the result, of a tile, and of a tile's sum
    each : the steps of a share
    workers : GPU blocks; the last one may have nothing but a part without steps
    """

    tiles: int
    steps: int
    parts: int
    each: int
    workers: int


def count_parts(tiles: int, steps: int, each: int) -> int:
    """How many shares, of so many steps each, meet in one tile at most."""
    return max(
        (tile * steps + steps - 1) // each - tile * steps // each + 1
        for tile in range(min(tiles, each))
    )


def share_steps(tiles: int, steps: int, parts: int, workers: int) -> Shares | None:
    """The smallest equal shares for so many workers at most, of which no more than `parts` meet in
    a tile; None where there are fewer workers than parts.
    """
    if workers < parts:
        return None
    each = -(-tiles * steps // workers)
    while _count_workers(tiles, steps, parts, each) > workers or (
        count_parts(tiles, steps, each) > parts
    ):
        each += 1
    return Shares(tiles, steps, parts, each, _count_workers(tiles, steps, parts, each))


def _count_workers(tiles: int, steps: int, parts: int, each: int) -> int:
    """The workers with such shares, where all parts of the last tile are written, too."""
    return (tiles - 1) * steps // each + parts
