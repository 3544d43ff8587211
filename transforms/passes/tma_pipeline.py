"""The pieces of a pipeline of bulk copies: tensor maps, stages, mbarriers, copies and waits.

Instructions from the PTX ISA, sections "mbarrier" and "Data Movement and Conversion Instructions:
cp.async.bulk.tensor".

Pointers into the tiles and mbarriers are declared to be read only: TVM's ThreadSync would otherwise
put barriers around the accesses, which the mbarriers order. All that are needed stand here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm.ir import Call, PointerType, Range, TensorLoad, TensorRegion
from tvm.s_tir import SBlock, SBlockRealize
from tvm.script import tirx as T
from tvm.tirx import (
    LT,
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
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..gpu_limits import WARP
from ..intrinsics.mma import SCOPE
from ..schedule import TransformError
from ..tir import constant, find_all, is_among, number_threads
from ..tma_tiles import (
    SWIZZLES,
    TMA_BLOCKS,
    TMA_COPY,
    TMA_IN_FLIGHT,
    TMA_OVERLAP,
    TMA_PINGPONG,
    TMA_PREFIX,
    TMA_STAGES,
    CopyShape,
    TmaTile,
    find_tile,
)
from .barriers import is_proxy_fence
from .rounds import GridRounds
from .uses import is_barrier

READ = 1
"""The mask of a pointer that reads."""
ENCODES = "encode_matrix_descriptor"
"""What a call of TVM's ends in that describes a tile to wgmma."""
_LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::bytes"
ROOM = 128
"""Places of 8 bytes for mbarriers: 1024 bytes, so that tiles beside them begin at multiples of
that."""


