"""Passes as others write them: forty-two that are wrong, and seventeen that are right.

What they do was written down before their writer had looked at what the corpus of `tirstep pass`
draws. Each rewrites nodes of one kind, in front of a pass of TVM's. A right one that copies what
loops do stands behind TVM's barriers: TVM puts these into the branches that it makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tvm
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import (
    And,
    BufferStore,
    Cast,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Mul,
    Not,
    SeqStmt,
    Var,
)
from tvm_ffi import structural_equal, structural_map, structural_walk

PASSES: dict[str, tuple[bool, str, Callable[[Any], Any]]] = {}
"""By name: whether one is right, the pass of TVM's in front of which it stands, and itself."""
VECTORIZE, UNROLL, FRAGMENT = "tirx.VectorizeLoop", "tirx.UnrollLoop", "s_tir.InferFragment"
FLATTEN = "tirx.FlattenBuffer"
NOTHING = Evaluate(tirx.const(0, "int32"))


def tried(kind: Any, before: str, *, right: bool = False) -> Callable[[Any], Any]:
    """Note what rewrites nodes of a kind as a pass, after which each variable is defined once."""

    def note(rewrite: Any) -> Any:
        def run(module: Any) -> Any:
            functions = {
                name: structural_map(function, (kind, rewrite))
                for name, function in module.functions_items()
            }
            return tirx.transform.ConvertSSA()(tvm.IRModule(functions, attrs=module.attrs))

        PASSES[rewrite.__name__] = (right, before, run)
        return rewrite

    return note


wrong, right = tried, partial(tried, right=True)


def find(node: Any, kind: Any) -> list[Any]:
    found: list[Any] = []
    structural_walk(node, [(kind, found.append)])
    return found


def put(body: Any, variable: Any, value: Any) -> Any:
    return structural_map(body, (Var, lambda it: value if it.same_as(variable) else it))


def is_serial(loop: Any) -> bool:
    """Whether it is, and around no launch of a kernel and no sum over threads: TVM compiles no
    copies of these (LowerThreadAllreduce leaves what the second sum was given undefined).
    """
    keys = {str(it.attr_key) for it in find(loop.body, tirx.AttrStmt)}
    is_plain = loop.kind == ForKind.SERIAL and loop.step is None
    return bool(is_plain and not keys & {"thread_extent", "reduce_scope"})


def again(loop: Any, begin: Any, extent: Any, body: Any, variable: Any = None) -> Any:
    own = loop.loop_var if variable is None else variable
    return For(own, begin, extent, loop.kind, body)


def join(parts: list[Any]) -> Any:
    return SeqStmt(parts) if len(parts) > 1 else parts[0]


def type_of(node: Any) -> str:
    return str(node.ty.dtype)


# Loops.


@wrong(For, VECTORIZE)
def peel_first(loop):
    """The first iteration before the loop: of a loop that has one."""
    if not is_serial(loop) or isinstance(loop.extent, IntImm):
        return loop
    rest = again(loop, loop.min + 1, loop.extent - 1, loop.body)
    return SeqStmt([put(loop.body, loop.loop_var, loop.min), rest])


@right(For, FRAGMENT)
def peel_first_if_any(loop):
    """The first iteration before the loop, where it has one."""
    if not is_serial(loop):
        return loop
    rest = again(loop, loop.min + 1, loop.extent - 1, loop.body)
    both = SeqStmt([put(loop.body, loop.loop_var, loop.min), rest])
    return IfThenElse(loop.extent > 0, both, None)


@wrong(For, VECTORIZE)
def unroll_even(loop):
    """Two iterations in one, as if all extents were even."""
    if not is_serial(loop):
        return loop
    half = Var(loop.loop_var.name, loop.loop_var.ty.dtype)
    begin = loop.min + half * 2
    pair = [put(loop.body, loop.loop_var, at) for at in (begin, begin + 1)]
    return again(loop, 0, tirx.floordiv(loop.extent, 2), SeqStmt(pair), half)


