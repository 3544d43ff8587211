"""Indices that leave a dimension of their buffer, and not its memory: TVM takes ``A[i, n]`` of n
columns for ``A[i + 1, 0]``, so that no device sees them. What is found is so: iterations are tried.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import Call, IRModule
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import (
    AssertStmt,
    AttrStmt,
    Bind,
    Break,
    BufferStore,
    Continue,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    PrimFunc,
    ScopeIdDefStmt,
    SeqStmt,
)

from tirstep.files import show_path
from tirstep.transforms.tir import THREAD_EXTENT, find_all, find_location, substitute
from tirstep.tvm_compat import get_op_name

from ..steps import Finding
from .accesses import list_outside

BLOCK_IDS, THREAD_IDS = 1, 7
"""TIRx's numbers of ``cta_id`` and ``thread_id``, which are independent of one another."""


def check_bounds(module: IRModule, *, where: str = "") -> list[Finding]:
    """A finding of the check ``"bounds"`` for each statement and buffer with such an index."""
    found: dict[str, None] = {}
    for access, dimension in list_outside(_give_blocks(module), first=1):
        buffer, block = access.buffer, access.place.block
        verb = "store to" if access.element.is_written else "load of"
        within = f" in block '{block.name_hint}'" * bool(block.name_hint)
        places = map(find_location, (block, *find_all(block.body, BufferStore)))
        place = next((f" [{show_path(it[0])}:{it[1]}]" for it in places if it is not None), "")
        found[
            f"out of bounds: {verb} '{buffer.name}'{within} outside of its "
            f"{buffer.shape[dimension]} elements along dimension {dimension}, where TVM takes an "
            f"element of another row; guard it with a condition{place}"
        ] = None
    return [Finding("bounds", where, message) for message in found]


def _give_blocks(module: IRModule) -> IRModule:
    """The module with each store that stands in no block in one of its own, under its loops and
    guards. Functions that have blocks stay as they are, and those in which a statement may end an
    iteration or a thread.
    """

    def give(node: Any) -> Any:
        match node:
            case For():
                bounds, body = (node.loop_var, node.min, node.extent), give(node.body)
                return For(*bounds, node.kind, body, node.thread_binding)
            case AttrStmt():
                body, axis = give(node.body), node.node
                if node.attr_key != THREAD_EXTENT:
                    return body
                return For(axis.var, 0, node.value, ForKind.THREAD_BINDING, body, axis)
            case IfThenElse():
                cases = [it and give(it) for it in (node.then_case, node.else_case)]
                return IfThenElse(node.condition, *cases)
            case BufferStore():
                return SBlockRealize([], True, SBlock([], [], [], "", node))
            case SeqStmt():
                known, parts, ids = dict[Any, Any](), list[Any](), dict[int, Any]()
                for each in node.seq:
                    if isinstance(each, Bind):
                        known[each.var] = substitute(each.value, known)
                    elif isinstance(each, ScopeIdDefStmt):
                        made = getattr(each, "def")
                        ids[made.scope] = made
                    else:
                        parts.append(give(substitute(each, known) if known else each))
                parts = [it for it in parts if not isinstance(it, Evaluate)] or [Evaluate(0)]
                body = SeqStmt(parts) if len(parts) > 1 else parts[0]
                if ids.keys() <= {BLOCK_IDS, THREAD_IDS}:
                    for made in ids.values():
                        for variable, extent in zip(made.def_ids, made.extents, strict=True):
                            body = For(variable, 0, extent, ForKind.SERIAL, body)
                return body
        return Evaluate(0)

    functions = dict(module.functions_items())
    for variable, function in functions.items():
        if not isinstance(function, PrimFunc) or find_all(function.body, SBlock):
            continue
        leaves = any("return" in (get_op_name(it) or "") for it in find_all(function.body, Call))
        leaves |= any(find_all(function.body, it) for it in (AssertStmt, Break, Continue))
        if not leaves:
            functions[variable] = function.with_body(give(function.body))
    return IRModule(functions)
