"""What a loop that ends at a mask leaves out: an iteration that changes nothing."""

from __future__ import annotations

import random
import re
from typing import Any

from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferLoad, BufferStore, Cast, For, ForKind, IterVar, Select, Var
from tvm_ffi import structural_map

from tirstep.transforms.fusion.factors import UnknownOperationError, evaluate
from tirstep.transforms.masked_loops import ENDS_AT_MASK, Masks, read_masks
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import find_all, get_loops_around, is_among, is_choice, is_used
from tirstep.tvm_compat import get_op_name

_INSTRUCTIONS = re.compile(r".*\.(mma|ldmatrix|wgmma_\w+_[rs]s)")
DRAWS = 8
"""Drawn numbers on which an iteration is tried."""


def find_end_fault(body: Any, loop: For, around: list[For]) -> Fault | None:
    """Why a loop of a function's body could not end at its masks."""
    name = loop.loop_var.name
    masks = read_masks(loop, around)
    if loop.kind != ForKind.SERIAL or masks.iterations is None:
        return Fault(
            f"no condition under loop '{name}' hides everything after some iteration",
            "leave the loop as it is, or choose the serial loop over what a mask hides",
        )
    # The blocks but those within an instruction, which stand for nothing alone.
    realizes = find_all(loop.body, SBlockRealize)
    whole = [it.block.body for it in realizes if it.block.match_buffers]
    inside = [part for it in whole for part in find_all(it, SBlockRealize)]
    blocks = [realize for realize in realizes if not is_among(realize, inside)]
    # The intermediate buffers that nobody reads but these.
    others = [it for it in find_all(body, SBlockRealize) if not is_among(it, blocks)]
    read = [region.source for it in others for region in it.block.reads]
    allocated = [buffer for it in find_all(body, SBlock) for buffer in it.alloc_buffers]
    private = [buffer for buffer in allocated if not is_among(buffer, read)]
    for block in (it.block for it in blocks if it.block.init is not None):
        if not isinstance(block.init, BufferStore):
            return Fault(
                f"block '{block.name_hint}' under loop '{name}' initializes its result in a "
                "separate block, and it is not known whether that changes anything where all "
                "is hidden",
                "do this before the reduction is decomposed, or leave the loop as it is",
            )
    for seed in range(DRAWS):
        try:
            changed = _try_iteration(blocks, masks, loop.loop_var, random.Random(seed), private)
        except UnknownOperationError as error:
            return Fault(
                f"loop '{name}' computes {error}, and it is not known whether that changes "
                "anything where all is hidden",
                "leave the loop as it is",
            )
        if changed:
            return Fault(
                f"an iteration of loop '{name}' in which all is hidden changes '{changed}'",
                "mask that as well, or leave the loop as it is",
            )
    return None


def find_broken_ends(module: IRModule) -> list[Fault]:
    """The loops that are to end at a mask, and could not any more."""
    faults = []
    for _, function in module.functions_items():
        loops = find_all(function.body, For)
        for loop in loops:
            if ENDS_AT_MASK not in loop.annotations:
                continue
            fault = find_end_fault(function.body, loop, get_loops_around(loop, loops))
            faults += [] if fault is None else [fault]
    return faults


def find_stores(block: SBlock) -> list[BufferStore]:
    """What a block stores; of an instruction of tensor cores one element, at the first place."""
    own = {match.buffer: match.source.source for match in block.match_buffers}
    stores = [
        BufferStore(own[store.buffer], store.value, [0] * len(own[store.buffer].shape))
        if store.buffer in own
        else store
        for store in find_all(block.body, BufferStore)
    ]
    names = [get_op_name(call) for call in find_all(block.body, Call)] if own else []
    if not any(map(_INSTRUCTIONS.fullmatch, names)):
        return stores
    target = block.writes[0].source
    operands = [
        Cast(target.dtype, BufferLoad(region.source, [0] * len(region.source.shape)))
        for region in block.reads
    ]
    value = operands[-1]
    if len(operands) > 1:
        value = operands[-2] * value
    if len(operands) > 2:
        value = operands[0] + value
    return [BufferStore(target, value, [0] * len(target.shape))]


def _try_iteration(
    blocks: list[SBlockRealize], masks: Masks, variable: Var, chance: random.Random, private: Any
) -> str:
    """The name of a buffer that goes on with another value after one iteration with all masks
    closed, on one number for each buffer; "" for none. `private` are those that nobody reads behind
    the loop.
    """
    buffers: dict[Any, float] = {}
    carried: dict[Any, float] = {}  # of those whose value of before is used
    written: list[Any] = []

    def read(buffer: Any) -> float:
        return buffers.setdefault(buffer, chance.uniform(-2.0, 2.0))

    def load(load: TensorLoad, _: object) -> float:
        value = read(load.source)
        if not is_among(load.source, written):
            carried.setdefault(load.source, value)
        return value

    def close(node: Any) -> Any:
        return node.args[2] if is_choice(node) and is_among(node.args[0], masks.hiding) else node

    def close_select(node: Any) -> Any:
        return node.false_value if is_among(node.condition, masks.hiding) else node

    for realize in blocks:
        block = realize.block
        items = [*zip(block.iter_vars, realize.iter_values, strict=True)]
        # Not the first iteration, and the first one of all other loops.
        values = {it.var.__chandle__(): float(is_used(variable, value)) for it, value in items}
        goes_on = any(
            it.iter_type == IterVar.CommReduce and is_used(variable, value) for it, value in items
        )
        begins = [block.init] if block.init is not None and not goes_on else []
        for store in (*begins, *find_stores(block)):
            if not is_among(store.buffer, private) and store.buffer not in written:
                carried.setdefault(store.buffer, read(store.buffer))
            # What is there in the place of what masks hide.
            shown = structural_map(store.value, [(Call, close), (Select, close_select)])
            buffers[store.buffer] = float(evaluate(shown, values, load))
            written.append(store.buffer)
    for buffer, before in carried.items():
        if not abs(buffers[buffer] - before) <= 1e-9 * abs(before):
            return str(buffer.name)
    return ""
