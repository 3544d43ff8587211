"""What TVM would lower to another program than the schedule says: the nets that look for it.

Each net looks at one module. What it finds after a transform, and did not find before, is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tvm.ir import IRModule
from tvm.tirx import For, ForKind, PrimFunc

from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import cached_by_module, find_all, get_places
from tirstep.transforms.vectors import find_unwritten

from .bounds import Outside, find_outside
from .descending import find_negative_divisors
from .descriptors import MisplacedTile, find_misplaced_tiles
from .lowered_memory import (
    OpenRoom,
    find_changed_indices,
    find_leaked_variables,
    find_missing_barriers,
    find_open_rooms,
    find_split_rooms,
    find_tight_rooms,
)
from .masks import find_broken_ends
from .merged_memory import Overwritten, find_merged, find_overlaps, find_overwritten
from .open_sizes import close_sizes
from .pipelines import find_broken_pipelines
from .reads import LostRead, find_foreign_reads, find_lost_reads, find_settled_foreign_reads
from .repairs import find_broken_repairs
from .sound import recall
from .stores import find_unowned
from .sums import LostGuard, find_late_beginnings, find_lost_guards, find_unordered_sums
from .virtual_threads import find_partial_virtual_threads


class Net(NamedTuple):
    """What looks for one kind of fault.

    Attributes
    ----------
    find : what there is in a module, of one kind; in a mapping it has the same key in others
    blame : the fault of what is new
    """

    find: Callable[[IRModule], Iterable[Any]]
    blame: Callable[[Any], Fault]

    def find_new(self, before: IRModule, after: IRModule) -> tuple[bool, Fault | None]:
        """Whether nothing is found in a module, and the first fault that was not in another."""
        found = self.find(after)
        if not found:
            return True, None
        old = self.find(before)
        new = next((key for key in found if key not in old), None)
        if new is None:
            return False, None
        return False, self.blame(found[new] if isinstance(found, Mapping) else new)


def find_first(nets: Iterable[Net], before: IRModule, after: IRModule) -> Fault | None:
    """The first fault that nets find in a module, and not in the one before."""
    faults = (net.find_new(before, after)[1] for net in nets)
    return next((fault for fault in faults if fault is not None), None)


def find_wrong_lowering(before: IRModule, after: IRModule, *, asks_reads: bool) -> Fault | None:
    """What TVM would make another program of in a module, and would not have in the one before.

    Whether reads are lost is asked on demand: loops alone lose none.
    """
    known = recall(after)
    if known.is_sound and (known.has_all_reads or not asks_reads):
        return None
    is_sound = True
    for net in (*_BEFORE_READS, *(_READS if asks_reads else ()), *_BEHIND_READS):
        is_empty, fault = net.find_new(before, after)
        if fault is not None:
            return fault
        is_sound = is_sound and is_empty
    known.is_sound = is_sound
    known.has_all_reads = is_sound and asks_reads
    return None


@cached_by_module(2)
def _find_unwritten(module: IRModule) -> dict[str, tuple[str, str]]:
    """The loops of vectors that CUDA does not have, with what they are made of."""
    found: dict[str, tuple[str, str]] = {}
    for variable, function in module.functions_items():
        if not isinstance(function, PrimFunc) or not _has_vectors(function.body):
            continue
        prefix = f"{variable.name_hint}." if len(module.functions) > 1 else ""
        for place in get_places(function.body):
            for loop, what in find_unwritten(place):
                name = prefix + str(loop.loop_var.name)
                found[name] = name, what
    return found


def _has_vectors(body: Any) -> bool:
    return any(loop.kind == ForKind.VECTORIZED for loop in find_all(body, For))


def _blame_vector(named: tuple[str, str]) -> Fault:
    name, what = named
    return Fault(
        f"loop '{name}' would make vectors of {what}, and TVM does not write them as CUDA's",
        "use a shorter vector, or leave the loop serial",
    )


def _blame_quotient(name: str) -> Fault:
    return Fault(
        f"'{name}' is used at an index that goes down as a loop goes up, as n - i does, and "
        "TVM takes quotients and remainders of that for others",
        "let the block that uses it count upwards, or leave the buffer as it is",
    )


def _blame_guard(lost: LostGuard) -> Fault:
    return Fault(
        f"block '{lost.block}' reduces over threads, and {lost.guard} is its only guard: TVM "
        f"would store the sums of outputs that do not exist into '{lost.buffer}'",
        "keep the sums in registers (cache_write_at), which all blocks read at the place "
        "where they are written, or use sizes that divide",
    )


def _by_problem(find: Callable[[IRModule], Iterable[Fault]]) -> Net:
    """The net of faults that are the same where the problem is; the first of them counts."""

    def find_all_problems(module: IRModule) -> dict[str, Fault]:
        found: dict[str, Fault] = {}
        for fault in find(module):
            found.setdefault(fault.problem, fault)
        return found

    return Net(find_all_problems, lambda fault: fault)


def _at_some_sizes(find: Callable[[IRModule], dict[Any, Any]]) -> Callable[[IRModule], Any]:
    """What looks at sizes that a module leaves open, too, at some values of these."""

    def look(module: IRModule) -> dict[Any, Any]:
        found, closed = find(module), close_sizes(module)
        return found if closed.same_as(module) else {**find(closed), **found}

    return look


def _blame_read(lost: LostRead) -> Fault:
    what = f"block '{lost.reader}' would read {lost.element}, which block '{lost.writer}' "
    why = f"TVM makes a new '{lost.buffer}' in each"
    if lost.axis:
        why = f"nothing orders what the others on '{lost.axis}' do"
    if not lost.loop:
        return Fault(
            f"{what}has not written by then",
            "place the block that writes it before it, with all that it reads",
        )
    return Fault(
        f"{what}has not written by then in the same iteration of loop '{lost.loop}': {why}",
        "place it outside of the loops that write a part of that, or use sizes that divide",
    )


def _blame_outside(use: Outside) -> Fault:
    return Fault(
        f"block '{use.block}' would {use.verb} elements of '{use.buffer}' outside of the "
        f"{use.length} that there are along dimension {use.dimension}",
        "do this before the loops of the block that writes it are split with a guard, or choose "
        "sizes that divide",
    )


def _blame_overlap(name: str) -> Fault:
    return Fault(
        f"TVM would let another buffer reach into '{name}' while that is in use: without its "
        "storage rewrite it merges dynamic shared memory wrongly",
        'leave "tirx.disable_storage_rewrite" off, or stage buffers in scope "shared"',
    )


def _blame_merged(two: tuple[str, str]) -> Fault:
    buffer, taker = two
    return Fault(
        f"TVM would put '{taker}' in the place of {'another ' * (taker == buffer)}'{buffer}' with "
        "no barrier between, or while that is in use, and threads would write what others have yet "
        "to read",
        'keep one of them in scope "shared", or leave this as it is',
    )


def _blame_tile(tile: MisplacedTile) -> Fault:
    return Fault(
        f"TVM would put '{tile.buffer}', whose rows are swizzled in {tile.width} bytes, behind "
        f"other buffers at no multiple of {tile.repeat} bytes of shared memory",
        f"keep those in registers, or give each a multiple of {tile.repeat} bytes",
    )


def _blame_overwritten(lost: Overwritten) -> Fault:
    return Fault(
        f"TVM would keep '{lost.taker}' in the place of '{lost.buffer}', from which it is "
        f"computed, and block '{lost.writer}' would write the same elements several times in "
        "one kernel",
        f"place block '{lost.writer}' outside of loops that it does not use, in a kernel of its "
        "own",
    )


def _blame_indices(name: str) -> Fault:
    return Fault(
        f"TVM would use other elements of '{name}' than the schedule does: it takes remainders "
        "of one index at two places, i % 2 and (i + 1) % 2, say, for the same, and those of "
        "n - i for others",
        "do this to a tile that begins at a multiple of its rows, at a loop further out, say, "
        "or leave it as it is",
    )


def _blame_split_room(name: str) -> Fault:
    return Fault(
        f"TVM would make '{name}' smaller, as if each thread had one of its own that begins "
        "elsewhere",
        "fold it into rows that divide its length, let all threads fetch it, or leave it as it is",
    )


def _blame_tight_room(name: str) -> Fault:
    return Fault(
        f"TVM would make '{name}' smaller than what is used of it: it begins at another "
        "element of a row in each iteration of a loop around it",
        "fold it into rows that divide where it begins, do this to a tile at a loop further "
        "out, or leave it as it is",
    )


def _blame_open_room(room: OpenRoom) -> Fault:
    what = "registers" if room.scope == "local" else "shared memory"
    return Fault(
        f"TVM would keep '{room.buffer}' of {room.extent} elements along one dimension in {what}, "
        "and allocates constant sizes alone",
        "do this at a loop of whose iterations each uses a part of constant size, or give the "
        "kernel its sizes",
    )


def _blame_variable(name: str) -> Fault:
    return Fault(
        f"TVM would use loop '{name}' behind its end: of the one iteration that its guard lets in "
        "it takes the index for where a buffer begins",
        "split by a factor that is no longer than the loop, or leave it as it is",
    )


def _blame_barrier(name: str) -> Fault:
    return Fault(
        f"threads would share elements of the shared buffer '{name}' with no barrier between: "
        "TVM assumes that accesses at one index are one thread's",
        "let each thread of a GPU block write a part of its own, of a larger tile at a loop "
        "further out, say, or leave it in global memory",
    )


_BEFORE_READS = (
    _by_problem(find_partial_virtual_threads),
    Net(_find_unwritten, _blame_vector),
    Net(find_negative_divisors, _blame_quotient),
    Net(find_lost_guards, _blame_guard),
    _by_problem(find_late_beginnings),
    _by_problem(find_broken_pipelines),
    _by_problem(find_unordered_sums),
    _by_problem(find_broken_ends),
    _by_problem(find_broken_repairs),
    Net(find_unowned, lambda fault: fault),
)
_READS = (
    Net(_at_some_sizes(find_lost_reads), _blame_read),
    Net(_at_some_sizes(find_outside), _blame_outside),
    Net(find_foreign_reads, lambda fault: fault),
)
_BEHIND_READS = (
    Net(find_overlaps, _blame_overlap),
    Net(find_merged, _blame_merged),
    Net(find_misplaced_tiles, _blame_tile),
    Net(find_overwritten, _blame_overwritten),
    Net(find_changed_indices, _blame_indices),
    Net(find_open_rooms, _blame_open_room),
    Net(find_split_rooms, _blame_split_room),
    Net(find_tight_rooms, _blame_tight_room),
    Net(find_leaked_variables, _blame_variable),
    Net(find_missing_barriers, _blame_barrier),
    Net(find_settled_foreign_reads, lambda fault: fault),
)
