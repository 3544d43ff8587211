"""The moves of a player for chains of products, whose fragments stay in registers."""

from __future__ import annotations

from .fragment_moves import FragmentMoves
from .plays import Call


class QuadMoves(FragmentMoves):
    """What a player draws of the transforms for what lies between two products."""

    def do_round_operand(self) -> Call:
        return self.of_block("round_operand", operand=self.one((0, 0, 1, 1, 2, 3), "operand"))

    def do_tile_product(self) -> Call:
        return self.of_block("tile_product")

    def do_order_product(self) -> Call:
        return self.of_block("order_product")

    def do_tensorize_warp_rows(self) -> Call:
        return self.of_block("tensorize_warp_rows")

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

    def do_spread_over_quads(self) -> Call:
        return self.of_block("spread_over_quads", columns=self.one((True, True, False), "columns"))

    def do_tensorize_in_quads(self) -> Call:
        """Of the product's own loads and zeros mostly; A may be in registers already."""
        block, loads, zeros, _ = self._find_roles()
        some = self.one((loads, loads, loads[1:]), "loads")
        return Call("tensorize_in_quads", (block, some, self.one((zeros, zeros, None), "zeros")))
