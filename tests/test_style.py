"""What keeps the source readable: functions under 40 lines, files under 600, a class of each name.

A function's docstring does not count: before-and-after programs belong there.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("modules", "transforms", "lowering_checks", "src")
FUNCTION_LINES, FILE_LINES = 40, 600


def find_oversizes(source: str) -> list[str]:
    """What is too long in one file, as sentences."""
    lines = len(source.splitlines())
    found = [f"the file has {lines} lines"] if lines >= FILE_LINES else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = count_lines(node)
            if lines >= FUNCTION_LINES:
                found.append(f"line {node.lineno}: {node.name} has {lines} lines")
    return found


def count_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def test_functions_and_files_are_short():
    found = {
        path.relative_to(ROOT).as_posix(): oversizes
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (oversizes := find_oversizes(path.read_text()))
    }
    assert found == {}


def test_planted_oversizes_are_found():
    body = "    x = 1\n"
    assert find_oversizes("def f():\n" + body * 38) == []
    assert find_oversizes("def f():\n" + body * 39) == ["line 1: f has 40 lines"]
    assert find_oversizes('def f():\n    """a\n    b"""\n' + body * 38) == []
    assert find_oversizes("x = 1\n" * 599) == []
    assert find_oversizes("x = 1\n" * 600) == ["the file has 600 lines"]


def find_namesakes(sources: dict[str, str]) -> dict[str, list[str]]:
    """Public classes of one name in several files; a script of TVM's names its module "Module"."""
    places: dict[str, list[str]] = {}
    for place, source in sources.items():
        for node in ast.parse(source).body:
            if (
                isinstance(node, ast.ClassDef)
                and not node.name.startswith("_")
                and node.name != "Module"
            ):
                places.setdefault(node.name, []).append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_stands_for_one_thing():
    folders = (*FOLDERS, "docs/build", "benchmarks")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert (
        find_namesakes({path.relative_to(ROOT).as_posix(): path.read_text() for path in files})
        == {}
    )


def test_planted_namesakes_are_found():
    sources = {"a.py": "class A:\n    pass\n", "b.py": "class A:\n    pass\n\nclass B:\n    pass\n"}
    assert find_namesakes(sources) == {"A": ["a.py", "b.py"]}
    for name in ("Module", "_Of"):  # of a script, of one file
        assert find_namesakes(dict.fromkeys(("a.py", "b.py"), f"class {name}: ...\n")) == {}
