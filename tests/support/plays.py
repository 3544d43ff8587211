"""Plays: a schedule of a problem, and the calls that made it.

Calls name blocks and loops by place, so that a play can be made anew from its calls: on a fresh
schedule, or without some of them. `record` has those of a recipe.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For

from tirstep import transforms as tr
from tirstep.lowering_checks.legality.accesses import find_idle
from tirstep.lowering_checks.ownership import check_ownership
from tirstep.modules import Problem
from tirstep.transforms import TransformError, queries, tir
from tirstep.transforms.recipes import RECIPES, Recipe
from tirstep.transforms.tir import Place

PREFIX, PRIMITIVE = "prefix", "sch."
"""The first steps of a recipe as one call; and what begins the name of one of TVM's primitives."""
TRANSFORMS = [
    name
    for name in tr.__all__
    if inspect.isfunction(getattr(tr, name)) and not name.startswith(("find_", "get_"))
]
"""The public transforms, by name."""


class WrongError(Exception):
    """Something that must not happen: what kind of thing, the details, and the call that did it."""

    def __init__(self, kind: str, text: str, call: Call | None = None) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.call = kind, call


@dataclass(frozen=True)
class Block:
    """The nth block of a name."""

    name: str
    nth: int = 0

    def __str__(self) -> str:
        nth = f", {self.nth}" if self.nth else ""
        return f'block("{self.name}"{nth})'


@dataclass(frozen=True)
class Loop:
    """A loop around a block, counted from outside."""

    block: Block
    index: int

    def __str__(self) -> str:
        return f"loop({self.block}, {self.index})"


@dataclass(frozen=True)
class Call:
    """A call of a transform, of a primitive, whose name begins with `PRIMITIVE`, or of `prefix`."""

    name: str
    places: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = [_show(place) for place in self.places]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        if self.name.startswith(PRIMITIVE):
            return f"{self.name}({', '.join(given)})"
        who = PREFIX if self.name == PREFIX else f"tr.{self.name}"
        return f"{who}({', '.join(['sch', *given])})"

    def run(self, sch: Schedule, handles: Sequence[Any]) -> None:
        """Make it on a schedule, whose handles are those of its places."""
        if self.name.startswith(PRIMITIVE):
            getattr(sch, self.name.removeprefix(PRIMITIVE))(*handles, **self.options)
        else:
            function = prefix if self.name == PREFIX else getattr(tr, self.name)
            function(sch, *handles, **self.options)


def prefix(sch: Schedule, recipe: str, steps: int, /, **config: object) -> None:
    """The first steps of a recipe; of one that is refused those before stay."""
    with contextlib.suppress(TransformError):
        for _ in zip(range(steps), RECIPES[recipe].run(sch, **config), strict=False):
            pass


def _show(place: Any) -> str:
    if isinstance(place, list):
        return f"[{', '.join(map(_show, place))}]"
    return str(place) if isinstance(place, (Block, Loop)) else repr(place)


def list_blocks(sch: Schedule) -> dict[Block, SBlockRV]:
    """All blocks in program order, those within others, too."""
    found: dict[Block, SBlockRV] = {}
    names: list[str] = []

    def add(around: SBlockRV) -> None:
        for handle in sch.get_child_blocks(around):
            name = queries.get_sblock_name(sch, handle)
            found[Block(name, names.count(name))] = handle
            names.append(name)
            add(handle)

    add(sch.get_sblock("root"))
    return found


def find_place(sch: Schedule, value: Any) -> Any:
    """The place of a handle; of lists, those of all; other values as they are."""
    if isinstance(value, (list, tuple)) and any(isinstance(it, (SBlockRV, LoopRV)) for it in value):
        return [find_place(sch, each) for each in value]
    if not isinstance(value, (SBlockRV, LoopRV)):
        return value
    node = sch.get(value)
    for place, block in list_blocks(sch).items():
        if isinstance(value, SBlockRV) and sch.get(block).same_as(node):
            return place
        if isinstance(value, LoopRV):
            for index, loop in enumerate(sch.get_loops(block)):
                if sch.get(loop).same_as(node):
                    return Loop(place, index)
    raise LookupError("a handle is of no place")


@cache
def _find_recorded() -> dict[Any, tuple[str, inspect.Signature]]:
    """By their code: the public transforms, and the primitives that change a schedule."""
    found = [(name, getattr(tr, name)) for name in TRANSFORMS]
    quiet = ("_", "get", "copy", "show", "work_on", "enter_", "sample_", "seed", "fork_")
    found += [
        (f"{PRIMITIVE}{name}", function)
        for name, function in vars(Schedule).items()
        if inspect.isfunction(function) and not name.startswith(quiet)
    ]
    bare = {name: inspect.unwrap(function) for name, function in found}
    return {each.__code__: (name, inspect.signature(each)) for name, each in bare.items()}


