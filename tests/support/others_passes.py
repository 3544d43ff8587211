"""Passes as others write them: fifteen that are wrong, and eight that are right.

They were written before their writer had looked at what the corpus of `tirstep pass` draws. Each is
a function of a module; WRONG and RIGHT name them, with the place in TVM's pipeline that each is put
before. A right one that copies what loops do stands behind TVM's barriers: TVM puts these into the
branches that it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.tirx import (
    And,
    AttrStmt,
    BufferStore,
    Cast,
    Div,
    Evaluate,
    FloorDiv,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Mod,
    Mul,
    Not,
    SeqStmt,
    Var,
)
from tvm_ffi import structural_equal, structural_map, structural_walk

WRONG: dict[str, str] = {}
RIGHT: dict[str, str] = {}


def tried(names: dict[str, str], before: str) -> Callable[[Any], Any]:
    def note(function: Any) -> Any:
        names[function.__name__] = before
        return function

    return note


def change(module: Any, kind: Any, rewrite: Callable[[Any], Any], order: str = "post") -> Any:
    """The module with all nodes of a kind rewritten, and each variable defined once."""
    functions = {
        name.name_hint: structural_map(function, (kind, rewrite), order=order)
        for name, function in module.functions_items()
    }
    return tirx.transform.ConvertSSA()(tvm.IRModule(functions, attrs=module.attrs))


def find(node: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    structural_walk(node, [(kind, found.append)])
    return found


def put(body: Any, variable: Any, value: Any) -> Any:
    return structural_map(body, (Var, lambda it: value if it.same_as(variable) else it))


def is_serial(loop: Any) -> bool:
    """Of loops around a launch TVM compiles no copies."""
    launches = [it for it in find(loop.body, AttrStmt) if it.attr_key == "thread_extent"]
    return bool(loop.kind == ForKind.SERIAL and loop.step is None and not launches)


def calls_nothing(node: Any) -> bool:
    return not find(node, Call)


def type_of(node: Any) -> str:
    return str(node.ty.dtype)


# Loops.


@tried(WRONG, "tirx.VectorizeLoop")
def peel_first(module):
    """The first iteration before the loop: of a loop that has one."""

    def peel(loop):
        if not is_serial(loop) or isinstance(loop.extent, IntImm):
            return loop
        rest = For(loop.loop_var, loop.min + 1, loop.extent - 1, loop.kind, loop.body)
        return SeqStmt([put(loop.body, loop.loop_var, loop.min), rest])

    return change(module, For, peel)


@tried(RIGHT, "s_tir.InferFragment")
def peel_first_if_any(module):
    """The first iteration before the loop, where it has one."""

    def peel(loop):
        if not is_serial(loop):
            return loop
        rest = For(loop.loop_var, loop.min + 1, loop.extent - 1, loop.kind, loop.body)
        return IfThenElse(
            loop.extent > 0, SeqStmt([put(loop.body, loop.loop_var, loop.min), rest]), None
        )

    return change(module, For, peel)


def unroll_by_two(loop: Any, rest: bool) -> Any:
    if not is_serial(loop):
        return loop
    half = Var(loop.loop_var.name, loop.loop_var.ty.dtype)
    begin = loop.min + half * 2
    pair = [put(loop.body, loop.loop_var, begin), put(loop.body, loop.loop_var, begin + 1)]
    pairs = For(half, 0, tirx.floordiv(loop.extent, 2), loop.kind, SeqStmt(pair))
    last = put(loop.body, loop.loop_var, loop.min + loop.extent - 1)
    left = IfThenElse(tirx.floormod(loop.extent, 2) == 1, last, None)
    return SeqStmt([pairs, left]) if rest else pairs


@tried(WRONG, "tirx.VectorizeLoop")
def unroll_even(module):
    """Two iterations in one, as if all extents were even."""
    return change(module, For, lambda loop: unroll_by_two(loop, rest=False))


@tried(RIGHT, "s_tir.InferFragment")
def unroll_pairs(module):
    """Two iterations in one, and what is left after them."""
    return change(module, For, lambda loop: unroll_by_two(loop, rest=True))


def reverse(loop: Any) -> Any:
    back = loop.min + (loop.min + loop.extent - 1) - loop.loop_var
    fresh = Var(loop.loop_var.name, loop.loop_var.ty.dtype)
    body = put(put(loop.body, loop.loop_var, back), loop.loop_var, fresh)
    return For(fresh, loop.min, loop.extent, loop.kind, body)


@tried(WRONG, "tirx.VectorizeLoop")
def reverse_loops(module):
    """From the last iteration to the first, as a loop that counts down is cheaper."""
    return change(module, For, lambda loop: reverse(loop) if is_serial(loop) else loop)


@tried(RIGHT, "tirx.UnrollLoop")
def reverse_fills(module):
    """From the last iteration to the first, where all that a loop stores is the same."""

    def turn(loop):
        store = loop.body
        is_fill = isinstance(store, BufferStore) and not find(store.value, (TensorLoad, Call, Var))
        return reverse(loop) if is_serial(loop) and is_fill else loop

    return change(module, For, turn)


@tried(WRONG, "tirx.VectorizeLoop")
def fuse_neighbours(module):
    """Two loops of one extent, one after the other, are one loop."""

    def fuse(sequence):
        parts: list[Any] = []
        for part in sequence.seq:
            last = parts[-1] if parts else None
            if (
                isinstance(last, For)
                and isinstance(part, For)
                and is_serial(last)
                and is_serial(part)
                and structural_equal([last.min, last.extent], [part.min, part.extent])
            ):
                second = put(part.body, part.loop_var, last.loop_var)
                body = SeqStmt([last.body, second])
                parts[-1] = For(last.loop_var, last.min, last.extent, last.kind, body)
            else:
                parts.append(part)
        return SeqStmt(parts) if len(parts) > 1 else parts[0]

    return change(module, SeqStmt, fuse)


@tried(RIGHT, "tirx.UnrollLoop")
def shift_loops(module):
    """Each loop begins at 3, for no reason."""

    def shift(loop):
        if not is_serial(loop):
            return loop
        fresh = Var(loop.loop_var.name, loop.loop_var.ty.dtype)
        body = put(loop.body, loop.loop_var, fresh - 3)
        return For(fresh, loop.min + 3, loop.extent, loop.kind, body)

    return change(module, For, shift)


# Branches and conditions.


@tried(WRONG, "tirx.VectorizeLoop")
def cheap_side_first(module):
    """The side of `A and B` that loads less comes first."""

    def swap(node):
        loads = [len(find(side, TensorLoad)) for side in (node.a, node.b)]
        return And(node.b, node.a) if loads[0] <= loads[1] else node

    return change(module, And, swap)


@tried(WRONG, "tirx.VectorizeLoop")
def split_branches(module):
    """A branch for each statement, so that others can move between them."""

    def split(node):
        if node.else_case is not None or not isinstance(node.then_case, SeqStmt):
            return node
        if any(isinstance(part, tirx.Bind | tirx.AllocBuffer) for part in node.then_case.seq):
            return node
        return SeqStmt([IfThenElse(node.condition, part, None) for part in node.then_case.seq])

    return change(module, IfThenElse, split)


@tried(WRONG, "tirx.VectorizeLoop")
def else_as_branch(module):
    """`if c: X else: Y` is `if c: X` and `if not c: Y`."""

    def split(node):
        if node.else_case is None:
            return node
        return SeqStmt(
            [
                IfThenElse(node.condition, node.then_case, None),
                IfThenElse(Not(node.condition), node.else_case, None),
            ]
        )

    return change(module, IfThenElse, split)


@tried(RIGHT, "tirx.UnrollLoop")
def invert_branches(module):
    """`if c: X else: Y` is `if not c: Y else: X`."""

    def invert(node):
        if node.else_case is None:
            empty = Evaluate(tirx.const(0, "int32"))
            return IfThenElse(Not(node.condition), empty, node.then_case)
        return IfThenElse(Not(node.condition), node.else_case, node.then_case)

    return change(module, IfThenElse, invert)


# Loads and stores.


@tried(WRONG, "tirx.VectorizeLoop")
def drop_overwritten(module):
    """A store goes that a later one of a sequence overwrites, if no store between loads it."""

    def is_same(one, other):
        return one.buffer.same_as(other.buffer) and structural_equal(
            list(one.indices), list(other.indices)
        )

    def is_needed(store, rest):
        for part in rest:
            if isinstance(part, BufferStore):
                if any(load.source.same_as(store.buffer) for load in find(part.value, TensorLoad)):
                    return True
                if is_same(part, store):
                    return False
            elif isinstance(part, For):
                return True
        return True

    def drop(sequence):
        parts = [
            part
            for place, part in enumerate(sequence.seq)
            if not isinstance(part, BufferStore) or is_needed(part, sequence.seq[place + 1 :])
        ]
        return SeqStmt(parts) if len(parts) > 1 else parts[0]

    return change(module, SeqStmt, drop)


@tried(WRONG, "tirx.VectorizeLoop")
def forward_stores(module):
    """What was stored a statement ago need not be loaded again, at whatever index."""

    def forward(sequence):
        parts = [sequence.seq[0]]
        for last, part in zip(sequence.seq, sequence.seq[1:], strict=False):
            if isinstance(last, BufferStore) and isinstance(part, BufferStore):
                value = structural_map(
                    part.value,
                    (
                        TensorLoad,
                        lambda it, last=last: (
                            last.value
                            if it.source.same_as(last.buffer) and type_of(it) == type_of(last.value)
                            else it
                        ),
                    ),
                )
                part = BufferStore(part.buffer, value, part.indices)
            parts.append(part)
        return SeqStmt(parts)

    return change(module, SeqStmt, forward)


@tried(WRONG, "tirx.VectorizeLoop")
def hoist_loads(module):
    """A load that does not move with the loop is loaded once, before it."""

    def hoist(loop):
        if not is_serial(loop) or not isinstance(loop.body, BufferStore):
            return loop
        still = [
            load
            for load in find(loop.body.value, TensorLoad)
            if not any(it.same_as(loop.loop_var) for it in find(list(load.indices), Var))
        ]
        if not still or not calls_nothing(loop.body.value):
            return loop
        once = Var("once", type_of(still[0]))
        same = lambda it: structural_equal(it, still[0])  # noqa: E731
        value = structural_map(loop.body.value, (TensorLoad, lambda it: once if same(it) else it))
        body = BufferStore(loop.body.buffer, value, loop.body.indices)
        return SeqStmt(
            [
                tirx.Bind(once, still[0]),
                For(loop.loop_var, loop.min, loop.extent, loop.kind, body),
            ]
        )

    return change(module, For, hoist)


@tried(RIGHT, "tirx.UnrollLoop")
def name_values(module):
    """Each value that is stored gets a name first."""

    def name(store):
        value = Var("value", store.value.ty)
        return SeqStmt(
            [tirx.Bind(value, store.value), BufferStore(store.buffer, value, store.indices)]
        )

    return change(module, BufferStore, name)


@tried(WRONG, "s_tir.InferFragment")
def barrier_one_earlier(module):
    """Each barrier a statement earlier, to overlap what it waits for."""

    def is_barrier(part):
        return isinstance(part, Evaluate) and "storage_sync" in str(part.value)

    def move(sequence):
        parts = list(sequence.seq)
        for place in range(1, len(parts)):
            if is_barrier(parts[place]):
                parts[place - 1], parts[place] = parts[place], parts[place - 1]
        return SeqStmt(parts)

    return change(module, SeqStmt, move)


@tried(RIGHT, "s_tir.InferFragment")
def double_barriers(module):
    """Each barrier twice."""

    def double(node):
        return SeqStmt([node, node]) if "storage_sync" in str(node.value) else node

    return change(module, Evaluate, double)


# Arithmetic.


@tried(WRONG, "tirx.VectorizeLoop")
def skip_round_trips(module):
    """From one type to another and back is nothing, from float through integers, too."""

    def skip(node):
        inner = node.value
        is_back = isinstance(inner, Cast) and type_of(inner.value) == type_of(node)
        return inner.value if is_back else node

    return change(module, Cast, skip)


@tried(WRONG, "tirx.VectorizeLoop")
def multiply_narrow(module):
    """A product of two int32 that were made int64 is made int64 afterwards."""

    def narrow(node):
        sides = (node.a, node.b)
        if type_of(node) != "int64" or not all(
            (isinstance(it, IntImm) and abs(int(it)) < 2**31)
            or (isinstance(it, Cast) and type_of(it.value) == "int32")
            for it in sides
        ):
            return node
        small = [
            tirx.const(int(it), "int32") if isinstance(it, IntImm) else it.value for it in sides
        ]
        return Cast("int64", Mul(*small))

    return change(module, Mul, narrow)


@tried(WRONG, "tirx.VectorizeLoop")
def floor_remainders(module):
    """Remainders of TVM's own kind: it simplifies them better."""
    return change(
        module,
        Mod,
        lambda node: tirx.floormod(node.a, node.b) if "int" in type_of(node) else node,
    )


def is_power(node: Any) -> bool:
    return isinstance(node, IntImm) and int(node) > 0 and int(node) & (int(node) - 1) == 0


def shift_right(node: Any) -> Any:
    bits = int(node.b).bit_length() - 1
    return node.a >> tirx.const(bits, type_of(node))


@tried(WRONG, "tirx.VectorizeLoop")
def shift_for_quotients(module):
    """A quotient of a power of two is a shift."""
    return change(
        module,
        Div,
        lambda node: shift_right(node) if "int" in type_of(node) and is_power(node.b) else node,
    )


@tried(RIGHT, "tirx.UnrollLoop")
def shift_for_floors(module):
    """A quotient of a power of two that is rounded down is a shift."""
    return change(module, FloorDiv, lambda node: shift_right(node) if is_power(node.b) else node)
