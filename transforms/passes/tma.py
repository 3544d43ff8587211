"""A pass that makes the pipelines of `prefetch_by_tma`: tensor maps, mbarriers and bulk copies.

It runs where blocks are opaque and buffers as small as a thread block needs, before TVM swizzles
indices and makes its own pipelines. Instructions from the PTX ISA, sections "mbarrier" and "Data
Movement and Conversion Instructions: cp.async.bulk.tensor".

Pointers into the tiles and mbarriers are declared to be read only: TVM's ThreadSync would otherwise
put barriers around the accesses, which the mbarriers order. All barriers that are needed stand here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm.ir import Call, Range, TensorLoad, TensorRegion
from tvm.s_tir import SBlock, SBlockRealize
from tvm.script import tirx as T
from tvm.tirx import (
    LT,
    And,
    Bind,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    SeqStmt,
    Var,
    decl_buffer,
)
from tvm.tirx.transform import prim_func_pass

from ..errors import TransformError
from ..gpu_limits import WARP
from ..tir import constant, find_all, get_axis
from ..tma_tiles import SWIZZLES, TMA_COPY, TMA_STAGES, TmaTile, read_tile

READ = 1
"""The mask of a pointer that reads."""


ROOM = 128
"""Places of 8 bytes for mbarriers: 1024 bytes, so that tiles beside them begin at multiples of
that."""


@prim_func_pass(opt_level=0, name="tirstep.LowerTmaPipelines")
def LowerTmaPipelines(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Make a pipeline of bulk copies of each loop that `prefetch_by_tma` annotated.

    rewrite: ``for k: A_shared = A[k]; compute(A_shared)`` -> ``map = tensor map of A; (init
        mbarrier[0 .. stages - 1]; copy A[0 .. stages - 2]; for k: wait for mbarrier[k % stages];
        barrier; copy A[k + stages - 1]; compute(A_shared[k % stages]))``
    """
    loops = [loop for loop in find_all(function.body, For) if TMA_STAGES in loop.annotations]
    if not loops:
        return function
    maps: list[Any] = []

    def rewrite(loop: For) -> Any:
        if TMA_STAGES not in loop.annotations:
            return loop
        return _Pipeline.of(loop, _find_threads(function.body, loop), len(maps)).lower(maps)

    body = tvm_ffi.structural_map(function.body, (For, rewrite))
    return function.with_body(_put_at_root(body, maps))


def _put_at_root(body: Any, statements: list[Any]) -> Any:
    """Statements of the host before all others of a function."""
    if not isinstance(body, SBlockRealize):
        return SeqStmt([*statements, body])
    block = body.block
    inner = SeqStmt([*statements, block.body])
    return SBlockRealize(body.iter_values, body.predicate, _with_body(block, inner))


def _with_body(block: SBlock, body: Any, allocated: list[Any] | None = None) -> SBlock:
    return SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        body,
        block.init,
        block.alloc_buffers if allocated is None else allocated,
        block.match_buffers,
        block.annotations,
    )


def _find_threads(body: Any, loop: For) -> list[tuple[Any, int]]:
    """The thread axes around a loop, threadIdx.x first, and their extents."""
    around = [
        outer
        for outer in find_all(body, For)
        if get_axis(outer) is not None and any(loop.same_as(each) for each in find_all(outer, For))
    ]
    axes = {get_axis(outer): outer for outer in around}
    found = [axes[f"threadIdx.{axis}"] for axis in "xyz" if f"threadIdx.{axis}" in axes]
    return [(outer.loop_var, constant(outer.extent) or 1) for outer in found]


