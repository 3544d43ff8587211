"""Draws TIR programs beyond what recipes make: branches, nests, lets, several buffers and types.

A program's text is TVMScript, in one of three forms: loops of a CPU; a kernel of a GPU, with thread
bindings, and shared memory that barriers must order, which TVM puts in; blocks, as schedules have
them. It reads nothing that was not written, stays within its buffers, and no two of its threads
write one element between barriers: as it stands it is right. Every value has a bound of its
magnitude, so that all are whole numbers that are exact in their types: a program's answer is a
matter of its meaning alone, not of its roundings.

What passes forget is among it: loops that may have no iteration, conditions of which one side
guards a load of the other, branches that store what their conditions load, stores that later ones
overwrite, neighbouring loops over one buffer at other indices, recurrences, fractions that are cut
off, products beyond 32 bits, and quotients of negative numbers.

Loops and kernels have some idioms of real kernels as well, of `IDIOMS`: each row of an output is
one loop's iteration or one thread's. Their inputs named in the attribute `ENDS` are at the ends of
their types, NaN among them; an idiom does with these what has one answer alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tvm
from tvm.script import from_source

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
INPUT = 4
"""The largest number of an input."""
CAP = 60
"""The largest number in a buffer of a program's own: what is stored there is cut off at it."""
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17)
THREADS = (2, 4, 5, 8, 16, 32)
LOOPS, KERNEL, BLOCKS = FORMS = ("loops", "kernel", "blocks")
ENDS = "tirstep.ends"
"""The attribute of a function that names parameters whose numbers are at the ends of their types.
"""
ROW_TYPES = ("float32", "int32", "float32", "int64", "float64", "float16", "int16")
PARAMETERS = {
    **dict.fromkeys("XYZ", ""),
    **dict.fromkeys("FGP", "float32"),
    **dict.fromkeys("IJMO", "int32"),
    "R": "int64",
    "U": "uint8",
    "V": "uint8",
    "S": "int8",
}
"""Types of an idiom's parameters, "" of those of the drawn type: `OPRYZ` are outputs."""
AT_ENDS = "FGIJUVS"
LOCALS = {"s": "", "t": "", "u": "", "b": "bool", "q": "int32", "f": "float32", "e": "uint32"}
WORDS: dict[str, Sequence[Any]] = {
    "k": (1, 2, 3),
    "shift": ("", " + 1", " + 2", " + 3"),
    "d": (3, 5, 7, 10, 24),
    "end": (-1, 0, 1, 2, 5),
    "cmp": ("<", "<=", ">", ">="),
    "op": "+-",
    "narrow": ("int8", "uint8", "int16", "uint16"),
    "div": ("floordiv", "floormod", "truncdiv", "truncmod"),
    "round": ("nearbyint", "floor", "ceil", "trunc"),
    "choose": ("Select", "if_then_else"),
    "both": ("And", "Or"),
    "i8": ("U", "V", "U", "V", "S"),
}
"""What an idiom's ``$word`` may be; with a number behind it, it is the same in each place."""
IDIOMS = """
s[0] = $v; for i in w { Y[i] <- $v + s[0]; s[0] <- $v - Y[i] }
s[0] = $v; for i in w { s[0] <- $v - s[0]; Y[i] = s[0]; t[0] = $v; Z[i] <- t[0] $op $v }
s[0] = $v; for i in w { t[0] <- s[0] $op X[i]; s[0] = X[i]; Y[i] = t[0] }
for i in w { s[i] = $K } for i in w - 3 { s[i$shift] = $v } for i in w { Y[i] <- s[i] - s[$i] }
for i in w { Y[i] = $K } for i in w - $k { Y[i] = $v }
for i in w { Y[i] = $v } for i in w { if i >= $k1 { Y[i] = X[i - $k1] } }
for i in w { Y[i] = $v } for i in w { if T.And(i >= $k1, i < w - 1) {
  Y[i] <- X[i - $k1] - X[i + 1] } }
for i in w { O[i] = $k } for i in w { if M[i] != 0 { O[i] = T.$div(M[$i], M[i]) } }
for i in w { Y[i] = $v; if Y[i] $cmp1 $K1 { Y[i] <- $v - Y[i] } if Y[i] $cmp1 $K1 {
  Y[i] <- $v - Y[i] } }
s[0] = $v; for i in w { if s[0] $cmp1 $K1 { s[0] <- $v - s[0] } if s[0] $cmp1 $K1 { s[0] = $v }
  Y[i] = s[0] }
for i in w { Y[i] = $v } for i in w { for j in i - $k { Y[i] = X[j] } }
for i in w { s[0] = $v; for j in T.min(M[i], 3) { s[0] = X[j] } Y[i] = s[0] }
for i in w { s[i] = $K } for i in w - $k { s[i] = X[i] } for i in w { Y[i] <- s[i] $op s[$i] }
for i in w { Y[i] = $K } for i in w { for j in w { Y[i] <- Y[i] $op $v } }
for i in w { Y[i] = $K } for i in w - 3 { Y[i$shift] = $v } for i in w - 4 {
  Y[i$shift] <- X[i] - $v }
for i in w { s[0] = $K; for j in w { if T.$both(i $cmp $k1, j $cmp $k2) { if i $cmp $k1 {
  s[0] <- s[0] - $v } } else { if i $cmp $k1 { s[0] <- $v - s[0] } else { if j $cmp $k2 {
  s[0] <- s[0] + $v } } } } Y[i] = s[0] }
for i in w { s[i] = $K } for i in w { if $c { s[i] <- $v - s[$i] } } for i in w { Y[i] = s[i] }
for i in w { Y[i] = $v; if i $cmp $k { Y[i] = $v } else { if i $cmp $k { Y[i] = $v } } }
for i in w { if i < $k { Y[i] = $v } else { if i >= w - 1 { Y[i] = $K } else {
  Y[i] <- X[i - 1] - X[i + 1] } } }
for i in w { if T.Or(i == 0, i > w - 2) { Y[i] = $v } else { if i $cmp $k { Y[i] <- X[i - 1] $op $v
  } else { Y[i] <- X[i + 1] $op $v } } }
for i in w { if T.$both(X[i] $cmp $K, T.Not(X[$i] $cmp $K)) { Y[i] = $v } else { Y[i] = $v } }
for i in w { Y[i] <- T.if_then_else(i >= $k1, X[i - $k1], $K) $op X[i] }
for i in w { Y[i] <- T.if_then_else(T.And(i >= $k1, i < w - 1), X[i - $k1] $op X[i + 1], $v) }
q[0] = T.int32(-2147483648); q[1] = -1; for i in w { if q[0] < M[i] + $k { q[0] = M[i]; q[1] = i }
  } O[0] = q[0]; O[1] = q[1]
q[0] = T.int32(2147483647); for i in w { if q[0] > M[i] - $k { q[0] = M[i] $op $k }; O[i] = q[0] }
q[0] = I[0]; q[1] = 0; for i in w { if I[i] $cmp q[0] { q[0] = I[i]; q[1] = i }; O[i] = q[1] }
f[0] = T.float32("-inf"); q[0] = -1; for i in w { if F[i] $cmp f[0] { f[0] = F[i]; q[0] = i };
  O[i] = q[0]; P[i] = f[0] }
for i in w { P[i] = T.$choose(F[i] $cmp T.float32($end1), T.float32($end1), F[i]) }
for i in w { P[i] = T.$choose(F[i] $cmp T.float32($end1), F[i], T.float32($end1)) }
for i in w { P[i] = T.$choose(F[i] $cmp G[i], F[i], G[i]) }
for i in w { P[i] = T.$choose(F[i] $cmp G[i], G[i], F[i]) }
for i in w { if F[i] $cmp G[i] { P[i] = F[i] } else { P[i] = G[i]; O[i] = i } }
for i in w { O[i] = T.if_then_else(F[i] $cmp G[$i], 0, $k) }
for i in w { O[i] = T.if_then_else(T.$both(F[i] $cmp G[i], F[i] $cmp T.float32($end)), $k, 0) }
for i in w { P[i] = T.if_then_else(F[i] == F[i], F[i] * T.float32($k), T.float32($end)) }
for i in w { P[i] = T.if_then_else(F[i] != G[i], F[i] $op G[i], T.float32($end)) }
for i in w { O[i] = T.reinterpret("int32", T.$choose(F[i] $cmp T.float32(0), F[i], G[i])) }
for i in w { O[i] = T.reinterpret("int32", T.Cast("float32", M[i]) * T.float32(-0.5)) }
for i in w { P[i] = T.Cast("float32", T.Cast("float16", F[i])) }
for i in w { P[i] = F[i] - T.Cast("float32", T.Cast("float16", F[i])) }
for i in w { P[i] = T.$round(T.Cast("float32", M[i]) * T.float32(0.5)) }
for i in w { P[i] = T.floor(T.Cast("float32", M[i]) / T.float32($d1) * T.float32($d1)) }
for i in w { P[i] = T.sqrt(T.Cast("float32", M[i]) * T.Cast("float32", M[i])) - T.fabs(F[i]) }
f[0] = T.float32(16777216); f[1] = T.float32(0); for i in w { f[2] = T.Cast("float32", M[i]) - f[1];
  f[3] = f[0] + f[2]; f[1] = (f[3] - f[0]) - f[2]; f[0] = f[3]; P[i] = f[1] } P[0] = f[0]
for i in w { P[i] = T.Cast("float32", T.Cast("int32", T.Cast("float32", M[i]) * T.float32(0.5))) }
for i in w { O[i] = T.Cast("int32", T.Cast("$narrow", T.max(T.min(M[i] * 63, 127), 0))) }
for i in w { O[i] = T.Cast("int32", T.Cast("$narrow", I[i])); O[$i] = T.Cast("int32", $i8[i]) }
q[0] = 0; for i in w { q[0] = q[0] + T.Cast("int32", $i8[i]) * T.Cast("int32", $i8[$i]);
  O[i] = q[0] }
for i in w { O[i] = T.Cast("int32", U[i]) * T.Cast("int32", V[i]) - T.Cast("int32", $i8[$i]) }
for i in w { O[i] = T.bitwise_or(T.shift_left(T.Cast("int32", $i8[i]), 8), T.Cast("int32", U[i])) }
for i in w { O[i] = T.shift_right(T.Cast("int32", U[i]) + T.Cast("int32", V[i]) + 1, 1) }
for i in w { O[i] = T.Cast("int32", T.max($i8[i], T.Cast("$narrow", 1) $op T.Cast("$narrow", 0))) }
for i in w { O[i] = T.$div(I[i], $d); R[i] = T.Cast("int64", T.$div(J[i], 2)) }
for i in w { O[i] = T.shift_right(I[i], $k); R[i] = T.Cast("int64", T.bitwise_and(J[i], 255)) }
for i in w { O[i] = T.Cast("int32", T.shift_right(T.Cast("uint32", I[i]), T.uint32($d))) }
for i in w { O[i] = T.shift_right(I[i], T.bitwise_and(M[i], 7)); R[i] = T.popcount(
  T.Cast("uint64", T.bitwise_xor(I[i], T.bitwise_not(J[$i])))) }
for i in w { O[i] = T.bitwise_or(T.bitwise_and(I[i], J[i]), M[i]) }
for i in w { R[i] = T.Cast("int64", I[i]) $op T.Cast("int64", J[$i]) $op T.int64(5000000000) }
for i in w { O[i] = T.$div(T.$div(I[i], $d), $k); O[$i] = T.$div(M[i] * $k, $d1) * $d1 }
for i in w { R[i] = T.shift_right(T.Cast("int64", I[i]) * T.Cast("int64", J[$i]), T.int64($d)) }
for i in w { O[i] = T.$choose(I[i] $cmp J[i], I[i], J[i]); R[i] = T.Cast("int64", I[i] $cmp $end) }
e[0] = T.Cast("uint32", M[0]); for i in w { e[0] = e[0] * T.uint32(1664525) + T.uint32(1013904223);
  O[i] = T.Cast("int32", T.shift_right(e[0], T.uint32(9))) }
for i in w { if M[i] != 0 { O[i] = T.$div(20, M[i]) } else { O[i] = $k } }
for i in w { O[i] = T.if_then_else(M[i] > 0, T.$div(M[$i], M[i]), $end) }
for i in w { O[i] = T.$div(M[i], $d) $op T.$div(M[$i] - 3, $k) }
for i in w { Y[i] = $v } for i in w // 2 { s[0] = Y[i]; Y[i] = Y[w - 1 - i]; Y[w - 1 - i] = s[0] }
for i in w { Y[i] = $v } for i in w - 1 { for j in w - 1 { if Y[j] $cmp Y[j + 1] {
  s[0] = Y[j]; Y[j] = Y[j + 1]; Y[j + 1] = s[0] } } }
for i in w { Y[i] = $v } for i in w - 1 { Y[i] <- Y[i + 1] $op $v }
for i in w { Y[i] = $v } for i in w - 1 { Y[i + 1] <- Y[i] $op $v }
for i in w { Y[i] = $v } for i in w { Y[w - 1 - i] <- Y[i] $op X[i] }
Y[0] = $v; for k in 1, w { Y[k] <- Y[k - 1] $op X[k] }
for i in w { Y[i] = $v } for i in w { Y[T.floormod(M[i], w)] <- Y[T.floormod(M[i], w)] $op $v }
for i in w { Y[i] = $v } for i in w { Y[i // 2] = $v; Z[i] = Y[$i] }
q[0] = 0; for i in w { Y[i] = $K } for i in w { if X[i] $cmp $K {
  Y[q[0]] = X[i]; q[0] = q[0] + 1 } }
q[0] = $k; for i in w { O[i] = q[0]; q[0] = q[0] + $d; if $c { q[0] = q[0] * 2 % 1000 } }
for i in w { s[0] = $v; for j in i - $k { s[0] <- s[0] $op $v } Y[i] = s[0] }
for i in w { s[0] = $v; for j in $k - i { s[0] <- $v - s[0] } Y[i] = s[0] }
for i in w { s[0] = $v; for k in i + $k, w { s[0] <- X[k] - s[0] } Y[i] = s[0] }
for i in w { s[0] = $v; for j in T.min(M[i], 3) { s[0] <- X[j] - s[0] } Y[i] = s[0] }
s[0] = $v; for i in w { for j in M[i] - M[$i] { s[0] <- $K - s[0] } Y[i] = s[0] }
q[0] = 0; q[1] = w; while q[0] < q[1] { q[2] = (q[0] + q[1]) // 2; if X[q[2]] $cmp $K {
  q[0] = q[2] + 1 } else { q[1] = q[2] } } O[0] = q[0]
for g in T.int64(w) { Y[g] <- X[g] $op $v; R[g] = g * T.int64(3000000000) }
q[0] = 0; while T.And(q[0] < w, X[q[0]] $cmp $K) { q[0] = q[0] + 1 } O[0] = q[0]
for k in 98300, 98300 + w { O[k - 98300] = k // $d * 3 + k % $d }
for k in 32765, 32765 + w { O[k - 32765] = k // $d; Y[k // $d % w] = X[k % w] }
for i in w { O[i] = (i * 30011 + $d) // $d; R[i] = T.Cast("int64", (i * 30011) % $d) }
Z[0] = $v; for k in 1, w { Y[k] <- X[k] $op Z[k - 1]; Z[k] <- Y[k] $op X[k - 1] }
for i in w { Y[i] = $v } for i in w { Z[i] <- Y[w - 1 - i] - $v }
for i in w { Y[i] = $v; Z[i] = $v } for i in w { Z[i] <- Y[(i + $k) % w] $op Z[$i] }
for i in w { Y[i] = $v } for k in 3 { for i in w - 2 { Z[i + 1] <- Y[i] - Y[i + 2] }
  for i in w - 2 { Y[i + 1] = Z[i + 1] } }
for i in 4 * w { u[i] = $K } for k in 1, 4 { for j in w - 1 { u[k * w + j] <-
  u[(k - 1) * w + j + 1] $op $v } } for i in w { Y[i] <- u[3 * w + i] - u[w + i] }
s[0] = $v; for i in w { if s[0] $cmp $K { Y[i] = $v; s[0] <- s[0] - $v } else {
  s[0] <- s[0] + $v } }
for i in w { Y[i] = $v } for i in w { Y[i] <- Y[$k] - $v; Z[i] = Y[w - 1] }
for i in w { Y[i] = $v } for i in w - 1 { x: T.let[T.D] = Y[i + 1]; Y[i + 1] <- $v - Y[i];
  Z[i] <- x - Y[i + 1] }
for i in w { s[0] = $v; x: T.let[T.D] = s[0]; if $c { s[0] <- $v - x } Y[i] <- x - s[0] }
for i in w { s[0] = $v; t[0] <- s[0] - $v1; s[0] = $v; t[1] <- s[0] - $v1; Y[i] <- t[0] - t[1] }
for i in w { s[0] = $v; t[0] = s[0]; s[0] <- $v - t[0]; t[0] <- s[0] - t[0]; Y[i] = t[0] }
for i in w { s[0] = $v; if $c { s[0] = $v } else { t[0] = $v; s[0] <- t[0] - s[0] } Y[i] = s[0] }
for i in w { s[0] = $v; if $c { t[0] = s[0] } else { t[0] = $v } s[0] = $v; Y[i] <- t[0] - s[0] }
s[0] = $v; for i in w { s[(i + 1) % 2] <- $v - s[i % 2]; Y[i] = s[i % 2] }
for i in w { s[i % 3] = $v; Y[i] = $K; if i >= 2 { Y[i] <- s[i % 3] - s[(i + 1) % 3] } }
for i in w { b[i] = X[i] $cmp $K } for i in w { Y[i] = $v; if T.$both(b[i], T.Not(b[$i])) {
  Y[i] = $v } }
q[0] = 0; for i in w { b[0] = $c; q[0] = q[0] + T.Cast("int32", b[0]); O[i] = q[0] }
s[0] = $K; s[1] = D(0); for i in w { t[0] = T.max(s[0], X[i]); s[1] <- T.Select(s[0] == t[0], s[1],
  D(0)) + T.Select(X[i] == t[0], D(1), D(0)); s[0] = t[0]; Y[i] = s[1] }
for i in w { s[0] = $K; for j in w { for k in 2 { s[0] <- $v - s[0] } } Y[i] = s[0] }
for j in w { Y[j] = $v } for i in w { for j in w { Y[j] <- Y[j] + $v * X[i] } }
for i in w // 2 { Y[i * 2] = $v; Y[i * 2 + 1] <- $v - Y[i * 2] }
"""
"""Each is what one thread does to its row, of `w` elements. What ends with `}` is a loop over a
range, or a branch; `<-` stores what is cut off at `CAP`. Parameters and registers are capital and
small letters, `$v` is a drawn value, `$K` a constant, `$c` a condition, `$i` an index: each place
has its own. The drawn type is `D`.
"""
RANGE, UNROLL, VECTOR, PARALLEL = "range({})", "T.unroll({})", "T.vectorized({})", "T.parallel({})"


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
    """A buffer that can be read; `scope` is as TVM has it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int = CAP
    scope: str = "global"


@dataclass(frozen=True)
class Index:
    """An integer expression, and the number of its values: 0 to ``extent - 1``."""

    text: str
    extent: int

    @property
    def group(self) -> str:
        """The text as an operand."""
        return self.text if self.text.isidentifier() else f"({self.text})"


def draw_program(choice: Choice, form: str | None = None) -> tvm.IRModule:
    """A program of one function ``main``, of one of `FORMS`."""
    drawn = form or choice.one((LOOPS, LOOPS, KERNEL, KERNEL, BLOCKS), "form")
    return parse_program(Writer(choice, drawn).write())


def parse_program(text: str) -> tvm.IRModule:
    """The module of a text of one function, or of a module."""
    made = from_source(text)
    return made if isinstance(made, tvm.IRModule) else tvm.IRModule({"main": made})


class Writer:
    """Writes a program.

    Attributes
    ----------
    indices, buffers, lets : what is in scope: loop variables and what is made of them, buffers that
        may be read, and values with a name
    is_vector : in a vectorized loop, where nothing but a store may stand
    is_bound, terms, guards : of blocks: whether their loops are bound to a GPU; of one, how many
        terms its sum has, None of none, and where it runs
    thread, threads, grid : of a kernel: the number of a thread, and how many there are
    has_count : whether there is a parameter ``n``, of an integer that may be 0 or below
    rows : the parameters of idioms
    """

    def __init__(self, choice: Choice, form: str) -> None:
        self.choice, self.form = choice, form
        self.lines: list[str] = []
        self.depth, self.count = 1, 0
        self.indices: list[Index] = []
        self.buffers: list[Buffer] = []
        self.lets: list[Value] = []
        self.is_vector = False
        self.is_bound = form == BLOCKS and self.is_so(2, "bound")
        self.terms: int | None = None
        self.guards: list[str] = []
        self.thread, self.threads, self.grid = Index("tx", 1), 1, 1
        self.has_count = False
        self.rows: list[Buffer] = []

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
            self.kernel(outputs)
        else:
            alloc = "T.sblock_alloc_buffer" if self.form == BLOCKS else "T.alloc_buffer"
            for _ in range(self.one((0, 1, 1, 2), "between")):
                made = Buffer(self.fresh("E"), self.dtype(), self.shape())
                self.say(f'{made.name} = {alloc}({made.shape}, "{made.dtype}")')
                self.compute(made)
            for output in outputs:
                self.compute(output)
            for _ in range(0 if self.form == BLOCKS else self.one((3, 4, 5, 6), "idioms")):
                self.idiom()
        named = [*inputs, *outputs, *self.rows]
        parameters = [f'{it.name}: T.Buffer({it.shape}, "{it.dtype}")' for it in named]
        parameters += ["n: T.int32"] * self.has_count
        if names := [f'"{it.name}"' for it in self.rows if it.name[0] in AT_ENDS]:
            attributes.append(f'"{ENDS}": [{", ".join(names)}]')
        if attributes:
            self.lines.insert(0, f"    T.func_attr({{{', '.join(attributes)}}})")
        decorator = "@T.prim_func(s_tir=True)" if self.form == BLOCKS else "@T.prim_func"
        head = ["# from tvm.script import tirx as T", decorator]
        return "\n".join([*head, f"def main({', '.join(parameters)}):", *self.lines, ""])

    # What draws and writes.

    def one(self, values: Sequence[Any], label: str) -> Any:
        """One of the values."""
        return self.choice.one(values, label)

    def is_so(self, among: int, label: str) -> bool:
        """True once in `among` times."""
        return bool(self.one(range(among), label) == 0)

    def dtype(self) -> str:
        """A type of a buffer."""
        return str(self.one(TYPES, "type"))

    def shape(self) -> tuple[int, ...]:
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
        self.count += 1
        return f"{stem}{self.count}"

    @contextmanager
    def within(self, line: str, *indices: Index) -> Iterator[None]:
        """The lines within a loop or a branch, and what is in scope there."""
        self.say(line)
        kept = self.indices, self.buffers, self.lets, self.is_vector
        self.indices = [*self.indices, *indices]
        self.buffers, self.lets = [*self.buffers], [*self.lets]
        self.is_vector = self.is_vector or "T.vectorized" in line
        self.depth += 1
        yield
        self.depth -= 1
        self.indices, self.buffers, self.lets, self.is_vector = kept

    @contextmanager
    def loop(self, extent: int, kind: str = RANGE, text: str = "") -> Iterator[Index]:
        """The lines within a loop; the text of an extent may have fewer iterations."""
        index = Index(self.fresh("i"), extent)
        with self.within(f"for {index.text} in {kind.format(text or extent)}:", index):
            yield index

    def unshared(self) -> list[Buffer]:
        """Those that TVM takes in a condition of a branch."""
        return [each for each in self.buffers if not each.scope.startswith("shared")]

    def open_extent(self, most: int) -> str:
        """An extent that may be 0 and is `most` at most: of an index, a parameter, or data."""
        kind = self.one(("none", "index", "index", "data", "data", "count", "count"), "open")
        numbers = [each for each in self.unshared() if each.dtype in ("int32", "float32")]
        if kind == "count" and self.has_count:
            return f"T.max(T.min(n + {self.one(range(-3, 4), 'shift')}, {most}), 0)"
        if kind == "data" and numbers:
            data = f"T.Cast('int32', {self.load(self.one(numbers, 'buffer')).text})"
            return f"T.max(T.min({data}, {most}), 0)"
        if kind == "none" or not self.indices:
            return "0"
        return f"T.min({self.one(self.indices, 'index').text}, {most})"

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
            if self.form == BLOCKS:
                self.block(output, places)
            else:
                self.element(output, ", ".join(places))
            return
        extent, is_last = output.shape[at], at + 1 == len(output.shape)
        is_bound = self.is_bound and at < 2
        kinds = ("plain", "plain", "split", "split", "fuse", "vector", "unroll")
        kind = "split" if is_bound else self.one(kinds, "loop")
        if kind == "fuse" and not is_last:
            other = output.shape[at + 1]
            with self.loop(extent * other) as fused:
                pair = f"{fused.text} // {other}", f"{fused.text} % {other}"
                self.indices += [Index(pair[0], extent), Index(pair[1], other)]
                self.nest(output, (*places, *pair))
        elif kind == "split":
            by = self.one((1, 2, 4, 8) if is_bound else (2, 3, 4, 8), "by")
            count, inner = -(-extent // by), self.loop_kind("vector", by, is_last=is_last)
            bound = 'T.thread_binding({}, thread="%sIdx.' + "xyz"[at] + '")'
            ways = (bound % "block", bound % "thread") if is_bound else (RANGE, inner)
            with self.loop(count, ways[0]) as outer, self.loop(by, ways[1]) as within:
                index = Index(f"{outer.text} * {by} + {within.text}", extent)
                with self.guarded(index, needed=count * by != extent):
                    self.nest(output, (*places, index.text))
        else:
            with self.loop(extent, self.loop_kind(kind, extent, is_last=is_last)) as plain:
                self.nest(output, (*places, plain.text))

    def loop_kind(self, kind: str, extent: int, *, is_last: bool) -> str:
        """How a loop runs."""
        is_map = self.form != BLOCKS or self.terms is None
        if kind == "vector" and is_last and is_map and extent in (2, 4, 8):
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
            bindings = [("S", *each) for each in zip(output.shape, places, strict=True)]
            if terms is not None:
                for count in (terms, 2)[: self.one((1, 2), "axes of a sum")]:
                    bindings.append(("R", count, stack.enter_context(self.loop(count)).text))
            stack.enter_context(self.within(f'with T.sblock("{self.fresh(output.name)}"):'))
            self.indices = []
            for kind, extent, binding in bindings:
                axis = Index(self.fresh("v"), extent)
                name = "spatial" if kind == "S" else "reduce"
                self.say(f"{axis.text} = T.axis.{name}({extent}, {binding})")
                self.indices.append(axis)
            if self.guards:
                self.say(f"T.where({' and '.join(self.guards)})")
            place = ", ".join(axis.text for axis in self.indices[: len(places)])
            if terms is None:
                self.store(output, place)
                return
            target = f"{output.name}[{place}]"
            self.say("with T.init():")
            self.say(f"    {target} = {self.constant(output.dtype).text}")
            most = CAP // 10
            value = self.capped(self.expression(output.dtype, 2), most)
            self.say(f"{target} = {target} {self.one('+-', 'sign')} {value.text}")

    # What is stored.

    def element(self, output: Buffer, place: str) -> None:
        """What is stored to one element."""
        if self.is_vector:
            self.store(output, place)
            return
        if self.is_so(3, "let"):
            dtype = self.dtype()
            if dtype != "bfloat16":  # TVM refuses most lets of that type
                value = self.expression(dtype, self.one((1, 2), "depth"))
                self.lets.append(replace(value, text=self.fresh("x")))
                self.say(f"{self.lets[-1].text}: T.let[T.{dtype}] = {value.text}")
        kind = self.one(("store", "branch", "sum", "sum", "sum", "array"), "body")
        if kind == "branch":
            for line in (f"if {self.condition(1)}:", "else:"):
                with self.within(line):
                    self.store(output, place)
        elif kind == "sum":
            self.sum_up(output, place)
        else:
            if kind == "array":
                self.fill_registers()
            self.store(output, place)
        before = Value(f"{output.name}[{place}]", output.dtype, output.bound)
        if self.is_so(5, "again"):
            with self.within(f"if {self.condition(1)}:"):
                value = self.combine("add", before, self.leaf(output.dtype))
                self.say(f"{before.text} = {self.capped(value, output.bound).text}")
        if self.is_so(4, "some times"):
            with self.loop(3, RANGE, self.open_extent(3)):
                value = self.combine("subtract", self.varied(output.dtype), before)
                self.say(f"{before.text} = {self.capped(value, output.bound).text}")

    def store(self, output: Buffer, place: str) -> None:
        """One store."""
        value = self.expression(output.dtype, self.one((0, 1, 2, 3), "depth"))
        self.say(f"{output.name}[{place}] = {self.capped(value, output.bound).text}")

    def sum_up(self, output: Buffer, place: str) -> None:
        """A sum in a register or in the output itself."""
        dtype, target = output.dtype, f"{output.name}[{place}]"
        if self.is_so(2, "accumulator"):
            dtype = "float32" if "float" in dtype else "int32"
        if dtype != output.dtype or self.is_so(2, "register"):
            target = f"{self.allocate('R', dtype, 1, 'local').name}[0]"
        start, terms = self.constant(dtype), self.one((2, 3, 4, 5, 8), "terms")
        self.say(f"{target} = {start.text}")
        most = max(1, (LIMITS[dtype] - start.bound) // terms)
        with ExitStack() as stack:
            kind, text = self.one((RANGE, RANGE, UNROLL), "loop"), ""
            if kind == RANGE and self.is_so(3, "open extent"):
                text = self.open_extent(terms)
            stack.enter_context(self.loop(terms, kind, text))
            if self.is_so(4, "guarded term"):
                stack.enter_context(self.within(f"if {self.condition(0)}:"))
            value = self.capped(self.expression(dtype, 2), most)
            forms = [f"{target} + {value.text}"] * 2 + [f"{target} - {value.text}"]
            self.say(f"{target} = {self.one([*forms, f'{value.text} - {target}'], 'term')}")
        bound = start.bound + terms * value.bound
        total = self.cast(self.capped(Value(target, dtype, bound), output.bound), output.dtype)
        if total is not None and total.text != f"{output.name}[{place}]":
            self.say(f"{output.name}[{place}] = {total.text}")

    def fill_registers(self) -> None:
        """Registers that are filled in one loop and read in others, at other indices, too."""
        count = self.one((2, 3, 4, 8), "registers")
        made = self.allocate("L", self.dtype(), count, "local")
        more = [self.allocate("L", made.dtype, count, "local")] * self.is_so(2, "neighbour")
        kind = VECTOR if count != 3 and not more and self.is_so(2, "vector") else RANGE
        with self.loop(count, kind) as index:
            value = self.capped(self.operand(made.dtype, 1))
            self.say(f"{made.name}[{index.text}] = {value.text}")
        self.buffers.append(made)
        for other in more:
            with self.loop(count) as index:
                value = self.combine("subtract", self.load(made), self.leaf(made.dtype))
                self.say(f"{other.name}[{index.text}] = {self.capped(value).text}")
            self.buffers.append(other)

    def allocate(self, stem: str, dtype: str, count: int, scope: str) -> Buffer:
        """A new buffer in a scope."""
        made = Buffer(self.fresh(stem), dtype, (count,), CAP, scope)
        self.say(f'{made.name} = T.alloc_buffer(({count},), "{dtype}", scope="{scope}")')
        return made

    # Idioms.

    def idiom(self) -> None:
        """One of `IDIOMS` over the rows of its parameters, of a drawn type."""
        text = self.one(re.split(r"\n(?! )", IDIOMS.strip()), "idiom")
        dtype, width = self.one(ROW_TYPES, "type"), self.one((5, 7, 8, 12), "width")
        tag = self.fresh("")
        most = self.grid * self.threads
        rows = self.one((most, max(2, most - 1)) if self.form == KERNEL else (2, 3, 5), "rows")
        for stem, kind in PARAMETERS.items():
            if re.search(rf"\b{stem}\[", text) or (stem in "UVS" and "$i8" in text):
                self.rows.append(Buffer(stem + tag, kind or dtype, (rows, width)))
        kept = self.buffers
        self.buffers = self.unshared()
        outer = self.one((RANGE, RANGE, PARALLEL, UNROLL), "rows").format(rows)
        index, line = Index(f"r{tag}", rows), f"for r{tag} in {outer}:"
        if self.form == KERNEL:
            index = Index(f"bx * {self.threads} + {self.thread.text}", rows)
            line = f"if {index.text} < {rows}:"
        with self.within(line, index):
            for stem, kind in LOCALS.items():
                if places := re.findall(rf"\b{stem}\[(.*?)\]", text):
                    count = 1 if set(places) == {"0"} else width * (4 if stem == "u" else 1)
                    shape = f'({count},), "{kind or dtype}", scope="local"'
                    self.say(f"{stem}{tag} = T.alloc_buffer({shape})")
                    if stem == "t":  # TVM allocates twice what is touched in a branch first
                        self.say(f"t{tag}[0] = T.{dtype}(0)")
            with ExitStack() as stack:
                blocks, known = list[ExitStack](), dict[str, str]()

                def draw(found: re.Match[str]) -> str:
                    word, number = found[1], found[2]
                    if word + number in known:
                        return known[word + number]
                    if word == "v":
                        value = self.expression(dtype, self.one((0, 1, 1, 2), "depth"))
                        made = self.capped(value, 9).text
                    elif word == "K":
                        made = self.constant(dtype).text
                    elif word in "ci":
                        made = self.condition(1) if word == "c" else self.index(width)
                    else:
                        made = str(self.one(WORDS[word], word))
                    if number:
                        known[word + number] = made
                    return made

                for part, sign in re.findall(r"([^{};]*)([{};]|$)", text.replace("\n ", "")):
                    made = re.sub(r"\bD\b(?=\()|(?<=T\.)D\b", f"T.{dtype}", part.strip())
                    made = made.replace("T.T.", "T.").replace("$i8", self.one(WORDS["i8"], "i8"))
                    made = re.sub(r"\bw\b", str(width), made)
                    made = re.sub(r"\b([A-Z])\[", rf"\g<1>{tag}[{index.text}, ", made)
                    made = re.sub(r"\b([a-z])(?=\[)|\b(x)\b", rf"\g<1>\g<2>{tag}", made)
                    made = re.sub(r"\$([a-zA-Z]+)(\d?)", draw, made)
                    if "<-" in made:
                        place, value = made.split("<-")
                        ends = f"T.{dtype}({CAP})", f"T.{dtype}({-CAP})"
                        made = f"{place}= T.max(T.min({value.strip()}, {ends[0]}), {ends[1]})"
                    if sign == "{":
                        made = re.sub(r"^for (\w) in (.*)$", r"for \1 in range(\2)", made)
                        scope = [Index(made[4], width)] if made[:6] in ("for i ", "for j ") else []
                        blocks.append(stack.enter_context(ExitStack()))
                        blocks[-1].enter_context(self.within(f"{made}:", *scope))
                    elif made:
                        self.say(made)
                    if sign == "}":
                        blocks.pop().close()
        self.buffers = kept

    # Kernels.

    def kernel(self, outputs: Sequence[Buffer]) -> None:
        """Thread axes, phases that go through shared memory, then each thread's part of outputs."""
        self.grid, threads = self.one((1, 2, 3), "grid"), self.one(THREADS, "threads")
        rows = self.one((1, 1, 1, 2), "rows")
        self.threads = threads * rows
        self.thread = Index("tx" if rows == 1 else f"ty * {threads} + tx", self.threads)
        axes = [("bx", self.grid, "blockIdx.x"), ("tx", threads, "threadIdx.x")]
        axes += [("ty", rows, "threadIdx.y")] if rows > 1 else []
        with ExitStack() as stack:
            for name, extent, axis in axes:
                line = f'for {name} in T.thread_binding({extent}, thread="{axis}"):'
                stack.enter_context(self.within(line, Index(name, extent)))
            self.indices += [self.thread] if rows > 1 else []
            for _ in range(self.one((0, 1, 1, 2, 3), "phases")):
                scope = self.one(("shared", "shared", "shared", "shared.dyn"), "scope")
                counts = (self.threads, self.threads, self.threads * 2 + 1, 3)
                made = self.allocate("S", self.dtype(), self.one(counts, "elements"), scope)
                self.write_shared(made)
                self.buffers.append(made)
            for output in outputs:
                if self.is_so(4, "rounds"):
                    self.lets.append(self.accumulate_rounds())
                self.spread(output)
                shared = [it for it in self.buffers if it.scope.startswith("shared")]
                if shared and self.is_so(3, "refill"):  # a barrier stands between reads and this
                    self.write_shared(self.one(shared, "buffer"))
            for _ in range(self.one((1, 2, 3), "idioms")):
                self.idiom()

    def write_shared(self, made: Buffer) -> None:
        """All elements of a buffer, each by one thread; a thread may have several or none."""
        (count,), threads, thread = made.shape, self.threads, self.thread
        kept = self.buffers
        self.buffers = [each for each in kept if not each.scope.startswith("shared")]
        if count == threads:
            shift = self.one(range(threads), "shift")
            turned = f"{threads - 1} - {thread.group}", f"({thread.text} + {shift}) % {threads}"
            self.store(made, self.one((thread.text, thread.text, *turned), "element"))
        else:
            with self.loop(-(-count // threads), self.one((RANGE, UNROLL), "loop")) as turn:
                index = Index(f"{turn.text} * {threads} + {thread.group}", count)
                with self.guarded(index, needed=True):
                    self.store(made, index.text)
        self.buffers = kept

    def accumulate_rounds(self) -> Value:
        """A loop that fills shared memory and reads it, over and over, into a register."""
        dtype = self.one(("float32", "int32"), "accumulator")
        made = self.allocate("S", self.dtype(), self.threads, "shared")
        register = f"{self.allocate('R', dtype, 1, 'local').name}[0]"
        self.say(f"{register} = {self.constant(dtype).text}")
        with self.loop(self.one((2, 3, 4), "rounds")):
            self.write_shared(made)
            self.buffers.append(made)
            term = self.capped(self.expression(dtype, 2), LIMITS[dtype] // 8)
            read = self.cast(self.load(made), dtype) or term
            self.say(
                f"{register} = {register} {self.one('+-', 'sign')} T.max({term.text}, {read.text})"
            )
        return self.capped(Value(register, dtype, LIMITS[dtype]))

    def spread(self, output: Buffer) -> None:
        """The elements of an output over all threads of all blocks."""
        size, each = math.prod(output.shape), self.grid * self.threads
        times = -(-size // each)
        with self.loop(times, self.one((RANGE, UNROLL), "loop")) as turn:
            own = f"bx * {self.threads} + {self.thread.text}"
            text = f"{turn.text} * {each} + {own}"
            if self.is_so(3, "packed"):
                text = f"({own}) * {times} + {turn.text}"
            with self.guarded(Index(text, size), needed=times * each != size):
                places, step = list[str](), 1
                for extent in reversed(output.shape):
                    place = text if step == 1 else f"({text}) // {step}"
                    step *= extent
                    places.insert(0, place if step == size else f"({place}) % {extent}")
                self.element(output, ", ".join(places))

    # Expressions.

    def index(self, extent: int) -> str:
        """An index into a dimension."""
        if not self.indices or self.is_so(10, "constant"):
            return str(self.one(range(extent), "constant index"))
        at = self.one(self.indices, "index")
        shift = self.one(range(1, max(2, extent)), "shift")
        forms = [f"({at.text} + {shift}) % {extent}", f"T.min({at.text}, {extent - 1})"]
        if at.extent <= extent:
            forms += [at.text] * 6 + [f"{extent - 1} - {at.group}"]
        else:
            forms += [f"{at.group} % {extent}", f"{at.group} // {-(-at.extent // extent)}"]
        return str(self.one(forms, "form of index"))

    def load(self, buffer: Buffer) -> Value:
        """A load from a buffer; now and then one that a condition keeps inside of it."""
        *front, last = buffer.shape
        places = [self.index(extent) for extent in front]
        fitting = [each for each in self.indices if each.extent <= last]
        if not (fitting and self.is_so(5, "guarded load")):
            text = f"{buffer.name}[{', '.join([*places, self.index(last)])}]"
            return Value(text, buffer.dtype, buffer.bound)
        shifted = f"{self.one(fitting, 'index').text} + {self.one((1, 2, 3), 'shift')}"
        text, other = f"{buffer.name}[{', '.join([*places, shifted])}]", self.constant(buffer.dtype)
        text = f"T.if_then_else({shifted} < {last}, {text}, {other.text})"
        return Value(text, buffer.dtype, max(buffer.bound, other.bound))

    def constant(self, dtype: str) -> Value:
        """A small number."""
        values = (True, False) if dtype == "bool" else (0, 1, 2, 3, -1, -2)
        number = self.one(values, "number")
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
            if made is not None:
                return made
        if kind != "constant" and loads:
            return self.load(self.one(loads, "buffer"))
        return self.constant(dtype)

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
        if kind in ("fraction", "wide", "divide"):
            halves, whole = (
                ("float32", "float64", "float16"),
                "int32" if "float" in dtype else dtype,
            )
            if kind == "fraction":  # halves are exact, and are cut off
                other = dtype if dtype in halves else self.one(halves, "type")
                value = self.capped(self.operand(other, depth - 1))
                text = f"T.Cast('int32', {value.text} * T.{other}(0.5))"
                made = Value(text, "int32", value.bound // 2)
            elif kind == "wide":  # a product beyond 32 bits, of which the upper ones are left
                sides = [self.capped(self.operand("int32", depth - 1)).text for _ in "ab"]
                large = [f"T.Cast('int64', T.bitwise_xor({side}, 70001))" for side in sides]
                made = Value(f"T.shift_right({' * '.join(large)}, T.int64(27))", "int64", 48)
            else:  # rounded down or towards zero; of negative numbers, too
                value, by = self.operand(whole, depth - 1), self.one((2, 3, 4, 5, 8), "divisor")
                name = self.one(("floordiv", "floormod", "truncdiv", "truncmod"), "division")
                bound = by - 1 if name.endswith("mod") else value.bound
                made = Value(f"T.{name}({value.text}, T.{whole}({by}))", whole, bound)
            return self.cast(made, dtype) or self.leaf(dtype)
        if kind == "cast":
            other = self.expression(self.one(NUMBERS, "type"), depth - 1)
            return self.cast(other, dtype) or self.leaf(dtype)
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

    def condition(self, depth: int) -> str:
        """A truth: of indices mostly, which passes know something about, or of values."""
        kinds = ("index", "index", "values", "both", "not", "load", "guarded", "guarded")
        kind = self.one(kinds, "condition")
        truths = [each for each in self.buffers if each.dtype == "bool"]
        if kind == "load" and truths:
            return self.load(self.one(truths, "buffer")).text
        if depth > 0 and kind == "not":
            return f"T.Not({self.condition(depth - 1)})"
        if depth > 0 and kind == "both":
            name, left = self.one(("And", "Or"), "both"), self.condition(depth - 1)
            return f"T.{name}({left}, {self.condition(depth - 1)})"
        sign = self.one(("<", "<=", ">", ">=", "==", "!="), "comparison")
        if kind == "guarded":  # a load that one side keeps inside of its buffer
            made = self.one(self.unshared(), "buffer")
            *front, last = made.shape
            fitting = [each for each in self.indices if each.extent <= last]
            if fitting and made.dtype != "bool":
                at = self.one(fitting, "index")
                shifted = f"{at.text} + {last - at.extent + self.one((1, 2), 'beyond')}"
                ends = [self.one((str(it - 1), self.index(it)), "front") for it in front]
                place = ", ".join([*ends, shifted])
                return f"T.And({shifted} < {last}, {made.name}[{place}] {sign} T.{made.dtype}(1))"
        if kind == "values" or not self.indices:
            dtype = self.one(NUMBERS, "type")
            return f"{self.leaf(dtype).text} {sign} {self.leaf(dtype).text}"
        at = self.one(self.indices, "index")
        text = self.one((at.text, at.text, f"{at.group} % 3", f"{at.group} // 2"), "of")
        return f"{text} {sign} {self.one(range(at.extent + 1), 'end')}"

    def capped(self, value: Value, cap: int = CAP) -> Value:
        """The value, cut off where it may be larger than `cap`."""
        if value.bound <= cap or value.dtype == "bool":
            return value
        low, high = f"T.{value.dtype}({-cap})", f"T.{value.dtype}({cap})"
        return replace(value, text=f"T.max(T.min({value.text}, {high}), {low})", bound=cap)
