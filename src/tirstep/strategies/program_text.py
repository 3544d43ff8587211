"""Draws TIR programs beyond what recipes make: branches, nests, lets, several buffers and types.

Those for a GPU have thread bindings, and shared memory that barriers must order; TVM puts these in.
A program's text is TVMScript. It reads nothing that was not written, stays within its buffers, and
no two of its threads write one element between barriers: as it stands it is right, for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tvm
from tvm.script import from_source

from .expressions import CAP, INPUT, LIMITS, Choice, Expressions, Index, Store, Value, is_float

TYPES = (
    "float32",
    "float32",
    "float32",
    "float16",
    "int32",
    "int8",
    "int64",
    "bfloat16",
    "float64",
)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17)
VECTORS = (2, 4, 8)
THREADS = (2, 4, 5, 8, 16, 32)
HEAD = "# from tvm.script import tirx as T\n"


def draw_program(choice: Choice) -> tvm.IRModule:
    """A program of one function ``main``."""
    return parse_program(write_program(choice))


def write_program(choice: Choice) -> str:
    """The text of one: for a GPU two times out of three."""
    is_kernel = choice.one((True, True, False), "kernel")
    return (KernelWriter if is_kernel else ProgramWriter)(choice).write()


def parse_program(text: str) -> tvm.IRModule:
    """The module of a text of one function, or of a module."""
    made = from_source(text)
    return made if isinstance(made, tvm.IRModule) else tvm.IRModule({"main": made})


class ProgramWriter(Expressions):
    """Writes a program for a CPU: loops, one behind the other, that store to the outputs."""

    def __init__(self, choice: Choice) -> None:
        super().__init__(choice)
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.is_vector = False

    def write(self) -> str:
        """The whole text."""
        inputs = [
            Store(name, self.dtype(), self.shape(), INPUT)
            for name in "AB"[: self.pick((1, 2, 2), "inputs")]
        ]
        if self.is_so(4, "truths"):
            inputs.append(Store("P", "bool", self.shape(), 1))
        outputs = [
            Store(name, self.dtype(), self.shape(), CAP)
            for name in "CD"[: self.pick((1, 1, 2), "outputs")]
        ]
        self.stores = list(inputs)
        parameters = ", ".join(
            f'{each.name}: T.Buffer({each.shape}, "{each.dtype}")' for each in (*inputs, *outputs)
        )
        if self.is_so(2, "noalias"):
            self.say('T.func_attr({"tirx.noalias": True})')
        self.body(outputs)
        return "\n".join([f"{HEAD}@T.prim_func", f"def main({parameters}):", *self.lines, ""])

    def body(self, outputs: Sequence[Store]) -> None:
        """The statements: now and then a buffer in between, then the outputs."""
        if self.is_so(2, "between"):
            between = Store(self.fresh("E"), self.dtype(), self.shape(), CAP)
            self.say(f'{between.name} = T.alloc_buffer({between.shape}, "{between.dtype}")')
            self.nest(between)
            self.stores.append(between)
        for output in outputs:
            self.nest(output)
            self.stores.append(output)

    def dtype(self) -> str:
        """A type of a buffer."""
        return str(self.pick(TYPES, "type"))

    def shape(self) -> tuple[int, ...]:
        """A shape of one, two or three dimensions."""
        count = self.pick((1, 1, 2, 2, 3), "dimensions")
        extents = EXTENTS if count < 3 else EXTENTS[:6]
        drawn = tuple(self.pick(extents, "extent") for _ in range(count))
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
    def block(self, line: str) -> Iterator[None]:
        """The lines within a loop or a branch."""
        self.say(line)
        self.depth += 1
        kept = self.is_vector
        self.is_vector = kept or "T.vectorized" in line
        with self.scoped():
            yield
        self.depth, self.is_vector = self.depth - 1, kept

    def nest(self, output: Store) -> None:
        """Loops over an output, and what they store."""
        self.loops(output, list(range(len(output.shape))), [""] * len(output.shape))

    def loops(self, output: Store, left: list[int], places: list[str]) -> None:
        """Loops over the dimensions that are left, then the body."""
        if not left:
            self.element(output, ", ".join(places))
            return
        at, rest = left[0], left[1:]
        extent = output.shape[at]
        kind = self.pick(("plain", "plain", "split", "guard", "fuse", "vector", "unroll"), "loop")
        if kind == "fuse" and rest:
            other = output.shape[rest[0]]
            name = self.fresh("f")
            with self.block(f"for {name} in range({extent * other}):"):
                self.indices.append(Index(name, extent * other))
                places[at], places[rest[0]] = f"{name} // {other}", f"{name} % {other}"
                self.indices += [
                    Index(f"{name} // {other}", extent),
                    Index(f"{name} % {other}", other),
                ]
                self.loops(output, rest[1:], places)
            return
        if kind in ("split", "guard"):
            self.split(output, at, rest, places, is_guarded=kind == "guard")
            return
        name = self.fresh("i")
        with self.block(f"for {name} in {self.loop_kind(kind, extent, is_last=not rest)}:"):
            self.indices.append(Index(name, extent))
            places[at] = name
            self.loops(output, rest, places)

    def loop_kind(self, kind: str, extent: int, *, is_last: bool) -> str:
        """How a loop runs."""
        if kind == "vector" and is_last and extent in VECTORS:
            return f"T.vectorized({extent})"
        if kind == "unroll" and extent <= 8:
            return f"T.unroll({extent})"
        if self.depth == 1 and self.is_so(4, "parallel"):
            return f"T.parallel({extent})"
        return f"range({extent})"

    def split(
        self, output: Store, at: int, rest: list[int], places: list[str], *, is_guarded: bool
    ) -> None:
        """A loop in two, with a guard where it does not divide."""
        extent = output.shape[at]
        inner = self.pick(
            [each for each in (2, 3, 4, 8) if is_guarded or extent % each == 0] or [1], "by"
        )
        outer = -(-extent // inner)
        names = self.fresh("o"), self.fresh("n")
        text = f"{names[0]} * {inner} + {names[1]}"
        with self.block(f"for {names[0]} in range({outer}):"):
            self.indices.append(Index(names[0], outer))
            kind = self.pick(("plain", "vector", "unroll"), "loop")
            with self.block(f"for {names[1]} in {self.loop_kind(kind, inner, is_last=not rest)}:"):
                self.indices.append(Index(names[1], inner))
                places[at] = text
                if outer * inner == extent:
                    self.indices.append(Index(text, extent))
                    self.loops(output, rest, places)
                else:
                    with self.block(f"if {text} < {extent}:"):
                        self.indices.append(Index(text, extent))
                        self.loops(output, rest, places)

    def element(self, output: Store, place: str) -> None:
        """What is stored to one element."""
        if self.is_vector:
            self.store(output, place)
            return
        if self.is_so(3, "let"):
            self.let()
        kind = self.pick(("store", "store", "branch", "sum", "sum", "array"), "body")
        if kind == "sum" and output.dtype != "bool":
            self.sum_up(output, place)
        elif kind == "branch":
            with self.block(f"if {self.condition(1)}:"):
                self.store(output, place)
            with self.block("else:"):
                self.store(output, place)
        elif kind == "array":
            self.array(output, place)
        else:
            self.store(output, place)
        if self.is_so(5, "again"):
            with self.block(f"if {self.condition(1)}:"):
                value = self.capped(
                    self.combine(
                        "add",
                        Value(f"{output.name}[{place}]", output.dtype, output.bound),
                        self.leaf(output.dtype),
                    ),
                    output.bound,
                )
                self.say(f"{output.name}[{place}] = {value.text}")

    def store(self, output: Store, place: str) -> None:
        """One store."""
        value = self.capped(
            self.expression(output.dtype, self.pick((0, 1, 2, 3), "depth")), output.bound
        )
        self.say(f"{output.name}[{place}] = {value.text}")

    def let(self) -> None:
        """A value with a name."""
        dtype = self.dtype()
        if dtype == "bfloat16" and not self.is_so(8, "bfloat16"):
            dtype = "float32"  # TVM refuses most lets of that type
        value = self.expression(dtype, self.pick((1, 2), "depth"))
        name = self.fresh("x")
        self.say(f"{name}: T.let[T.{dtype}] = {value.text}")
        self.values.append(Value(name, dtype, value.bound))

    def sum_up(self, output: Store, place: str) -> None:
        """A sum, or a maximum, in a register or in the output itself."""
        dtype = output.dtype
        if self.is_so(2, "accumulator"):
            dtype = "float32" if is_float(dtype) else "int32"
        extent = self.pick((2, 3, 4, 5, 8), "terms")
        name, target = self.fresh("k"), f"{output.name}[{place}]"
        if dtype != output.dtype or self.is_so(2, "register"):
            register = self.fresh("R")
            self.say(f'{register} = T.alloc_buffer((1,), "{dtype}", scope="local")')
            target = f"{register}[0]"
        start = self.constant(dtype)
        self.say(f"{target} = {start.text}")
        most = LIMITS[dtype] - start.bound
        with self.block(
            f"for {name} in {self.pick(('range', 'range', 'T.unroll'), 'loop')}({extent}):"
        ):
            self.indices.append(Index(name, extent))
            guard = self.is_so(4, "guarded term")
            with (
                self.block(f"if {self.condition(0)}:" if guard else "if True:")
                if guard
                else self.scoped()
            ):
                value = self.capped(self.expression(dtype, 2), max(1, most // extent))
                sign = self.pick(("+", "+", "-"), "sign")
                self.say(f"{target} = {target} {sign} {value.text}")
        bound = start.bound + extent * value.bound
        total = self.cast(self.capped(Value(target, dtype, bound), output.bound), output.dtype)
        if total is not None and total.text != f"{output.name}[{place}]":
            self.say(f"{output.name}[{place}] = {total.text}")

    def array(self, output: Store, place: str) -> None:
        """Registers that are filled in one loop and read in another."""
        count, dtype = self.pick((2, 3, 4, 8), "registers"), self.dtype()
        made = Store(self.fresh("L"), dtype, (count,), CAP, "local")
        self.say(f'{made.name} = T.alloc_buffer(({count},), "{dtype}", scope="local")')
        name = self.fresh("v")
        with self.block(f"for {name} in {self.loop_kind('vector', count, is_last=True)}:"):
            self.indices.append(Index(name, count))
            value = self.capped(self.expression(dtype, 1))
            self.say(f"{made.name}[{name}] = {value.text}")
        self.stores.append(made)
        self.store(output, place)


class KernelWriter(ProgramWriter):
    """Writes a kernel of a GPU: each thread has its part of the outputs."""

    def __init__(self, choice: Choice) -> None:
        super().__init__(choice)
        self.threads = 1
        self.axes: list[Index] = []

    def body(self, outputs: Sequence[Store]) -> None:
        """Thread axes, shared memory, and the part of a thread."""
        grid, threads = self.pick((1, 2, 3), "grid"), self.pick(THREADS, "threads")
        rows = self.pick((1, 1, 1, 2), "rows")
        self.threads = threads * rows
        with self.bound("bx", grid, "blockIdx.x"), self.bound("tx", threads, "threadIdx.x"):
            if rows > 1:
                with self.bound("ty", rows, "threadIdx.y"):
                    self.kernel(outputs, grid, f"ty * {threads} + tx")
            else:
                self.kernel(outputs, grid, "tx")

    @contextmanager
    def bound(self, name: str, extent: int, axis: str) -> Iterator[None]:
        """The lines within a loop that is bound to a thread axis."""
        with self.block(f'for {name} in T.thread_binding({extent}, thread="{axis}"):'):
            self.indices.append(Index(name, extent))
            yield

    def kernel(self, outputs: Sequence[Store], grid: int, thread: str) -> None:
        """Phases that go through shared memory, then the outputs."""
        if self.threads > 1 and thread != "tx":
            self.indices.append(Index(thread, self.threads))
        for _ in range(self.pick((0, 1, 1, 2, 3), "phases")):
            self.fill_shared(thread)
        if self.is_so(3, "rounds"):
            self.rounds(outputs[0], grid, thread)
            outputs = outputs[1:]
        for output in outputs:
            self.spread(output, grid, thread)
            if self.is_so(3, "refill"):
                self.refill(thread)

    def fill_shared(self, thread: str) -> None:
        """Each thread writes its elements of a new buffer."""
        scope = self.pick(("shared", "shared", "shared", "shared.dyn"), "scope")
        count = self.pick((self.threads, self.threads, self.threads * 2 + 1, 3), "elements")
        made = Store(self.fresh("S"), self.dtype(), (count,), CAP, scope)
        self.say(f'{made.name} = T.alloc_buffer(({count},), "{made.dtype}", scope="{scope}")')
        self.write_shared(made, thread)
        self.stores.append(made)

    def write_shared(self, made: Store, thread: str) -> None:
        """All elements of a buffer, each by one thread; a thread may have several or none."""
        (count,), threads = made.shape, self.threads
        with self.scoped(), self.without("shared"):
            if count == threads:
                shift = self.pick(range(threads), "shift")
                forms = [
                    thread,
                    thread,
                    f"{threads - 1} - {_group(thread)}",
                    f"({thread} + {shift}) % {threads}",
                ]
                self.store(made, self.pick(forms, "element"))
                return
            times, name = -(-count // threads), self.fresh("r")
            with self.block(f"for {name} in {self.pick(('range', 'T.unroll'), 'loop')}({times}):"):
                at = f"{name} * {threads} + {_group(thread)}"
                self.indices.append(Index(name, times))
                with self.block(f"if {at} < {count}:"):
                    self.indices.append(Index(at, count))
                    self.store(made, at)

    def refill(self, thread: str) -> None:
        """Write a shared buffer again: a barrier must stand between what reads it and this."""
        shared = [each for each in self.stores if each.scope.startswith("shared")]
        if shared:
            self.write_shared(self.pick(shared, "buffer"), thread)

    def rounds(self, output: Store, grid: int, thread: str) -> None:
        """A loop that fills shared memory and reads it, over and over, into a register."""
        dtype = self.pick(("float32", "int32"), "accumulator")
        register, name = self.fresh("R"), self.fresh("k")
        made = Store(self.fresh("S"), self.dtype(), (self.threads,), CAP, "shared")
        self.say(f'{made.name} = T.alloc_buffer(({self.threads},), "{made.dtype}", scope="shared")')
        self.say(f'{register} = T.alloc_buffer((1,), "{dtype}", scope="local")')
        self.say(f"{register}[0] = {self.constant(dtype).text}")
        times = self.pick((2, 3, 4), "rounds")
        with self.block(f"for {name} in range({times}):"):
            self.indices.append(Index(name, times))
            self.write_shared(made, thread)
            self.stores.append(made)
            term = self.capped(self.expression(dtype, 2), LIMITS[dtype] // 8)
            read = self.cast(self.load(made), dtype)
            sign = self.pick(("+", "-"), "sign")
            self.say(
                f"{register}[0] = {register}[0] {sign} "
                f"T.max({term.text}, {read.text if read else term.text})"
            )
        total = self.capped(Value(f"{register}[0]", dtype, LIMITS[dtype]), CAP)
        value = self.cast(total, output.dtype)
        self.values.append(value or self.constant(output.dtype))
        self.spread(output, grid, thread)

    def spread(self, output: Store, grid: int, thread: str) -> None:
        """The elements of an output over all threads of all blocks."""
        size = 1
        for extent in output.shape:
            size *= extent
        each = grid * self.threads
        times, name = -(-size // each), self.fresh("s")
        with self.block(f"for {name} in {self.pick(('range', 'T.unroll'), 'loop')}({times}):"):
            self.indices.append(Index(name, times))
            order = self.pick(("strided", "strided", "packed"), "order")
            at = f"{name} * {each} + bx * {self.threads} + {thread}"
            if order == "packed":
                at = f"(bx * {self.threads} + {thread}) * {times} + {name}"
            places = self.places(at, output.shape)
            if times * each == size:
                self.indices += [Index(at, size)]
                self.element(output, ", ".join(places))
            else:
                with self.block(f"if {at} < {size}:"):
                    self.indices += [Index(at, size)]
                    self.element(output, ", ".join(places))

    def places(self, at: str, shape: Sequence[int]) -> list[str]:
        """The indices of an element by its number."""
        found: list[str] = []
        step = 1
        for place in reversed(range(len(shape))):
            text = at if step == 1 else f"({at}) // {step}"
            found.insert(0, text if place == 0 else f"({text}) % {shape[place]}")
            step *= shape[place]
        return found


def _group(text: str) -> str:
    return text if text.isidentifier() else f"({text})"
