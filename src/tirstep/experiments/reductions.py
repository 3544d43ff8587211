"""Smaller programs: edits of TVMScript's text, through Python's own syntax tree, coarse ones first.

Each is tried on a copy. Most make no program, or one that means something else: what counts is
whether the smaller one still shows what the larger one showed.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any

AXES = ("spatial", "reduce", "remap", "S", "R", "SS", "SR", "opaque", "scan")
LIKE_CHOICES = ("Select", "if_then_else")
SIMPLER_TYPES = ("float32", "int32")
TYPES = ("bfloat16", "float16", "float64", "int8", "int16", "int64", "float32", "int32", "bool")
Editor = Callable[[ast.AST], None]


def parse_script(text: str) -> ast.Module:
    """The tree of a script with one function, without its module's class."""
    tree = ast.parse(text)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            tree.body = [*functions]
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return tree


def print_script(tree: ast.Module) -> str:
    """The text of a tree, as TVM parses it."""
    return f"# from tvm.script import tirx as T\n{ast.unparse(ast.fix_missing_locations(tree))}\n"


def apply_edit(tree: ast.Module, edit: Editor) -> ast.Module | None:
    """A smaller program, on a copy; None where the edit does not fit."""
    made = copy.deepcopy(tree)
    try:
        edit(made)
    except (IndexError, AttributeError, KeyError, ValueError):
        return None
    return made


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    """The lists of statements within functions, in a fixed order."""
    found = []
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and not isinstance(node, ast.Module):
                found.append(body)
    return found


def _drop_chunks(tree: ast.Module) -> Iterator[Editor]:
    """Statements that stand together: all of a body, then half of it, then each alone."""
    for at, body in enumerate(_bodies(tree)):
        size = len(body)
        while size:
            for start in range(0, len(body), size):
                yield _make_drop(at, start, size)
            size //= 2


def _make_drop(at: int, start: int, size: int) -> Editor:
    def edit(tree: ast.AST) -> None:
        body = _bodies(tree)[at]
        if all(_is_nothing(each) for each in body[start : start + size]):
            raise ValueError("nothing is left to drop")
        del body[start : start + size]
        if not body:
            body.append(ast.parse("T.evaluate(0)").body[0])

    return edit


def _is_nothing(statement: ast.stmt) -> bool:
    return ast.unparse(statement) == "T.evaluate(0)"


def _compounds(tree: ast.AST) -> list[tuple[list[ast.stmt], int]]:
    return [
        (body, place)
        for body in _bodies(tree)
        for place, statement in enumerate(body)
        if isinstance(statement, ast.For | ast.If | ast.With)
    ]


def _unwrap_all(tree: ast.Module) -> Iterator[Editor]:
    """A loop, branch or block without what is around its body."""
    for at, (body, place) in enumerate(_compounds(tree)):
        statement = body[place]
        yield _make_unwrap(at, "body")
        if isinstance(statement, ast.If) and statement.orelse:
            yield _make_unwrap(at, "orelse")
            yield _make_unwrap(at, "no else")


def _make_unwrap(at: int, part: str) -> Editor:
    def edit(tree: ast.AST) -> None:
        body, place = _compounds(tree)[at]
        statement: Any = body[place]
        if part == "no else":
            statement.orelse = []
            return
        inside = getattr(statement, part)
        if isinstance(statement, ast.For):
            names = [each.id for each in ast.walk(statement.target) if isinstance(each, ast.Name)]
            inside = [_substitute(each, dict.fromkeys(names, ast.Constant(0))) for each in inside]
        if isinstance(statement, ast.With):
            inside = _open_block(inside)
        body[place : place + 1] = inside

    return edit


def _open_block(body: list[ast.stmt]) -> list[ast.stmt]:
    """What stands in a block, its axes being their bindings."""
    values: dict[str, ast.expr] = {}
    kept = []
    for statement in body:
        if isinstance(statement, ast.Assign) and _is_axis(statement.value):
            values.update(_read_axes(statement))
        elif not _is_declaration(statement):
            kept.append(_substitute(statement, values))
    return kept


def _is_axis(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ".axis." in ast.unparse(value.func)


def _read_axes(statement: ast.Assign) -> dict[str, ast.expr]:
    target, value = statement.targets[0], statement.value
    assert isinstance(value, ast.Call)
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    bindings = value.args[-1]
    values = bindings.elts if isinstance(bindings, ast.List) else [bindings]
    pairs = zip(names, values, strict=False)
    return {name.id: bound for name, bound in pairs if isinstance(name, ast.Name)}


def _is_declaration(statement: ast.stmt) -> bool:
    text = ast.unparse(statement)
    return text.startswith(("T.reads(", "T.writes(", "T.where(", "T.sblock_attr("))


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and node.id in self.values:
            return copy.deepcopy(self.values[node.id])
        return node


def _substitute(node: Any, values: dict[str, Any]) -> Any:
    return _Substitution(values).visit(node)


def _numbers(tree: ast.AST) -> list[Any]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    ]


