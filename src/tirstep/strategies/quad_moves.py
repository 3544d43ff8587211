"""The moves of a player for chains of products, whose fragments stay in registers."""

from __future__ import annotations

from collections.abc import Callable

from .fragment_moves import FragmentMoves
from .plays import PREFIX, Block, Call, Loop, find_copies, find_sequences

ALL_STEPS = 99
"""More than a recipe has."""
PIPELINE = (
    "prefetch_by_tma",
    "specialize_warps",
    "overlap_products",
    "alternate_warpgroups",
    "make_persistent",
)
"""What makes a pipeline of attention's loop over tiles of keys, in the order of recipes."""
AT_MASKS = ("end_loop_at_mask", "launch_longest_first", "split_loop_at_mask")


class QuadMoves(FragmentMoves):
    """What a player draws of the transforms for what lies between two products."""

    def do_lay_in_quads(self) -> Call:
        """The last two dimensions of what a block writes mostly, or one of rows."""
        writes = self._node(self.at).writes
        count = len(writes[0].source.shape) if writes else 1
        how = self.one(("both", "both", "rows", "any"), "dimensions")
        if how == "both":
            return self.of_block("lay_in_quads", rows=count - 2, columns=count - 1)
        if how == "rows":
            return self.of_block("lay_in_quads", rows=self.one(range(count), "rows"), columns=None)
        drawn = {name: self.one((0, 1, 2, 3), name) for name in ("rows", "columns")}
        return self.of_block("lay_in_quads", **drawn)

    def do_tensorize_in_quads(self) -> Call:
        """Of the product's own loads and zeros mostly; A may be in registers already."""
        block, loads, zeros, _ = self._find_roles()
        some = self.one((loads, loads, loads[1:]), "loads")
        return Call("tensorize_in_quads", (block, some, self.one((zeros, zeros, None), "zeros")))

    def list_row_steps(self) -> list[Callable[[], Call]]:
        """What draws the calls that make attention one of wgmma, and a pipeline of its loop.

        Exponents come first, then a recipe without its pipeline, and behind it what pipelines and
        masks are made into: in the order of recipes mostly.
        """
        given = self.play.problem.options
        power = Block("exp")
        names = [*(AT_MASKS if given["causal"] else ()), *PIPELINE]
        if self.one((False, False, True), "any order"):
            names = [names.pop(self.one(range(len(names)), "next")) for _ in names[:]]
        chosen = [name for name in names if self.one([True] * 5 + [False], name)]
        powers = ("use_powers_of_two", "fuse_exponents")
        return [
            *(lambda name=name: self._at(name, power, power) for name in powers),
            self._draw_rows,
            *(lambda name=name: self._draw_at_steps(name) for name in chosen),
        ]

    def _draw_rows(self) -> Call:
        """The steps of the recipe whose warpgroups multiply rows, with fitting sizes."""
        shape = self.play.problem.shape
        groups = [count for count in (1, 1, 2) if shape["queries"] % (64 * count) == 0]
        tiles = [keys for keys in (16, 32, 32, 64) if shape["keys"] % keys == 0]
        sizes = {"warpgroups": self.one(groups, "warpgroups"), "keys": self.one(tiles, "keys")}
        return Call(PREFIX, ("attention_wgmma", ALL_STEPS), sizes)

    def _draw_at_steps(self, name: str) -> Call:
        """A call about the loop over tiles of keys."""
        loop = self._find_steps()
        if name == "prefetch_by_tma":
            return self._feed("prefetch_by_tma", loop)
        return self._at(name, loop.block, loop)

    def _find_steps(self) -> Loop:
        """The loop that begins with the copies of keys and of values."""
        loops = [loop for block in self.play.blocks() for loop in find_sequences(self.play, block)]
        found = [loop for loop in loops if len(find_copies(self.play, loop)) == 2]
        return self.one(found[:1], "steps")

    def list_stream_steps(self) -> list[Callable[[], Call]]:
        """What draws the calls that make a sum of parts whose GPU blocks share steps."""
        name, is_matmul = self.play.blocks()[0].name, "k" in self.play.problem.shape
        total, part = Block(name), Block(f"{name}_rf")
        grid, threads, steps = (Loop(part, at) for at in (1, 2, 3))
        rows = [Loop(part, 1), Loop(part, 2)]
        sizes = {"inner": self.one((2, 4, 8), "inner"), "tail": "guard"}
        calls = [
            Call("bind_loop", (Loop(part, 0),), {"axis": "blockIdx.y"}),
            *([Call("fuse_loops", (rows,))] if is_matmul else []),
            Call("split_loop", (grid,), sizes),
            Call("bind_loop", (grid,), {"axis": "blockIdx.x"}),
            Call("bind_loop", (threads,), {"axis": "threadIdx.x"}),
            Call("split_reduction", (part,), {"inner": self.one((1, 2, 3), "depth")}),
            Call("decompose_reduction_at", (part, steps)),
            Call("bind_loop", (Loop(total, 0),), {"axis": "threadIdx.x"}),
        ]
        loop = Loop(Block(f"{name}_rf_update"), 3)
        return [
            lambda: self._at("rfactor_reduction", total, total),
            *(lambda call=call: call for call in calls),
            lambda: self._at("stream_steps", loop.block, loop),
        ]
