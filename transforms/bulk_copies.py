"""Tiles copied by the Tensor Memory Accelerator (TMA), into stages that mbarriers guard.

A transform only annotates it: the module means what it did, and any pipeline lowers
it to that. `transforms.passes.tma` makes the tensor maps, the mbarriers and the pipeline of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore, For

from .annotations import ALIGNMENT, SWIZZLE
from .gpu_limits import (
    MAX_SHARED_BYTES,
    MAX_THREADS,
    REGISTERS,
    THREADS,
    WARP,
    count_registers,
)
from .intrinsics.mma import SCOPE
from .loops import require_constant
from .pass_options import set_pipeline
from .pipelining import require_copies, require_pipeline
from .queries import (
    get_enclosing_kernel,
    get_enclosing_loops,
    get_loop_name,
    get_own_loops,
    get_realize,
    get_sblock_name,
)
from .schedule import Int64, TransformError, transform
from .tir import bind_ranges, constant, find_all, get_axis, substitute
from .tma_tiles import (
    ATOM,
    TMA_BLOCKS,
    TMA_COPY,
    TMA_IN_FLIGHT,
    TMA_ROLES,
    TMA_STAGES,
    CopyShape,
    measure_copy,
)

MIN_ARCH = 90
"""The compute capability, times ten, that brought the TMA."""


@transform
def prefetch_by_tma(
    sch: Schedule,
    loop: LoopRV,
    copies: Sequence[SBlockRV],
    *,
    stages: int = 3,
    in_flight: int = 0,
    arch: str | None = None,
) -> None:
    """Let the TMA copy the next tiles, into stages that an mbarrier each guards.

    One thread issues the copies of `stages - 1` tiles before the loop, and of one more in each
    iteration, as soon as all threads are done with the stage that it goes to. All threads wait for
    the mbarrier of their stage, whose parity changes with each round through the stages. Elements
    outside of the tensor arrive as zeros. Where `in_flight` groups of wgmma may still read the
    tiles of the iterations before, as many stages are left to them, and as many tiles fewer are
    copied ahead.

    rewrite: ``for k: A_shared = A[k]; compute(k)`` -> ``for k: wait for mbarrier[k % stages];
        barrier; cp.async.bulk.tensor A[k + stages - 1]; compute(k)``, when the module is lowered
        by the pipeline "tirstep"
    consumes: nothing
    requires: a loop as for `prefetch_asynchronously`, within a kernel whose threads are whole
        warps; `copies` of a rectangle each, by whatever loops and threads, as `stage_fragments_at`,
        `stage_operand_at` and, of rows as they lie, `stage_swizzled_at` make them, without
        predicates; stages from 2 + `in_flight` to the iterations of the loop, in the shared memory
        there is; a tensor that the TMA can address: a pitch of a multiple of 16 bytes, a tile of at
        most 256 elements along each dimension, rows of the length of the swizzle; compute
        capability 9.0, where `arch` is given
    """
    require_tma(arch, "use prefetch_asynchronously")
    parts = require_pipeline(sch, loop)
    require_copies(sch, loop, copies, parts, takes_more=True)
    if constant(sch.get(loop).min) != 0:
        raise TransformError(f"loop '{get_loop_name(sch, loop)}' does not begin at 0", "let it")
    extent = require_constant(sch, loop)
    if in_flight < 0:
        raise TransformError(f"in_flight={in_flight} is no number of groups", "use 0 or more")
    least = 2 + in_flight
    if not least <= stages <= extent:
        raise TransformError(
            f"stages={stages} does not fit loop '{get_loop_name(sch, loop)}' of {extent} "
            f"iterations{f' with {in_flight} groups in flight' if in_flight else ''}",
            f"use {least} to {extent}" if extent > least else f"use {least}",
        )
    shapes = [_measure_copy(sch, copy) for copy in copies]
    used, most = 0, MAX_SHARED_BYTES[SCOPE] - ATOM  # which the mbarriers take
    for copy, shape in zip(copies, shapes, strict=True):
        size = sch.get(copy).writes[0].source.dtype.itemsize
        used += stages * shape.panels * math.prod(shape.box) * size
    if used > most:
        raise TransformError(
            f"{stages} stages of these tiles take {used >> 10} KiB of shared memory, and a block "
            f"has {most >> 10} KiB at most",
            "use fewer stages, or smaller tiles",
        )
    # One lane of a warp is elected, which takes a whole warp.
    threads = math.prod(get_thread_extents(sch, loop))
    if threads % WARP:
        raise TransformError(
            f"the kernel around loop '{get_loop_name(sch, loop)}' has {threads} threads",
            f"use a multiple of {WARP}, of which the first warp issues copies",
        )
    for copy, shape in zip(copies, shapes, strict=True):
        sch.annotate(copy, TMA_COPY, shape.to_list())
    sch.annotate(loop, TMA_STAGES, stages)
    if in_flight:
        sch.annotate(loop, TMA_IN_FLIGHT, in_flight)
    set_pipeline(sch)


@transform
def specialize_warps(
    sch: Schedule, loop: LoopRV, *, registers: Sequence[int] | None = None, blocks: Int64 = 1
) -> None:
    """Give warps roles in a pipeline of `prefetch_by_tma`: one issues copies, the others compute.

    The thread block grows by one warp, or by one row along threadIdx.x where that is longer. It
    waits for a stage to be empty, which an mbarrier says that each computing warp arrives at, and
    fills it; no barrier of all threads is left in the loop. With `registers`, of a thread that
    copies and of one that computes, the block grows by a warpgroup of four warps instead, and
    registers move from it to the others (setmaxnreg), and back behind the loop. The compiler leaves
    registers to so many `blocks` of a multiprocessor: one may begin and end while others compute.

    rewrite: ``for k: wait for mbarrier[k % stages]; barrier; copy A[k + stages - 1]; compute`` ->
        ``if computing: for k: wait for full[k % stages]; compute; arrive at empty[k % stages]
        else: for k: wait for empty[k % stages]; copy A[k]``, when the module is lowered
    consumes: nothing
    requires: a loop that `prefetch_by_tma` annotated, with nothing but thread-bound loops around
        it; threadIdx.x of a divisor or a multiple of 32, or no other thread axis; 1024 threads at
        most with those that are added; of `registers` multiples of 8 from 24 to 256, that share out
        those that all threads begin with, and whole warpgroups that compute; no more `blocks` than
        the 2048 threads of a multiprocessor are
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_STAGES not in node.annotations or TMA_ROLES in node.annotations:
        raise TransformError(
            f"loop '{name}' is no pipeline of bulk copies without roles",
            "call prefetch_by_tma first, and this once",
        )
    serial = [each for each in get_enclosing_loops(sch, loop) if get_axis(each) is None]
    if serial:
        raise TransformError(
            f"loop '{serial[-1].loop_var.name}' around loop '{name}' is not bound",
            "give roles to warps where the loop over tiles is the kernel's outermost one",
        )
    extents = get_thread_extents(sch, loop)
    threads, row = math.prod(extents), math.prod(extents[:-1])
    added = (WARP if WARP % row == 0 else row) if registers is None else 4 * WARP
    if added % row or added % WARP or threads + added > MAX_THREADS:
        raise TransformError(
            f"the kernel has {threads} threads, of {extents} along x, y and z, and {added} more do "
            "not go along the last axis",
            f"bind threadIdx.x to {WARP} or 4 times that, and use {MAX_THREADS - added} threads at "
            "most",
        )
    most = THREADS // (threads + added)
    if not 1 <= blocks <= most:
        raise TransformError(
            f"blocks={blocks} of {threads + added} threads are none that fit on a multiprocessor "
            f"of {THREADS}",
            f"use 1 to {most}" if most > 1 else "use 1",
        )
    counts = list(registers or (0, 0))
    if registers is not None:
        require_registers(counts, threads, blocks)
    sch.annotate(loop, TMA_ROLES, [added, *counts])
    if blocks > 1:
        sch.annotate(loop, TMA_BLOCKS, blocks)


