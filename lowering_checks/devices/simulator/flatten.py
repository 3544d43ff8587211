"""Rewrites TIR of any stage into the few flat statements that the simulated GPU runs.

It is meant to be read, not to be fast, and shares nothing with the lowering passes that it is to
judge: SBlocks become their iterators' values, a condition and a body; buffers of several dimensions
become flat ones; thread-bound loops become thread extents, in which equal axes are equal threads.
Where a module has few threads or none, iterations of data-parallel loops become threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm.ir import Call, PrimType, StringImm, TensorLoad
from tvm.s_tir import SBlock
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
    While,
    ceildiv,
    decl_buffer,
)
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_map

from tirstep.transforms.gpu_limits import MAX_EXTENTS
from tirstep.transforms.tir import THREAD_EXTENT, constant, find_all, find_axes, get_elements
from tirstep.tvm_compat import find_buffer_arguments, get_op_name

from ...device import BLOCK_AXES, CLUSTER_AXIS, is_scalar
from .run_state import IN_ORDER, OF_KERNELS, UnsupportedError


def flatten(
    function: Any, *, in_order: bool, at_once: bool = True
) -> tuple[Any, tuple[Var, ...], bool, bool]:
    """A function in flat statements, its parameters as flat buffers, whether iterations of a
    data-parallel block are run at once, because it says so, and whether it has threads of its own.

    `in_order`: TVM has not ordered the threads yet, so that every store is followed by a barrier,
    which is what a schedule means. `at_once`: loops of data-parallel blocks are bound to thread
    axes that are free (see `bind_parallel_loops`). Raises `UnsupportedError` for what is not known.
    """
    flattener = _Flattener(function.body, in_order=in_order, at_once=at_once)
    for parameter in function.params:
        if is_scalar(parameter) and not isinstance(parameter.ty, PrimType):
            raise UnsupportedError("the interpreter does not support functions of packed arguments")
    parameters = tuple(
        parameter if is_scalar(parameter) else flattener.buffers.flatten(parameter)
        for parameter in function.params
    )
    body = flattener.statement(function.body)
    return body, parameters, flattener.has_spread, flattener.has_threads


class _Flattener:
    def __init__(self, body: Any, *, in_order: bool, at_once: bool) -> None:
        self.in_order, self.at_once = in_order, at_once
        self.is_launched = self.has_spread = False
        bindings = [loop.thread_binding for loop in find_all(body, For)]
        self.has_threads = bool(find_axes(body)) or any(it is not None for it in bindings)
        self.has_allreduce = any(is_allreduce(call) for call in find_all(body, Call))
        self.buffers = _FlatBuffers()
        self.threads: dict[Var, dict[Var, int]] = {}  # thread axes that a variable depends on
        self.axes: dict[Var, str] = {}
        self.pending: list[Var] = []  # buffers of a thread block, declared around the launch

    def statement(self, node: Any) -> Any:
        kind = type(node).__name__
        maker: Callable[[Any], Any] | None = getattr(self, f"_flatten_{kind.lower()}", None)
        if maker is None:
            raise UnsupportedError(f"the interpreter does not support the statement {kind}")
        return maker(node)

    def expression(self, node: Any) -> Any:
        return structural_map(node, [(TensorLoad, self._load), (Call, self._point)])

    def _flatten_seqstmt(self, node: Any) -> Any:
        return sequence([self.statement(statement) for statement in node.seq])

    def _flatten_sblockrealize(self, node: Any) -> Any:
        sblock = node.block
        binds = []
        reduced: dict[Var, int] = {}
        for iterator, value in zip(sblock.iter_vars, node.iter_values, strict=True):
            axes = self._find_threads(value)
            self.threads[iterator.var] = axes
            if iterator.iter_type == IterVar.CommReduce:
                reduced.update(axes)
            binds.append(Bind(iterator.var, self.expression(value)))
        for region in sblock.match_buffers:
            binds += self.buffers.match(region.buffer, region.source, self.expression)
        buffers = [
            allocation for buffer in sblock.alloc_buffers for allocation in self._allocate(buffer)
        ]
        init = [] if sblock.init is None else [self.statement(sblock.init)]
        for iterator in sblock.iter_vars if init else ():
            if iterator.iter_type == IterVar.CommReduce:
                init = [IfThenElse(iterator.var.equal(iterator.dom.min), init[0], None)]
        parts = [*binds, *buffers, *init, self.statement(sblock.body)]
        body = IfThenElse(self.expression(node.predicate), sequence(parts), None)
        # A reduction over threads means that they add one after the other.
        if reduced and any(str(region.source.scope()) == "local" for region in sblock.writes):
            if self.has_allreduce:  # TVM has made it what each thread adds for itself
                return body
            raise UnsupportedError("the interpreter does not reduce over threads in registers")
        for variable, extent in reduced.items():
            step = Var(f"{variable.name}_step", variable.ty)
            guarded = IfThenElse(variable.equal(step), body, None)
            body = For(step, integer(0), integer(extent), ForKind.SERIAL, guarded)
        return body

    def _flatten_for(self, node: Any) -> Any:
        if node.step is not None and (step := _require_constant(node.step)) != 1:
            if step < 1:
                raise UnsupportedError(f"the interpreter does not support loops with a step {step}")
            place = Var(node.loop_var.name, node.loop_var.ty)
            body = SeqStmt([Bind(node.loop_var, node.min + place * step), node.body])
            count = ceildiv(node.extent, step)
            node = For(place, integer(0), count, node.kind, body, node.thread_binding)
        if self.at_once and not self.is_launched:
            given, node = node, bind_parallel_loops(node)
            self.has_spread |= node is not given
        is_alone = self.at_once and not self.is_launched and not self.has_threads
        if is_alone and node.kind == ForKind.PARALLEL and constant(node.extent):
            # Iterations run in any order, like thread blocks, which allocate no global memory.
            inner = [it.buffer for it in find_all(node.body, AllocBuffer)]
            inner += [it for block in find_all(node.body, SBlock) for it in block.alloc_buffers]
            if all(buffer.scope() != "global" for buffer in inner):
                place = Var(node.loop_var.name, node.loop_var.ty)
                body = SeqStmt([Bind(node.loop_var, node.min + place), node.body])
                in_order, self.in_order = self.in_order, False
                launch = self._launch(place, BLOCK_AXES[0], node.extent, body)
                self.in_order = in_order
                return launch
        binding = node.thread_binding
        axis = "" if binding is None else str(binding.thread_tag)
        if node.kind == ForKind.THREAD_BINDING and not axis.startswith("vthread"):
            if _require_constant(node.min) != 0:
                raise UnsupportedError(f"the interpreter needs loops on '{axis}' to begin at 0")
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
        if node.attr_key == THREAD_EXTENT:
            return self._launch(node.node.var, str(node.node.thread_tag), node.value, node.body)
        body = self.statement(node.body)
        if node.attr_key == "virtual_thread":
            return For(node.node.var, integer(0), node.value, ForKind.SERIAL, body)
        made = AttrStmt(node.node, node.attr_key, node.value, body)
        is_reduction = node.attr_key == "reduce_scope" and isinstance(body, Evaluate)
        return self._add_barrier(made) if is_reduction else made

    def _launch(self, variable: Var, axis: str, extent: Any, inside: Any) -> Any:
        if axis not in MAX_EXTENTS and axis != CLUSTER_AXIS:
            axes = ", ".join(MAX_EXTENTS)
            raise UnsupportedError(f"a GPU has no thread axis '{axis}'; choose one of {axes}")
        size = _require_constant(extent)
        self.threads[variable], self.axes[variable] = {variable: size}, axis
        is_outermost, self.is_launched = not self.is_launched, True
        body = self.statement(inside)
        if is_outermost:
            self.is_launched = False
            calls = ((call, find_buffer_arguments(call)) for call in find_all(body, Call))
            used = {call.args[place] for call, places in calls for place in places}
            used.update(buffer for buffer, _ in get_elements(body))
            new = [each for each in self.pending if each in used]
            body = sequence([*map(AllocBuffer, new), body])
        place = IterVar(tvm.ir.Range(0, extent), variable, IterVar.ThreadIndex, axis)
        return AttrStmt(place, THREAD_EXTENT, extent, body)

    def _flatten_ifthenelse(self, node: Any) -> Any:
        other = None if node.else_case is None else self.statement(node.else_case)
        return IfThenElse(self.expression(node.condition), self.statement(node.then_case), other)

    def _flatten_while(self, node: Any) -> Any:
        return While(self.expression(node.condition), self.statement(node.body))

    def _flatten_bufferstore(self, node: Any) -> Any:
        indices = [self.expression(index) for index in node.indices]
        buffer, index = self.buffers.place(node.buffer, indices)
        store = BufferStore(buffer, self.expression(node.value), [index], span=node.span)
        return self._add_barrier(store)

    def _flatten_bind(self, node: Any) -> Any:
        self.threads[node.var] = self._find_threads(node.value)
        return Bind(node.var, self.expression(node.value))

    def _flatten_evaluate(self, node: Any) -> Any:
        statement = Evaluate(self.expression(node.value))
        if is_allreduce(node.value):  # with the axes' names for the variables
            call = statement.value
            arguments = [StringImm(self.axes[it]) if it in self.axes else it for it in call.args]
            return Evaluate(Call(call.op, arguments, ret_ty=call.ty))
        # A call without a buffer may end what hardware reads on its own, which is an access, too.
        return self._add_barrier(statement) if isinstance(node.value, Call) else statement

    def _add_barrier(self, statement: Any) -> Any:
        """A statement that accesses memory; all threads wait for it while they are in order."""
        if not (self.in_order and self.is_launched):
            return statement
        barrier = tvm.tirx.call_intrin("int32", "tirx.tvm_storage_sync", IN_ORDER)
        return SeqStmt([statement, Evaluate(barrier)])

    def _flatten_allocbuffer(self, node: Any) -> Any:
        # TVM moves what blocks allocate to where it is used; this stays where it is, and outside of
        # a launch all of its thread blocks have the same memory.
        placed = self._allocate(node.buffer)
        return placed[0] if placed else AllocBuffer(self.pending.pop(), {OF_KERNELS: True})

    def _flatten_declbuffer(self, node: Any) -> Any:
        base = next(iter(find_all(node.data, Var)), None)
        return self.buffers.declare(node, base) or Evaluate(integer(0))

    def _allocate(self, buffer: Var) -> list[Any]:
        flat = self.buffers.flatten(buffer)
        if self.is_launched or not self.has_threads or str(buffer.scope()) == "global":
            return [AllocBuffer(flat)]
        self.pending.append(flat)
        return []

    def _load(self, node: Any) -> Any:
        buffer, index = self.buffers.place(node.source, list(node.indices))
        return BufferLoad(buffer, [index], span=node.span)

    def _point(self, node: Any) -> Any:
        """A call that takes a buffer for its address: it takes the flat twin's."""
        places = find_buffer_arguments(node)
        if not places:
            return node
        arguments = list(node.args)
        for place in places:
            arguments[place] = self.buffers.find_base(arguments[place])
        return Call(node.op, arguments, node.attrs, span=node.span, ret_ty=node.ty)

    def _find_threads(self, value: Any) -> dict[Var, int]:
        found: dict[Var, int] = {}
        for variable in find_all(value, Var):
            found.update(self.threads.get(variable, {}))
        return found


