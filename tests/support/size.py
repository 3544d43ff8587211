"""How large the project is, and how tangled, against its budgets: ``make size``.

With ``--check``, only what is over its budget is printed, and the exit code is 1 if anything is.
A budget goes down with what is reached, and never up. One that is met by packing lines, thinning
docstrings, renaming files or moving imports is not met.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("modules", "transforms", "lowering_checks", "src/tirstep")
BUDGETS = {
    "modules": 3_789,
    "transforms": 24_998,
    "lowering_checks": 24_541,
    "src/tirstep": 18_135,
    "source": 71_463,
    "code": 51_335,
    "transforms/binding.py stands on": 2_716,
    "file names of several files": 4,
    "private helpers with one caller": 301,
    "tests": 68_819,
    "goldens": 31_931,
    "pages of docs": 56,
    "changelog": 110,
    "targets of make": 12,
}
"""Lines, but for what is counted by itself."""
IDLE = {getattr(tokenize, kind) for kind in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT")}


def main() -> int:
    over = 0
    for name, size in measure().items():
        verdict = ": over its budget; take something away" if size > BUDGETS[name] else ""
        over += bool(verdict)
        if "--check" not in sys.argv or verdict:
            print(f"{name:32} {size:8,} of {BUDGETS[name]:8,}{verdict}")
    return int("--check" in sys.argv and over > 0)


def measure() -> dict[str, int]:
    """Each number that has a budget, of the files that git knows."""
    sources = {
        path: Path(path).read_text()
        for path in list_files(*(f"{folder}/*.py" for folder in FOLDERS))
        if "/template/" not in path
    }
    folders = {
        folder: sum(text.count("\n") for path, text in sources.items() if path.startswith(folder))
        for folder in FOLDERS
    }
    names = Counter(Path(path).name for path in sources if not path.endswith("__.py"))
    texts = {
        path: Path(path).read_text(errors="ignore").count("\n")
        for path in list_files("tests", "CHANGELOG.md")
    }
    goldens = sum(size for path, size in texts.items() if path.startswith("tests/golden/"))
    targets = re.findall(r"(?m)^[a-z-]+:.*## ", Path("Makefile").read_text())
    return {
        **folders,
        "source": sum(folders.values()),
        "code": sum(count_code(text) for text in sources.values()),
        "transforms/binding.py stands on": count_closure("transforms/binding.py", sources),
        "file names of several files": sum(count > 1 for count in names.values()),
        "private helpers with one caller": sum(map(count_used_once, sources.values())),
        "tests": sum(texts.values()) - goldens - texts["CHANGELOG.md"],
        "goldens": goldens,
        "pages of docs": len(list_files("docs/*.md")),
        "changelog": texts["CHANGELOG.md"],
        "targets of make": len(targets),
    }


def list_files(*patterns: str) -> list[str]:
    """What git knows and the folder has."""
    known = subprocess.check_output(["git", "ls-files", *patterns], text=True)
    return [path for path in known.splitlines() if Path(path).is_file()]


def count_code(text: str) -> int:
    """Lines with code: no comments, no docstrings, no blanks."""
    strings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    used = [it for it in tokens if it.type not in IDLE and it.string]
    return len({line for it in used for line in range(it.start[0], it.end[0] + 1)} - strings)


def count_used_once(text: str) -> int:
    """Private functions at the top of a file that the file names in one other place only."""
    words = Counter(it.string for it in tokenize.generate_tokens(io.StringIO(text).readline))
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return sum(words[it.name] == 2 for it in functions if it.name.startswith("_"))


def count_closure(path: str, sources: dict[str, str]) -> int:
    """Lines of all files that one imports, directly or not, also inside of functions.

    A package's ``__init__`` counts, and what it imports does not: its members don't stand on it.
    """
    modules = {name_module(each): each for each in sources}
    seen: set[str] = set()
    rest = [name_module(path)]
    while rest:
        module = rest.pop()
        if module not in seen:
            seen.add(module)
            if not modules[module].endswith("__init__.py"):
                rest += [it for it in find_imports(modules[module], sources) if it in modules]
    return sum(sources[modules[module]].count("\n") for module in seen)


def name_module(path: str) -> str:
    parts = path.removeprefix("src/tirstep/").removesuffix(".py").split("/")
    return ".".join(["tirstep", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def find_imports(path: str, sources: dict[str, str]) -> Iterator[str]:
    """Names that a file imports, and modules among them, but for what only type checkers see."""
    package = name_module(path).rpartition(".")[0].split(".")
    rest: list[ast.AST] = [ast.parse(sources[path])]
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            yield from (name, *(f"{name}.{alias.name}" for alias in node.names))
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            rest += ast.iter_child_nodes(node)


if __name__ == "__main__":
    sys.exit(main())