@wrong(For, FRAGMENT)
def unroll_pairs(loop):
    """Two iterations in one, and what is left after them: one, of an extent of -1."""
    if not is_serial(loop):
        return loop
    last = put(loop.body, loop.loop_var, loop.min + loop.extent - 1)
    left = IfThenElse(tirx.floormod(loop.extent, 2) == 1, last, None)
    return SeqStmt([unroll_even(loop), left])


@wrong(For, VECTORIZE)
def reverse_loops(loop):
    """From the last iteration to the first, as a loop that counts down is cheaper."""
    if not is_serial(loop):
        return loop
    fresh = Var(loop.loop_var.name, loop.loop_var.ty.dtype)
    body = put(loop.body, loop.loop_var, loop.min + (loop.min + loop.extent - 1) - fresh)
    return again(loop, loop.min, loop.extent, body, fresh)


@right(For, UNROLL)
def reverse_fills(loop):
    """From the last iteration to the first, where all that a loop stores is the same."""
    is_fill = isinstance(loop.body, BufferStore)
    is_fill = is_fill and not find(loop.body.value, (TensorLoad, Call, Var))
    return reverse_loops(loop) if is_fill else loop


@wrong(SeqStmt, VECTORIZE)
def fuse_neighbours(sequence):
    """Two loops of one extent, one after the other, are one loop."""
    parts: list[Any] = []
    for part in sequence.seq:
        last = parts[-1] if parts else None
        loops = [it for it in (last, part) if isinstance(it, For) and is_serial(it)]
        if len(loops) == 2 and structural_equal([last.min, last.extent], [part.min, part.extent]):
            body = SeqStmt([last.body, put(part.body, part.loop_var, last.loop_var)])
            parts[-1] = again(last, last.min, last.extent, body)
        else:
            parts.append(part)
    return join(parts)


@right(For, UNROLL)
def shift_loops(loop):
    """Each loop begins at 3, for no reason."""
    if not is_serial(loop):
        return loop
    fresh = Var(loop.loop_var.name, loop.loop_var.ty.dtype)
    return again(loop, loop.min + 3, loop.extent, put(loop.body, loop.loop_var, fresh - 3), fresh)


# Branches and conditions.


@wrong(And, VECTORIZE)
def cheap_side_first(node):
    """The side of `A and B` that loads less comes first."""
    first, second = (len(find(side, TensorLoad)) for side in (node.a, node.b))
    return And(node.b, node.a) if first <= second else node


@wrong(IfThenElse, VECTORIZE)
def split_branches(node):
    """A branch for each statement, so that others can move between them."""
    parts = node.then_case.seq if isinstance(node.then_case, SeqStmt) else []
    if node.else_case is not None or not parts:
        return node
    if any(isinstance(part, tirx.Bind | tirx.AllocBuffer) for part in parts):
        return node
    return SeqStmt([IfThenElse(node.condition, part, None) for part in parts])


@wrong(IfThenElse, VECTORIZE)
def else_as_branch(node):
    """`if c: X else: Y` is `if c: X` and `if not c: Y`."""
    if node.else_case is None:
        return node
    first = IfThenElse(node.condition, node.then_case, None)
    return SeqStmt([first, IfThenElse(Not(node.condition), node.else_case, None)])


@right(IfThenElse, UNROLL)
def invert_branches(node):
    """`if c: X else: Y` is `if not c: Y else: X`."""
    return IfThenElse(Not(node.condition), node.else_case or NOTHING, node.then_case)


# Loads and stores.


@wrong(SeqStmt, VECTORIZE)
def drop_overwritten(sequence):
    """A store goes that a later one of a sequence overwrites, if no store between loads it."""

    def is_needed(store, rest):
        for part in rest:
            if isinstance(part, For):
                return True
            if isinstance(part, BufferStore):
                if any(it.source.same_as(store.buffer) for it in find(part.value, TensorLoad)):
                    return True
                is_same = part.buffer.same_as(store.buffer)
                if is_same and structural_equal([*part.indices], [*store.indices]):
                    return False
        return True

    parts = [*sequence.seq]
    pairs = [(part, parts[place + 1 :]) for place, part in enumerate(parts)]
    kept = [it for it, rest in pairs if not isinstance(it, BufferStore) or is_needed(it, rest)]
    return join(kept)


