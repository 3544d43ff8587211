"""How a player draws each public transform: how often, where, and with which options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .places import Places
from .plays import Call, find_copies

Where = Callable[[Places], tuple[Any, ...]]
Drawn = Callable[[Places], Any]


class Move(NamedTuple):
    """A transform that is drawn.

    Attributes
    ----------
    weight : how often, among all
    where : its places; None for a move of its own, the player's method ``do_NAME``
    options : by name, what one is chosen of, or what draws one
    """

    weight: int
    where: Where | None = None
    options: Mapping[str, Sequence[Any] | Drawn] = {}

    def draw(self, name: str, places: Places) -> Call:
        """The call of a transform of this name: its options, then where."""
        assert self.where is not None
        options = {
            option: drawn(places) if callable(drawn) else places.one(drawn, option)
            for option, drawn in self.options.items()
        }
        return Call(name, self.where(places), options)


def _nowhere(_places: Places) -> tuple[Any, ...]:
    return ()


def _block(places: Places) -> tuple[Any, ...]:
    return (places.at,)


def _place(places: Places) -> tuple[Any, ...]:
    return places.at, places.loop()


def _loop(places: Places) -> tuple[Any, ...]:
    return (places.loop(),)


def _serial(places: Places) -> tuple[Any, ...]:
    return (places.loop(serial=True),)


def _sequence(places: Places) -> tuple[Any, ...]:
    return (places.sequence(),)


def _copies(places: Places) -> tuple[Any, ...]:
    """A loop for a pipeline, and the copies that it begins with."""
    loop = places.sequence()
    return loop, find_copies(places.play, loop)


def _elsewhere(places: Places) -> tuple[Any, ...]:
    """A block, and a loop of another one."""
    other = places.block()
    return places.at, places.loop(other) if places.play.loops(other) else places.loop()


TAIL, SCOPE, THREADS, WARPS = Places.tail, Places.scope, Places.threads, Places.warps
SHARED = ("shared", "shared.dyn")
TABLE: dict[str, Move] = {
    "accumulate_in_registers": Move(3, _place),
    "align_vectors": Move(2),
    "alternate_tiles": Move(
        1,
        _sequence,
        {"warpgroups": (2, 2, 2, 3), "registers": (None, None, (40, 232), (32, 160))},
    ),
    "alternate_warpgroups": Move(1, _sequence),
    "bind_batch": Move(1, _block, {"axis": ("blockIdx.y", "blockIdx.z"), "kept": (0, 1, 1, 2)}),
    "bind_loop": Move(6),
    "cache_read_at": Move(5, _place, {"operand": (0, 0, 1, 1, 2), "scope": SCOPE}),
    "cache_row_at": Move(2, _place, {"operand": (0, 0, 1)}),
    "cache_write_at": Move(4, _place, {"scope": SCOPE}),
    "compute_block_at": Move(4, _elsewhere),
    "decompose_reduction_at": Move(3, _place),
    "end_loop_at_mask": Move(1, _loop),
    "factor_out_of_sum": Move(2, _block),
    "fetch_cooperatively": Move(
        4, _block, {"vector": (1, 1, 2, 4), "threads": THREADS, "tail": TAIL}
    ),
    "fold_tile": Move(2),
    "fuse_epilogue_at": Move(2),
    "fuse_loops": Move(3),
    "fuse_reductions": Move(2),
    "inline_epilogue": Move(1, _block),
    "inline_producers": Move(2, _block),
    "keep_in_registers": Move(3, _block),
    "fuse_exponents": Move(1, _block),
    "launch_longest_first": Move(1, _loop),
    "lay_in_panels": Move(1, _block, {"width": (1, 4, 8, 16, 64)}),
    "lay_in_quads": Move(2),
    "make_persistent": Move(1, _sequence, {"blocks": (1, 2, 3), "stages": (None, None, 3, 5)}),
    "merge_loops": Move(2),
    "order_product": Move(1, _block),
    "overlap_products": Move(1, _sequence),
    "pad_block": Move(2),
    "pad_shared_rows": Move(3, _block, {"elements": (1, 2, 4)}),
    "prefetch_asynchronously": Move(3, _copies, {"stages": (2, 2, 3, 4)}),
    "prefetch_by_tma": Move(2, _copies, {"stages": (2, 2, 2, 3, 4)}),
    "prefetch_fragments": Move(2, _sequence),
    "prefetch_through_registers": Move(3, _copies),
    "reorder_loops": Move(3),
    "reverse_compute_block_at": Move(4, _elsewhere),
    "rfactor_reduction": Move(3, _block, {"parts": (2, 3, 4)}),
    "round_operand": Move(2, _block, {"operand": (0, 0, 1, 1, 2, 3)}),
    "set_pass_option": Move(
        1, _nowhere, {"name": ("tirx.disable_storage_rewrite",), "value": (True,)}
    ),
    "set_pipeline": Move(1, _nowhere, {"name": ("tirstep", "default")}),
    "specialize_warps": Move(2, _sequence, {"registers": (None, None, (24, 64), (40, 240))}),
    "split_loop": Move(4),
    "split_loop_at_mask": Move(1, _loop),
    "split_reduction": Move(3, _block, {"inner": (1, 2, 3, 4, 8), "tail": TAIL}),
    "split_reductions": Move(2),
    "spread_over_quads": Move(2, _block, {"columns": (True, True, False)}),
    "spread_over_threads": Move(
        4, _block, {"threads": (2, 4, 8, 32), "vector": (1, 1, 2, 4), "tail": TAIL}
    ),
    "stage_fragments_at": Move(
        3,
        _place,
        {
            "operand": (0, 1),
            "warps": WARPS,
            "vector": (1, 2, 4, 8),
            "layout": ("rows", "padded", "swizzled"),
            "tail": TAIL,
        },
    ),
    "stage_operand_at": Move(
        4,
        _place,
        {
            "operand": (0, 1),
            "threads": THREADS,
            "vector": (1, 1, 2, 4),
            "scope": SHARED,
            "tail": TAIL,
        },
    ),
    "stage_swizzled_at": Move(
        2,
        _place,
        {
            "operand": (0, 1),
            "warpgroups": WARPS,
            "vector": (1, 2, 4, 8),
            "swizzle": (16, 32, 64, 128),
            "tail": TAIL,
        },
    ),
    "store_by_tma": Move(1, _block),
    "store_through_shared": Move(2),
    "store_through_tiles": Move(1),
    "stream_steps": Move(1, _loop, {"workers": (2, 3, 5)}),
    "suggest_unrolling": Move(1, _serial),
    "tensorize_fragments": Move(3),
    "tensorize_in_quads": Move(2),
    "tensorize_warp_rows": Move(1, _block),
    "tensorize_warpgroups": Move(1),
    "tile_block": Move(4),
    "tile_in_fragments": Move(2),
    "tile_in_warpgroups": Move(1),
    "tile_in_warps": Move(2),
    "tile_product": Move(2, _block),
    "transpose_tile": Move(2, _block),
    "unroll_loop": Move(1, _serial, {"limit": (64,)}),
    "use_powers_of_two": Move(1, _block),
    "vectorize_copy": Move(2, _block, {"vector": (1, 2, 4, 8)}),
    "vectorize_loop": Move(3),
    "widen_sums": Move(2, _block),
}
"""Every public transform."""
MOVES = [name for name, move in TABLE.items() for _ in range(move.weight)]
