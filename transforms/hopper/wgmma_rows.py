"""wgmma for chains of products, in which a warp keeps to its own 16 rows.

Four neighbouring warps multiply 64 rows together, and each has the sums of 16 of them in its
registers, as fragments of mma.sync have them (`place_in_fragment`). What a warp computes is then
described by its own rows: the fragments that one product leaves are the left operand of the next
one, which wgmma takes from registers, and whatever lies between two products is the same as with
mma.sync. Lanes are 8 on threadIdx.y by 4 on threadIdx.x, and warps are on threadIdx.z.

Instructions are ordered as in `wgmma`. All of a group have ended before the next statement. Sums
that begin with zeros have them in their registers too, which the first instruction does not read
and which cost nothing: C++ may do anything with values that nothing wrote, and ptxas of CUDA 13.0
takes the sums of two such groups for the same values, and the maximum of one for that of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import tirx as T
from tvm.tirx import BufferLoad, For, Ramp

from ..gpu_limits import WARP
from ..loops import require_serial
from ..queries import get_enclosing_kernel, get_own_loops, get_sblock_name, is_reduction_loop
from ..rewriting import replace_blocks
from ..schedule import TransformError, inlines, query, transform
from ..tensor_cores.fragments import (
    QUAD,
    SCOPE,
    SIDE,
    all_of,
    describe_product,
    has_lane_rows,
    place_in_fragment,
    register_intrinsic,
)
from ..tensor_cores.mma_tiles import is_along_k
from ..tensor_cores.quads import find_product_loops, state_reads
from ..tir import constant, find_all, get_axis, replace_fields
from .warpgroup_tiles import read_swizzle
from .wgmma_intrinsics import (
    CHUNK_BYTES,
    IN_SHARED,
    ROWS,
    WgmmaTile,
    emit_descriptor,
    emit_instruction,
    find_operand,
    get_tile_shape,
)

WARPS = ROWS // SIDE
"""Warps per warpgroup."""
SHARE = SIDE * SIDE // WARP
"""The elements of a fragment that a lane has."""
TYPES = ("float16", "bfloat16")
ACC = "float32"


@dataclass(frozen=True, kw_only=True)
class RowsProduct(WgmmaTile):
    """The product of a warp's 16 rows by a tile of shared memory: of a tile that four warps share.

    Attributes
    ----------
    in_registers : whether A is, as fragments; it has no swizzle then
    begins : whether sums begin with zeros, and not with what is in the registers
    warps : of a thread block, on threadIdx.z
    """

    acc: str = ACC
    rows: int = ROWS
    in_registers: bool
    begins: bool
    warps: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of a warp's A, of B, and of a warp's accumulators."""
        b, sums = self.get_shape(1), (self.columns // SIDE, WARP, SHARE)
        if self.in_registers:
            return (self.depth // SIDE, WARP, SHARE), b, sums
        return get_tile_shape(SIDE, self.depth, bits=SIDE, swizzle=self.swizzles[0]), b, sums

    def place(self, row: Any, column: Any, k: Any) -> tuple[Any, Any, Any]:
        """Where the elements of A and of B and the sum lie."""
        a = place_in_row(row, k) if self.in_registers else self.place_operand(0, row, k)
        return a, self.place_operand(1, k, column), place_in_row(row, column)

    @property
    def name(self) -> str:
        """A suffix that makes the name of its intrinsic unique."""
        swizzle_a, swizzle_b = self.swizzles
        a = "registers" if self.in_registers else f"swizzled_{swizzle_a}"
        b = f"{'columns_k' if self.transpose_b else 'k_columns'}_swizzled_{swizzle_b}"
        begins = "_from_zeros" if self.begins else ""
        sizes = f"{self.columns}x{self.depth}_of_{self.warps}_warps"
        return f"tirstep_wgmma_rows_{self.dtype}_{sizes}_{a}_{b}{begins}"


def place_in_row(row: Any, column: Any) -> tuple[Any, ...]:
    """The fragment of 16 columns, the lane and its element: a warp's sums, or A of 16 bits."""
    return (column // SIDE, *place_in_fragment("C", row, column % SIDE, bits=32))


@query
def get_rows_intrinsic(product: RowsProduct) -> str:
    """The name of a product's intrinsic, registered.

    Raises `TransformError` for types and tiles that wgmma does not multiply so.
    """
    if product.dtype not in TYPES:
        raise TransformError(
            f"{product.dtype} is not a 16-bit type that wgmma multiplies", "use float16"
        )
    if product.warps < 1 or product.warps % WARPS:
        raise TransformError(
            f"{product.warps} warps are not whole warpgroups", f"use a multiple of {WARPS}"
        )
    for size, what in ((product.columns, "columns"), (product.depth, "steps of k")):
        if size < SIDE or size % SIDE:
            raise TransformError(
                f"a tile of {size} {what} is not made of whole fragments",
                f"use a multiple of {SIDE}",
            )
    if not product.each or product.each % SIDE:
        raise TransformError(
            f"no instruction has whole fragments of columns that divide {product.columns} and that "
            f"a swizzle of {product.swizzles[1]} bytes divides",
            f"use a multiple of {SIDE}, or a narrower swizzle of B",
        )
    return register_intrinsic(product.name, lambda: _multiply(product))


def _multiply(product: RowsProduct) -> tuple[Any, Any]:
    shapes, dtype, begins = product.shapes, product.dtype, product.begins
    (shape_a, shape_b, shape_c), in_shared = shapes, not product.in_registers
    across, steps = product.blocks[1], product.depth // product.step
    fragments: dict[str, Any] = {"offset_factor": SHARE, "scope": "local"}

    def add(total: Any, a: Any, b: Any) -> Any:
        return total + T.Cast(ACC, a) * T.Cast(ACC, b)

    def find_regions(*places: Any) -> list[Any]:
        """What TVM takes a block to read: any chunk of a row whose chunks change places."""
        found = []
        for at, shape in zip(places, shapes, strict=False):
            is_swizzled = len(shape) > 3 and shape[2] > 1
            found.append((*at[:2], slice(0, shape[2]), at[3]) if is_swizzled else at)
        return found

    match_a = (shape_a, dtype, IN_SHARED if in_shared else fragments)
    matched = [match_a, (shape_b, dtype, IN_SHARED), (shape_c, ACC, fragments)]
    sizes, regions = (SIDE, product.columns, product.depth), find_regions if begins else None
    description = describe_product(matched, sizes, product.place, add, regions)

    def lie_in(shape: tuple[int, ...], slab: Any) -> dict[str, Any]:
        """In shared memory, with slabs as far apart as the block's tile wants."""
        return {"strides": [slab, shape[2] * shape[3], shape[3], 1], **IN_SHARED}

    def list_read(*buffers: Any) -> list[Any]:
        whole = [buffer[all_of(shape)] for buffer, shape in zip(buffers, shapes, strict=True)]
        return whole[:2] if begins else [whole[2], *whole[:2]]

    def find_a(buffer: Any, first: Any, warp: Any, slab: Any, step: Any) -> list[Any]:
        """The operand A of a step of k: the four registers of it, pairs of neighbours in the order
        of fragments, or the descriptor of a warpgroup's rows, of that of a warp's own rows.
        """
        if product.in_registers:
            pairs = [Ramp(2 * register, 1, 2) for register in range(SHARE // 2)]
            return [T.reinterpret("uint32", BufferLoad(buffer, [step, 0, it])) for it in pairs]
        own = warp % WARPS * (SIDE * product.swizzles[0] // CHUNK_BYTES)
        return [find_operand(product, 0, first - tvm.tirx.Cast("uint64", own), slab, step, 0)]

    def list_sums(sums: Any, block: Any) -> list[Any]:  # of an instruction's block of columns
        first = block * (product.share // SHARE)
        return [sums[first + at // SHARE, 0, at % SHARE] for at in range(product.share)]

    # The instructions are in a block: TVM takes its statements for as many of a pipeline.
    @T.prim_func(s_tir=True)
    def multiply(left: T.handle, right: T.handle, sums: T.handle) -> None:
        s, t = T.int32(), T.int32()
        A = T.match_buffer(left, shape_a, dtype, **(lie_in(shape_a, s) if in_shared else fragments))
        B = T.match_buffer(right, shape_b, dtype, **lie_in(shape_b, t))
        C = T.match_buffer(sums, shape_c, ACC, **fragments)
        with T.sblock("root"):
            T.reads(list_read(A, B, C))
            T.writes(C[all_of(shape_c)])
            for warp in T.thread_binding(product.warps, "threadIdx.z"):
                for _row in T.thread_binding(WARP // QUAD, "threadIdx.y"):
                    for _column in T.thread_binding(QUAD, "threadIdx.x"):
                        with T.sblock("group"):
                            T.reads(list_read(A, B, C))
                            T.writes(C[all_of(shape_c)])
                            d = T.sblock_alloc_buffer((1 + in_shared,), "uint64", scope="local")
                            of_b = T.meta_var(d[int(in_shared)])
                            T.ptx.fence.proxy.async_.shared__cta()
                            T.evaluate(T.tvm_storage_sync(SCOPE))
                            if in_shared:
                                T.evaluate(emit_descriptor(product, 0, T.address_of(d[0]), A, s))
                            T.evaluate(emit_descriptor(product, 1, T.address_of(of_b), B, t))
                            if begins:
                                for at in T.unroll(shape_c[0]):
                                    for element in T.unroll(SHARE):
                                        C[at, 0, element] = T.float32(0)
                            T.ptx.wgmma.fence.sync.aligned()
                            for step in T.unroll(steps):
                                for j in T.unroll(across):
                                    a = T.meta_var(find_a(A, d[0], warp, s, step))
                                    b = T.meta_var(find_operand(product, 1, of_b, t, step, j))
                                    adds = T.meta_var(step > 0 if begins else True)
                                    own = T.meta_var(list_sums(C, j))
                                    T.evaluate(emit_instruction(product, own, a, b, adds))
                            T.ptx.wgmma.commit_group.sync.aligned()
                            T.ptx.wgmma.wait_group.sync.aligned(0)

    return description, multiply


class ProductLoops(NamedTuple):
    """The loops of a product: over its rows, its columns and the steps of k."""

    row: LoopRV
    column: LoopRV
    step: LoopRV


@transform
def order_product(sch: Schedule, block: SBlockRV) -> ProductLoops:
    """Reorder the loops of a matmul to rows, columns and k.

    rewrite: ``for k, i, j: C[i, j] += A[i, k] * B[k, j]`` -> ``for i, j, k: C[i, j] += ...``
    consumes: nothing
    returns: the three loops
    requires: two spatial loops and one reduction loop of the block's own, serial; if there are more
        spatial loops, the last two are rows and columns
    """
    loops = find_product_loops(sch, block, "pass a product of rows, columns and one reduction")
    state_reads(sch, block, who="order_product")
    sch.reorder(*loops)
    return ProductLoops(*loops)


@transform
@inlines
def tensorize_warp_rows(sch: Schedule, block: SBlockRV) -> str:
    """Multiply a warp's 16 rows by wgmma, together with those of three other warps.

    All columns and all steps of k are one group of instructions, and threads wait for it.

    rewrite: ``for i, j, k: C_local += A * B_shared`` -> ``for warp in threadIdx.z: for row in
        threadIdx.y: for column in threadIdx.x: fence; wgmma ...; commit; wait``
    consumes: the own loops of `block`, and its contents
    returns: the name of the intrinsic
    requires: a block that multiplies 16-bit operands and sums in float32 over one loop of its own,
        for 16 rows and a multiple of 16 columns, with nothing else in its loops; accumulators in
        the layout of `lay_in_quads`, initialized with zeros in the block, or with something else in
        another block; B staged by `stage_swizzled_at`, and A staged in the same way or in the
        layout of `lay_in_quads`; a multiple of four warps on threadIdx.z, with 8 by 4 lanes;
        readers and writers of fragments that `spread_over_quads` has spread, in one transform of
        your own; ``sm_90a``
    guarded: fragments that no other block reads as registers of its own
    """
    node, name, loops = sch.get(block), get_sblock_name(sch, block), get_own_loops(sch, block)[-3:]
    kinds = [is_reduction_loop(sch, block, loop) for loop in loops]
    if kinds != [False, False, True]:
        raise TransformError(
            f"the last loops of block '{name}' are not rows, columns and steps of k",
            "call order_product first",
        )
    for loop in loops:
        require_serial(sch, loop)
    rows, columns, depth = (constant(sch.get(loop).extent) or 0 for loop in loops)
    if rows != SIDE:
        raise TransformError(
            f"block '{name}' computes {rows} rows, and a warp {SIDE}",
            f"give each warp on threadIdx.z {SIDE} rows",
        )
    if len(node.reads) < 2:
        raise TransformError(f"block '{name}' does not multiply two tiles", "pass a product")
    a, b = (region.source for region in list(node.reads)[-2:])
    sums = node.writes[0].source
    _require_fragments(name, sums, ACC)
    in_registers = str(a.scope()) == "local"
    if in_registers:
        _require_fragments(name, a, str(b.dtype))
    advice = "stage it with stage_swizzled_at"
    swizzle_a = CHUNK_BYTES if in_registers else read_swizzle(name, a, advice)
    swizzle_b = read_swizzle(name, b, advice)
    # The warps of a thread block, each on one place of threadIdx.z.
    bound = find_all(get_enclosing_kernel(sch, block), For)
    by_axis = {get_axis(loop): constant(loop.extent) or 0 for loop in bound}
    lanes = math.prod(by_axis.get(f"threadIdx.{axis}", 1) for axis in "yx")
    if lanes != WARP:
        raise TransformError(
            f"the kernel of block '{name}' has {lanes} threads on threadIdx.y and threadIdx.x",
            "spread what reads the sums with spread_over_quads, and stage with in_quads=True",
        )
    product = RowsProduct(
        dtype=str(b.dtype),
        columns=columns,
        depth=depth,
        transpose_b=is_along_k(node, -1),
        swizzles=(swizzle_a, swizzle_b),
        in_registers=in_registers,
        begins=node.init is not None,
        warps=by_axis.get("threadIdx.z", 1),
    )
    intrinsic = get_rows_intrinsic(product)
    outer = sch.blockize(loops[0])
    sch.tensorize(outer, intrinsic)
    if product.begins:  # the instruction begins with zeros, which TVM would store before it too
        node = sch.get(outer)
        made = replace_fields(node, init=None)
        replace_blocks(sch, outer, {node: made}, [], who="tensorize_warp_rows")
    return intrinsic


def _require_fragments(name: str, buffer: Any, dtype: str) -> None:
    is_laid = has_lane_rows(buffer) and constant(buffer.shape[-1]) == SHARE
    if not is_laid or str(buffer.dtype) != dtype:
        raise TransformError(
            f"'{buffer.name}' of block '{name}' is not a fragment of {dtype} in registers",
            "lay it out with lay_in_quads",
        )
