"""A recipe: a generator that transforms a schedule and yields the names of its steps.

It states by step what must hold of the lowering there::

    expects={"decomposed": ("vector_loads == 2", "spills == 0 on sm_90a", SourcePattern("..."))}

The facts' names and their meaning are those of `tirstep.lowering_checks.facts`, which this package
does without.
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import html
import inspect
import itertools
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType, SimpleNamespace
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import tvm
import tvm_ffi
from tvm.s_tir import SBlock, Schedule, ScheduleError
from tvm.s_tir.schedule import SBlockRV, Trace

from tirstep.files import show_path

from ..schedule import (
    TransformError,
    advise,
    describe_error,
    one_change,
    read_arguments,
    show,
    suggest,
)
from ..tir import find_all

Body = Callable[..., Iterator[str]]
Pair = tuple[int, int]
"""Rows and columns."""
_OURS = __name__.rpartition(".")[0]
LONGEST = 60
"""Most characters of a value that is shown."""
Given = ParamSpec("Given")
Made = TypeVar("Made")


# ---- What must hold of a step's lowering, as plain values: whoever lowers it can check them.

RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
UNITS = {"": 1, "B": 1, "KiB": 1024}
_FORM = re.compile(
    r"(?P<fact>[\w.]+) *(?P<relation>[=!<>]=|[<>]) *(?P<value>\d+(\.\d+)?) *(?P<unit>B|KiB)?"
    r"( on (?P<architecture>sm_\w+))?"
)


@dataclass(frozen=True)
class Expect:
    """A fact and what it must be.

    Attributes
    ----------
    fact : its name, such as ``"vector_loads"``, or of an instruction, such as ``"LDG.128"``
    relation : one of `RELATIONS`
    value : in bytes where it is a size
    architecture : for facts of the compiled kernel; None for sm_90a
    """

    fact: str
    relation: str
    value: float
    architecture: str | None = None

    def __str__(self) -> str:
        place = f" on {self.architecture}" if self.architecture else ""
        return f"{self.fact} {self.relation} {self.value:g}{place}"

    def is_met_by(self, value: float) -> bool:
        """Whether a value of the fact is as expected."""
        return RELATIONS[self.relation](value, self.value)


@dataclass(frozen=True)
class SourcePattern:
    """A pattern for the device's source, as FileCheck reads it.

    Attributes
    ----------
    pattern : lines such as ``CHECK: for (int k_0 = 0;``; see LLVM's documentation of FileCheck
    """

    pattern: str

    def __str__(self) -> str:
        lines = [line.strip() for line in self.pattern.strip().splitlines()]
        return lines[0] if len(lines) == 1 else f"{lines[0]} ..."


Expectation = Expect | SourcePattern
Expectations = Mapping[str, tuple[Expectation, ...]]


def parse_expectation(text: str) -> Expect:
    """The expectation of a sentence such as ``shared_bytes <= 48 KiB`` or ``FFMA > 0 on sm_80``."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise TransformError(
            "parse_expectation",
            f"'{text}' is not an expectation",
            f"write FACT, one of {' '.join(RELATIONS)}, a number, and for facts of the "
            "compiled kernel 'on sm_80'",
        )
    value = float(found["value"]) * UNITS[found["unit"] or ""]
    return Expect(found["fact"], found["relation"], value, found["architecture"])


def read_expectations(expects: Mapping[str, Sequence[str | Expectation]] | None) -> Expectations:
    """Expectations by step, sentences among them parsed."""
    made = {
        step: tuple(parse_expectation(it) if isinstance(it, str) else it for it in given)
        for step, given in (expects or {}).items()
    }
    return MappingProxyType(made)


@dataclass(frozen=True)
class Step:
    """A named point in a recipe.

    Attributes
    ----------
    index : 0 for the kernel as it was written, 1 for the first step
    name : ``"input"`` for the kernel, otherwise what the recipe yielded
    module : the module as it stands there
    trace : the schedule's trace up to there; applied to the kernel it makes the module again
    location : ``file:line`` of the recipe where the step ends
    path : of that file, as Python has it; "" where that is not known
    """

    index: int
    name: str
    module: tvm.IRModule
    trace: Trace
    location: str
    path: str = ""

    def _repr_html_(self) -> str:
        title = f"<b>{self.index:02}_{self.name}</b> <i>{html.escape(self.location)}</i>"
        return f"{title}<pre>{html.escape(self.module.script())}</pre>"


