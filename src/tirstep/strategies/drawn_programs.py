"""Draws TIR programs beyond what recipes make: branches, nests, lets, several buffers and types.

A program's text is TVMScript, in one of three forms: loops of a CPU; a kernel of a GPU, with thread
bindings, and shared memory that barriers must order, which TVM puts in; blocks, as schedules have
them. It reads nothing that was not written, stays within its buffers, and no two of its threads
write one element between barriers: as it stands it is right. Every value has a bound of its
magnitude, so that all are whole numbers that are exact in their types: a program's answer is a
matter of its meaning alone, not of its roundings.

What passes forget about memory shows where stores and loads meet. So what computes an element, or
a row of an output in one loop's iteration or thread, is some statements about a few arrays: they
name elements that others have named before, branches ask what they store, and loops run over one
array at several indices, some of them no times at all.

What passes forget about numbers shows at the ends of their types. So rows of `EXPRESSIONS` have
inputs there, NaN among them, and do with them what has one answer alone: those are named in the
attribute `ENDS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

import tvm
from tvm.script import from_source

from .building import build_program

LIMITS = {
    "bool": 1,
    "int8": 127,
    "int16": 2**15 - 1,
    "int32": 2**30,
    "int64": 2**50,
    "float16": 2**11,
    "bfloat16": 2**8,
    "float32": 2**24,
    "float64": 2**50,
}
"""The largest whole number of each type up to which all are exact, or a smaller one."""
NUMBERS = [dtype for dtype in LIMITS if dtype != "bool"]
TYPES = ["float32", "float32", *NUMBERS]
ROW_TYPES = ("float32", "int32", "float32", "int64", "float64", "float16", "int16")
ORDERED_TYPES = ("float32", "int32", "uint8", "int8")
"""Types of rows with values at their limits, which are only compared and copied."""
INPUT, CAP = 4, 60
"""The largest number of an input, and of a buffer of a program's own: what is stored there is cut
off at it.
"""
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17)
THREADS = (2, 4, 5, 8, 16, 32)
LOOPS, KERNEL, BLOCKS = FORMS = ("loops", "kernel", "blocks")
ENDS = "tirstep.ends"
"""The attribute of a function that names parameters whose numbers are at the ends of their types.
"""
RANGE, UNROLL, VECTOR, PARALLEL = "range({})", "T.unroll({})", "T.vectorized({})", "T.parallel({})"
Shape: TypeAlias = tuple[int, ...]
MOST_TURNS = 100
"""Iterations of the loops around a statement of an element or a row."""
SCOPED = ("indices", "buffers", "lets", "arrays", "places", "conditions")

INPUTS = {
    **dict.fromkeys("FG", "float32"),
    **dict.fromkeys("IJ", "int32"),
    **dict.fromkeys("UV", "uint8"),
    "S": "int8",
    "M": "int32",
}
"""Types of the inputs of `EXPRESSIONS`: M has small numbers, the others those at the ends."""
WORDS: dict[str, Sequence[Any]] = {
    "k": (1, 2, 3),
    "d": (3, 5, 7, 10, 24),
    "end": (-1, 0, 1, 2, 5),
    "sign": ("<", "<=", ">", ">="),
    "same": ("<", ">=", "==", "!="),
    "op": "+-",
    "wrapping": "+-*",
    "narrow": ("int8", "uint8", "int16", "uint16"),
    "div": ("floordiv", "floormod", "truncdiv", "truncmod"),
    "round": ("nearbyint", "floor", "ceil", "trunc"),
    "choose": ("Select", "if_then_else"),
    "both": ("And", "Or"),
    "extreme": ("min", "max"),
    "real": ("float32", "float64"),
    "byte": ("$U", "$V", "$U", "$V", "$S"),
    "low": (0, 1, 2, 3),
    "step": (1, 1, 2),
    "large": (2**25, -(2**25), 3 * 2**24),
    "part": (0.25, 0.5, 2, -0.5),
    "bits": (4, 8, 12, 24, 28),
    "mask": (3, 15, 15, 255),
}
"""What a ``$word`` of a template may be. A capital letter is an element of an input, another word
what a `Writer` has or draws under that name; with a number behind it, a word is the same in each
place.
"""
EXPRESSIONS = {
    "float32": """
T.$choose($F1 $sign T.float32($end1), T.float32($end1), $F1)
T.$choose($F1 $sign T.float32($end1), $F1, T.float32($end1))
T.$choose($F1 $sign $G1, $F1, $G1)
T.$choose($F1 $sign $G1, $G1, $F1)
T.if_then_else($F1 == $F1, $F1 * T.float32($k), T.float32($end))
T.Cast("float32", T.Cast("float16", $F))
$F1 - T.Cast("float32", T.Cast("float16", $F1))
T.$round(T.Cast("float32", $M) * T.float32(0.5))
T.floor(T.Cast("float32", $M) / T.float32($d1) * T.float32($d1))
T.$choose($M1 == 0, T.float32($low), T.Cast("float32", $M) * (T.float32(8) / T.Cast("float32", $M1))
  )
T.Cast("float32", $M1) + T.float32($large2) - T.float32($large2)
T.$extreme(T.Cast("float32", $M1), T.Cast("float32", $M1) * T.float32($part))
T.sqrt(T.Cast("float32", $M1) * T.Cast("float32", $M1)) - T.fabs($F)
T.Cast("float32", T.Cast("int32", T.Cast("float32", $M) * T.float32(0.5)))
""",
    "int32": """
T.reinterpret("int32", T.$choose($F1 $sign T.float32(0), $F1, $G))
T.reinterpret("int32", T.Cast("float32", $M) * T.float32(-0.5))
T.Cast("int32", T.Cast("$narrow", T.max(T.min($M * 63, 127), 0)))
T.Cast("int32", T.Cast("$narrow", $I))
T.Cast("int32", T.Cast("$narrow", T.shift_right($I, $k)))
T.Cast("int32", T.Cast("uint8", T.shift_right(T.Cast("int32", $U) + T.Cast("int32", $V) + 1, 1)))
T.Cast("int32", T.Cast("int8", $U))
T.Cast("int32", $byte)
T.Cast("int32", $byte) * T.Cast("int32", $byte) - T.Cast("int32", $byte)
T.bitwise_or(T.shift_left(T.Cast("int32", $byte), 8), T.Cast("int32", $U))
T.shift_right(T.Cast("int32", $U) + T.Cast("int32", $V) + 1, 1)
T.Cast("int32", T.max($byte, T.Cast("$narrow", 1) $op T.Cast("$narrow", 0)))
T.Cast("int32", $U $op $V)
T.$div($I, $d)
T.$div($M, $k)
T.$div($M, $d) $op T.$div($M - 3, $k)
T.$div(T.$div($I, $d), $k)
T.$div($M * $k, $d1) * $d1
T.$extreme(T.$extreme($M, $M), $M)
T.if_then_else($M1 > 0, T.$div($M, $M1), $end)
T.shift_right($I, $k)
T.shift_right(T.shift_left($I, $d1), $d1)
T.shift_left(T.shift_right($I, $k1), $k1)
T.shift_right($I, T.bitwise_and($M, 7))
T.bitwise_and(T.shift_right($I, $bits), $mask)
T.bitwise_and(T.shift_right(T.Cast("int32", $byte), $low), $mask)
T.bitwise_xor(T.bitwise_and(T.shift_right($I, $bits), 15), 8) - 8
T.bitwise_or(T.bitwise_and($I, $J), $M)
T.Cast("int32", T.shift_right(T.Cast("uint32", $I), T.uint32($d)))
T.Cast("int32", T.shift_right(
  T.Cast("uint32", $I) * T.uint32(1664525) + T.uint32(1013904223), T.uint32(9)))
T.$choose($I1 $sign $J1, $I1, $J1)
($i1 + 98300) // $d1 * 3 + ($i1 + 98300) % $d1
($i * 30011 + $d) // $d
T.$div($i1 - $i2, $d)
T.Cast("int32", T.Cast("$real", T.shift_right($I, $k)))
T.Cast("int32", T.$round(T.Cast("$real", $M) * T.$real(0.5)))
""",
    "int64": """