@wrong(SeqStmt, VECTORIZE)
def forward_stores(sequence):
    """What was stored a statement ago need not be loaded again, at whatever index."""
    parts = [sequence.seq[0]]
    for last, part in zip(sequence.seq, sequence.seq[1:], strict=False):
        if not isinstance(last, BufferStore) or not isinstance(part, BufferStore):
            parts.append(part)
            continue

        def forward(load, last=last):
            is_same = load.source.same_as(last.buffer) and type_of(load) == type_of(last.value)
            return last.value if is_same else load

        value = structural_map(part.value, (TensorLoad, forward))
        parts.append(BufferStore(part.buffer, value, part.indices))
    return SeqStmt(parts)


@wrong(For, VECTORIZE)
def hoist_loads(loop):
    """A load that does not move with the loop is loaded once, before it."""
    store = loop.body
    if not is_serial(loop) or not isinstance(store, BufferStore) or find(store.value, Call):
        return loop
    loads = find(store.value, TensorLoad)
    still = [
        it
        for it in loads
        if not any(one.same_as(loop.loop_var) for one in find(list(it.indices), Var))
    ]
    if not still:
        return loop
    once = Var("once", type_of(still[0]))
    keep = (TensorLoad, lambda it: once if structural_equal(it, still[0]) else it)
    body = BufferStore(store.buffer, structural_map(store.value, keep), store.indices)
    return SeqStmt([tirx.Bind(once, still[0]), again(loop, loop.min, loop.extent, body)])


@right(BufferStore, "tirx.SplitHostDevice")
def name_values(store):
    """Each value that is stored gets a name first.

    TVM takes none with bfloat16 in it, and in T.parallel none of a product of two variables as
    floats.
    """
    products = {type_of(it) for it in find(store.value, Mul)}
    if "bfloat16" in str(store.value) or any("float" in dtype for dtype in products):
        return store
    value = Var("value", store.value.ty)
    return SeqStmt([tirx.Bind(value, store.value), BufferStore(store.buffer, value, store.indices)])


@wrong(SeqStmt, FRAGMENT)
def barrier_one_earlier(sequence):
    """Each barrier a statement earlier, to overlap what it waits for."""
    parts = list(sequence.seq)
    for place in range(1, len(parts)):
        if isinstance(parts[place], Evaluate) and "storage_sync" in str(parts[place].value):
            parts[place - 1], parts[place] = parts[place], parts[place - 1]
    return SeqStmt(parts)


@right(Evaluate, FRAGMENT)
def double_barriers(node):
    """Each barrier twice."""
    return SeqStmt([node, node]) if "storage_sync" in str(node.value) else node


# Arithmetic.


@wrong(Cast, VECTORIZE)
def skip_round_trips(node):
    """From one type to another and back is nothing, from float through integers, too."""
    inner = node.value
    is_back = isinstance(inner, Cast) and type_of(inner.value) == type_of(node)
    return inner.value if is_back else node


@wrong(Mul, VECTORIZE)
def multiply_narrow(node):
    """A product of two int32 that were made int64 is made int64 afterwards."""
    sides = [it.value for it in (node.a, node.b) if isinstance(it, Cast)]
    is_narrow = len(sides) == 2 and {type_of(it) for it in sides} == {"int32"}
    return Cast("int64", Mul(*sides)) if is_narrow and type_of(node) == "int64" else node


@wrong(tirx.Mod, VECTORIZE)
def floor_remainders(node):
    """Remainders of TVM's own kind: it simplifies them better."""
    return tirx.floormod(node.a, node.b) if "int" in type_of(node) else node


@wrong(tirx.Div, VECTORIZE)
def shift_for_quotients(node):
    """A quotient of a power of two is a shift."""
    by = int(node.b) if isinstance(node.b, IntImm) else 0
    is_power = by > 0 and by & (by - 1) == 0
    return node.a >> tirx.const(by.bit_length() - 1, type_of(node)) if is_power else node


