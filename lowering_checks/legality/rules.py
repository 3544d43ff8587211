"""The guard's rules, one row each: what it finds in a module, and the sentence of its refusal.

Each looks at one module. What it finds after a transform, and did not find before, is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from tvm.ir import IRModule
from tvm.tirx import For, ForKind, PrimFunc

from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import LARGEST_INDEX, cached_by_module, find_all, get_places
from tirstep.transforms.vectorize import find_unwritten

from .accesses import close_sizes, find_outside
from .block_summary import summarize
from .lowered_memory import (
    find_changed_indices,
    find_leaked_variables,
    find_missing_barriers,
    find_negative_divisors,
    find_open_allocations,
    find_small_allocations,
    find_split_allocations,
)
from .masks import find_broken_ends
from .pipelines import find_broken_pipelines
from .reads import (
    find_foreign_reads,
    find_leaks,
    find_lost_reads,
    find_settled_foreign_reads,
)
from .storage_reuse import find_merged, find_misplaced_tiles, find_overlaps, find_overwritten
from .stores import find_partial_virtual_threads, find_unowned
from .sums import (
    find_broken_repairs,
    find_late_beginnings,
    find_lost_guards,
    find_lost_terms,
    find_unordered_sums,
)

REPORT = "report it, with the steps that led here"
SMALLER = "choose smaller sizes, or give the kernel int64 loops"


class Rule(NamedTuple):
    """What looks for one kind of fault.

    Attributes
    ----------
    name : in the field's words
    find : what there is in a module, of one kind; in a mapping it has the same key in others
    problem, advice : the sentence of a refusal, with the parts of what is found, a `Fault` say
    needs_motion : whether it takes a block that moves: not asked after primitives of loops alone
    find_at_end : what there is in a schedule that nothing is to be bound in any more, where `check`
        asks for that
    """

    name: str
    find: Callable[[IRModule], Iterable[Any]]
    problem: str = "{0}"
    advice: str = "{1}"
    needs_motion: bool = False
    find_at_end: Callable[[IRModule], Iterable[Any]] | None = None

    def describe(self, found: Any, key: Any) -> Fault:
        """The sentence of one of the things that were found."""
        what = found[key] if isinstance(found, Mapping) else key
        listed = what if isinstance(what, tuple) else (what,)
        return Fault(self.problem.format(*listed), self.advice.format(*listed))

    def find_new(self, before: IRModule, after: IRModule) -> tuple[bool, Fault | None]:
        """Whether nothing is found in a module, and the first fault that was not in another."""
        found = self.find(after)
        if not found:
            return True, None
        old = self.find(before)
        new = next((key for key in found if key not in old), None)
        if new is None:
            return False, None
        return False, self.describe(found, new)


def _of_blocks(field: str) -> Callable[[IRModule], dict[str, Any]]:
    """What a count of a module's blocks has by name, behind the name."""

    def find(module: IRModule) -> dict[str, Any]:
        found = getattr(summarize(module), field).items()
        return {name: (name, *(it if isinstance(it, tuple) else (it,))) for name, it in found}

    return find


def _by_problem(find: Callable[[IRModule], Iterable[Fault]]) -> Callable[[IRModule], Any]:
    """Faults that are the same where the problem is; the first of them counts."""
    return lambda module: {fault.problem: fault for fault in reversed([*find(module)])}


def _at_some_sizes(find: Callable[[IRModule], dict[Any, Any]]) -> Callable[[IRModule], Any]:
    """What looks at sizes that a module leaves open, too, at some values of these."""

    def look(module: IRModule) -> dict[Any, Any]:
        found, closed = find(module), close_sizes(module)
        return found if closed.same_as(module) else {**find(closed), **found}

    return look


@cached_by_module(2)
def _find_vectors(module: IRModule) -> dict[str, tuple[str, str]]:
    """The loops of vectors that CUDA does not have, with what they are made of."""
    found: dict[str, tuple[str, str]] = {}
    for variable, function in module.functions_items():
        loops = find_all(function.body, For) if isinstance(function, PrimFunc) else ()
        has_vectors = any(it.kind == ForKind.VECTORIZED for it in loops)
        prefix = f"{variable.name_hint}." if len(module.functions) > 1 else ""
        for place in get_places(function.body) if has_vectors else ():
            for loop, what in find_unwritten(place):
                name = prefix + str(loop.loop_var.name)
                found[name] = name, what
    return found


