"""Padding of dependent reductions: more elements, which count for nothing."""

from __future__ import annotations

from typing import Any

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferLoad, BufferStore, IterVar, Mul, Var, const, if_then_else, stmt_seq
from tvm.tirx import all as all_of
from tvm.tirx.stmt import stmt_list
from tvm_ffi import structural_equal

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

    Tensors of the function keep their length, and are read through padded copies, which are zero
    beyond the end, and where a mask hides what is made of an element. What is computed for each
    element is zero beyond the end, and a maximum passes over it; a mask that already chooses that
    takes the end up. Inlined, a copy becomes a guard of its loads.

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
    copies, padded = padding.rebuild()
    new = edit_scope(padding.scope, stmt_seq(*copies, *padded), padding.buffers)
    replace_scope(sch, block, new, padding.reuse, who="pad_reductions")
    function, names = get_function(sch, block), [find_all(it, SBlock)[0].name_hint for it in copies]
    return [sch.get_sblock(str(name), function) for name in names]


class _Padding(Builder):
    """A padding under way, and what it makes.

    Attributes
    ----------
    over : of each block that goes over the elements, the iterator that does
    places : of each buffer that has them, the dimension
    count, size : of elements, before and padded
    made : the longer buffers, by those of before
    """

    def __init__(self, scope: SBlock, block: SBlock, multiple: int) -> None:
        super().__init__(scope)
        (item,) = (it for it in block.iter_vars if is_reduced(it))
        self.count = constant(item.dom.extent) or 0
        self.size = self.count + -self.count % multiple
        self.over: dict[SBlock, Var] = {block: item.var}
        self.places: dict[Any, int] = {}
        self.own = list_allocated(scope)
        self.follow()
        self.made: dict[Any, Any] = {}
        for buffer, place in self.places.items():
            shape, name = list(buffer.shape), str(buffer.name)
            shape[place] = const(self.size, shape[place].ty.dtype)
            name += "" if is_among(buffer, self.own) else "_pad"
            self.made[buffer] = self.add_buffer(buffer, name, shape)

    def follow(self) -> None:
        """Find all blocks over the elements, by the buffers that they share."""
        blocks, known = find_all(self.scope.body, SBlock), -1
        while known != (known := len(self.over) + len(self.places)):
            for block, (buffer, indices) in [(it, at) for it in blocks for at in get_elements(it)]:
                place, variable = self.places.get(buffer), self.over.get(block)
                if variable is None and place is not None and isinstance(indices[place], Var):
                    variable = self.over[block] = indices[place]
                used = [it for it in indices if variable is not None and is_used(variable, it)]
                if used:
                    at = list(indices).index(used[0])
                    is_one = self.places.setdefault(buffer, at) == at and len(used) == 1
                    if not is_one or not used[0].same_as(variable):
                        raise _refuse(block, f"uses '{buffer.name}' at {used}")
        for block, (buffer, _) in [(it, at) for it in blocks for at in get_elements(it)]:
            is_own = is_among(buffer, self.own)
            if buffer in self.places and is_own and block not in self.over:
                raise _refuse(block, f"uses '{buffer.name}' without going over it")
            stored = [store.buffer for store in find_all(block, BufferStore)]
            if buffer in self.places and not is_own and is_among(buffer, stored):
                raise _refuse(block, f"writes '{buffer.name}' of the function")

    def rebuild(self) -> tuple[list[Any], list[Any]]:
        """The copies of tensors, and the scope's statements with more elements."""
        copies, made = dict[Any, Any](), list[Any]()
        for statement in stmt_list(self.scope.body):
            chain = read_chain(statement)
            blocks = [it for it in find_all(statement, SBlock) if it in self.over]
            if blocks and (chain is None or not is_as_written(chain)):
                raise _refuse(blocks[0], "has other loops than as it was written")
            for block in blocks:
                for load in find_all(block.body, TensorLoad):
                    buffer = load.source
                    if buffer in self.made and not is_among(buffer, [*self.own, *copies]):
                        copies[buffer] = self.copy(block, load)
            made += [self.pad(block) for block in blocks] or [statement]
        return list(copies.values()), made

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
            # Sums for an element need not be zero beyond the end: of infinities.
            sums = [it.body.buffer for it in self.over if it.init is not None]
            loads = [it.source for it in find_all(reduction.term, TensorLoad)]
            is_known = is_zero(reduction.term, [variable]) and not any(
                is_among(it, sums) for it in loads
            )
            if reduction.kind != "sum" or not is_known:
                own = BufferLoad(body.buffer, body.indices)
                term = self.hide(variable, reduction.term, reduction.identity)
                value = reduction.combine(own, term)

        def lengthen(buffer: Any, indices: Any) -> Any:
            return (self.made[buffer], indices) if buffer in self.made else None

        stores = BufferStore(body.buffer, value, body.indices), init
        body, init = (None if it is None else point.of(map_elements(it, lengthen)) for it in stores)
        new = self.reuse[block] = point.make_block(str(block.name_hint), body, init, like=block)
        return point.build_nest(new)

    def hide(self, element: Any, value: Any, other: Any) -> Any:
        """A value up to the end, and another one beyond, in one choice with a mask of the same."""
        within = element < const(self.count, element.ty.dtype)
        if is_choice(value) and structural_equal(value.args[2], other):
            return if_then_else(all_of(value.args[0], within), *value.args[1:])
        return if_then_else(within, value, other)

    def reduces(self, block: SBlock) -> bool:
        """Whether a block reduces over the elements."""
        return is_among(self.over[block], [it.var for it in block.iter_vars if is_reduced(it)])

    def copy(self, block: SBlock, load: Any) -> Any:
        """A padded copy of a tensor, zero where nobody uses what the block makes of an element."""
        buffer, new, point = load.source, self.made[load.source], Point()
        for at, size in enumerate(new.shape):
            domain = Range.from_min_extent(const(0, size.ty.dtype), size)
            point.enter(f"vax{at}", domain, size.ty.dtype, IterVar.DataPar)
        own, zero = [item.var for item in point.iterators], const(0, buffer.dtype)
        value: Any = BufferLoad(buffer, own)
        # A mask of one load alone, which its indices say, and which is there before all blocks.
        loads = [it for it in self.over for it in loads_of(it.body, buffer)]
        mask = self.find_mask(block, buffer) if len(loads) == 1 else None
        if mask is not None:
            pairs = zip(load.indices, own, strict=True)
            mask = substitute(mask, {it: at for it, at in pairs if isinstance(it, Var)})
            is_open = any(is_used(item.var, mask) for item in block.iter_vars)
            if not is_open and not any(
                is_among(it.source, self.own) for it in find_all(mask, TensorLoad)
            ):
                value = if_then_else(mask, value, zero)
        value = self.hide(own[self.places[buffer]], value, zero)
        return point.build_nest(
            point.make_block(self.name(str(new.name)), BufferStore(new, value, own))
        )

    def find_mask(self, block: SBlock, buffer: Any) -> Any:
        """The condition in which what a block makes of a tensor is used, in its iterators; None for
        always: it multiplies that by a chosen zero, or all other blocks choose another value.
        """
        own, masks = block.body, list[Any]()
        if self.reduces(block):
            term = read_reduction(block).term
            factors = [term.a, term.b] if isinstance(term, Mul) else []
            chosen = [it.body for it in self.over if is_choice(it.body.value)]
            for factor in (it for it in factors if not loads_of(it, buffer)):
                for store in (it for it in chosen if is_zero(it.value.args[2], [])):
                    for load in loads_of(factor, store.buffer):
                        if is_zero(factor, [self.over[block]]):
                            places = dict(zip(store.indices, load.indices, strict=True))
                            masks.append(substitute(store.value.args[0], places))
            return masks[0] if masks else None
        for reader in (it for it in self.over if it != block):
            choices = find_choices(reader.body)
            for load in loads_of(reader.body, own.buffer):
                around = [it[0] for it in choices if is_among(load, find_all(it[1], TensorLoad))]
                places = dict(zip(load.indices, own.indices, strict=True))
                masks.append(substitute(around[0], places) if around else None)
        is_same = all(it is not None and structural_equal(it, masks[0]) for it in masks)
        return masks[0] if masks and is_same else None


def _refuse(block: SBlock, fault: str) -> TransformError:
    return TransformError(
        f"block '{block.name_hint}' {fault}",
        "pad reductions as they were written, each element as one index of what lies between",
    )
