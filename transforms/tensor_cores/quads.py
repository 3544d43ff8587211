"""Chains of products on tensor cores: what lies between two products stays in fragments.

The lanes of a warp are 8 on threadIdx.y by 4 on threadIdx.x, and its number is on threadIdx.z. A
row of a fragment of sums then belongs to the four threads of a quad, which differ in threadIdx.x
alone: a reduction along rows is one over threadIdx.x, what holds for a row is computed by all four,
and all else are loops over the elements that a thread has itself. The fragment of sums, rounded to
16 bits, is the fragment of the next product's left operand.

Intrinsics describe a fragment as a matrix with a row for each lane of a warp, and use the first row
of a lane's own registers. What computes with single elements of fragments, between two products,
names the row of its lane, which the pass `UseOwnLanes` makes the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferLoad, BufferStore, Cast, For, const, decl_buffer, floormod
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..annotations import OWN_LANES
from ..binding import require_bindable
from ..gpu_limits import WARP
from ..loops import Tail, require_serial
from ..pass_options import require_root, set_pipeline
from ..queries import get_loop_name, get_own_loops, get_sblock_name, is_reduction_loop
from ..rewriting import edit_block, exchange, map_elements, replace_block, replace_blocks
from ..schedule import TransformError, inlines, transform
from ..tir import bind_ranges, constant, find_all, get_axis, get_elements, get_loops_around
from .fragments import (
    QUAD,
    SCOPE,
    SIDE,
    MmaIntrinsics,
    Role,
    get_mma_intrinsics,
    has_lane_rows,
    number_lane,
    place_in_fragment,
)
from .mma_tiles import (
    get_copied,
    is_along_k,
    require_product,
    require_zeros,
    tensorize_copy,
    tensorize_unrolled,
)

ROLES: tuple[Role, ...] = ("A", "B")
ROWS = WARP // QUAD
"""Rows of an accumulator fragment, one for each quad; a tile has twice as many."""


@transform
@inlines
def round_operand(sch: Schedule, block: SBlockRV, *, operand: int) -> SBlockRV:
    """Round an operand in a separate block, in front of the block that reads it.

    Tensor cores need operands that are already rounded.

    rewrite: ``for i, j, k: C[i, j] += float32(float16(P[i, k])) * V[k, j]`` ->
        ``for i, k: P_float16[i, k] = float16(P[i, k])``
        ``for i, j, k: C[i, j] += float32(P_float16[i, k]) * V[k, j]``
    consumes: nothing
    returns: the block that rounds, whose result is in the operand's memory
    requires: `operand` counts the buffers that the block reads, from 0; a block without others in
        it, that converts all of its reads of the operand to one type, but not in its initialization
    guarded: each thread rounds only its own registers
    """
    name, reads = get_sblock_name(sch, block), list(sch.get(block).reads)
    if not 0 <= operand < len(reads):
        raise TransformError(
            f"block '{name}' has no operand {operand}, it reads {len(reads)} buffers",
            "count the operands from 0",
        )
    if find_all(sch.get(block).body, SBlock):
        raise TransformError(f"block '{name}' holds other blocks", "pass the one inside of it")
    # The one type to which a block converts all that it loads of a buffer.
    node, buffer = sch.get(block), reads[operand].source
    loads = [load for load in find_all(node, TensorLoad) if load.source.same_as(buffer)]
    casts = [
        cast
        for cast in find_all(node.body, Cast)
        if isinstance(cast.value, TensorLoad) and cast.value.source.same_as(buffer)
    ]
    types = {str(cast.ty.dtype) for cast in casts}
    if len(types) != 1 or len(casts) != len(loads):
        raise TransformError(
            f"block '{name}' does not convert all that it reads of "
            f"'{reads[operand].source.name}' to one type",
            "cache the operand with cache_read_at instead",
        )
    (dtype,) = types
    copy = sch.cache_read(block, operand, str(reads[operand].source.scope()), [block])
    old = sch.get(copy).writes[0].source
    label = f"{reads[operand].source.name!s}_{dtype}"
    new = decl_buffer(old.shape, dtype, label, scope=old.scope(), layout=None)

    def keep_rounded(node: Cast) -> Any:
        is_old = isinstance(node.value, TensorLoad) and node.value.source.same_as(old)
        return BufferLoad(new, node.value.indices) if is_old else node

    store = sch.get(copy).body
    rounded = BufferStore(new, Cast(dtype, store.value), store.indices)
    reader = structural_map(sch.get(block).body, (Cast, keep_rounded))
    made = {
        sch.get(copy): edit_block(sch.get(copy), rounded, (old, new)),
        sch.get(block): edit_block(sch.get(block), reader, (old, new)),
    }
    replace_blocks(sch, block, made, [new], who="round_operand")
    return copy


class FragmentProduct(NamedTuple):
    """The block of one fragment's product, and loops around it.

    Attributes
    ----------
    step : over the fragments of the reduction, the outermost
    column : over those of the columns, under which a fragment of B is the same
    """

    block: SBlockRV
    step: LoopRV
    column: LoopRV


@transform
def tile_product(sch: Schedule, block: SBlockRV) -> FragmentProduct:
    """Tile a warp's matmul into fragments of 16×16×16.

    The block's own last two spatial loops are rows and columns, and its own reduction loop is k.

    rewrite: ``for i, j, k: C`` -> ``for k_0, j_0, i_0: sblock C_o: for i_1, j_1, k_1: C``
    consumes: these loops
    returns: the block of a fragment, and the two outer loops
    requires: two spatial loops and one reduction loop of its own, serial, in multiples of 16
    """
    loops = find_product_loops(sch, block, "tile a product of rows, columns and one reduction")
    for loop in loops:
        _require_whole_fragments(sch, loop)
    state_reads(sch, block, who="tile_product")
    (i, row), (j, column), (k, step) = (sch.split(loop, [None, SIDE]) for loop in loops)
    sch.reorder(k, j, i, row, column, step)
    return FragmentProduct(sch.blockize(row), k, j)


def find_product_loops(sch: Schedule, block: SBlockRV, advice: str) -> list[LoopRV]:
    """A product's own loops over rows, columns and steps of k, which are serial."""
    own = get_own_loops(sch, block)
    reductions = [loop for loop in own if is_reduction_loop(sch, block, loop)]
    spatial = [loop for loop in own if not is_reduction_loop(sch, block, loop)][-2:]
    if len(reductions) != 1 or len(spatial) != 2:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has {len(spatial)} spatial and "
            f"{len(reductions)} reduction loops of its own",
            advice,
        )
    for loop in (*spatial, *reductions):
        require_serial(sch, loop)
    return [*spatial, *reductions]


