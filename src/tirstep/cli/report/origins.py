"""Where the lines of a step come from: those of its TIR from its recipe's Python, and those of its
device source from its TIR.

Of the source two things are asked, and nothing is guessed. TVM keeps the span of a store through
its passes, so before the lowering every store gets one that holds its line; a loop is the one of
its name around the same stores, and a buffer the one of its name. The source is generated a second
time with a mark in front of each statement: where it differs from the first in more than the marks,
nothing is linked.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import SourceName, Span
from tvm.tirx import AllocBuffer, Bind, BufferStore, Evaluate, For, IfThenElse, SeqStmt
from tvm_ffi import structural_map

from tirstep.files import show_path
from tirstep.lowering_checks import Run
from tirstep.lowering_checks.compile.passes import Lowering
from tirstep.modules import Kernel
from tirstep.transforms.recipes import Step
from tirstep.transforms.tir import find_all, find_location

from .document import Keys, Text

ORIGIN = "tirstep: a line of the step"
TAG = "tirstep-store-"
MARK = "TIRSTEP_STATEMENT"
_TAGGED = re.compile(rf"  # {TAG}(\d+)$")
_MARKED = re.compile(rf"^\s*{MARK}\((\d+)\);$")
_LOOP = re.compile(r"^\s*for ([\w, ]+) in ")
_ALLOCATION = re.compile(r"^\s*(\w+) = T\.\w*alloc_buffer\(")
_BRACE = re.compile(r"^\s*[{}]?\s*$")


StepLines = tuple[Sequence[tuple[Any, int, frozenset[int]]], Mapping[str, int]]
"""Where statements stand in the printed TIR of a step, in lines from 1: of each loop its variable,
its line, and the lines of the stores in it; and of each buffer the line that allocates it, if it is
a single one."""


def note_lines(module: tvm.IRModule) -> tuple[tvm.IRModule, StepLines]:
    """The module with the line of each store in its span, which changes nothing of the program."""
    stores = [store for _, each in module.functions_items() for store in _find(each, BufferStore)]
    numbers = {store: number for number, store in enumerate(stores)}
    tagged = module.script(obj_to_annotate={each: f"{TAG}{n}" for each, n in numbers.items()})
    lines = tagged.strip("\n").splitlines()
    places = {
        int(found[1]): line
        for line, text in enumerate(lines, 1)
        if (found := _TAGGED.search(text)) is not None
    }
    origin = SourceName(ORIGIN)

    def note(store: Any) -> Any:
        line = places.get(numbers.get(store, -1), 0)
        return BufferStore(
            store.buffer, store.value, store.indices, span=Span(origin, line, line, 0, 0)
        )

    noted = tvm.IRModule(
        {
            name.name_hint: structural_map(function, (BufferStore, note))
            for name, function in module.functions_items()
        }
    )
    noted = noted.with_attrs(module.attrs) if module.attrs else noted
    if not tvm_ffi.structural_equal(noted, module):
        return module, ((), {})
    # Loops are printed in the order of the tree, several in a line as ``for i, j in T.grid``.
    printed = [
        (name, line)
        for line, text in enumerate(lines, 1)
        if (found := _LOOP.match(text)) is not None
        for name in found[1].split(", ")
    ]
    loops = [loop for _, each in noted.functions_items() for loop in _find(each, For)]
    is_known = len(loops) == len(printed) and all(
        name.startswith(str(loop.loop_var.name))
        for loop, (name, _) in zip(loops, printed, strict=True)
    )
    nests = [
        (loop.loop_var, line, get_lines_within(loop))
        for loop, (_, line) in zip(loops, printed if is_known else (), strict=False)
    ]
    made = [(it[1], at) for at, text in enumerate(lines, 1) if (it := _ALLOCATION.match(text))]
    names = [name for name, _ in made]
    return noted, (nests, {name: at for name, at in made if names.count(name) == 1})


def _find(function: Any, kind: type) -> list[Any]:
    return find_all(function.body, kind) if hasattr(function, "body") else []


def get_lines_within(statement: Any) -> frozenset[int]:
    """The lines of the step whose stores a statement has."""
    lines = (get_line(store) for store in find_all(statement, BufferStore))
    return frozenset(line for line in lines if line)


def get_line(statement: Any) -> int:
    """The line of the step that a store's span holds; 0 without one."""
    file, line = find_location(statement) or ("", 0)
    return line if file == ORIGIN else 0