@dataclass(frozen=True)
class Example:
    """Sizes at which a recipe runs: the kernel's, its options, and the recipe's own.

    Raises `TransformError` for what has no names.
    """

    shape: Mapping[str, int]
    options: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("shape", "options", "config"):
            if not isinstance(value := getattr(self, name), Mapping):
                problem = f"{name}={show(value)} is not a dict"
                raise TransformError("Example", problem, 'write Example({"n": 64}), say')


@dataclass(frozen=True)
class Recipe:
    """The named steps that take one kernel from its plain form to one schedule.

    ``recipe(sch, **config)`` runs it all; ``recipe.steps(module, **config)`` gives the steps.

    Attributes
    ----------
    name, doc : of the generator function
    kernel : the kernel that it schedules: its name, or itself (whatever has a `name`, see
        `kernel_name`)
    config : its knobs with their defaults
    blocks : the forms of the kernel that it schedules: block names in program order, as "C D"
    default_example : to try it at: shape, options and config, as in its tutorial
    golden : a small example for its golden files, with pairwise different extents
    choices : for a knob, the values worth drawing or searching
    symbolic : the kernel's sizes, each and all of which a module may leave open; the last of
        `tails` it takes then
    expects : what must hold of the lowering of its steps, by name, at those of `default_example`
    dtypes : of the operands that it takes; empty where it takes all of its kernel's
    arch : the oldest architecture with its instructions, as "sm_80", which no CPU has; "" where
        every GPU has them
    base, delta, why : of a rung (see `ladder`), the recipe that it builds on, the knobs that it
        sets there, and the reason in a line; None, nothing and "" of other recipes
    spelling : of a user's own, what names it on the command line, ``FILE.py:NAME``; "" of ours
    """

    name: str
    doc: str
    kernel: Any
    config: Mapping[str, object]
    blocks: tuple[str, ...]
    default_example: Example
    golden: Example
    choices: Mapping[str, tuple[object, ...]]
    symbolic: tuple[str, ...]
    expects: Expectations = field(repr=False)
    body: Body = field(repr=False, compare=False)
    base: str | None = None
    delta: Mapping[str, object] = field(default_factory=dict)
    why: str = ""
    spelling: str = ""
    dtypes: tuple[str, ...] = ()
    arch: str = ""

    @property
    def kernel_name(self) -> str:
        """The name of the kernel that it schedules."""
        return str(getattr(self.kernel, "name", self.kernel))

    @property
    def hints(self) -> Mapping[str, Any]:
        """The types of the knobs, as far as they have some."""
        return read_hints(self.body)

    @property
    def words(self) -> Mapping[str, tuple[object, ...]]:
        """The knobs that take one of a few words, and these."""
        hints = self.hints.items()
        return {name: get_args(it) for name, it in hints if get_origin(it) is Literal}

    @property
    def tails(self) -> tuple[str, ...]:
        """Its choices of tail; empty if no size has to divide."""
        return tuple(map(str, self.words.get("tail", ())))

    def has_pairs(self, name: str) -> bool:
        """Whether a knob takes rows and columns."""
        hint = self.hints.get(name)
        return Pair in (hint, *get_args(hint))

    def explain_wrong(self, name: str, value: object, least: int = 1) -> str:
        """What a knob takes instead of a value that it cannot have; "" where it can."""
        hint = self.hints.get(name, type(self.config[name]))
        if value is None and NoneType in (hint, *get_args(hint)):
            return ""
        if name in self.words:
            return "" if value in self.words[name] else f"{' or '.join(map(str, self.words[name]))}"
        if self.has_pairs(name):
            return "" if is_pair(value, least) else f"rows and columns, as {name}=4,8"
        if hint is bool:
            return "" if isinstance(value, bool) else "true or false"
        is_right = hint is str or (type(value) is int and value >= least)
        return "" if is_right else f"an integer >= {least}"

    def _start(self, sch: Schedule, config: Mapping[str, object]) -> Iterator[str]:
        return self.body(sch, **config)

    def __call__(self, sch: Schedule, **config: object) -> Schedule:
        """Run all steps on a schedule and return it."""
        self._run_whole(sch, config)
        return sch

    def steps(self, module: tvm.IRModule, **config: object) -> list[Step]:
        """The steps on a fresh schedule of a module, the module itself as step 0."""
        sch = Schedule(module)
        path = inspect.getfile(self.body)
        first = Step(0, "input", module, _copy_trace(sch), self._line(), path)
        return [first, *self._run_whole(sch, config)]

    def _run_whole(self, sch: Schedule, config: Mapping[str, object]) -> list[Step]:
        """All steps. In a recipe of ours the guard is asked at the end, of all of them at once."""
        if not self._is_ours:
            return [*self.run(sch, **config)]
        steps, counts = list[Step](), list[int]()
        try:
            with one_change(sch, name=self.name) as changes:
                for step in self.run(sch, **config):
                    steps.append(step)
                    counts.append(len(changes))
        except TransformError as error:
            if error.recipe is None:  # what the guard found, and at which change
                at = len(steps) if error.place is None else bisect.bisect(counts, error.place)
                names = ["input", *(step.name for step in steps)]
                lines = [*(step.location for step in steps), self._line()]
                error.recipe, error.step, error.line = self.name, names[at], lines[at]
            raise
        return steps

    def run(self, sch: Schedule, **config: object) -> Iterator[Step]:
        """Run step by step on a schedule; a `TransformError` says after which step it came."""
        try:
            self.require_config(config)
            self._require_blocks(sch)
            yield from self._run(sch, self._start(sch, config))
        except TransformError as error:
            words = self.words
            error.knobs = {name: tuple(map(str, words.get(name, ()))) for name in self.config}
            raise

    def _run(self, sch: Schedule, generator: Any) -> Iterator[Step]:
        last, names, module, code = "input", {"input"}, sch.mod, self.body.__code__
        for index in range(1, 1000):
            try:
                with one_change(sch, name=self.name) if self._is_ours else contextlib.nullcontext():
                    name = next(generator, None)
            except (TransformError, ScheduleError) as raised:
                refusal = raised
                if isinstance(raised, ScheduleError):
                    if not self._is_ours:
                        raise
                    reason = describe_error(raised)  # of one of TVM's own primitives
                    refusal = TransformError(self.name, f"TVM refuses: {reason}", advise(reason))
                # In the body, or at the yield behind a step that is not whole.
                traceback, frame = raised.__traceback__, getattr(generator, "gi_frame", None)
                line = code.co_firstlineno if frame is None else frame.f_lineno
                while traceback is not None:
                    line = traceback.tb_lineno if traceback.tb_frame.f_code is code else line
                    traceback = traceback.tb_next
                refusal.recipe = refusal.recipe or self.name
                refusal.step = refusal.step or last
                refusal.line = refusal.line or f"{show_path(inspect.getfile(self.body))}:{line}"
                if refusal is raised:
                    raise
                raise refusal from raised
            if name is None:
                if index == 1:
                    advice = "yield a name after each change that should be a step"
                    raise TransformError(self.name, f"{self._line()} yields no step", advice)
                if not (sch.mod.same_as(module) or tvm_ffi.structural_equal(sch.mod, module)):
                    problem = f"{self._line()} changes the schedule after its last step '{last}'"
                    raise TransformError(self.name, problem, "yield a name at its end, too")
                return
            inner = generator
            while inspect.isgenerator(inner.gi_yieldfrom):
                inner = inner.gi_yieldfrom
            path = inner.gi_code.co_filename
            location = f"{show_path(path)}:{inner.gi_frame.f_lineno}"
            # A step is found by its name, and has a golden of its own.
            if not isinstance(name, str) or not name.isidentifier() or name in names:
                shown, new = repr(name), "tiled"
                shown = shown if len(shown) <= LONGEST else f"a value of type {type(name).__name__}"
                problem = f"{location} yields {shown}, which cannot name a step"
                if isinstance(name, str) and name in names:
                    problem = f"{location} yields '{name}', and an earlier step has that name"
                    tried = (f"{name}_{count}" for count in itertools.count(2))
                    new = next(it for it in tried if it not in names)
                form = "letters, digits and _, no digit first"
                advice = f"yield a new name for each step ({form}), as '{new}'"
                raise TransformError(self.name, problem, advice)
            names.add(name)
            module, last = sch.mod, name
            yield Step(index, name, module, _copy_trace(sch), location, path)

    @property
    def _is_ours(self) -> bool:
        """Whether its steps are tirstep's: of others, a refusal may be caught at its transform."""
        return str(getattr(self.body, "__module__", "")).startswith(_OURS)

    def _line(self) -> str:
        return f"{show_path(inspect.getfile(self.body))}:{self.body.__code__.co_firstlineno}"

    def require_config(self, config: Mapping[str, object]) -> None:
        """Refuse knobs that this does not have, and words that they do not take."""
        for name in config:
            if name not in self.config:
                hint = suggest(name, self.config, f"it has {', '.join(self.config)}")
                raise TransformError(self.name, f"there is no knob '{name}'", hint)
        for name, known in self.words.items():
            if name in config and config[name] not in known:
                hint = " or ".join(f'"{word}"' for word in known)
                raise TransformError(
                    self.name, f"{name}={config[name]!r} is unknown", f"use {hint}"
                )

    def _require_blocks(self, sch: Schedule) -> None:
        names = " ".join(_name_sblocks(sch))
        if names not in self.blocks:
            accepted = " or ".join(f"'{form}'" for form in self.blocks)
            where = f", {self._line()}," if self.spelling else ""
            advice = f"run it on the kernel '{self.kernel_name}' in a form that has these blocks"
            if names == " ".join(self.blocks):
                advice = f'write blocks=("{names}",): a string for each form of the kernel'
            raise TransformError(
                self.name,
                f"the module has the blocks '{names}', and this recipe{where} schedules {accepted}",
                advice,
            )


