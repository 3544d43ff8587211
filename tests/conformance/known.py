"""Programs of known status, read from the plain TVMScript files in `programs`.

Above each program stand its verdict and what it is run on::

    # wrong, race: nothing orders the load behind the other warp's store
    # missed by the simulator: why it is, where it is
    # needs sm_80
    # n = np.array([3])
    # B == A[::-1]

Each ``=`` gives an input, and ``==`` the outputs that are meant, as NumPy; a line that begins with
more blanks goes on with the one before. An A of which nothing is said is an input of `whole`
numbers. Outputs hold at first what no program computes.

A program that differs from one of these in a few lines is a hunk or more of a unified diff of that
program, in the `.diff` file beside it, or of one above it there. What its head leaves out is as it
is there::

    # LoopWithoutABarrierBeforeItsLoads from LoopWithBothBarriers
    # wrong, race: the loads do not wait for the stores of their own round
    @@ -10 +9,0 @@
    -        T.tvm_storage_sync("shared")

The programs of `programs/drawn` are run on inputs that are drawn for them. What they must compute
is what they compute themselves in float64; of one that differs from another, or has a line
``# reference: NAME``, what that one computes.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np
import tvm
from hunks import apply_hunks
from tvm.ir import Call, Op, PrimType
from tvm.script import from_source
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx

FOLDER = Path(__file__).parent / "programs"
RIGHT, WRONG = "right", "wrong"
AS_WRITTEN = ("wrapped", "tirx", "tcgen05")
"""The families of programs that TVM is yet to lower, which run where `tirstep check` runs them."""
KINDS = (
    "race",
    "uninitialized read",
    "out of bounds",
    "divergent barrier",
    "divergent shuffle",
    "divergent warp instruction",
    "misaligned access",
    "division by zero",
    "launch",
    "wrong numbers",
    "input changed",
    "undefined operation",
    "mbarrier",
    "named barrier",
    "deadlock",
    "missing proxy fence",
    "missing fence",
    "unfinished bulk store",
    "tensor map",
    "tensor memory",
    "trap",
)
_PROGRAM = re.compile(r"(?P<head>(?:^#.*\n)+)^@T\.prim_func.*\ndef (?P<name>\w+)\(", re.MULTILINE)
_PARAMETER = re.compile(r'(\w+): T\.Buffer\((\d+)(?:, "(\w+)")?\)')
Array = np.ndarray


@dataclass(frozen=True)
class Program:
    """A lowered module, or one `AS_WRITTEN`, whose status is known by construction.

    Attributes
    ----------
    family : the topic, which is its file's name
    status : `RIGHT` or `WRONG`
    kind : what is wrong, one of `KINDS`; empty for a right program
    why : what goes wrong, or why nothing does
    missed : why the simulator does not see what is wrong; empty where it does
    arch : the first architecture with all its instructions
    given : inputs, as NumPy, by the names of their parameters
    meant : the outputs, as NumPy in the inputs; empty where no numbers are meant
    text : the function, as TVM lowers kernels: flat buffers, launches, barriers
    reference : the program with the same meaning, of a program whose inputs are drawn
    """

    name: str
    family: str
    status: str
    kind: str
    why: str
    missed: str
    arch: str
    given: dict[str, str]
    meant: str
    text: str
    reference: str = ""

    @property
    def module(self) -> tvm.IRModule:
        """The module, parsed anew: lowering changes some in place."""
        function = from_source(self.text, {"T": T, "Tx": Tx, "copy_where": copy_where})
        for name in ("tirx.is_entry_func", "tirx.noalias"):
            function = function.with_attr(name, True)
        return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})

    def make_arguments(self) -> list[Array]:
        """Inputs and outputs, in the order of the parameters, for a run to change."""
        declared = _PARAMETER.findall(self.text.partition("):")[0])
        if not declared:  # its sizes are open: the output is as long as the input
            (given,) = (_evaluate(value).astype("float32") for value in self.given.values())
            return [given, make_blank(given.size)]
        return [
            _evaluate(self.given[name]).astype(dtype or "float32")
            if name in self.given
            else make_blank(int(size), dtype or "float32")
            for name, size, dtype in declared
        ]

    def find_expected(self) -> tuple[Array, ...] | None:
        """The outputs that are meant; None where no numbers are."""
        if not self.meant:
            return None
        inputs = dict(zip(self.given, self.make_arguments(), strict=False))
        arrays = _evaluate(self.meant, inputs)
        return arrays if isinstance(arrays, tuple) else (arrays,)

    def find_faults(self, arrays: Sequence[Array]) -> list[str]:
        """What is wrong with the arguments after a run."""
        said, count = [], len(self.given)
        if not _agree(arrays[count:], self.find_expected() or ()):
            said.append("wrong numbers")
        if not _agree(arrays, self.make_arguments()[:count]):
            said.append("input changed")
        return said


def copy_where(guard: Any, target: Any, to: Any, source: Any, start: Any, size: Any) -> Call:
    """A cp.async of float32 that stores zeros where its guard is false: TVM prints, and does not
    parse it."""
    operator = Op.get("tirx.s_tir.cp_async_raw")
    return Call(operator, [target, to, source, start, size, guard], ret_ty=PrimType("float32"))


def whole(size: int, *, seed: int = 7, low: int = 1) -> Array:
    """Integers from `low` to 99, so that few of them add up without rounding."""
    return np.random.default_rng(seed).integers(low, 100, size)


def fragments(rows: Array, count: int = 4, *, is_transposed: bool = False) -> Array:
    """What ldmatrix leaves in each lane: of matrix m, rows 8m to 8m + 7 of A, a pair a lane."""
    lanes = np.arange(32)
    held = np.zeros((32, 4, 2), rows.dtype)
    for matrix, part in enumerate(rows.reshape(4, 8, 16)[:count, :, :8]):
        part = part.T if is_transposed else part
        for pair in range(2):
            held[:, matrix, pair] = part[lanes // 4, lanes % 4 * 2 + pair]
    return held.ravel()


def count_steps(number: int) -> int:
    """How often a number is halved, or else trebled with one added, until it is 1."""
    steps = 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else number * 3 + 1
        steps += 1
    return steps


def make_blank(size: int, dtype: str = "float32") -> Array:
    """An output before the run: NaN, or an integer that no program computes."""
    if "float" in dtype:
        return np.full(size, np.nan, dtype)
    limits = np.iinfo(dtype)
    return np.full(size, limits.min // 3 or limits.max // 3, dtype)


def _evaluate(expression: str, inputs: dict[str, Array] | None = None) -> Any:
    names = {"np": np, "whole": whole, "full": np.full}
    names |= {"fragments": fragments, "count_steps": count_steps}
    with np.errstate(all="ignore"):
        return eval(expression, {**names, **(inputs or {})})


def _agree(found: Sequence[Array], wanted: Sequence[Array]) -> bool:
    """Whether arrays are the same in a type that holds all values of the programs."""
    pairs = zip(found, wanted, strict=False)
    wide = ((one.astype("float64"), other.astype("float64")) for one, other in pairs)
    return all(np.array_equal(*pair, equal_nan=True) for pair in wide)


@functools.cache
def read_programs(folder: str = ".") -> tuple[Program, ...]:
    """All programs of a folder, file by file."""
    files = sorted((FOLDER / folder).glob("*.py"))
    return tuple(program for file in files for program in _read_file(file))


def _read_file(file: Path) -> list[Program]:
    text = file.read_text()
    functions = {
        node.name: "\n".join(text.splitlines()[node.lineno - 2 : node.end_lineno])
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    plain = {
        match["name"]: _read_head(
            match["head"].splitlines(),
            Program(match["name"], file.stem, *[""] * 4, "sm_70", {}, "", functions[match["name"]]),
        )
        for match in _PROGRAM.finditer(text)
    }
    assert [*plain] == [*functions], f"{file.name}: a head is missing"
    variants = file.with_suffix(".diff")
    for changed in variants.read_text().split("\n\n") if variants.exists() else []:
        variant = _read_variant(changed, plain)
        plain[variant.name] = variant
    return [*plain.values()]


def _read_variant(text: str, plain: dict[str, Program]) -> Program:
    head, at, hunks = text.partition("@@")
    first, *lines = head.splitlines()
    name, base = re.fullmatch(r"# (\w+) from (\w+)", first).groups()
    changed = apply_hunks(at + hunks.rstrip() + "\n", plain[base].text + "\n", name).rstrip()
    changed = changed.replace(f"def {base}(", f"def {name}(", 1)
    reference = plain[base].reference or base
    return _read_head(lines, replace(plain[base], name=name, text=changed, reference=reference))


def _read_head(head: Sequence[str], base: Program) -> Program:
    """A program with the verdict of its head, and what it says of inputs and outputs."""
    lines = re.sub(r"\n#   +", " ", "\n".join(head)).replace("# ", "").splitlines()
    verdict, why = lines[0].split(": ", 1)
    status, _, kind = verdict.partition(", ")
    missed, arch, meant, reference = "", base.arch, base.meant, base.reference
    given: dict[str, str] = {}
    for line in lines[1:]:
        if line.startswith("missed by the simulator: "):
            missed = line.partition(": ")[2]
        elif line.startswith("reference: "):
            reference = line.partition(": ")[2]
        elif line.startswith("needs "):
            arch = line.removeprefix("needs ")
        elif match := re.match(r"[\w, ]+ == (.*)", line):
            meant = match[1]
        else:
            parameter, value = line.split(" = ", 1)
            given[parameter] = value
    if not base.given or given:  # what the head says of inputs goes before what the base has
        declared = {
            name: size for name, size, _ in _PARAMETER.findall(base.text.partition("):")[0])
        }
        usual = {"A": f"whole({declared['A']})"} if "A" in declared else {}
        given = {name: (usual | given)[name] for name in declared or given if name in usual | given}
    return replace(
        base,
        status=status,
        kind=kind,
        why=why,
        missed=missed,
        arch=arch,
        given=given or base.given,
        meant=meant,
        reference=reference,
    )
