"""Questions about a schedule: each begins with `find_` or `is_` and changes nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore, For, ForKind, IterVar, Var
from tvm.tirx.analysis import undefined_vars

from .errors import query

_KIND_NAMES = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
    ForKind.THREAD_BINDING: "thread-bound",
}


def find_loop_name(sch: Schedule, loop: LoopRV) -> str:
    """The loop variable's name, as the kernel or a split gave it."""
    return str(sch.get(loop).loop_var.name)


def find_block_name(sch: Schedule, block: SBlockRV) -> str:
    """The block's name, e.g. ``"C"``."""
    return str(sch.get(block).name_hint)


def find_extent(sch: Schedule, loop: LoopRV) -> int | None:
    """How often the loop runs; None for a symbolic extent."""
    return constant(sch.get(loop).extent)


def constant(expression: Any) -> int | None:
    """The value of an integer constant of TVM; None for anything else."""
    value = getattr(expression, "value", expression)
    return int(value) if isinstance(value, int) else None


def find_kind(loop: For) -> str:
    """The loop's kind in a word: serial, parallel, vectorized, unrolled or thread-bound."""
    return _KIND_NAMES[ForKind(loop.kind)]


def find_axis(loop: For) -> str | None:
    """The thread axis that the loop is bound to, e.g. ``"threadIdx.x"``; None if it is not."""
    binding = loop.thread_binding
    return None if binding is None else str(binding.thread_tag)


def find_outer_loops(sch: Schedule, handle: LoopRV | SBlockRV) -> list[For]:
    """The loops around a loop or block, outermost first, up to the block that encloses them."""
    loops = []
    parent = sch.get_sref(handle).parent
    while parent is not None and isinstance(parent.stmt, For):
        loops.append(parent.stmt)
        parent = parent.parent
    return loops[::-1]


def find_enclosing_loops(sch: Schedule, handle: LoopRV | SBlockRV) -> list[For]:
    """All loops around a loop or block, outermost first, those around its outer blocks too."""
    loops = []
    parent = sch.get_sref(handle).parent
    while parent is not None:
        if isinstance(parent.stmt, For):
            loops.append(parent.stmt)
        parent = parent.parent
    return loops[::-1]


def get_enclosing_kernel(sch: Schedule, handle: LoopRV | SBlockRV) -> Any:
    """What becomes one GPU kernel: the outermost bound loop around a handle, or else itself.

    Serial loops further out run on the host, and may launch several kernels.
    """
    bound = [node for node in find_enclosing_loops(sch, handle) if find_axis(node) is not None]
    return bound[0] if bound else sch.get(handle)


def find_root(sch: Schedule, handle: LoopRV | SBlockRV) -> SBlock:
    """The root block of the function that a handle belongs to."""
    sref = sch.get_sref(handle)
    while sref.parent is not None:
        sref = sref.parent
    return sref.stmt


def walk(statement: Any, kind: type, visit: Callable[[Any], None]) -> None:
    """Call `visit` on every node of one kind in a statement, in program order."""
    tvm_ffi.structural_walk(statement, [(kind, visit)], order="pre")


def find_all(statement: Any, kind: type) -> list[Any]:
    """Every node of one kind in a statement, in program order."""
    return list(_find_all(statement, kind))


@functools.lru_cache(maxsize=4096)  # nodes never change, and most stay from one module to the next
def _find_all(statement: Any, kind: type) -> tuple[Any, ...]:
    found: list[Any] = []
    walk(statement, kind, found.append)
    return tuple(found)


def find_elements(statement: Any) -> list[tuple[Any, Any]]:
    """The buffer and the indices of each element that is stored, then of each that is loaded."""
    stored = [(store.buffer, store.indices) for store in find_all(statement, BufferStore)]
    return stored + [(load.source, load.indices) for load in find_all(statement, TensorLoad)]


def is_used(variable: Any, expression: Any) -> bool:
    """Whether a variable stands in an expression."""
    return any(variable.same_as(used) for used in _find_variables(expression))


@functools.lru_cache(maxsize=4096)
def _find_variables(expression: Any) -> tuple[Any, ...]:
    return tuple(undefined_vars(expression))


def is_choice(node: Any) -> bool:
    """Whether a node is a call of ``T.if_then_else``."""
    return isinstance(node, Call) and str(getattr(node.op, "name", "")) == "prim.if_then_else"


def find_operands(condition: Any, kind: Any) -> Iterator[Any]:
    """What a chain of one connective, ``And`` or ``Or``, connects; or the condition itself."""
    if isinstance(condition, kind):
        yield from find_operands(condition.a, kind)
        yield from find_operands(condition.b, kind)
    else:
        yield condition