T.Cast("int64", T.$div($J, 2))
T.Cast("int64", T.bitwise_and($J, 255))
T.Cast("int64", T.popcount(T.Cast("uint64", T.bitwise_xor($I, T.bitwise_not($J)))))
T.Cast("int64", $I) $op T.Cast("int64", $J) $op T.int64(5000000000)
T.shift_right(T.Cast("int64", $I) * T.Cast("int64", $J), T.int64($d))
T.Cast("int64", $i) * T.int64(3000000000)
T.Cast("int64", ($i * 30011) % $d)
T.Cast("int64", T.Cast("uint32", $I) $wrapping T.Cast("uint32", $J))
""",
    "bool": """
$F $sign $G
$F $sign T.float32($end)
T.fabs($F) $sign T.float32($end)
T.Cast("float32", $M) / T.Cast("float32", $M * 2 + 1) $sign T.float32($end) $op T.float32(0.25)
$F $op $G $sign T.float32(0)
T.$both($F $sign $G, $F $sign T.float32($end))
$I $sign $J
$I $same $end
$U $sign $V
$U $op $V $sign T.uint8($low)
T.Cast("int32", $byte) $op T.Cast("int32", $byte) $sign $end
T.Cast("int32", $byte) $sign T.Cast("int32", $byte)
T.Cast("int64", $I) $sign T.Cast("int64", $J)
T.Cast("int64", $I) * T.Cast("int64", $J) $sign T.int64(2147483647)
T.Cast("uint32", $I) $op T.uint32($k) $sign T.uint32($d)
T.$div($M, $k) $same $end
T.$div($I, $d) $sign $end
T.shift_right($I, $k) $same $end
$M * $k $sign $end
$M $op $M $sign $k
""",
}
"""What is stored to outputs of each type, and what branches ask."""
WRAPS = "$U $op $V"
STATEMENTS = {
    "store": "$place = $value",
    "swap": "$x1: T.let[T.$type] = $place1; $place1 = $place2; $place2 = $x1",
    "hold": "$register1 = $place1; $place1 = $value; $place2 = $register1",
    "copy": "$place1 = $place2; $place3 = $place1",
    "append": "$last = $value; $count = $count + $step",
    "sum": "$total = $total $op $value",
    "clamp": "$total = T.$extreme($total $op $value, $number)",
}
"""What is done with arrays, without other statements within."""
STORED = ["$place", "$number", "$read", *["T.$choose($condition, $place, $place)"] * 2]
"""What is stored; where numbers are not at the ends, what an element becomes, too."""


class Choice(Protocol):
    """What draws."""

    def one(self, values: Sequence[Any], label: str) -> Any:
        """One of the values."""


@dataclass(frozen=True)
class Value:
    """The text of an expression, and the largest magnitude that it can have."""

    text: str
    dtype: str
    bound: int


@dataclass(frozen=True)
class Buffer:
    """A buffer, or a part of it.

    Attributes
    ----------
    shape : of the part
    scope : as TVM has it
    front : the first indices, which the part has in common
    """

    name: str
    dtype: str
    shape: Shape
    bound: int = CAP
    scope: str = "global"
    front: tuple[str, ...] = ()

    def at(self, *places: str) -> str:
        """The text of an element."""
        return f"{self.name}[{', '.join((*self.front, *places))}]"


@dataclass(frozen=True)
class Index:
    """An integer expression, and the number of its values: 0 to ``extent - 1``."""

    text: str
    extent: int


def draw_program(choice: Choice, form: str | None = None) -> tvm.IRModule:
    """A program of one function ``main``, of one of `FORMS`."""
    drawn = form or choice.one((LOOPS, LOOPS, KERNEL, KERNEL, BLOCKS), "form")
    return build_program(Writer(choice, drawn).write())


def parse_program(text: str) -> tvm.IRModule:
    """The module of a text of one function, or of a module."""
    made = from_source(text)
    return made if isinstance(made, tvm.IRModule) else tvm.IRModule({"main": made})


def unflatten(text: str, shape: Sequence[int]) -> list[str]:
    """The indices of an element by its number in row-major order."""
    places, step = list[str](), 1
    for extent in reversed(shape):
        place = text if step == 1 else f"{text} // {step}"
        step *= extent
        places.insert(0, place if step == math.prod(shape) else f"{place} % {extent}")
    return places


class Writer:
    """Writes a program.

    Attributes
    ----------
    indices, buffers, lets : what is in scope: loop variables and what is made of them, buffers that
        may be read, and values with a name
    arrays, places, conditions : what statements store to, all of one type, and what they have named
    turns : of the loops around a statement, within its element or row
    is_vector : in a vectorized loop, where nothing but a store may stand
    is_serial : whether all loops are, which some passes ask for
    is_bound, terms, guards : of blocks: whether their loops are bound to a GPU; of one, how many
        terms its sum has, None of none, and where it runs
    thread, threads, grid : of a kernel: the number of a thread, and how many there are
    owners : of a kernel: the condition of threads that store alone, their number, and the element
    has_count : whether there is a parameter ``n``, of an integer that may be 0 or below
    rows, at_ends : the parameters of rows, and those whose numbers are at the ends of their types
    row, tag, height, width : of rows: the number of one, their name, how many there are, and of how
        many elements
    count, total : of a row: the registers that count and add up
    is_ordered : whether arrays have numbers at the ends of their types
    shifted : the indices of loops that do not begin at 0
    """

    def __init__(self, choice: Choice, form: str) -> None:
        self.one, self.form = choice.one, form
        self.lines: list[str] = []
        self.depth, self.fresh_count = 1, 0
        self.indices: list[Index] = []
        self.buffers: list[Buffer] = []
        self.lets: list[Value] = []
        self.arrays: list[Buffer] = []
        self.places: list[str] = []
        self.conditions: list[str] = []
        self.turns = 1
        self.is_vector = False
        self.is_bound = form == BLOCKS and self.is_so(2, "bound")
        self.is_serial = form == LOOPS and self.is_so(4, "serial")
        self.terms: int | None = None
        self.guards: list[str] = []
        self.thread, self.threads, self.grid = Index("tx", 1), 1, 1
        self.owners, self.has_count = ("", 0, ""), False
        self.rows: dict[str, Buffer] = {}
        self.at_ends: dict[str, None] = {}
        self.row, self.tag, self.height, self.width = "", "", 0, 0
        self.count, self.is_ordered = "", False
        self.total: str | None = None
        self.shifted: set[str] = set()

    def write(self) -> str:
        """The whole text."""
        count = self.one((1, 2, 2), "inputs")
        inputs = [Buffer(name, self.dtype(), self.shape(), INPUT) for name in "AB"[:count]]
        if self.is_so(4, "truths"):
            inputs.append(Buffer("P", "bool", self.shape(), 1))
        self.has_count = self.form != BLOCKS and self.is_so(3, "count")
        count = self.one((1, 1, 2), "outputs")
        outputs = [Buffer(name, self.dtype(), self.shape()) for name in "CD"[:count]]
        self.buffers = list(inputs)
        attributes = ['"tirx.noalias": True'] * self.is_so(2, "noalias")
        if self.form == KERNEL:
            is_one = self.is_so(3, "kernel")
            for part in [outputs] if is_one else [[output] for output in outputs]:
                self.kernel(part)
        else:
            if self.form == LOOPS and self.is_so(2, "total"):
                made = self.allocate("E", self.dtype(), (1,), "global")
                self.sum_up(replace(made, shape=(), front=("0",)))
                self.buffers.append(made)
            for _ in range(self.one((0, 1, 1, 2), "between")):
                self.compute(self.allocate("E", self.dtype(), self.shape(), "global"))
            for output in outputs:
                self.compute(output)
            for _ in range(0 if self.form == BLOCKS else self.one((3, 4, 5, 6), "rows of outputs")):
                self.write_rows()
        named = [*inputs, *outputs, *self.rows.values()]
        parameters = [f'{it.name}: T.Buffer({it.shape}, "{it.dtype}")' for it in named]
        parameters += ["n: T.int32"] * self.has_count
        if self.at_ends:
            names = ", ".join(f'"{name}"' for name in self.at_ends)
            attributes.append(f'"{ENDS}": [{names}]')
        if attributes:
            self.lines.insert(0, f"    T.func_attr({{{', '.join(attributes)}}})")
        decorator = "@T.prim_func(s_tir=True)" if self.form == BLOCKS else "@T.prim_func"
        head = ["# from tvm.script import tirx as T", decorator]
        return "\n".join([*head, f"def main({', '.join(parameters)}):", *self.lines, ""])

    # What draws and writes.

    def is_so(self, among: int, label: str) -> bool:
        """True once in `among` times."""
        return bool(self.one(range(among), label) == 0)

    def dtype(self) -> str:
        """A type of a buffer."""
        return str(self.one(TYPES, "type"))

    def shape(self) -> Shape:
        """A shape of one, two or three dimensions."""
        count = self.one((1, 1, 2, 2, 3), "dimensions")
        extents = EXTENTS if count < 3 else EXTENTS[:6]
        drawn = tuple(self.one(extents, "extent") for _ in range(count))
        # TVM prints an element of a parameter of one element as its name, which does not parse.
        return drawn if drawn != (1,) else (2,)

    def say(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        self.fresh_count += 1
        return f"{stem}{self.fresh_count}"

    @contextmanager
    def within(self, line: str, *indices: Index) -> Iterator[None]:
        """The lines within a loop or a branch, and what is in scope there."""
        self.say(line)
        kept = {name: getattr(self, name) for name in (*SCOPED, "is_vector", "turns")}
        vars(self).update({name: [*kept[name]] for name in SCOPED})
        self.indices += indices
        self.turns *= math.prod(index.extent for index in indices)
        self.is_vector = self.is_vector or "T.vectorized" in line
        self.depth += 1
        yield
        self.depth -= 1
        vars(self).update(kept)

    @contextmanager
    def loop(self, extent: int, kind: str = RANGE, text: str = "") -> Iterator[Index]:
        """The lines within a loop; the text of an extent may have fewer iterations."""
        index, kind = Index(self.fresh("i"), extent), RANGE if self.is_serial else kind
        with self.within(f"for {index.text} in {kind.format(text or extent)}:", index):
            yield index

    def unshared(self) -> list[Buffer]:
        """Those that TVM takes in a condition of a branch."""
        return [each for each in self.buffers if not each.scope.startswith("shared")]

    def allocate(self, stem: str, dtype: str, shape: Shape, scope: str = "local") -> Buffer:
        """A new buffer in a scope."""
        made = Buffer(self.fresh(stem), dtype, shape, CAP, scope)
        kind = "sblock_alloc" if self.form == BLOCKS else "alloc"
        self.say(f'{made.name} = T.{kind}_buffer({shape}, "{dtype}", scope="{scope}")')
        return made

    # Nests of loops and blocks.

    def compute(self, output: Buffer) -> None:
        """All of a buffer, which may be read from then on."""
        self.terms = self.one((None, None, 2, 4, 5), "terms")
        self.nest(output)
        self.buffers.append(output)

    def nest(self, output: Buffer, places: tuple[str, ...] = ()) -> None:
        """Loops over the dimensions of a buffer that have no place yet, and what they store."""
        at = len(places)
        if at == len(output.shape):
            (self.block if self.form == BLOCKS else self.element)(output, places)
            return
        extent, is_last = output.shape[at], at + 1 == len(output.shape)
        is_bound = self.is_bound and at < 2
        kinds = ("plain", "plain", "split", "split", "fuse", "vector", "unroll")
        kind = "split" if is_bound else self.one(kinds, "loop")
        if kind == "fuse" and not is_last:
            other = output.shape[at + 1]
            with self.loop(extent * other) as fused:
                pair = f"({fused.text} // {other})", f"({fused.text} % {other})"
                self.indices += [Index(pair[0], extent), Index(pair[1], other)]
                self.nest(output, (*places, *pair))
        elif kind == "split":
            by = self.one((1, 2, 4, 8) if is_bound else (2, 3, 4, 8), "by")
            count, inner = -(-extent // by), self.loop_kind("vector", by, is_last=is_last)
            bound = 'T.thread_binding({}, thread="%sIdx.' + "xyz"[at] + '")'
            ways = (bound % "block", bound % "thread") if is_bound else (RANGE, inner)
            with self.loop(count, ways[0]) as outer, self.loop(by, ways[1]) as within:
                index = Index(f"({outer.text} * {by} + {within.text})", extent)
                with self.guarded(index, needed=count * by != extent):
                    self.nest(output, (*places, index.text))
        else:
            with self.loop(extent, self.loop_kind(kind, extent, is_last=is_last)) as plain:
                self.nest(output, (*places, plain.text))

    def loop_kind(self, kind: str, extent: int, *, is_last: bool) -> str:
        """How a loop runs."""
        is_map = self.form != BLOCKS or self.terms is None
        if kind == "vector" and is_last and is_map and extent in (2, 3, 4, 8):
            return VECTOR if self.is_so(2, "vector") else RANGE
        if kind == "unroll" and extent <= 8:
            return UNROLL
        return PARALLEL if self.depth == 1 and self.is_so(4, "parallel") else RANGE

    @contextmanager
    def guarded(self, index: Index, *, needed: bool) -> Iterator[None]:
        """Where an index is within its extent, which it may not be."""
        condition = f"{index.text} < {index.extent}"
        with ExitStack() as stack:
            if needed and self.form == BLOCKS:
                self.guards.append(condition)
            elif needed:
                stack.enter_context(self.within(f"if {condition}:"))
            self.indices.append(index)
            yield
            self.guards = [each for each in self.guards if each != condition]

    def block(self, output: Buffer, places: Sequence[str]) -> None:
        """A block within its loops: a map, or a sum."""
        with ExitStack() as stack:
            terms = self.terms
            bindings = [("spatial", *each) for each in zip(output.shape, places, strict=True)]
            if terms is not None:
                for count in (terms, 2)[: self.one((1, 2), "axes of a sum")]:
                    bindings.append(("reduce", count, stack.enter_context(self.loop(count)).text))
            stack.enter_context(self.within(f'with T.sblock("{self.fresh(output.name)}"):'))
            self.indices = []
            for kind, extent, binding in bindings:
                axis = Index(self.fresh("v"), extent)
                self.say(f"{axis.text} = T.axis.{kind}({extent}, {binding})")
                self.indices.append(axis)
            if self.guards:
                self.say(f"T.where({' and '.join(self.guards)})")
            target = output.at(*(axis.text for axis in self.indices[: len(places)]))
            if terms is None:
                self.store(target, output)
                return
            start, form = self.reduction(output.dtype, "{0} + {1}", "{0} - {1}")
            self.say("with T.init():")
            self.say(f"    {target} = {start.text}")
            value = self.capped(self.expression(output.dtype, 2), CAP // 10)
            self.say(f"{target} = {form.format(target, value.text)}")

    # Elements and rows: statements about a few arrays.

    def element(self, output: Buffer, places: Sequence[str]) -> None:
        """What computes one element: a store, and mostly some statements about it."""
        own = replace(output, shape=(), front=tuple(places))
        if self.is_vector:
            self.store(own.at(), own)
            return
        if self.is_so(3, "let"):
            dtype = self.dtype()
            value = self.expression(dtype, self.one((1, 2), "depth"))
            # TVM refuses most lets of that type, and LLVM ends the process at a choice within one.
            if dtype != "bfloat16" and "T.bfloat16(" not in value.text:
                self.lets.append(replace(value, text=self.fresh("x")))
                self.say(f"{self.lets[-1].text}: T.let[T.{dtype}] = {value.text}")
        if self.one((False, False, False, True, True), "sum"):
            self.sum_up(own)
        else:
            self.store(own.at(), own)
        self.count, self.total, self.is_ordered = "", None, False
        self.turns, self.arrays = 1, [own]
        for _ in range(self.one((0, 1, 1, 2), "statements")):
            self.statement(1)

    def reduction(self, dtype: str, *sums: str) -> tuple[Value, str]:
        """What a reduction begins with, and what it does: a sum, or now and then an extreme."""
        if not self.is_so(4, "extreme"):
            return self.constant(dtype), self.one(sums, "term")
        name, end = self.one((("max", -CAP), ("min", CAP)), "extreme")
        return Value(f"T.{dtype}({end})", dtype, CAP), f"T.{name}({{0}}, {{1}})"

    def sum_up(self, output: Buffer) -> None:
        """A reduction in a register or in the output itself."""
        dtype, target, own = output.dtype, output.at(), output.at()
        if self.is_so(2, "register"):
            dtype = "float32" if "float" in dtype else "int32"
            target = self.allocate("R", dtype, (1,)).at("0")
        terms = self.one((2, 3, 4, 5, 8), "terms")
        sums = [*["{0} + {1}"] * 2, "{0} - {1}", "{1} - {0}"]
        sums += ["{0} * 2 + {1}"] * (2**terms * INPUT * 2 <= LIMITS[dtype])  # Horner's rule
        start, form = self.reduction(dtype, *sums)
        scale = 2**terms if "*" in form else 1
        self.say(f"{target} = {start.text}")
        bounds = self.bounds(terms) if self.is_so(3, "open") else ""
        runs = RANGE if bounds else self.one((RANGE, RANGE, UNROLL), "runs")
        with self.loop(terms, runs, bounds), ExitStack() as stack:
            if self.is_so(4, "guarded term"):
                stack.enter_context(self.within(f"if {self.condition(0)}:"))
            most = max(1, (LIMITS[dtype] - start.bound * scale) // max(terms, scale))
            value = self.capped(self.expression(dtype, 2), most)
            self.say(f"{target} = {form.format(target, value.text)}")
        total = Value(target, dtype, start.bound * scale + max(terms, scale) * value.bound)
        made = self.cast(self.capped(total, output.bound), output.dtype)
        assert made is not None
        self.say(f"{own} = {made.text}")

    def write_rows(self) -> None:
        """The rows of some outputs, each one loop's iteration, or one thread's."""
        self.tag, most = self.fresh("r"), self.grid * self.threads
        rows = self.one((most, max(2, most - 1)) if self.form == KERNEL else (2, 3, 5), "rows")
        kind = RANGE if self.is_serial else self.one((RANGE, RANGE, PARALLEL, UNROLL), "rows")
        self.row, line = self.tag, f"for {self.tag} in {kind.format(rows)}:"
        if self.form == KERNEL:
            self.row = f"bx * {self.threads} + {self.thread.text}"
            line = f"if {self.row} < {rows}:"
        self.height, self.width = rows, self.one((3, 4, 5, 6, 8), "width")
        with self.within(line):
            self.indices, self.turns, self.buffers = [], 1, self.unshared()
            self.one((self.write_arrays, self.write_numbers), "row")()
        self.row = ""

    def parameter(self, stem: str, dtype: str, *, is_at_ends: bool = False) -> Buffer:
        """The row of a parameter."""
        whole = Buffer(stem + self.tag, dtype, (self.height, self.width))
        self.rows[whole.name] = whole
        if is_at_ends:
            self.at_ends[whole.name] = None
        return replace(whole, shape=(self.width,), front=(self.row,))

    def write_numbers(self) -> None:
        """Outputs of some expressions, and of branches."""
        known = {
            key: text.replace("\n  ", "").split("\n")[1:-1] for key, text in EXPRESSIONS.items()
        }
        types = ("float32", "int32", "int32", "int64")
        drawn = [self.one(types, "type") for _ in range(self.one((3, 4, 5), "expressions"))]
        with self.loop(self.width):
            for dtype in [*drawn, *["bool"] * self.one((1, 2, 3), "branches")]:
                # In C, which CUDA is, sums of bytes do not wrap around before they are stored.
                fitting = [it for it in known[dtype] if self.form != KERNEL or WRAPS not in it]
                made = self.fill(self.one(fitting, "template"))
                output = self.parameter(self.fresh("O"), "int32" if dtype == "bool" else dtype)
                place = output.at(self.index(self.width))
                if dtype != "bool":
                    self.say(f"{place} = {made}")
                    continue
                for line, number in ((f"if {made}:", "$k"), ("else:", "$end")):
                    with self.within(line):
                        self.say(f"{place} = {self.fill(number)}")

    def write_arrays(self) -> None:
        """Statements about a few arrays: rows of outputs, and registers."""
        self.is_ordered = self.is_so(4, "ordered")
        dtype = str(self.one(ORDERED_TYPES if self.is_ordered else ROW_TYPES, "type"))
        names = self.one((("Y",), ("Y", "Z")), "arrays")
        arrays = [self.parameter(it, dtype, is_at_ends=self.is_ordered) for it in names]
        # All of them begin outside of branches: TVM allocates twice what does not.
        self.count, self.total = self.allocate("N", "int32", (1,)).at("0"), None
        self.say(f"{self.count} = 0")
        if not self.is_ordered and LIMITS[dtype] >= LIMITS["float32"]:
            self.total = self.allocate("R", dtype, (1,)).at("0")
            self.say(f"{self.total} = T.{dtype}(0)")
        lengths = [self.one((1, 2, self.width), "length") for _ in range(4)]
        count = self.one((1, 2), "registers")
        registers = [self.allocate("L", dtype, (length,)) for length in lengths[:count]]
        if self.is_so(3, "square"):
            registers.append(self.allocate("L", dtype, (4, self.width)))
        kept = registers[: self.one((1, 2, 2), "registers that are read in the end")]
        views = list[Buffer]()
        if self.is_so(6, "view"):  # of the same memory, which most passes forget about
            name, of = self.fresh("V"), registers[0]
            self.say(
                f'{name} = T.decl_buffer({of.shape}, "{dtype}", data={of.name}.data, scope="local")'
            )
            views.append(replace(of, name=name))
        count = self.one((2, 3, 4), "temporaries")
        temporaries = [self.allocate("T", dtype, (length,)) for length in lengths[2:count]]
        count = 2 * self.is_so(3, "handed on")
        handed = [self.allocate("K", dtype, (1,)).at("0") for _ in range(count)]
        self.arrays = arrays[:1]
        for array in (*arrays, *registers):  # from the input, or from what is filled before
            with ExitStack() as stack:
                *front, last = array.shape
                runs = self.loop_kind("vector", last, is_last=self.form == LOOPS)
                loops = [*[(extent, RANGE) for extent in front], (last, runs)]
                places = [stack.enter_context(self.loop(*each)).text for each in loops]
                first = array is arrays[0] or self.is_so(2, "from the input")
                self.say(f"{array.at(*places)} = {self.read() if first else self.place()}")
            self.arrays += [array] * (array not in self.arrays)
        if handed:
            self.hand_on(*handed)
        self.arrays += views
        self.one((partial(self.chain, temporaries), partial(self.statements, 3)), "how")()
        with self.loop(self.width) as index:  # what is left in registers counts, too
            for made in kept:
                *front, last = made.shape
                ends = [str(self.one(range(extent), "row")) for extent in front]
                output = self.parameter(f"O{made.name}", dtype, is_at_ends=self.is_ordered)
                self.say(f"{output.at(index.text)} = {made.at(*ends, f'{index.text} % {last}')}")
            if self.total is not None:
                self.say(f"{self.parameter('O', dtype).at(index.text)} = {self.total}")

    def hand_on(self, one: str, other: str) -> None:
        """A loop whose iterations hand a register on; after its last use another one is used."""
        self.say(f"{one} = {self.read()}")
        with self.loop(self.width) as index:
            rows = [it.at(index.text) for it in self.arrays if it.shape == (self.width,)]
            first, last = (self.one(rows, "array") for _ in range(2))
            self.say(f"{first} = {self.changed(first, one)}")
            self.say(f"{one} = {self.changed(one, self.read())}")
            self.say(f"{other} = {self.read()}")
            self.say(f"{last} = {self.changed(last, other)}")

    def chain(self, temporaries: Sequence[Buffer]) -> None:
        """Adjacent loops over the same indices, whose stores and loads are of near elements; some
        of them through temporaries, which are stored in each iteration before they are loaded.
        """
        arrays = [it for it in self.arrays if len(it.shape) == 1]
        ends = ((f"1, {self.width}", "- 1"), (f"{self.width - 1}", "+ 1"))
        bounds, shift = self.one(ends, "bounds")
        for _ in range(self.one((1, 2, 2, 3), "loops")):
            if self.is_so(4, "pairs"):  # of adjacent elements
                with self.loop(self.width // 2) as index:
                    long = [it for it in arrays if it.shape[0] == self.width]
                    array, at = self.one(long, "array"), index.text
                    other = self.one((f"{at} * 3 % {self.width}", f"{at} + 1", at, "0"), "other")
                    self.say(f"{array.at(f'{at} * 2')} = {self.read()}")
                    self.say(f"{array.at(f'{at} * 2 + 1')} = {self.changed(array.at(other))}")
                continue
            if self.is_so(4, "relay"):  # each statement loads what the one before it stores
                with self.loop(self.width) as index:
                    made, left = self.read(), [*arrays, *temporaries]
                    for _ in range(min(3, len(left))):
                        array = left.pop(self.one(range(len(left)), "array"))
                        target = array.at(f"{index.text} % {array.shape[0]}")
                        self.say(f"{target} = {made}")
                        made = self.changed(target)
                continue
            with self.loop(self.width, text=bounds) as index:
                at, self.places = index.text, []
                near = {
                    1: ("0",),
                    2: (f"{at} % 2", f"{at} % 2", f"({at} + 1) % 2", "0", "1"),
                    self.width: (at, at, f"{at} {shift}", f"{self.width - 1} - {at}"),
                }

                def draw(arrays: Sequence[Buffer], near: Any = near) -> str:
                    array = self.one(arrays, "array")
                    return array.at(self.one(near[array.shape[0]], "near"))

                # What is stored, perhaps to one element, and then loaded.
                if self.is_so(3, "known"):
                    array = [self.one(arrays, "array")]
                    one, other, target = draw(array), draw(array), draw(arrays)
                    self.say(f"{one} = {self.number()}; {other} = {self.read()}")
                    self.say(f"{target} = {self.changed(target, one)}")
                for _ in range(self.one((1, 2, 2, 3, 4), "stores")):
                    is_known = self.places and self.is_so(2, "named before")
                    load = self.one(self.places[-4:], "place") if is_known else draw(arrays)
                    number = self.number()
                    is_temporary = bool(temporaries) and self.is_so(3, "temporary")
                    target = draw(temporaries if is_temporary else arrays)
                    if not is_temporary and self.is_so(6, "accumulated"):
                        target = self.one((target, *self.places[-3:]), "target")
                        with self.loop(self.width) as inner:
                            other = self.one(arrays, "array")
                            each = other.at(f"{inner.text} % {other.shape[0]}")
                            self.say(f"{target} = {self.changed(target, each)}")
                    else:
                        other = self.one((draw(arrays), self.read(), number), "operand")
                        made = self.changed(load, other)
                        self.say(f"{target} = {self.one((load, made, made, number), 'value')}")
                    self.places += [load, target]

    def statements(self, depth: int) -> None:
        """Some statements, which may have others within them."""
        for _ in range(self.one((2, 3, 4) if depth == 3 else (1, 1, 2, 3), "statements")):
            self.statement(depth)

    def statement(self, depth: int, kind: str = "") -> None:
        """One statement, of a kind where one is given."""
        squares = [it for it in self.arrays if len(it.shape) == 2]
        rows = [it for it in self.arrays if len(it.shape) == 1 and it.shape[0] > 2]
        kinds = ["store"] * 4 + ["swap", "copy"]
        kinds += ["hold"] * 2 * any(it.scope == "local" for it in self.arrays)
        kinds += ["append"] * bool(self.count)
        kinds += ["sum", "sum", "sum", "clamp"] * (self.total is not None)
        kinds += ["branch"] * 6 * bool(depth)
        if depth and rows and self.turns == 1:
            kinds += ["let"] * 2 + ["count"] * bool(self.count)
        if depth and self.turns * max(self.width, 4) <= MOST_TURNS:
            kinds += ["loop"] * 4 + ["search"] * bool(self.count)
        kinds += ["square"] * 4 * bool(squares and self.turns == 1 and depth)
        kinds += ["nest"] * 3 * bool(rows and self.turns == 1 and depth)
        kinds += ["sweeps"] * 2 * (len(rows) > 1 and self.turns == 1 and depth > 0)
        match kind or self.one(kinds, "statement"):
            case "loop":
                extent = self.width if self.row else self.one((2, 3, 4), "extent")
                bounds = self.bounds(extent)
                runs = self.one((RANGE, RANGE, UNROLL), "runs") if bounds.isdecimal() else RANGE
                with self.loop(extent, runs, bounds) as index:
                    self.shifted |= {index.text} if "," in bounds else set()
                    if depth > 1 and self.is_so(3, "alone"):
                        kinds = [*["branch"] * 3, *["clamp"] * (self.total is not None)]
                        self.statement(depth - 1, self.one(kinds, "kind"))
                    else:
                        self.statements(depth - 1)
            case "let":  # a value whose element a loop stores before it uses the value
                name, place, array = self.fresh("x"), self.place(), self.one(rows, "array")
                others = [it for it in rows if not place.startswith(it.name)]
                around = ""  # which loads the element before the loop and behind it
                if others and self.is_so(2, "around"):
                    around = self.one(others, "other array").at("0")
                    self.say(f"{around} = {self.changed(around, place)}")
                self.say(f"{name}: T.let[T.{self.type}] = {place}")
                with self.loop(array.shape[0]) as index:
                    self.say(f"{place} = {self.changed(place)}")
                    at = array.at(index.text)
                    self.say(f"{at} = {self.changed(at, name)}")
                if around:
                    self.say(f"{around} = {self.changed(around, place)}")
            case "count":
                array, step = self.one(rows, "array"), self.one((1, 2, 3), "step")
                self.say(f"{self.count} = {self.one((0, 1), 'begin')}")
                with self.within(f"while {self.count} < {array.shape[0]}:"):
                    at = array.at(self.count)
                    self.say(f"{at} = {self.changed(at)}")
                    self.say(f"{self.count} = {self.count} + {step}")
            case "branch" if not kind and self.is_so(6, "one element"):
                asked, place = self.condition(), self.place()
                for line, value in ((f"if {asked}:", self.number()), ("else:", "")):
                    with self.within(line):
                        self.say(f"{place} = {value or self.changed(place)}")
            case "branch" if not kind and self.is_so(6, "states"):
                place, first = self.place(), self.one((0, 1, 2), "state")
                for state in (first, first + 1):  # the first one leads to what the second asks for
                    with self.within(f"if {place} == T.{self.type}({state}):"):
                        self.say(f"{place} = T.{self.type}({state + 1})")
                        self.statements(depth - 1)
            case "branch":
                of_index = kind and self.is_so(2, "of index")
                asked = self.ask(self.indices[-1]) if of_index else self.condition()
                times = 1 if kind else self.one((1, 2), "times")
                for _ in range(times):
                    with self.within(f"if {asked}:"):
                        if self.places and self.is_so(3, "of what it asks"):
                            self.say(f"{self.places[-1]} = {self.changed(self.places[-1])}")
                        elif self.is_so(4, "branch alone"):
                            with self.within(f"if {self.condition()}:"):
                                self.statement(depth - 1)
                        else:
                            self.statements(depth - 1)
                if times == 1 and (kind or self.is_so(2, "else")):
                    with self.within("else:"):
                        self.statements(depth - 1)
            case "nest":  # in which an element is stored several times, each time another value
                (extent,), times = self.one(rows, "array").shape, self.one((2, 3), "extent")
                with self.loop(extent) as one, self.loop(times) as other:
                    both = f"({one.text} + {other.text}) % {extent}"
                    at = self.one((both, both, f"{one.text} // 2", f"{other.text}", "0"), "place")
                    target = self.one([it for it in rows if it.shape[0] == extent], "array").at(at)
                    self.say(f"{target} = {self.one((self.read(), self.changed(target)), 'value')}")
            case "sweeps":  # of two arrays that are made of one another; nothing counts the sweeps
                one = self.one(rows, "array")
                other = self.one([it for it in rows if it is not one], "other array")
                with self.loop(self.one((2, 3), "sweeps")):
                    self.indices = self.indices[:-1]
                    with self.loop(self.width - 1) as index:
                        near = one.at(index.text), one.at(f"{index.text} + 1")
                        self.say(f"{other.at(index.text)} = {self.changed(*near)}")
                    with self.loop(self.width) as index:
                        self.say(f"{one.at(index.text)} = {other.at(index.text)}")
            case "square":  # a nest in which each element is made of a neighbour
                (array,), (rows, columns) = squares, self.one(((1, 0), (0, 1), (1, 1)), "shifts")
                with self.loop(3) as one, self.loop(array.shape[1] - 1) as other:
                    ends = [(it.text, f"{it.text} + 1") for it in (one, other)]
                    of = array.at(ends[0][1 - rows], ends[1][self.one((0, 1), "from")])
                    self.say(f"{array.at(ends[0][rows], ends[1][columns])} = {self.changed(of)}")
            case "search":
                sign = self.one(WORDS["sign"], "sign")
                asked = f"{self.arrays[0].at(self.count)} {sign} {self.number()}"
                self.say(f"{self.count} = 0")
                with self.within(f"while T.And({self.count} < {self.width}, {asked}):"):
                    self.say(f"{self.count} = {self.count} + 1")
            case what:
                for line in self.fill(STATEMENTS[what]).split("; "):
                    self.say(line)

    def bounds(self, most: int) -> str:
        """Those of a loop with as many iterations at most, be it none; all are below `most`."""
        by = self.one((1, 2), "by")
        forms = [f"{most}"] * 4 + [f"{most - 1}", f"{by}, {most}", f"{most // 2}", "0"]
        forms += [f"{by - 1}, {most}, 2"] * 2
        numbers = [each for each in self.unshared() if each.dtype in ("int32", "float32")]
        if numbers:
            data = f"T.Cast('int32', {self.load(self.one(numbers, 'buffer')).text})"
            data = f"T.max(T.min({data}, {most}), 0)"
            forms += [data, f"{data}, {most}"]
        if self.has_count:
            forms += [f"T.max(T.min(n + {self.one(range(-3, 4), 'shift')}, {most}), 0)"] * 2
        for outer in self.indices[-2:]:
            forms += [f"T.min({outer.text}, {most})", *[f"{by} - {outer.text}"] * 2]
            forms += [f"{outer.text} - {by}"] * 2 * (outer.extent <= most)
            if outer.text not in self.shifted:  # CanonicalizeLoop begins the inner one elsewhere
                forms.append(f"{outer.text} + {by}, {most}")
        return str(self.one(forms, "bounds"))

    # What is stored.

    @property
    def type(self) -> str:
        """The type of all arrays."""
        return self.arrays[0].dtype

    def store(self, target: str, output: Buffer) -> None:
        """One store."""
        value = self.expression(output.dtype, self.one((0, 1, 2, 3), "depth"))
        self.say(f"{target} = {self.capped(value, output.bound).text}")

    def place(self) -> str:
        """An element of an array: half of the time one that was named before."""
        if self.places and self.is_so(2, "named before"):
            return str(self.one(self.places[-4:], "place"))
        array = self.one(self.arrays, "array")
        places = [self.index(extent) for extent in array.shape]
        if places and self.count and self.is_so(6, "counted"):
            places[-1] = f"{self.count} % {array.shape[-1]}"
        self.places.append(array.at(*places))
        return self.places[-1]

    def register(self) -> str:
        """An element of a register."""
        array = self.one([it for it in self.arrays if it.scope == "local"], "register")
        return array.at(*map(self.index, array.shape))

    def last(self) -> str:
        """Where the output goes on."""
        return self.arrays[0].at(f"{self.count} % {self.width}")

    def read(self) -> str:
        """An element of a row's input, or of what an element may read."""
        if not self.row:
            return self.capped(self.varied(self.type)).text
        row = self.parameter("X", self.type, is_at_ends=self.is_ordered)
        return row.at(self.index(self.width))

    def value(self) -> str:
        """What is stored to an array."""
        kinds = ["stored"] * 5 + ["changed"] * 4 * (not self.is_ordered)
        kinds += ["expression"] * (1 if self.row else 4) * (not self.is_ordered)
        match self.one(kinds, "value"):
            case "changed":
                return self.changed(self.place())
            case "expression":
                return self.capped(self.expression(self.type, 2)).text
        return self.fill(self.one(STORED, "template"))

    def changed(self, place: str, other: str = "") -> str:
        """What an element becomes, cut off where it may grow."""
        if self.is_ordered:
            return self.fill(f"T.if_then_else({place} == $number, $read, {place})")
        other = other or self.fill(self.one(STORED[:3], "template"))
        pair = [Value(text, self.type, CAP) for text in (place, other)]
        left, right = self.one((pair, pair[::-1]), "order")
        if self.is_so(4, "three terms"):
            left = self.combine("add", left, Value(self.fill("$read"), self.type, CAP))
        return self.capped(self.combine(self.one(("add", "subtract"), "sign"), left, right)).text

    def number(self) -> str:
        """A small number of the arrays' type."""
        return self.constant(self.type).text

    def fill(self, template: str) -> str:
        """A template with all its words drawn, each where it is met."""
        known: dict[str, str] = {}

        def draw(match: re.Match[str]) -> str:
            word = match[1]
            if match[0] in known:
                return known[match[0]]
            if word in INPUTS:
                row = self.parameter(word, INPUTS[word], is_at_ends=word != "M")
                made = row.at(self.index(self.width))
            elif word in WORDS:
                made = self.fill(str(self.one(WORDS[word], word)))
            elif word in ("i", "x"):
                made = self.index(self.width) if word == "i" else self.fresh(word)
            else:
                own = getattr(self, word)
                made = str(own() if callable(own) else own)
            if match[2]:
                known[match[0]] = made
            return made

        return re.sub(r"\$([A-Za-z]+)(\d*)", draw, template)

    # Kernels.

    def kernel(self, outputs: Sequence[Buffer]) -> None:
        """Thread axes, phases that go through shared memory, then each thread's part of outputs."""
        self.grid, threads = self.one((1, 2, 3), "grid"), self.one(THREADS, "threads")
        rows = self.one((1, 1, 1, 2), "rows")
        self.threads = threads * rows
        self.thread = Index("tx" if rows == 1 else f"(ty * {threads} + tx)", self.threads)
        axes = [("bx", self.grid, "blockIdx.x"), ("tx", threads, "threadIdx.x")]
        axes += [("ty", rows, "threadIdx.y")] if rows > 1 else []
        with ExitStack() as stack:
            for name, extent, axis in axes:
                line = f'for {name} in T.thread_binding({extent}, thread="{axis}"):'
                stack.enter_context(self.within(line, Index(name, extent)))
            self.indices += [self.thread] if rows > 1 else []
            half = -(-threads // 2)
            halves = ("tx % 2 == 0", half, "tx // 2"), (f"tx < {half}", half, "tx")
            self.owners = ("tx == 0", rows, "ty") if rows > 1 else self.one(halves, "owners")
            own = self.owners[1]
            for _ in range(self.one((0, 1, 1, 2, 3), "phases")):
                scope = self.one(("shared", "shared", "shared", "shared.dyn"), "scope")
                counts = (self.threads, self.threads, self.threads * 2 + 1, 3, own, own)
                tile = self.one((2, 3, 4, 9), "rows"), self.one((3, 8, 9, 12, 17), "columns")
                shape = tile if self.is_so(3, "tile") else (self.one(counts, "elements"),)
                made = self.allocate("S", self.dtype(), shape, scope)
                self.one((self.write_shared, self.sum_tiles), "fill")(made)
                if made.shape == (own,) and self.is_so(2, "told"):  # at one index, as registers
                    self.say(f'T.evaluate(T.tvm_storage_sync("{scope}"))')
                    read = made.at(self.owners[2])
                    made = self.allocate("R", made.dtype, (1,))
                    self.say(f"{made.at('0')} = {read}")
                self.buffers.append(made)
                if own > 1 and self.is_so(3, "the same owners"):
                    output = Buffer(self.fresh("G"), self.dtype(), (self.grid, own))
                    self.rows[output.name] = output
                    with self.within(f"if {self.owners[0]}:"):
                        self.store(output.at("bx", self.owners[2]), output)
            for output in outputs:
                self.spread(output)
            if self.is_so(4, "histogram"):
                made = Buffer(self.fresh("H"), "int32", (self.one((2, 3, 5), "elements"),))
                self.rows[made.name] = made
                place = made.at(f"{self.thread.text} % {made.shape[0]}")
                added = self.capped(self.operand("int32", 1)).text
                self.say(f"T.evaluate(T.cuda.atomic_add(T.address_of({place}), {added}))")
            for _ in range(self.one((1, 2, 3), "rows of outputs")):
                self.write_rows()

    def write_shared(self, made: Buffer) -> None:
        """All elements of a buffer, each by one thread; a thread may have several or none."""
        count, threads, thread = math.prod(made.shape), self.threads, self.thread
        kept = self.buffers
        self.buffers = self.unshared()
        if made.shape == (self.owners[1],):
            with self.within(f"if {self.owners[0]}:"):
                self.store(made.at(self.owners[2]), made)
        elif made.shape == (threads,):
            shift = self.one(range(threads), "shift")
            turned = f"{threads - 1} - {thread.text}", f"({thread.text} + {shift}) % {threads}"
            self.store(made.at(self.one((thread.text, thread.text, *turned), "element")), made)
        else:
            with self.loop(-(-count // threads), self.one((RANGE, UNROLL), "loop")) as turn:
                index = Index(f"({turn.text} * {threads} + {thread.text})", count)
                with self.guarded(index, needed=True):
                    self.store(made.at(*unflatten(index.text, made.shape)), made)
        self.buffers = kept

    def sum_tiles(self, made: Buffer) -> None:
        """A sum in a register of what goes through shared memory, one tile after the other."""
        dtype = "float32" if "float" in made.dtype else "int32"
        turns, terms = self.one((2, 3, 4), "tiles"), self.one((1, 2, 3), "terms")
        total = self.allocate("R", dtype, (1,))
        self.say(f"{total.at('0')} = {self.constant(dtype).text}")
        with self.loop(turns, self.one((RANGE, RANGE, UNROLL), "loop")):
            self.write_shared(made)
            with self.loop(terms):
                added = f"T.Cast('{dtype}', {made.at(*map(self.index, made.shape))})"
                self.say(f"{total.at('0')} = {total.at('0')} + {added}")
        self.buffers.append(replace(total, bound=CAP * (turns * terms + 1)))

    def spread(self, output: Buffer) -> None:
        """The elements of an output over all threads of all blocks."""
        size, each = math.prod(output.shape), self.grid * self.threads
        times = -(-size // each)
        with self.loop(times, self.one((RANGE, UNROLL), "loop")) as turn:
            own = f"bx * {self.threads} + {self.thread.text}"
            text = f"({turn.text} * {each} + {own})"
            if self.is_so(3, "packed"):
                text = f"(({own}) * {times} + {turn.text})"
            with self.guarded(Index(text, size), needed=times * each != size):
                self.element(output, unflatten(text, output.shape))

    # Expressions.

    def index(self, extent: int) -> str:
        """An index into a dimension."""
        if not self.indices or self.is_so(8, "constant"):
            return str(self.one(range(extent), "constant index"))
        at, by = self.one(self.indices, "index"), self.one(range(1, max(2, extent)), "shift")
        forms = [f"({at.text} + {by}) % {extent}", f"T.min({at.text} + {by - 1}, {extent - 1})"]
        forms.append(f"T.bitwise_xor({at.text}, {by}) % {extent}")
        if apart := self.list_apart(at):  # remainders of numbers below zero, too
            forms.append(f"({at.text} - {self.one(apart, 'index')} + {by}) % {extent}")
        if at.extent <= extent:
            forms += [at.text] * 6 + [f"{extent - 1} - {at.text}", f"{at.text} // 2"]
            forms.append(f"T.max({at.text} - {by}, 0)")
            divisor = self.one((2, 3, 4, 8, max(2, at.extent)), "divisor")
            forms += [f"({at.text} + {by - 1}) // {divisor}"] * (4 if self.is_vector else 1)
        else:
            forms += [f"{at.text} % {extent}", f"{at.text} // {-(-at.extent // extent)}"]
        return str(self.one(forms, "form of index"))

    def list_apart(self, at: Index) -> list[str]:
        """Indices of which one is no part, nor they of it: at such differences TVM ends the process
        (CompactBufferAllocation, where a condition bounds a term that they have in common).
        """
        texts = [each.text for each in self.indices]
        return [text for text in texts if text not in at.text and at.text not in text]

    def load(self, buffer: Buffer) -> Value:
        """A load from a buffer; now and then one that a condition keeps inside of it."""
        beyond = self.is_so(5, "guarded load") and self.reach_beyond(buffer)
        if not beyond:
            return Value(buffer.at(*map(self.index, buffer.shape)), buffer.dtype, buffer.bound)
        other = self.constant(buffer.dtype)
        text = f"T.if_then_else({beyond[0]}, {beyond[1]}, {other.text})"
        return Value(text, buffer.dtype, max(buffer.bound, other.bound))

    def reach_beyond(self, buffer: Buffer) -> tuple[str, str] | None:
        """An element that is outside of a buffer for some indices, and when it is not."""
        *front, last = buffer.shape
        fitting = [each for each in self.indices if each.extent <= last]
        if not fitting:
            return None
        at = self.one(fitting, "index")
        other = self.one(self.list_apart(at) or "1", "other index")
        above = f"{at.text} + {last - at.extent + self.one((1, 2), 'beyond')}"
        below = f"{at.text} - {self.one((1, 2, other), 'below')}"
        near = f"{at.text} + {other} - {self.one((1, 2), 'before')}"
        ways = [(f"{above} < {last}", above), (f"{below} >= 0", below)] * 2
        ways.append((f"T.And({near} >= 0, {near} < {last})", near))
        held = self.one(self.unshared(), "places")
        place = self.cast(Value(held.at(*map(self.index, held.shape)), held.dtype, CAP), "int32")
        if place:  # of data: of no element, where it is below 0
            ways += [(f"T.And({place.text} >= 0, {place.text} < {last})", place.text)] * 2
        condition, reached = self.one(ways, "beyond")
        ends = [self.one((str(it - 1), self.index(it)), "front") for it in front]
        return condition, buffer.at(*ends, reached)

    def constant(self, dtype: str) -> Value:
        """A small number."""
        values: Sequence[Any] = (0, 1, 2, 3) if dtype[0] == "u" else (0, 1, 2, 3, -1, -2)
        number = self.one((True, False) if dtype == "bool" else values, "number")
        return Value(f"T.{dtype}({number})", dtype, abs(int(number)))

    def leaf(self, dtype: str) -> Value:
        """A load, a let, a constant, or a number made of an index."""
        loads = [each for each in self.buffers if each.dtype == dtype]
        lets = [each for each in self.lets if each.dtype == dtype]
        small = [each for each in self.indices if each.extent <= LIMITS[dtype]]
        kind = self.one(("load", "load", "load", "let", "constant", "index", "cast"), "leaf")
        if kind == "let" and lets:
            return self.one(lets, "let")
        if kind == "index" and small and dtype != "bool":
            at = self.one(small, "index")
            return Value(f"T.Cast('{dtype}', {at.text})", dtype, at.extent - 1)
        if kind == "cast" and self.buffers and dtype != "bool":
            made = self.cast(self.load(self.one(self.buffers, "buffer")), dtype)
        else:
            made = self.load(self.one(loads, "buffer")) if kind != "constant" and loads else None
        return made or self.constant(dtype)

    def varied(self, dtype: str) -> Value:
        """A load, in another type where it has to be: not the same for all elements."""
        return self.cast(self.load(self.one(self.buffers, "buffer")), dtype) or self.leaf(dtype)

    def cast(self, value: Value, dtype: str) -> Value | None:
        """The value in another type; None where it may not fit."""
        if value.dtype == dtype:
            return value
        if value.bound > LIMITS[dtype]:
            return None
        return Value(f"T.Cast('{dtype}', {value.text})", dtype, value.bound)

    def operand(self, dtype: str, depth: int) -> Value:
        """What is loaded, or made of others."""
        return self.varied(dtype) if self.is_so(2, "loaded") else self.expression(dtype, depth)

    def expression(self, dtype: str, depth: int) -> Value:
        """A value of a type, made of others."""
        if depth <= 0:
            return self.leaf(dtype)
        if dtype == "bool":
            return Value(self.condition(depth - 1), "bool", 1)
        kinds = ["add", "subtract", "multiply", "extreme", "select", "choice", "leaf", "cast"]
        kinds += ["fraction", "wide", "divide", "divide", *["bits"] * ("float" not in dtype)]
        kind = self.one(kinds, "operator")
        if kind in ("fraction", "wide", "divide", "cast"):
            if kind == "fraction":  # halves are exact, and are cut off
                halves = ("float32", "float64", "float16")
                other = dtype if dtype in halves else self.one(halves, "type")
                value = self.capped(self.operand(other, depth - 1))
                text = f"T.Cast('int32', {value.text} * T.{other}(0.5))"
                made = Value(text, "int32", value.bound // 2)
            elif kind == "wide":  # a product beyond 32 bits, of which the upper ones are left
                sides = [self.capped(self.operand("int32", depth - 1)).text for _ in "ab"]
                large = [f"T.Cast('int64', T.bitwise_xor({side}, 70001))" for side in sides]
                made = Value(f"T.shift_right({' * '.join(large)}, T.int64(27))", "int64", 48)
            elif kind == "divide":  # rounded down or towards zero; of negative numbers, too
                whole = "int32" if "float" in dtype else dtype
                value, by = self.operand(whole, depth - 1), self.one((2, 3, 4, 5, 8), "divisor")
                name = self.one(WORDS["div"], "division")
                bound = by - 1 if name.endswith("mod") else value.bound
                made = Value(f"T.{name}({value.text}, T.{whole}({by}))", whole, bound)
            else:
                made = self.expression(self.one(NUMBERS, "type"), depth - 1)
            return self.cast(made, dtype) or self.leaf(dtype)
        left = self.expression(dtype, depth - 1)
        if kind == "leaf":
            return left
        if kind == "bits":
            names = [("shift_right", 1, left.bound), ("bitwise_and", 7, 7)]
            if left.bound * 4 <= LIMITS[dtype]:
                names.append(("shift_left", 2, left.bound * 4))
            name, by, bound = self.one(names, "bits")
            return Value(f"T.{name}({left.text}, T.{dtype}({by}))", dtype, bound)
        right = self.expression(dtype, depth - 1)
        if kind in ("select", "choice"):  # both are computed, or only the one
            name = "T.Select" if kind == "select" else "T.if_then_else"
            text = f"{name}({self.condition(depth - 1)}, {left.text}, {right.text})"
            return Value(text, dtype, max(left.bound, right.bound))
        return self.combine(kind, left, right)

    def combine(self, kind: str, left: Value, right: Value) -> Value:
        """A sum, difference or product; where that may be too large, the larger of the two."""
        bound = left.bound * right.bound if kind == "multiply" else left.bound + right.bound
        signs = {"add": "+", "subtract": "-", "multiply": "*"}
        if kind in signs and bound <= LIMITS[left.dtype]:
            return Value(f"({left.text} {signs[kind]} {right.text})", left.dtype, bound)
        name = self.one(("T.max", "T.min"), "extreme")
        return Value(f"{name}({left.text}, {right.text})", left.dtype, max(left.bound, right.bound))

    def condition(self, depth: int = 1) -> str:
        """A truth: now and then one that another branch asked for."""
        if self.conditions and self.is_so(3, "asked before"):
            return str(self.one(self.conditions, "condition"))
        made = self.truth(depth)
        self.conditions.append(made)
        return made

    def truth(self, depth: int) -> str:
        """A truth: of indices, which passes know something about, of arrays, or of values."""
        kinds = ["index", "index", *["values", "load", "guarded", "guarded"] * (not self.row)]
        kinds += ["both", "not"] * (depth > 0)
        kinds += ["place"] * 6 * (bool(self.arrays) and not self.is_vector)
        kind = self.one(kinds, "condition")
        truths = [each for each in self.buffers if each.dtype == "bool"]
        if kind == "load" and truths:
            return self.load(self.one(truths, "buffer")).text
        if kind == "not":
            return f"T.Not({self.condition(depth - 1)})"
        if kind == "both":
            name, left = self.one(WORDS["both"], "both"), self.condition(depth - 1)
            return f"T.{name}({left}, {self.condition(depth - 1)})"
        if kind == "place":
            forms = ["$place $sign $number"] * 2 + ["$place $sign $place"]
            forms += ["$place $op $place $sign $number"] * (not self.is_ordered)
            return self.fill(self.one([*forms, *["$count $sign $low"] * bool(self.count)], "asked"))
        sign = self.one(("<", "<=", ">", ">=", "==", "!="), "comparison")
        if kind == "guarded":  # a load that one side keeps inside of its buffer
            made = self.one(self.unshared(), "buffer")
            if made.dtype != "bool" and (beyond := self.reach_beyond(made)):
                return f"T.And({beyond[0]}, {beyond[1]} {sign} T.{made.dtype}(1))"
        if kind == "values" or not self.indices:
            dtype = self.one(NUMBERS, "type")
            return f"{self.leaf(dtype).text} {sign} {self.leaf(dtype).text}"
        return self.ask(self.one(self.indices, "index"))

    def ask(self, at: Index) -> str:
        """A truth of an index: where it is, or what it leaves."""
        sign = self.one(("<", "<=", ">", ">=", "==", "!="), "comparison")
        text = self.one((at.text, at.text, f"{at.text} % 3", f"{at.text} // 2"), "of")
        end = self.one(range(at.extent + 1), "end")
        if self.is_so(2, "two indices"):
            end = f"{self.one(self.indices, 'index').text} {self.one('+-', 'sign')} {end}"
        return f"{text} {sign} {end}"

    def capped(self, value: Value, cap: int = CAP) -> Value:
        """The value, cut off where it may be larger than `cap`."""
        if value.bound <= cap or value.dtype == "bool":
            return value
        low, high = f"T.{value.dtype}({-cap})", f"T.{value.dtype}({cap})"
        return replace(value, text=f"T.max(T.min({value.text}, {high}), {low})", bound=cap)
