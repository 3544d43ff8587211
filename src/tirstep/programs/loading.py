"""Loads what stands in a place: a file of Python is run, as an import would run it; a script as TVM
prints it is parsed and not run, and JSON is read.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.util
import re
import sys
import tokenize
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tirstep.files import show_path
from tirstep.printing import printing_beside
from tirstep.tracing import is_trace

from .naming import (
    STDIN,
    ProgramError,
    Spelling,
    describe_error,
    explain_spelling,
    find_line,
    find_own_file,
    watch_file,
)

KNOWN_FILES = "a .py file, TVM's JSON of a module, or a folder of MetaSchedule's or of a trace"


@dataclass(frozen=True)
class Loaded:
    """The contents of a place.

    Attributes
    ----------
    values : everything by name, in its order
    lines : where these names are defined, as far as that is known
    place : as its user spelt it
    module : the name of the module that was run; "" where nothing was
    """

    values: Mapping[str, Any]
    lines: Mapping[str, int]
    place: str
    module: str = ""

    def locate(self, name: str) -> str:
        """``FILE:LINE`` of a name."""
        line, place = self.lines.get(name), show_path(self.place)
        return place if line is None else f"{place}:{line}"


def load_place(place: str) -> Loaded:
    """Load a place once; raises `ProgramError`."""
    return _load_place(place, str(Path.cwd()))


@functools.cache
def _load_place(place: str, folder: str) -> Loaded:
    """`folder` is the current one, from which the place is seen."""
    spelling = Spelling(place, place, ())
    if place == STDIN:
        return load_text(sys.stdin.read().removeprefix("\ufeff"), STDIN, "stdin")
    if spelling.is_module:
        return _import_module(place)
    path = spelling.path
    if is_trace(path):
        from .traces import load_trace

        return Loaded(load_trace(path), {}, place)
    # Each line of MetaSchedule's files is a JSON list.
    if path.is_dir() or (path.suffix == ".json" and path.read_bytes()[:1] == b"["):
        from .databases import load_database

        return Loaded(load_database(path), {}, place)
    try:
        text = _read_text(path)
    except (UnicodeDecodeError, SyntaxError):
        raise ProgramError(f"{place} is not UTF-8 text; give {KNOWN_FILES}") from None
    if path.suffix != ".py":
        return load_text(text, place, path.stem)
    tree = _parse(text, place)
    if is_script(tree):
        return _read_script(text, tree, place)
    path = path.resolve()
    is_packaged = (path.parent / "__init__.py").is_file()
    module = (_run_in_package if is_packaged else _run_file)(path, place)
    return _describe_module(module, tree, place)


def load_text(text: str, place: str, name: str) -> Loaded:
    """Load text that is not run: JSON, or a script as TVM prints it."""
    if text.lstrip().startswith("{"):
        import tvm
        from tvm.tirx import PrimFunc

        try:
            value = tvm.ir.load_json(text)
        except Exception as error:  # TVM's own, and Python's of values that it did not expect
            told = describe_error(error)
            raise ProgramError(
                f"{place} is not JSON as tvm.ir.save_json writes it: {told}"
            ) from None
        if not isinstance(value, tvm.IRModule | PrimFunc):
            kind = type(value).__name__
            raise ProgramError(
                f"{place} is JSON of a {kind}; give that of an IRModule or a PrimFunc"
            )
        return Loaded({name: value}, {}, place)
    if not text.strip():
        raise ProgramError(f"{place} is empty; give a script as .script() prints it, or JSON")
    tree = _parse(text, place)
    if not is_script(tree):
        raise ProgramError(
            f"{place} has more than TVMScript, and only a FILE.py is run; give what .script() "
            "prints, JSON, or rename it to FILE.py"
        )
    return _read_script(text, tree, place)


def _parse(text: str, place: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        where = place if error.lineno is None else f"{place}:{error.lineno}"
        raise ProgramError(f"{where}: {error.msg}") from None


def is_script(tree: ast.Module) -> bool:
    """Whether a file is only TVMScript, as `.script()` prints it: nothing in it has to be run.

    Beside ``@I.ir_module class``, ``@T.prim_func def`` and the like it may have imports of TVM's
    script, a docstring, or the metadata that `.script(show_meta=True)` prints.
    """
    has_some = False
    for node in tree.body:
        match node:
            case ast.FunctionDef(decorator_list=[it]) | ast.ClassDef(decorator_list=[it]):
                match it.func if isinstance(it, ast.Call) else it:
                    case ast.Attribute(
                        value=ast.Name(id="I" | "T" | "R"),
                        attr="ir_module" | "prim_func" | "function",
                    ):
                        has_some = True
                    case _:
                        return False
            case ast.ImportFrom(module=str(name)) if name.startswith("tvm.script"):
                pass
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                return False
    return has_some


def _read_text(path: Path) -> str:
    """A file's text, without a byte order mark; a .py file's in the encoding that it declares."""
    if path.suffix != ".py":
        return path.read_text(encoding="utf-8-sig")
    with tokenize.open(path) as file:
        return file.read()


def _read_script(text: str, tree: ast.Module, place: str) -> Loaded:
    """Each class or function, parsed by TVM at its own lines."""
    from tvm.script import from_source

    values: dict[str, Any] = {}
    rows = text.splitlines()
    nodes = [it for it in tree.body if isinstance(it, ast.FunctionDef | ast.ClassDef)]
    for node in nodes:
        first = min(it.lineno for it in node.decorator_list)
        part = "\n" * (first - 1) + "\n".join(rows[first - 1 : node.end_lineno])
        try:
            with _sources_named(place):
                values[node.name] = from_source(part)
        except Exception as error:  # TVM's own, and what Python raises of a wrong expression
            # TVM's diagnostic has a place of its own: ``--> <str>:13:17``.
            arrow = re.search(r"^\s*-->.*:(\d+):\d+\s*$", str(error), re.MULTILINE)
            line = find_line(error) or (arrow and arrow[1])
            where = f"{place}:{line}" if line else place
            told = describe_error(error) + explain_spelling(place, text)
            raise ProgramError(f"{where}: TVM does not parse it: {told}") from None
    return Loaded(values, {node.name: node.lineno for node in nodes}, place)


@contextlib.contextmanager
def _sources_named(place: str) -> Iterator[None]:
    """While this lasts, texts that TVM parses are of this place, and not of ``<str>``."""
    from tvm.script.parser.core import entry

    class Source(entry.Source):
        def __init__(self, program: Any) -> None:
            super().__init__(program)
            self.source_name = place

    theirs, entry.Source = entry.Source, Source
    try:
        yield
    finally:
        entry.Source = theirs


@contextlib.contextmanager
def _importing(place: str, path: Path) -> Iterator[None]:
    """While a file is run: what it prints goes beside, and what it raises is told with its line."""
    watch_file(path)
    try:
        with printing_beside():
            yield
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError):
            where = f"{show_path(error.filename or place)}:{error.lineno}"
            raise ProgramError(f"{where}: {error.msg}") from error
        walked = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in walked if frame.f_code.co_filename == str(path)]
        line = find_line(error) or next(reversed(lines), None)
        where = place if line is None else f"{place}:{line}"
        told = describe_error(error) + explain_spelling(find_own_file(error) or path)
        raise ProgramError(f"{where}: it cannot be imported: {told}") from error


def _run_file(path: Path, place: str) -> ModuleType:
    """Run a file as ``import`` would, with its folder where imports look first."""
    known = sys.modules.get(path.stem)
    if known is not None and _has_file(known, path):
        return known
    # An installed package keeps its own name.
    is_free = path.stem.isidentifier() and path.stem not in sys.modules
    found = importlib.util.find_spec(path.stem) if is_free else None
    is_free = is_free and (found is None or found.origin == str(path))
    name = path.stem if is_free else f"_tirstep_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProgramError(f"Python cannot import {place}; give {KNOWN_FILES}")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        with _importing(place, path):
            spec.loader.exec_module(module)
    except ProgramError:
        del sys.modules[name]
        raise
    return module


def _run_in_package(path: Path, place: str) -> ModuleType:
    """Import a file of a package under its dotted name, so that its relative imports work."""
    top = path.parent
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    parts = path.relative_to(top.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if path.stem == "__init__" else parts)
    sys.path.insert(0, str(top.parent))
    with _importing(place, path):
        module = importlib.import_module(name)
    if not _has_file(module, path):
        other = getattr(module, "__file__", None)
        raise ProgramError(f"{place} is {name} to Python, and so is {other}; rename one of them")
    return module


def _has_file(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path


def _import_module(name: str) -> Loaded:
    """Import a module as ``python -m`` would find it: the current folder comes first."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with printing_beside():
            module = importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(f"{missing}.")):
            raise ProgramError(
                f"there is no module {name} to import from here; a file is given as FILE.py"
            ) from None
        # The innermost line that neither is ours nor the import system's.
        where = name
        for frame, line in traceback.walk_tb(error.__traceback__):
            code = Path(frame.f_code.co_filename)
            if code.is_file() and code != Path(__file__) and "importlib" not in code.parts:
                where = f"{show_path(code)}:{line}"
        told = f"{where}: {name} cannot be imported: {describe_error(error)}"
        own = find_own_file(error)
        raise ProgramError(told + (explain_spelling(own) if own else "")) from error
    file = getattr(module, "__file__", None)
    if file is None:
        return Loaded(vars(module), {}, name, name)
    watch_file(Path(file).resolve())
    tree = _parse(_read_text(Path(file)), file) if file.endswith(".py") else None
    return _describe_module(module, tree, name)


def _describe_module(module: ModuleType, tree: ast.Module | None, place: str) -> Loaded:
    """With the lines of the names that its file defines: at its top, and in what stands there of
    ``with``, ``if``, ``for``, ``try``.
    """
    lines: dict[str, int] = {}
    waiting: list[ast.AST] = [] if tree is None else [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                lines[name] = node.lineno
            case ast.Name(id=name, ctx=ast.Store()):
                lines[name] = node.lineno
            case ast.Lambda() | ast.AsyncFunctionDef() | ast.comprehension():
                pass
            case _:
                waiting += reversed(list(ast.iter_child_nodes(node)))
    return Loaded(dict(vars(module)), lines, place, module.__name__)
