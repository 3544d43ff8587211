"""A player that makes random schedules: it draws the next transform, its place and its options.

The same moves are drawn by Hypothesis in the tests, and by plain `random` in fuzz_schedules.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from tvm.s_tir import SBlock, Schedule
from tvm.tirx import For, ForKind

from tirstep.modules import get_kernel
from tirstep.transforms import queries, tir
from tirstep.transforms.recipes import RECIPES

from .expressions import Choice
from .moves import MOVES, TABLE
from .plays import (
    PREFIX,
    Block,
    Call,
    Loop,
    bound_loops,
    find_kernels,
    find_missing_axes,
    is_for_threads,
)
from .problems import (
    HUGE,
    RARE,
    SIZES,
    Dice,
    draw_fragments,
    draw_huge,
    draw_problem,
    draw_quads,
    draw_rare,
    draw_rows,
    draw_streams,
    draw_warpgroups,
)
from .quad_moves import QuadMoves

AXES = [
    *(f"blockIdx.{letter}" for letter in "xxyz"),
    *(f"threadIdx.{letter}" for letter in "xxyz"),
    *(f"vthread.{letter}" for letter in "xy"),
]
HALVES = ("float16", "bfloat16")
ROUNDS = 16
OTHERWISE = 5
"""One of so many calls on the way to fragments is another one, drawn from all."""
AGAIN = 3
"""How often such a call is drawn, until it is not refused."""


@functools.cache
def _count_steps(name: str) -> int:
    """The steps of a recipe's golden."""
    recipe = RECIPES[name]
    example = recipe.golden
    problem = get_kernel(recipe.kernel).problem(**example.shape, **example.options)
    return len(list(recipe.run(Schedule(problem.module), **example.config)))


