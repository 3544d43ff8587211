"""What a program of the suite is, and how one is written down."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np
import tvm
from tvm.ir import Call, Op, PrimType
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T

RIGHT, WRONG = "right", "wrong"

RACE = "race"
UNINITIALIZED = "uninitialized read"
BOUNDS = "out of bounds"
BARRIER = "divergent barrier"
SHUFFLE = "divergent shuffle"
WARP = "divergent warp instruction"
MISALIGNED = "misaligned access"
DIVISION = "division by zero"
LAUNCH = "launch"
NUMBERS = "wrong numbers"
INPUT = "input changed"
UNDEFINED = "undefined operation"
MBARRIER = "mbarrier"
DEADLOCK = "deadlock"
PROXY = "missing proxy fence"
FENCE = "missing fence"
UNFINISHED = "unfinished bulk store"
TENSOR_MAP = "tensor map"
KINDS = (
    RACE,
    UNINITIALIZED,
    BOUNDS,
    BARRIER,
    SHUFFLE,
    WARP,
    MISALIGNED,
    DIVISION,
    LAUNCH,
    NUMBERS,
    INPUT,
    UNDEFINED,
    MBARRIER,
    DEADLOCK,
    PROXY,
    FENCE,
    UNFINISHED,
    TENSOR_MAP,
)

SYNC = 'T.tvm_storage_sync("shared")'
Array = np.ndarray
Buffers = Mapping[str, Array]


def copy_where(guard, target, to, source, start, size):
    """A cp.async of float32 that stores zeros where its guard is false: TVM prints, and does not
    parse it."""
    operator = Op.get("tirx.s_tir.cp_async_raw")
    return Call(operator, [target, to, source, start, size, guard], ret_ty=PrimType("float32"))


@dataclass(frozen=True, eq=False)  # compared by identity: they hold arrays
class Program:
    """A lowered module whose status is known by construction.

    Attributes
    ----------
    status : `RIGHT` or `WRONG`
    kind : what is wrong, one of `KINDS`; empty for a right program
    why : one sentence; for a wrong program what goes wrong, for a right one why nothing does
    script : the module as TVMScript, as TVM lowers kernels: flat buffers, launches, barriers
    inputs : by the names of the first parameters
    outputs : by the names of the others, filled with what no program computes
    reference : the outputs in NumPy, from the inputs; a wrong program may have none
    family : the topic, which is its file's name
    arch : the first architecture with all its instructions
    """

    name: str
    status: str
    kind: str
    why: str
    script: str
    inputs: Buffers
    outputs: Buffers
    reference: Callable[..., Array | tuple[Array, ...]] | None
    family: str = ""
    arch: str = "sm_70"

    @property
    def module(self) -> tvm.IRModule:
        """The module, parsed anew: lowering changes some in place."""
        return from_source(self.script, {"I": I, "T": T, "copy_where": copy_where})

    @property
    def expected(self) -> tuple[Array, ...] | None:
        """The outputs of `reference`."""
        if self.reference is None:
            return None
        arrays = self.reference(*(array.copy() for array in self.inputs.values()))
        return arrays if isinstance(arrays, tuple) else (arrays,)

    def make_arguments(self) -> list[Array]:
        """Inputs and blank outputs, copies of one's own."""
        return [array.copy() for array in (*self.inputs.values(), *self.outputs.values())]


@dataclass(frozen=True)
class Launch:
    """One kernel: a body in which bx, by, bz, tx, ty and tz are the block's and thread's indices.

    `threads` and `blocks` are extents of x or of x, y, z.
    """

    body: str
    threads: int | tuple[int, ...] | str = 32
    blocks: int | tuple[int, ...] | str = 1

    def render(self) -> str:
        lines, depth = [], 0
        for axis, short, extents in (("block", "b", self.blocks), ("thread", "t", self.threads)):
            extents = extents if isinstance(extents, tuple) else (extents,)
            for letter, extent in zip("xyz", extents, strict=False):
                launch = f'with T.launch_thread("{axis}Idx.{letter}", {extent}) as {short}{letter}:'
                lines.append("    " * depth + launch)
                depth += 1
        body = textwrap.indent(textwrap.dedent(self.body).strip("\n"), "    " * depth)
        return "\n".join([*lines, body, ""])


def write_module(parameters: str, launches: Sequence[Launch], before: str = "") -> str:
    """The text of a module whose main has these parameters and launches."""
    attributes = '{"tirx.is_entry_func": True, "tirx.noalias": True}'
    body = "\n".join(
        [f"T.func_attr({attributes})", before, *(launch.render() for launch in launches)]
    )
    return (
        "# from tvm.script import ir as I\n"
        "# from tvm.script import tirx as T\n"
        "@I.ir_module\n"
        "class Module:\n"
        "    @T.prim_func(s_tir=True)\n"
        f"    def main({parameters}):\n" + textwrap.indent(body, " " * 8)
    )


def declare(buffers: Buffers) -> str:
    """Parameters for arrays, as TVMScript declares them."""
    return ", ".join(
        f'{name}: T.Buffer(({array.size},), "{array.dtype}")' for name, array in buffers.items()
    )


def right(
    name: str,
    why: str,
    body: str | Sequence[Launch],
    *,
    inputs: Buffers,
    outputs: Buffers,
    expected: Callable[..., Array | tuple[Array, ...]],
    threads: int | tuple[int, ...] = 32,
    blocks: int | tuple[int, ...] = 1,
    arch: str = "sm_70",
    host: str = "",
) -> Program:
    """A right program, of one launch or of several; `host` is what the host does before."""
    launches = [Launch(body, threads, blocks)] if isinstance(body, str) else body
    script = write_module(declare({**inputs, **outputs}), launches, host)
    return Program(name, RIGHT, "", why, script, inputs, outputs, expected, arch=arch)


def wrong(
    name: str,
    kind: str,
    why: str,
    body: str | Sequence[Launch],
    *,
    inputs: Buffers,
    outputs: Buffers,
    expected: Callable[..., Array | tuple[Array, ...]] | None = None,
    threads: int | tuple[int, ...] = 32,
    blocks: int | tuple[int, ...] = 1,
    arch: str = "sm_70",
    host: str = "",
) -> Program:
    """A wrong program; `expected` is what its author meant."""
    launches = [Launch(body, threads, blocks)] if isinstance(body, str) else body
    script = write_module(declare({**inputs, **outputs}), launches, host)
    return Program(name, WRONG, kind, why, script, inputs, outputs, expected, arch=arch)


def whole(size: int, dtype: str = "float32", *, seed: int = 7, low: int = 1) -> Array:
    """Whole numbers from `low` to 99, so that few of them add up without rounding."""
    drawn = np.random.default_rng(seed).integers(low, 100, size)
    return drawn.astype(dtype)


def full(size: int, value: float, dtype: str = "float32") -> Array:
    """An input of one value."""
    return np.full(size, value, dtype)


def blank(size: int, dtype: str = "float32") -> Array:
    """An output: NaN, or an integer that no program computes."""
    if "float" in dtype:
        return np.full(size, np.nan, dtype)
    limits = np.iinfo(dtype)
    return np.full(size, limits.min // 3 or limits.max // 3, dtype)


def family(name: str, programs: Sequence[Program]) -> tuple[Program, ...]:
    """Programs of one topic."""
    return tuple(replace(program, family=name) for program in programs)