def is_allreduce(value: Any) -> bool:
    """Whether an expression is TVM's reduction over threads in registers."""
    return isinstance(value, Call) and get_op_name(value) == "tirx.tvm_thread_allreduce"


def integer(value: int) -> Any:
    """A constant of TIR, of the type of indices."""
    return tvm.tirx.const(value, "int32")


def sequence(statements: Sequence[Any]) -> Any:
    """One statement of several, or of none."""
    if not statements:
        return Evaluate(integer(0))
    return SeqStmt(list(statements)) if len(statements) > 1 else statements[0]


class _FlatBuffers:
    """Gets the flat buffer and index of an access to a buffer of any shape, strides or region."""

    def __init__(self) -> None:
        self._twins: dict[Var, Var] = {}
        self._regions: dict[Var, Any] = {}

    def match(self, buffer: Var, region: Any, expression: Callable[[Any], Any]) -> list[Any]:
        """Take a buffer as the region of another one, as an SBlock's match_buffer says.

        Returns what binds the variables of its strides and of its place, where it has any.
        """
        self._regions[buffer] = region
        _, index = self.place(buffer, [integer(0)] * len(buffer.shape))
        binds = []
        if isinstance(buffer.elem_offset, Var):
            binds.append(Bind(buffer.elem_offset, expression(index)))
        strides = _get_strides(self._find_source(buffer))
        for name, stride in zip(reversed(buffer.strides), reversed(strides), strict=False):
            if isinstance(name, Var):
                binds.append(Bind(name, integer(stride)))
        return binds

    def declare(self, node: Any, base: Var | None) -> Any:
        """Take a flat buffer as another name of one that is known; None where it is only that.

        A view of merged shared memory, which is bytes, is declared.
        """
        view, twin = node.buffer, self._twins.get(base)
        if twin is None or len(view.shape) != 1 or view.strides:
            raise UnsupportedError(f"the interpreter does not support the view {view.name}")
        if str(twin.dtype) == str(view.dtype):
            self._twins[view] = twin
            return None
        is_merged = str(twin.dtype) == "uint8" and str(view.scope()) == "shared.dyn"
        if not (is_merged and twin.same_as(base)):
            raise UnsupportedError(f"the interpreter does not support the view {view.name}")
        self._twins[view] = view
        return node

    def find_base(self, buffer: Var) -> Var:
        """The flat twin of the buffer that one is a region of, or of itself."""
        return self.flatten(self._find_source(buffer))

    def _find_source(self, buffer: Var) -> Var:
        while buffer in self._regions:
            buffer = self._regions[buffer].source
        return buffer

    def place(self, buffer: Var, indices: Sequence[Any]) -> tuple[Var, Any]:
        """A flat buffer and the index into it."""
        while buffer in self._regions:
            region = self._regions[buffer]
            skipped = [integer(0)] * (len(region.region) - len(indices))
            shifted = zip(region.region, [*skipped, *indices], strict=True)
            indices, buffer = [extent.min + index for extent, index in shifted], region.source
        if len(buffer.shape) == 1 and not buffer.strides:
            return self.flatten(buffer), indices[0]
        place: Any = integer(0)
        for index, stride in zip(indices, _get_strides(buffer), strict=True):
            place = place + index * stride
        return self.flatten(buffer), place

    def flatten(self, buffer: Var) -> Var:
        """The flat twin of a buffer; itself if it is flat."""
        if buffer not in self._twins:
            twin = buffer
            if len(buffer.shape) != 1 or buffer.strides:
                strides = _get_strides(buffer)
                size = _require_constant(buffer.shape[0]) * strides[0] if buffer.shape else 1
                name, scope = str(buffer.name), buffer.scope()
                twin = decl_buffer((size,), buffer.dtype, name, scope=scope)
            self._twins[buffer] = twin
        return self._twins[buffer]