class Player(QuadMoves):
    """Draws the next call for a play."""

    def begin(self) -> None:
        """Some steps of a recipe, a tile, what makes fragments, or nothing."""
        options = self.play.problem.options
        ways = ["nothing", "tile", "recipe", "recipe"]
        if self.play.problem.kernel.name == "matmul" and options["dtype"] != "float32":
            ways.append("fragments")
            if self.play.problem.shape["m"] % 64 == 0:
                ways += ["warpgroups"] * 3
        if options["dtype"] in HALVES and self.play.problem.shape.get("queries", 1) % 64 == 0:
            ways += ["rows"] * 6
        if self.play.problem.kernel.name in ("matmul", "row_sum"):
            ways.append("streams")
        how = self.one(ways, "begin")
        if how == "tile":
            self.play.call(self.do_tile_block())
        elif how == "fragments":
            self.begin_parts(self.list_fragment_steps())
        elif how == "warpgroups":
            self.begin_parts(self.list_warpgroup_steps())
        elif how == "rows":
            self.begin_parts(self.list_row_steps())
        elif how == "streams":
            self.begin_parts(self.list_stream_steps())
        elif how == "recipe":
            self._begin_recipe()

    def _begin_recipe(self) -> None:
        kernel, dtype = self.play.problem.kernel.name, self.play.problem.options["dtype"]
        recipes = [
            recipe
            for recipe in RECIPES.values()
            if recipe.kernel == kernel and dtype in (recipe.dtypes or (dtype,))
        ]
        if not recipes:
            return
        if any(recipe.dtypes for recipe in recipes) and self.one((True, False), "fragments"):
            recipes = [recipe for recipe in recipes if recipe.dtypes]
        recipe = self.one(recipes, "recipe")
        drawn = {
            knob: self.one(recipe.choices[knob], knob)
            for knob in recipe.config
            if knob in recipe.choices and self.one((False, True), "drawn")
        }
        if recipe.dtypes and self.one((True, True, True, False), "small"):
            pairs = dict(zip(("tile", "warp"), self.draw_tile(), strict=True))
            drawn |= {knob: pairs[knob] for knob in pairs if knob in recipe.config}
        golden = {k: v for k, v in recipe.golden.config.items() if k not in drawn}
        tail = {"tail": self.one(recipe.tails, "tail")} if recipe.tails else {}
        most = _count_steps(recipe.name)
        some = self.one(range(1, most + 1), "some")
        steps = self.one((most, some), "steps") if recipe.dtypes else some
        sizes = {**golden, **drawn, **tail}
        self.play.call(Call(PREFIX, (recipe.name, steps), sizes))

    def begin_parts(self, steps: list[Callable[[], Call]]) -> None:
        """Make a matmul tensorized, with others in between; calls without a place are left out."""
        for draw in steps:
            if self.one(range(OTHERWISE), "otherwise") == 0:
                self.move()
            for _ in range(AGAIN):
                try:
                    call = draw()
                except (IndexError, ValueError, RuntimeError):  # of a block that is not there
                    break
                if self._has_places(call) and self.play.call(call):
                    break

    def _has_places(self, call: Call) -> bool:
        try:
            self.play.find(call.places)
        except IndexError:
            return False
        return True

    def move(self) -> bool:
        """Make one drawn call; whether it was done."""
        self.at = self.one(self.play.blocks(), "block")
        if not self.play.loops(self.at):
            return False
        name = self.one(MOVES, "transform")
        return self.play.call(self.draw(name))

    def play_all(self, tries: int) -> None:
        """Begin, make as many drawn calls, and finish."""
        self.begin()
        for _ in range(tries):
            self.move()
        self.finish()

    # Transforms whose places or options depend on one another.

    def do_split_loop(self) -> Call:
        large = (1024,) if self.play.problem.flops > 2**30 else ()
        inner = self.one((1, 2, 3, 4, 5, 8, 16, *large), "inner")
        return Call("split_loop", (self.loop(serial=True),), {"inner": inner, "tail": self.tail()})

    def do_fuse_loops(self) -> Call:
        count = len(self.play.loops(self.at))
        first = self.one(range(count), "first")
        last = min(count, first + self.one((1, 2, 2, 3), "count"))
        return Call("fuse_loops", ([Loop(self.at, index) for index in range(first, last)],))

    def do_merge_loops(self) -> Call:
        other = self.block()
        depth = min(len(self.play.loops(it)) for it in (self.at, other))
        index = self.one(range(max(1, depth)), "depth")
        return Call("merge_loops", ([Loop(self.at, index), Loop(other, index)],))

    def do_reorder_loops(self) -> Call:
        left = list(range(len(self.play.loops(self.at))))
        drawn = []
        for _ in range(self.one(range(1, len(left) + 1), "count")):
            drawn.append(left.pop(self.one(range(len(left)), "next")))
        return Call("reorder_loops", ([Loop(self.at, index) for index in drawn],))

    def do_bind_loop(self) -> Call:
        axis, loop, extents = self.one(AXES, "axis"), self.loop(serial=True), self.extents()
        if extents and self.one((False, True), "known"):
            axis = self.one(extents, "axis")
            fitting = [
                Loop(self.at, index)
                for index, loop in enumerate(self.play.loops(self.at))
                if queries.get_extent(self.play.sch, loop) == extents[axis]
                and self.play.sch.get(loop).kind == ForKind.SERIAL
            ]
            loop = self.one(fitting, "loop") if fitting else loop
        return Call("bind_loop", (loop,), {"axis": axis})

    def do_tile_block(self) -> Call:
        count = self.one((1, 2, 2), "count")
        axes = self.one((None, None, ("x", "y")), "axes") if count == 2 else None
        each = [self.one((1, 2, 3), "each") for _ in range(count)]
        return self.of_block(
            "tile_block",
            threads=[self.one((1, 2, 3, 4, 8), "threads") for _ in range(count)],
            per_thread=self.one((None, each), "per_thread"),
            axes=axes,
            fuse_threads=self.one((False, False, True), "fuse"),
            tail=self.tail(),
        )

    def do_tile_in_warps(self) -> Call:
        strips = self.one(((1, 1), (2, 1), (1, 2), (2, 2)), "strips")
        each = tuple(strip * self.one((1, 2), "each") for strip in strips)
        threads = ((4, 8), (8, 4), (2, 4), (4, 2), (8, 8), (16, 2))
        return self.of_block(
            "tile_in_warps",
            threads=self.one(threads, "threads"),
            per_thread=each,
            strips=strips,
            warp=self.one((None, (4, 8), (8, 4)), "warp"),
            interleave=self.one((1, 1, 2), "interleave"),
            inner=self.one(("columns", "rows"), "inner"),
            inner_strips=self.one(("columns", "rows"), "inner_strips"),
            swizzle=self.one((1, 1, 2), "swizzle"),
            tail=self.tail(),
        )

    def do_vectorize_loop(self) -> Call:
        last = Loop(self.at, len(self.play.loops(self.at)) - 1)
        return Call("vectorize_loop", (self.one((last, self.loop(serial=True)), "which"),))

    def do_fuse_epilogue_at(self) -> Call:
        return Call("fuse_epilogue_at", (self.at, self.block(), self.loop()))

    def do_fuse_reductions(self) -> Call:
        accumulate = self.one(("in place", "apart"), "accumulate")
        return Call(
            "fuse_reductions", (self.at, self.block(), self.loop()), {"accumulate": accumulate}
        )

    def do_split_reductions(self) -> Call:
        consumers = [self.block() for _ in range(self.one((0, 1, 1, 2), "count"))]
        return Call(
            "split_reductions", (self.at, consumers), {"parts": self.one((2, 3, 4), "parts")}
        )

    def do_pad_block(self) -> Call:
        count = len(self.play.sch.get(self.play.block(self.at)).iter_vars)
        multiples = [self.one((1, 2, 4, 8), "multiple") for _ in range(count)]
        return self.of_block("pad_block", multiples=multiples)

    def do_fold_tile(self) -> Call:
        row = self.one((1, 2, 4, 8), "row")
        return self.of_block("fold_tile", row=row, padding=self.one(range(row), "padding"))

    def do_align_vectors(self) -> Call:
        vector = self.one((2, 4), "vector")
        return self.of_block("align_vectors", vector=vector, offset=self.one(range(vector), "off"))

    # The finishing phase.

    def finish(self) -> None:
        """Bind what is left, so that most schedules run on a GPU: block by block, until it ends."""
        stuck: set[Block] = set()
        if is_for_threads(self.play.module):
            return
        for _ in range(ROUNDS):
            left = [block for block in self.play.blocks() if block not in stuck]
            missing = {block: self._missing(block) for block in left}
            todo = next((block for block in left if missing[block] is None or missing[block]), None)
            if todo is None:
                return
            axes = missing[todo]
            if not (self._begin_kernel(todo) if axes is None else self._join(todo, axes)):
                stuck.add(todo)

    def _missing(self, block: Block) -> dict[str, int] | None:
        """The axes that a block does not run on, with their extents; None outside of kernels."""
        node = self.play.sch.get(self.play.block(block))
        for kernel in find_kernels(self.play.module):
            if any(node.same_as(sblock) for sblock in tir.find_all(kernel, SBlock)):
                loops = {tir.get_axis(loop): loop for loop in bound_loops(kernel)}
                missing = find_missing_axes(kernel, node)
                return {axis: tir.constant(loops[axis].extent) or 1 for axis in missing}
        return None

    def _serial(self, block: Block) -> list[Loop]:
        """The serial spatial loops of a block, outermost first."""
        found = []
        for index, one in enumerate(self.play.loops(block)):
            node: For = self.play.sch.get(one)
            reduces = queries.is_reduction_loop(self.play.sch, self.play.block(block), one)
            if node.kind == ForKind.SERIAL and not reduces:
                found.append(Loop(block, index))
        return found

    def _bind(self, loop: Loop, axis: str) -> bool:
        return self.play.call(Call("bind_loop", (loop,), {"axis": axis}))

    def _split(self, loop: Loop, inner: int) -> bool:
        return self.play.call(Call("split_loop", (loop,), {"inner": inner, "tail": "guard"}))

    def _begin_kernel(self, block: Block) -> bool:
        """Bind a block's outermost loop to the grid, and mostly a part of it to threads."""
        loops = self._serial(block)
        if not loops:
            return False
        if self.one((True, True, False), "threads") and self._split(
            loops[0], self.one((2, 4), "by")
        ):
            done = self._bind(loops[0], "blockIdx.x")
            return self._bind(Loop(block, loops[0].index + 1), "threadIdx.x") or done
        return self._bind(loops[0], "blockIdx.x")

    def _join(self, block: Block, missing: dict[str, int]) -> bool:
        """Spread a block of a kernel over one more of its axes."""
        node = self.play.sch.get(self.play.block(block))
        is_fetch = any(region.source.scope().startswith("shared") for region in node.writes)
        if is_fetch and all(axis.startswith("threadIdx") for axis in missing):
            options = {"threads": self.threads(), "tail": "guard"}
            if self.play.call(Call("fetch_cooperatively", (block,), options)):
                return True
        axis, extent = next(iter(missing.items()))
        loops = self._serial(block)
        for loop in loops:
            if tir.constant(self.play.node(loop).extent) == extent and self._bind(loop, axis):
                return True
        if not loops or not self._split(loops[-1], extent):
            return False
        return self._bind(Loop(block, loops[-1].index + 1), axis)


__all__ = [
    "HUGE",
    "MOVES",
    "RARE",
    "SIZES",
    "TABLE",
    "Choice",
    "Dice",
    "Player",
    "draw_fragments",
    "draw_huge",
    "draw_problem",
    "draw_quads",
    "draw_rare",
    "draw_rows",
    "draw_streams",
    "draw_warpgroups",
]