def require_registers(counts: list[int], threads: int, blocks: int) -> None:
    """Refuse registers that do not move from a warpgroup that copies to threads that compute."""
    if len(counts) != 2 or any(count % 8 or not 24 <= count <= 256 for count in counts):
        raise TransformError(
            f"registers={counts} are none that setmaxnreg sets",
            "give two multiples of 8 from 24 to 256: of a thread that copies, and that computes",
        )
    used, total = 4 * WARP * counts[0] + threads * counts[1], threads + 4 * WARP
    of_block = f" of {blocks} blocks" if blocks > 1 else ""
    if threads % (4 * WARP) or used * blocks > REGISTERS:
        raise TransformError(
            f"{threads} threads with {counts[1]} registers and {4 * WARP} with {counts[0]} are no "
            f"whole warpgroups{of_block} in the {REGISTERS} registers of a multiprocessor",
            "let a multiple of 128 threads compute, with fewer registers",
        )
    first = count_registers(total * blocks)
    if not counts[0] <= first <= counts[1] or used > total * first:
        raise TransformError(
            f"{total} threads{of_block} begin with {first} registers each, and registers={counts} "
            f"are no share of these {total * first}, fewer and more",
            "give those that copy at most as many, and those that compute what that leaves",
        )


def get_thread_extents(sch: Schedule, loop: LoopRV) -> list[int]:
    """The extents of the kernel's thread axes, x first; without those that it does not have."""
    bound = find_all(get_enclosing_kernel(sch, loop), For)
    extents = {get_axis(each): constant(each.extent) or 1 for each in bound}
    return [extents[f"threadIdx.{axis}"] for axis in "xyz" if f"threadIdx.{axis}" in extents]


