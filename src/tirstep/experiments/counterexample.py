"""A counterexample: a small program, and a script that shows with TVM and NumPy that it goes wrong.

The script runs TVM's own passes on the program, without the change of the pipeline and with it, and
emulates what comes out (`emulator`, whose text it carries along). It needs no GPU, and tirstep only
where the pass itself does.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import pprint
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm

from tirstep.files import may_replace, require_writable
from tirstep.lowering_checks.bisect.reproducer import import_half_types, quote

from . import emulator
from .editing import Edit, ExperimentError
from .quick import WRONG, QuickVerdict
from .shrinking import Shrunk

FIRST_LINE = "# Written by `tirstep pass`: it may be overwritten."
SECONDS = 120.0
OURS = ("tirstep",)


@dataclass(frozen=True)
class PassSource:
    """The text that makes the user's pass: its file, without what imports or decorates for tirstep.

    Attributes
    ----------
    text : empty where no pass is put in
    name : of the pass in it
    needs_tirstep : the pass itself calls what it imports from tirstep, so that this stays
    module, folder : where the file imports others that lie beside it, it is imported itself: as
        this module, from this folder; `text` is empty then
    digest : of the file as it stands
    """

    text: str = ""
    name: str = ""
    needs_tirstep: bool = False
    module: str = ""
    folder: str = ""
    digest: str = ""

    @property
    def needs(self) -> str:
        """What a script needs besides TVM."""
        words = [", NumPy", "tirstep" if self.needs_tirstep else ""]
        where = f" of {self.folder}" if self.folder else ""
        words.append(f"the module {self.module}{where}" if self.module else "")
        return ", ".join(filter(None, words))

    def write(self) -> str:
        """The statements of a script that make the pass, which they call MADE."""
        if self.module:
            path = f"sys.path.insert(0, {self.folder!r})\n"
            return f"{path}MADE = importlib.import_module({self.module!r}).{self.name}\n"
        if self.name:
            return f"{quote('PASS', self.text)}{LOAD}MADE = load(PASS).{self.name}\n"
        return "MADE = None\n"


def read_source(path: Path, name: str) -> PassSource:
    """The source of a pass in a file, for a machine without tirstep where that can be."""
    text = path.read_text("utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    module, folder = _find_module(path.resolve())
    if _leans_on(tree, module, folder):
        is_ours = any(_find_ours(node) for node in ast.walk(tree))
        return PassSource("", name, is_ours, module, str(folder), digest)
    imports = {node: names for node in _walk_run(tree) if (names := _find_ours(node))}
    ours = {each for names in imports.values() for each in names}
    decorators = [
        decorator
        for node in ast.walk(tree)
        for decorator in getattr(node, "decorator_list", ())
        if any(getattr(each, "id", "") in ours for each in ast.walk(decorator))
    ]
    in_decorators = {id(each) for decorator in decorators for each in ast.walk(decorator)}
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and id(node) not in in_decorators
    }
    kept = [node for node, names in imports.items() if names & used or not _is_alone(node, lines)]
    for node in (*decorators, *(node for node in imports if node not in kept)):
        is_block = isinstance(node, ast.stmt)  # which may be all that an `if` or a `try` has
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        lines[first:last] = [" " * node.col_offset + "pass" if is_block else ""] + [""] * (
            last - first - 1
        )
    return PassSource("\n".join(lines).strip() + "\n", name, bool(kept), digest=digest)


def _find_module(path: Path) -> tuple[str, Path]:
    """The module that a file is, and the folder in which an import looks for it."""
    top = path.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    return ".".join(path.relative_to(top).with_suffix("").parts), top


def _leans_on(tree: ast.Module, module: str, folder: Path) -> bool:
    """Whether a file imports what lies beside it, or what belongs to its package."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                return True
            imported.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.Import):
            imported |= {each.name.split(".")[0] for each in node.names}
    package, _, is_in_package = module.partition(".")
    if is_in_package:
        return package in imported
    return any((folder / f"{each}.py").is_file() or (folder / each).is_dir() for each in imported)