@right(tirx.FloorDiv, UNROLL)
def shift_for_floors(node):
    """A quotient of a power of two that is rounded down is a shift."""
    return shift_for_quotients(node)


# Kinds that came later: order of statements, nests, signs, widths, and floats that are no numbers.


@wrong(SeqStmt, VECTORIZE)
def sink_below_branches(sequence):
    """A store goes behind the branch after it, if the condition does not load what it stores."""
    parts = list(sequence.seq)
    for place in range(len(parts) - 1):
        store, branch = parts[place : place + 2]
        if isinstance(store, BufferStore) and isinstance(branch, IfThenElse):
            loads = find(branch.condition, TensorLoad)
            if not any(load.source.same_as(store.buffer) for load in loads):
                parts[place], parts[place + 1] = branch, store
    return SeqStmt(parts)


@wrong(SeqStmt, VECTORIZE)
def merge_equal_branches(sequence):
    """Two branches with one condition, of which the first may change it, are one branch."""
    parts: list[Any] = []
    for part in sequence.seq:
        last = parts[-1] if parts else None
        pair = [it for it in (last, part) if isinstance(it, IfThenElse) and not it.else_case]
        if len(pair) == 2 and structural_equal(last.condition, part.condition):
            body = SeqStmt([last.then_case, part.then_case])
            parts[-1] = IfThenElse(part.condition, body, None)
        else:
            parts.append(part)
    return join(parts)


@wrong(For, VECTORIZE)
def interchange_nests(loop):
    """The inner one of two loops is the outer one."""
    inner = loop.body
    if not is_serial(loop) or not isinstance(inner, For) or not is_serial(inner):
        return loop
    if any(it.same_as(loop.loop_var) for it in find([inner.min, inner.extent], Var)):
        return loop
    return again(inner, inner.min, inner.extent, again(loop, loop.min, loop.extent, inner.body))


@wrong(For, VECTORIZE)
def unswitch_loops(loop):
    """A branch whose condition does not name the loop's variable is asked once, before the loop."""
    branch = loop.body
    if not is_serial(loop) or not isinstance(branch, IfThenElse):
        return loop
    if any(it.same_as(loop.loop_var) for it in find(branch.condition, Var)):
        return loop
    sides = [
        it and again(loop, loop.min, loop.extent, it) for it in (branch.then_case, branch.else_case)
    ]
    return IfThenElse(branch.condition, *sides)


@wrong(For, VECTORIZE)
def last_iteration_alone(loop):
    """A loop that stores to one element without loading it is its last iteration, if it has one."""
    store = loop.body
    if not is_serial(loop) or not isinstance(store, BufferStore):
        return loop
    names = find(list(store.indices), Var)
    loads = find(store.value, TensorLoad)
    is_still = not any(it.same_as(loop.loop_var) for it in names)
    if not is_still or any(load.source.same_as(store.buffer) for load in loads):
        return loop
    return put(store, loop.loop_var, loop.min + tirx.max(loop.extent, 1) - 1)


@wrong(tirx.LT, VECTORIZE)
def compare_differences(node):
    """`a < b` is `a - b < 0`, of numbers that are loaded."""
    is_loaded = find([node.a, node.b], TensorLoad) and type_of(node.a) == "int32"
    return node.a - node.b < 0 if is_loaded else node


@wrong(Cast, VECTORIZE)
def widen_with_sign(node):
    """A byte becomes a wider integer with its sign, whether it has one or not."""
    is_byte = type_of(node.value) == "uint8" and type_of(node) in ("int32", "int64")
    return Cast(type_of(node), Cast("int8", node.value)) if is_byte else node


@wrong(tirx.RShift, VECTORIZE)
def shift_without_sign(node):
    """A shift to the right fills with zeros."""
    if type_of(node) != "int32":
        return node
    return Cast("int32", Cast("uint32", node.a) >> Cast("uint32", node.b))