def _explain_calls(declare: Callable[Given, Made]) -> Callable[Given, Made]:
    """`recipe` with a sentence where its arguments do not fit, in place of Python's `TypeError`."""

    @functools.wraps(declare)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        for body in filter(callable, args):
            raise TransformError(
                "recipe",
                f"it decorates '{getattr(body, '__name__', body)}' without a kernel",
                "write @recipe(kernel=..., blocks=..., default_example=..., golden=...)",
            )
        read_arguments(declare, args, kwargs)
        return declare(*args, **kwargs)

    return call


@_explain_calls
def recipe(
    *,
    kernel: Any,
    blocks: tuple[str, ...],
    default_example: Example,
    golden: Example,
    choices: Mapping[str, tuple[object, ...]] | None = None,
    symbolic: tuple[str, ...] = (),
    expects: Mapping[str, Sequence[str | Expectation]] | None = None,
    dtypes: tuple[str, ...] = (),
    arch: str = "",
) -> Callable[[Body], Recipe]:
    """Make a `Recipe` of a generator function ``body(sch, *, **config)`` that yields step names.

    A name is yielded when its step is done. `expects` is by step, see the head of this file. Raises
    `TransformError` for arguments that do not fit, as `blocks` that are no tuple: ``("B")`` is the
    text ``"B"``.
    """
    if isinstance(blocks, str) or not all(isinstance(form, str) for form in blocks):
        raise TransformError(
            "recipe",
            f"blocks={blocks!r} is not a tuple of strings",
            f"write blocks=({blocks!r},), with a comma"
            if isinstance(blocks, str)
            else 'write blocks=("C D",), a string of block names for each form of the kernel',
        )
    examples = {"default_example": default_example, "golden": golden}
    if not isinstance(kernel, str) and not (hasattr(kernel, "name") and hasattr(kernel, "problem")):
        advice = 'give its name, as "matmul", or a function under @kernel'
        raise TransformError("recipe", f"kernel={show(kernel)} is not a kernel", advice)
    known = getattr(kernel, "size_names", None)
    for name in symbolic:
        if known is not None and name not in known:
            problem = f"symbolic has '{name}', which is not a size of '{kernel.name}'"
            raise TransformError("recipe", problem, f"it has {', '.join(known)}")

    for name, example in examples.items():
        if known is not None and set(example.shape) != set(known):
            given = ", ".join(example.shape) or "none"
            problem = f"the sizes of {name} are {given}, and those of '{kernel.name}' are "
            sizes = ", ".join(f'"{size}": 64' for size in known)
            advice = f"write Example({{{sizes}}}), say"
            raise TransformError("recipe", problem + (", ".join(known) or "none"), advice)
    if arch and not re.fullmatch(r"sm_\d+[af]?", arch):
        raise TransformError("recipe", f"arch={arch!r} is not an architecture", 'write "sm_80"')

    def make(body: Body) -> Recipe:
        # The knobs of a recipe: what its function takes behind the schedule.
        taken = list(inspect.signature(body).parameters.values())
        rest = [it for it in taken if it.kind in (it.VAR_POSITIONAL, it.VAR_KEYWORD)]
        if rest or not taken or taken[0].kind is inspect.Parameter.KEYWORD_ONLY:
            what = f"takes {rest[0]}" if rest else "takes no schedule"
            how = "name what it takes, as (sch, *, threads=64)"
            raise TransformError("recipe", f"'{body.__name__}' {what}", how)
        parameters = taken[1:]
        name = body.__name__
        if not inspect.isgeneratorfunction(body):
            advice = "yield a name after each change that should be a step, as 'tiled'"
            raise TransformError("recipe", f"'{name}' never yields", advice)
        for parameter in parameters:
            if parameter.default is parameter.empty:
                raise TransformError(
                    "recipe",
                    f"the knob '{parameter.name}' of '{name}' has no default",
                    f"give it one, {parameter.name}=8, say",
                )
        sizes = [it.name for it in parameters]
        for size, values in (choices or {}).items():
            if size not in sizes:
                hint = suggest(size, sizes, f"it has {', '.join(sizes) or 'none'}")
                raise TransformError("recipe", f"'{name}' has no knob '{size}' to choose", hint)
            if not isinstance(values, (tuple, list, range)):
                problem = f"the choices of '{size}' are {show(values)}, which is not a tuple"
                raise TransformError("recipe", problem, f"write {size!r}: (32, 64), say")
        for which, example in examples.items():
            for size in example.config:
                if size not in sizes:
                    hint = suggest(size, sizes, f"it has {', '.join(sizes)}")
                    problem = f"the config of {which} has '{size}', and '{name}' no such knob"
                    raise TransformError("recipe", problem, hint if sizes else "leave it out")
        return Recipe(
            name=name,
            doc=inspect.getdoc(body) or "",
            kernel=kernel,
            config={parameter.name: parameter.default for parameter in parameters},
            blocks=blocks,
            default_example=default_example,
            golden=golden,
            choices=choices or {},
            symbolic=symbolic,
            expects=read_expectations(expects),
            dtypes=dtypes,
            arch=arch,
            body=body,
        )

    return make