def _get_strides(buffer: Var) -> list[int]:
    if buffer.strides:
        return [_require_constant(stride) for stride in buffer.strides]
    shape = [_require_constant(extent) for extent in buffer.shape]
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _require_constant(expression: Any) -> int:
    """The value of a constant; raises `UnsupportedError` for anything else."""
    value = constant(expression)
    if value is None:
        raise UnsupportedError(f"the interpreter needs a constant in place of {expression}")
    return value


def bind_parallel_loops(loop: For) -> For:
    """A nest of loops around one SBlock, with data-parallel ones bound to the free block axes.

    Loops that feed spatial iterators and nothing else may run in any order: that is what these
    iterators say. A loop that feeds none says nothing about its order: it may repeat the block, and
    stays. Any other loop is returned as it is; so is one with threads around a block that uses more
    than global memory, since that is what a thread block or thread has for itself.
    """
    nest: list[For] = []
    node: Any = loop
    while isinstance(node, For):
        nest.append(node)
        node = node.body
    if type(node).__name__ != "SBlockRealize" or len(find_all(node, SBlock)) != 1:
        return loop
    if any(constant(outer.min) != 0 or constant(outer.extent) is None for outer in nest):
        return loop
    bound = [outer for outer in nest if outer.kind == ForKind.THREAD_BINDING]
    if bound and any(buffer.scope() != "global" for buffer, _ in get_elements(node)):
        return loop
    taken = {str(outer.thread_binding.thread_tag) for outer in bound}
    axes = [axis for axis in BLOCK_AXES if axis not in taken]
    # The variables that feed spatial iterators, no other ones, and the block in no other way.
    feeding: dict[bool, set[Var]] = {True: set(), False: set(undefined_vars(node.block.body))}
    if node.block.init is not None:
        feeding[False].update(undefined_vars(node.block.init))
    for iterator, value in zip(node.block.iter_vars, node.iter_values, strict=True):
        feeding[iterator.iter_type == IterVar.DataPar].update(undefined_vars(value))
    parallel = feeding[True] - feeding[False]
    free = [outer for outer in nest if outer not in bound and outer.loop_var in parallel]
    free = sorted(free, key=lambda outer: -(constant(outer.extent) or 0))[: len(axes)]
    for outer in reversed(nest):
        if not any(outer.same_as(chosen) for chosen in free):
            kind = outer.kind if outer in bound else ForKind.SERIAL
            node = For(outer.loop_var, outer.min, outer.extent, kind, node, outer.thread_binding)
    for outer, axis in zip(free, axes, strict=False):
        place = IterVar(None, Var(axis, "int32"), IterVar.ThreadIndex, axis)
        node = For(outer.loop_var, outer.min, outer.extent, ForKind.THREAD_BINDING, node, place)
    return node if free else loop