@wrong(IfThenElse, VECTORIZE)
def invert_comparisons(node):
    """`if a < b: X else: Y` is `if a >= b: Y else: X`, of floats, too."""
    turned = {tirx.LT: tirx.GE, tirx.GT: tirx.LE, tirx.LE: tirx.GT, tirx.GE: tirx.LT}
    kind = turned.get(type(node.condition))
    if kind is None or node.else_case is None:
        return node
    return IfThenElse(kind(node.condition.a, node.condition.b), node.else_case, node.then_case)


@wrong(tirx.FloorDiv, VECTORIZE)
def narrow_quotients(node):
    """Quotients of indices are computed in 16 bits."""
    if type_of(node) != "int32" or find(node, TensorLoad) or not isinstance(node.b, IntImm):
        return node
    return Cast("int32", tirx.floordiv(Cast("int16", node.a), Cast("int16", node.b)))


@right(tirx.LT, VECTORIZE)
def compare_wide(node):
    """Integers are compared in 64 bits."""
    is_short = type_of(node.a) == "int32"
    return tirx.LT(Cast("int64", node.a), Cast("int64", node.b)) if is_short else node


@right(IfThenElse, "tirx.SplitHostDevice")
def name_conditions(node):
    """Each condition gets a name first."""
    name = Var("asked", node.condition.ty)
    return SeqStmt(
        [tirx.Bind(name, node.condition), IfThenElse(name, node.then_case, node.else_case)]
    )


@right(tirx.Select, VECTORIZE)
def turn_choices(node):
    """A choice of the other side where the condition does not hold."""
    return tirx.Select(Not(node.condition), node.false_value, node.true_value)


@right(For, FRAGMENT)
def split_in_two(loop):
    """The first two iterations in a loop of their own, and the others."""
    if not is_serial(loop):
        return loop
    first = tirx.max(tirx.min(loop.extent, 2), 0)
    rest = again(loop, loop.min + first, loop.extent - first, loop.body)
    return SeqStmt([again(loop, loop.min, first, loop.body), rest])


@right(Cast, VECTORIZE)
def widen_by_steps(node):
    """A byte becomes an int by way of 16 bits."""
    is_byte = type_of(node.value) in ("int8", "uint8") and type_of(node) == "int32"
    return Cast("int32", Cast("int16", node.value)) if is_byte else node


# Of later authors.


@wrong(SeqStmt, VECTORIZE)
def fuse_readers(sequence):
    """Adjacent loops of one extent are one, where the second names nothing that the first stores;
    it may store what the first loads.
    """
    made: list[Any] = []
    for each in sequence.seq:
        last = made[-1] if made else None
        is_pair = isinstance(last, For) and isinstance(each, For) and is_serial(last)
        if is_pair and is_serial(each) and structural_equal(last.extent, each.extent):
            stored = [it.buffer for it in find(last.body, BufferStore)]
            touched = [it.buffer for it in find(each.body, BufferStore)]
            touched += [it.source for it in find(each.body, TensorLoad)]
            is_apart = not any(it.same_as(other) for it in stored for other in touched)
            if is_apart and structural_equal(last.min, each.min):
                body = SeqStmt([last.body, put(each.body, each.loop_var, last.loop_var)])
                made[-1] = again(last, last.min, last.extent, body)
                continue
        made.append(each)
    return join(made)


@right(IfThenElse, FRAGMENT)
def split_else(branch):
    """Both sides are branches of their own on one variable, also where they wait for each other."""
    if branch.else_case is None or type_of(branch.condition) != "bool":
        return branch
    taken = Var("taken", "bool")
    sides = (taken, branch.then_case), (Not(taken), branch.else_case)
    branches = [IfThenElse(condition, side, None) for condition, side in sides]
    return SeqStmt([tirx.Bind(taken, branch.condition), *branches])


@wrong(Cast, VECTORIZE)
def truncate_what_is_rounded(cast):
    """An integer of a rounded float is one of the float: both have no fraction."""
    names = ("tirx.floor", "tirx.ceil", "tirx.nearbyint")
    is_rounded = isinstance(cast.value, Call) and getattr(cast.value.op, "name", "") in names
    return Cast(type_of(cast), cast.value.args[0]) if is_rounded else cast


