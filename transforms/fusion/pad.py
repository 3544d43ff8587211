"""Padding of dependent reductions: more elements, which count for nothing."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferLoad, BufferStore, IterVar, Mul, Var, const, if_then_else, stmt_seq
from tvm.tirx import all as all_of
from tvm.tirx.stmt import stmt_list

from ..layout import is_zero
from ..loops import require_constant
from ..queries import get_reduction_loops, get_sblock_name
from ..rewriting import edit_scope, get_function, get_scope, map_elements, replace_scope
from ..schedule import TransformError, inlines, transform
from ..tir import (
    constant,
    find_all,
    find_choices,
    get_elements,
    is_among,
    is_choice,
    is_used,
    list_allocated,
    substitute,
)
from .blocks import (
    Builder,
    Point,
    is_as_written,
    is_reduced,
    loads_of,
    read_chain,
    read_reduction,
)


@transform
@inlines
def pad_reductions(sch: Schedule, block: SBlockRV, *, multiple: int) -> list[SBlockRV]:
    """Pad the elements that a reduction, and those that depend on it, go over to a multiple.

    Tensors of the function keep their length, and are read through padded copies: zero is what lies
    beyond the end, and where a mask has nobody use an element. What is computed for each element is
    zero beyond the end, and a maximum passes over it; a mask that chooses that already takes the end
    up. Inlined, a copy becomes a guard of its loads.

    The trace does not replay what this makes, and says so: no primitive of TVM does.

    rewrite: ``for j in n: m = max(m, x[j])``, ``for j in n: p[j] = exp(x[j] - m)`` and
        ``for j in n: s += p[j] * v[j]`` -> with n rounded up ``for j: x_pad[j] = x[j] if j < n else
        0``, ``for j: m = max(m, x_pad[j] if j < n else least)``, ``for j: p[j] = exp(x_pad[j] - m)
        if j < n else 0``, ``for j: v_pad[j] = ...`` and ``for j: s += p[j] * v_pad[j]``
    consumes: the loops of all blocks that go over these elements
    returns: the padded copies; none where the elements are such a multiple already
    requires: a block that reduces over one iterator, of constant extent; all blocks over the same
        elements in loops as they were written, with the element as an index of its own; reductions
        by a sum, product, maximum or minimum; no tensor of the function's written along them
    """
    loops, name = get_reduction_loops(sch, block), get_sblock_name(sch, block)
    if len(loops) != 1 or multiple < 1:
        raise TransformError(
            f"block '{name}' has {len(loops)} reduction loops, and multiple={multiple}",
            "pad a block with one, before it is split, to a multiple of at least 1",
        )
    if require_constant(sch, loops[0]) % multiple == 0:
        return []
    padding = _Padding(get_scope(sch, block).stmt, sch.get(block), multiple)
    new = edit_scope(padding.scope, padding.rebuild(), padding.buffers)
    replace_scope(sch, block, new, padding.reuse, who="pad_reductions")
    function = get_function(sch, block)
    return [sch.get_sblock(it, function) for it in padding.copies]


class _Padding(Builder):
    """A padding under way, and what it makes.

    Attributes
    ----------
    over : of each block that goes over the elements, the iterator that does
    places : of each buffer that has them, the dimension
    count, size : of elements, before and padded
    made : the longer buffers, by those of before
    copies : names of blocks
    """

    def __init__(self, scope: SBlock, block: SBlock, multiple: int) -> None:
        super().__init__(scope)
        (item,) = (it for it in block.iter_vars if is_reduced(it))
        self.count = constant(item.dom.extent) or 0
        self.size = self.count + -self.count % multiple
        self.over: dict[SBlock, Var] = {block: item.var}
        self.places: dict[Any, int] = {}
        self.follow()
        self.made: dict[Any, Any] = {}
        for buffer, place in self.places.items():
            shape = list(buffer.shape)
            shape[place] = const(self.size, shape[place].ty.dtype)
            suffix = "" if self.is_own(buffer) else "_pad"
            self.made[buffer] = self.add_buffer(buffer, f"{buffer.name}{suffix}", shape)
        self.copies: list[str] = []

    def is_own(self, buffer: Any) -> bool:
        """Whether a buffer is an intermediate one, and none of the function's tensors."""
        return is_among(buffer, list_allocated(self.scope))

    def follow(self) -> None:
        """Find all blocks over the elements, by the buffers that they share."""
        known = -1
        while known != (known := len(self.over) + len(self.places)):
            for block in find_all(self.scope.body, SBlock):
                for buffer, indices in get_elements(block):
                    if block not in self.over:
                        at = self.places.get(buffer) if self.is_own(buffer) else None
                        if at is not None and isinstance(indices[at], Var):
                            self.over[block] = indices[at]
                        elif at is not None:
                            raise self.refuse(block, f"uses '{buffer.name}' at {indices[at]}")
                        continue
                    used = [it for it in indices if is_used(self.over[block], it)]
                    at = next((at for at, it in enumerate(indices) if it in used), None)
                    if at is None:
                        continue
                    is_place = self.places.setdefault(buffer, at) == at and len(used) == 1
                    if not is_place or not used[0].same_as(self.over[block]):
                        raise self.refuse(block, f"uses '{buffer.name}' at {used}")
        for block in self.over:
            stored = [it for it in find_all(block, BufferStore) if it.buffer in self.places]
            if any(not self.is_own(it.buffer) for it in stored):
                raise self.refuse(block, f"writes '{stored[0].buffer.name}' of the function")

    def refuse(self, block: SBlock, fault: str) -> TransformError:
        return TransformError(
            f"block '{block.name_hint}', which goes over the elements, {fault}",
            "pad reductions as they were written, each element as one index of what lies between",
        )

    def rebuild(self) -> Any:
        """The scope's body with more elements, behind copies of tensors."""
        copies, made = list[Any](), list[Any]()
        for statement in stmt_list(self.scope.body):
            chain = read_chain(statement)
            for block in find_all(statement, SBlock):
                if block in self.over and (chain is None or not is_as_written(chain)):
                    raise self.refuse(block, "has other loops than as it was written")
            if chain is None or chain.block not in self.over:
                made.append(statement)
            else:
                copies += self.copy_operands(chain.block)
                made.append(self.pad(chain.block))
        return stmt_seq(*copies, *made)

    def pad(self, block: SBlock) -> Any:
        """A block with more elements, which are zero or count for nothing."""
        variable, point, body, init = self.over[block], Point(), block.body, block.init
        for item in block.iter_vars:
            if item.var.same_as(variable):
                domain = Range.from_min_extent(item.dom.min, const(self.size, variable.ty.dtype))
                item = IterVar(domain, variable, item.iter_type)
            point.add(item, {})
        value = body.value
        if init is None:
            value = self.hide(variable, value, const(0, value.ty.dtype))
        elif self.reduces(block):
            reduction = read_reduction(block)
            if reduction.kind != "sum" or not self.is_zero(reduction.term, variable):
                own = BufferLoad(body.buffer, body.indices)
                term = self.hide(variable, reduction.term, reduction.identity)
                value = reduction.combine(own, term)

        def lengthen(buffer: Any, indices: Any) -> Any:
            return (self.made[buffer], indices) if buffer in self.made else None

        stores = [BufferStore(body.buffer, value, body.indices), init]
        parts = [None if it is None else point.of(map_elements(it, lengthen)) for it in stores]
        new = self.reuse[block] = point.make_block(str(block.name_hint), *parts, like=block)
        return point.build_nest(new)

    def reduces(self, block: SBlock) -> bool:
        """Whether a block reduces over the elements."""
        reduced = [item.var for item in block.iter_vars if is_reduced(item)]
        return is_among(self.over[block], reduced)

    def is_zero(self, term: Any, variable: Any) -> bool:
        """Whether a term is zero beyond the end. Sums for an element need not be: of infinities."""
        sums = [it.body.buffer for it in self.over if it.init is not None]
        loads = find_all(term, TensorLoad)
        return is_zero(term, [variable]) and not any(is_among(it.source, sums) for it in loads)

    def is_within(self, element: Any) -> Any:
        return element < const(self.count, element.ty.dtype)

    def hide(self, variable: Any, value: Any, other: Any) -> Any:
        """A value up to the end, and another one beyond: in one choice with a mask of the same."""
        if is_choice(value) and tvm_ffi.structural_equal(value.args[2], other):
            within = all_of(value.args[0], self.is_within(variable))
            return if_then_else(within, *value.args[1:])
        return if_then_else(self.is_within(variable), value, other)

    def find_mask(self, block: SBlock, buffer: Any) -> Any:
        """The condition in which a block uses an element of a buffer, in the block's iterators: it
        chooses it, or zero to multiply it by, or what is made of it. None for always.
        """
        masks: list[Any] = []
        for load in loads_of(block.body.value, buffer):
            found = [
                condition
                for condition, chosen, _ in find_choices(block.body)
                if is_among(load, find_all(chosen, TensorLoad))
            ]
            for product in find_all(block.body.value, Mul):
                for side, factor in ((product.a, product.b), (product.b, product.a)):
                    if is_among(load, find_all(side, TensorLoad)):
                        found += self.find_zeros(factor, self.over[block])
            users: list[Any] = []
            made = block.body.buffer
            for reader in () if found or self.reduces(block) else self.over:
                for use in loads_of(reader.body.value, made) if reader != block else ():
                    places = dict(zip(use.indices, block.body.indices, strict=True))
                    mask = self.find_mask(reader, made)
                    users.append(None if mask is None else substitute(mask, places))
            masks += found[:1] or users or [None]
        first = masks[0] if masks else None
        is_one = all(it is not None and tvm_ffi.structural_equal(it, first) for it in masks)
        return first if is_one else None

    def find_zeros(self, factor: Any, variable: Any) -> list[Any]:
        """The conditions without which an element that blocks choose makes a factor zero."""
        chosen = {it.body.buffer: it.body for it in self.over if is_choice(it.body.value)}
        return [
            substitute(store.value.args[0], dict(zip(store.indices, load.indices, strict=True)))
            for load in find_all(factor, TensorLoad)
            for store in [chosen.get(load.source)]
            if store is not None and is_zero(store.value.args[2], []) and is_zero(factor, [variable])
        ]

    def copy_operands(self, block: SBlock) -> list[Any]:
        """Padded copies of the tensors that a block reads, each made once."""
        nests: list[Any] = []
        for load in find_all(block.body.value, TensorLoad):
            buffer, new = load.source, self.made.get(load.source)
            if new is None or self.is_own(buffer) or str(new.name) in self.copies:
                continue
            point = Point()
            for at, size in enumerate(new.shape):
                domain = Range.from_min_extent(const(0, size.ty.dtype), size)
                point.enter(f"v{at}", domain, size.ty.dtype, IterVar.DataPar)
            own = [item.var for item in point.iterators]
            within, mask = self.is_within(own[self.places[buffer]]), self.find_mask(block, buffer)
            places = {it: at for it, at in zip(load.indices, own, strict=True) if isinstance(it, Var)}
            others = [it.var for it in block.iter_vars if it.var not in places]
            readers = [it for it in find_all(self.scope.body, SBlock) if loads_of(it.body, buffer)]
            is_known = mask is not None and not any(is_used(it, mask) for it in others)
            # Of one reader alone, and there before all blocks.
            asked = [it.source for it in find_all(mask, TensorLoad)] if is_known else []
            if is_known and len(readers) == 1 and not any(map(self.is_own, asked)):
                within = all_of(substitute(mask, places), within)
            value = if_then_else(within, BufferLoad(buffer, own), const(0, buffer.dtype))
            self.copies.append(self.name(str(new.name)))
            copy = point.make_block(self.copies[-1], BufferStore(new, value, own))
            nests.append(point.build_nest(copy))
        return nests