OF_SIZES = (
    Rule(
        "buffer that no block writes",
        _of_blocks("unwritten"),
        "block '{1}' would read '{0}', which no block writes",
        REPORT,
    ),
    Rule("empty loop", _of_blocks("extents"), "loop '{0}' would run {1} times", SMALLER),
    Rule(
        "iterations lost",
        _of_blocks("short"),
        "block '{0}' of {2} points would run {1} times",
        SMALLER,
    ),
    Rule(
        "index beyond 32 bits",
        _of_blocks("beyond"),
        "iterator '{1}' of block '{0}' would reach {2} where its guard is evaluated, and indices "
        f"of 32 bits end before {LARGEST_INDEX}",
        SMALLER,
    ),
)
"""Sizes and counts, read off the summary of all blocks: asked after every primitive."""
OF_PLACES = (
    Rule(
        "memory that an instruction does not take",
        _of_blocks("moved"),
        "the instruction that block '{1}' has become takes memory in scope '{4}', and '{2}' would "
        "be in scope '{3}'",
        "cache or keep the buffer before tensorize_fragments, or in the scope that it has",
    ),
    Rule(
        "fragments read as one thread's",
        _of_blocks("mixed"),
        "the instruction that block '{1}' has become lays '{0}' out over the registers of a warp's "
        "lanes, and block '{2}' would use them as plain registers",
        "let it go through shared memory, or do this before tensorize_fragments",
    ),
    Rule(
        "misaligned rows",
        _of_blocks("skewed"),
        "the rows of '{0}' would begin at multiples of {1} bytes, and {2} that begin at "
        "multiples of {3}",
        "pad by a multiple of {3} bytes",
    ),
    Rule(
        "swizzled by one block only",
        _of_blocks("swizzled"),
        "TVM swizzles the rows of '{0}' and of all else that block '{1}' uses in shared memory, "
        "and block '{2}' would not",
        "cache it in registers, or before tensorize_fragments",
    ),
    Rule(
        "kernel in an unrolled loop",
        _of_blocks("unrolled"),
        "loop '{0}' would be unrolled around the kernel of loop '{1}', and TVM does not copy "
        "kernels",
        "bind a loop further out first, or leave this one serial",
    ),
)
"""Where buffers lie and who uses them, read off the same summary."""
OF_LOWERING = (
    Rule("kernel partly outside of its virtual threads", _by_problem(find_partial_virtual_threads)),
    Rule(
        "vectors that CUDA does not have",
        _find_vectors,
        "loop '{0}' would make vectors of {1}, which TVM cannot write in CUDA",
        "use a shorter vector, or leave the loop serial",
    ),
    Rule(
        "descending quotients",
        find_negative_divisors,
        "'{0}' is used at an index that goes down as a loop goes up, as n - i does, and TVM "
        "simplifies quotients and remainders of that wrongly",
        "let the block that uses it count upwards, or leave the buffer as it is",
    ),
    Rule(
        "lost guard",
        find_lost_guards,
        "block '{0}' reduces over threads, and {1} is its only guard: TVM would "
        "store sums of outputs that do not exist to '{2}'",
        "keep the sums in registers (cache_write_at), with all their readers at the same "
        "place, or use sizes that divide",
    ),
    Rule(
        "terms of other threads lost",
        find_lost_terms,
        "block '{0}' would add each thread's terms on '{2}' to its own register '{1}', and "
        "none would have the whole sum",
        "let the block keep its initialization, so that TVM adds up over threads, or bind a loop "
        "that feeds no reduction",
        find_at_end=find_lost_terms,
    ),
    Rule("late initialization", _by_problem(find_late_beginnings)),
    Rule("broken pipeline", _by_problem(find_broken_pipelines)),
    Rule("sum over threads out of order", _by_problem(find_unordered_sums)),
    Rule("loop truncated at a mask", _by_problem(find_broken_ends)),
    Rule("wrong rescaling of an online reduction", _by_problem(find_broken_repairs)),
    Rule(
        "one element stored by several threads",
        find_unowned,
        find_at_end=partial(find_unowned, is_last=True),
    ),
    Rule(
        "read before write",
        _at_some_sizes(find_lost_reads),
        needs_motion=True,
        find_at_end=partial(find_lost_reads, is_last=True),
    ),
    Rule(
        "out of bounds",
        _at_some_sizes(find_outside),
        "block '{0}' would {1} elements of '{2}' outside of its {4} along dimension {3}",
        "do this before the loops of the block that writes it are split with a guard, or choose "
        "sizes that divide",
        needs_motion=True,
    ),
    Rule(
        "cross-thread read of global memory",
        find_foreign_reads,
        needs_motion=True,
        find_at_end=find_foreign_reads,
    ),
    Rule(
        "merged buffers that overlap",
        find_overlaps,
        "TVM would let another buffer overlap '{0}' while that is in use: without its "
        "storage rewrite it merges dynamic shared memory wrongly",
        'leave "tirx.disable_storage_rewrite" off, or stage buffers in scope "shared"',
    ),
    Rule(
        "merged buffers in use at once",
        lambda module: {it: (*it, "another " * (it[0] == it[1])) for it in find_merged(module)},
        "TVM would put '{1}' in the place of {2}'{0}' without a barrier, or while that is in "
        "use, and threads would overwrite what others have yet to read",
        'keep one of them in scope "shared", or leave this as it is',
    ),
    Rule(
        "misplaced swizzle",
        find_misplaced_tiles,
        "TVM would put '{0}', whose rows are swizzled in {1} bytes, after other buffers, not at a "
        "multiple of {2} bytes of shared memory",
        "keep those in registers, or give each a multiple of {2} bytes",
    ),
    Rule(
        "overwritten in place",
        find_overwritten,
        "TVM would keep '{1}' in the place of '{0}', from which it is computed, and block '{2}' "
        "would write the same elements several times in one kernel",
        "place block '{2}' outside of loops that it does not use, in a kernel of its own",
        find_at_end=partial(find_overwritten, is_last=True),
    ),
    Rule(
        "changed indices",
        find_changed_indices,
        "TVM would use other elements of '{0}' than the schedule does: it takes remainders "
        "of one index at two places, i % 2 and (i + 1) % 2, say, to be equal, and simplifies "
        "those of n - i wrongly",
        "do this to a tile that begins at a multiple of its rows, at a loop further out, say, or "
        "leave it as it is",
    ),
    Rule(
        "allocation of a symbolic size",
        find_open_allocations,
        "TVM would keep '{0}' of {2} elements along one dimension in {1}, and it allocates only "
        "constant sizes",
        "do this at a loop whose iterations each use a part of constant size, or give the "
        "kernel its sizes",
    ),
    Rule(
        "shared memory compacted by thread",
        find_split_allocations,
        "TVM would make '{0}' smaller, as if each thread had a buffer of its own",
        "fold it into rows that divide its length, let all threads fetch it, or leave it as it is",
    ),
    Rule(
        "shared memory compacted too far",
        find_small_allocations,
        "TVM would make '{0}' smaller than what is used of it: it begins at another element of a "
        "row in each iteration of a loop around it",
        "fold it into rows that divide where it begins, do this to a tile at a loop further out, "
        "or leave it as it is",
    ),
    Rule(
        "loop variable used after its loop",
        find_leaked_variables,
        "TVM would use loop '{0}' after its end: its guard leaves one iteration, whose index "
        "TVM takes for where a buffer begins",
        "split by a factor that is at most the loop's extent, or leave it as it is",
    ),
    Rule(
        "missing barrier",
        find_missing_barriers,
        "threads would share elements of the shared buffer '{0}' without a barrier: TVM "
        "assumes that equal indices mean the same thread",
        "let each thread write elements of its own (of a larger tile, at an outer loop, for "
        "example), or leave the data in global memory",
        find_at_end=partial(find_missing_barriers, is_last=True),
    ),
    Rule("cross-thread read of global memory by a bound reader", find_settled_foreign_reads),
)
"""What TVM would lower to another program than the schedule says: asked last, and of modules only
that were not found sound before."""


def list_faults_at_end(module: IRModule) -> Iterator[Fault]:
    """What is wrong with a schedule that nothing is to be bound in any more."""
    yield from [*find_leaks(close_sizes(module)).values()][:1]
    for rule in OF_LOWERING:
        found = rule.find_at_end(module) if rule.find_at_end else ()
        for key in found:
            yield rule.describe(found, key)
