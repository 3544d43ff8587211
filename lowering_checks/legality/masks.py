"""What a loop that ends at a mask leaves out: an iteration that changes nothing."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferLoad, BufferStore, Cast, For, ForKind, IterVar, Select, Var
from tvm_ffi import structural_map

from tirstep.transforms.fusion.factors import UnknownOperationError, evaluate
from tirstep.transforms.masked_loops import ENDS_AT_MASK, Masks, read_masks
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import find_all, is_among, is_choice, is_used
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
            f"no condition under loop '{name}' hides all that comes behind some iteration",
            "leave the loop as it is, or choose the serial loop over what a mask hides",
        )
    blocks = _find_whole(loop.body)
    private = _find_private(body, blocks)
    for block in (it.block for it in blocks if it.block.init is not None):
        if not isinstance(block.init, BufferStore):
            return Fault(
                f"block '{block.name_hint}' under loop '{name}' initializes its result in a block "
                "of its own, of which is not known whether it changes anything where all is hidden",
                "do this before that block is made of others, or leave the loop as it is",
            )
    for seed in range(DRAWS):
        trial = _Trial(masks, loop.loop_var, random.Random(seed), private)
        try:
            changed = trial.find_changed(blocks)
        except UnknownOperationError as error:
            return Fault(
                f"loop '{name}' computes {error}, of which is not known whether it changes "
                "anything where all is hidden",
                "leave the loop as it is",
            )
        if changed:
            return Fault(
                f"an iteration of loop '{name}' in which all is hidden changes '{changed}'",
                "hide what counts for something as well, or leave the loop as it is",
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
            around = [each for each in loops if is_among(loop, find_all(each.body, For))]
            fault = find_end_fault(function.body, loop, around)
            faults += [] if fault is None else [fault]
    return faults


def _find_whole(body: Any) -> list[SBlockRealize]:
    """The blocks of a body but those within an instruction, which stand for nothing alone."""
    blocks = find_all(body, SBlockRealize)
    inside = [
        part
        for realize in blocks
        if realize.block.match_buffers
        for part in find_all(realize.block.body, SBlockRealize)
    ]
    return [realize for realize in blocks if not is_among(realize, inside)]


def _find_private(body: Any, blocks: list[SBlockRealize]) -> list[Any]:
    """The intermediate buffers that nobody reads but some blocks."""
    allocated = [buffer for block in find_all(body, SBlock) for buffer in block.alloc_buffers]
    read = [
        region.source
        for realize in find_all(body, SBlockRealize)
        if not is_among(realize, blocks)
        for region in realize.block.reads
    ]
    return [buffer for buffer in allocated if not is_among(buffer, read)]


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


@dataclass
class _Trial:
    """One iteration with all masks closed, on one number for each buffer.

    Attributes
    ----------
    private : the buffers that nobody reads behind the loop
    carried : those of which an iteration uses the value of before, and that value
    """

    masks: Masks
    variable: Var
    chance: random.Random
    private: list[Any]
    buffers: dict[Any, float] = field(default_factory=dict)
    carried: dict[Any, float] = field(default_factory=dict)
    written: list[Any] = field(default_factory=list)

    def find_changed(self, blocks: list[SBlockRealize]) -> str:
        """The name of a buffer that goes on with another value; "" for none."""
        for realize in blocks:
            self._run(realize)
        for buffer, before in self.carried.items():
            if not abs(self.buffers[buffer] - before) <= 1e-9 * abs(before):
                return str(buffer.name)
        return ""

    def _run(self, realize: SBlockRealize) -> None:
        block = realize.block
        items = zip(block.iter_vars, realize.iter_values, strict=True)
        # Not the first iteration, and the first one of all other loops.
        values = {
            item.var.__chandle__(): float(is_used(self.variable, value)) for item, value in items
        }
        goes_on = any(
            item.iter_type == IterVar.CommReduce and is_used(self.variable, value)
            for item, value in zip(block.iter_vars, realize.iter_values, strict=True)
        )
        if block.init is not None and not goes_on:
            self._store(block.init, values)
        for store in find_stores(block):
            self._store(store, values)

    def _store(self, store: BufferStore, values: dict[int, float]) -> None:
        if not is_among(store.buffer, self.private) and store.buffer not in self.written:
            self.carried.setdefault(store.buffer, self._read(store.buffer))
        self.buffers[store.buffer] = float(evaluate(self._hide(store.value), values, self._load))
        self.written.append(store.buffer)

    def _load(self, load: TensorLoad, _: object) -> float:
        value = self._read(load.source)
        if not is_among(load.source, self.written):
            self.carried.setdefault(load.source, value)
        return value

    def _read(self, buffer: Any) -> float:
        return self.buffers.setdefault(buffer, self.chance.uniform(-2.0, 2.0))

    def _hide(self, expression: Any) -> Any:
        """The expression with what is there in the place of what masks hide."""

        hiding = self.masks.hiding

        def close(node: Any) -> Any:
            return node.args[2] if is_choice(node) and is_among(node.args[0], hiding) else node

        def close_select(node: Any) -> Any:
            return node.false_value if is_among(node.condition, hiding) else node

        return structural_map(expression, [(Call, close), (Select, close_select)])
