"""Software pipelines whose annotations no longer fit their loops.

A pipeline is an annotation of a loop, which TVM reads when it lowers the module. A transform that
comes later may take away what the annotation counts on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from tvm.ir import IRModule, Range, TensorLoad
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import BufferStore, For, ForKind, Not, SeqStmt, const
from tvm.tirx import all as all_of

from tirstep.transforms.annotations import ASYNC, LOCAL_STAGE, STAGE, count_statements
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_places,
    is_among,
    is_used,
    list_functions,
    substitute,
)
from tirstep.transforms.vectorize import find_scattered, takes_neighbours

_MOST = 1024
"""Iterations that TVM writes out and that are asked for: some tenths of a second."""
_EARLIER = "do this before the loop becomes a pipeline"


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_broken_pipelines(module: IRModule) -> Iterable[Fault]:
    """Pipelines whose notes say something else than their loops.

    The note has a stage for each statement of the loop. Asynchronous copies take neighbours only,
    and TVM waits for them by counting groups: one for each iteration, also where it leaves a group
    out, because no copy of it would ever run. Where nothing uses a copy it leaves out the wait.
    """
    pipelines = [
        (loop, get_places(function.body))
        for function in list_functions(module)
        for loop in find_all(function.body, For)
        if STAGE in loop.annotations
    ]
    for loop, places in pipelines:
        name = loop.loop_var.name
        parts = list(loop.body.seq) if isinstance(loop.body, SeqStmt) else [loop.body]
        count, noted = sum(map(count_statements, parts)), len(loop.annotations[STAGE])
        if count != noted:
            yield Fault(
                f"loop '{name}' is a pipeline of {noted} statements, and its body would have "
                f"{count}",
                _EARLIER,
            )
        # Copies through registers that TVM does not take: in unrolled loops, or to other memory.
        for place in places:
            if LOCAL_STAGE not in place.block.annotations or not is_among(loop, place.loops):
                continue
            unrolled = [it for it in _find_own(place, loop) if it.kind == ForKind.UNROLLED]
            scope = str(place.block.writes[0].source.scope())
            where = f"to scope '{scope}'" if not scope.startswith("shared") else ""
            where = (
                f"in loop '{unrolled[0].loop_var.name}', which is unrolled" if unrolled else where
            )
            if where:
                yield Fault(
                    f"block '{place.name}' would copy through registers {where}, and TVM does not",
                    "leave its loops and its buffer as they are, or do this without the pipeline",
                )
        if ASYNC not in loop.annotations:
            continue
        pipeline = _Pipeline(loop, places)
        for copy in pipeline.copies:
            # TVM makes one asynchronous copy of a vector from the place of its first element.
            for vector, buffer in find_scattered(copy):
                yield Fault(
                    f"block '{copy.name}' takes vectors of {vector.extent} elements that are "
                    f"not adjacent in '{buffer.name}', and TVM would copy others",
                    "fetch this tile with vector=1, or keep its layout",
                )
        for copy in pipeline.copies:
            # Of a loop over neighbours it makes one copy, by an engine that CUDA does not have.
            own, stores = _find_own(copy, loop), find_all(copy.block.body, BufferStore)
            is_plain = len(stores) == 1 and isinstance(stores[0].value, TensorLoad)
            if not is_plain or copy.guards or any(it.kind == ForKind.VECTORIZED for it in own):
                continue
            serial = (it for it in own if constant(it.extent) != 1 and get_axis(it) is None)
            if one := next((it for it in serial if takes_neighbours(copy, it)), None):
                yield Fault(
                    f"block '{copy.name}' copies adjacent elements one by one in loop "
                    f"'{one.loop_var.name}', which TVM merges into a call that CUDA does not have",
                    "let the threads fetch it together (fetch_cooperatively), or vectorize it "
                    "(vectorize_copy) before the loop becomes a pipeline",
                )
        # What guards make of its groups and waits; refused where TVM writes out too many.
        has_guards = pipeline.asks(pipeline.copies) or pipeline.asks(pipeline.users)
        if not pipeline.copies or not has_guards:  # an inlined copy leaves a pipeline of none
            continue
        if (written := pipeline.count_written_out()) > _MOST:
            yield Fault(
                f"loop '{name}' is a pipeline with guards, and TVM would write out {written} "
                f"of its iterations, more than {_MOST}",
                "prefetch fewer stages ahead, or unroll fewer iterations",
            )
            continue
        yield from _find_lost_groups(pipeline)
        yield from _find_lost_waits(pipeline)


def _find_own(place: Place, pipeline: For) -> list[For]:
    """The loops around a block that stand within a pipeline's."""
    return list(itertools.dropwhile(lambda loop: not loop.same_as(pipeline), place.loops))[1:]


