"""A player that makes random schedules: it draws the next transform, its place and its options.

It begins with a recipe's own calls mostly, some of them with other options and others in between,
and binds what is left in the end. The same moves are drawn by Hypothesis in the tests, and by plain
`random` in fuzz_schedules.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

from plays import (
    PREFIX,
    TRANSFORMS,
    Block,
    Call,
    Loop,
    Play,
    find_kernel,
    find_missing_axes,
    is_for_threads,
    record,
)
from tvm.s_tir import SBlock, Schedule
from tvm.tirx import For, ForKind, SeqStmt

from tirstep import transforms as tr
from tirstep.strategies.drawn_programs import Choice
from tirstep.transforms import queries, tir
from tirstep.transforms.hopper.wgmma_intrinsics import ARCHITECTURE
from tirstep.transforms.recipes import RECIPES, Recipe

AXES = [
    *(f"blockIdx.{letter}" for letter in "xxyz"),
    *(f"threadIdx.{letter}" for letter in "xxyz"),
    *(f"vthread.{letter}" for letter in "xy"),
]
ROUNDS = 16
ALL_STEPS = 99
"""More than a recipe has."""
OTHERWISE, CHANGED = 8, 5
"""One of so many calls of a recipe is another one, drawn from all; and one has other options."""


class Player:
    """Draws the next call for a play.

    Attributes
    ----------
    moves : what is drawn from, by name; those of `TABLE` if none are given
    often : their names, each as often as it weighs
    at : the block that the call is about
    drawn : the options that the call has so far
    """

    def __init__(self, choice: Choice, play: Play, moves: Mapping[str, Move] | None = None) -> None:
        self.choice, self.play, self.moves = choice, play, moves or TABLE
        self.often = [name for name, move in self.moves.items() for _ in range(move.weight)]
        self.at: Block = play.blocks()[0]
        self.drawn: dict[str, Any] = {}

    def one(self, values: Iterable[Any], label: str) -> Any:
        return self.choice.one(list(values), label)

    def mostly(self, usual: Any, other: Any, label: str) -> Any:
        """Something else one time out of eight."""
        return self.one([usual] * 7 + [other], label)

    def begin(self) -> None:
        """The calls of a recipe, a tile, or nothing."""
        how = self.one(("nothing", "tile", *["recipe"] * 3), "begin")
        if how == "tile":
            self.play.call(self.draw("tile_block"))
        elif how == "recipe" and (recipes := self._list_recipes()):
            recipe = self.one(recipes, "recipe")
            config = self._draw_config(recipe)
            if self.one((False, True), "as it is"):
                some = self.one(range(1, 12), "some")
                steps = self.one((ALL_STEPS, some), "steps") if recipe.dtypes else some
                self.play.call(Call(PREFIX, (recipe.name, steps), config))
            else:
                calls = record(recipe, Schedule(self.play.problem.module), **config)
                last = self.one((len(calls), self.one(range(len(calls) + 1), "some")), "calls")
                self.follow(calls[:last])

    def _list_recipes(self) -> list[Recipe]:
        """Those of the kernel and its type; those for tensor cores alone every second time."""
        kernel, dtype = self.play.problem.kernel.name, self.play.problem.options["dtype"]
        found = [it for it in RECIPES.values() if it.kernel == kernel]
        found = [it for it in found if dtype in (it.dtypes or (dtype,))]
        special = [it for it in found if it.dtypes]
        return special if special and self.one((True, False), "tensor cores") else found

    def _draw_config(self, recipe: Recipe) -> dict[str, Any]:
        """Knobs of a recipe, tiles of tensor cores being small mostly."""
        drawn = {
            knob: self.one(recipe.choices[knob], knob)
            for knob in recipe.config
            if knob in recipe.choices and self.one((False, True), "drawn")
        }
        config = {**recipe.golden.config, **drawn}
        if recipe.dtypes and self.mostly(True, False, "small"):
            small = {name: self.one(sides, name) for name, sides in SMALL.items() if name in config}
            config |= {knob: each for knob, each in small.items() if recipe.arch != ARCHITECTURE}
        if recipe.tails:
            config["tail"] = self.one(recipe.tails, "tail")
        return config

    def follow(self, calls: Sequence[Call]) -> None:
        """Make a recipe's calls, some with other options, and others in between.

        Those without a place are left out.
        """
        for call in calls:
            if self.one(range(OTHERWISE), "otherwise") == 0:
                self.move()
            options = TABLE[call.name].options if call.name in TABLE else {}
            name = self.one(list(options), "option") if options else ""
            if name in call.options and self.one(range(CHANGED), "changed") == 0:
                self.drawn = {**call.options}
                changed = {**call.options, name: self._draw_option(name, options[name])}
                call = replace(call, options=changed)
            try:
                self.play.call(call)
            except LookupError:
                continue

    def move(self) -> bool:
        """Make one drawn call; whether it was done."""
        self.at = self.one(self.play.blocks(), "block")
        if not self.play.loops(self.at):
            return False
        name = self.one(self.often, "transform")
        try:
            return self.play.call(self.draw(name))
        except LookupError:  # a block within another one may have no loops
            return False

    def draw(self, name: str) -> Call:
        """A call of a transform: its options, then where."""
        move = self.moves[name]
        self.drawn = {}
        for each, values in move.options.items():
            self.drawn[each] = self._draw_option(each, values)
        places = list[Any]()
        for word in move.where.split():
            place = getattr(self, word)
            drawn = place() if callable(place) else place
            places += drawn if isinstance(drawn, tuple) else [drawn]
        return Call(name, tuple(places), self.drawn)

    def _draw_option(self, name: str, drawn: Any) -> Any:
        return drawn(self) if callable(drawn) else self.one(drawn, name)

    def play_all(self, tries: int) -> None:
        """Begin, make as many drawn calls, and finish."""
        self.begin()
        for _ in range(tries):
            self.move()
        self.finish()

    # Places.

    def block(self, label: str = "other") -> Block:
        return self.one(self.play.blocks(), label)

    def loop(self, block: Block | None = None, *, serial: bool = False) -> Loop:
        """A loop of the block; now and then one of another block."""
        at = block or self.at
        if block is None and self.one([False] * 15 + [True], "elsewhere"):
            at = self.block()
        loops = self.play.loops(at)
        if not loops:
            at, loops = self.at, self.play.loops(self.at)
        indices = list(range(len(loops)))
        if serial:
            kinds = [self.play.sch.get(loop).kind for loop in loops]
            indices = [i for i in indices if kinds[i] == ForKind.SERIAL] or indices
        return Loop(at, self.one(indices, "loop"))

    def serial(self) -> Loop:
        return self.loop(serial=True)

    def sequence(self) -> Loop:
        """A loop for a pipeline: of several statements, where there is one."""
        loops = [Loop(self.at, index) for index in range(len(self.play.loops(self.at)))]
        found = [it for it in loops if isinstance(self.play.node(it).body, SeqStmt)]
        return self.one(found, "sequence") if found else self.loop()

    def copies(self) -> tuple[Loop, list[Block]]:
        """A loop for a pipeline, and the blocks that stand alone in its first statements."""
        loop = self.sequence()
        body = self.play.node(loop).body
        found = []
        for part in list(body.seq)[:-1] if isinstance(body, SeqStmt) else []:
            inside = tir.find_all(part, SBlock)
            if len(inside) != 1:
                break
            found += [it for it in self.play.blocks() if self.play.node(it).same_as(inside[0])]
        return loop, found

    def elsewhere(self) -> Loop:
        """A loop of another block."""
        other = self.block()
        return self.loop(other) if self.play.loops(other) else self.loop()

    def last(self) -> Loop:
        """The innermost loop, or a serial one."""
        innermost = Loop(self.at, len(self.play.loops(self.at)) - 1)
        return self.one((innermost, self.loop(serial=True)), "which")

    def neighbours(self) -> list[Loop]:
        """Loops in a row."""
        count = len(self.play.loops(self.at))
        first = self.one(range(count), "first")
        end = min(count, first + self.one((1, 2, 2, 3), "count"))
        return [Loop(self.at, index) for index in range(first, end)]

    def pair(self) -> list[Loop]:
        """Loops of two blocks at one depth."""
        other = self.block()
        depth = min(len(self.play.loops(it)) for it in (self.at, other))
        index = self.one(range(max(1, depth)), "depth")
        return [Loop(self.at, index), Loop(other, index)]

    def turned(self) -> list[Loop]:
        """Some loops in any order."""
        left = list(range(len(self.play.loops(self.at))))
        count = self.one(range(1, len(left) + 1), "count")
        drawn = [left.pop(self.one(range(len(left)), "next")) for _ in range(count)]
        return [Loop(self.at, index) for index in drawn]

    def fitting(self) -> Loop:
        """A serial loop, mostly as long as the kernel's threads on the drawn axis are many."""
        extent, loops = self.extents().get(self.drawn["axis"]), self.play.loops(self.at)
        alike = [
            Loop(self.at, index)
            for index, loop in enumerate(loops)
            if extent is not None and queries.get_extent(self.play.sch, loop) == extent
            if self.play.sch.get(loop).kind == ForKind.SERIAL
        ]
        any_loop = self.loop(serial=True)
        return self.mostly(self.one(alike, "loop"), any_loop, "other") if alike else any_loop

    def consumers(self) -> list[Block]:
        return [self.block() for _ in range(self.one((0, 1, 1, 2), "count"))]

    def tile_loops(self) -> tuple[Loop, Loop]:
        """The loops of the grid and of the warps, mostly."""
        outer = [Loop(self.at, index) for index in range(min(2, len(self.play.loops(self.at))))]
        drawn = [self.loop(), self.loop()]
        first, second = self.mostly(outer, drawn, "elsewhere") if len(outer) == 2 else drawn
        return first, second

    def roles(self) -> tuple[Block, list[Block], Block, Block]:
        """A product, mostly with its own loads, zeros and store."""
        blocks = self.play.blocks()
        nodes = {block: self.play.node(block) for block in blocks}
        products = [it for it in blocks if nodes[it].reads and tir.find_all(nodes[it].body, SBlock)]
        block = self.one(products or blocks, "product")
        if self.mostly(False, True, "elsewhere") or not nodes[block].writes:
            return block, [self.block(), self.block()], self.block(), self.block()

        def find(buffer: Any, field: str) -> Block:
            regions = {it: getattr(nodes[it], field) for it in blocks if it != block}
            uses = [
                it for it in regions if any(each.source.same_as(buffer) for each in regions[it])
            ]
            return next(iter(uses), block)

        sums = nodes[block].writes[0].source
        operands = [it.source for it in nodes[block].reads if not it.source.same_as(sums)]
        loads = [find(operand, "writes") for operand in operands[:2]]
        return block, loads, find(sums, "writes"), find(sums, "reads")

    def quads(self) -> tuple[Any, ...]:
        """A product; its loads, of which one may be in registers already; what clears its sums."""
        block, loads, zeros, _ = self.roles()
        return block, self.one((loads, loads, loads[1:]), "loads"), self.one((zeros, None), "zeros")

    def warpgroup(self) -> tuple[Any, ...]:
        """A product, what clears its sums, and what stores them."""
        return itemgetter(0, 2, 3)(self.roles())

    # Options.

    def tail(self) -> str:
        return self.one(("refuse", "guard", "guard"), "tail")

    def scope(self) -> str:
        return self.one(("shared", "shared", "shared.dyn", "local", "local"), "scope")

    def extents(self) -> dict[str, int]:
        """The thread axes that there are."""
        found = tir.find_all(self.play.module["main"].body, For)
        axes = {tir.get_axis(loop): tir.constant(loop.extent) for loop in found}
        return {str(a): e for a, e in axes.items() if e and str(a).startswith("threadIdx")}

    def threads(self) -> Any:
        """Extents for a fetch: mostly those of the kernel."""
        extents = self.extents()
        if extents and self.one((True, True, True, False), "known"):
            count = next((n for n, a in ((3, "z"), (2, "y")) if f"threadIdx.{a}" in extents), 1)
            shape = [extents.get(f"threadIdx.{letter}", 1) for letter in "zyx"[3 - count :]]
            return shape[0] if count == 1 else tuple(shape)
        return self.one((2, 4, 8, 32, (2, 2), (4, 2), (4, 4), (2, 2, 2)), "threads")

    def inner(self) -> int:
        large = (1024,) if self.play.problem.flops > 2**30 else ()
        return self.one((1, 2, 3, 4, 5, 8, 16, *large), "inner")

    def warps(self) -> int:
        """Warps for a fetch: mostly those of the kernel."""
        return self.one([self.extents().get("threadIdx.y", 1)] * 9 + [1, 2, 4], "warps")

    def depth(self) -> int:
        """The depth of a fragment: mostly that of the multiplied type."""
        own = {"float16": 16, "bfloat16": 16, "float32": 8}
        return self.mostly(own.get(self.play.problem.options["dtype"], 32), 16, "depth")

    def tile_k(self) -> int:
        return self.depth() * self.one((1, 1, 2, 4), "tile_k")

    def is_fp22(self) -> bool:
        """What loses bits is allowed where the kernel allows it."""
        return self.play.problem.options.get("acc") == "fp22"

    def is_tf32(self) -> bool:
        return self.play.problem.options["dtype"] == "tf32"

    def axis(self) -> str:
        """One of the kernel's own every second time."""
        known = self.extents()
        is_known = known and self.one((False, True), "known")
        return self.one(known if is_known else AXES, "axis")

    def below(self, other: str) -> int:
        """A number below that of another option."""
        return self.one(range(self.drawn[other]), "below")

    def multiples(self) -> list[int]:
        """For each iterator of the block."""
        count = len(self.play.node(self.at).iter_vars)
        return [self.one((1, 2, 4, 8), "multiple") for _ in range(count)]

    def tile(self) -> list[int]:
        """Threads along one dimension, or two."""
        count = self.one((1, 2, 2), "count")
        return [self.one((1, 2, 3, 4, 8), "threads") for _ in range(count)]

    def per_thread(self) -> list[int] | None:
        """For each dimension of the threads, or none."""
        each = [self.one((1, 2, 3), "each") for _ in self.drawn["threads"]]
        return self.one((None, each), "per_thread")

    def rows(self) -> int:
        """The last dimension but one of what a block writes mostly, or another one."""
        writes = self.play.node(self.at).writes
        count = len(writes[0].source.shape) if writes else 1
        return self.one((count - 2, count - 2, *range(4)), "rows")

    # The finishing phase.

    def finish(self) -> None:
        """Bind what is left, so that most schedules run on a GPU: block by block, until it ends."""
        stuck: set[Block] = set()
        if is_for_threads(self.play.module):
            return
        for _ in range(ROUNDS):
            left = [block for block in self.play.blocks() if block not in stuck]
            missing = {block: self._missing(block) for block in left}
            todo = next((block for block in left if missing[block] != {}), None)
            if todo is None:
                return
            axes = missing[todo]
            if not (self._begin_kernel(todo) if axes is None else self._join(todo, axes)):
                stuck.add(todo)

    def _missing(self, block: Block) -> dict[str, int] | None:
        """The axes that a block does not run on, with their extents; None outside of kernels."""
        node = self.play.node(block)
        places = tir.get_places(self.play.module["main"].body)
        place = next(it for it in places if it.block.same_as(node))
        return None if find_kernel(place) is None else find_missing_axes(place)

    def _serial(self, block: Block) -> list[Loop]:
        """The serial spatial loops of a block, outermost first."""
        found = []
        for index, one in enumerate(self.play.loops(block)):
            node: For = self.play.sch.get(one)
            reduces = queries.is_reduction_loop(self.play.sch, self.play.find(block), one)
            if node.kind == ForKind.SERIAL and not reduces:
                found.append(Loop(block, index))
        return found

    def _do(self, name: str, *places: Block | Loop, **options: Any) -> bool:
        return self.play.call(Call(name, places, options))

    def _begin_kernel(self, block: Block) -> bool:
        """Bind a block's outermost loop to the grid, and mostly a part of it to threads."""
        loops = self._serial(block)
        if not loops:
            return False
        has_threads = self.one((True, True, False), "threads")
        by = self.one((2, 4), "by")
        has_threads = has_threads and self._do("split_loop", loops[0], inner=by, tail="guard")
        done = self._do("bind_loop", loops[0], axis="blockIdx.x")
        inner = Loop(block, loops[0].index + 1)
        return (has_threads and self._do("bind_loop", inner, axis="threadIdx.x")) or done

    def _join(self, block: Block, missing: dict[str, int]) -> bool:
        """Spread a block of a kernel over one more of its axes."""
        node = self.play.node(block)
        is_fetch = any(region.source.scope().startswith("shared") for region in node.writes)
        is_fetch = is_fetch and all(axis.startswith("threadIdx") for axis in missing)
        fetch = "fetch_cooperatively"
        if is_fetch and self._do(fetch, block, threads=self.threads(), tail="guard"):
            return True
        axis, extent = next(iter(missing.items()))
        loops = self._serial(block)
        for loop in loops:
            is_alike = tir.constant(self.play.node(loop).extent) == extent
            if is_alike and self._do("bind_loop", loop, axis=axis):
                return True
        is_split = bool(loops) and self._do("split_loop", loops[-1], inner=extent, tail="guard")
        return is_split and self._do("bind_loop", Loop(block, loops[-1].index + 1), axis=axis)


