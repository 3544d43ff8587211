"""Every test can fail: it asserts, expects an error, or calls a helper that does.

A test that only runs something would pass whatever came out of it. Read from the source: a function
asserts if it has an `assert` or a call of pytest's, NumPy's or TVM's own assertions; or calls by
its name a function that does, of the same file or imported from tests/support or tests/mutants, or
from tirstep.strategies. A function `require_*` raises where something is not so.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SHARED = ("support", "mutants")
RAISING = ("raises", "warns", "fail", "deprecated_call")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_functions(source: str) -> list[Function]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]


def find_asserting(functions: Iterable[Function], known: Iterable[str] = ()) -> set[str]:
    """The names of functions that assert, by themselves or by others of these or of `known`."""
    functions, found = list(functions), set(known)
    while True:
        more = {
            function.name
            for function in functions
            if function.name not in found and asserts(function, found)
        }
        if not more:
            return found
        found |= more


def asserts(function: Function, known: set[str]) -> bool:
    refuses = function.name.startswith("require_")  # which raises where something is not so
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Raise) and refuses)
        or (isinstance(node, ast.Call) and is_asserting_call(node, known))
        for node in walk(function)
    )


def walk(function: Function) -> Iterator[ast.AST]:
    """What a function runs itself: what it defines asserts only where it is called."""
    rest = list(ast.iter_child_nodes(function))
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            rest.extend(ast.iter_child_nodes(node))


def is_asserting_call(call: ast.Call, known: set[str]) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="pytest"), attr=name):
            return name in RAISING
        case ast.Name(id=name):
            return name in known or name.startswith("assert_")
        case ast.Attribute(attr=name):  # of some object: others have methods of the same name
            return name.startswith("assert_")
    return False


def find_toothless(source: str, shared: dict[str, set[str]]) -> list[str]:
    """The tests of a file that cannot fail, each as ``line: name``.

    `shared` has the names of the functions that assert, by the module that has them.
    """
    functions = find_functions(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in shared.get(node.module or "", ())
    }
    known = find_asserting(functions, imported)
    tests = [function for function in functions if function.name.startswith("test_")]
    return [f"{test.lineno}: {test.name}" for test in tests if not asserts(test, known)]


def test_every_test_can_fail():
    shared = {
        path.stem: find_asserting(find_functions(path.read_text()))
        for folder in SHARED
        for path in (TESTS / folder).glob("*.py")
    }
    for one in (TESTS.parent / "src/tirstep/strategies").glob("*.py"):
        asserting = find_asserting(find_functions(one.read_text()))
        shared[f"tirstep.strategies.{one.stem}"] = asserting
    found = {
        path.relative_to(TESTS).as_posix(): toothless
        for path in sorted(TESTS.rglob("test_*.py"))
        if (toothless := find_toothless(path.read_text(), shared))
    }
    assert found == {}


@pytest.mark.parametrize(
    "body",
    [
        "run()",
        "check(1)",
        "def inner():\n        assert 1\n    run(inner)",
        "x = 1  # assert x",
        "'assert x'",
        "raise ValueError",
        "sch.check()",
        "refuses(1)",
    ],
)
def test_a_planted_test_that_cannot_fail_is_found(body: str):
    source = f"def check(x):\n    run(x)\n\ndef test_it():\n    {body}\n"
    assert find_toothless(source, {}) == ["4: test_it"]


@pytest.mark.parametrize(
    "body",
    [
        "assert 1",
        "with pytest.raises(ValueError):\n        run()",
        "with refused(sch):\n        run()",
        "tvm.ir.assert_structural_equal(a, b)",
        "check(1)",
        "for x in y:\n        outer(x)",
        "require_order(1)",
    ],
)
def test_what_asserts_somewhere_is_none(body: str):
    helpers = "def check(x):\n    assert x\n\ndef outer(x):\n    check(x)\n"
    helpers += "\ndef require_order(x):\n    raise ValueError\n"
    imported = "from pairs import refuses as refused\n"
    source = f"{imported}{helpers}\ndef test_it():\n    {body}\n"
    assert find_toothless(source, {"pairs": {"refuses"}}) == []