def find_blocks_under(sch: Schedule, loop: LoopRV) -> list[SBlock]:
    """The blocks that a loop encloses."""
    return find_all(sch.get(loop), SBlock)


def find_realize(sch: Schedule, block: SBlockRV) -> SBlockRealize:
    """The realization of a block: where its iterators get their values and its predicate."""
    target = sch.get(block)
    realizes = find_all(sch.get_sref(block).parent.stmt, SBlockRealize)
    return next(realize for realize in realizes if realize.block.same_as(target))


def find_fed_iterators(realize: SBlockRealize, loop: For) -> Iterator[IterVar]:
    """The block iterators whose value uses the loop."""
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if any(variable.same_as(loop.loop_var) for variable in undefined_vars(value)):
            yield iterator


@query
def find_spatial_loops(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """The block's loops that feed none of its reductions, outermost first."""
    return [loop for loop in sch.get_loops(block) if not is_reduction_loop(sch, block, loop)]


@query
def find_reduction_loops(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """The block's loops that feed a reduction, outermost first."""
    return [loop for loop in sch.get_loops(block) if is_reduction_loop(sch, block, loop)]


def is_reduction_loop(sch: Schedule, block: SBlockRV, loop: LoopRV) -> bool:
    """Whether the loop drives a reduction of the block."""
    fed = find_fed_iterators(find_realize(sch, block), sch.get(loop))
    return any(iterator.iter_type == IterVar.CommReduce for iterator in fed)


def is_reduction(sch: Schedule, block: SBlockRV) -> bool:
    """Whether the block reduces, that is: has at least one reduction iterator."""
    iterators = sch.get(block).iter_vars
    return any(iterator.iter_type == IterVar.CommReduce for iterator in iterators)


def is_around(sch: Schedule, loop: LoopRV, block: SBlockRV) -> bool:
    """Whether the block stands inside the loop."""
    node = sch.get(loop)
    return any(outer.same_as(node) for outer in find_outer_loops(sch, block))


def find_own_loops(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """The innermost loops that enclose this block and no other one, outermost first."""
    own: list[LoopRV] = []
    for loop in reversed(sch.get_loops(block)):
        if len(find_blocks_under(sch, loop)) > 1:
            break
        own.append(loop)
    return own[::-1]


def find_regions(block: SBlock) -> list[Any]:
    """What a block reads, then what it writes."""
    return [*block.reads, *block.writes]


@query
def find_epilogue(sch: Schedule, block: SBlockRV) -> SBlockRV | None:
    """The one consumer of a block whose output is an intermediate buffer; None without one.

    A consumer that reduces is none: it needs results of other threads.
    """
    consumers = [one for one in sch.get_consumers(block) if not is_reduction(sch, one)]
    owned = [
        buffer for node in find_all(find_root(sch, block), SBlock) for buffer in node.alloc_buffers
    ]
    outputs = [region.source for region in sch.get(block).writes]
    inner = all(any(output.same_as(buffer) for buffer in owned) for output in outputs)
    alone = len(consumers) == len(sch.get_consumers(block)) == 1
    return consumers[0] if alone and inner else None


def find_row_stride(root: SBlock, buffer: Any) -> int | None:
    """The elements from row to row that `pad_shared_rows` gave a buffer; None without padding."""
    for block in find_all(root, SBlock):
        if any(region.source.same_as(buffer) for region in block.writes):
            for _, _, row, padding in block.annotations.get("buffer_dim_align", []):
                return int(row) + int(padding)
    return None


def find_row_length(sch: Schedule, block: SBlockRV) -> int | None:
    """The extent of the one own loop along the last dimension of a copy; None if unclear."""
    realize, last = find_realize(sch, block), sch.get(block).writes[0].region[-1].min
    rows = []
    for loop in find_own_loops(sch, block):
        fed = [iterator.var for iterator in find_fed_iterators(realize, sch.get(loop))]
        if any(variable.same_as(last) for variable in fed):
            rows.append((loop, fed))
    if len(rows) != 1 or len(rows[0][1]) != 1:
        return None
    return find_extent(sch, rows[0][0])


def find_iterator_values(root: SBlock) -> dict[Any, Any]:
    """The value of every block iterator under a root block, in loop variables alone."""
    values: dict[Any, Any] = {}
    for realize in find_all(root, SBlockRealize):
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            values[iterator.var] = substitute(value, values)
    return values


def substitute(expression: Any, values: dict[Any, Any]) -> Any:
    """The expression with variables replaced; those without a value stay."""
    if not values:
        return expression
    return tvm_ffi.structural_map(expression, (Var, lambda var: values.get(var, var)))
