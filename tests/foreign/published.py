"""PrimFuncs read out of other people's files, in the spelling of the TVM that is installed.

Nothing of such a file runs but the functions' own text, in TVM's parser.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tvm.s_tir import SBlock
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import For, PrimFunc
from tvm_ffi import structural_hash

from tirstep.transforms.tir import find_all, get_axis

RENAMED = {
    "block": "sblock",
    "alloc_buffer": "sblock_alloc_buffer",
    "block_attr": "sblock_attr",
}
"""Of TVMScript as it was spelt before TVM 0.25."""


@dataclass(frozen=True)
class Published:
    """A function of somebody's file.

    Attributes
    ----------
    name : with the names of the functions and classes around it, joined by dots
    function : None where there is nothing to schedule
    reason : why that is so; else ""
    """

    file: Path
    name: str
    function: PrimFunc | None
    reason: str = ""


def read_published(place: Path) -> Iterator[Published]:
    """The functions of a file, or of all Python files in a folder, each program once."""
    seen: set[int] = set()
    for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        except (SyntaxError, ValueError):
            continue
        for name, node in _find_functions(tree, ()):
            found = _parse(file, name, node)
            if found.function is not None:
                mark = int(structural_hash(found.function.without_attr("global_symbol")))
                if mark in seen:
                    continue
                seen.add(mark)
            yield found


def _find_functions(node: ast.AST, outer: tuple[str, ...]) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        inner = outer
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inner = (*outer, child.name)
        if isinstance(child, ast.FunctionDef) and any(map(_is_prim_func, child.decorator_list)):
            yield ".".join(inner), child
        else:
            yield from _find_functions(child, inner)


def _is_prim_func(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    return isinstance(decorator, ast.Attribute) and decorator.attr == "prim_func"


class _Respell(ast.NodeTransformer):
    """Older names of TVMScript's become those of today; docstrings and reads of old forms go."""

    def __init__(self, *, is_old: bool) -> None:
        self.is_old = is_old

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if self.is_old and isinstance(node.value, ast.Name) and node.value.id in ("T", "tir"):
            return ast.Attribute(node.value, RENAMED.get(node.attr, node.attr), node.ctx)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if self.is_old and node.value is not None:  # a name for a value, and no variable
            let = ast.Attribute(ast.Name("T", ast.Load()), "let", ast.Load())
            node.annotation = ast.Subscript(let, node.annotation, ast.Load())
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not ast.unparse(node.value).endswith(".Buffer"):
            return node
        values = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return ast.Call(node.value, list(values), [])  # T.Buffer[(4, 4), "float32"]


def _parse(file: Path, name: str, node: ast.FunctionDef) -> Published:
    text = ast.unparse(node)
    is_old = "T.sblock" not in text and "T.block" in text
    respelt = _Respell(is_old=is_old).visit(ast.parse(text)).body[0]
    private = any("private=True" in ast.unparse(each) for each in node.decorator_list)
    respelt.decorator_list = [
        ast.parse(f"T.prim_func(s_tir=True, private={private})", mode="eval").body
    ]
    text = ast.unparse(ast.fix_missing_locations(respelt))
    try:
        function = from_source(text, extra_vars={"T": T, "I": I, "tir": T})
    except Exception as error:  # TVM's parser raises whatever its values raise
        return Published(file, name, None, f"not parsed: {_shorten(error)}")
    if not isinstance(function, PrimFunc):
        return Published(file, name, None, "not parsed: it is no PrimFunc")
    if not find_all(function.body, SBlock):
        return Published(file, name, None, "it has no blocks")
    loops = find_all(function.body, For)
    keys = ("tirx.is_scheduled", "tir.is_scheduled")
    is_noted = function.attrs is not None and any(function.attrs.get(key) for key in keys)
    if is_noted or any(get_axis(loop) for loop in loops):
        return Published(file, name, None, "it is scheduled already")
    return Published(file, name, function)


def _shorten(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" |^")]
    told = [line for line in lines if line.startswith("error: ")]
    return (told or lines or [type(error).__name__])[0].removeprefix("error: ")
