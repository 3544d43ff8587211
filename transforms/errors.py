"""The error of the transforms, and the decorator of queries, which converts TVM's errors."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, ParamSpec, TypeVar

from tvm.error import InternalError
from tvm.s_tir import ScheduleError
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .arguments import UnfitError, read_arguments
from .tir import find_location

LOOK = "see the schedule with sch.show()"
"""Where the words are not known."""
_ADVICE = {
    # loops
    "not in a chain": (
        "a block between these loops keeps them apart: tile before blocks are cached or placed "
        "there, or decompose the reduction afterwards"
    ),
    "there are some statements in between": (
        "reorder before blocks are placed between these loops, or move the block first "
        "(compute_block_at)"
    ),
    "is not a data parallel block iter": (
        "take a loop over the block's results: one of get_spatial_loops, or split the reduction "
        "into parts (rfactor_reduction)"
    ),
    "should not appear under a reduction loop": (
        "a loop of one iteration or one that feeds nothing stands there: keep the reduction loops "
        "innermost (reorder_loops)"
    ),
    "shouldn't appear under a reduction loop": (
        "a loop that feeds nothing stands there: keep the reduction loops innermost (reorder_loops)"
    ),
    "partial affine binding": (
        "its loops were fused or split so that TVM cannot tell the iterators apart: do this before "
        "that, or choose sizes that divide"
    ),
    "affine binding": (
        "its iterators are no sums of loops that TVM can take apart: do this before the loops are "
        "fused with others or split with a guard"
    ),
    "contains more than one type of original iter vars": (
        "its loops over results and over the reduction were fused: fuse loops of one kind only"
    ),
    "touched by both some data parallel": (
        "its loops over results and over the reduction were fused: do this before, or fuse loops "
        "of one kind only"
    ),
    "block iter type other than data-parallel or reduction": (
        "a block that scans or sorts keeps the order of its loops: reorder and bind the others"
    ),
    "`extent` is dependent on another loop": (
        "how often it runs depends on a loop around it: bind that loop, or pad the inner one to a "
        "length of its own with a condition in the block"
    ),
    "does not start with 0": (
        "write the loop from 0 and add where it begins to its index, and then do this"
    ),
    "cannot be fulfilled with regard to block": (
        "bind a loop of its results, or use spread_over_threads"
    ),
    # placement and inlining
    "is an output block": (
        "it writes a tensor of the function's, and nothing reads it there: move what follows it "
        "(reverse_compute_block_at), or cache its result (cache_write_at)"
    ),
    "loop not to be the ancestor of block": (
        "that loop is the block's own, or inside of another block: choose a loop of what it reads, "
        "or is read by"
    ),
    "List of the producer(s)": (
        "place all producers under that loop first, with compute_block_at, outermost first"
    ),
    "List of the consumer(s)": (
        "place all consumers under that loop first, with reverse_compute_block_at, or choose a "
        "loop around all of them"
    ),
    "does not have compact dataflow": (
        "a block there reads what is not complete, or writes a buffer together with another one: "
        "do this before the reduction is decomposed, or at an outer loop"
    ),
    "Cannot inline": (
        "leave it a kernel of its own (tile_block), or place it with compute_block_at"
    ),
    "not a complete block": (
        "it reads what it writes, or others write that, too: do this before the reduction is "
        "decomposed, or place it with compute_block_at"
    ),
    "single point": (
        "it uses several elements of that buffer in one iteration: leave it as it is, or compute "
        "it at a loop of its consumer (compute_block_at)"
    ),
    "read only a single buffer region": "inline or cache its other operands first",
    "write only a single buffer region": (
        "a block of several results stays as it is: bind its spatial loops with tile_block"
    ),
    "not allocated by a block": (
        "it is a tensor of the function's: compute it in a buffer of its own with cache_write_at"
    ),
    "region cover": (
        "it would read more than is computed there: choose a loop further out, or sizes that divide"
    ),
    "stage pipeline": (
        "blocks there depend on each other in both directions: do this before a block is "
        "decomposed or added to in another place"
    ),
    # reductions
    "is not the reduction block": (
        "pass a block with T.init, and a loop that feeds its reduction: get_reduction_loops"
    ),
    "not a reduction block": (
        "pass a block that adds up, with T.init and before it is decomposed: it may store to one "
        "element of each of its results"
    ),
    "buffers initialized in the block init": (
        "pass a block that stores to one element of each of its results, and not one around others"
    ),
    "No matched reducer": (
        "TVM knows sums, products, maxima, minima and argmax by their T.init: write the first "
        "value as a constant, T.float32(0), say"
    ),
    "not a computation of Einsum": (
        'pad what is a sum of products, or split with tail="guard" instead'
    ),
    # buffers
    "expected to be written by single block": (
        "cache it before its reduction is decomposed, or fill it in one block alone"
    ),
    "intset.HasLowerBound() && intset.HasUpperBound()": (
        "its index comes from data, so that the copy has no bounds: leave it in global memory"
    ),
    "previous index for the same buffer access used index type": (
        "give all loops and sizes of the function one integer type"
    ),
    "must match its associated Var's dtype": (
        "give all loops and sizes of the function one integer type"
    ),
    "pattern match failed": (
        "the indices are no single iterators: give the block iterators for what it indexes by, or "
        "tile without moving this block"
    ),
    "Transformation would introduce padding": (
        "choose a layout whose sizes divide the tensor's, or pad the block first with pad_block"
    ),
    "operate on the root blo": "pass a block of the function's, as sch.get_sblock(name) gives it",
    "error_render_level": (
        'make the schedule with Schedule(module, error_render_level="detail") to see the reason'
    ),
}


def advise(reason: str) -> str:
    """What to do about a reason of TVM's; to look at the schedule where that is not known."""
    return next((advice for words, advice in _ADVICE.items() if words in reason), LOOK)


