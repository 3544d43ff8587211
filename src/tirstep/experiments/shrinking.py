"""Makes a program small that shows something: greedily, one reduction after the other; and writes a
script that shows that a change makes it wrong.

Reductions are edits of TVMScript's text, through Python's own syntax tree, coarse ones first: each
gives fields of nodes other values. Most edits make no program, or one that means something else:
what counts is whether the smaller one still shows what the larger one showed.
"""

from __future__ import annotations

import ast
import copy
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tirstep.files import write_file
from tirstep.lowering_checks.bisect.reproducer import (
    FIRST_LINE,
    quote,
    require_ours,
    run_reproducer,
)
from tirstep.printing import silenced_stderr
from tirstep.strategies.drawn_programs import parse_program

from .editing import is_of_ours
from .trying import Experiment, ModuleOracle, Subject, Trial, make_subject, try_change

LIKE_CHOICES = ("Select", "if_then_else")
SIMPLER_TYPES = ("float32", "int32")
TYPES = ("bfloat16", "float16", "float64", "int8", "int16", "int64", "float32", "int32", "bool")
DECLARATIONS = ("T.reads(", "T.writes(", "T.where(", "T.sblock_attr(")
LOOPS = ("range", "grid", "thread_binding", "unroll", "vectorized", "parallel")
UNTOUCHED = ("func", "target", "targets", "annotation", "optional_vars")
NOTHING = "T.evaluate(0)"
Edit = list[tuple[Any, str, Any]]
"""Nodes with a field of each, and the value that it gets."""
Reduction = Callable[[ast.Module], Iterator[Edit]]
Fields = Sequence[tuple[type, str]]
"""Kinds of nodes, each with a field that has a list."""
STATEMENTS: Fields = ((ast.stmt, "body"), (ast.stmt, "orelse"))


def parse_script(text: str) -> ast.Module:
    """The tree of a script with one function, without its module's class."""
    tree = ast.parse(text)
    tree.body = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return tree


def print_script(tree: ast.Module) -> str:
    """The text of a tree, as TVM parses it."""
    return f"# from tvm.script import tirx as T\n{ast.unparse(ast.fix_missing_locations(tree))}\n"


def _find_lists(tree: ast.AST, fields: Fields) -> list[tuple[Any, str, list[Any]]]:
    """Those of some fields, in a fixed order: node, field and list."""
    return [
        (node, name, items)
        for node in ast.walk(tree)
        for kind, name in fields
        if isinstance(node, kind) and (items := getattr(node, name, []))
    ]


def _drop(tree: ast.Module, *, fields: Fields) -> Iterator[Edit]:
    """What stands together in a list: all of it, then half of it, then each alone."""
    for node, name, items in _find_lists(tree, fields):
        size = len(items)
        while size:
            for start in range(0, len(items), size):
                kept = items[:start] + items[start + size :]
                if name == "body" and not kept:
                    kept = ast.parse(NOTHING).body
                if [*map(ast.unparse, kept)] != [*map(ast.unparse, items)]:
                    yield [(node, name, kept)]
            size //= 2


def _unwrap(tree: ast.Module) -> Iterator[Edit]:
    """A loop, branch or block without what is around its body, and a let in its places.

    A loop's variables are 0, and the axes of a block their bindings.
    """
    bodies = _find_lists(tree, STATEMENTS)
    places = [(*each, place) for each in bodies for place in range(len(each[2]))]
    for node, name, body, place in places:
        values: dict[str, Any] = {}
        insides, rest = list[list[ast.stmt]](), body[place + 1 :]
        match body[place]:
            case ast.For(target=target, body=inside):
                names = [it.id for it in ast.walk(target) if isinstance(it, ast.Name)]
                values, insides = dict.fromkeys(names, ast.Constant(0)), [inside]
            case ast.If(body=inside, orelse=other):
                insides = [inside, other] if other else [inside]
            case ast.With(body=inside):
                axes: list[Any] = [
                    it for it in inside if ".axis." in ast.unparse(it).partition("(")[0]
                ]
                for axis in axes:
                    target, bound = axis.targets[0], axis.value.args[-1]
                    left, right = (getattr(it, "elts", [it]) for it in (target, bound))
                    values |= {it.id: to for it, to in zip(left, right, strict=False)}
                own = [it for it in inside if not ast.unparse(it).startswith(DECLARATIONS)]
                insides = [[it for it in own if it not in axes]]
            case ast.AnnAssign(target=ast.Name(id=let), value=ast.expr() as value):
                # Of a register TVM prints the type alone.
                values, insides, rest = {let: value}, [rest], []
        for inside in insides:
            yield [(node, name, body[:place] + [_substitute(it, values) for it in inside] + rest)]


