"""Inlining: blocks that become expressions of others, before a block and behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm.error import InternalError
from tvm.s_tir import SBlock, Schedule, ScheduleError
from tvm.s_tir.schedule import SBlockRV

from .queries import get_root, get_sblock_name, is_reduction
from .schedule import TransformError, inlines, transform
from .tir import find_all, is_among


@transform
@inlines
def inline_producers(sch: Schedule, block: SBlockRV) -> None:
    """Inline the blocks that a block reads from, e.g. a padding stage into a shared-memory fetch.

    Producers that reduce are not inlined if there are others that do not: an epilogue that reads a
    matmul and a scale, for example, inlines only the scale.

    rewrite: ``P[i] = f(A[i])`` and ``C[i] = g(P[i])`` -> ``C[i] = g(f(A[i]))``
    consumes: the producers that do not reduce
    requires: at least one producer that does not reduce; producers that are not copies of a
        pipeline, and have no other consumer than `block`; a block that reads only the kernel's
        arguments is left as it is
    guarded: what is read is written by then, and a reduction over threads keeps its guard
    """
    producers = _list_once(sch, sch.get_producers(block))
    inlined = [producer for producer in producers if not is_reduction(sch, producer)]
    if producers and not inlined:
        raise TransformError(
            f"block '{get_sblock_name(sch, producers[0])}' reduces, and a reduction cannot stand "
            "inside of an expression",
            "leave it a stage of its own, or place it with compute_block_at",
        )
    for producer in inlined:
        name = get_sblock_name(sch, producer)
        consumers = _list_once(sch, sch.get_consumers(producer))
        readers = [f"'{get_sblock_name(sch, reader)}'" for reader in consumers]
        if len(readers) > 1:
            raise TransformError(
                f"block '{name}' has {len(readers)} consumers, {', '.join(readers)}",
                "leave it a stage of its own, or inline it into all with sch.compute_inline",
            )
    for producer in inlined:
        sch.compute_inline(producer)


@transform
@inlines
def inline_epilogue(sch: Schedule, block: SBlockRV) -> SBlockRV | None:
    """Inline all that follows a block's result into one block: scale, bias, activation, cast.

    Other blocks that they read are inlined, too, unless these reduce or have other readers. The
    remaining block is the one that `find_epilogue` finds, and that `accumulate_in_registers` lets
    finish the results. Nothing changes if no block follows, or if several blocks or one that
    reduces would remain: these stay kernels of their own.

    rewrite: ``C[i] += ...; S[i] = C[i] * a; H[i] = b[i] / 2; D[i] = S[i] + H[i]`` ->
        ``C[i] += ...; D[i] = C[i] * a + b[i] / 2``
    consumes: the blocks that are inlined
    returns: the block that finishes the results, or None if nothing changes
    requires: a block that is the only one to write its results
    guarded: what is read is written by then
    """
    # Where a block adds to what another one has begun, the epilogue would come between.
    node = sch.get(block)
    outputs = [region.source for region in node.writes]
    for other in find_all(get_root(sch, block), SBlock):
        if other.same_as(node) or other.name_hint == "root":
            continue
        shared = [part.source for part in other.writes if is_among(part.source, outputs)]
        if shared:
            raise TransformError(
                f"blocks '{get_sblock_name(sch, block)}' and '{other.name_hint}' both write "
                f"'{shared[0].name}'",
                "inline the epilogue before the reduction is decomposed",
            )
    trial = sch.copy()
    if _inline_followers(trial, block) is None:
        return None
    epilogue = _inline_followers(sch, block)
    if epilogue is not None:
        inline_chain(sch, epilogue, kept=[block])
    return epilogue


def inline_chain(sch: Schedule, block: SBlockRV, *, kept: list[SBlockRV]) -> None:
    """Inline all that a block reads through other blocks, as far as they do not reduce.

    Those of `kept`, and those that TVM cannot inline or that others read, stay as they are.
    """
    changed = True
    while changed:
        changed = False
        nodes = [sch.get(each) for each in kept]
        for producer in _list_once(sch, sch.get_producers(block)):
            is_kept = is_reduction(sch, producer) or is_among(sch.get(producer), nodes)
            is_alone = len(_list_once(sch, sch.get_consumers(producer))) == 1
            if not is_kept and is_alone and try_inlining(sch, producer, [block, *kept]):
                changed = True


def try_inlining(sch: Schedule, block: SBlockRV, others: Sequence[SBlockRV] = ()) -> bool:
    """Inline a block into all that read it, if TVM can; whether it did.

    TVM may lose handles of blocks beside it; where it loses one of the `others`, it does not.
    """
    trial = sch.copy()
    try:
        trial.compute_inline(block)
        for other in others:
            trial.get(other)
    except (ScheduleError, InternalError, ValueError):
        return False
    sch.compute_inline(block)
    return True


def _inline_followers(sch: Schedule, block: SBlockRV) -> SBlockRV | None:
    """Inline the consumers of a block into each other; the last one, if it is the only one."""
    # All that its result goes through before something reduces it, nearest first.
    found, reached = list[SBlockRV](), list(sch.get_consumers(block))
    for follower in reached:
        nodes = [sch.get(each) for each in found]
        if not is_reduction(sch, follower) and not is_among(sch.get(follower), nodes):
            found.append(follower)
            reached += sch.get_consumers(follower)
    while found:
        follower = found.pop(0)
        if sch.get_consumers(follower):
            try_inlining(sch, follower, [block, *found])
    consumers = _list_once(sch, sch.get_consumers(block))
    if len(consumers) != 1 or is_reduction(sch, consumers[0]):
        return None
    return consumers[0]


def _list_once(sch: Schedule, blocks: Iterable[SBlockRV]) -> list[SBlockRV]:
    """Each block once: TVM names one that reads two results of another twice."""
    found: list[SBlockRV] = []
    for block in blocks:
        if not is_among(sch.get(block), [sch.get(each) for each in found]):
            found.append(block)
    return found
