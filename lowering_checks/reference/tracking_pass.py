"""The pass that widens a program to float64 and has it compute, beside every number, its error.

Every buffer of floats becomes several of float64, every variable several variables; casts to
narrower floats round nothing any more, but count; integers keep their types. The result is plain
loops for LLVM. See tracked.py for the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm.tirx as tirx
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import (
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    Select,
    Var,
    While,
    decl_buffer,
)
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_map

from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.error_bounds import FLOAT_FUNCTIONS
from tirstep.transforms.tir import (
    LARGEST_INDEX,
    THREAD_EXTENT,
    constant,
    find_all,
    find_location,
    is_used,
    substitute,
)

from ..compile.compiling import make_main
from ..device import is_scalar
from ..devices.simulator.flatten import sequence
from ..devices.simulator.run_state import get_location
from .conditions import (
    COMPARISONS,
    TESTS,
    TRANSPARENT,
    RefusedError,
    find_accumulated,
    find_shaky_buffers,
    get_call_name,
    get_dtype,
    needs_guard,
    refuse_call,
)
from .tracked import (
    DOUBLE,
    INFINITE,
    Condition,
    Tracked,
    Tracker,
    apply_function,
    apply_power,
    choose,
    holds_always,
    lift,
    number,
    store_cell,
)

PARTS = ("value", "magnitude", "additions", "error", "unit")
INPUT_PARTS = ("value", "unit")
INTEGER_PARTS = ("value", "magnitude", "error")
STATUS = ("lost", "overflow", "outside")
"""Of a run: whether a loop's end was not certain, so that nothing is; the largest ratio of the
magnitude of an integer that was stored, to what its type holds; and whether an index that depends
on data left its buffer, or, from `BEYOND` on, which other one did."""
BEYOND = 2
SHOWN = 60
"""Characters of a condition."""
_INTEGER_OPERATIONS = (
    "FloorDiv",
    "FloorMod",
    "Div",
    "Mod",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "LShift",
    "RShift",
)


@dataclass(frozen=True)
class TrackedBuffer:
    """A buffer's parts, each a flat buffer of its own, by the names in `Tracked`."""

    source: Any
    dtype: str
    parts: Mapping[str, Any]

    @property
    def is_stored(self) -> bool:
        return "error" in self.parts


@dataclass(frozen=True)
class Region:
    """Statements that run together, or not at all: what a loop, or a condition, decides over.

    Attributes
    ----------
    reason : why it does not run, where it does not
    lines : the first and the last line of its stores; None where TVM has not kept them
    outer : the number of the region around it; None of none
    """

    reason: str
    lines: tuple[int, int] | None
    outer: int | None