def state_reads(sch: Schedule, block: SBlockRV, *, who: str) -> None:
    """Leave out what only the initialization read, before it became a block of its own."""
    node = sch.get(block)
    stated = edit_block(node, node.body)
    if node.init is None and len(stated.reads) != len(node.reads):
        replace_block(sch, block, stated, who=who)


def _require_whole_fragments(sch: Schedule, loop: LoopRV) -> None:
    extent = sch.get(loop).extent
    if constant(floormod(extent, SIDE)) != 0:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' runs {extent} times, which the {SIDE} of a "
            "fragment do not divide",
            "pad the block first with pad_block",
        )


@transform
def lay_in_quads(sch: Schedule, block: SBlockRV, *, rows: int, columns: int | None = None) -> None:
    """Keep what a block writes in registers, in mma's accumulator layout, or that of its rows.

    `rows` and `columns` are the dimensions that are split into fragments. A buffer without columns
    has one value per row, which each thread of a quad computes.

    rewrite: ``P[i, j]`` -> ``P_local[i // 16, j // 16, lane, element]``, and ``m[i]`` ->
        ``m_local[i // 8, i % 8]``
    consumes: nothing
    requires: a block that writes intermediate buffers whose last dimensions are these, multiples of
        16, or only rows, a multiple of 8; readers whose loops count upwards
    guarded: each thread reads only its own registers, and its lane's part of fragments
    """
    for place, region in enumerate(list(sch.get(block).writes)):
        dimensions = (rows,) if columns is None else (rows, columns)
        shape = list(region.source.shape)
        is_last = len(dimensions) == 1 or dimensions == (len(shape) - 2, len(shape) - 1)
        if not is_last or any(not 0 <= each < len(shape) for each in dimensions):
            raise TransformError(
                f"'{region.source.name}' of {len(shape)} dimensions has no rows and columns in "
                f"{', '.join(map(str, dimensions))}",
                "give the dimension of rows, or the last two",
            )
        part = ROWS if len(dimensions) == 1 else SIDE
        for dimension in dimensions:
            if constant(floormod(shape[dimension], part)) != 0:
                raise TransformError(
                    f"dimension {dimension} of '{region.source.name}' has {shape[dimension]} "
                    f"elements, which {part} does not divide",
                    "pad the block first with pad_block",
                )
        sch.set_scope(block, place, "local")

        def place_row(*at: Any) -> tuple[Any, ...]:
            # Where 32 of them would lie behind one another, they would be taken for lanes.
            apart = [const(0)] if rows + 1 == len(at) else []
            return (*at[:rows], at[rows] // ROWS, *apart, at[rows] % ROWS, *at[rows + 1 :])

        def place_element(*at: Any) -> tuple[Any, ...]:
            i, j = at[rows], at[columns or 0]
            front = [index for dimension, index in enumerate(at) if dimension < rows]
            lane, element = place_in_fragment("C", i % SIDE, j % SIDE, bits=32)
            return (*front, i // SIDE, j // SIDE, lane, element)

        sch.transform_layout(
            block, ("write", place), place_row if columns is None else place_element
        )
    root = require_root(sch)
    if OWN_LANES not in sch.get(root).annotations:
        sch.annotate(root, OWN_LANES, 1)
        set_pipeline(sch)


@transform
def spread_over_quads(
    sch: Schedule, block: SBlockRV, *, columns: bool = True, tail: Tail = "refuse"
) -> None:
    """Spread a block's last two loops over the lanes of a warp in mma's accumulator layout.

    Without `columns` only the last loop is spread, over rows, and all four threads of a quad do the
    same. A reduction over columns becomes one over the threads of a quad.

    rewrite: ``for i, j`` -> ``for i_0, i_1 in 2: for i_2 in threadIdx.y: for j_0, j_1 in 2: for
        j_2 in threadIdx.x: for j_3 in 2``
    consumes: these loops
    requires: serial loops of the block's own, with extents that are multiples of 16, or
        ``tail="guard"`` for a block whose columns end within a fragment; what `bind_loop` requires
    guarded: readers are spread before what they read
    """
    own = get_own_loops(sch, block)
    if len(own) < 1 + columns:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has {len(own)} loops of its own",
            "place the other blocks outside of its loops first",
        )
    for loop in own[-1 - columns :]:
        require_serial(sch, loop)
        if tail == "refuse":
            _require_whole_fragments(sch, loop)
    among = {"threadIdx.y": sch.split(own[-1 - columns], [None, 2, ROWS])[2]}
    if columns:
        among["threadIdx.x"] = sch.split(own[-1], [None, 2, QUAD, 2])[2]
    for axis, loop in among.items():
        require_bindable(sch, loop, axis)
        sch.bind(loop, axis)


@transform
@inlines
def tensorize_in_quads(
    sch: Schedule,
    block: SBlockRV,
    loads: Sequence[SBlockRV],
    zeros: SBlockRV | None,
) -> MmaIntrinsics:
    """Multiply fragments on tensor cores, some of them in registers from the start.

    rewrite: ``for i, j, k: C_local += A_local * B_local`` -> ``for row in threadIdx.y: for column
        in threadIdx.x: mma``, and so the loads and the zeros
    consumes: the own loops of `loads`, and the blocks within `block` and `zeros`
    returns: the names of the intrinsics
    requires: a block that `tile_product` returned, decomposed, which multiplies 16-bit operands;
        accumulators in the layout of `lay_in_quads`; `loads`, the copies of the operands from
        ``shared.dyn`` memory into registers, except of an A in the layout of `lay_in_quads`;
        `zeros`, the block that `decompose_reduction_at` returned, or None if the sums start from
        something else; readers of the sums that `spread_over_quads` has spread. Blocks between two
        matmuls must be spread together with both, in a transform of your own
        (``tirstep.transforms.schedule.transform``): one at a time, threads would find other
        threads' elements in their registers
    guarded: fragments that no other block reads as registers of its own
    """
    require_product(sch, block, "tile_product")
    dtype = sch.get(block).reads[-1].source.dtype
    if dtype.bits != SIDE:
        raise TransformError(f"operands of {dtype} are not of 16 bits", "use float16 or bfloat16")
    name, operands = get_sblock_name(sch, block), sch.get(block).reads[-2:]
    by_role: dict[Role, SBlockRV] = {}
    for load in loads:
        source, target = get_copied(sch, load)
        roles = [
            role
            for role, region in zip(ROLES, operands, strict=True)
            if region.source.same_as(target)
        ]
        if not roles or (source.scope(), target.scope()) != (SCOPE, "local"):
            raise TransformError(
                f"block '{get_sblock_name(sch, load)}' copies no operand of block '{name}' from "
                f"{SCOPE} memory into registers",
                "pass the copies that cache_read_at placed for its operands",
            )
        by_role[roles[0]] = load
    if "B" not in by_role:
        raise TransformError(
            f"none of {len(loads)} loads copies '{operands[1].source.name}', the B of block "
            f"'{name}'",
            f'cache it in scope "{SCOPE}" and then in "local", and pass that copy',
        )
    sums, a, _ = (region.source for region in sch.get(block).reads)
    for buffer in (sums, *([] if "A" in by_role else [a])):
        if not has_lane_rows(buffer) or constant(buffer.shape[-1]) != SIDE * SIDE // WARP:
            raise TransformError(
                f"'{buffer.name}' of block '{get_sblock_name(sch, block)}' is not a fragment in "
                "registers",
                "lay it out with lay_in_quads, or pass the copy that loads it",
            )
    if zeros is not None:
        require_zeros(sch, zeros, sch.get(block).writes[0].source)
    transposed = is_along_k(find_all(sch.get(block).body, SBlock)[0], -1)
    intrinsics = get_mma_intrinsics(
        str(dtype),
        str(sch.get(block).writes[0].source.dtype),
        transpose_b=transposed,
        in_quads=True,
    )
    names = {"A": intrinsics.load_a, "B": intrinsics.load_b}
    for role, handle in by_role.items():
        tensorize_copy(sch, handle, role, SIDE, transposed, names[role])
    for part, name in ((block, intrinsics.multiply), (zeros, intrinsics.fill)):
        if part is not None:
            tensorize_unrolled(sch, part, name)
    return intrinsics


@prim_func_pass(opt_level=0, name="tirstep.UseOwnLanes")
def UseOwnLanes(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Let each lane find its own row of a fragment in its registers, where intrinsics find it.

    It runs where each thread axis of a kernel is one loop, of functions that `lay_in_quads` has
    marked. Buffers of which some access has neither its lane's row nor the first one stay as they
    are.

    rewrite: ``P[i, j, threadIdx.y * 4 + threadIdx.x, e]`` -> ``P[i, j, 0, e]`` of P in registers
    """
    if not any(OWN_LANES in block.annotations for block in find_all(function.body, SBlock)):
        return function
    bound = [it for it in find_all(function.body, For) if get_axis(it) is not None]
    body = function.body
    for kernel in (it for it in bound if not get_loops_around(it, bound)):
        body = exchange(body, kernel, _use_own_lanes(kernel))
    return function.with_body(body)


def _use_own_lanes(kernel: For) -> Any:
    """The same of one kernel, whose thread axes are its own."""
    loops = find_all(kernel, For)
    analyzer, lane = bind_ranges(loops), number_lane(loops)
    uses: dict[Any, list[Any]] = {}
    for buffer, indices in get_elements(kernel):
        if has_lane_rows(buffer):
            uses.setdefault(buffer, []).append(indices[-2])

    def is_own(row: Any) -> bool:
        return constant(row) == 0 or constant(analyzer.simplify(row - lane)) == 0

    own = {buffer for buffer, rows in uses.items() if all(map(is_own, rows))}

    def take_first(buffer: Any, indices: Any) -> Any:
        return (buffer, [*indices[:-2], 0, indices[-1]]) if buffer in own else None

    return map_elements(kernel, take_first)