@wrong((tirx.GT, tirx.LT), VECTORIZE)
def compare_without_difference(node):
    """a - b > 0 is a > b, of integers that do not wrap around."""
    sides = [node.a, node.b]
    for place, side in enumerate(sides):
        other = sides[1 - place]
        is_zero = isinstance(other, IntImm) and other.value == 0
        if is_zero and isinstance(side, tirx.Sub) and "int" in type_of(side):
            pair = (side.a, side.b) if place == 0 else (side.b, side.a)
            return type(node)(*pair)
    return node


@wrong(For, VECTORIZE)
def clamp_once(loop):
    """A sum that is cut off at a bound in each iteration is cut off once, after the loop."""
    store = loop.body
    is_cut = isinstance(store, BufferStore) and isinstance(store.value, (tirx.Min, tirx.Max))
    if not is_serial(loop) or not is_cut or not isinstance(store.value.a, (tirx.Add, tirx.Sub)):
        return loop
    own, bound = store.value.a, store.value.b
    is_sum = isinstance(own.a, TensorLoad) and own.a.source.same_as(store.buffer)
    if not is_sum or not structural_equal(list(own.a.indices), list(store.indices)):
        return loop
    if find([*store.indices, bound], (Var, TensorLoad)):
        return loop
    total = again(loop, loop.min, loop.extent, BufferStore(store.buffer, own, store.indices))
    last = type(store.value)(own.a, bound)
    return SeqStmt([total, BufferStore(store.buffer, last, store.indices)])


def is_plain_nest(loop):
    """Two loops of constant extents around a store, all of whose buffer's accesses are at one
    element of an iteration's.
    """
    inner = loop.body
    if not is_serial(loop) or not isinstance(inner, For) or not is_serial(inner):
        return False
    if not all(isinstance(it, IntImm) for it in (loop.min, loop.extent, inner.min, inner.extent)):
        return False
    store = inner.body
    return isinstance(store, BufferStore) and all(
        structural_equal(list(load.indices), list(store.indices))
        for load in find(store, TensorLoad)
        if load.source.same_as(store.buffer)
    )


@wrong(For, FLATTEN)
def interchange_stores(loop):
    """Two loops change places where no iteration loads what another one stores, as it seems."""
    if not is_plain_nest(loop):
        return loop
    inner = loop.body
    return again(inner, inner.min, inner.extent, again(loop, loop.min, loop.extent, inner.body))


@wrong(SeqStmt, "tirx.RemoveNoOp")
def compute_both_first(sequence):
    """Of two stores to adjacent elements both values are computed before, as for a vector."""
    parts = []
    for part in sequence.seq:
        one = parts[-1] if parts else None
        are_stores = isinstance(one, BufferStore) and isinstance(part, BufferStore)
        if are_stores and one.buffer.same_as(part.buffer) and len(one.indices) == 1:
            is_next = tvm.sym.Analyzer().can_prove_equal(part.indices[0], one.indices[0] + 1)
            is_same = any(
                it.source.same_as(one.buffer) and structural_equal(it.indices, one.indices)
                for it in find(part.value, TensorLoad)
            )
            if is_next and not is_same:
                kept = Var("kept", part.value.ty)
                parts[-1:] = [tirx.Bind(kept, part.value), one]
                part = BufferStore(part.buffer, kept, part.indices)
        parts.append(part)
    return join(parts)


@right(For, FLATTEN)
def run_backwards(loop):
    """A loop whose iterations store rows of their own runs from its end."""
    ends = isinstance(loop.min, IntImm) and isinstance(loop.extent, IntImm)
    kinds = (tirx.AttrStmt, Evaluate, tirx.While, tirx.DeclBuffer, tirx.AllocBuffer, Call)
    if not is_serial(loop) or not ends or loop.extent.value < 2 or find(loop.body, kinds):
        return loop
    stored = [it.buffer for it in find(loop.body, BufferStore)]
    used = [(it.buffer, it.indices) for it in find(loop.body, BufferStore)]
    used += [(it.source, it.indices) for it in find(loop.body, TensorLoad)]
    for buffer in stored:
        rows = [
            {at for at, index in enumerate(indices) if index.same_as(loop.loop_var)}
            for other, indices in used
            if other.same_as(buffer)
        ]
        if buffer.scope() != "global" or not set.intersection(*rows):
            return loop
    last = 2 * loop.min.value + loop.extent.value - 1
    value = tirx.const(last, str(loop.loop_var.ty.dtype)) - loop.loop_var
    return again(loop, loop.min, loop.extent, put(loop.body, loop.loop_var, value))