def record(recipe: Recipe, sch: Schedule, **config: Any) -> list[Call]:
    """The calls of transforms and primitives that a recipe makes on a schedule, which it changes.

    Those up to the one that is refused, where one is. Raises `WrongError` for any other error.
    """
    known, calls, around = _find_recorded(), list[Call](), list[Any]()
    before = sys.getprofile()

    def watch(frame: Any, event: str, _argument: Any) -> None:
        if frame.f_code not in known or event not in ("call", "return"):
            return
        if event == "return":
            around.pop()
            return
        around.append(frame)
        if len(around) == 1:
            sys.setprofile(None)
            with contextlib.suppress(LookupError):  # of no place: what follows cannot be told
                calls.append(_read_call(*known[frame.f_code], frame.f_locals))
                sys.setprofile(watch)

    sys.setprofile(watch)
    try:
        for _ in recipe.run(sch, **config):
            pass
    except TransformError:
        calls = calls[:-1]
    except Exception as error:
        text = f"{recipe.name} {config}: {type(error).__name__}: {error}"
        raise WrongError("raised", text) from error
    finally:
        sys.setprofile(before)
    return calls


def _read_call(name: str, signature: inspect.Signature, given: dict[str, Any]) -> Call:
    first, *others = signature.parameters.values()
    sch, places, options = given[first.name], list[Any](), dict[str, Any]()
    for each in others:
        value = given[each.name]
        if each.kind is each.KEYWORD_ONLY:
            options[each.name] = value
        elif each.kind is each.VAR_POSITIONAL:
            places += [find_place(sch, it) for it in value]
        else:
            places.append(find_place(sch, value))
    return Call(name, tuple(places), options)


class Play:
    """A schedule of a problem.

    Attributes
    ----------
    calls, modules : those that were done, and the module behind each
    counts : how often each transform was done and refused
    wrong : what a call did that none may, where a player notes it
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sch = Schedule(problem.module)
        self.calls: list[Call] = []
        self.modules: list[tvm.IRModule] = []
        self.counts: Counter[str] = Counter()
        self.wrong: WrongError | None = None

    @property
    def module(self) -> tvm.IRModule:
        return self.sch.mod

    @property
    def all_calls(self) -> list[Call]:
        """Those that were done, and behind them the one that did what none may."""
        own = self.wrong.call if self.wrong else None
        return [*self.calls, *([own] if own else [])]

    def blocks(self) -> list[Block]:
        """All blocks, in program order."""
        return list(list_blocks(self.sch))

    def loops(self, place: Block) -> list[LoopRV]:
        return list(self.sch.get_loops(self.find(place)))

    def node(self, place: Block | Loop) -> Any:
        return self.sch.get(self.find(place))

    def find(self, place: Any) -> Any:
        """The handle of a place; of lists, those of all; other values as they are.

        Raises LookupError where there is none.
        """
        if isinstance(place, Block):
            return list_blocks(self.sch)[place]
        if isinstance(place, Loop):
            return self.loops(place.block)[place.index]
        if isinstance(place, list):
            return [self.find(inner) for inner in place]
        return place

    def call(self, call: Call) -> bool:
        """Whether the call was done; raises `WrongError` for what no refusal may be.

        A primitive may be refused by any error, and one of ours that finds no place by LookupError.
        """
        handles = [self.find(place) for place in call.places]
        before, steps = self.module, len(self.sch.trace.insts)
        try:
            call.run(self.sch, handles)
        except TransformError as error:
            self.counts[f"refused {call.name}"] += 1
            if len(self.sch.trace.insts) != steps or not tvm_ffi.structural_equal(
                before, self.module
            ):
                raise WrongError("changed by a refusal", f"{call}: {error}", call) from error
            return False
        except Exception as error:
            if call.name.startswith(PRIMITIVE):
                return False
            text = f"{call}: {type(error).__name__}: {error}"
            raise WrongError("raised", text, call) from error
        self.counts[f"done {call.name}"] += 1
        self.calls.append(call)
        self.modules.append(self.module)
        return True


def find_kernel(place: Place) -> For | None:
    """The outermost loop around a block that is bound to a GPU's blocks or threads."""
    return next((loop for loop in place.loops if "Idx" in (tir.get_axis(loop) or "")), None)


def find_missing_axes(place: Place) -> dict[str, int]:
    """The thread axes of a block's kernel on which it does not run, of extents above 1.

    An instruction of a warp has the loop over its lanes within.
    """
    within = {tir.get_axis(loop) for loop in tir.find_all(place.block.body, For)}
    idle = {str(tir.get_axis(loop)): loop for loop in find_idle(place, is_last=True)}
    extents = {axis: tir.constant(loop.extent) or 1 for axis, loop in idle.items()}
    return {it: n for it, n in extents.items() if n > 1 and "Idx" in it and it not in within}


def is_finished(module: tvm.IRModule) -> bool:
    """Whether every block of each kernel is spread over all thread axes of that kernel.

    A block that is not yet runs once for each thread, which is no fault of the last transform, and
    none at all where it writes registers: lanes of a quad have each their own copy of their rows.
    """
    places = [it for it in tir.get_places(module["main"].body) if find_kernel(it) is not None]
    return bool(places) and not any(
        find_missing_axes(place)
        for place in places
        if any(region.source.scope() != "local" for region in place.block.writes)
    )


def is_for_threads(module: tvm.IRModule) -> bool:
    """Whether a module can be judged where there are threads: finished, and of owned registers."""
    return is_finished(module) and not check_ownership(module)
