"""Rewrites TIR of any stage into the few flat statements that the machine runs.

It is meant to be read, not to be fast, and shares nothing with the lowering passes that it is to
judge: blocks become their iterators' values, a condition and a body; buffers of several dimensions
become flat ones; thread-bound loops become thread extents, in which equal axes are equal threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    Bind,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IterVar,
    SeqStmt,
    Var,
)
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.buffer import BufferType

from tirstep.transforms.queries import find_all

from .allreduce import Axis, is_allreduce, make_allreduce
from .faults import UnsupportedError
from .flat_buffers import FlatBuffers, integer, require_constant
from .spread import find_thread_axes, has_threads, spread

AXES = [f"{level}.{letter}" for level in ("blockIdx", "threadIdx") for letter in "xyz"]


@dataclass(frozen=True)
class Flat:
    """A function in flat statements, and its parameters as flat buffers.

    Attributes
    ----------
    has_spread : whether iterations of a data-parallel block are run at once
    """

    body: Any
    parameters: tuple[Var, ...]
    has_spread: bool = False


def flatten(function: Any, *, in_order: bool, at_once: bool = True) -> Flat:
    """A function in flat statements.

    `in_order`: TVM has not ordered the threads yet, so that every store is followed by a barrier,
    which is what a schedule means. `at_once`: loops of data-parallel blocks are bound to thread
    axes that are free (see `spread`). Raises `UnsupportedError` for what is not known.
    """
    flattener = _Flattener(
        in_order=in_order, has_threads=has_threads(function.body), at_once=at_once
    )
    for parameter in function.params:
        if not isinstance(parameter.ty, BufferType):
            raise UnsupportedError("the interpreter does not know functions of packed arguments")
    flattener.all_axes = find_thread_axes(function.body)
    flattener.has_allreduce = any(is_allreduce(one) for one in find_all(function.body, Call))
    parameters = tuple(flattener.buffers.flatten(parameter) for parameter in function.params)
    body = flattener.statement(function.body)
    return Flat(body, parameters, flattener.has_spread)


class _Flattener:
    def __init__(self, *, in_order: bool, has_threads: bool, at_once: bool) -> None:
        self.in_order, self.has_threads, self.at_once = in_order, has_threads, at_once
        self.is_launched = self.has_spread = False
        self.all_axes: set[str] = set()
        self.has_allreduce = False
        self.buffers = FlatBuffers()
        self.threads: dict[Var, dict[Var, int]] = {}  # what a variable takes of thread axes
        self.axes: list[Axis] = []  # of the threads of a block, around a statement
        self.reducer: Any = None
        self.waiting: list[Var] = []  # buffers of a GPU's block, declared around the launch

    def statement(self, node: Any) -> Any:
        maker: Callable[[Any], Any] | None = getattr(
            self, f"_flatten_{type(node).__name__.lower()}", None
        )
        if maker is None:
            raise UnsupportedError(
                f"the interpreter does not know the statement {type(node).__name__}"
            )
        return maker(node)

    def expression(self, node: Any) -> Any:
        return tvm_ffi.structural_map(node, [(TensorLoad, self._load), (Call, self._point)])

    def _flatten_seqstmt(self, node: Any) -> Any:
        return _sequence([self.statement(one) for one in node.seq])

    def _flatten_sblockrealize(self, node: Any) -> Any:
        block = node.block
        binds = []
        crossed: dict[Var, int] = {}
        for iterator, value in zip(block.iter_vars, node.iter_values, strict=True):
            axes = self._find_threads(value)
            self.threads[iterator.var] = axes
            if iterator.iter_type == IterVar.CommReduce:
                crossed.update(axes)
            binds.append(Bind(iterator.var, self.expression(value)))
        for region in block.match_buffers:
            self.buffers.match(region.buffer, region.source)
        buffers = [one for buffer in block.alloc_buffers for one in self._allocate(buffer)]
        parts = [*binds, *buffers, *self._make_initialization(block), self.statement(block.body)]
        condition = self.expression(node.predicate)
        done = IfThenElse(condition, _sequence(parts), None)
        return self._take_turns(block, crossed, done)

    def _make_initialization(self, block: Any) -> list[Any]:
        if block.init is None:
            return []
        body = self.statement(block.init)
        for iterator in block.iter_vars:
            if iterator.iter_type == IterVar.CommReduce:
                body = IfThenElse(iterator.var.equal(iterator.dom.min), body, None)
        return [body]

    def _take_turns(self, block: Any, axes: dict[Var, int], body: Any) -> Any:
        """A reduction over threads means that they add one after the other."""
        for region in block.writes if axes else ():
            if str(region.source.scope()) == "local":
                if self.has_allreduce:  # TVM has made it what each thread adds for itself
                    return body
                raise UnsupportedError("the interpreter does not reduce over threads in registers")
        for variable, extent in axes.items():
            turn = Var(f"{variable.name}_turn", variable.ty)
            mine = IfThenElse(variable.equal(turn), body, None)
            body = For(turn, integer(0), integer(extent), ForKind.SERIAL, mine)
        return body

    def _flatten_for(self, node: Any) -> Any:
        if node.step is not None and require_constant(node.step) != 1:
            raise UnsupportedError("the interpreter does not know loops with a step")
        if self.at_once and not self.is_launched:
            given, node = node, spread(node)
            self.has_spread |= node is not given
        binding = node.thread_binding
        axis = "" if binding is None else str(binding.thread_tag)
        if node.kind == ForKind.THREAD_BINDING and not axis.startswith("vthread"):
            if require_constant(node.min) != 0:
                raise UnsupportedError(f"the interpreter wants loops on '{axis}' to begin at 0")
            return self._launch(node.loop_var, axis, node.extent, node.body)
        self.threads[node.loop_var] = self._find_threads(node.extent)
        return For(
            node.loop_var,
            self.expression(node.min),
            self.expression(node.extent),
            ForKind.SERIAL,
            self.statement(node.body),
        )

    def _flatten_attrstmt(self, node: Any) -> Any:
        if node.attr_key == "thread_extent":
            return self._launch(node.node.var, str(node.node.thread_tag), node.value, node.body)
        if node.attr_key == "reduce_scope":
            self.reducer = node.node
        body = self.statement(node.body)
        if node.attr_key == "virtual_thread":
            return For(node.node.var, integer(0), node.value, ForKind.SERIAL, body)
        return AttrStmt(node.node, node.attr_key, node.value, body)

    def _launch(self, variable: Var, axis: str, extent: Any, inside: Any) -> Any:
        if axis not in AXES:
            raise UnsupportedError(f"a GPU has no thread axis '{axis}'; choose one of {AXES}")
        size = require_constant(extent)
        self.threads[variable] = {variable: size}
        around = self.axes
        if axis.startswith("threadIdx"):
            self.axes = [*(one for one in around if one.name != axis), Axis(axis, variable, size)]
        is_outermost, self.is_launched = not self.is_launched, True
        body = self.statement(inside)
        self.axes = around
        if is_outermost:
            self.is_launched = False
            used = set(_find_accessed(body))
            body = _sequence([*(AllocBuffer(one) for one in self.waiting if one in used), body])
        place = IterVar(tvm.ir.Range(0, extent), variable, IterVar.ThreadIndex, axis)
        return AttrStmt(place, "thread_extent", extent, body)

    def _flatten_ifthenelse(self, node: Any) -> Any:
        other = None if node.else_case is None else self.statement(node.else_case)
        return IfThenElse(self.expression(node.condition), self.statement(node.then_case), other)

    def _flatten_bufferstore(self, node: Any) -> Any:
        buffer, index = self.buffers.place(
            node.buffer, [self.expression(one) for one in node.indices]
        )
        store = BufferStore(buffer, self.expression(node.value), [index], span=node.span)
        return self._in_turn(store)

    def _flatten_bind(self, node: Any) -> Any:
        self.threads[node.var] = self._find_threads(node.value)
        return Bind(node.var, self.expression(node.value))

    def _flatten_evaluate(self, node: Any) -> Any:
        if is_allreduce(node.value) and self.in_order:
            return self._reduce(node.value)
        done = Evaluate(self.expression(node.value))
        calls = find_all(done.value, Call)
        return self._in_turn(done) if any(_find_place(one) is not None for one in calls) else done

    def _reduce(self, call: Any) -> Any:
        """TVM's reduction over threads in registers; all of a block's must take part."""
        if {one.name for one in self.axes} != self.all_axes:
            raise UnsupportedError("the interpreter does not reduce over some threads of a block")
        flat = Call(call.op, [self.expression(one) for one in call.args], ret_ty=call.ty)
        cells, done = make_allreduce(flat, self.reducer, self.axes, self._in_turn)
        self.waiting += cells
        return done

    def _in_turn(self, statement: Any) -> Any:
        """A statement that touches memory; all threads wait for it while they are in order."""
        if not (self.in_order and self.is_launched):
            return statement
        return SeqStmt([statement, Evaluate(_barrier())])

    def _flatten_allocbuffer(self, node: Any) -> Any:
        return _sequence(self._allocate(node.buffer))

    def _flatten_declbuffer(self, node: Any) -> Any:
        self.buffers.declare(node.buffer, next(iter(find_all(node.data, Var)), None))
        return Evaluate(integer(0))

    def _allocate(self, buffer: Var) -> list[Any]:
        flat = self.buffers.flatten(buffer)
        if self.is_launched or not self.has_threads or str(buffer.scope()) == "global":
            return [AllocBuffer(flat)]
        self.waiting.append(flat)
        return []

    def _load(self, node: Any) -> Any:
        buffer, index = self.buffers.place(node.source, list(node.indices))
        return BufferLoad(buffer, [index], span=node.span)

    def _point(self, node: Any) -> Any:
        """A call that takes a buffer for its address: it takes the flat twin's."""
        place = _find_place(node)
        if place is None:
            return node
        arguments = list(node.args)
        arguments[place] = self.buffers.flatten(arguments[place])
        return Call(node.op, arguments, node.attrs, span=node.span, ret_ty=node.ty)

    def _find_threads(self, value: Any) -> dict[Var, int]:
        found: dict[Var, int] = {}
        for variable in undefined_vars(value):
            found.update(self.threads.get(variable, {}))
        return found


def _find_accessed(body: Any) -> list[Var]:
    stores = [node.buffer for node in find_all(body, BufferStore)]
    calls = [node for node in find_all(body, Call) if _find_place(node) is not None]
    pointers = [node.args[_find_place(node)] for node in calls]
    return [*stores, *(node.source for node in find_all(body, TensorLoad)), *pointers]


def _find_place(call: Any) -> int | None:
    """Which argument of a call is a buffer, taken for its address; None for other calls."""
    name = str(getattr(call.op, "name", ""))
    place = {"tirx.buffer_data": 0, "tirx.tvm_access_ptr": 1}.get(name)
    return place if place is not None and isinstance(call.args[place], Var) else None


def _sequence(statements: Sequence[Any]) -> Any:
    if not statements:
        return Evaluate(integer(0))
    return SeqStmt(list(statements)) if len(statements) > 1 else statements[0]


def _barrier() -> Any:
    return tvm.tirx.call_intrin("int32", "tirx.tvm_storage_sync", "shared")