def _substitute(node: Any, values: dict[str, Any]) -> Any:
    class Substitution(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> Any:
            is_known = isinstance(name.ctx, ast.Load) and name.id in values
            return copy.deepcopy(values[name.id]) if is_known else name

    return Substitution().visit(copy.deepcopy(node))


def _change_values(tree: ast.Module, *, is_everywhere: bool) -> Iterator[Edit]:
    """A smaller number in one place, or, above 1, in all: an extent and its loops; and a simpler
    type in all places of another one.
    """
    fields = {ast.Constant: "value", ast.Attribute: "attr"}
    places: dict[tuple[type, Any], list[tuple[Any, str]]] = {}
    for node in ast.walk(tree):
        if field := fields.get(type(node)):
            value = getattr(node, field)
            if value in TYPES or type(value) in (int, float):
                places.setdefault((type(value), value), []).append((node, field))
    largest = sorted(places, key=lambda it: it[1] if it[0] is not str else 0, reverse=True)
    for kind, value in largest:
        if kind is str:
            tried: list[Any] = [it for it in SIMPLER_TYPES if it != value] * is_everywhere
        else:
            number = int(value)
            tried = (
                [1, 2, 4, number // 2, number - 1] if number > 1 else [0] if number == 1 else [1]
            )
            tried = [it for it in dict.fromkeys(tried) if 0 <= it < max(2, number) and it != value]
            tried = [kind(it) for it in tried if not is_everywhere or value > 1]
        together = [places[kind, value]] if is_everywhere else [[it] for it in places[kind, value]]
        for each in together:
            yield from ([(*place, simpler) for place in each] for simpler in tried)


def _simplify_expressions(tree: ast.Module) -> Iterator[Edit]:
    """An operand in the place of an operation, and 0 in the place of an index."""
    # Each place of an expression: its parent, the field, and the place in a list.
    places: list[tuple[Any, str, int | None]] = []
    for holder in ast.walk(tree):
        for name, value in ast.iter_fields(holder):
            if isinstance(holder, ast.FunctionDef | ast.arg) or name in UNTOUCHED:
                continue
            several = enumerate(value) if isinstance(value, list) else [(None, value)]
            places += [(holder, name, at) for at, each in several if isinstance(each, ast.expr)]
    for parent, name, place in places:
        value = getattr(parent, name)
        node = value if place is None else value[place]
        simpler: list[ast.expr] = []
        match node:
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp():
                simpler = [it for it in ast.iter_child_nodes(node) if isinstance(it, ast.expr)]
            case ast.Call(func=ast.Attribute(attr=called), args=given) if called not in LOOPS:
                is_choice = called in LIKE_CHOICES
                simpler = [it for it in given if is_choice or not isinstance(it, ast.Constant)]
        is_index = isinstance(parent, ast.Subscript) and name == "slice"
        if (is_index or isinstance(parent, ast.Tuple)) and not isinstance(node, ast.Constant):
            simpler.append(ast.Constant(0))
        for each in simpler:
            whole = each if place is None else [*value[:place], each, *value[place + 1 :]]
            yield [(parent, name, whole)]


REDUCTIONS: tuple[Reduction, ...] = (
    partial(_drop, fields=STATEMENTS),
    partial(_change_values, is_everywhere=True),
    _unwrap,
    partial(_drop, fields=[(ast.arguments, "args")]),
    _simplify_expressions,
    partial(_change_values, is_everywhere=False),
    partial(_drop, fields=[(ast.Call, "keywords")]),
)
"""The largest steps come first."""


SECONDS = 60.0
"""Seconds of CPU time."""


@dataclass(frozen=True)
class Shrunk:
    """A program that was made small: TVMScript of one function, after so many tried reductions.

    `trial` is of that program.
    """

    text: str
    trial: Trial
    tried: int

    @property
    def lines(self) -> int:
        """The lines of the text, without comments and empty ones."""
        lines = [line.lstrip() for line in self.text.splitlines()]
        return sum(bool(line) and not line.startswith("#") for line in lines)


def shrink_trial(
    experiment: Experiment,
    trial: Trial,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    devices: Sequence[str] = (),
) -> Shrunk | None:
    """The smallest program found that a change makes wrong as it does the module of a trial, its
    reference being itself. `devices` run it besides the interpreter.

    None where that shows it only against its kernel's own reference.
    """

    def try_text(candidate: str) -> Trial | None:
        """None where it is no program, too: one that was cut down may be anything."""
        try:
            with silenced_stderr():
                made = make_subject("the shrunk program", parse_program(candidate), seed)
            assert isinstance(made.oracle, ModuleOracle)
            _ = made.oracle.arguments, made.oracle.expected
            found = try_change(experiment, made, devices=devices)
        except Exception:
            return None
        return found if (found.status, found.what) == (trial.status, trial.what) else None

    end = time.process_time() + seconds
    text = str(trial.subject.module.script())
    if not is_of_ours(experiment.edit):  # TVM alone does not know tirstep's
        text = re.sub(r'"tir_pipeline": "\w+"(, )?', "", text)
    for name in re.findall(r"(\w+): T\.Buffer\(\(1,\)", text):  # its element is printed as its name
        text = re.sub(rf"(?<![.\"'])\b{name}\b(?![\[.:\"'])", f"{name}[0]", text)
    text = print_script(parse_script(text))
    small = try_text(text)
    if small is None:
        return None
    seen = {text}
    before, last = "", text
    while before != last and time.process_time() < end:
        before = last
        for reduction in REDUCTIONS:
            place: int | None = 0
            while place is not None:
                tree, begin, place = parse_script(last), place, None
                for at, edit in enumerate(reduction(tree)):
                    if time.process_time() > end:
                        return Shrunk(last, small, len(seen) - 1)
                    if at < begin:
                        continue
                    before_it = [getattr(node, name) for node, name, _ in edit]
                    for node, name, value in edit:
                        setattr(node, name, value)
                    candidate = print_script(tree)
                    for (node, name, _), value in zip(edit, before_it, strict=True):
                        setattr(node, name, value)
                    if candidate in seen:
                        continue
                    seen.add(candidate)
                    if (made := try_text(candidate)) is not None:
                        small, last, place = made, candidate, at
                        break
    return Shrunk(last, small, len(seen) - 1)


RUN_SECONDS = 120.0
"""What the script may take."""
require_place = partial(require_ours, command="pass", advice="give --script another name")
"""Raises, before the work, what writing a script would raise after it."""
SCRIPT = '''{first_line}
"""{title}: {status}.

{reason}

Reduced from {label} to {lines} lines. It exits with 1 if this shows, and with 0 otherwise.
"""

import sys

from tirstep.experiments import show_counterexample

{program}
sys.exit(show_counterexample(PROGRAM, {place!r}, {anchor!r}, {spec!r}, {options}))
'''


@dataclass(frozen=True)
class Counterexample:
    """A small program that the change makes wrong, and its script.

    Attributes
    ----------
    label : of the module that it was shrunk from
    is_shown : the script was run, and failed as it must
    last_line : what it printed in the end
    """

    label: str
    shrunk: Shrunk
    path: Path
    is_shown: bool
    last_line: str


def find_counterexample(
    experiment: Experiment,
    subjects: Iterable[Subject],
    path: Path,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    devices: Sequence[str] = (),
) -> Counterexample | None:
    """Shrink the first of some modules that shows it by itself, and write and run its script.

    `devices` run them besides the interpreter. None where none can be shrunk. Raises
    `CheckError` where a file is in the way.
    """
    for subject in subjects:
        trial = try_change(experiment, subject, devices=devices)
        shown_by = [it.device for it in trial.verdicts if it.after][:1]
        needed = [name for name in devices if name in shown_by]
        shrunk = shrink_trial(experiment, trial, seed=seed, seconds=seconds, devices=needed)
        if shrunk is not None:
            require_place(path)
            named = [
                re.sub(r"^.*\.py(?=:)", lambda place: str(Path(place[0]).resolve()), text)
                for text in experiment.named[1:]
            ]
            script = SCRIPT.format(
                first_line=FIRST_LINE.format("pass"),
                title=experiment.title,
                status=shrunk.trial.status,
                reason=shrunk.trial.reason.replace("\\", "/").replace('"""', "'''"),
                label=subject.label,
                lines=shrunk.lines,
                program=quote("PROGRAM", shrunk.text),
                place=experiment.named[0],
                anchor=named[0],
                spec=named[1],
                options=f"seed={seed}" + f", devices={needed}" * bool(needed),
            )
            before = script.partition("\nPROGRAM = ")[0].count("\n") + 2
            write_file(path, script.replace(f"seed={seed}", f"before={before}, seed={seed}"))
            shown = run_reproducer(path, seconds=RUN_SECONDS)
            return Counterexample(subject.label, shrunk, path, shown.is_shown, shown.text)
    return None