def _walk_run(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a file but what stands under ``if TYPE_CHECKING:``, which is never run."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _walk_run(child)


def _find_ours(node: ast.AST) -> set[str]:
    """The names that a statement imports from tirstep."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
        return {each.asname or each.name for each in node.names}
    if isinstance(node, ast.Import):
        ours = [each for each in node.names if each.name.split(".")[0] in OURS]
        return {each.asname or each.name.split(".")[0] for each in ours}
    return set()


def _is_alone(node: ast.AST, lines: Sequence[str]) -> bool:
    """Whether a statement imports from tirstep alone, and shares its lines with no other one."""
    assert isinstance(node, ast.stmt)
    others = isinstance(node, ast.Import) and len(_find_ours(node)) < len(node.names)
    before = lines[node.lineno - 1].encode()[: node.col_offset]
    behind = lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset :]
    return not others and not before.strip() and not behind.partition(b"#")[0].strip()


def make_script(
    shrunk: Shrunk, edits: Sequence[Edit], source: PassSource, verdict: QuickVerdict, about: str
) -> str:
    """The text of the script; raises `ExperimentError` for edits that it cannot make."""
    if len(edits) != 1:
        raise ExperimentError("a script is written for one change of the pipeline, at one place")
    edit = edits[0]
    body = NUMBERS_END if verdict.status == WRONG else REFUSED_END
    arrays = {
        str(parameter.name): (array.astype("f8").tolist(), str(array.dtype))
        for parameter, array in zip(
            shrunk.subject.module["main"].params,
            shrunk.subject.oracle.arguments,
            strict=True,
        )
    }
    emulated = inspect.getsource(emulator).partition('"""')[2].partition('"""')[2]
    return "".join(
        [
            HEAD.format(
                about=about.replace("\\", "/").replace('"""', "'''"),
                half=import_half_types(shrunk.subject.module),
                series=".".join(tvm.__version__.split(".")[:2]),
                needs=source.needs,
            ),
            quote("PROGRAM", shrunk.text),
            "\n# What it is run on: values and type of each parameter.\n",
            f"ARRAYS = {pprint.pformat(arrays, width=96, compact=True, sort_dicts=False)}\n",
            f"TARGET = {shrunk.subject.target!r}\n",
            f"PLACE, ANCHOR = {edit.place!r}, {edit.anchor!r}\n",
            f"\n# {'-' * 20} the pass {'-' * 20}\n\n{source.write()}",
            f"\n# {'-' * 20} TVM's passes, with it and without {'-' * 20}\n{PASSES}",
            f"\n# {'-' * 20} what they make, run {'-' * 20}\n",
            emulated if body is NUMBERS_END else "",
            body,
        ]
    )


def require_place(path: Path) -> None:
    """Raise, before the work, what writing the script would raise after it.

    `ExperimentError` where a file of another hand is in the way, and `OSError`.
    """
    if not may_replace(path, FIRST_LINE):
        raise ExperimentError(
            f"{path} is no script of tirstep pass's; it stays: give --script another name"
        )
    require_writable(path)


