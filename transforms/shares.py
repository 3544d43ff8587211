"""Equal shares of the steps of all tiles: how many a worker has, and how many meet in a tile."""

from __future__ import annotations

import math
from typing import NamedTuple

_COUNTED = 1 << 21
"""Steps of all tiles among which the smallest share is looked for."""


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
        for tile in range(min(tiles, each // math.gcd(steps, each)))
    )


def share_steps(tiles: int, steps: int, parts: int, workers: int) -> Shares | None:
    """The smallest equal shares for so many workers at most, of which no more than `parts` meet in
    a tile; None where there are fewer workers than parts.
    """
    if workers < parts:
        return None
    # As many as there are, with all parts of the last tile, and as many as a tile has parts.
    others = (tiles - 1) * steps // (workers - parts + 1) + 1
    least = max(-(-tiles * steps // workers), others, -(-steps // parts))
    each = _find_share(tiles, steps, parts, least)
    return Shares(tiles, steps, parts, each, (tiles - 1) * steps // each + parts)


def _find_share(tiles: int, steps: int, parts: int, least: int) -> int:
    """The smallest share, of so many steps at least, of which no more than `parts` meet; of tiles
    whose many steps begin anywhere in a share, one that is known to do.
    """
    if parts == 1:  # which ends where a tile does
        return -(-least // steps) * steps
    enough = max(least, -(-(steps - 1) // (parts - 1)))
    if tiles * steps > _COUNTED:
        return enough
    tried = (it for it in range(least, enough) if count_parts(tiles, steps, it) <= parts)
    return next(tried, enough)