def require_tma(arch: str | None, advice: str) -> None:
    """Refuse an architecture without the TMA, where one is given."""
    if arch is None:
        return
    digits = "".join(letter for letter in arch.removeprefix("sm_") if letter.isdigit())
    if not arch.startswith("sm_") or not digits:
        raise TransformError(f"arch={arch!r} is no architecture", 'give one, as "sm_90a"')
    if int(digits) < MIN_ARCH:
        raise TransformError(f"{arch} has no TMA, which came with sm_{MIN_ARCH}", advice)


def _measure_copy(sch: Schedule, copy: SBlockRV) -> CopyShape:
    """What a copy brings, all threads and iterations together."""
    block, realize, name = sch.get(copy), get_realize(sch, copy), get_sblock_name(sch, copy)
    if constant(realize.predicate) != 1:
        raise TransformError(
            f"block '{name}' copies a part of its tile only, under a predicate",
            "choose threads and vectors that divide the tile",
        )
    if not isinstance(block.body, BufferStore):
        raise TransformError(f"block '{name}' is more than one store", "place a plain copy")
    if ALIGNMENT in block.annotations:
        raise TransformError(
            f"block '{name}' writes rows with padding in between, and the TMA writes them one "
            "behind the other",
            "leave the rows without padding, and exchange their chunks where banks conflict",
        )
    own = [sch.get(loop) for loop in get_own_loops(sch, copy)]
    analyzer = bind_ranges(own)
    first = {loop.loop_var: loop.min for loop in own}
    extents = {}
    for iterator, value in zip(block.iter_vars, realize.iter_values, strict=True):
        within = analyzer.simplify(value - substitute(value, first))
        extents[iterator.var] = int(analyzer.const_int_bound(within).max_value) + 1
    shape = measure_copy(block, extents, is_swizzled=SWIZZLE in block.annotations, name=name)
    if math.prod(constant(loop.extent) or 0 for loop in own) != shape.panels * math.prod(shape.box):
        raise TransformError(
            f"block '{name}' does not copy each element of its tile once",
            "place a plain copy, or one that stage_fragments_at makes",
        )
    return shape