def _find_lost_groups(pipeline: _Pipeline) -> Iterator[Fault]:
    """Iterations in which all copies of a pipeline are known not to run.

    TVM leaves out such a group and waits as if it were there: the wait lets as many groups be in
    flight as there are stages ahead, and the one that is needed is among the last ones. It makes
    the first copies one by one, as many as are ahead, and one loop of the others.
    """
    first = range(pipeline.ahead)
    pieces = [*_part(first), *pipeline.cut(range(pipeline.ahead, pipeline.extent))]
    for values in pipeline.find_unrolled_values():
        lost = [piece for piece in pieces if pipeline.is_never(pipeline.copies, piece, values)]
        if lost and len(lost) < len(pieces):
            yield Fault(
                f"block '{pipeline.copies[0].name}' would copy nothing "
                f"{pipeline.say_where(lost[0], values)}; TVM leaves out groups without a copy, but "
                "counts them, so that it would wait for too few",
                "split the loop so that each iteration copies something, or prefetch at another "
                "loop",
            )
            return


def _find_lost_waits(pipeline: _Pipeline) -> Iterator[Fault]:
    """Copies that nothing waits for before the next ones go to the same place.

    TVM leaves out the wait of iterations in which nothing is computed. What was copied for them is
    still in flight when its place is used again, by a later iteration or when the pipeline
    restarts. It makes the last iterations one by one, as many as are ahead.
    """
    steady = pipeline.extent - pipeline.ahead
    pieces = [*pipeline.cut(range(steady)), *_part(range(steady, pipeline.extent))]
    for values, piece in itertools.product(pipeline.find_unrolled_values(), pieces):
        if not pipeline.is_never(pipeline.users, piece, values):
            continue
        for at in _part(piece) if len(piece) <= _MOST else [piece]:
            is_copied = not pipeline.is_never(pipeline.copies, at, values)
            if is_copied and pipeline.is_used_again(at, values):
                yield Fault(
                    f"block '{pipeline.copies[0].name}' would copy "
                    f"{pipeline.say_where(at, values)} what nothing uses; TVM leaves out the "
                    "wait for that, and the next copy to the same place could arrive before it",
                    "split the loop so that each iteration computes something, or prefetch at "
                    "another loop",
                )
                return


def _part(piece: range) -> list[range]:
    """The iterations of a piece, each alone."""
    return [range(at, at + 1) for at in piece]