NO_COPY = "unordered_map::at"
"""So `Schedule.copy` fails where a block is gone that TVM believes alive: tensorize of a loop."""
Options = ParamSpec("Options")
Result = TypeVar("Result")
_running: ContextVar[str] = ContextVar("_running", default="transform")
"""The name of the innermost running transform or query."""


class TransformError(ValueError):
    """A transform refused, and the schedule is as it was before the call.

    After ``sch.tensorize`` TVM may not be able to copy a schedule; then a transform cannot be tried
    on a copy, and where it was refused half-way its advice says that the schedule has changed.

    The text is one sentence: who refuses, what is wrong with its names and numbers, what to do.
    ``TransformError(problem, advice)`` names the running transform, ``TransformError(transform,
    problem, advice)`` another one.

    Attributes
    ----------
    transform : name of the transform, e.g. ``"split_loop"``
    caller : the transform that was called, where `transform` is a part of it; None otherwise
    problem : what is wrong, with names and numbers
    advice : what to do about it
    recipe, step, line : the recipe, its last finished step, and the recipe's ``file:line``;
        None outside of a recipe
    knobs : of that recipe, with the words that each takes; none outside of a recipe
    kernel_line : the kernel's ``file:line`` where TVM keeps it; None where it does not
    place : of several changes that were asked about at once, the number of those before the one
        that shows it; None where none does alone
    """

    def __init__(self, *parts: str) -> None:
        transform, problem, advice = parts if len(parts) == 3 else (_running.get(), *parts)
        super().__init__(transform, problem, advice)
        self.transform = transform
        self.caller: str | None = None
        self.problem = re.sub(r"\s*\n\s*", " ", problem)  # of a name with line breaks
        self.advice = advice
        self.recipe: str | None = None
        self.step: str | None = None
        self.line: str | None = None
        self.knobs: dict[str, tuple[str, ...]] = {}
        self.kernel_line: str | None = None
        self.place: int | None = None

    def __str__(self) -> str:
        places = []
        if self.recipe is not None:
            places.append(f"recipe {self.recipe}, after step '{self.step}', {self.line}")
        if self.kernel_line is not None:
            places.append(f"kernel {self.kernel_line}")
        where = f" [{'; '.join(places)}]" if places else ""
        transform = self.transform if self.caller is None else f"{self.caller}: {self.transform}"
        return f"{transform}: {self.problem}; {self.advice}{where}"