def _smaller(value: Any) -> list[int]:
    """Smaller numbers to try for one."""
    number = int(value)
    tried = [1, 2, 4, number // 2, number - 1] if number > 1 else [0] if number == 1 else [1]
    return list(
        dict.fromkeys(each for each in tried if 0 <= each < max(2, number) and each != value)
    )


def _change_numbers_everywhere(tree: ast.Module) -> Iterator[Editor]:
    """A number that stands in several places, in all of them: an extent and its loops."""
    values: list[Any] = sorted({n.value for n in _numbers(tree) if n.value > 1}, reverse=True)
    for value in values:
        for smaller in _smaller(value):
            if smaller:
                yield _make_everywhere(value, smaller)


def _make_everywhere(value: Any, smaller: int) -> Editor:
    def edit(tree: ast.AST) -> None:
        for node in _numbers(tree):
            if node.value == value and type(node.value) is type(value):
                node.value = type(value)(smaller)

    return edit


def _change_numbers(tree: ast.Module) -> Iterator[Editor]:
    for at, node in enumerate(_numbers(tree)):
        for smaller in _smaller(node.value):
            yield _make_number(at, smaller)


def _make_number(at: int, smaller: int) -> Editor:
    def edit(tree: ast.AST) -> None:
        node: Any = _numbers(tree)[at]
        node.value = type(node.value)(smaller)

    return edit


def _drop_parameters(tree: ast.Module) -> Iterator[Editor]:
    for function in tree.body:
        assert isinstance(function, ast.FunctionDef)
        for at in range(len(function.args.args)):
            yield _make_parameter(at)


def _make_parameter(at: int) -> Editor:
    def edit(tree: Any) -> None:
        del tree.body[0].args.args[at]

    return edit


def _change_types(tree: ast.Module) -> Iterator[Editor]:
    """A simpler type in all places of another one."""
    text = ast.unparse(tree)
    for name in TYPES:
        for simpler in SIMPLER_TYPES:
            if name in text and name != simpler:
                yield _make_type(name, simpler)


def _make_type(name: str, simpler: str) -> Editor:
    def edit(tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value == name:
                node.value = simpler
            elif isinstance(node, ast.Attribute) and node.attr == name:
                node.attr = simpler

    return edit


def _inline_names(tree: ast.Module) -> Iterator[Editor]:
    """A let, or another name of a value, in its places."""
    for body in _bodies(tree):
        for statement in body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                yield _make_inline(statement.target.id)


def _make_inline(name: str) -> Editor:
    def edit(tree: ast.AST) -> None:
        for body in _bodies(tree):
            for place, node in enumerate(body):
                is_it = isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name
                if is_it and isinstance(node, ast.AnnAssign):
                    rest = body[place + 1 :]
                    body[place:] = [_substitute(each, {name: node.value}) for each in rest]
                    return
        raise ValueError(name)

    return edit


def _expressions(tree: ast.AST) -> list[tuple[Any, str, int | None]]:
    """Each place of an expression: its parent, the field, and the place in a list."""
    found: list[tuple[Any, str, int | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.arg):
            continue
        for name, value in ast.iter_fields(node):
            if name in ("func", "target", "targets", "annotation", "optional_vars"):
                continue
            if isinstance(value, ast.expr):
                found.append((node, name, None))
            elif isinstance(value, list):
                found += [
                    (node, name, at) for at, each in enumerate(value) if isinstance(each, ast.expr)
                ]
    return found


def _simplify_expressions(tree: ast.Module) -> Iterator[Editor]:
    """An operand in the place of an operation, and 0 in the place of an index."""
    for at, (parent, name, place) in enumerate(_expressions(tree)):
        value = getattr(parent, name)
        node = value if place is None else value[place]
        for number in range(len(_parts(node))):
            yield _make_part(at, number)
        is_index = isinstance(parent, ast.Subscript) and name == "slice"
        if (is_index or isinstance(parent, ast.Tuple)) and not isinstance(node, ast.Constant):
            yield _make_zero(at)


def _parts(node: ast.expr) -> list[ast.expr]:
    """The expressions that may stand in the place of one."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, ast.Compare):
        return []
    if isinstance(node, ast.Call):
        called = getattr(node.func, "attr", "")
        if called in LIKE_CHOICES:
            return list(node.args[1:])
        if called not in ("range", "grid", "thread_binding", "unroll", "vectorized", "parallel"):
            return [each for each in node.args if not isinstance(each, ast.Constant)]
    return []


def _make_part(at: int, number: int) -> Editor:
    def edit(tree: ast.AST) -> None:
        parent, name, place = _expressions(tree)[at]
        value = getattr(parent, name)
        node = value if place is None else value[place]
        _put(parent, name, place, _parts(node)[number])

    return edit


def _make_zero(at: int) -> Editor:
    def edit(tree: ast.AST) -> None:
        parent, name, place = _expressions(tree)[at]
        _put(parent, name, place, ast.Constant(0))

    return edit


def _put(parent: Any, name: str, place: int | None, node: ast.expr) -> None:
    if place is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[place] = node


def _drop_keywords(tree: ast.Module) -> Iterator[Editor]:
    """Options of calls: annotations of loops, say."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for at, call in enumerate(calls):
        for number, keyword in enumerate(call.keywords):
            if keyword.arg not in ("thread", "scope"):
                yield _make_keyword(at, number)


def _make_keyword(at: int, number: int) -> Editor:
    def edit(tree: ast.AST) -> None:
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        del calls[at].keywords[number]

    return edit


REDUCTIONS: tuple[Callable[[ast.Module], Iterator[Editor]], ...] = (
    _change_numbers_everywhere,
    _drop_chunks,
    _unwrap_all,
    _drop_parameters,
    _change_types,
    _inline_names,
    _simplify_expressions,
    _change_numbers,
    _drop_keywords,
)
"""Each gives the edits of a tree; the largest steps come first."""
