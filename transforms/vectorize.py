"""Vectors: several elements with one load or store.

And whether their elements are neighbours in a buffer, and whether CUDA has their values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm.ir import Call, Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    BufferStore,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IndexMap,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
    const,
)
from tvm_ffi import structural_map

from .enumeration import choose_iterations
from .layout import require_copy, require_own_loops
from .loops import require_constant, require_serial
from .pass_options import set_pipeline
from .queries import (
    get_loop_name,
    get_own_loops,
    get_root,
    get_sblock_name,
    get_sblocks_under,
)
from .schedule import Int64, TransformError, transform
from .tir import (
    LARGEST_INDEX,
    Place,
    bind_ranges,
    constant,
    find_all,
    find_row_stride,
    get_elements,
    get_places,
    get_regions,
    is_among,
    is_choice,
    is_used,
    list_allocated,
    substitute,
)

LANES = (2, 4, 8, 16)
MAX_VECTOR_BYTES = 16
WIDEST = 8
"""Elements of a vector that recipes ask for, at most: 16 bytes of half precision."""


@transform
def vectorize_loop(
    sch: Schedule, loop: LoopRV, *, max_vector_bytes: Int64 = MAX_VECTOR_BYTES
) -> None:
    """Vectorize a loop.

    rewrite: ``for v in range(4)`` -> ``for v in T.vectorized(4)``
    consumes: nothing
    requires: a serial innermost loop around one block (with a second block inside, TVM generates
        wrong code); 2, 4, 8 or 16 iterations; vectors of at most `max_vector_bytes` bytes; padded
        rows that keep the vectors aligned; float8 elements that are adjacent, or one repeated
        (CUDA's float8 vectors cannot be taken apart)
    guarded: vectors of a width and type that CUDA has
    """
    require_serial(sch, loop)
    lanes = require_constant(sch, loop)
    name = get_loop_name(sch, loop)
    if lanes not in LANES:
        raise TransformError(
            f"loop '{name}' runs {lanes} times; vectors have {', '.join(map(str, LANES))} elements",
            "split the loop by one of these first",
        )
    blocks = get_sblocks_under(sch, loop)
    if len(blocks) != 1 or find_all(sch.get(loop).body, For):
        names = ", ".join(f"'{block.name_hint}'" for block in blocks)
        raise TransformError(
            f"loop '{name}' is not the innermost loop of one block (inside: {names})",
            "vectorize the innermost loop of each block by itself",
        )
    for block in blocks:
        for region in get_regions(block):
            size = lanes * region.source.dtype.itemsize
            if size > max_vector_bytes:
                raise TransformError(
                    f"loop '{get_loop_name(sch, loop)}' makes vectors of {lanes} elements of "
                    f"'{region.source.name}' ({region.source.dtype}), {size} bytes, more than "
                    f"max_vector_bytes={max_vector_bytes}",
                    "split the loop by a smaller size first",
                )
    for region in (region for block in blocks for region in get_regions(block)):
        stride = find_row_stride(get_root(sch, loop), region.source)
        if stride is not None and stride % lanes:
            raise TransformError(
                f"the rows of '{region.source.name}' are padded to {stride} elements, so that "
                f"vectors of {lanes} would be misaligned",
                f"pad to a multiple of {lanes}, or use shorter vectors",
            )
    if fault := find_float8_fault(sch, loop):
        raise TransformError(
            f"loop '{name}' makes vectors of {lanes} elements that {fault}, and CUDA does not "
            "compile them",
            "leave the loop as it is, or keep the layout",
        )
    sch.vectorize(loop)


def find_float8_fault(sch: Schedule, loop: LoopRV) -> str:
    """How vectors of float8 that a loop would make lie, where CUDA does not compile them, or "".

    TVM takes apart what does not lie as a vector does: it reads elements by their names, which
    CUDA's vectors of float8 do not have.
    """
    (block,) = get_sblocks_under(sch, loop)
    if not any(_is_float8(region.source) for region in get_regions(block)):
        return ""
    trial = sch.copy()
    trial.vectorize(loop)
    places = get_places(get_root(trial, loop))
    apart = find_taken_apart(next(it for it in places if it.block.same_as(block)))
    faults = (f"{how} in '{item.name}' ({item.dtype})" for how, item in apart if _is_float8(item))
    return next(faults, "")


def _is_float8(buffer: Any) -> bool:
    return str(buffer.dtype).startswith("float8")


@transform
def vectorize_copy(sch: Schedule, block: SBlockRV, *, vector: int = 4) -> int:
    """Vectorize the innermost own loop of a block by the widest vector up to `vector` that fits.

    A vector fits if it divides the loop and has at most 16 bytes of each buffer; in a kernel, also
    if TVM can write it as a CUDA vector (8-bit constants: at most four).

    rewrite: ``for i in range(8): A_local[i] = A_shared[i]`` ->
        ``for i_0 in range(2): for i_1 in T.vectorized(4): A_local[...] = A_shared[...]``
    consumes: the block's innermost loop, where it is split
    returns: the elements per vector; 1 if the block is left as it is
    requires: a block with a serial loop of its own, of constant extent; `vector` at least 1; what
        `vectorize_loop` requires
    guarded: vectors of a width and type that CUDA has
    """
    if vector < 1:
        raise TransformError(f"vector={vector} must be >= 1", "use an integer >= 1")
    own = get_own_loops(sch, block)
    if not own:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has no loop of its own",
            "vectorize the loop that it shares with vectorize_loop",
        )
    require_serial(sch, own[-1])
    extent = require_constant(sch, own[-1])
    size = max(region.source.dtype.itemsize for region in get_regions(sch.get(block)))
    widest = min(vector, MAX_VECTOR_BYTES // size)
    (place,) = (
        each for each in get_places(get_root(sch, block).body) if each.block.same_as(sch.get(block))
    )
    if place.kernel is not None:
        widest = min(widest, find_longest_vector(place, sch.get(own[-1]), widest))
    fitting = [lanes for lanes in LANES if lanes <= widest and extent % lanes == 0]
    if not fitting:
        return 1
    inner = own[-1] if extent == fitting[-1] else sch.split(own[-1], [None, fitting[-1]])[1]
    vectorize_loop(sch, inner)
    return fitting[-1]


@transform
def align_vectors(sch: Schedule, block: SBlockRV, *, vector: int, offset: int) -> None:
    """Align the rows that a block writes to vectors, the first element `offset` places into one.

    A padding of three elements, for example, shifts rows against the vectors of the padded tensor.
    With an offset of one they are aligned again, so that each vector is either loaded whole or zero
    as a whole. Places without an element hold zeros. The pipeline "tirstep" removes the condition
    for these places (`set_pipeline`), which would prevent vectors.

    rewrite: ``for x in 10: P[x] = if_then_else(3 <= x < 7, A[x - 3], 0)`` ->
        ``for v in 3: for l in 4: P[v, l] = if_then_else(3 <= 4 * v + l - 1 < 7,
        A[4 * v + l - 4], 0)``, and zeros where x = 4 * v + l - 1 is not in 10
    consumes: the block's loops
    requires: an untouched block, with one serial loop of its own for each iterator, that is the
        only writer of an intermediate buffer of constant row length, element by element; a vector
        of 2,
        4, 8 or 16 elements, and an offset from 0 to less than a vector
    """
    if vector not in LANES or offset not in range(vector):
        raise TransformError(
            f"vector={vector} and offset={offset} are not a vector and an offset",
            f"give a vector of {', '.join(map(str, LANES))} elements and an offset within it",
        )
    name, region = get_sblock_name(sch, block), require_copy(sch, block)
    advice = (
        "align a block before its loops are split or fused and before it is moved, or other blocks "
        "to it"
    )
    iterators = sch.get(block).iter_vars
    written = [each.min for each in region.region]
    simple = len(written) == len(iterators) and all(
        at.same_as(iterator.var) for at, iterator in zip(written, iterators, strict=True)
    )
    if not simple or not iterators:
        raise TransformError(
            f"block '{name}' does not write '{region.source.name}' element by element in "
            f"{len(iterators)} loops, one for each dimension",
            advice,
        )
    require_own_loops(sch, block, advice)
    buffer = region.source
    nodes = find_all(get_root(sch, block), SBlock)
    if not is_among(buffer, list_allocated(get_root(sch, block))):
        raise TransformError(
            f"block '{name}' writes '{buffer.name}', a tensor of the kernel's",
            "align an intermediate buffer, or a copy made by cache_read_at",
        )
    # TVM would give the loops of all its writers the same variables, and then mix them up.
    writers = [node for node in nodes if any(w.source.same_as(buffer) for w in node.writes)]
    if len(writers) > 1:
        names = " and ".join(f"'{node.name_hint}'" for node in writers)
        raise TransformError(
            f"'{buffer.name}' is written by the blocks {names}",
            "align a buffer that one block writes: a reduction before decompose_reduction_at",
        )
    if constant(buffer.shape[-1]) is None:
        raise TransformError(
            f"the rows of '{buffer.name}' have the symbolic length {buffer.shape[-1]}",
            "give the kernel its sizes",
        )
    rank, row = len(buffer.shape), constant(buffer.shape[-1]) or 0

    def place(*at: Any) -> tuple[Any, ...]:
        last = at[-1] + offset if offset else at[-1]
        return (*at[:-1], last // vector, last % vector)

    if offset or row % vector:
        # TVM makes a number of Python's a float32 where the buffer has a type of eight bits.
        is_float = "float" in str(buffer.dtype)
        zero = FloatImm(buffer.dtype, 0.0) if is_float else IntImm(buffer.dtype, 0)
        sch.transform_layout(block, ("write", 0), place, pad_value=lambda *_: zero)
        set_pipeline(sch)
    else:
        sch.transform_layout(block, ("write", 0), place)
        index = str(sch.get(block).iter_vars[-1].var.ty)
        index_map = IndexMap.from_func(place, ndim=rank, index_dtype=index)
        sch.transform_block_layout(block, index_map)


REPEATED = {"float16": 8, "bfloat16": 8, "bool": 8}
"""The most elements of a vector of one value that TVM writes as CUDA's, by type; 4 of others.

Measured with nvcc 13.0: ``make_int4`` of 16 arguments is what TVM writes for 16 zeros of int8.
"""
_MOST, _MOST_LOADED, _MOST_CONDITIONS = 4, {"int8": 2, "uint8": 2}, 4
_FLOAT8, _COMPUTING = "float8", (Add, Sub, Mul, Div, Max, Min)
_TRIED = 64
"""Lanes that are compared with the first one; of more, the first and the last ones."""


def find_scattered(place: Place) -> Iterator[tuple[For, Any]]:
    """The vectorized loops around a block, each with a buffer of which they take no neighbours."""
    for loop, buffer, indices, analyzer in _find_vectors(place):
        if not _are_neighbours(indices, loop, analyzer):
            yield loop, buffer


def takes_neighbours(place: Place, loop: For) -> bool:
    """Whether a loop around a block goes along the last dimension of all its buffers, by ones."""
    analyzer = bind_ranges(place.loops)
    return all(
        _are_neighbours([substitute(index, place.values) for index in indices], loop, analyzer)
        for _, indices in get_elements(place.block.body)
    )


def find_unwritten(place: Place) -> Iterator[tuple[For, str]]:
    """The vectorized loops around a kernel's block, with vectors that TVM does not write as CUDA's.

    One value for all elements, a constant say, may be more of them than TVM has an expression for;
    `Select` asks for as many conditions as there are elements; float8 is neither computed with nor
    converted to integers. What has a condition of its own for each element is taken apart.
    """
    for loop in place.loops if place.kernel is not None else ():
        if loop.kind != ForKind.VECTORIZED:
            continue
        # Vectors of four, of all types but the narrow ones, are CUDA's.
        lanes, elements = constant(loop.extent) or 1, get_elements(place.block.body)
        dtypes = {str(buffer.dtype) for buffer, _ in elements}
        if lanes > _MOST or any(it in _MOST_LOADED or it.startswith(_FLOAT8) for it in dtypes):
            yield from ((loop, what) for what in _find_unwritten(place, loop, lanes))


def find_longest_vector(place: Place, loop: For, lanes: int) -> int:
    """The longest vector, up to so many elements, that a loop of a block could make; 1 for none."""
    fitting = (most for most in (16, 8, 4, 2) if most <= lanes)
    return next((most for most in fitting if not any(_find_unwritten(place, loop, most))), 1)


def _find_unwritten(place: Place, loop: For, lanes: int) -> Iterator[str]:
    analyzer, body = bind_ranges(place.loops), place.block.body

    def changes(expression: Any) -> bool:
        """Whether an expression of the block differs along the loop, as TVM simplifies it."""
        inner = substitute(expression, place.values)
        return is_used(loop.loop_var, inner) and is_used(loop.loop_var, analyzer.simplify(inner))

    def find_repeated(value: Any) -> Iterator[Any]:
        """The largest parts of a value that are the same all along a loop, which TVM repeats."""
        if isinstance(value, TensorLoad):
            yield from [] if any(map(changes, value.indices)) else [value]
        elif not is_used(loop.loop_var, substitute(value, place.values)):
            yield value
        else:  # the expressions of which it is made, but for conditions
            names = ("a", "b", "value", "true_value", "false_value", "body")
            parts = [getattr(value, name, None) for name in names]
            parts = [*(part for part in parts if hasattr(part, "ty")), *getattr(value, "args", ())]
            for part in parts[1:] if is_choice(value) else parts:
                yield from find_repeated(part)

    for store in find_all(body, BufferStore):
        choices = [node.args[0] for node in find_all(store.value, Call) if is_choice(node)]
        if not any(map(changes, store.indices)) or any(map(changes, choices)):
            continue
        for value in find_repeated(store.value):
            dtype = str(value.ty.dtype)
            most = REPEATED.get(dtype, _MOST)
            if not isinstance(value, (IntImm, FloatImm)):
                most = min(most, _MOST_LOADED.get(dtype, most))
            if lanes > most:
                yield f"{lanes} elements of {dtype} out of one value"
    for node in find_all(body, Select):
        if lanes > _MOST_CONDITIONS and changes(node.condition):
            yield f"{lanes} conditions"
    for node in find_all(body, Cast):
        dtypes = [str(it.ty.dtype) for it in (node.value, node)]
        is_narrow = any(dtype.startswith(_FLOAT8) for dtype in dtypes)
        if is_narrow and (lanes > _MOST or any("int" in it for it in dtypes)) and changes(node):
            yield f"{lanes} elements that are converted from {dtypes[0]} to {dtypes[1]}"
    for node in (it for kind in _COMPUTING for it in find_all(body, kind)):
        if str(node.ty.dtype).startswith(_FLOAT8) and changes(node):
            yield f"{lanes} elements of {node.ty.dtype} that are computed with"


def find_taken_apart(place: Place) -> Iterator[tuple[str, Any]]:
    """What TVM takes apart of the vectors around a block: how they lie, and in which buffer.

    One element that is repeated is not taken apart. Of buffers that are compacted later nothing is
    known but whether they take neighbours; and where lanes have conditions of their own, there are
    vectors of what is aligned alone (`SplitGuardedVectors`).
    """
    body = place.block.body
    inside = [node.condition for node in find_all(body, IfThenElse)]
    inside += [node.args[0] for node in find_all(body, Call) if is_choice(node)]
    conditions = [*place.guards, *(substitute(it, place.values) for it in inside)]
    for loop, buffer, indices, analyzer in _find_vectors(place):
        if not any(is_used(loop.loop_var, index) for index in indices):
            continue
        is_guarded = any(is_used(loop.loop_var, condition) for condition in conditions)
        is_known = buffer.scope() == "global" and not is_guarded
        if not _are_neighbours(indices, loop, analyzer):
            yield "are not neighbours", buffer
        elif is_known and not begin_aligned(buffer, indices, loop, analyzer):
            yield "do not begin at multiples of the vector", buffer


def _find_vectors(place: Place) -> Iterator[tuple[For, Any, list[Any], Analyzer]]:
    """The vectorized loops, with each element's buffer and its indices in loop variables alone."""
    analyzer = bind_ranges(place.loops)
    for loop in place.loops:
        if loop.kind == ForKind.VECTORIZED:
            for buffer, indices in get_elements(place.block.body):
                yield loop, buffer, [substitute(it, place.values) for it in indices], analyzer


def begin_aligned(buffer: Any, indices: Sequence[Any], loop: For, analyzer: Analyzer) -> bool:
    """Whether all vectors of a loop begin at a multiple of their length, counted from the buffer's
    first element."""
    first = find_place(buffer, [_take_lane(index, loop, 0) for index in indices])
    return bool(analyzer.can_prove_equal(first % loop.extent, 0))


def find_place(buffer: Any, indices: list[Any]) -> Any:
    """The place of an element in a buffer."""
    place = indices[0]
    if len(buffer.strides):
        place = sum(index * stride for index, stride in zip(indices, buffer.strides, strict=True))
    else:
        for index, size in zip(indices[1:], buffer.shape[1:], strict=True):
            place = place * size + index
    return place + buffer.elem_offset


def _are_neighbours(indices: list[Any], loop: For, analyzer: Analyzer) -> bool:
    """Whether a vectorized loop goes along the last dimension in steps of one.

    TVM proves that ``(2 * number + lane) // 18`` is the same for both lanes, but not that
    ``(256 * i + 2 * j + lane) // 18`` is, since 18 does not divide 256: each sum that is divided,
    and is ``lanes * number + lane``, is written so.
    """
    lane, lanes = loop.loop_var, constant(loop.extent) or 1
    numbered: list[tuple[Any, Any]] = []

    def number(division: Any) -> Any:
        total = division.a
        if not is_used(lane, total) or total.ty.dtype != lane.ty.dtype:
            return division
        known = next((new for old, new in numbered if tvm_ffi.structural_equal(old, total)), None)
        if known is None:
            first = analyzer.simplify(substitute(total, {lane: const(0, lane.ty.dtype)}))
            factors, bound = analyzer.modular_set(first), analyzer.const_int_bound(first)
            whole = factors.coeff % lanes == 0 and factors.base % lanes == 0
            # What the analyzer does not bound may be up to 2**63, it says.
            bounded = bound.min_value >= -LARGEST_INDEX and bound.max_value <= LARGEST_INDEX
            if not (whole and bounded and analyzer.can_prove_equal(total - first, lane)):
                return division
            vector = Var("vector", lane.ty.dtype)
            low, high = bound.min_value // lanes, bound.max_value // lanes
            analyzer.bind(vector, Range.from_min_extent(low, high - low + 1))
            known = vector * lanes + lane
            numbered.append((total, known))
        return type(division)(known, division.b)

    parts = [structural_map(index, ((FloorDiv, FloorMod), number)) for index in indices]
    for place, index in enumerate(parts, start=1):
        step, first = 1 if place == len(parts) else 0, _take_lane(index, loop, 0)
        for at in choose_iterations(lanes, _TRIED)[1:]:
            if not analyzer.can_prove_equal(_take_lane(index, loop, at) - first, at * step):
                return False
    return True


def _take_lane(index: Any, loop: For, lane: int) -> Any:
    """An index for one iteration of a vectorized loop, counted from its first."""
    dtype = loop.loop_var.ty.dtype
    return substitute(index, {loop.loop_var: loop.min + const(lane, dtype)})
