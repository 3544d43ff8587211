"""The Python that makes a step: the lines of its recipe since the step before."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Sequence

from tirstep.lowering_checks import Run
from tirstep.modules import Kernel
from tirstep.programs.program_error import show_path
from tirstep.transforms.recipes import Step

from .model import PythonPart, Text

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def find_python(run: Run) -> list[PythonPart | None]:
    """Of each step of a run; None where there is no file, as for what was typed in.

    Of the input it is the kernel's function, or the class or function of TVMScript of a module. A
    recipe that hands on to another function has the lines of that one.
    """
    parts: list[PythonPart | None] = [_find_kernel(run)]
    for before, step in zip(run.steps, run.steps[1:], strict=False):
        parts.append(_find_step(step, before))
    return parts


def _find_kernel(run: Run) -> PythonPart | None:
    if not isinstance(run.problem.kernel, Kernel):
        return _find_definition_at(run.steps[0])
    factory = inspect.unwrap(run.problem.kernel.factory)
    try:
        path = inspect.getfile(factory)
        lines, first = inspect.getsourcelines(factory)
    except (OSError, TypeError):
        return None
    text = Text(tuple(line.rstrip("\n") for line in lines))
    return PythonPart(show_path(path), factory.__name__, first, first, first + len(lines) - 1, text)


def _find_definition_at(step: Step) -> PythonPart | None:
    """The definition that a step's location names."""
    found = _find_definition(step.path, _read_line(step)) if step.path else None
    if found is None:
        return None
    first, last = found.lineno, found.end_lineno or found.lineno
    lines = linecache.getlines(step.path)[first - 1 : last]
    text = Text(tuple(line.rstrip("\n") for line in lines))
    return PythonPart(show_path(step.path), found.name, first, first, last, text)


def _find_step(step: Step, before: Step) -> PythonPart | None:
    line = _read_line(step)
    function = _find_definition(step.path, line)
    if function is None:
        return None
    first, last = function.lineno, function.end_lineno or line
    earlier = _read_line(before) if before.path == step.path and before.index else 0
    body = function.body[min(1, len(function.body) - 1) if ast.get_docstring(function) else 0]
    start = earlier + 1 if body.lineno <= earlier < line else body.lineno
    lines = [each.rstrip("\n") for each in linecache.getlines(step.path)]
    while start < line and not lines[start - 1].strip():
        start += 1
    text = Text(tuple(lines[first - 1 : last]))
    return PythonPart(show_path(step.path), function.name, first, start, line, text)


def _read_line(step: Step) -> int:
    """The line of a step's location; 0 where that is a place without lines, as a database is."""
    line = step.location.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0


def _find_definition(path: str, line: int) -> Definition | None:
    """The innermost function or class around a line of a file."""
    around = [
        each for each in _list_definitions(path) if each.lineno <= line <= (each.end_lineno or 0)
    ]
    return max(around, key=lambda each: each.lineno, default=None)


@functools.lru_cache(maxsize=64)
def _list_definitions(path: str) -> Sequence[Definition]:
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:  # edited since it was imported
        return ()
    return [node for node in ast.walk(tree) if isinstance(node, Definition)]
