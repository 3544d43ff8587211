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

Loops and kernels have rows of outputs as well, of `drawn_rows`. Their inputs named in the attribute
`ENDS` are at the ends of their types, NaN among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import tvm
from tvm.script import from_source

from .drawn_rows import CAP, RowWriter

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
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17)
THREADS = (2, 4, 5, 8, 16, 32)
LOOPS, KERNEL, BLOCKS = FORMS = ("loops", "kernel", "blocks")
ENDS = "tirstep.ends"
"""The attribute of a function that names parameters whose numbers are at the ends of their types.
"""
RANGE, UNROLL, VECTOR, PARALLEL = "range({})", "T.unroll({})", "T.vectorized({})", "T.parallel({})"


SCOPED = ("indices", "buffers", "lets", "places", "conditions")


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
    places, conditions : the same: what statements of a row have named
    is_vector : in a vectorized loop, where nothing but a store may stand
    is_bound, terms, guards : of blocks: whether their loops are bound to a GPU; of one, how many
        terms its sum has, None of none, and where it runs
    thread, threads, grid : of a kernel: the number of a thread, and how many there are
    has_count : whether there is a parameter ``n``, of an integer that may be 0 or below
    rows, at_ends : the parameters of rows, and those whose numbers are at the ends of their types
    """

    def __init__(self, choice: Choice, form: str) -> None:
        self.choice, self.form = choice, form
        self.lines: list[str] = []
        self.depth, self.count = 1, 0
        self.indices: list[Index] = []
        self.buffers: list[Buffer] = []
        self.lets: list[Value] = []
        self.places: list[str] = []
        self.conditions: list[str] = []
        self.is_vector = False
        self.is_bound = form == BLOCKS and self.is_so(2, "bound")
        self.terms: int | None = None
        self.guards: list[str] = []
        self.thread, self.threads, self.grid = Index("tx", 1), 1, 1
        self.has_count = False
        self.rows: list[Buffer] = []
        self.at_ends: list[str] = []

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
            for _ in range(0 if self.form == BLOCKS else self.one((3, 4, 5, 6), "rows of outputs")):
                self.row()
        named = [*inputs, *outputs, *self.rows]
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
        kept = {name: getattr(self, name) for name in (*SCOPED, "is_vector")}
        vars(self).update({name: [*kept[name]] for name in SCOPED})
        self.indices += indices
        self.is_vector = self.is_vector or "T.vectorized" in line
        self.depth += 1
        yield
        self.depth -= 1
        vars(self).update(kept)

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

    def row(self) -> None:
        """The rows of some outputs: see `drawn_rows`."""
        tag, most = self.fresh("r"), self.grid * self.threads
        rows = self.one((most, max(2, most - 1)) if self.form == KERNEL else (2, 3, 5), "rows")
        kind = self.one((RANGE, RANGE, PARALLEL, UNROLL), "rows")
        number, line = tag, f"for {tag} in {kind.format(rows)}:"
        if self.form == KERNEL:
            number = f"bx * {self.threads} + {self.thread.text}"
            line = f"if {number} < {rows}:"
        writer = RowWriter(self, number, tag)
        with self.within(line):
            self.indices = []
            self.one((writer.write_arrays, writer.write_numbers), "row")()
        for name, dtype in writer.parameters.items():
            self.rows.append(Buffer(name, dtype, (rows, writer.width)))
        self.at_ends += sorted(writer.at_ends)

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
            for _ in range(self.one((1, 2, 3), "rows of outputs")):
                self.row()

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
