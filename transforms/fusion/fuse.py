"""The transform that fuses two dependent reductions by rolling updates.

The idea of breaking the dependence of reductions and repairing partial results is that of the
Neptune compiler (2026); the online softmax (M. Milakov and N. Gimelshein, 2018) and FlashAttention
(T. Dao and others, 2022) are what comes out of it for their kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import For, SeqStmt, Var

from ..decorators import composite
from ..errors import TransformError
from ..legality.net import inlines
from ..queries import get_loop_name
from ..rewriting import edit_scope, get_function, get_scope, replace_scope, with_body
from ..tir import constant, find_all, is_among, substitute
from .accumulators import add_consumer
from .build import Fusion, add_definitions, add_producer
from .factors import NoRepairError, Running
from .nests import join_statements, simplify_indices
from .reductions import is_reduced, replace_loads, uses_any
from .repair import Pair, Repair, find_repair
from .sides import (
    Consumer,
    Producer,
    match_iterators,
    read_consumer,
    read_producer,
    require_movable,
)


class FusedReductions(NamedTuple):
    """The blocks that a fusion adds under the loop, or moves there.

    Attributes
    ----------
    tiles : those that reduce the terms of one iteration by themselves
    elements : those that compute what the consumer reads, element by element
    """

    tiles: list[SBlockRV]
    elements: list[SBlockRV]


@composite
@inlines
def fuse_reductions(
    sch: Schedule,
    producer: SBlockRV,
    consumer: SBlockRV,
    loop: LoopRV,
    *,
    accumulate: Literal["in place", "apart"] = "in place",
) -> FusedReductions:
    """Compute a reduction in the loop of another one whose result it uses, by rolling updates.

    The consumer takes the value that the producer has found so far. Where that moves, what has been
    taken up is repaired first, by a factor (or, of a maximum, a summand) that is derived from the
    consumer's term and tried on drawn numbers before it is used; `docs/fusion.md` says how. Of
    polynomials, such as squared differences, the sums of derivatives are kept beside it. At a
    loop over tiles, the producer reduces a tile to a block of its own, and the consumer is repaired
    once a tile. Its repair is its initialization: `decompose_reduction_at` makes a block of it.

    Other consumers of the same producer are fused at the same loop by further calls, before other
    steps. Blocks between the two come along: those that nobody else reads move under the loop, of
    the others a copy does, for all consumers the same. Blocks before them, such as the products
    that the scores of attention are, follow by `compute_block_at`.

    The trace does not replay what this makes, and says so: no primitive of TVM does.

    rewrite: ``for k: m = max(m, x[k])`` and ``for k: s += exp(x[k] - m)`` -> ``for k: m_previous =
        m; m = max(m, x[k]); s = s * exp(m_previous - m) + exp(x[k] - m)``; at k_0 of k_0, k_1:
        ``for k_0: (for k_1: m_tile[k_0] = max(m_tile[k_0], x[k])); m_previous = m; m = max(m,
        m_tile[k_0]); (for k_1: (if k_1 == 0: s = 0 if k_0 == 0 else s * exp(m_previous - m));
        s += exp(x[k] - m))``, or, with ``accumulate="apart"``, ``(for k_1: s_tile[k_0] +=
        exp(x[k] - m)); s = s * exp(m_previous - m) + s_tile[k_0]``, whose tile's sum may be one
        over threads
    consumes: the loops of `consumer`, those of `producer` under `loop`, and blocks between them
        that a copy of an earlier fusion stands for
    returns: the blocks of tiles that it made, and those of what is computed element by element
    requires: a `producer` that reduces by a sum, product, maximum or minimum; `loop`, one of its
        reduction loops, serial, under which it stands alone, split and reordered before as the
        fused kernel is to be, its rows bound or not; a `consumer` in loops as they were written,
        that reduces over the same elements, by a sum, maximum or minimum, for the same rows; a
        repair for its term; all else that it reads computed before `producer`; no block between
        the two that uses the consumer's result, or changes the producer's
    """
    running = read_producer(sch, producer, loop)
    user = read_consumer(sch, consumer, running, loop)
    require_movable(sch, user, running, loop)
    if accumulate == "apart" and not running.inner:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' has one term in each iteration, and no sum of its "
            "own",
            'split it first, or leave accumulate="in place"',
        )
    scope = get_scope(sch, loop).stmt
    fusion = _plan(scope, running, user)
    statements = list(running.statements)
    if running.previous is None:
        add_producer(fusion)
        statements[running.place : running.place + 1] = fusion.nests
        fusion.nests = []
    term = add_definitions(fusion, statements)
    add_consumer(fusion, term, is_apart=accumulate == "apart")
    body = _rebuild(scope.body, sch.get(loop), [*statements, *fusion.nests], fusion.moved)
    new = edit_scope(scope, body, fusion.buffers)
    replace_scope(sch, loop, new, fusion.reuse, who="fuse_reductions")
    function = get_function(sch, loop)
    made = (fusion.parts, fusion.placed)
    return FusedReductions(*([sch.get_sblock(it, function) for it in names] for names in made))


def _plan(scope: SBlock, producer: Producer, consumer: Consumer) -> Fusion:
    """The fusion of two sides, whose repair has been tried."""
    matched = match_iterators(producer, consumer)
    return Fusion(
        producer,
        consumer,
        *_find_repair(producer, consumer, matched),
        matched,
        {str(block.name_hint) for block in find_all(scope, SBlock)},
        find_kept(scope, [consumer]),
        producer.previous,
    )


def _find_repair(
    producer: Producer, consumer: Consumer, matched: dict[Any, Any]
) -> tuple[Repair, Var]:
    """The repair of the consumer, and what stands for the running value in its term."""
    pair = make_pair(producer, consumer, matched)
    try:
        return find_repair(pair), pair.running.value
    except NoRepairError as error:
        raise refuse_repair(pair, error, "leave them two passes") from error


def make_pair(producer: Producer, consumer: Consumer, matched: dict[Any, Any]) -> Pair:
    """Both sides in the same iterators, `matched` being the consumer's in the producer's."""
    buffer, own = producer.buffer, consumer.reduction.block.iter_vars
    rows = {theirs: mine for mine, theirs in matched.items() if is_among(theirs, producer.rows)}
    terms = {mine: theirs for mine, theirs in matched.items() if not is_among(mine, rows.values())}
    running = Var(str(buffer.name), buffer.dtype)
    others = [item.var for item in producer.reduction.block.iter_vars if item.var not in rows]
    varying = [*others, *(item.var for item in own if is_reduced(item))]
    found = substitute(producer.reduction.term, rows)
    return Pair(
        producer.reduction._replace(term=simplify_indices(found, Analyzer())),
        consumer.reduction,
        replace_loads(consumer.term, buffer, running),
        Running(
            running,
            lambda expression: uses_any(expression, varying),
            *(Var(name, buffer.dtype) for name in ("old", "new")),
        ),
        (*others, *(item.var for item in own)),
        terms,
        not consumer.definitions and _is_static(producer, consumer),
    )


def refuse_repair(pair: Pair, error: NoRepairError, advice: str) -> TransformError:
    """The refusal of two reductions without a repair, which names the part that has none."""
    return TransformError(
        f"what block '{pair.consumer.name}' has taken up cannot follow '{pair.running.value.name}' "
        f"of block '{pair.producer.name}': its term's part {error.part} {error.reason}",
        f"{advice}, or write the term so that the rest is done to the result",
    )


def _is_static(producer: Producer, consumer: Consumer) -> bool:
    """Whether it is known how many terms there are, and how many in each iteration."""
    reduced = [item.dom.extent for item in consumer.reduction.iterators(reduced=True)]
    inner = [loop.extent for loop in producer.inner]
    return all(constant(extent) is not None for extent in (*reduced, *inner))


def find_kept(scope: SBlock, consumers: Sequence[Consumer]) -> list[SBlock]:
    """The definitions that others than the consumers read, too."""
    blocks = find_all(scope.body, SBlock)
    definitions = {it.block: it for consumer in consumers for it in consumer.definitions}
    leaving, kept = [consumer.reduction.block for consumer in consumers], []
    for block in reversed(blocks):  # readers first
        if block not in definitions:
            continue
        buffer = definitions[block].buffer
        readers = [
            each for each in blocks if any(region.source.same_as(buffer) for region in each.reads)
        ]
        is_own = is_among(buffer, scope.alloc_buffers)
        if is_own and all(is_among(reader, leaving) for reader in readers):
            leaving.append(block)
        else:
            kept.append(block)
    return kept


def _rebuild(node: Any, loop: For, statements: list[Any], moved: list[SBlock]) -> Any:
    """A scope's body with other statements in a loop, and without some blocks; None for nothing."""
    if node.same_as(loop):
        return with_body(node, join_statements(statements))
    if isinstance(node, SBlockRealize):
        return None if is_among(node.block, moved) else node
    if isinstance(node, For):
        body = _rebuild(node.body, loop, statements, moved)
        if body is None or body.same_as(node.body):
            return None if body is None else node
        return with_body(node, body)
    if isinstance(node, SeqStmt):
        parts = [_rebuild(each, loop, statements, moved) for each in node.seq]
        left = [part for part in parts if part is not None]
        return join_statements(left) if left else None
    return node
