"""Fragments of mma.sync m16n8k* and ldmatrix: which lane holds what, and their tensor intrinsics.

The layout is from the PTX ISA, "Matrix Fragments for mma.m16n8k*". A register of 32 bits holds ``e
= 32 / bits`` neighbours along k of A or of B, so that the fragments of all types are one formula.
It is used by the intrinsics, by the tests of the simulator and by the pictures of the documents.

Tiles are 16 rows of A, 16 columns of B (two instructions of 8 side by side) and `get_depth` steps
of k, the 32 bytes that a row of A takes. A fragment is a buffer of shape (32, share) in registers:
its description has a row for each lane, and each lane uses the first row of its own. Five
intrinsics make a matmul: two loads of fragments, zeros, the product, and the store. They are
registered under names that begin with ``tirstep_``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import tvm
from tvm.ir import register_op_attr
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T
from tvm.script.tirx import ptx_legacy
from tvm.tirx import For, IterVar, Var
from tvm_ffi import structural_map

from ..gpu_limits import WARP
from ..schedule import TransformError, query
from ..tir import (
    Place,
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_elements,
    list_threads,
    number_threads,
    substitute,
)

Role = Literal["A", "B", "C"]
"""A (rows, k), B (k, columns) or the sums C (rows, columns)."""
SIDE = 16
"""Rows and columns of the tile that a warp computes by one pair of instructions."""
QUAD = 4
"""Lanes that share a row of the sums."""
ROW_BYTES = 32
"""Bytes of a tile's row along k, for all types."""


def get_depth(bits: int) -> int:
    """The steps of k of an instruction: 8 for 32 bits, 16 for 16 bits, 32 for 8 bits."""
    return ROW_BYTES * 8 // bits


def get_share(role: Role, bits: int) -> int:
    """How many elements of a tile a lane holds."""
    return SIDE * (SIDE if role == "C" else get_depth(bits)) // WARP


def get_fragment_shape(role: Role, bits: int, is_transposed: bool) -> tuple[int, int]:
    """Rows and columns of a fragment's tile as it lies in memory."""
    if role == "C":
        return SIDE, SIDE
    depth = get_depth(bits)
    return (depth, SIDE) if role == "B" and not is_transposed else (SIDE, depth)