@dataclass
class _Pipeline:
    """A loop whose tiles the TMA copies.

    Attributes
    ----------
    tiles : of the copies, with buffers of one stage
    rest : what the loop computes
    block : that allocates the tiles, around the loop's body
    threads : as `_find_threads`
    first_map : the number of its first tensor map
    """

    loop: For
    stages: int
    tiles: list[TmaTile]
    rest: list[Any]
    block: SBlock
    threads: list[tuple[Any, int]]
    first_map: int

    @classmethod
    def of(cls, loop: For, threads: list[tuple[Any, int]], first_map: int) -> _Pipeline:
        block = loop.body.block if isinstance(loop.body, SBlockRealize) else None
        parts = list(block.body.seq) if block and isinstance(block.body, SeqStmt) else []
        copies = [part for part in parts if _find_copy(part) is not None]
        if block is None or not copies or parts[: len(copies)] != copies:
            raise TransformError(
                f"loop '{loop.loop_var.name}' has no copies first, of buffers of its own",
                "lower the module as prefetch_by_tma left it",
            )
        tiles = [_read(copy) for copy in copies]
        stages = int(loop.annotations[TMA_STAGES])
        return cls(loop, stages, tiles, parts[len(copies) :], block, threads, first_map)

    def lower(self, maps: list[Any]) -> Any:
        """The pipeline; appends the statements that make its tensor maps, on the host."""
        count = constant(self.loop.extent) or 0
        self.staged = [_give_stages(tile.target, self.stages) for tile in self.tiles]
        self.barriers = decl_buffer((ROOM,), "uint64", "tma_arrived", scope="shared.dyn")
        self.maps = [
            Var(f"tensor_map_{self.first_map + at}", T.handle("tensormap").ty)
            for at in range(len(self.tiles))
        ]
        for tile, variable in zip(self.tiles, self.maps, strict=True):
            maps += make_tensor_map(variable, tile)
        ahead = self.stages - 1
        body = SeqStmt(
            [
                *self._initialize(),
                self._if_leader([self._copy(step) for step in range(min(ahead, count))]),
                self._run(ahead, count),
                *self._invalidate(),
            ]
        )
        return _allocate([*self.staged, self.barriers], body)

    def _initialize(self) -> list[Any]:
        inits = [
            Evaluate(T.ptx.mbarrier.init.shared.b64(self._point_to(stage), 1))
            for stage in range(self.stages)
        ]
        fence = Evaluate(T.ptx["fence.mbarrier_init.release.cluster"]())
        return [self._if_leader([*inits, fence]), _barrier()]

    def _invalidate(self) -> list[Any]:
        """The place of the mbarriers may become another buffer's, or theirs again."""
        calls = [
            Evaluate(T.ptx["mbarrier.inval.shared.b64"](self._point_to(stage)))
            for stage in range(self.stages)
        ]
        return [_barrier(), self._if_leader(calls)]

    def _run(self, ahead: int, count: int) -> For:
        step = self.loop.loop_var
        stage, round_ = FloorMod(step, self.stages), FloorDiv(step, self.stages)
        wait = T.cuda.mbarrier_wait(self._point_to(stage), FloorMod(round_, 2))
        following = IfThenElse(
            LT(step + ahead, IntImm("int32", count)),
            self._if_leader([self._copy(step + ahead)]),
            None,
        )
        computed = [use_stage(part, self._get_stages(), stage) for part in self.rest]
        inner = SeqStmt([Evaluate(wait), _barrier(), following, *computed])
        own = [tile.target for tile in self.tiles]
        left = [
            buffer
            for buffer in self.block.alloc_buffers
            if not any(buffer.same_as(each) for each in own)
        ]
        block = SBlock([], [], [], self.block.name_hint, inner, alloc_buffers=left)
        notes = {key: value for key, value in self.loop.annotations.items() if key != TMA_STAGES}
        realized = SBlockRealize([], True, block)
        return For(step, self.loop.min, self.loop.extent, ForKind.SERIAL, realized, None, notes)

    def _get_stages(self) -> dict[Any, Any]:
        return dict(zip((tile.target for tile in self.tiles), self.staged, strict=True))

    def _copy(self, step: Any) -> Any:
        """Announce the bytes of an iteration's tiles, and ask for them."""
        stage = FloorMod(step, self.stages) if not isinstance(step, int) else step % self.stages
        arrived = self._point_to(stage)
        total = sum(tile.bytes for tile in self.tiles)
        calls = [Evaluate(T.ptx["mbarrier.arrive.expect_tx.shared.b64"](arrived, total))]
        for tile, buffer, variable in zip(self.tiles, self.staged, self.maps, strict=True):
            size = math.prod(tile.box)
            for panel in range(tile.panels):
                start = tile.get_start(panel)
                start = [substitute_step(index, self.loop.loop_var, step) for index in start]
                place = stage * (size * tile.panels) + panel * size
                target = buffer.access_ptr(READ, offset=place, extent=size)
                calls.append(Evaluate(_load_tile(target, variable, start, arrived)))
        return SeqStmt(calls)

    def _point_to(self, stage: Any) -> Any:
        return self.barriers.access_ptr(READ, offset=stage, extent=1)

    def _if_leader(self, statements: list[Any]) -> IfThenElse:
        """One lane of the first warp does it."""
        return if_elected(self.threads, statements)