class Move(NamedTuple):
    """A transform that is drawn.

    Attributes
    ----------
    weight : how often, among all
    where : its places: an attribute or a method of the player for each, or for a tuple of them
    options : by name, what one is chosen of, or what draws one
    """

    weight: int
    where: str
    options: Mapping[str, Sequence[Any] | Callable[[Player], Any]]


def weigh(weight: int, where: str = "", /, **options: Any) -> Move:
    return Move(weight, where, options)


PAIRS = ((16, 16), (16, 32), (32, 16), (32, 32))
"""Sides of tiles of fragments."""
SMALL: dict[str, Sequence[Any]] = {"tile": PAIRS[1:], "warp": PAIRS[:1]}
TILES = ((64, 64), (64, 64), (64, 32), (128, 32), (64, 16), (64, 8))
"""Rows and columns of tiles of warpgroups."""
VECTORS = (1, 1, 2, 4, 8)
OPTIONS: Mapping[str, Any] = {
    "operand": (0, 0, 1, 1, 2),
    "parts": (2, 3, 4),
    "scope": Player.scope,
    "stages": (2, 2, 3, 4),
    "swizzle": (1, 1, 1, 2),
    "tail": Player.tail,
    "tf32": Player.is_tf32,
    "threads": Player.threads,
    "vector": VECTORS,
    "warpgroups": Player.warps,
    "warps": Player.warps,
}
"""The options of these names, where a move has no other choices."""
_ROWS = {
    "align_vectors": weigh(2, vector=(2, 4), offset=lambda player: player.below("vector")),
    "bind_batch": weigh(1, axis=("blockIdx.y", "blockIdx.z"), kept=(0, 1, 1, 2)),
    "bind_loop": weigh(6, "fitting", axis=Player.axis),
    "cache_read_at": weigh(5),
    "cache_row_at": weigh(2, operand=(0, 0, 1)),
    "cache_write_at": weigh(4),
    "compute_block_at": weigh(4, "at elsewhere"),
    "copy_once_by_tma": weigh(1, "sequence block"),
    "fetch_cooperatively": weigh(4),
    "fold_tile": weigh(2, row=(1, 2, 4, 8), padding=lambda player: player.below("row")),
    "fuse_loops": weigh(3, "neighbours"),
    "fuse_reductions": weigh(2, accumulate=("in place", "apart")),
    "lay_in_quads": weigh(
        2,
        rows=Player.rows,
        columns=lambda player: player.one((*[player.drawn["rows"] + 1] * 4, None, 0, 1), "columns"),
    ),
    "make_persistent": weigh(1, "sequence", blocks=(1, 2, 3), stages=(None, None, 3, 5)),
    "merge_loops": weigh(2, "pair"),
    "overlap_products": weigh(1, "sequence"),
    "pad_axis": weigh(2, "serial", multiple=(2, 3, 4, 8, 16)),
    "pad_block": weigh(2, multiples=Player.multiples),
    "pad_shared_rows": weigh(3, elements=(1, 2, 4)),
    "prefetch_asynchronously": weigh(3, "copies"),
    "prefetch_by_tma": weigh(2, "copies"),
    "prefetch_fragments": weigh(2, "sequence"),
    "prefetch_through_registers": weigh(3, "copies"),
    "reorder_loops": weigh(3, "turned"),
    "reverse_compute_block_at": weigh(4, "at elsewhere"),
    "rfactor_reduction": weigh(3),
    "round_operand": weigh(2, operand=(0, 0, 1, 1, 2, 3)),
    "set_pass_option": weigh(1, name=("tirx.disable_storage_rewrite",), value=(True,)),
    "set_pipeline": weigh(1),
    "specialize_warps": weigh(2, "sequence", registers=(None, None, (24, 64), (40, 240))),
    "split_loop": weigh(4, "serial", inner=Player.inner),
    "split_reduction": weigh(3, inner=(1, 2, 3, 4, 8)),
    "split_reductions": weigh(2, "at consumers"),
    "spread_over_quads": weigh(2, columns=(True, True, False)),
    "spread_over_threads": weigh(4, threads=(2, 4, 8, 32)),
    "stage_fragments_at": weigh(3, operand=(0, 1), layout=("rows", "padded", "swizzled")),
    "stage_operand_at": weigh(4, operand=(0, 1), scope=("shared", "shared.dyn")),
    "stage_swizzled_at": weigh(2, operand=(0, 1), swizzle=(16, 32, 64, 128)),
    "store_through_shared": weigh(2, "at tile_loops", columns=(16, 32)),
    "store_through_tiles": weigh(1, "at tile_loops", lanes=(128, 128, 32)),
    "suggest_unrolling": weigh(1, "serial"),
    "tensorize_fragments": weigh(3, "roles"),
    "tensorize_in_quads": weigh(2, "quads"),
    "tensorize_warpgroups": weigh(1, "warpgroup", in_flight=(0, 0, 0, 1), fp22=Player.is_fp22),
    "tile_block": weigh(
        4,
        threads=Player.tile,
        per_thread=Player.per_thread,
        axes=(None, None, None, ("x", "y")),
        fuse_threads=(False, False, True),
    ),
    "tile_in_fragments": weigh(
        2, tile=PAIRS, warp=(*PAIRS, *PAIRS[:1] * 4), tile_k=Player.tile_k, depth=Player.depth
    ),
    "tile_in_warpgroups": weigh(1, tile=TILES, warpgroup=TILES, tile_k=(32, 64, 64, 64, 16)),
    "tile_in_warps": weigh(
        2,
        threads=((4, 8), (8, 4), (2, 4), (4, 2), (8, 8), (16, 2)),
        per_thread=((1, 1), (2, 1), (1, 2), (2, 2), (2, 4), (4, 2)),
        strips=lambda player: [player.one((1, it), "strip") for it in player.drawn["per_thread"]],
        warp=(None, (4, 8), (8, 4)),
        interleave=(1, 1, 2),
        inner=("columns", "rows"),
        inner_strips=("columns", "rows"),
    ),
    "unroll_loop": weigh(1, "serial", limit=(64,)),
    "vectorize_copy": weigh(2),
    "vectorize_loop": weigh(3, "last"),
}
"""Weights, and what the signatures do not say."""


def _complete(name: str, row: Move) -> Move:
    """A move with its places and options by a transform's parameters: handles, known names, flags,
    small numbers.
    """
    _, *given = inspect.signature(getattr(tr, name)).parameters.values()
    handles = [str(it.annotation) for it in given if it.kind is not it.KEYWORD_ONLY]
    words = {"SBlockRV": "block", "LoopRV": "loop"}
    where = row.where or " ".join(words[it] for it in handles).replace("block", "at", 1)
    options = dict[str, Any]()
    for it in given:
        drawn = row.options.get(it.name, OPTIONS.get(it.name))
        if drawn is None and it.kind is it.KEYWORD_ONLY and it.default is it.empty:
            drawn = (False, True) if it.annotation == "bool" else VECTORS
        if drawn is not None:
            options[it.name] = drawn
    return Move(row.weight, where, options)


TABLE = {name: _complete(name, _ROWS.get(name, weigh(2))) for name in TRANSFORMS}
"""Every public transform."""
