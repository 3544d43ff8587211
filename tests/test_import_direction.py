"""Who may import whom, read from the source: kernels and transforms know nothing of the rest.

`make check` runs this file as its linter for the direction of imports; it loads no TVM.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "tirstep": "src/tirstep",
    "tirstep.modules": "modules",
    "tirstep.transforms": "transforms",
    "tirstep.lowering_checks": "lowering_checks",
}
# The first row that fits a module's name is its row: what it must not import.
FORBIDDEN = {
    "tirstep.modules": ("transforms", "lowering_checks", "bench", "cli"),
    "tirstep.transforms": ("modules", "lowering_checks", "bench", "cli", "ml_dtypes"),
    "tirstep.lowering_checks": ("bench", "cli"),
    "tirstep.cli": (),
    "tirstep.__main__": (),
    "tirstep": ("cli",),
}
SILENT = ("tirstep.modules", "tirstep.transforms", "tirstep.lowering_checks")
IMPORTERS = ("__import__", "import_module")


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def find_violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """The broken rules of one module's source, each as ``module:line: sentence``."""
    found = []
    for node in ast.walk(ast.parse(source)):
        sentences = [
            f"imports {target}"
            for target in find_imports(node, module if is_package else module.rpartition(".")[0])
            if is_forbidden(module, target)
        ]
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            sentences.append("has a star import")
        if is_print(node) and any(is_within(module, package) for package in SILENT):
            sentences.append("prints")
        found += [f"{module}:{node.lineno}: {sentence}" for sentence in sentences]
    return found


def find_imports(node: ast.AST, package: str) -> list[str]:
    """The full names that one statement or call imports, seen from inside ``package``."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=name, names=names, level=level):
            base = [name] if name else []
            if level:
                base = [*package.split(".")[: len(package.split(".")) - level + 1], *base]
            # `from tirstep import cli` imports tirstep.cli, `from numpy import pi` numpy.pi.
            return [".".join([*base, alias.name]) for alias in names]
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(to))]
        ) if name in IMPORTERS:
            return [to]
    return []


def is_forbidden(module: str, target: str) -> bool:
    if any(is_within(target, package.removeprefix("tirstep.")) for package in SILENT):
        return True  # by the folder's own name, which makes a second copy
    row = next(row for package, row in FORBIDDEN.items() if is_within(module, package))
    names = (name if name == "ml_dtypes" else f"tirstep.{name}" for name in row)
    return any(is_within(target, name) for name in names)


def is_print(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="print")):
            return True
    return False


def list_sources() -> list[tuple[str, Path]]:
    """Every module of tirstep: its name and its file."""
    return [
        (".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]), path)
        for package, folder in FOLDERS.items()
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


def test_every_folder_has_sources():
    assert {path.relative_to(ROOT).parts[0] for _, path in list_sources()} == {
        "lowering_checks",
        "modules",
        "src",
        "transforms",
    }


def test_imports_go_one_way():
    found = []
    for name, path in list_sources():
        is_package = path.name == "__init__.py"
        module = name.removesuffix(".__init__") if is_package else name
        found += find_violations(module, path.read_text(), is_package=is_package)
    assert found == []


@pytest.mark.parametrize(
    ("module", "source", "sentence"),
    [
        ("tirstep.modules.matmul", "from tirstep import transforms", "imports tirstep.transforms"),
        ("tirstep.modules.matmul", "from .. import bench", "imports tirstep.bench"),
        ("tirstep.modules.matmul", "from ..cli.app import main", "imports tirstep.cli.app.main"),
        ("tirstep.transforms.loops", "def f():\n  import ml_dtypes", "imports ml_dtypes"),
        ("tirstep.transforms.recipes.a", "from ...modules import b", "imports tirstep.modules.b"),
        ("tirstep.transforms.a", "import_module('tirstep.cli')", "imports tirstep.cli"),
        ("tirstep.lowering_checks.a", "from tirstep.cli import x", "imports tirstep.cli.x"),
        ("tirstep.versions", "from . import cli", "imports tirstep.cli"),
        ("tirstep.bench.a", "from tirstep.cli import x", "imports tirstep.cli.x"),
        ("tirstep.cli.a", "from transforms import split_loop", "imports transforms.split_loop"),
        ("tirstep.cli.a", "from tvm.script.tirx import *", "has a star import"),
        ("tirstep.modules.a", "def f():\n  print(1)", "prints"),
    ],
)
def test_planted_violation_is_found(module, source, sentence):
    line = source.count("\n") + 1
    assert find_violations(module, source) == [f"{module}:{line}: {sentence}"]


def test_planted_violation_in_a_package_s_init_is_found():
    found = find_violations("tirstep.transforms", "from .. import modules", is_package=True)
    assert found == ["tirstep.transforms:1: imports tirstep.modules"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tirstep.modules.matmul", "import numpy as np, ml_dtypes\nfrom .kernel import Kernel"),
        ("tirstep.transforms.recipes.a", "from .. import split_loop\nfrom ..errors import E"),
        ("tirstep.transforms.a", "import tvm.transforms\nimport tirstep.versions"),
        ("tirstep.lowering_checks.a", "from tirstep import modules, transforms\nimport ml_dtypes"),
        ("tirstep.cli.a", "from tirstep.cli import b\nimport tirstep.bench\nprint(1)"),
        ("tirstep.__main__", "def main():\n  from tirstep.cli import main"),
        ("tirstep.transforms.a", "import numpy\nlog.print(1)\nclient.import_later('ml_dtypes')"),
    ],
)
def test_right_direction_passes(module, source):
    assert find_violations(module, source) == []