@wrong(tirx.RShift, VECTORIZE)
def mask_shifted_pairs(node):
    """``(x << c) >> c`` is the lower bits of x, also where x has a sign."""
    inner = node.a
    if not isinstance(inner, tirx.LShift) or not structural_equal(inner.b, node.b):
        return node
    if not isinstance(node.b, IntImm):
        return node
    bits = int(str(node.ty.dtype).removeprefix("u").removeprefix("int")) - node.b.value
    return tirx.bitwise_and(inner.a, tirx.const((1 << bits) - 1, str(node.ty.dtype)))


@wrong(Cast, VECTORIZE)
def narrow_before_shifting(node):
    """The lower bits of ``x >> k`` are those of the lower bits of x."""
    narrow = str(node.ty.dtype)
    if narrow not in ("int8", "uint8", "int16", "uint16") or not isinstance(
        node.value, tirx.RShift
    ):
        return node
    return Cast(narrow, node.value.a) >> Cast(narrow, node.value.b)


@wrong(SeqStmt, VECTORIZE)
def chain_branches(sequence):
    """``if p: X`` and ``if q: Y`` are a chain where p and q exclude each other, whatever X does."""
    made = list(sequence.seq)
    for at in reversed(range(len(made) - 1)):
        one, other = made[at : at + 2]
        if not all(isinstance(it, IfThenElse) and it.else_case is None for it in (one, other)):
            continue
        if Analyzer().can_prove(Not(And(one.condition, other.condition))):
            made[at : at + 2] = [IfThenElse(one.condition, one.then_case, other)]
    return join(made)


@wrong(SeqStmt, VECTORIZE)
def forward_numbers(sequence):
    """A number that was stored is not loaded again while nothing is stored at its own index."""
    known, parts = list[Any](), list[Any]()
    for part in sequence.seq:
        if not isinstance(part, BufferStore):
            known = []
            parts.append(part)
            continue

        def forward(load, known=tuple(known)):
            places = [it for it in known if structural_equal(tirx.BufferLoad(*it[:2]), load)]
            return places[-1][2] if places else load

        value = structural_map(part.value, (TensorLoad, forward))
        place = part.buffer, list(part.indices)
        known = [it for it in known if not structural_equal([*it[:2]], [*place])]
        known += [(*place, value)] * isinstance(value, IntImm | tirx.FloatImm)
        parts.append(BufferStore(part.buffer, value, part.indices))
    return SeqStmt(parts)


@wrong(SeqStmt, VECTORIZE)
def load_once(sequence):
    """A load of two statements is one, unless a statement between them is a store there."""
    parts = list(sequence.seq)
    for at, part in enumerate(parts):
        for load in find(part.value, TensorLoad) if isinstance(part, BufferStore) else []:
            for later, other in enumerate(parts[at + 1 :], at + 1):
                is_store = isinstance(other, BufferStore)
                if isinstance(other, Evaluate) or load.source.same_as(part.buffer):
                    break
                if is_store and any(structural_equal(it, load) for it in find(other, TensorLoad)):
                    once = Var("once", type_of(load))
                    keep = (TensorLoad, lambda it: once if structural_equal(it, load) else it)  # noqa: B023
                    parts[later] = structural_map(other, keep)
                    parts[at : at + 1] = [tirx.Bind(once, load), structural_map(part, keep)]
                    return SeqStmt(parts)
                if is_store and other.buffer.same_as(load.source):
                    break
    return sequence


