"""Rewriting of a schedule's program beyond TVM's primitives, with its handles kept alive.

TVM's ``ScheduleState.replace`` exchanges a block, and is told which blocks in it go on as which.
It leaves two things to us: what TVM's analysis knows of the new blocks, and the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.s_tir.schedule.instruction import Instruction, InstructionKind
from tvm.tirx import (
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IntImm,
    IterVar,
    PrimFunc,
    SeqStmt,
    Var,
    const,
    decl_buffer,
    stmt_seq,
)
from tvm_ffi import structural_map

from .queries import get_root
from .schedule import TransformError
from .tir import find_all, get_regions, is_among, replace_fields

NO_REPLAY = "which no trace can replay"
"""The note in a trace where blocks were replaced by others."""
_PROBE = "tirstep_probe"


def get_scope(sch: Schedule, handle: LoopRV | SBlockRV) -> Any:
    """The sref of the block around a handle, in which its dependences are."""
    sref = sch.get_sref(handle).parent
    while sref is not None and not isinstance(sref.stmt, SBlock):
        sref = sref.parent
    if sref is None:
        raise TransformError("the root block is in no other one", "pass a block inside of it")
    return sref


def get_function(sch: Schedule, handle: LoopRV | SBlockRV) -> str:
    """The name of the function that a handle belongs to."""
    root = get_root(sch, handle)
    functions = [item for item in sch.mod.functions_items() if isinstance(item[1], PrimFunc)]
    return next(str(it.name_hint) for it, body in functions if body.body.block.same_as(root))


def replace_scope(
    sch: Schedule, handle: LoopRV | SBlockRV, new: SBlock, reuse: dict[SBlock, SBlock], *, who: str
) -> None:
    """Replace the block around a handle.

    `reuse` has what old blocks go on as; handles of loops live on as long as their variables. The
    trace gets an instruction that fails where it is replayed, and names `who`: no primitive of
    TVM's makes what is here.
    """
    scope = get_scope(sch, handle)
    # The block with one more nest at its end, which computes nothing that is used.
    buffer, loop, point = decl_buffer((1,), "int32", _PROBE), Var("u", "int32"), Var("v", "int32")
    one = Range.from_min_extent(0, 1)
    store = BufferStore(buffer, const(0, "int32"), [point])
    iterator = IterVar(one, point, IterVar.DataPar)
    written = BufferRegion(buffer, [Range.from_min_extent(point, 1)])
    realize = SBlockRealize([loop], True, SBlock([iterator], [], [written], _PROBE, store))
    nest = For(loop, IntImm("int32", 0), IntImm("int32", 1), ForKind.SERIAL, realize)
    statements = list(new.body.seq) if isinstance(new.body, SeqStmt) else [new.body]
    probed = replace_fields(
        new, body=SeqStmt([*statements, nest]), alloc_buffers=[*new.alloc_buffers, buffer]
    )
    sch.state.replace(scope, probed, {scope.stmt: probed, **reuse})
    function = get_function(sch, handle)
    # Have TVM analyze a scope with a probe: it takes new blocks for undecided otherwise.
    # Python cannot ask for that, and blockize does it on the way.
    steps = len(sch.trace.insts)
    probe = sch.get_sblock(_PROBE, function)
    (loop,) = sch.get_loops(probe)
    outer = sch.blockize(loop)
    for each in (outer, probe, loop):
        sch.remove_rv(each)
    while len(sch.trace.insts) > steps:
        sch.trace.pop()
    scope = get_scope(sch, handle)
    sch.state.replace(scope, new, {scope.stmt: new})
    _forbid_replay(sch, function, who)


def _forbid_replay(sch: Schedule, function: str, who: str) -> None:
    """Append to the trace what fails when it is replayed, by a name that says why."""
    found, name = SBlockRV(), f"what {who} made, {NO_REPLAY}"
    kinds = [InstructionKind.get(kind) for kind in ("GetSBlock", "ComputeInline")]
    sch.trace.append(Instruction(kinds[0], [], [name, function], [found]))
    sch.trace.append(Instruction(kinds[1], [found], [], []))


def replace_block(sch: Schedule, block: SBlockRV, new: SBlock, *, who: str) -> None:
    """Put another block in the place of one, of which TVM's analysis knows the same.

    The trace gets an instruction that fails where it is replayed, and names `who`.
    """
    sch.state.replace(sch.get_sref(block), new, {sch.get(block): new})
    _forbid_replay(sch, get_function(sch, block), who)


def edit_scope(scope: SBlock, body: Any, new_buffers: list[Any]) -> SBlock:
    """A block with another body and more buffers, without those that nothing uses any more."""
    blocks = find_all(body, SBlock)
    used = [region.source for block in blocks for region in get_regions(block)]
    buffers = [buffer for buffer in (*scope.alloc_buffers, *new_buffers) if is_among(buffer, used)]
    return replace_fields(scope, body=body, alloc_buffers=buffers)


def edit_block(block: SBlock, body: Any, replaced: tuple[Any, Any] | None = None) -> SBlock:
    """A block with another body, which uses one buffer in another one's place.

    It reads what its body loads, or its initialization, and writes what they store; of a block that
    is one buffer's view, or has an instruction, all that is stated is kept.
    """
    old, new = replaced or (None, None)

    def rename(regions: Any) -> list[Any]:
        return [
            BufferRegion(new, region.region) if region.source.same_as(old) else region
            for region in regions
        ]

    reads, writes = rename(block.reads), rename(block.writes)
    parts = [body] if block.init is None else [body, block.init]
    if not block.match_buffers and not find_all(body, Evaluate):
        loaded = [load.source for part in parts for load in find_all(part, TensorLoad)]
        reads = [region for region in reads if is_among(region.source, loaded)]
        stored = [store.buffer for part in parts for store in find_all(part, BufferStore)]
        writes = [region for region in writes if is_among(region.source, stored)]
    return replace_fields(block, reads=reads, writes=writes, body=body)


def replace_blocks(
    sch: Schedule,
    block: SBlockRV,
    made: dict[SBlock, SBlock],
    buffers: list[Any],
    *,
    who: str,
    callbacks: Sequence[tuple[Any, Any]] = (),
) -> None:
    """Put other blocks in the place of some in the scope of one; `buffers` are new ones.

    `callbacks` are those of ``structural_map`` for other nodes of the scope.
    """

    def put(node: SBlockRealize) -> SBlockRealize:
        if node.block not in made:
            return node
        return SBlockRealize(node.iter_values, node.predicate, made[node.block])

    scope = get_scope(sch, block).stmt
    body = structural_map(scope.body, [(SBlockRealize, put), *callbacks])
    replace_scope(sch, block, edit_scope(scope, body, buffers), made, who=who)


def exchange(statement: Any, old: Any, new: Any) -> Any:
    """A statement with another one in the place of one in it."""
    return structural_map(statement, (type(old), lambda it: new if it.same_as(old) else it))


def leave_out(statement: Any, is_left_out: Callable[[Any], bool]) -> Any:
    """A statement without some of those that follow one another in it."""

    def rewrite(sequence: SeqStmt) -> Any:
        kept = [part for part in sequence.seq if not is_left_out(part)]
        return sequence if len(kept) == len(sequence.seq) else stmt_seq(*kept)

    return structural_map(statement, (SeqStmt, rewrite))


def map_elements(statement: Any, change: Callable[[Any, Any], tuple[Any, Any] | None]) -> Any:
    """A statement that loads and stores other elements: what `change` makes of the buffer and the
    indices of each; None for itself.
    """

    def load(node: TensorLoad) -> Any:
        made = change(node.source, node.indices)
        return node if made is None else BufferLoad(*made)

    def store(node: BufferStore) -> Any:
        made = change(node.buffer, node.indices)
        return node if made is None else BufferStore(made[0], node.value, made[1])

    return structural_map(statement, [(TensorLoad, load), (BufferStore, store)])


def cover_all(buffer: Any) -> BufferRegion:
    """All of a buffer."""
    return BufferRegion(buffer, [Range.from_min_extent(0, size) for size in buffer.shape])


def open_loops(statement: Any) -> tuple[list[For], Any]:
    """The loops that a statement is, outermost first, and what stands in the innermost."""
    loops: list[For] = []
    while isinstance(statement, For):
        loops.append(statement)
        statement = statement.body
    return loops, statement


def edit_loop(loop: For, **fields: Any) -> For:
    """A loop with other values of the fields that are named, and no place in a text."""
    return replace_fields(loop, span=None, **fields)