def if_elected(threads: list[tuple[Any, int]], statements: list[Any]) -> IfThenElse:
    """Statements that one lane of the first warp runs, of threads with these axes."""
    number: Any = IntImm("int32", 0)
    for variable, extent in reversed(threads):
        number = number * extent + variable
    chosen = T.cuda.elect_sync() != T.uint32(0)
    inner = IfThenElse(chosen, SeqStmt(statements) if len(statements) > 1 else statements[0], None)
    first_axis = threads[0][1] if threads else 1
    others = threads[1:] if first_axis == WARP else []
    if others:  # simpler to read, and for the compiler
        conditions = [variable.equal(0) for variable, _ in others]
        condition = conditions[0]
        for each in conditions[1:]:
            condition = And(condition, each)
        return IfThenElse(condition, inner, None)
    return IfThenElse(LT(number, IntImm("int32", WARP)), inner, None)


def _find_copy(part: Any) -> SBlock | None:
    blocks = [block for block in find_all(part, SBlock) if TMA_COPY in block.annotations]
    return blocks[0] if blocks else None


def _read(part: Any) -> TmaTile:
    """The tile of a copy, under loops of its own."""
    block = _find_copy(part)
    loops = find_all(part, For)
    assert block is not None
    store = find_all(block.body, BufferStore)[0]
    return read_tile(store, loops, {}, int(block.annotations[TMA_COPY]), str(block.name_hint))


def _give_stages(buffer: Any, stages: int) -> Any:
    return decl_buffer(
        (stages, *buffer.shape), buffer.dtype, str(buffer.name), scope=str(buffer.scope())
    )


def _allocate(buffers: list[Any], body: Any) -> SBlockRealize:
    return SBlockRealize([], True, SBlock([], [], [], "", body, alloc_buffers=buffers))


def _barrier() -> Evaluate:
    return Evaluate(T.tvm_storage_sync("shared"))


def _load_tile(target: Any, tensor_map: Any, start: list[Any], arrived: Any) -> Any:
    name = (
        f"cp.async.bulk.tensor.{len(start)}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    )
    return T.ptx[name](target, T.address_of(tensor_map), *reversed(start), arrived)


def make_tensor_map(variable: Any, tile: TmaTile) -> list[Any]:
    """What the host does to describe a tensor and its tiles: innermost dimensions come first."""
    size = tile.source.dtype.itemsize
    shape = [constant(extent) or 1 for extent in tile.source.shape]
    rank = len(shape)
    pitches = [math.prod(shape[at:]) * size for at in range(1, rank)]
    dtype = str(tile.source.dtype)
    encode = T.tensormap_encode_tiled(
        variable,
        tile.source.data,
        *reversed(shape),
        *reversed(pitches),
        *reversed(tile.box),
        *[1] * rank,
        descriptor_dtype="uint8" if dtype.startswith("float8") or dtype == "int8" else dtype,
        rank=rank,
        swizzle=SWIZZLES.index(tile.swizzle) + 1 if tile.swizzle else 0,
    )
    return [Bind(variable, T.tvm_stack_alloca("tensormap", 1)), Evaluate(encode)]


def substitute_step(index: Any, variable: Any, step: Any) -> Any:
    """An index in another iteration."""
    value = IntImm("int32", step) if isinstance(step, int) else step
    return tvm_ffi.structural_map(
        index, (Var, lambda node: value if node.same_as(variable) else node)
    )


def use_stage(statement: Any, stages: dict[Any, Any], stage: Any) -> Any:
    """A statement that uses one stage of buffers that have several now."""

    def find(buffer: Any) -> Any:
        return stages.get(buffer)

    def load(node: Any) -> Any:
        made = find(node.source)
        return node if made is None else BufferLoad(made, [stage, *node.indices])

    def store(node: Any) -> Any:
        made = find(node.buffer)
        return node if made is None else BufferStore(made, node.value, [stage, *node.indices])

    def region(node: Any) -> Any:
        made = find(node.source)
        if made is None:
            return node
        return BufferRegion(made, [Range.from_min_extent(stage, 1), *node.region])

    callbacks: list[tuple[type, Callable[[Any], Any]]] = [
        (TensorLoad, load),
        (BufferStore, store),
        (TensorRegion, region),
        (Call, lambda node: _point_into(node, stages, stage)),
    ]
    return tvm_ffi.structural_map(statement, callbacks)


def _point_into(call: Any, stages: dict[Any, Any], stage: Any) -> Any:
    """A pointer into a buffer, in a stage of it."""
    name = str(getattr(call.op, "name", ""))
    if name != "tirx.tvm_access_ptr":
        return call
    for buffer, made in stages.items():
        if tvm_ffi.structural_equal(call.args[1], buffer.data):
            size = math.prod(constant(extent) or 1 for extent in buffer.shape)
            args = [call.args[0], made.data, call.args[2] + stage * size, *call.args[3:]]
            return Call(call.op, args, ret_ty=call.ty)
    return call