@dataclass
class Pipeline:
    """A loop whose tiles the TMA copies.

    Attributes
    ----------
    tiles : of the copies, with buffers of one stage
    rest : what the loop computes
    block : that allocates the tiles, around the loop's body
    threads : as `find_threads`
    first_map : the number of its first tensor map
    parameters : of the function
    rounds : in which a thread block goes through tiles
    """

    loop: For
    stages: int
    tiles: list[TmaTile]
    rest: list[Any]
    block: SBlock
    threads: list[tuple[Any, int]]
    first_map: int
    parameters: list[Any]
    rounds: GridRounds

    @classmethod
    def of(
        cls,
        loop: For,
        threads: list[tuple[Any, int]],
        first_map: int,
        parameters: list[Any],
        body: Any = None,
    ) -> Pipeline:
        """The pipeline of a loop that `prefetch_by_tma` annotated, in the body of a function."""
        block = loop.body.block if isinstance(loop.body, SBlockRealize) else None
        parts = list(block.body.seq) if block and isinstance(block.body, SeqStmt) else []
        copies = [part for part in parts if _find_copy(part) is not None]
        if block is None or not copies or parts[: len(copies)] != copies:
            raise TransformError(
                f"loop '{loop.loop_var.name}' has no copies first, of buffers of its own",
                "lower the module as prefetch_by_tma left it",
            )
        tiles = [_read(copy, threads) for copy in copies]
        stages = int(loop.annotations[TMA_STAGES])
        rest = parts[len(copies) :]
        rounds = GridRounds.of(loop, body)
        return cls(loop, stages, tiles, rest, block, threads, first_map, parameters, rounds)

    def __post_init__(self) -> None:
        self.in_flight = int(self.loop.annotations.get(TMA_IN_FLIGHT, 0))
        self.overlaps = TMA_OVERLAP in self.loop.annotations
        self.alternates = TMA_PINGPONG in self.loop.annotations
        self.blocks = int(self.loop.annotations.get(TMA_BLOCKS, 1))
        # A buffer of several stages, in dynamic memory: CUDA aligns static arrays to 64 bytes only.
        self.staged = [
            decl_buffer(
                (self.stages, *tile.target.shape),
                tile.target.dtype,
                str(tile.target.name),
                scope=SCOPE,
            )
            for tile in self.tiles
        ]
        self.barriers = decl_buffer((ROOM,), "uint64", "tma_barriers", scope=SCOPE)
        self.maps = [
            Var(f"tensor_map_{self.first_map + at}", T.handle("tensormap").ty)
            for at in range(len(self.tiles))
        ]

    @property
    def notes(self) -> dict[str, Any]:
        """What others say of the loop."""
        return {
            key: value
            for key, value in self.loop.annotations.items()
            if not str(key).startswith(TMA_PREFIX)
        }

    def make_tensor_maps(self) -> list[Any]:
        """What the host does before the kernel: two statements for each tensor."""
        pairs = zip(self.maps, self.tiles, strict=True)
        return [each for variable, tile in pairs for each in make_tensor_map(variable, tile)]

    def lower(self) -> Any:
        """The pipeline in which all threads wait and compute, and one of them copies."""
        ahead = self.stages - 1 - self.in_flight
        first = [part for step in range(ahead) if (part := self._copy_within(step)) is not None]
        body = [
            *self.initialize([1] * self.stages),
            if_elected(self.threads, first),
            self._run(ahead),
            *self.wait_for_groups(),
            *self.invalidate(self.stages),
        ]
        return self.allocate(SeqStmt(body))

    def allocate(self, body: Any, others: Sequence[Any] = ()) -> SBlockRealize:
        """A statement in which there are the stages and the mbarriers, and other buffers.

        It names the intermediate tensors that copies read by their tensor maps: TVM's
        StorageRewrite would otherwise give their memory to what the kernel writes. So it does with
        others in shared memory, for which TVM would find room in stages that are used later on in
        the text, and at the same time.
        """
        sources = [tile.source for tile in self.tiles]
        made = [source for source in sources if not is_among(source, self.parameters)]
        named = [Evaluate(source.access_ptr(READ)) for source in [*made, *find_shared(others)]]
        body = join([body, *named])
        others = [*others, *(self.find_others() if self.overlaps else [])]
        buffers = [*self.staged, self.barriers, *others]
        return SBlockRealize([], True, SBlock([], [], [], "", body, alloc_buffers=buffers))

    def initialize(self, counts: list[int]) -> list[Any]:
        """Make mbarriers, each for a number of arrivals."""
        inits = [
            Evaluate(T.ptx.mbarrier.init.shared.b64(self.point_to(at), count))
            for at, count in enumerate(counts)
        ]
        fence = Evaluate(T.ptx["fence.mbarrier_init.release.cluster"]())
        made = if_elected(self.threads, [*inits, fence])
        return [*self._fence_stores(), made, make_barrier()]

    def fence_others(self) -> list[Any]:
        """In front of the loop, once more for each tile of a thread block, as `initialize`."""
        fence = self._fence_stores()
        return [*fence, make_barrier()] if fence else []

    def _fence_stores(self) -> list[Any]:
        """A fence behind what threads stored before the loop, where wgmma reads that; or nothing.

        The fences in the loop would order that, and are dropped with those of its tiles.
        """
        own = [tile.target.data for tile in self.tiles]
        pointers = [
            call.args[1]
            for part in self.rest
            for call in find_all(part, Call)
            if get_op_name(call).endswith(ENCODES)
        ]
        reads = any(
            not any(tvm_ffi.structural_equal(pointer.args[1], data) for data in own)
            for pointer in pointers
        )
        return [make_proxy_fence()] if reads else []

    def invalidate(self, count: int) -> list[Any]:
        """The place of the mbarriers may become another buffer's, or theirs again."""
        calls = [
            Evaluate(T.ptx["mbarrier.inval.shared.b64"](self.point_to(at))) for at in range(count)
        ]
        return [make_barrier(), if_elected(self.threads, calls)]

    def count(self, step: Any) -> Any:
        """The number of an iteration among those of all tiles of a thread block."""
        return self.rounds.count(step)

    def wait_for_tile(self) -> Evaluate:
        """Wait until an iteration's tiles have arrived."""
        step = self.count(self.loop.loop_var)
        round_ = FloorDiv(step, self.stages)
        place = self.point_to(FloorMod(step, self.stages))
        return Evaluate(T.cuda.mbarrier_wait(place, FloorMod(round_, 2)))

    def wait_for_groups(self) -> list[Any]:
        """Behind the loop, tiles become another buffer's memory, and no group may read them."""
        return [Evaluate(T.ptx.wgmma.wait_group.sync.aligned(0))] if self.in_flight else []

    def compute(self) -> list[Any]:
        """What an iteration computes, with its stage."""
        stages = dict(zip((tile.target for tile in self.tiles), self.staged, strict=True))
        stage = FloorMod(self.count(self.loop.loop_var), self.stages)
        return [use_stage(part, stages, stage) for part in drop_fences(self.rest)]

    def fence_loads(self, computed: list[Any]) -> list[Any]:
        """Behind loads of tiles, which a bulk copy of another proxy may overwrite next.

        The instructions of wgmma read tiles in the proxy of bulk copies, and need none.
        """
        reads = any(_reads(part, buffer) for part in computed for buffer in self.staged)
        return [make_proxy_fence()] if reads else []

    def find_others(self) -> list[Any]:
        """The buffers that the loop's body allocates beside the tiles."""
        own = [tile.target for tile in self.tiles]
        return [
            buffer
            for buffer in self.block.alloc_buffers
            if not any(buffer.same_as(each) for each in own)
        ]

    def loop_over(self, statements: list[Any]) -> For:
        """The loop, with other statements in its body and without the tiles' buffers."""
        name = self.block.name_hint
        block = SBlock([], [], [], name, SeqStmt(statements), alloc_buffers=self.find_others())
        realized = SBlockRealize([], True, block)
        loop = self.loop
        return For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, realized, None, self.notes)

    def _run(self, ahead: int) -> For:
        step = self.loop.loop_var
        following = IfThenElse(
            LT(step + ahead, self.loop.extent),
            if_elected(self.threads, [self.copy(step + ahead)]),
            None,
        )
        computed = self.compute()
        fence = self.fence_loads(computed)
        return self.loop_over([self.wait_for_tile(), make_barrier(), following, *computed, *fence])

    def _copy_within(self, step: int) -> Any:
        """The copies of one of the first iterations; None where there are not so many.

        A loop that ends at a mask has another number of iterations in each block.
        """
        count = constant(self.loop.extent)
        if count is None:
            return IfThenElse(LT(IntImm("int32", step), self.loop.extent), self.copy(step), None)
        return self.copy(step) if step < count else None

    def copy(self, step: Any) -> Any:
        """Announce the bytes of an iteration's tiles, and issue their copies."""
        is_known = isinstance(step, int)
        stage = step % self.stages if is_known else FloorMod(self.count(step), self.stages)
        arrived = self.point_to(stage)
        total = sum(tile.bytes for tile in self.tiles)
        calls = [Evaluate(T.ptx["mbarrier.arrive.expect_tx.shared.b64"](arrived, total))]
        for tile, buffer, variable in zip(self.tiles, self.staged, self.maps, strict=True):
            size = math.prod(tile.box)
            for panel in range(tile.panels):
                start = tile.get_start(panel)
                start = [substitute_step(index, self.loop.loop_var, step) for index in start]
                place = stage * (size * tile.panels) + panel * size
                target = buffer.access_ptr(READ, offset=place, extent=size)
                load = T.ptx[_LOAD.format(len(start))]
                calls.append(
                    Evaluate(load(target, T.address_of(variable), *reversed(start), arrived))
                )
        return SeqStmt(calls)

    def point_to(self, stage: Any) -> Any:
        """A pointer to an mbarrier: those of the stages come first."""
        return self.barriers.access_ptr(READ, offset=stage, extent=1)


