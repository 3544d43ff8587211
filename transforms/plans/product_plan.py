"""The plans of products: tiles in registers or on tensor cores, with what stands around them.

A convolution is the product of two matrices, one of which holds its windows. A kernel of its own
writes the matrix of windows, so that tiles of any product's schedule are copied whole, by the TMA
too. Which of both is the left one follows from how results lie: those that are neighbours are of
one row. So pixels are rows where channels come last (NHWC), and columns where they come first
(NCHW), with no transposition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import Add, BufferStore, Cast, FloorDiv, IndexMap, IterVar, Mul, Var
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_map

from ..caching import can_inline_producers
from ..hopper.wgmma_intrinsics import ARCHITECTURE, ROWS
from ..inlining import inline_chain, inline_epilogue, inline_producers
from ..queries import get_sblock_name, is_reduction
from ..recipes import conv2d, gemm, mma, wgmma
from ..recipes.element_ladders import TransposeConfig, schedule_transpose
from ..recipes.matmul_best import ENGINES, choose_for, find_gpu, rank_gemm
from ..recipes.tiled_product import Groups, group_iterators
from ..recipes.time_model import Product, read_gpu
from ..reduction import HALVES, widen_sums
from ..rewriting import replace_blocks
from ..schedule import TransformError, inlines, transform
from ..tir import constant, find_all, get_elements, is_among, is_used, replace_fields
from .flat import LEFT_OVER, schedule_flat
from .roles import Mismatch, Plan, Roles, find_obstacle, is_bound, list_sblocks, make_roles

MATMUL = "matmul"
OPEN_MATMUL = gemm.GemmConfig(
    threads=(8, 16), thread_tile=(8, 4), tile_k=16, warp=(4, 8), stages=2, tail="pad"
)
"""Tiles of 64 rows and columns: of sizes that are not known when it is compiled."""
_TRIED = 3
MatmulConfig = gemm.GemmConfig | mma.MmaConfig | wgmma.WgmmaConfig


@transform
@inlines
def schedule_matmul(sch: Schedule, block: SBlockRV, *, config: MatmulConfig) -> None:
    """Schedule a product of two operands as the fast matmul recipes do, whatever its name is.

    What follows the sums (scale, bias, activation, cast) becomes part of the store; what computes
    the operands (dequantization, cast) becomes part of their fetch. Loops in front of the last two
    spatial ones are a batch, on blockIdx.z. Sizes may be symbolic with ``tail="pad"``. Asynchronous
    copies cannot compute: for tensor cores, an operand whose elements share words or scales is
    first dequantized by another kernel, into a workspace.

    rewrite: ``for b, i, j, k: C += A * B`` and ``for b, i, j: D = f(C)`` -> ``for b in
        blockIdx.z: for i_j in blockIdx.x: ...: C_local += A_shared * B_shared; D = f(C_local)``
    consumes: the loops of all blocks; blocks around the product that are inlined
    requires: a block that `match_matmul` finds; a config of the family of "matmul_fragments",
        "matmul_mma" or "matmul_wgmma", and what that requires
    """
    reason = find_obstacle(sch, [block]) or _find_difference(sch, block)
    if reason:
        raise TransformError(reason, "pass a block that match_matmul finds")
    for producer in sch.get_producers(block):
        if is_reduction(sch, producer) or is_bound(sch, producer):
            continue
        inline_chain(sch, producer, kept=[])
        # Elements that several share a word or a scale of, and no reshape.
        body = sch.get(producer).body
        loads, stores = find_all(body, TensorLoad), find_all(body, BufferStore)
        shares = any(find_all(index, FloorDiv) for load in loads for index in load.indices)
        computes = not all(isinstance(store.value, TensorLoad) for store in stores)
        is_async = not isinstance(config, gemm.GemmConfig) and config.stages > 1
        if is_async and shares and computes:
            schedule_flat(sch, producer, config=LEFT_OVER)
    if config.tail == "pad":
        # A copy stands for an operand that several of a batch share, heads of queries one of keys:
        # TVM pads none whose index is more than an iterator. It becomes part of the fetch.
        for number, region in enumerate(sch.get(block).reads):
            indices = [part.min for part in region.region]
            if not all(isinstance(index, Var) or constant(index) is not None for index in indices):
                sch.reindex(block, ("read", number))
    if isinstance(config, wgmma.WgmmaConfig) and (
        str(sch.get(block).writes[0].source.dtype) in HALVES
    ):
        widen_sums(sch, block)  # what wgmma has; it rounds, and does what follows, behind
    epilogue = inline_epilogue(sch, block)
    if epilogue is not None and _count_dimensions(sch, epilogue) > _count_dimensions(sch, block):
        sch.cache_write(block, 0, "global")  # what repeats the results is a kernel of its own
    for _ in ENGINES[type(config)](sch, config).schedule(block):
        pass


def _count_dimensions(sch: Schedule, block: SBlockRV) -> int:
    """Over how many spatial iterators of more than one value a block goes."""
    spatial = [it for it in sch.get(block).iter_vars if it.iter_type == IterVar.DataPar]
    return sum(constant(it.dom.extent) != 1 for it in spatial)


def match_matmul(sch: Schedule) -> Roles | Mismatch:
    """The one product of a function, ``C[.., i, j] += A[.., i, k] * B[.., k, j]``, or why none.

    Nothing changes. Operands may be cast, and their indices in other orders.
    """
    return _match(sch, MATMUL, "product", _find_difference)


def _match(
    sch: Schedule, plan: str, what: str, find_difference: Callable[[Schedule, SBlockRV], str]
) -> Roles | Mismatch:
    """The one block of a function that reduces, if nothing of it is different; or why not."""
    blocks = [block for block in list_sblocks(sch) if is_reduction(sch, block)]
    if len(blocks) != 1:
        return Mismatch(plan, f"{len(blocks)} blocks reduce, and a {what} has one")
    (block,) = blocks
    reason = find_obstacle(sch, blocks) or find_difference(sch, block)
    for producer in sch.get_producers(block):
        reason = reason or find_obstacle(sch, [producer])
    return Mismatch(plan, reason) if reason else make_roles(sch, plan, blocks)


def _find_difference(sch: Schedule, block: SBlockRV) -> str:
    """Why a block is not a matmul; "" if it is one."""
    node, name = sch.get(block), get_sblock_name(sch, block)
    kinds = [it.iter_type for it in node.iter_vars]
    reduced = kinds.count(IterVar.CommReduce)
    if reduced != 1 or kinds[-1] != IterVar.CommReduce or len(kinds) < 3:
        return (
            f"block '{name}' has {len(kinds) - reduced} spatial iterators and {reduced} that "
            "reduce, and a matmul has two or more, then one"
        )
    if node.init is None or len(node.writes) != 1 or len(node.reads) != 2:
        return f"block '{name}' reads {len(node.reads)} tensors, and a matmul reads two"
    if find_factors(node.body) is None:
        return f"block '{name}' does not add up products of two operands"
    *_, row, column, depth = (it.var for it in node.iter_vars)
    first, second = ([part.min for part in region.region] for region in node.reads)
    wanted = [(row, True, False), (column, False, True), (depth, True, True)]
    for variable, in_first, in_second in wanted:
        found = [any(is_used(variable, index) for index in each) for each in (first, second)]
        if found != [in_first, in_second]:
            return (
                f"iterator '{variable.name}' of block '{name}' is not where a matmul A[.., i, "
                "k] * B[.., k, j] has it"
            )
    return ""


def find_factors(store: Any) -> tuple[TensorLoad, TensorLoad] | None:
    """The two loads, perhaps cast, whose product a store adds to what it stores to; or None."""
    if not isinstance(store, BufferStore) or not isinstance(store.value, Add):
        return None
    terms = [
        term
        for term in (store.value.a, store.value.b)
        if not (isinstance(term, TensorLoad) and term.source.same_as(store.buffer))
    ]
    product = _without_casts(terms[0]) if len(terms) == 1 else None
    if not isinstance(product, Mul):
        return None
    factors = _without_casts(product.a), _without_casts(product.b)
    return factors if all(isinstance(it, TensorLoad) for it in factors) else None


def _without_casts(term: Any) -> Any:
    while isinstance(term, Cast):
        term = term.value
    return term


CONVOLUTION = "convolution"
_MOST_ELEMENTS = 2**29
"""Most elements of a matrix, so that 32-bit indices suffice even with padding."""
SQUARES = TransposeConfig(tile=32, padding=1)
"""How operands and results whose channels do not come last are transposed."""
SINGLE = replace(LEFT_OVER, vector=1)
"""What writes a matrix: where vectors alone are stored and read, TVM gives the matrix a type of
these, of which it makes no asynchronous copies."""


@transform
@inlines
def schedule_convolution(sch: Schedule, block: SBlockRV, *, config: MatmulConfig) -> None:
    """Schedule a convolution, or another sum of products, as the product of two matrices.

    What pads or casts an operand is part of the kernel that writes its matrix, and what follows the
    sums part of the store, as in `schedule_matmul`.

    rewrite: ``for n, o, y, x, c, i, j: Y[n, o, y, x] += padded[n, c, y + i, x + j] * F[o, c, i,
        j]`` -> ``for ...: windows[s, p] = padded[...]``, ``for ...: filters[o, s] = F[...]`` and
        ``for o_p in blockIdx.x: ...: sums += filters_shared * windows_shared; Y[...] = sums``
    consumes: the loops of all blocks; blocks around that are inlined
    requires: a block that `match_convolution` finds; what the config's family requires of a product
    """
    _require_convolution(sch, block)
    groups, swapped = _read_groups(sch, block)
    if swapped:
        _swap_operands(sch, block)
    for producer in sch.get_producers(block):
        inline_chain(sch, producer, kept=[])
    inline_epilogue(sch, block)
    for copy in group_iterators(sch, block, groups):
        schedule_flat(sch, copy, config=SINGLE)
    schedule_matmul(sch, block, config=config)


def _require_convolution(sch: Schedule, block: SBlockRV) -> None:
    """Refuse a block that `match_convolution` does not find."""
    reason = find_obstacle(sch, [block]) or _find_difference_of_sum(sch, block)
    if reason:
        raise TransformError(reason, "pass a block that match_convolution finds")


def _swap_operands(sch: Schedule, block: SBlockRV) -> None:
    """Let a block read its second operand first: products are the same either way."""
    node = sch.get(block)
    body = structural_map(node.body, (Mul, lambda product: Mul(product.b, product.a)))
    made = replace_fields(node, body=body, reads=[node.reads[1], node.reads[0]])
    replace_blocks(sch, block, {node: made}, [], who="schedule_convolution")


@dataclass(frozen=True, kw_only=True)
class WindowsConfig:
    """A convolution whose tiles the TMA copies, with the knobs that a model of time chooses.

    Attributes
    ----------
    device : a GPU by its name or properties, as for `rules.cuda`
    """

    device: str


@transform
@inlines
def schedule_windows(sch: Schedule, block: SBlockRV, *, config: WindowsConfig) -> None:
    """Schedule a convolution of images as the recipe conv2d_wgmma_best does, whatever its layout.

    Separate kernels copy operands to a layout with channels last, unless they have it, and apply
    what follows the sums, in the result's own layout. The TMA fills the padding with zeros.

    rewrite: ``for n, o, y, x, c, i, j: Y[n, o, y, x] += padded[n, c, y + i, x + j] * F[o, c, i,
        j]`` -> ``for ...: images[n, h, w, c] = X[n, c, h, w]``, ``for ...: filters[o, i, j, c] =
        F[...]``, ``for n, y, x, o, i, j, c: sums[n, y, x, o] += images[...] * filters[...]`` by
        `tile_windows` and wgmma, and ``for ...: Y[n, o, y, x] = sums[n, y, x, o]``
    consumes: the loops of all blocks; blocks around that are inlined
    requires: a block that `match_convolution` finds, with three spatial iterators in the indices of
        one operand and one in those of the other, and three that reduce, of which one, the
        channels, is an index of both; what conv2d_wgmma_best requires, and wgmma
    """
    _require_convolution(sch, block)
    name, node = get_sblock_name(sch, block), sch.get(block)
    owners, spatial = _find_owners(node), list(node.body.indices)
    if sum(is_among(it, owners[0]) for it in spatial) == 1:
        _swap_operands(sch, block)
        node, owners = sch.get(block), owners[::-1]
    places = [[part.min for part in region.region] for region in node.reads]
    pixels, filters = ([it for it in spatial if is_among(it, owner)] for owner in owners)
    steps = [it.var for it in node.iter_vars if it.iter_type != IterVar.DataPar]
    channels = [it for it in steps if all(is_among(it, indices) for indices in places)]
    if (len(pixels), len(filters), len(steps), len(channels)) != (3, 1, 3, 1):
        raise TransformError(
            f"block '{name}' has {len(pixels)} iterators of pixels, {len(filters)} of filters and "
            f"{len(channels)} of {len(steps)} for channels, and a convolution of images has 3, 1 "
            "and 1 of 3",
            "use schedule_convolution",
        )
    inline_epilogue(sch, block)
    for producer in sch.get_producers(block):
        inline_chain(sch, producer, kept=[])
    if can_inline_producers(sch, block):  # the rim, which the TMA fills with zeros
        inline_producers(sch, block)
    # Copies and what follows, and the order of their loops in which each writes its result.
    moved = list[tuple[SBlockRV, list[int]]]()
    for operand, region in enumerate(sch.get(block).reads):
        indices = next(
            at for it, at in get_elements(sch.get(block).body) if it.same_as(region.source)
        )
        found = [at for at, index in enumerate(indices) if index.same_as(channels[0])]
        if found and found[0] < len(indices) - 1:
            copy, at = sch.cache_read(block, operand, "global"), found[0]
            order = [*range(at), *range(at + 1, len(indices)), at]
            sch.transform_layout(copy, ("write", 0), _reorder(order))
            moved.append((copy, order))
    if len(sch.get_consumers(block)) != 1:
        sch.cache_write(block, 0, "global")
    (follower,) = sch.get_consumers(block)
    at, end = next(at for at, it in enumerate(spatial) if it.same_as(filters[0])), len(spatial) - 1
    if at < end:
        order = [*range(at), *range(at + 1, end + 1), at]
        sch.transform_layout(block, ("write", 0), _reorder(order))
        moved.append((follower, [*range(at), *range(at + 1, end), at, end]))
    result = sch.get(block).writes[0].source
    left = [copy for copy, order in moved if not _transpose(sch, copy, order, result)]
    taps = [it for it in steps if not is_among(it, channels)]
    wanted = [*pixels, *filters, *taps, *channels]
    variables = [it.var for it in node.iter_vars]
    numbers = [next(n for n, it in enumerate(variables) if it.same_as(each)) for each in wanted]
    sch.transform_block_layout(block, _reorder(numbers))
    if str(result.dtype) in HALVES:
        widen_sums(sch, block)
    else:  # what follows may store in another order, and is a kernel of its own
        sch.cache_write(block, 0, "global")
    chosen = conv2d.choose_config(sch, block, find_gpu(config.device))
    if chosen.copies != "tma":
        raise TransformError(f"the TMA does not copy tiles of block '{name}'", "use another plan")
    conv2d.make_tiled_product(sch, chosen, block, inlines=False)
    for _ in wgmma.WgmmaEngine(sch, replace(chosen, tail="refuse")).schedule(block):
        pass
    for copy in left:
        schedule_flat(sch, copy, config=SINGLE)


def _transpose(sch: Schedule, block: SBlockRV, order: Sequence[int], result: Any) -> bool:
    """Transpose through tiles in shared memory: of a convolution's `result`, where the block reads
    it, else of its only operand; `order` is that of its loops. False, and nothing changed, where
    tiles do not divide it.
    """
    reads = [region.source.same_as(result) for region in sch.get(block).reads]
    loops = sch.get_loops(block)
    sizes = [constant(sch.get(loops[at]).extent) or 1 for at in order[-2:]]
    if any(size % SQUARES.tile for size in sizes):
        return False
    sch.reorder(*(loops[at] for at in order))
    for _ in schedule_transpose(sch, SQUARES, block, reads.index(True) if any(reads) else 0):
        pass
    return True


def _reorder(order: Sequence[int]) -> IndexMap:
    return IndexMap.from_func(
        lambda *index: [index[at] for at in order], ndim=len(order), index_dtype="int32"
    )


def match_convolution(sch: Schedule) -> Roles | Mismatch:
    """The one sum of products of a function over several loops, or why there is none.

    Each spatial iterator must index only one operand: no groups of channels, and no batch of
    filters. The function is not changed.
    """
    return _match(sch, CONVOLUTION, "convolution", _find_difference_of_sum)


def choose_product(
    sch: Schedule, roles: Roles, device: str, tensor_cores: bool
) -> list[MatmulConfig | WindowsConfig]:
    """Configs for a product: the fastest by a model of time; one of any size where some are open.

    With `tensor_cores` products of half precision are first tried on these: by wgmma on a GPU that
    has it, where there are as many rows as it multiplies and indices have 32 bits, and by mma.sync
    elsewhere.
    """
    (block,) = roles.blocks
    node, across_k, is_windowed = sch.get(block), False, False
    extents = [constant(iterator.dom.extent) for iterator in node.iter_vars]
    if None in extents:
        return [OPEN_MATMUL]
    *outer, m, n, k = counts = [extent or 1 for extent in extents]
    if roles.plan == CONVOLUTION:
        *groups, across_k = _read_groups(sch, block)[0]
        is_windowed = any(counts[at] > 1 for at in groups[2][1:])
        outer, (m, n, k) = [], (math.prod(counts[at] for at in group) for group in groups)
    dtype, gpu = node.reads[-1].source.dtype, read_gpu(device)
    batch, of_batch = math.prod(outer), tuple(outer)
    sizes = Product(m, n, k, dtype.itemsize, batch, 0, dtype, of_batch, across_k)
    ranked: list[gemm.GemmConfig] = [each.config for each in rank_gemm(sizes, gpu)[:_TRIED]]
    simple = [replace(config, split_k=1, tail="pad") for config in ranked[:1]]
    found: list[MatmulConfig | WindowsConfig] = [*ranked, *simple, OPEN_MATMUL]
    if tensor_cores and str(sizes.dtype) in HALVES:
        found.insert(0, choose_for(sizes, "mma", gpu).config)
        takes_wgmma = gpu.architecture == ARCHITECTURE and (
            str(node.iter_vars[0].var.ty.dtype) == "int32"
        )
        if takes_wgmma and sizes.m >= ROWS:
            # Then one that stores results which do not lie as sums do, and one whose tiles threads
            # copy, which may compute.
            chosen = choose_for(sizes, "wgmma", gpu).config
            stored = replace(chosen, persistent=0, store="shared")
            copied = replace(stored, copies="threads", roles=False, stages=min(chosen.stages, 4))
            found[:0] = [*dict.fromkeys((chosen, stored, copied))]
        if takes_wgmma and is_windowed:
            found.insert(0, WindowsConfig(device=device))
    return found


def _find_difference_of_sum(sch: Schedule, block: SBlockRV) -> str:
    """Why a block is not a convolution; "" if it is one."""
    node, name = sch.get(block), get_sblock_name(sch, block)
    if not node.iter_vars or not isinstance(node.body, BufferStore):
        return f"block '{name}' is not a sum of one value over loops"
    if None in [constant(it.dom.extent) for it in node.iter_vars]:
        return f"block '{name}' has open sizes"
    if str(node.iter_vars[0].var.ty.dtype) != "int32":
        return f"block '{name}' has indices of {node.iter_vars[0].var.ty.dtype}, not of int32"
    if node.init is None or len(node.writes) != 1 or len(node.reads) != 2:
        return f"block '{name}' reads {len(node.reads)} tensors, and a convolution reads two"
    factors, zero = find_factors(node.body), node.init
    sources = [] if factors is None else [it.source for it in factors]
    if (
        not sources
        or sources[0].same_as(sources[1])
        or is_among(node.body.buffer, sources)
        or not isinstance(zero, BufferStore)
        or getattr(zero.value, "value", None) != 0
    ):
        return f"block '{name}' does not add up products of two operands, from zero on"
    written = list(node.body.indices)
    spatial = [it.var for it in node.iter_vars if it.iter_type == IterVar.DataPar]
    if len(written) != len(spatial) or not all(is_among(each, written) for each in spatial):
        return f"block '{name}' is not indexed by its spatial iterators where it writes"
    first, second = _find_owners(node)
    both = [it for it in spatial if is_among(it, first) == is_among(it, second)]
    if both:
        return (
            f"iterator '{both[0].name}' of block '{name}' is in the indices of both operands, "
            "or of neither"
        )
    # Rows and columns, in whatever order, and steps.
    counts = [1, 1, 1]
    for it in node.iter_vars:
        group = 2 if it.iter_type != IterVar.DataPar else int(not is_among(it.var, first))
        counts[group] *= constant(it.dom.extent) or 1
    sizes, (rows, columns, steps) = " by ".join(map(str, counts)), counts
    if 1 in counts:
        return f"block '{name}' is a product of {sizes}, and all are more than 1"
    if max(rows, columns) * steps >= _MOST_ELEMENTS:
        return f"block '{name}' is a product of {sizes}, whose matrices need 64-bit indices"
    return ""


def _find_owners(node: Any) -> tuple[list[Any], list[Any]]:
    """The variables in the indices of what a block reads first, and of what it reads second."""
    first, second = (
        [var for part in region.region for var in undefined_vars(part.min)] for region in node.reads
    )
    return first, second


def _read_groups(sch: Schedule, block: SBlockRV) -> tuple[Groups, bool]:
    """Rows, columns and steps of a convolution, and whether its second operand has the rows.

    The columns are of the operand whose iterator numbers neighbours in the result.
    """
    node = sch.get(block)
    owners = _find_owners(node)
    swapped = is_among(node.body.indices[-1], owners[0])
    spatial = [at for at, it in enumerate(node.iter_vars) if it.iter_type == IterVar.DataPar]
    rows, columns = (
        tuple(at for at in spatial if is_among(node.iter_vars[at].var, owner))
        for owner in owners[:: -1 if swapped else 1]
    )
    steps = tuple(at for at in range(len(node.iter_vars)) if at not in spatial)
    region = node.reads[0 if swapped else 1].region[-1].min
    lies_across = any(is_among(node.iter_vars[at].var, undefined_vars(region)) for at in columns)
    return Groups(rows, columns, steps, lies_across), swapped


MATMUL_PLAN = Plan(
    MATMUL,
    match_matmul,
    lambda sch, roles, config: schedule_matmul(sch, roles.blocks[0], config=config),
    choose_product,
    tuple(ENGINES),
)
CONVOLUTION_PLAN = Plan(
    CONVOLUTION,
    match_convolution,
    lambda sch, roles, config: (
        schedule_windows if isinstance(config, WindowsConfig) else schedule_convolution
    )(sch, roles.blocks[0], config=config),
    choose_product,
)