class TrackingPass:
    """The pass, on a function in flat statements (`simulator.flatten`).

    `plain` are the places of parameters that are stored to and never loaded: what is stored there
    is not rounded to their type yet. Raises `RefusedError` for what cannot be judged.

    Attributes
    ----------
    module : what it makes, with ``main``, whose parameters are the parts of each parameter in turn,
        and last the status
    arguments : the buffers of each parameter; None for an integer that is handed over as it is
    is_deciding : floats are compared
    places : accesses that may leave their buffer and depend on no data, as the status has them,
        with the file and line of their statements
    regions : statements that may not run, as the status has them after `STATUS`
    status_size : how many numbers the status has
    """

    def __init__(self, body: Any, parameters: tuple[Any, ...], plain: frozenset[int]) -> None:
        self.body, self.parameters, self.tracker = body, parameters, Tracker()
        self.let, self.emit = self.tracker.let, self.tracker.emit
        self.stored = {node.buffer for node in find_all(self.body, BufferStore)}
        self.buffers: dict[Any, TrackedBuffer] = {}
        self.values: dict[Any, Tracked | Any] = {}
        self.unrounded = {parameters[place] for place in plain}
        choices = sum(len(find_all(self.body, kind)) for kind in (For, While, IfThenElse))
        self.status_size = len(STATUS) + 2 * choices
        self.status = decl_buffer((self.status_size,), DOUBLE, "status")
        self.regions: list[Region] = []
        self.region: int | None = None
        self.is_dead = False
        # Variables that depend on data: integers among the arguments, loops that count up to those.
        self.from_data = {it for it in self.parameters if is_scalar(it)}
        self.poison: Any = None  # the cell that is infinite where it is not certain what runs
        self.depth = 0
        self.is_deciding = False
        self.shaky = find_shaky_buffers(self.body)
        self.accumulated = find_accumulated(self.body)
        self.bound_loads: dict[Any, list[Any]] = {}
        self.analyzer = Analyzer()
        self.places: list[tuple[str, str]] = []
        self.location = ""
        self.unsure = 0  # of what may be computed in vain: a condition, and what it decides over
        self.guarded: list[Any] = []  # variables that conditions hold against integers from data
        self.arguments: list[TrackedBuffer | None] = []
        self.module = self._run()

    def _run(self) -> tvm.IRModule:
        flat: list[Any] = []
        for parameter in self.parameters:
            if is_scalar(parameter) and not dtype_facts(str(parameter.ty)).is_float:
                self.arguments.append(None)
                flat.append(parameter)
                continue
            buffer = self._make_buffer(parameter)
            self.arguments.append(buffer)
            flat += buffer.parts.values()
            if is_scalar(parameter):
                self.values[parameter] = self._load_from(buffer, tirx.IntImm("int32", 0))
        self.statement(self.body)
        for buffer in [it for it in self.arguments if it is not None and it.is_stored]:
            if not dtype_facts(buffer.dtype).is_float:
                continue
            # In the end, every element as one term, in its value and its error.
            index, extent = Var("i", "int32"), buffer.parts["error"].shape[0]
            with self.tracker.inside() as statements:
                closed = self.tracker.close(self._load_from(buffer, index))
                self.emit(BufferStore(buffer.parts["error"], closed.error, [index]))
            if (count := constant(extent) or 0) > LARGEST_INDEX:
                raise RefusedError(
                    f"its parameter {buffer.source.name} has {count:,} elements, which are counted "
                    f"in 32 bits, up to {LARGEST_INDEX:,}; give a smaller shape"
                )
            self.emit(For(index, 0, extent, ForKind.SERIAL, sequence(statements)))
        return make_main(PrimFunc([*flat, self.status], self.tracker.finish()))

    # ---- Buffers

    def _make_buffer(self, source: Any) -> TrackedBuffer:
        dtype = str(source.ty) if is_scalar(source) else str(source.dtype)
        size = 1 if is_scalar(source) else int(constant(source.shape[0]) or 1)
        is_float = dtype_facts(dtype).is_float
        if source not in self.stored:
            names: tuple[str, ...] = INPUT_PARTS if is_float else ("value",)
        else:
            names = PARTS if is_float else INTEGER_PARTS
        parts = {
            name: decl_buffer(
                (size,),
                dtype if name == "value" and not is_float else DOUBLE,
                f"{source.name}_{name}",
            )
            for name in names
        }
        self.buffers[source] = TrackedBuffer(source, dtype, parts)
        return self.buffers[source]

    def _load_from(self, buffer: TrackedBuffer, index: Any, taint: Any = 0.0) -> Tracked:
        loaded = {name: self.let(BufferLoad(part, [index])) for name, part in buffer.parts.items()}
        value = loaded.pop("value")
        if "magnitude" not in loaded:
            size = value if dtype_facts(buffer.dtype).is_float else tirx.Cast(DOUBLE, value)
            loaded["magnitude"] = self.let(self.tracker.absolute(size))
        tracked = Tracked(value, buffer.dtype, **loaded)
        if holds_always(taint, 0.0):
            return tracked
        error = choose(taint > number(0), INFINITE, tracked.error)
        return self.tracker.name(replace(tracked, error=error))

    def _index(self, index: Any, buffer: TrackedBuffer) -> tuple[Any, Any]:
        """An index and its error; a place that is not certain, or outside, is the first."""
        has_data, size = self._has_data(index), int(buffer.parts["value"].shape[0])
        error: Any = 0.0
        if has_data:
            tracked = self.expression(index)
            place, error = tracked.value, tracked.error
        else:
            place = self._substitute(index)
            bound = self.analyzer.const_int_bound(place)
            if bound.min_value >= 0 and bound.max_value < size:
                return place, error
            has_data = not self.from_data.isdisjoint(undefined_vars(place))
            place = self.let(place)
        zero, end = tirx.const(0, get_dtype(place)), tirx.const(size, get_dtype(place))
        inside = self.let(tirx.And(place >= zero, place < end))
        certain, found = tirx.EQ(lift(error), number(0)), 1
        is_sure = not (self.depth or self.unsure)
        is_guarded = any(is_used(variable, index) for variable in self.guarded)
        if is_sure and not (has_data or is_guarded):
            found = BEYOND + len(self.places)
            self.places.append((f"{buffer.source.name}[{index}]", self.location))
        if is_sure or has_data:
            told = BufferStore(self.status, number(found), [STATUS.index("outside")])
            self.emit(IfThenElse(tirx.And(certain, tirx.Not(inside)), told, None))
        if has_data and self._is_shaky(index):
            return self.let(Select(tirx.And(inside, certain), place, zero)), error
        return self.let(Select(inside, place, zero)), 0.0

    # ---- Statements

    def statement(self, node: Any) -> None:
        kind = type(node).__name__
        self.location = get_location(node) or self.location
        if kind == "SeqStmt":
            for statement in node.seq:
                self.statement(statement)
        elif kind == "AllocBuffer":
            for part in self._make_buffer(node.buffer).parts.values():
                self.emit(tirx.AllocBuffer(part))
        elif kind == "AttrStmt":
            if node.attr_key in (THREAD_EXTENT, "virtual_thread"):
                raise RefusedError("its threads are those of a GPU")
            self.statement(node.body)
        elif kind == "Evaluate":
            for call in find_all(node.value, Call):
                if get_call_name(call) != "assume":
                    refuse_call(call)
        elif kind in ("Break", "Continue"):
            self.emit(node)
        elif kind != "AssertStmt":
            maker = getattr(self, f"_track_{kind.lower()}", None)
            if maker is None:
                raise RefusedError(f"the statement {kind} cannot be computed in float64 here")
            maker(node)

    def _track_bind(self, node: Any) -> None:
        self.bound_loads[node.var] = self._find_loads(node.value)
        if self._has_data(node.value) or get_dtype(node.value) == "bool":
            self.values[node.var] = self.expression(node.value)
            return
        value = self._substitute(node.value)
        variable = Var(str(node.var.name), node.var.ty)
        self.emit(tirx.Bind(variable, value))
        self.values[node.var] = variable
        self._follow(variable, node.value)
        self.analyzer.bind(variable, value)

    def _track_for(self, node: Any) -> None:
        first, extent = self._bound(node.min), self._bound(node.extent)
        variable = Var(str(node.loop_var.name), node.loop_var.ty)
        self.values[node.loop_var] = variable
        self._follow(variable, node.min + node.extent)
        self.analyzer.bind(variable, tvm.ir.Range.from_min_extent(first, extent))
        with self.tracker.inside() as statements:
            loads = find_all(tirx.Add(node.min, node.extent), TensorLoad)
            over = loads[0].source if loads else node.loop_var
            reason = f"the loop over `{over.name}` had no iteration"
            self._track_region(node.body, node.extent > 0, reason)
        self.emit(For(variable, first, extent, ForKind.SERIAL, sequence(statements)))

    def _follow(self, variable: Any, expression: Any) -> None:
        """Note a variable that depends on data as an expression does."""
        if self._has_data(expression) or not self.from_data.isdisjoint(
            undefined_vars(self._substitute(expression))
        ):
            self.from_data.add(variable)

    def _bound(self, expression: Any) -> Any:
        if not self._has_data(expression):
            return self._substitute(expression)
        tracked = self.expression(expression)
        if not holds_always(tracked.error, 0.0):
            self._lose(tracked.error > number(0))
        return tracked.value

    def _lose(self, condition: Any) -> None:
        lost = BufferStore(self.status, number(1), [STATUS.index("lost")])
        self.emit(IfThenElse(condition, lost, None))

    def _track_while(self, node: Any) -> None:
        flag = self.tracker.cell("bool")

        def decide() -> None:
            condition = self.condition(node.condition)
            if self._is_shaky(node.condition):
                self._lose(condition.is_uncertain)
            # Where it may go either way it ends, since nothing is known any more.
            ends = tirx.And(condition.may_hold, tirx.Not(condition.may_fail))
            self.emit(BufferStore(flag, ends, [0]))

        decide()
        with self.tracker.inside() as statements:
            reason = f"`{_spell(node.condition)}` did not hold before the first iteration"
            self._track_region(node.body, node.condition, reason)
            decide()
        self.emit(While(BufferLoad(flag, [0]), sequence(statements)))

    def _track_ifthenelse(self, node: Any) -> None:
        condition, plain = self.condition(node.condition), node.condition
        cases = [
            (condition.may_hold, node.then_case, plain, "held in no iteration"),
            (condition.may_fail, node.else_case, tirx.Not(plain), "held in every iteration"),
        ]
        uncertain = self._is_shaky(node.condition)
        if uncertain:
            if self.poison is None:
                self.poison = self.tracker.cell(DOUBLE)
            if self.depth == 0:
                self.emit(store_cell(self.poison, 0.0))
            before = self.let(BufferLoad(self.poison, [0]))
            self.tracker.add_branch(condition.is_uncertain, [store_cell(self.poison, INFINITE)])
        self.depth, outer = self.depth + uncertain, self.guarded
        self.guarded = [*self.guarded, *self._find_guarded(node.condition)]
        for holds, case, runs, reason in cases:
            if case is not None:
                with self.tracker.inside() as statements:
                    self._track_region(case, runs, f"`{_spell(plain)}` {reason}")
                self.tracker.add_branch(holds, statements)
        self.depth, self.guarded = self.depth - uncertain, outer
        if uncertain:
            self.emit(store_cell(self.poison, before))

    def _track_region(self, body: Any, runs: Any, reason: str) -> None:
        """Statements that run where a condition holds. Whether they did is noted, unless TVM's
        analyzer proves that they do whenever what is around them does, or that they never do.
        """
        known = {key: it for key, it in self.values.items() if not isinstance(it, Tracked)}
        runs = substitute(runs, known)
        decided = constant(self.analyzer.simplify(runs))
        before = self.region, self.is_dead
        self.is_dead |= decided == 0
        if decided is None and not self.is_dead:
            place = len(self.regions)
            places = map(find_location, find_all(body, BufferStore))
            lines = [place[1] for place in places if place is not None]
            ends = (min(lines), max(lines)) if lines else None
            self.regions.append(Region(reason, ends, self.region))
            self.emit(BufferStore(self.status, number(1), [len(STATUS) + place]))
            self.region = place
        has_data = find_all(runs, TensorLoad) or set(undefined_vars(runs)) & self.values.keys()
        with nullcontext() if has_data else self.analyzer.constraint_scope(runs):
            self.statement(body)
        self.region, self.is_dead = before

    def _track_bufferstore(self, node: Any) -> None:
        if len(node.indices) != 1:
            raise RefusedError("a store of several elements cannot be computed in float64 here")
        buffer = self.buffers[node.buffer]
        value = node.value
        is_cast = type(value).__name__ == "Cast" and all(
            dtype_facts(get_dtype(each)).is_float for each in (value, value.value)
        )
        if node.buffer in self.unrounded and is_cast:
            value = self.tracker.close(self.expression(value.value))
            value = replace(value, dtype=buffer.dtype)
        else:
            value = self.expression(value)
        if self.depth:
            error = self.let(value.error + BufferLoad(self.poison, [0]))
            value = replace(value, error=error)
        index, taint = self._index(node.indices[0], buffer)
        if not holds_always(taint, 0.0):
            each, error = Var("i", "int32"), buffer.parts["error"]
            poison = BufferStore(error, number(INFINITE), [each])
            loop = For(each, 0, error.shape[0], ForKind.SERIAL, poison)
            self.emit(IfThenElse(taint > number(0), loop, None))
        if not value.is_float:
            self._note_overflow(value)
        for name, part in buffer.parts.items():
            self.emit(BufferStore(part, getattr(value, name), [index]))

    def _note_overflow(self, value: Tracked) -> None:
        """Keep the largest ratio of a magnitude to what its type holds; see `Tracker.share_of`."""
        if isinstance(value.magnitude, tirx.FloatImm):
            return
        place, facts = STATUS.index("overflow"), dtype_facts(value.dtype)
        ratio = self.let(value.magnitude * self.tracker.share_of(value, facts))
        before = BufferLoad(self.status, [place])
        self.emit(IfThenElse(ratio > before, BufferStore(self.status, ratio, [place]), None))

    def _note_operand(self, value: Tracked) -> None:
        """The same for what is divided, shifted or converted, which a wrap around would spoil; an
        unsigned integer is meant to wrap around.
        """
        if not value.is_float and dtype_facts(value.dtype).smallest < 0:
            self._note_overflow(value)

    # ---- Expressions

    def _has_data(self, expression: Any) -> bool:
        """Whether a load or a float stands in an integer expression."""
        if dtype_facts(get_dtype(expression)).is_float or find_all(expression, TensorLoad):
            return True
        tracked = (self.values.get(variable) for variable in undefined_vars(expression))
        return any(isinstance(value, Tracked) for value in tracked)

    def _is_shaky(self, expression: Any) -> bool:
        """Whether a float, or what a float decided over, stands in an expression."""
        sources = {load.source for load in find_all(expression, TensorLoad)}
        numbers = [it for it in find_all(expression, Var) if type(it.ty).__name__ == "PrimType"]
        types = [*(str(it.dtype) for it in sources), *(str(it.ty) for it in numbers)]
        if sources & self.shaky or any(it.startswith(("float", "bfloat")) for it in types):
            return True
        tracked = (self.values.get(variable) for variable in undefined_vars(expression))
        return any(
            isinstance(value, Tracked) and not holds_always(value.error, 0.0) for value in tracked
        )

    def _substitute(self, expression: Any) -> Any:
        return substitute(expression, self.values)

    def expression(self, node: Any) -> Tracked:
        """The tracked value of an expression."""
        dtype = get_dtype(node)
        if not self._has_data(node):
            value = self.let(self._substitute(node))
            if dtype == "bool":
                certain = Condition(value, self.let(tirx.Not(value)))
                return Tracked(value, dtype, 1.0, condition=certain)
            size = constant(value)
            double = tirx.Cast(DOUBLE, value)
            magnitude = (
                float(abs(size)) if size is not None else self.let(self.tracker.absolute(double))
            )
            return Tracked(value, dtype, magnitude)
        kind, tracker = type(node).__name__, self.tracker
        if kind == "FloatImm":
            return tracker.constant(float(node.value), dtype)
        if kind == "Var":
            return self.values[node]
        if kind == "TensorLoad":
            if len(node.indices) != 1:
                raise RefusedError("a load of several elements cannot be computed in float64 here")
            buffer = self.buffers[node.source]
            return self._load_from(buffer, *self._index(node.indices[0], buffer))
        if kind in ("Add", "Sub"):
            sign = 1 if kind == "Add" else -1
            return tracker.add(self.expression(node.a), self.expression(node.b), sign=sign)
        if kind == "Mul":
            for one, other in ((node.a, node.b), (node.b, node.a)):
                if getattr(one, "value", None) == -1:  # a sum stays one
                    value = self.expression(other)
                    zero = number(0) if value.is_float else tirx.const(0, dtype)
                    return tracker.name(replace(value, value=zero - value.value, least=None))
            return tracker.multiply(self.expression(node.a), self.expression(node.b))
        if kind == "Div" and dtype_facts(dtype).is_float:
            return tracker.divide(self.expression(node.a), self.expression(node.b))
        if kind in ("Max", "Min"):
            return tracker.extreme(
                self.expression(node.a), self.expression(node.b), getattr(tirx, kind)
            )
        if kind == "Cast":
            value = self.expression(node.value)
            self._note_operand(value)
            return tracker.convert(value, dtype)
        if kind == "Let":
            self.values[node.var] = self.expression(node.value)
            return self.expression(node.body)
        if kind == "Select":
            return self._choose(node.condition, node.true_value, node.false_value)
        if kind == "BitwiseNot":
            return self._operate_on([node.a], dtype, lambda a: tirx.BitwiseNot(a))
        if kind == "Call":
            return self._call(node)
        if kind in (*COMPARISONS, "And", "Or", "Not"):
            self.unsure += 1  # operands may be computed in vain, as ``i < n and A[i] > 0``
            found = self._decide(kind, node)
            self.unsure -= 1
            return found
        if kind in _INTEGER_OPERATIONS:
            return self._operate_on([node.a, node.b], dtype, getattr(tirx, kind))
        raise RefusedError(f"the expression {kind} cannot be computed in float64 here")

    def _operate_on(self, operands: Any, dtype: str, make: Any) -> Tracked:
        """An operation on integers of which nothing is known if an operand is not certain."""
        tracked = [self.expression(operand) for operand in operands]
        if any(each.is_float for each in tracked):
            raise RefusedError("an operation on the bits of floats has no meaning in float64")
        for each in tracked:
            self._note_operand(each)
        value = self.let(make(*(each.value for each in tracked)))
        error: Any = 0.0
        for each in tracked:
            error = self.tracker.larger(error, each.error)
        if not holds_always(error, 0.0):
            error = self.let(choose(error > number(0), INFINITE, 0.0))
        return Tracked(
            value, dtype, self.let(self.tracker.absolute(tirx.Cast(DOUBLE, value))), error=error
        )

    def _call(self, node: Any) -> Tracked:
        name, arguments = get_call_name(node), list(node.args)
        if name == "if_then_else":
            return self._choose(*arguments)
        if name in FLOAT_FUNCTIONS and dtype_facts(get_dtype(node)).is_float:
            return apply_function(self.tracker, name, self.expression(arguments[0]))
        if name == "fabs":
            value = self.tracker.close(self.expression(arguments[0]))
            zero = number(0) if value.is_float else tirx.const(0, value.dtype)
            size = Select(value.value < zero, zero - value.value, value.value)
            return self.tracker.name(replace(value, value=size))
        if name == "pow":
            return apply_power(self.tracker, *map(self.expression, arguments))
        if name == "fma":
            first, second, third = map(self.expression, arguments)
            return self.tracker.add(self.tracker.multiply(first, second), third)
        if name in TRANSPARENT:
            return self.expression(arguments[0])
        if name in TESTS:
            operand = self.tracker.close(self.expression(arguments[0])).value
            size = self.let(self.tracker.absolute(operand))
            made = {
                "isnan": tirx.NE(operand, operand),
                "isinf": tirx.EQ(size, number(INFINITE)),
                "isfinite": size < number(INFINITE),
            }
            holds = self.let(made[name])
            return Condition(holds, self.let(tirx.Not(holds))).as_number()
        if name == "reinterpret":
            return self._reinterpret(self.expression(arguments[0]), get_dtype(node))
        if name in ("clz", "popcount"):
            return self._operate_on(
                arguments, get_dtype(node), lambda *args: Call(node.op, list(args), ret_ty=node.ty)
            )
        refuse_call(node)
        raise AssertionError

    def _reinterpret(self, value: Tracked, dtype: str) -> Tracked:
        """The bits of a number as another type, where the number is certain."""
        value, tracker = self.tracker.close(value), self.tracker
        sizes = {each: dtype_facts(each).bytes for each in (value.dtype, dtype)}
        wide = {"bfloat16": "float32"}.get(dtype, dtype)
        if {dtype, value.dtype} & {"float8_e4m3fn", "float8_e5m2"} or value.dtype == "bfloat16":
            raise RefusedError(f"the bits of {value.dtype} as {dtype} have no meaning here")
        if len({*sizes.values()}) > 1:
            raise RefusedError(f"'reinterpret' makes {dtype} of {value.dtype}, of another size")
        plain, error = value.value, value.error
        if value.is_float:  # as the type has it, if it does
            plain = self.let(tirx.Cast(value.dtype, plain))
            is_same = tirx.EQ(tirx.Cast(DOUBLE, plain), value.value)
            error = choose(is_same, error, INFINITE)
        elif wide != dtype:
            plain = tirx.Cast("uint32", plain) << tirx.const(16, "uint32")
        bits = self.let(tirx.reinterpret(wide, plain))
        found = tirx.Cast(DOUBLE, bits) if dtype_facts(dtype).is_float else bits
        found, error = self.let(found), self.let(choose(error > number(0), INFINITE, 0.0))
        magnitude = self.let(tracker.absolute(tirx.Cast(DOUBLE, found)))
        return Tracked(found, dtype, magnitude, error=error, unit=0.0)

    def _choose(self, condition: Any, first: Any, second: Any) -> Tracked:
        """One of two, of which only what may be chosen is computed."""
        decided = self.condition(condition)
        is_unsure = self._is_shaky(condition)
        self.unsure, outer = self.unsure + is_unsure, self.guarded
        self.guarded = [*self.guarded, *self._find_guarded(condition)]
        arms = []
        for holds, arm in ((decided.may_hold, first), (decided.may_fail, second)):
            if not needs_guard(arm):
                arms.append(self.expression(arm))
                continue
            dtype = get_dtype(arm)
            names = PARTS if dtype_facts(dtype).is_float else INTEGER_PARTS
            own = {"value": DOUBLE if dtype_facts(dtype).is_float else dtype}
            cells = {name: self.tracker.cell(own.get(name, DOUBLE)) for name in names}
            for cell in cells.values():
                self.emit(BufferStore(cell, tirx.const(0, cell.dtype), [0]))
            with self.tracker.inside() as statements:
                value = self.expression(arm)
                for name, cell in cells.items():
                    self.emit(store_cell(cell, getattr(value, name)))
            self.tracker.add_branch(holds, statements)
            parts = {name: self.let(BufferLoad(cell, [0])) for name, cell in cells.items()}
            arms.append(Tracked(dtype=dtype, **parts))
        self.unsure, self.guarded = self.unsure - is_unsure, outer
        return self.tracker.join(decided, *arms)

    # ---- Conditions

    def _find_guarded(self, condition: Any) -> Any:
        """The variables that a condition holds against data, as ``j`` in ``j + 1 < length[i]``."""
        if not self._has_data(condition) or self._is_shaky(condition):
            return ()
        zero = (TensorLoad, lambda load: tirx.const(0, get_dtype(load)))
        return undefined_vars(structural_map(condition, zero))

    def condition(self, node: Any) -> Condition:
        """Whether a condition may hold, and may fail."""
        self.unsure += 1
        value = self.expression(node)
        self.unsure -= 1
        if value.condition is not None:
            return value.condition
        value = self.tracker.close(value)
        plain = value.value
        if value.dtype != "bool":
            plain = tirx.NE(plain, number(0) if value.is_float else tirx.const(0, value.dtype))
        near = value.error > number(0)
        return Condition(self.let(tirx.Or(plain, near)), self.let(tirx.Or(tirx.Not(plain), near)))

    def _decide(self, kind: str, node: Any) -> Tracked:
        """A comparison, or what connects truths."""
        if kind == "Not":
            inner = self.condition(node.a)
            return Condition(inner.may_fail, inner.may_hold).as_number()
        if kind == "And":
            return self._choose(node.a, node.b, tirx.const(False, "bool"))
        if kind == "Or":
            return self._choose(node.a, tirx.const(True, "bool"), node.b)
        if get_dtype(node.a) == "bool":
            if kind not in ("EQ", "NE"):
                raise RefusedError("booleans cannot be ordered here")
            arms = (node.b, tirx.Not(node.b)) if kind == "EQ" else (tirx.Not(node.b), node.b)
            return self._choose(node.a, *arms)
        loaded = self._find_loads(node.a), self._find_loads(node.b)
        ties = all(loaded) and any(
            load.source in self.accumulated for side in loaded for load in side
        )
        self.is_deciding |= dtype_facts(get_dtype(node.a)).is_float
        sides = self.expression(node.a), self.expression(node.b)
        return self.tracker.compare(kind, *sides, ties=ties).as_number()

    def _find_loads(self, expression: Any) -> list[Any]:
        """The loads in an expression, and in what its variables were bound to."""
        found = list(find_all(expression, TensorLoad))
        for variable in find_all(expression, Var):
            found += self.bound_loads.get(variable, [])
        return found


def _spell(condition: Any) -> str:
    """A condition as TVMScript has it, cut where it is long."""
    text = " ".join(str(condition).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