class _Pipeline:
    """A pipeline of asynchronous copies.

    Attributes
    ----------
    copies, users : the blocks of the statements of the first stage, and of all others
    extent : of the loop; 0 where it is not known
    ahead : how many iterations the copies are ahead of what is computed
    """

    def __init__(self, loop: For, places: list[Place]) -> None:
        parts = list(loop.body.seq) if isinstance(loop.body, SeqStmt) else [loop.body]
        # Of the statements those that stand first are of the first stage.
        stages = [int(stage) for stage in loop.annotations[STAGE]]
        count = place = 0
        for part in parts[:-1]:
            if place >= len(stages) or stages[place] > 0:
                break
            place += count_statements(part)
            count += 1
        copying = [block for part in parts[:count] for block in find_all(part, SBlock)]
        using = [block for part in parts[count:] for block in find_all(part, SBlock)]
        self.loop, self.extent = loop, constant(loop.extent) or 0
        self.copies = [it for it in places if is_among(it.block, copying)]
        self.users = [it for it in places if is_among(it.block, using)]
        self.ahead = min(max(stages), self.extent)

    def cut(self, piece: range) -> list[range]:
        """Iterations as TVM makes them: together, or one by one of an unrolled loop."""
        if self.loop.kind == ForKind.UNROLLED:
            return _part(piece)
        return [piece] if len(piece) else []

    def count_written_out(self) -> int:
        """The iterations that TVM writes out, and with guards of their own."""
        is_unrolled = self.loop.kind == ForKind.UNROLLED
        extents = [constant(loop.extent) or 0 for loop in self._find_unrolled()]
        return (self.extent if is_unrolled else self.ahead) * math.prod(extents)

    def find_unrolled_values(self) -> Iterable[dict[For, range]]:
        """The values of the unrolled loops around the pipeline that guards in it ask for."""
        unrolled = self._find_unrolled()
        extents = [range(constant(item.extent) or 0) for item in unrolled]
        for values in itertools.product(*extents):
            yield {item: range(at, at + 1) for item, at in zip(unrolled, values, strict=True)}

    def _find_unrolled(self) -> list[For]:
        """The unrolled loops around the pipeline that guards in it ask for."""
        guards = [guard for place in (*self.copies, *self.users) for guard in place.guards]
        return [
            loop
            for loop in self._find_outer_loops()
            if loop.kind == ForKind.UNROLLED
            and any(is_used(loop.loop_var, each) for each in guards)
        ]

    def _find_outer_loops(self) -> list[For]:
        loops = (*self.copies, *self.users)[0].loops
        return list(itertools.takewhile(lambda loop: not loop.same_as(self.loop), loops))

    def is_used_again(self, at: range, values: dict[For, range]) -> bool:
        """Whether something else is copied to the place of an iteration's copies afterwards."""
        serial = [loop for loop in self._find_outer_loops() if get_axis(loop) is None]
        if any(constant(loop.extent) != 1 for loop in serial):
            return True
        later = range(at.start + self.ahead + 1, at.stop + self.ahead + 1)
        return later.start < self.extent and not self.is_never(self.copies, later, values)

    def is_never(self, blocks: list[Place], piece: range, values: dict[For, range]) -> bool:
        """Whether blocks provably do not run in a piece of the loop, because of a guard on it."""
        if not self.asks(blocks):
            return False
        for block in blocks:
            analyzer, single = Analyzer(), {}
            for loop in block.loops:
                chosen = {**values, self.loop: piece}.items()
                part = next((part for item, part in chosen if item.same_as(loop)), None)
                first, count = loop.min, loop.extent
                if part is not None:
                    first = loop.min + const(part.start, loop.loop_var.ty.dtype)
                    count = len(part)
                if part is not None and count == 1:
                    single[loop.loop_var] = first
                else:
                    analyzer.bind(loop.loop_var, Range.from_min_extent(first, count))
            met = [substitute(guard, single) for guard in block.guards]
            if not any(analyzer.can_prove(Not(item)) for item in [*met, all_of(*met)]):
                return False
        return True

    def asks(self, blocks: list[Place]) -> bool:
        """Whether each of some blocks has a guard on the loop."""
        return bool(blocks) and all(
            any(is_used(self.loop.loop_var, guard) for guard in block.guards) for block in blocks
        )

    def say_where(self, piece: range, values: dict[For, range]) -> str:
        first, last = piece.start, piece.stop - 1
        which = f"iteration {first}" if first == last else f"iterations {first} to {last}"
        others = " and ".join(
            f"'{item.loop_var.name}' is {at.start}" for item, at in values.items()
        )
        where = f"in {which} of loop '{self.loop.loop_var.name}'"
        return f"{where} where {others}" if others else where