def place_in_fragment(role: Role, row: Any, column: Any, *, bits: int) -> tuple[Any, Any]:
    """The lane of an element of a tile, and its place among those of the lane; numbers or
    expressions of TIR.

    With ``e = 32 // bits``, lane ``4 * g + q`` has the row ``g`` of each 8 rows of A (the column of
    B), and there the elements ``e * q`` to ``e * q + e - 1`` of each ``4 * e``. Its registers go
    through the halves of 8 rows of A first and then through those of k; of B, whose halves of 8
    columns are operands of two instructions, through those of k first. Of C, whatever its type,
    a lane holds two neighbours of row ``g`` from column ``2 * q`` on, the halves of rows first.
    """
    if role == "C":
        lane = 4 * (row % 8) + column % 8 // 2
        return lane, 4 * (column // 8) + 2 * (row // 8) + column % 2
    along, across = (column, row) if role == "A" else (row, column)
    each = 32 // bits
    lane = 4 * (across % 8) + along % (4 * each) // each
    halves = along // (4 * each), across // 8
    register = 2 * halves[0] + halves[1] if role == "A" else 2 * halves[1] + halves[0]
    return lane, register * each + along % each


def get_element(role: Role, lane: Any, element: Any, *, bits: int) -> tuple[Any, Any]:
    """The row and the column of what lies at a place: the inverse of `place_in_fragment`."""
    if role == "C":
        row = lane // 4 + 8 * (element // 2 % 2)
        return row, lane % 4 * 2 + 8 * (element // 4) + element % 2
    each = 32 // bits
    register = element // each
    first, second = register % 2, register // 2
    along_half, across_half = (second, first) if role == "A" else (first, second)
    along = 4 * each * along_half + each * (lane % 4) + element % each
    across = 8 * across_half + lane // 4
    return (across, along) if role == "A" else (along, across)


def get_matrix_row(
    role: Role, lane: Any, *, bits: int, is_transposed: bool = False
) -> tuple[Any, Any]:
    """The 16 bytes that a lane names for ldmatrix: the row of one of four matrices of 8 rows.

    Matrix m becomes register m of all lanes, and lanes 8 * m to 8 * m + 7 name its rows. The row
    and the column are those in the tile as it lies in memory: A (rows, k); B (k, columns), of which
    ldmatrix transposes each matrix; or, with `is_transposed`, B (columns, k).
    """
    matrix, row, width = lane // 8, lane % 8, 128 // bits
    if role == "B" and is_transposed:
        return row + 8 * (matrix // 2), width * (matrix % 2)
    return row + 8 * (matrix % 2), width * (matrix // 2)


SCOPE = "shared.dyn"
"""Scope of the tiles that fragments are loaded from."""
PTX_TYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "tf32",
    "int8": "int8",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
"""TVM's names of the operands of an mma."""
SUMS = {"float32": "fp32", "float16": "fp16", "int32": "int32"}
"""The same of its sums."""
ACCUMULATORS = {
    **dict.fromkeys(PTX_TYPES, ("float32",)),
    "float16": ("float32", "float16"),
    "int8": ("int32",),
}

# TVM's printer leaves the type of the loaded elements out, unless it is told to put it first: the
# text of a tensorized module would be another program.
register_op_attr("tirx.ptx_legacy.ldmatrix", "TScriptDtypePrintLocation", 1, level=20)


class MmaIntrinsics(NamedTuple):
    """The names of the intrinsics of one type, and how deep its tiles are.

    Attributes
    ----------
    load_a, load_b : a 16×depth tile of A, and a tile of B, from shared memory into fragments
    fill : zeros for the sums
    multiply : C += A × B
    store : the sums, converted, to a 16×16 tile
    """

    load_a: str
    load_b: str
    fill: str
    multiply: str
    store: str
    depth: int


@query
def get_mma_intrinsics(
    dtype: str,
    acc: str,
    *,
    out: str | None = None,
    transpose_b: bool = False,
    store_scope: str = "global",
    in_quads: bool = False,
) -> MmaIntrinsics:
    """The intrinsics for a type of operands, one of sums and one of results, registered.

    With `in_quads` the lanes of a warp are 8 on threadIdx.y by 4 on threadIdx.x: the four that
    share a row of the sums differ in threadIdx.x alone. Raises `TransformError` for types that
    mma.sync does not multiply.
    """
    if dtype not in PTX_TYPES:
        raise TransformError(
            f"mma.sync does not multiply {dtype}",
            f"use one of {', '.join(PTX_TYPES)}",
        )
    if acc not in ACCUMULATORS[dtype]:
        raise TransformError(
            f"mma.sync does not sum products of {dtype} in {acc}",
            f"sum them in {' or '.join(ACCUMULATORS[dtype])}",
        )
    out = out or acc
    bits = tvm.DataType(dtype).bits
    b_name = "b_transposed" if transpose_b else "b"
    # ldmatrix transposes elements of 16 bits only.
    by_matrices = transpose_b or bits == 16
    load_b = f"tirstep_{'ldmatrix' if by_matrices else 'load'}_{b_name}_{dtype}"
    store = f"tirstep_mma_store_{acc}_as_{out}_{store_scope.replace('.', '_')}"
    register = _register_in_quads if in_quads else register_intrinsic
    place = functools.partial(place_in_fragment, "C", bits=32)
    find = functools.partial(get_element, "C", bits=32)
    sums, shape = _in_registers(get_share("C", 32), acc), (SIDE, SIDE)
    return MmaIntrinsics(
        register(f"tirstep_ldmatrix_a_{dtype}", lambda: _load(dtype, "A", False, True)),
        register(load_b, lambda: _load(dtype, "B", transpose_b, by_matrices)),
        register(f"tirstep_mma_fill_{acc}", lambda: make_fill(sums, shape, place, WARP)),
        register(f"tirstep_mma_{dtype}_{acc}", lambda: _multiply(dtype, acc)),
        register(store, lambda: make_store(sums, acc, (shape, out, store_scope), place, find)),
        get_depth(bits),
    )


def register_intrinsic(name: str, make: Callable[[], tuple[Any, Any]]) -> str:
    """Register an intrinsic unless it is registered; its name."""
    if TensorIntrin.get(name, allow_missing=True) is None:
        TensorIntrin.register(name, *make())
    return name


def _register_in_quads(name: str, make: Callable[[], tuple[Any, Any]]) -> str:
    def make_in_quads() -> tuple[Any, Any]:
        description, function = make()

        # An implementation whose 32 lanes are 8 of threadIdx.y by 4 of threadIdx.x.
        def bind(loop: For, variable: Var, extent: int, axis: str, body: Any) -> For:
            threads = IterVar(None, Var("", "int32"), IterVar.ThreadIndex, axis)  # as sch.bind does
            return For(variable, 0, extent, loop.kind, body, threads, loop.annotations)

        def spread(loop: For) -> For:
            if loop.thread_binding is None:
                return loop
            row, column = Var("row", "int32"), Var("column", "int32")
            body = substitute(loop.body, {loop.loop_var: row * QUAD + column})
            inner = bind(loop, column, QUAD, "threadIdx.x", body)
            return bind(loop, row, WARP // QUAD, "threadIdx.y", inner)

        return description, function.with_body(structural_map(function.body, (For, spread)))

    return register_intrinsic(f"{name}_in_quads", make_in_quads)


Match = tuple[tuple[int, ...], str, dict[str, Any]]
"""A buffer of an intrinsic: its shape, its type, and what else ``T.match_buffer`` takes."""


def all_of(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """All elements of a buffer of a shape."""
    return tuple(slice(0, size) for size in shape)


def _in_registers(share: int, dtype: str) -> Match:
    return (WARP, share), dtype, {"offset_factor": share, "scope": "local"}


def _describe_copy(
    source: Match,
    target: Match,
    sizes: tuple[int, int],
    place: Callable[[Any, Any], tuple[Any, Any]],
    convert: Callable[[Any], Any] = lambda value: value,
    *,
    is_load: bool = False,
) -> Any:
    """The elements of a tile, each from its place to its place; a load names its target first."""
    (shape, dtype, reads), (into, to_dtype, writes) = source, target
    all_read, all_written = all_of(shape), all_of(into)

    @T.prim_func(s_tir=True)
    def copy(first: T.handle, second: T.handle) -> None:
        S = T.match_buffer(second if is_load else first, shape, dtype, **reads)
        D = T.match_buffer(first if is_load else second, into, to_dtype, **writes)
        with T.sblock("root"):
            T.reads(S[all_read])
            T.writes(D[all_written])
            for i, j in T.grid(*sizes):
                with T.sblock("copy"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    at, to = T.meta_var(place(vi, vj))
                    T.reads(S[at])
                    T.writes(D[to])
                    D[to] = convert(S[at])

    return copy


def make_fill(
    sums: Match, sizes: tuple[int, int], place: Callable[[Any, Any], Any], threads: int
) -> tuple[Any, Any]:
    """Zeros for the sums of a tile, each at its place, which threads have in their registers."""
    shape, acc, match = sums
    *front, _, share = shape
    has_blocks, zero, whole = bool(front), tvm.tirx.const(0, acc), all_of(shape)

    @T.prim_func(s_tir=True)
    def describe(sums: T.handle) -> None:
        C = T.match_buffer(sums, shape, acc, **match)
        with T.sblock("root"):
            T.reads()
            T.writes(C[whole])
            for i, j in T.grid(*sizes):
                with T.sblock("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    at = T.meta_var(place(vi, vj))
                    T.reads()
                    T.writes(C[at])
                    C[at] = zero

    @T.prim_func(s_tir=True)
    def fill(sums: T.handle) -> None:
        C = T.match_buffer(sums, shape, acc, **match)
        with T.sblock("root"):
            T.reads()
            T.writes(C[whole])
            for _ in T.thread_binding(threads, "threadIdx.x"):
                if has_blocks:
                    for i, j, element in T.grid(*front, share):
                        C[i, j, 0, element] = zero
                else:
                    for element in T.unroll(share):
                        C[0, element] = zero

    return describe, fill


def describe_product(
    operands: Sequence[Match],
    sizes: tuple[int, int, int],
    place: Callable[[Any, Any, Any], tuple[Any, Any, Any]],
    add: Callable[[Any, Any, Any], Any],
    regions: Any = None,
) -> Any:
    """C += A × B of a tile, whose elements lie at a place each.

    Of sums that begin with zeros `regions` are what a product is taken to read of A and B.
    """
    (shape_a, dtype, match_a), (shape_b, _, match_b), (shape_c, acc, match_c) = operands
    all_a, all_b, all_c = (all_of(shape) for shape, *_ in operands)
    begins = regions is not None

    @T.prim_func(s_tir=True)
    def multiply(left: T.handle, right: T.handle, sums: T.handle) -> None:
        A = T.match_buffer(left, shape_a, dtype, **match_a)
        B = T.match_buffer(right, shape_b, dtype, **match_b)
        C = T.match_buffer(sums, shape_c, acc, **match_c)
        with T.sblock("root"):
            T.reads([*([] if begins else [C[all_c]]), A[all_a], B[all_b]])
            T.writes(C[all_c])
            for i, j, k in T.grid(*sizes):
                with T.sblock("multiply"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    of_a, of_b, of_c = T.meta_var(place(vi, vj, vk))
                    if begins:
                        region_a, region_b = T.meta_var(regions(of_a, of_b))
                        T.reads(C[of_c], A[region_a], B[region_b])
                        T.writes(C[of_c])
                        with T.init():
                            C[of_c] = T.float32(0)
                    C[of_c] = add(C[of_c], A[of_a], B[of_b])

    return multiply


def _load(dtype: str, role: Role, transposed: bool, by_matrices: bool) -> tuple[Any, Any]:
    """A tile in shared memory, element by element to its places; or `by_matrices` with ldmatrix.x4,
    and .trans for B as (k, columns).
    """
    bits, flips = tvm.DataType(dtype).bits, role == "B" and not transposed
    share, shape = get_share(role, bits), get_fragment_shape(role, bits, transposed)
    align, all_read = 128 // bits, all_of(shape)

    def place(row: Any, column: Any) -> tuple[Any, Any]:
        at = (column, row) if transposed else (row, column)
        return (row, column), place_in_fragment(role, *at, bits=bits)

    def find_row(lane: Any, stride: Any) -> Any:
        row, column = get_matrix_row(role, lane, bits=bits, is_transposed=transposed)
        return stride * row + column

    @T.prim_func(s_tir=True)
    def load(target: T.handle, source: T.handle) -> None:
        s0 = T.int32()
        s1 = T.int32()
        S = T.match_buffer(source, shape, dtype, offset_factor=align, scope=SCOPE, strides=[s0, s1])
        F = T.match_buffer(target, (WARP, share), dtype, offset_factor=share, scope="local")
        with T.sblock("root"):
            T.reads(S[all_read])
            T.writes(F[0:WARP, 0:share])
            for tx in T.thread_binding(WARP, "threadIdx.x"):
                if by_matrices:
                    rows_of_lanes = T.meta_var(
                        (S.access_ptr("r", ptr_type=dtype), find_row(tx, s0))
                    )
                    lanes = T.meta_var((F.data, F.elem_offset, *rows_of_lanes))
                    T.evaluate(ptx_legacy.ldmatrix(flips, 4, ".b16", *lanes, dtype=dtype))
                else:
                    for element in T.unroll(share):
                        F[0, element] = S[get_element(role, tx, element, bits=bits)]

    source = (shape, dtype, {"offset_factor": align, "scope": SCOPE})
    return _describe_copy(source, _in_registers(share, dtype), shape, place, is_load=True), load


def _multiply(dtype: str, acc: str) -> tuple[Any, Any]:
    """A pair of instructions, for the two halves of 8 columns."""
    bits = tvm.DataType(dtype).bits
    shares = get_share("A", bits), get_share("B", bits), get_share("C", 32)
    shape, name = f"m16n8k{get_depth(bits)}", PTX_TYPES[dtype]
    kinds = (shape, "row", "col", name, name, SUMS[acc])

    @T.prim_func(s_tir=True)
    def multiply(left: T.handle, right: T.handle, sums: T.handle) -> None:
        A = T.match_buffer(left, (WARP, shares[0]), dtype, offset_factor=shares[0], scope="local")
        B = T.match_buffer(right, (WARP, shares[1]), dtype, offset_factor=shares[1], scope="local")
        C = T.match_buffer(sums, (WARP, shares[2]), acc, offset_factor=shares[2], scope="local")
        with T.sblock("root"):
            T.reads(C[0:WARP, 0 : shares[2]], A[0:WARP, 0 : shares[0]], B[0:WARP, 0 : shares[1]])
            T.writes(C[0:WARP, 0 : shares[2]])
            for _ in T.thread_binding(WARP, "threadIdx.x"):
                for half in T.unroll(2):
                    of_b = T.meta_var((B.data, B.elem_offset + half * (shares[1] // 2)))
                    of_c = T.meta_var((C.data, C.elem_offset + half * (shares[2] // 2)))
                    operands = T.meta_var((A.data, A.elem_offset, *of_b, *of_c))
                    T.evaluate(ptx_legacy.mma(*kinds, *operands, False, dtype=acc))

    def place(row: Any, column: Any, k: Any) -> tuple[Any, Any, Any]:
        of_a = place_in_fragment("A", row, k, bits=bits)
        of_b = place_in_fragment("B", k, column, bits=bits)
        return of_a, of_b, place_in_fragment("C", row, column, bits=32)

    def add(total: Any, a: Any, b: Any) -> Any:
        return total + a * b if dtype == acc else total + T.Cast(acc, a) * T.Cast(acc, b)

    types = (dtype, dtype, acc)
    matched = [_in_registers(share, each) for share, each in zip(shares, types, strict=True)]
    return describe_product(matched, (SIDE, SIDE, get_depth(bits)), place, add), multiply


def make_store(
    sums: Match,
    acc: str,
    target: tuple[tuple[int, int], str, str],
    place: Callable[[Any, Any], Any],
    find: Callable[[Any, Any], Any],
    *,
    waits: bool = False,
) -> tuple[Any, Any]:
    """The store of a tile from the registers of threads: pairs of neighbours, as vectors.

    Registers hold `sums` of a type `acc`; of the `target` these are the rows and columns, the type
    and the scope. `place` and `find` say where one lies in the registers and in the tile. It waits
    for groups of wgmma first where it `waits`.
    """
    ((threads, share), kept, match), (shape, out, scope) = sums, target
    all_read, all_written = all_of((threads, share)), all_of(shape)

    def convert(value: Any) -> Any:
        total = value if kept == acc else T.Cast(acc, value)
        return total if acc == out else T.Cast(out, total)

    @T.prim_func(s_tir=True)
    def store(sums: T.handle, target: T.handle) -> None:
        s0 = T.int32()
        s1 = T.int32()
        C = T.match_buffer(sums, (threads, share), kept, **match)
        D = T.match_buffer(target, shape, out, offset_factor=1, scope=scope, strides=[s0, s1])
        with T.sblock("root"):
            T.reads(C[all_read])
            T.writes(D[all_written])
            for tx in T.thread_binding(threads, "threadIdx.x"):
                if waits:
                    T.ptx.wgmma.wait_group.sync.aligned(0)
                for pair in T.unroll(share // 2):
                    for of_pair in T.vectorized(2):
                        element = T.meta_var(pair * 2 + of_pair)
                        D[find(tx, element)] = convert(C[0, element])

    stored: Match = (shape, out, {"offset_factor": 1, "scope": scope})
    copied = _describe_copy(sums, stored, shape, lambda *at: (place(*at), at), convert)
    return copied, store


def number_lane(loops: Iterable[For]) -> Any:
    """The number of a thread in its warp, of loops of which some are those of thread axes."""
    number, _ = number_threads((loop.loop_var, loop.extent) for loop in list_threads(loops))
    return number % WARP


def has_lane_rows(buffer: Any) -> bool:
    """Whether a buffer in registers has a row for each lane of a warp."""
    shape = list(buffer.shape)
    return str(buffer.scope()) == "local" and len(shape) > 1 and constant(shape[-2]) == WARP


def uses_own_lane(place: Place) -> bool:
    """Whether each thread takes the row of its own lane of all fragments that a block uses."""
    lane, analyzer = number_lane(place.loops), bind_ranges(place.loops)
    block = place.block
    statements = [block.body] if block.init is None else [block.body, block.init]
    return all(
        constant(analyzer.simplify(substitute(indices[-2], place.values) - lane)) == 0
        for statement in statements
        for buffer, indices in get_elements(statement)
        if has_lane_rows(buffer)
    )


def stay_in_lanes(buffer: Any, writer: Place, reader: Place) -> bool:
    """Whether each lane writes its own row of a fragment, and reads no other one.

    Instructions of a warp, whose blocks hold its threads, take the rows of their lanes themselves;
    between two of them there is nothing to ask.
    """
    if not has_lane_rows(buffer):
        return False
    plain = [
        place
        for place in (writer, reader)
        if all(get_axis(loop) is None for loop in find_all(place.block.body, For))
    ]
    return bool(plain) and all(map(uses_own_lane, plain))