def run_script(path: Path, *, seconds: float = SECONDS) -> tuple[bool, str]:
    """Whether the script shows it, and its last line."""
    try:
        done = subprocess.run(
            [sys.executable, str(path)],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"it does not end within {seconds:g} s"
    if done.returncode < 0 and -done.returncode in set(signal.Signals):
        return True, f"TVM ends the process ({signal.Signals(-done.returncode).name})"
    lines = [line for line in (done.stdout or done.stderr).splitlines() if line.strip()]
    return done.returncode == 1 and "WRONG: " in done.stdout, lines[-1] if lines else ""


HEAD = (
    FIRST_LINE
    + '''
"""{about}

It ends with 1 where this shows, and with 0 where it does not.
It needs Python, apache-tvm {series}{needs}.
"""

import importlib
import inspect
import linecache
import sys
import types
{half}import tvm
import tvm
from tvm.script import from_source

'''
)

LOAD = '''

def load(text):
    """The pass's file as a module of its own: none of its names is one of this script's."""
    module = types.ModuleType("own_pass")
    module.__file__ = "own_pass.py"
    sys.modules["own_pass"] = module
    linecache.cache["own_pass.py"] = (len(text), None, text.splitlines(True), "own_pass.py")
    exec(compile(text, "own_pass.py", "exec"), module.__dict__)
    return module


'''

PASSES = '''

def flatten(passes):
    nested = (flatten(p.passes) if hasattr(p, "passes") else [p] for p in passes)
    return [p for each in nested for p in each]


def take_passes():
    """The passes of TVM's own pipeline, before those that take host and device apart."""
    taken, real = [], tvm.ir.transform.Sequential
    tvm.ir.transform.Sequential = lambda passes: real(taken.extend(passes) or [])
    tvm.tirx.get_tir_pipeline("default")[0](tvm.IRModule())
    tvm.ir.transform.Sequential = real
    names = [p.info.name for p in flatten(taken)]
    return flatten(taken)[: names.index("s_tir.MergeSharedMemoryAllocations")]


def get_pass(made):
    if isinstance(made, tvm.ir.transform.Pass):
        return made
    free = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(made).parameters.values()
    if all(p.default is not p.empty or p.kind in free for p in parameters):
        made = made()
    if isinstance(made, tvm.ir.transform.Pass):
        return made
    return tvm.transform.module_pass(lambda module, _: made(module), opt_level=0)


def list_whole(made):
    """The passes of a pipeline that takes the place of TVM's, up to the same one."""
    made = made[0] if isinstance(made, tuple) and callable(made[1]) else made
    made = made if isinstance(made, (list, tuple)) else [made]
    own = flatten([get_pass(p) for p in made])
    ends = [i for i, p in enumerate(own) if p.info.name == "s_tir.MergeSharedMemoryAllocations"]
    return own[: ends[0]] if ends else own


def edit(passes):
    if PLACE == "pipeline":
        return list_whole(MADE())
    name, _, number = ANCHOR.lower().partition("#")
    names = [p.info.name.lower() for p in passes]
    places = [i for i, each in enumerate(names) if name in (each, each.split(".")[-1])]
    places = places[int(number) - 1 :][:1] if number else places
    new = [] if PLACE == "drop" else [get_pass(MADE)]
    if PLACE in ("after", "before"):
        at = places[-1] + 1 if PLACE == "after" else places[0]
        return passes[:at] + new + passes[at:]
    return [p for i, each in enumerate(passes) for p in (new if i in places else [each])]


def lower(passes):
    module = from_source(PROGRAM)
    module = module if isinstance(module, tvm.IRModule) else tvm.IRModule({"main": module})
    target = tvm.target.Target(TARGET)
    target = target if TARGET == "llvm" else target.with_host("llvm")
    module = tvm.tirx.transform.BindTarget(target)(module)
    return tvm.transform.Sequential(passes)(module)


without = lower(take_passes())
'''

NUMBERS_END = """

def compute(module, order):
    given = ARRAYS.values()
    arrays = [np.array(values, "float64").astype(get_type(name)) for values, name in given]
    emulate(module["main"], arrays, order)
    return [array.astype("float64") for array in arrays]


changed = lower(edit(take_passes()))
print("# without the change", without.script(), "# with it", changed.script(), sep="\\n")
right = compute(without, 1)
assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(right, compute(without, -1)))
for order, name in ((1, "the first thread first"), (-1, "the last thread first")):
    try:
        got = compute(changed, order)
    except IndexError as error:
        print(f"WRONG: {error}")
        sys.exit(1)
    for parameter, one, other in zip(ARRAYS, right, got):
        wrong = ~((one == other) | (np.isnan(one) & np.isnan(other)))
        if wrong.any():
            print("right:", one.ravel()[:16])
            print("wrong:", other.ravel()[:16])
            print(f"WRONG: {wrong.sum()} of {wrong.size} elements of {parameter}, with {name}")
            sys.exit(1)
print("The result is right here.")
"""

REFUSED_END = """
try:
    lower(edit(take_passes()))
except Exception as error:
    print("WRONG: it is refused:", str(error).strip().splitlines()[-1])
    sys.exit(1)
print("It is not refused here, and ends no process.")
"""