def is_pair(value: object, least: int | None) -> bool:
    """Whether something is two integers, each no less than the least one, if there is one."""
    if not (isinstance(value, list | tuple) and len(value) == 2):
        return False
    return all(type(it) is int and (least is None or it >= least) for it in value)


@functools.cache
def read_hints(annotated: Any) -> Mapping[str, object]:
    """The types of parameters or fields; without those whose names are there for type checkers
    alone, under ``if TYPE_CHECKING:``.
    """
    with contextlib.suppress(NameError, AttributeError):
        return get_type_hints(annotated)
    hints: dict[str, object] = {}
    known = getattr(annotated, "__globals__", None) or vars(sys.modules[annotated.__module__])
    for name, hint in annotated.__annotations__.items():
        with contextlib.suppress(NameError, AttributeError):
            hints |= get_type_hints(SimpleNamespace(__annotations__={name: hint}), known)
    return hints


def get_sblocks(sch: Schedule) -> list[SBlockRV]:
    """The sblocks of a kernel in program order, for schedules of several kernels."""
    return [sch.get_sblock(name) for name in _name_sblocks(sch)]


def _name_sblocks(sch: Schedule) -> list[str]:
    nodes = find_all(sch.mod[sch.func_working_on].body, SBlock)
    return [str(node.name_hint) for node in nodes if node.name_hint != "root"]


def _copy_trace(sch: Schedule) -> Trace:
    """The schedule's own trace grows with it, so a step keeps a copy."""
    return Trace(list(sch.trace.insts), dict(sch.trace.decisions))
