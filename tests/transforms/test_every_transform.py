"""No transform without a pair, a misuse test, and a docstring that says what it does.

A test belongs to the transform whose name its own begins with: `test_split_loop_by_a_divisor`.
"""

import ast
import inspect
from pathlib import Path

import pytest
from tvm.s_tir import Schedule

import tirstep.transforms

FOLDER = Path(__file__).parent


def find_transforms():
    """The public functions that take a schedule and change it: all but the queries."""
    found = []
    for name in tirstep.transforms.__all__:
        value = getattr(tirstep.transforms, name)
        if inspect.isfunction(value) and not name.startswith(("find_", "get_", "is_")):
            found.append(name)
    return found


def find_tests(sources, call):
    """The names of the tests that call a helper."""
    found = []
    for source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
                if any(isinstance(each, ast.Name) and each.id == call for each in calls):
                    found.append(node.name)
    return found


def find_untested(transforms, tests):
    return [name for name in transforms if not any(t.startswith(f"test_{name}_") for t in tests)]


def read_sources():
    return [path.read_text() for path in sorted(FOLDER.glob("test_*.py"))]


def test_there_are_transforms():
    assert {"split_loop", "tile_block", "fetch_cooperatively"} <= set(find_transforms())
    assert "find_epilogue" not in find_transforms()
    assert "Tile" not in find_transforms()


def test_every_transform_has_a_pair():
    assert find_untested(find_transforms(), find_tests(read_sources(), "check_pair")) == []


def test_every_transform_has_a_misuse_test():
    assert find_untested(find_transforms(), find_tests(read_sources(), "refuses")) == []


@pytest.mark.parametrize("name", find_transforms())
def test_every_transform_says_what_it_does(name):
    function = getattr(tirstep.transforms, name)
    text = inspect.getdoc(function)
    assert text[0].isupper()
    for part in ("rewrite:", "consumes:", "requires:"):
        assert f"\n{part}" in text, f"{name} has no '{part}'"
    if inspect.signature(function).return_annotation != "None":
        assert "\nreturns:" in text, f"{name} has no 'returns:'"


@pytest.mark.parametrize("name", find_transforms())
def test_every_transform_has_the_one_signature(name):
    first, *others = inspect.signature(getattr(tirstep.transforms, name)).parameters.values()
    assert first.name == "sch"
    assert first.annotation == Schedule.__name__
    for parameter in others:
        is_handle = "RV" in str(parameter.annotation)
        kind = parameter.POSITIONAL_OR_KEYWORD if is_handle else parameter.KEYWORD_ONLY
        assert parameter.kind == kind, f"{name}: {parameter.name}"
        if is_handle:
            assert parameter.default is parameter.empty
