"""Passes that drop barriers which TVM puts in and which order nothing, and what they read for it.

TVM's ThreadSync puts a barrier between a read of shared memory and a later write of the same
buffer. In a software pipeline the two touch different slots of a buffer that was made several
times as large, ``(k % 2) * n + i`` and ``((k + 1) % 2) * n + j``, and one of the two barriers in
the loop is for nothing. The pass proves that the slots differ, and drops that one.

`Uses` has the loads and stores of a lowered function, with the loops, threads and guards around
each; which slot an access touches is read off its indices (`find_slot`). `PointInOwnTypes` lets
pointers into shared memory keep their types where memory changed hands.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import tvm_ffi
from tvm.ir import Call, Op, PointerType, Range, TensorLoad
from tvm.script import tirx as T
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import (
    AllocBuffer,
    And,
    AttrStmt,
    Bind,
    Break,
    BufferLoad,
    BufferStore,
    CallEffectKind,
    Continue,
    DeclBuffer,
    Evaluate,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    Not,
    Ramp,
    Return,
    SeqStmt,
    Var,
    decl_buffer,
    stmt_seq,
)
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.stmt import stmt_list
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from tirstep.tvm_compat import find_buffer_arguments, get_op_name

from ..rewriting import edit_loop
from ..tir import (
    THREAD_EXTENT,
    constant,
    find_all,
    find_axes,
    get_operands,
    is_among,
    is_choice,
    is_used,
    substitute,
)

SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class Variables:
    """Known facts of a function's variables: bound values, ranges of loops and threads.

    TVM's passes may leave one variable with two values or two ranges: then neither is known.
    `conditions` hold where an access stands.
    """

    values: dict[Any, Any]
    ranges: dict[Any, Range]
    conditions: tuple[Any, ...] = ()

    @staticmethod
    def of(function: Any) -> Variables:
        """The variables of a lowered function."""
        body = function.body
        bound = [(node.var, node.value) for node in find_all(body, Bind)]
        ranges = [
            (node.loop_var, Range.from_min_extent(node.min, node.extent))
            for node in find_all(body, For)
        ]
        ranges += [
            (node.node.var, Range.from_min_extent(0, node.value)) for node in find_axes(body)
        ]
        return Variables(_keep_unanimous(bound), _keep_unanimous(ranges))

    def under(self, conditions: list[Any]) -> Variables:
        """The same where conditions hold, too."""
        return replace(self, conditions=tuple(map(self.expand, conditions)))

    def expand(self, index: Any) -> Any:
        """The index with bound variables replaced by what they stand for."""
        while self.values and any(var in self.values for var in undefined_vars(index)):
            index = substitute(index, self.values)
        return index

    def is_within(self, rest: Any, size: int) -> bool:
        """Whether an expression is at least 0 and below a size, always."""
        analyzer = Analyzer()
        for variable in undefined_vars(rest):
            if variable in self.ranges:
                analyzer.bind(variable, self.ranges[variable])
        with ExitStack() as stack:
            for condition in self.conditions:
                stack.enter_context(analyzer.constraint_scope(condition))
            return bool(analyzer.can_prove(rest >= 0) and analyzer.can_prove(rest < size))


def find_slot(
    indices: Any, loop: For, variables: Variables, *, ahead: int = 0
) -> tuple[int, int, int] | None:
    """The slot of an access in a loop, read off the one term in which the loop's variable stands.

    It is cells ``((k + shift) % slots) * size`` up to the next slot, with k the variable: shift,
    slots and size. None where the access may be anywhere. `ahead` is the number of iterations by
    which it is later.
    """
    if len(indices) != 1:
        return None
    index = variables.expand(indices[0])
    ends = [index]
    if isinstance(index, Ramp):  # the first and the last index of a vector
        last = index.stride * ((constant(index.lanes) or 0) - 1)
        ends = [index.base, index.base + last] if constant(index.lanes) is not None else []
    elif index.ty.dtype.lanes != 1:
        ends = []
    modulos = find_all(ends[0], FloorMod) if ends else []
    terms = [node for node in modulos if is_used(loop.loop_var, node)]
    if not terms or not all(tvm_ffi.structural_equal(it, terms[0]) for it in terms):
        return None
    term = terms[0]
    count, steps = constant(term.b), detect_linear_equation(term.a, [loop.loop_var])
    shift = constant(steps[1]) if len(steps) == 2 and constant(steps[0]) == 1 else None
    if count is None or count < 1 or shift is None:
        return None
    # Each end is ``term * size`` and a rest that is less than the size.
    place, sizes = Var("slot", str(term.ty.dtype)), set[int]()
    for end in ends:
        named = structural_map(
            end, (FloorMod, lambda node: place if tvm_ffi.structural_equal(node, term) else node)
        )
        linear = detect_linear_equation(named, [place])
        size = constant(linear[0]) if len(linear) == 2 else None
        if size is None or size < 1 or is_used(loop.loop_var, linear[1]):
            return None
        if not variables.is_within(linear[1], size):
            return None
        sizes.add(size)
    return (shift + ahead, count, size) if size is not None and len(sizes) == 1 else None


def _keep_unanimous(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    kept: dict[Any, Any] = {}
    doubtful = set()
    for variable, value in pairs:
        if not tvm_ffi.structural_equal(kept.setdefault(variable, value), value):
            doubtful.add(variable)
    return {variable: value for variable, value in kept.items() if variable not in doubtful}


def is_barrier(statement: Any) -> bool:
    """Whether a statement lets the threads of a thread block wait for each other."""
    if not isinstance(statement, Evaluate):
        return False
    call = statement.value
    name = str(getattr(getattr(call, "op", None), "name", ""))
    return name.endswith("tvm_storage_sync") and str(call.args[0].value) in SHARED


class Use(NamedTuple):
    """A load or a store of one element, or of a vector.

    Attributes
    ----------
    indices, guards : in variables of loops and threads alone
    value : what is stored; None for a load
    loops : those on the host, too
    place : its number in program order; a statement's loads come before its store
    launch : the number of the kernel that it is in; 0 outside
    statement : that it stands in
    """

    buffer: Any
    indices: tuple[Any, ...]
    value: Any
    loops: tuple[For, ...]
    guards: tuple[Any, ...]
    place: int
    launch: int
    statement: Any

    @property
    def is_write(self) -> bool:
        """Whether it stores."""
        return self.value is not None


@dataclass
class Uses:
    """The memory accesses of a function, in program order.

    Attributes
    ----------
    barriers : their places
    spans : the first place in a loop, and the first one behind it
    threads : of each kernel, the variables of its threads and how many values they have
    outer : of each kernel, how many loops on the host are around it
    """

    uses: list[Use] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    spans: dict[For, tuple[int, int]] = field(default_factory=dict)
    threads: dict[int, dict[Any, int]] = field(default_factory=dict)
    outer: dict[int, int] = field(default_factory=dict)

    def has_barrier(self, begin: int, end: int) -> bool:
        """Whether there is a barrier from one place on, before another one."""
        return any(begin <= place < end for place in self.barriers)


def find_uses(function: Any) -> Uses:
    """The loads and stores of a function without blocks."""
    variables, found = Variables.of(function), Uses()
    place = launch = 0

    def note(node: Any, statement: Any, loops: tuple[For, ...], guards: tuple[Any, ...]) -> None:
        is_write, expand = isinstance(node, BufferStore), variables.expand
        buffer, value = (node.buffer, expand(node.value)) if is_write else (node.source, None)
        indices = tuple(map(expand, node.indices))
        found.uses.append(Use(buffer, indices, value, loops, guards, place, launch, statement))

    def note_loads(
        node: Any, statement: Any, loops: tuple[For, ...], guards: tuple[Any, ...]
    ) -> None:
        nonlocal place
        loads = find_all(node, TensorLoad)
        choices = [call for call in find_all(node, Call) if is_choice(call)] if loads else []
        for load in loads:
            conditions = []
            for call in choices:
                for case, holds in ((call.args[1], True), (call.args[2], False)):
                    if is_among(load, find_all(case, TensorLoad)):
                        condition = variables.expand(call.args[0])
                        conditions.append(condition if holds else Not(condition))
            note(load, statement, loops, (*guards, *conditions))
        place += 1

    def visit(node: Any, loops: tuple[For, ...], guards: tuple[Any, ...]) -> None:
        nonlocal place, launch
        if isinstance(node, For):
            begin = place
            visit(node.body, (*loops, node), guards)
            found.spans[node] = (begin, place)
        elif isinstance(node, IfThenElse):
            note_loads(node.condition, node, loops, guards)
            condition = variables.expand(node.condition)
            visit(node.then_case, loops, (*guards, *get_operands(condition, And)))
            if node.else_case is not None:
                visit(node.else_case, loops, (*guards, Not(condition)))
        elif isinstance(node, AttrStmt):
            outer, is_thread = launch, node.attr_key == THREAD_EXTENT
            if is_thread and not launch:
                launch = len(found.threads) + 1
                found.threads[launch], found.outer[launch] = {}, len(loops)
            if is_thread and str(node.node.thread_tag).startswith("threadIdx"):
                found.threads[launch][node.node.var] = constant(node.value) or 1
            visit(node.body, loops, guards)
            launch = outer
        elif getattr(node, "seq", None) is not None:
            for part in node.seq:
                visit(part, loops, guards)
        else:
            if is_barrier(node):
                found.barriers.append(place)
            else:
                note_loads(node, node, loops, guards)
                if isinstance(node, BufferStore):
                    note(node, node, loops, guards)
            place += 1

    visit(function.body, (), ())
    return found


_PROXY_FENCE = "tirx.ptx.fence_proxy"
HARMLESS = (CallEffectKind.ExprAnnotation.value, CallEffectKind.Pure.value)


@prim_func_pass(opt_level=0, name="tirstep.DropRedundantBarriers")
def DropRedundantBarriers(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Drop each barrier inside of a loop that separates accesses of different slots only.

    A barrier is dropped if another one stands before it in the same loop, one follows the loop
    directly, and no access between that one and this can touch a cell that is accessed between
    this one and the next, which may stand in the next iteration. It stays where one of these
    statements does more than to load and store (`is_transparent`), and in a function in which
    shared memory has two names.

    rewrite: ``for k: barrier; read(slot k); barrier; write(slot k + 1)`` ->
        ``for k: barrier; read(slot k); write(slot k + 1)``
    """
    # Whether a piece of shared memory has two names.
    buffers = [node.buffer for node in find_all(function.body, DeclBuffer)]
    if any(str(buffer.scope()) in SHARED for buffer in buffers):
        return function
    variables = Variables.of(function)

    def is_quiet(statement: Any) -> bool:  # which touches no memory
        if isinstance(statement, Bind):
            return is_transparent(statement) and not find_all(statement, TensorLoad)
        return isinstance(statement, AllocBuffer)

    def rewrite(sequence: Any) -> Any:
        parts = list(sequence.seq)
        changed = False
        for place, part in enumerate(parts):
            following = next((each for each in parts[place + 1 :] if not is_quiet(each)), None)
            if not isinstance(part, For) or not is_barrier(following):
                continue
            step = 1 if part.step is None else constant(part.step)
            if part.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or step != 1:
                continue  # iterations that do not run one after the other, in steps of one
            old = stmt_list(part.body)
            kept = [*old] if all(is_barrier(it) or is_transparent(it) for it in old) else []
            while (at := _find_redundant(kept, part, variables)) is not None:
                del kept[at]  # none where a barrier stands deeper inside, among others
                changed, parts[place] = True, edit_loop(part, body=stmt_seq(*kept))
        return SeqStmt(parts) if changed else sequence

    body = structural_map(function.body, (SeqStmt, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)


@prim_func_pass(opt_level=0, name="tirstep.DropDoubledBarriers")
def DropDoubledBarriers(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Drop each barrier that another one follows with nothing but fences in between.

    TVM puts one behind each wait for asynchronous copies, and what wgmma needs is one of its own
    behind a fence that all threads pass: the second orders all that the first does.

    rewrite: ``wait; barrier; fence.proxy.async; barrier`` -> ``wait; fence.proxy.async; barrier``
    """

    def rewrite(sequence: Any) -> Any:
        parts = list(sequence.seq)
        kept: list[Any] = []
        following: Any = None  # the next statement that is no fence
        for part in reversed(parts):
            if not (is_barrier(part) and is_barrier(following)):
                kept.insert(0, part)
            following = following if is_proxy_fence(part) else part
        if len(kept) == len(parts):
            return sequence
        return stmt_seq(*kept)

    body = structural_map(function.body, (SeqStmt, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)


def is_proxy_fence(statement: Any) -> bool:
    """Whether a statement is ``fence.proxy.async``, which touches no memory."""
    call = getattr(statement, "value", None)
    return isinstance(call, Call) and get_op_name(call) == _PROXY_FENCE


def _find_redundant(parts: list[Any], loop: For, variables: Variables) -> int | None:
    """The place of a barrier that can go; the first of the loop always stays."""
    barriers = [place for place, part in enumerate(parts) if is_barrier(part)]
    for number, place in enumerate(barriers[1:], start=1):
        last = number + 1 == len(barriers)
        before = parts[barriers[number - 1] + 1 : place]
        after = parts[place + 1 : len(parts) if last else barriers[number + 1]]
        again = parts[: barriers[0]] if last else []
        now = find_shared_accesses(before, loop, variables)
        later = [
            *find_shared_accesses(after, loop, variables),
            *find_shared_accesses(again, loop, variables, ahead=1),
        ]
        if all(item.is_harmless_with(other) for item in now for other in later):
            return place
    return None


class SharedAccess(NamedTuple):
    """One access of a buffer in a loop.

    Attributes
    ----------
    slot : as `find_slot` has it
    is_lasting : whether the buffer is there before and after the loop; TVM may put two others into
        the same memory
    """

    buffer: Any
    is_write: bool
    slot: tuple[int, int, int] | None
    is_lasting: bool

    def is_harmless_with(self, other: SharedAccess) -> bool:
        """Whether two threads may make these accesses in any order."""
        if not (self.is_write or other.is_write):
            return True
        mine, others = (str(item.buffer.scope()) in SHARED for item in (self, other))
        if not (mine and others):
            return mine != others  # arguments in global memory may be one and the same
        if not self.buffer.same_as(other.buffer):
            return self.is_lasting and other.is_lasting
        if self.slot is None or other.slot is None or self.slot[1:] != other.slot[1:]:
            return False
        return (self.slot[0] - other.slot[0]) % self.slot[1] != 0


def find_shared_accesses(
    statements: list[Any], loop: For, variables: Variables, *, ahead: int = 0
) -> list[SharedAccess]:
    """The accesses in statements of a loop, `ahead` iterations later; registers are left out."""
    local = [node.buffer for node in find_all(loop, AllocBuffer)]
    found = []
    for statement in statements:
        loads = [(node.source, node, False) for node in find_all(statement, TensorLoad)]
        stores = [(node.buffer, node, True) for node in find_all(statement, BufferStore)]
        branches = [
            (node.condition, node.then_case)
            for node in find_all(statement, IfThenElse)
            if not find_all(node.condition, TensorLoad)  # which may be another value by then
        ]
        for buffer, node, is_write in [*loads, *stores]:
            if str(buffer.scope()) != "local":
                holding = [
                    condition
                    for condition, case in branches
                    if any(node.same_as(other) for other in find_all(case, type(node)))
                ]
                slot = find_slot(node.indices, loop, variables.under(holding), ahead=ahead)
                is_lasting = not any(buffer.same_as(other) for other in local)
                found.append(SharedAccess(buffer, is_write, slot, is_lasting))
    return found


def is_transparent(statement: Any) -> bool:
    """Whether loads and stores are all that a statement does to memory.

    It is not where something asynchronous begins or is waited for, where control leaves the loop,
    and where a call takes a pointer or may do anything.
    """
    if any(find_all(statement, kind) for kind in (Break, Continue, Return)):
        return False
    keys = [str(node.attr_key) for node in find_all(statement, AttrStmt)]
    if any(key.startswith("async_") for key in keys):
        return False
    for call in find_all(statement, Call):
        is_known = isinstance(call.op, Op) and call.op.has_attr("TCallEffectKind")
        if isinstance(call.ty, PointerType) or find_buffer_arguments(call) or not is_known:
            return False
        if int(call.op.get_attr("TCallEffectKind")) not in HARMLESS:
            return False
    return True


@prim_func_pass(opt_level=0, name="tirstep.PointInOwnTypes")
def PointInOwnTypes(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Point into memory of another type by an element of a buffer of the pointer's own type.

    TVM's StorageRewrite gives a buffer the memory of another one that is used no more, whatever its
    type, and TVM then lowers no access pointer that has the type of the first. It runs behind the
    passes that put barriers in, which ask what a pointer is for.

    rewrite: ``call(pointer of bfloat16 to A[n])`` of A in int8 ->
        ``A_as_bfloat16 = bfloat16 buffer at A; call(address of A_as_bfloat16[n])``
    """
    allocated = [node.buffer for node in find_all(function.body, AllocBuffer)]
    shared = [buffer for buffer in allocated if str(buffer.scope()) in SHARED]

    def rewrite(statement: Any) -> Any:
        declared: list[Any] = []

        def point(call: Any) -> Any:
            if get_op_name(call) != "tirx.tvm_access_ptr":
                return call
            at = call.args[1]  # a buffer, or its data
            owners = (
                it for it in shared if at.same_as(it) or tvm_ffi.structural_equal(at, it.data)
            )
            owner = next(owners, None)
            dtype = str(call.args[0].ty.dtype)
            if owner is None or str(owner.dtype) == dtype:
                return call
            bits = (constant(owner.shape[0]) or 1) * owner.dtype.bits
            alias = decl_buffer(
                (bits // call.args[0].ty.dtype.bits,),
                dtype,
                f"{owner.name}_as_{dtype}",
                data=owner.data,
                scope=str(owner.scope()),
            )
            declared.append(DeclBuffer(alias, data=owner.data))
            return T.address_of(BufferLoad(alias, [call.args[2]]))

        made = structural_map(statement, (Call, point))
        return SeqStmt([*declared, made]) if declared else statement

    body = structural_map(function.body, (Evaluate, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)