def find_shared(buffers: Sequence[Any]) -> list[Any]:
    """Those in shared memory."""
    return [buffer for buffer in buffers if str(buffer.scope()).startswith("shared")]


def if_elected(
    threads: list[tuple[Any, int]], statements: list[Any], *, first: int = 0
) -> IfThenElse:
    """Statements that one lane of a warp runs: of the one that begins at the thread `first`, among
    those that have no smaller number.
    """
    inner = if_one_lane(statements)
    if len(threads) == 2 and threads[0][1] == WARP:  # simpler to read, and for the compiler
        return IfThenElse(threads[1][0].equal(first // WARP), inner, None)
    number, _ = number_threads(threads)
    return IfThenElse(LT(number, IntImm("int32", first + WARP)), inner, None)


def if_one_lane(statements: list[Any]) -> IfThenElse:
    """Statements that one lane of each warp runs, of warps all of whose lanes are there."""
    return IfThenElse(T.cuda.elect_sync() != T.uint32(0), join(statements), None)


def join(statements: list[Any]) -> Any:
    """One statement after the other."""
    return SeqStmt(statements) if len(statements) > 1 else statements[0]


def _find_copy(part: Any) -> SBlock | None:
    blocks = [block for block in find_all(part, SBlock) if TMA_COPY in block.annotations]
    return blocks[0] if blocks else None


def _read(part: Any, threads: list[tuple[Any, int]]) -> TmaTile:
    """The tile of a copy, under loops of its own and over threads."""
    block = _find_copy(part)
    assert block is not None
    store = find_all(block.body, BufferStore)[0]
    inner = [loop.loop_var for loop in find_all(part, For)] + [axis for axis, _ in threads]
    tile = find_tile(store, CopyShape.of_list(block.annotations[TMA_COPY]), inner)
    whole = math.prod(constant(extent) or 1 for extent in store.buffer.shape)
    if tile.bytes != whole * tile.target.dtype.itemsize:
        raise TransformError(
            f"'{tile.target.name}' has {whole} elements, and block '{block.name_hint}' copies "
            f"{tile.bytes} bytes",
            "lower the module as prefetch_by_tma left it",
        )
    return tile


def make_proxy_fence() -> Evaluate:
    """What threads did in shared memory is there for wgmma and bulk copies, and done before."""
    return Evaluate(T.ptx["fence.proxy.async.shared::cta"]())


def make_barrier() -> Evaluate:
    """A barrier of the thread block."""
    return Evaluate(T.tvm_storage_sync("shared"))


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
    return structural_map(index, (Var, lambda node: value if node.same_as(variable) else node))


def drop_fences(parts: list[Any]) -> list[Any]:
    """Statements without the fences of the asynchronous proxy, and the barriers behind these.

    They order what threads store to shared memory before the instructions of wgmma, and bulk copies
    are of the same proxy: an mbarrier is enough. Where threads store there, all of them stay.
    """
    stores = [store for part in parts for store in find_all(part, BufferStore)]
    if any(str(store.buffer.scope()).startswith("shared") for store in stores):
        return parts

    def rewrite(sequence: Any) -> Any:
        each = list(sequence.seq)
        fences = [at for at, part in enumerate(each) if is_proxy_fence(part)]
        dropped = {at + more for at in fences for more in (0, 1)}
        kept = [
            part
            for at, part in enumerate(each)
            if at not in dropped or not (is_proxy_fence(part) or is_barrier(part))
        ]
        return join(kept) if fences and kept else sequence

    return [structural_map(part, (SeqStmt, rewrite)) for part in parts]


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
    return structural_map(statement, callbacks)


def _reads(statement: Any, buffer: Any) -> bool:
    """Whether threads read a buffer themselves, other than to describe it to wgmma."""

    def skip(call: Any) -> Any:
        name = get_op_name(call)
        return IntImm("int32", 0) if name.endswith(ENCODES) else call

    left = structural_map(statement, (Call, skip))
    loaded = [load.source for load in find_all(left, TensorLoad)]
    pointers = [each for call in find_all(left, Call) for each in call.args]
    return any(is_among(each, (buffer, buffer.data)) for each in (*loaded, *pointers))


def _point_into(call: Any, stages: dict[Any, Any], stage: Any) -> Any:
    """A pointer into a buffer, in a stage of it."""
    name = get_op_name(call)
    if name != "tirx.tvm_access_ptr":
        return call
    for buffer, made in stages.items():
        if tvm_ffi.structural_equal(call.args[1], buffer.data):
            size = math.prod(constant(extent) or 1 for extent in buffer.shape)
            args = [call.args[0], made.data, call.args[2] + stage * size, *call.args[3:]]
            return Call(call.op, args, ret_ty=PointerType(call.ty.element_type, SCOPE))
    return call
