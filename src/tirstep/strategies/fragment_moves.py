"""The moves of a player that lead to tensor cores, alone and in the order that makes them whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm.s_tir import SBlock

from tirstep.transforms import tir

from .moves import TABLE
from .places import Places
from .plays import Block, Call, Loop, find_copies

PAIRS = ((16, 16), (16, 32), (32, 16), (32, 32))
"""Sides of tiles of fragments."""
TILES = ((64, 64), (64, 64), (64, 32), (128, 32), (64, 16), (64, 8))
"""Rows and columns of tiles of warpgroups."""
DEPTHS = (32, 64, 64, 64, 16)


class FragmentMoves(Places):
    """What a player draws of the transforms for tensor cores."""

    def draw(self, name: str) -> Call:
        """A call of a transform."""
        move = TABLE[name]
        return move.draw(name, self) if move.where else getattr(self, f"do_{name}")()

    def do_tile_in_fragments(self) -> Call:
        depths = (16, 32, 8) if self.one([False] * 7 + [True], "depth") else (self._get_depth(),)
        depth, length = self.one(depths, "depth"), self.play.problem.shape.get("k", 1)
        tile, warp = self.draw_tile()
        steps = [n for n in (1, 1, 2, 4) if length % (n * depth) == 0] or [1]
        return self.of_block(
            "tile_in_fragments",
            tile=tile,
            warp=warp,
            tile_k=depth * self.one(steps, "tile_k"),
            depth=depth,
            swizzle=self.one((1, 1, 1, 2), "swizzle"),
        )

    def draw_tile(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """A tile and that of a warp: pairs that fit into each other and the problem, mostly."""
        rows, columns = (self.play.problem.shape.get(name, 1) for name in "mn")
        fit = [pair for pair in PAIRS if not (rows % pair[0] or columns % pair[1])]
        tile = self.one(fit if fit and self.one((True, True, False), "fit") else PAIRS, "tile")
        within = [pair for pair in PAIRS if pair[0] <= tile[0] and pair[1] <= tile[1]]
        return tile, self.one(within, "warp")

    def _get_depth(self) -> int:
        """Of the fragments of the type that is multiplied."""
        return {"float16": 16, "bfloat16": 16, "float32": 8}.get(
            self.play.problem.options["dtype"], 32
        )

    def do_tensorize_fragments(self) -> Call:
        """Of the product's own loads, zeros and store mostly; otherwise of any blocks."""
        block, loads, zeros, store = self._find_roles()
        tf32 = self.one((False, False, True), "tf32")
        return Call("tensorize_fragments", (block, loads, zeros, store), {"tf32": tf32})

    def _find_roles(self) -> tuple[Block, list[Block], Block, Block]:
        """A product, mostly with its own loads, zeros and store."""
        blocks = self.play.blocks()
        products = [
            block
            for block in blocks
            if self._node(block).reads and tir.find_all(self._node(block).body, SBlock)
        ]
        block = self.one(products or blocks, "product")
        node, others = self._node(block), [other for other in blocks if other != block]
        sums = node.writes[0].source
        operands = [region.source for region in node.reads if not region.source.same_as(sums)]
        loads = [
            next((other for other in others if self._writes(other, operand)), block)
            for operand in operands[:2]
        ]
        zeros = next((other for other in others if self._writes(other, sums)), block)
        store = next((other for other in others if self._reads(other, sums)), block)
        if self.one([False] * 7 + [True], "elsewhere"):
            block, zeros, store = (self.block() for _ in range(3))
            loads = loads[::-1]
        return block, loads, zeros, store

    def do_tile_in_warpgroups(self) -> Call:
        rows, columns, length = (self.play.problem.shape.get(name, 1) for name in "mnk")
        fit = [pair for pair in TILES if not (rows % pair[0] or columns % pair[1])]
        tile = self.one(fit if fit and self.one([True] * 5 + [False], "fit") else TILES, "tile")
        parts = [pair for pair in TILES if not (tile[0] % pair[0] or tile[1] % pair[1])]
        depths = [depth for depth in DEPTHS if length % depth == 0] or DEPTHS
        return self.of_block(
            "tile_in_warpgroups",
            tile=tile,
            warpgroup=self.one(parts, "warpgroup"),
            tile_k=self.one(depths, "tile_k"),
            swizzle=self.one((1, 1, 1, 1, 2), "swizzle"),
        )

    def do_tensorize_warpgroups(self) -> Call:
        block, _, zeros, store = self._find_roles()
        given = self.play.problem.options
        options = {  # what loses bits is allowed where the kernel allows it
            "in_flight": self.one((0, 0, 0, 1), "in flight"),
            "tf32": given["dtype"] == "tf32",
            "fp22": given.get("acc") == "fp22",
        }
        return Call("tensorize_warpgroups", (block, zeros, store), options)

    def _node(self, block: Block) -> SBlock:
        return self.play.sch.get(self.play.block(block))

    def _writes(self, block: Block, buffer: Any) -> bool:
        return any(region.source.same_as(buffer) for region in self._node(block).writes)

    def _reads(self, block: Block, buffer: Any) -> bool:
        return any(region.source.same_as(buffer) for region in self._node(block).reads)

    def do_store_through_tiles(self) -> Call:
        vector = self.one((1, 2, 4, 8), "vector")
        return Call(
            "store_through_tiles",
            (self.at, *self._find_tile_loops()),
            {"warps": self.warps(), "lanes": self.one((128, 128, 32), "lanes"), "vector": vector},
        )

    def _find_tile_loops(self) -> list[Loop]:
        """The loops of the grid and of the warps, mostly."""
        loops = self.play.loops(self.at)
        places = [Loop(self.at, index) for index in range(min(2, len(loops)))]
        if len(places) < 2 or self.one([False] * 3 + [True], "elsewhere"):
            places = [self.loop(), self.loop()]
        return places

    def do_store_through_shared(self) -> Call:
        return Call(
            "store_through_shared",
            (self.at, *self._find_tile_loops()),
            {
                "columns": self.one((16, 32), "columns"),
                "warps": self.warps(),
                "vector": self.one((1, 2, 4), "vector"),
            },
        )

    def list_fragment_steps(self) -> list[Callable[[], Call]]:
        """What draws the calls that make a matmul tensorized, in their order; padded if need be."""
        product, block = Block("C"), Block("C_o")
        sizes = tuple(self.play.problem.shape.values())
        multiples = (16, 16, self._get_depth())
        is_whole = not any(size % part for size, part in zip(sizes, multiples, strict=True))
        through_shared = not is_whole or self.one((False, False, True), "through shared")
        padding = {"multiples": multiples}
        return [
            *([] if is_whole else [lambda: Call("pad_block", (product,), padding)]),
            lambda: replace(self.do_tile_in_fragments(), places=(product,)),
            lambda: self._store(block, through_shared=through_shared),
            lambda: self._stage(block, 0),
            lambda: self._stage(block, 1),
            lambda: self._load(block, 0),
            lambda: self._load(block, 1),
            lambda: Call("decompose_reduction_at", (block, Loop(block, 2))),
            self.do_tensorize_fragments,
        ]

    def list_warpgroup_steps(self) -> list[Callable[[], Call]]:
        """What draws the calls that make a matmul one of wgmma, in their order."""
        block = Block("C")
        ahead = self.one(("tma", "tma", "threads", "none"), "ahead")
        by_tma = self.one((True, False), "store by tma")
        steps: list[Callable[[], Call]] = [
            lambda: self._at("tile_in_warpgroups", block, block),
            lambda: self._store_warpgroups(block, by_tma=by_tma),
            *(lambda operand=operand: self._stage_swizzled(block, operand) for operand in (0, 1)),
            lambda: Call("decompose_reduction_at", (block, Loop(block, 2))),
        ]
        loop = Loop(Block("C_update"), 2)
        if ahead == "tma":
            steps.append(lambda: self._feed("prefetch_by_tma", loop))
        elif ahead == "threads":
            steps.append(lambda: self._feed("prefetch_asynchronously", loop))
        store = Block("C_shared.dyn_local" if by_tma else "C_local")
        parts = (Block("C_update"), Block("C_init"), store)
        steps += [
            lambda: self._at("tensorize_warpgroups", parts[0], *parts),
            lambda: Call("set_pipeline", ()),
        ]
        if by_tma:
            steps.append(lambda: Call("store_by_tma", (Block("C_shared.dyn"),)))
        if ahead == "tma":
            steps.append(lambda: self._around("specialize_warps", loop))
            last = (None, "make_persistent")
            if (name := self.one(last, "blocks")) is not None:
                steps.append(lambda: self._around(name, loop))
            if name == "make_persistent" and self.one((True, False), "turns"):
                steps.append(lambda: self._around("alternate_tiles", loop))
        return steps

    def _around(self, name: str, loop: Loop) -> Call:
        """A drawn call of a loop, around the product as it was or as instructions have it."""
        tensorized = Block(f"{loop.block.name}_o")
        block = tensorized if tensorized in self.play.blocks() else loop.block
        return self._at(name, block, replace(loop, block=block))

    def _store_warpgroups(self, block: Block, *, by_tma: bool) -> Call:
        if not by_tma:
            return Call("accumulate_in_registers", (block, Loop(block, 1)))
        options = {"warps": self.warps(), "lanes": 128, "vector": self.one((1, 2, 4), "vector")}
        return Call("store_through_tiles", (block, Loop(block, 0), Loop(block, 1)), options)

    def _at(self, name: str, at: Block, *places: Any) -> Call:
        """A drawn call of a transform, of these places."""
        self.at = at
        return replace(self.draw(name), places=places)

    def _feed(self, name: str, loop: Loop) -> Call:
        return self._at(name, loop.block, loop, find_copies(self.play, loop))

    def _get_chunk(self) -> int:
        """The elements of 16 bytes."""
        return {"float16": 8, "bfloat16": 8, "tf32": 4}.get(self.play.problem.options["dtype"], 16)

    def _stage_swizzled(self, block: Block, operand: int) -> Call:
        options = {
            "operand": operand,
            "warpgroups": self.warps(),
            "vector": self.one((1, 2, 4, self._get_chunk()), "vector"),
            "swizzle": self.one((16, 32, 64, 128), "swizzle"),
            "tail": self.tail(),
        }
        return Call("stage_swizzled_at", (block, Loop(block, 2)), options)

    def _store(self, block: Block, *, through_shared: bool) -> Call:
        self.at = block
        if through_shared:
            return self.do_store_through_shared()
        return Call("accumulate_in_registers", (block, Loop(block, 1)))

    def _stage(self, block: Block, operand: int) -> Call:
        options = {
            "operand": operand,
            "warps": self.warps(),
            "vector": self.one((1, 2, 4, 8, 8, 16), "vector"),
            "layout": self.one(("rows", "padded", "swizzled"), "layout"),
            "tail": self.tail(),
        }
        return Call("stage_fragments_at", (block, Loop(block, 2)), options)

    def _load(self, block: Block, operand: int) -> Call:
        place = Loop(block, self.one((3, 3, 3, 4), "place"))
        return Call("cache_read_at", (block, place), {"operand": operand, "scope": "local"})