def query(function: Callable[Options, Result]) -> Callable[Options, Result]:
    """Wrap a public query of a schedule or a module, as `transform` wraps a transform."""

    @functools.wraps(function)
    def checked(*args: Options.args, **options: Options.kwargs) -> Result:
        return run_call(function, read_call(function, args, options))

    return checked


def read_call(
    function: Callable[..., object], args: tuple[Any, ...], options: dict[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call, held against the function's annotations."""
    try:
        return read_arguments(function, args, options)
    except UnfitError as unfit:
        raise TransformError(function.__name__, unfit.problem, unfit.advice) from None


def run_call(function: Callable[..., Result], bound: inspect.BoundArguments) -> Result:
    """Call a function; what it and TVM refuse becomes a `TransformError` of its name."""
    name, kernel_line = function.__name__, _find_kernel_line(bound)
    token = _running.set(name)
    try:
        return function(*bound.args, **bound.kwargs)
    except TransformError as error:
        error.kernel_line = error.kernel_line or kernel_line
        error.caller = None if error.transform == name else name
        raise
    except (ScheduleError, ValueError, InternalError) as error:
        if NO_COPY in str(error):
            refusal = TransformError(
                "TVM cannot copy this schedule, to try it out", "tensorize after it"
            )
        elif not isinstance(error, ScheduleError) and "Check failed" not in str(error):
            raise
        else:
            reason = describe_error(error)
            refusal = TransformError(f"TVM refuses: {reason}", advise(reason))
        refusal.kernel_line = kernel_line
        raise refusal from error
    finally:
        _running.reset(token)


def _find_kernel_line(bound: inspect.BoundArguments) -> str | None:
    """The file and line of the first handle's statement, where the parser left them."""
    sch, *others = bound.arguments.values()
    for handle in [item for given in others for item in _flatten(given)]:
        node = sch.get(handle)
        for statement in (node, getattr(node, "body", None)):
            if (location := find_location(statement)) is not None:
                return f"{location[0]}:{location[1]}"
    return None


def _flatten(argument: Any) -> list[Any]:
    """The handles in an argument."""
    given = argument if isinstance(argument, (list, tuple)) else [argument]
    return [item for item in given if isinstance(item, (LoopRV, SBlockRV))]


def describe_error(error: Exception) -> str:
    """TVM's own reason: the text behind 'Error message:', without the IR before it.

    The IR says which loop or block a mark like ``s_tir.SBlock#0`` in the reason stands for.
    """
    program, _, reason = str(error).strip().rpartition("Error message:")
    reason = (
        re.sub(r"Definition of [^\n]*(?:\n\d\)[^\n]*)*", "", reason)
        .strip()
        .removeprefix("ScheduleError:")
        .strip()
    )
    if reason == "(not rendered)":
        return 'it says why only with error_render_level="detail"'
    reason = reason.partition("The pattern attempting to be matched:")[0]  # and both programs
    reason = re.sub(r"^Check failed: .* is false: ", "", reason)
    reason = re.sub(r"(#\d+)(?=\w)", r"\1, ", reason)
    names = dict(re.findall(r"# (\S+#\d+)\s+(?:with T\.sblock\(\"|for )(\w+)", program))
    reason = re.sub(
        r"(?:\b(?:block|loop) )?\b\w+\.(SBlock|For)#\d+",
        lambda mark: _name_mark(mark, names),
        reason,
    )
    return re.sub(r"\s+", " ", reason).rstrip(".")


def _name_mark(mark: re.Match[str], names: dict[str, str]) -> str:
    kind = "block" if mark.group(1) == "SBlock" else "loop"
    name = names.get(mark.group().rpartition(" ")[2])
    return f"the {kind}" if name is None else f"{kind} '{name}'"


class Fault(NamedTuple):
    """What a transform did to a function: the problem and the advice of a refusal."""

    problem: str
    advice: str