def link_source(lowering: Lowering, lines: StepLines) -> tuple[int, ...]:
    """For each line of the device source the line of the step's TIR, or 0; empty if not known.

    Empty lines around the source do not count.
    """
    # What TVM's code generator for the device was given, and the target.
    for each in reversed(lowering.passes):
        module = each.module
        targets = [function.attrs.get("target") for _, function in module.functions_items()]
        kinds = {str(target.kind.name) for target in targets if target is not None}
        if targets and None not in targets and kinds == {lowering.language}:
            break
    else:
        return ()
    target = targets[0]
    statements: list[Any] = []
    marked = tvm.IRModule(
        {
            name: structural_map(function, _make_marker(statements))
            for name, function in module.functions_items()
        },
        attrs=module.attrs,
    )
    build = tvm.get_global_func(f"target.build.{target.kind.name}")
    places: list[int] = []
    for statement in statements:
        place = 0
        if isinstance(statement, BufferStore):
            place = get_line(statement)
        elif isinstance(statement, AllocBuffer):
            place = lines[1].get(str(statement.buffer.name), 0)
        elif isinstance(statement, For):
            within, variable = get_lines_within(statement), statement.loop_var
            around = [it for it in lines[0] if within and within <= it[2]]
            same = [line for other, line, _ in around if other.same_as(variable)]
            named = [line for other, line, _ in around if str(other.name) == str(variable.name)]
            found = set(same or named)
            place = found.pop() if len(found) == 1 else 0
        places.append(place)
    # A line belongs to the mark before it, unless it only opens or closes a block.
    plain, links, place = list[str](), list[int](), 0
    for text in str(build(marked, target).inspect_source()).splitlines():
        if (mark := _MARKED.match(text)) is not None:
            place = places[int(mark[1])]
            continue
        if text.endswith("{") and "__global__" in text:
            place = 0
        plain.append(text)
        links.append(0 if _BRACE.match(text) else place)
    source = lowering.source
    if plain != source.splitlines():
        return ()
    first = len(source) - len(source.lstrip("\n"))
    return tuple(links[first:][: len(source.strip("\n").splitlines())])


def _make_marker(statements: list[Any]) -> list[Any]:
    """Callbacks that put a mark in front of each statement, and note the statement."""

    def mark(statement: Any) -> Any:
        statements.append(statement)
        call = tvm.tirx.call_extern("int32", MARK, len(statements) - 1)
        return SeqStmt([Evaluate(call), statement])

    def flatten(sequence: Any) -> Any:
        parts: list[Any] = []
        for part in sequence.seq:
            parts.extend(part.seq if isinstance(part, SeqStmt) else [part])
        return SeqStmt(parts)

    kinds = (BufferStore, Evaluate, For, IfThenElse, AllocBuffer, Bind)
    return [*((kind, mark) for kind in kinds), (SeqStmt, flatten)]


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def find_python(run: Run) -> list[Keys | None]:
    """Of each step of a run; None where there is no file, as for what was typed in.

    The text is that of the function that makes the step: its `path`, its name, the `first` line of
    its file, and the lines of that file at which the step has its `start` and `stop`. Of the input
    it is the kernel's function, or the class or function of TVMScript of a module. A recipe that
    hands on to another function has the lines of that one.
    """

    def tell(path: str, name: str, first: int, rows: Sequence[str], *own: int) -> Keys:
        start, stop = own or (first, first + len(rows) - 1)
        text, about = Text(tuple(row.rstrip("\n") for row in rows)), {"start": start, "stop": stop}
        return {"path": show_path(path), "function": name, "first": first, **about, "text": text}

    parts: list[Keys | None] = []
    if not isinstance(run.problem.kernel, Kernel):  # the definition that its location names
        step = run.steps[0]
        known = _find_definition(step.path, _read_line(step)) if step.path else None
        if known is not None:
            first, last = known.lineno, known.end_lineno or known.lineno
            rows = linecache.getlines(step.path)[first - 1 : last]
            parts.append(tell(step.path, known.name, first, rows))
    else:
        factory = inspect.unwrap(run.problem.kernel.factory)
        with contextlib.suppress(OSError, TypeError):
            path, (rows, first) = inspect.getfile(factory), inspect.getsourcelines(factory)
            parts.append(tell(path, factory.__name__, first, rows))
    parts = parts or [None]
    for before, step in zip(run.steps, run.steps[1:], strict=False):
        line = _read_line(step)
        function = _find_definition(step.path, line)
        if function is None:
            parts.append(None)
            continue
        first, last = function.lineno, function.end_lineno or line
        earlier = _read_line(before) if before.path == step.path and before.index else 0
        body = function.body[min(1, len(function.body) - 1) if ast.get_docstring(function) else 0]
        start = earlier + 1 if body.lineno <= earlier < line else body.lineno
        lines = linecache.getlines(step.path)
        while start < line and not lines[start - 1].strip():
            start += 1
        parts.append(tell(step.path, function.name, first, lines[first - 1 : last], start, line))
    return parts


def _read_line(step: Step) -> int:
    """The line of a step's location; 0 where that is a place without lines, as a database is."""
    line = step.location.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def _find_definition(path: str, line: int) -> Definition | None:
    """The innermost function or class around a line of a file."""
    try:
        nodes = [*ast.walk(ast.parse("".join(linecache.getlines(path))))]
    except SyntaxError:  # edited since it was imported
        return None
    known = [each for each in nodes if isinstance(each, Definition)]
    around = [each for each in known if each.lineno <= line <= (each.end_lineno or 0)]
    return max(around, key=lambda each: each.lineno, default=None)