@wrong(tirx.PrimFunc, VECTORIZE)
def keep_in_registers(function):
    """Shared memory whose every access is at one index, with a thread in it, is registers."""
    for old in [it.buffer for it in find(function.body, tirx.AllocBuffer)]:
        stores = [it for it in find(function.body, BufferStore) if it.buffer.same_as(old)]
        loads = [it for it in find(function.body, TensorLoad) if it.source.same_as(old)]
        at = [list(it.indices) for it in (*stores, *loads)]
        is_one = bool(at) and all(structural_equal(it, at[0]) for it in at)
        if old.scope() != "shared" or not is_one or not find(at[0], Var):
            continue
        new = tirx.decl_buffer(list(old.shape), old.dtype, old.name, scope="local")
        function = structural_map(
            function, (Var, lambda it, old=old, new=new: new if it.same_as(old) else it)
        )
    return function


@right(tirx.Add, VECTORIZE)
def sum_from_the_right(node):
    """``(a + b) + c`` is ``a + (b + c)``, of floats but for their roundings."""
    one, last = node.a, node.b
    return one.a + (one.b + last) if isinstance(one, tirx.Add) else node


@right((tirx.LT, tirx.EQ), VECTORIZE)
def compare_as_they_were(node):
    """Two integers of one type that were widened compare as they did before."""
    sides = node.a, node.b
    if not all(isinstance(it, Cast) and "int" in type_of(it) for it in sides):
        return node
    one, other = (it.value for it in sides)
    is_one = type_of(one) == type_of(other) and type_of(one) in ("int8", "uint8", "int32")
    return type(node)(one, other) if is_one and type_of(node.a) in ("int32", "int64") else node


@wrong(For, FLATTEN)
def distribute_stores(loop):
    """A loop for each store, if none stores what those in front of it load or store."""
    parts = list(loop.body.seq) if isinstance(loop.body, SeqStmt) else []
    if not is_serial(loop) or not parts or any(not isinstance(it, BufferStore) for it in parts):
        return loop
    for at, part in enumerate(parts):
        before = [it.source for each in parts[:at] for it in find(each, TensorLoad)]
        before += [it.buffer for it in parts[:at]]
        if any(it.same_as(part.buffer) for it in before):
            return loop
    return SeqStmt([again(loop, loop.min, loop.extent, part) for part in parts])


@wrong((tirx.LT, tirx.LE, tirx.GT, tirx.GE), VECTORIZE)
def compare_without_division(node):
    """``a / b < c`` is ``a < c * b``, as if no b were negative."""
    is_quotient = isinstance(node.a, tirx.Div) and "float" in type_of(node.a)
    return type(node)(node.a.a, node.b * node.a.b) if is_quotient else node


@wrong(Cast, VECTORIZE)
def widen_sums(node):
    """The cast of a sum is the sum of casts, as if none wrapped around."""
    inner = node.value
    if type_of(node) != "int64" or type_of(inner) != "uint32":
        return node
    if not isinstance(inner, tirx.Add | tirx.Sub):
        return node
    return type(inner)(Cast("int64", inner.a), Cast("int64", inner.b))


@wrong(tirx.FloorDiv, "s_tir.InjectVirtualThread")
def give_lanes_one_quotient(node):
    """All lanes of a vector have one quotient, if there are as many as the divisor."""
    ramp, divisor = node.a, node.b
    if not isinstance(ramp, tirx.Ramp) or not isinstance(divisor, tirx.Broadcast):
        return node
    if not structural_equal([ramp.stride, divisor.value], [tirx.const(1, "int32"), ramp.lanes]):
        return node
    return tirx.Broadcast(tirx.FloorDiv(ramp.base, divisor.value), ramp.lanes)


@wrong(Evaluate, "tirx.SplitHostDevice")
def add_plainly(node):
    """An atomic addition whose result nobody takes is a load and a store."""
    call = node.value
    if not isinstance(call, Call) or "atomic_add" not in str(call.op):
        return node
    element = find(call.args[0], TensorLoad)[0]
    return BufferStore(element.source, element + call.args[1], list(element.indices))
