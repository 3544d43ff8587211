"""Passes that drop barriers which TVM puts in and which order nothing, and what they read for it.

TVM's ThreadSync puts a barrier between a read of shared memory and a later write of the same
buffer. In a software pipeline the two touch different slots of a buffer that was made several
times as large, ``(k % 2) * n + i`` and ``((k + 1) % 2) * n + j``, and one of the two barriers in
the loop is for nothing. The pass proves that the slots differ, and drops that one.

`Uses` has the loads and stores of a lowered function, with the loops, threads and guards around
each; which slot an access touches is read off its indices (`find_slot`).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import tvm_ffi
from tvm.ir import Call, Op, PointerType, Range, TensorLoad
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import (
    AllocBuffer,
    And,
    AttrStmt,
    Bind,
    Break,
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
)
from tvm.tirx.analysis import undefined_vars
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
    is_choice,
    is_used,
    substitute,
)

SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class Slot:
    """Cells ``((k + shift) % count) * size`` up to the next slot, with k the loop's variable."""

    shift: int
    count: int
    size: int

    def never_meets(self, other: Slot) -> bool:
        """Whether two accesses of one buffer are in different slots at every iteration."""
        if (self.count, self.size) != (other.count, other.size):
            return False
        return (self.shift - other.shift) % self.count != 0


@dataclass(frozen=True)
class Variables:
    """What is known of a function's variables: values that are bound, ranges of loops and threads.

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


def find_slot(indices: Any, loop: For, variables: Variables, *, ahead: int = 0) -> Slot | None:
    """The slot of an access in a loop, read off the one term in which the loop's variable stands.

    None where the access may be anywhere. `ahead` is the number of iterations by which it is later.
    """
    ends = _find_ends(variables.expand(indices[0])) if len(indices) == 1 else []
    if not ends:
        return None
    terms = [node for node in find_all(ends[0], FloorMod) if is_used(loop.loop_var, node)]
    if not terms or not all(tvm_ffi.structural_equal(node, terms[0]) for node in terms):
        return None
    count = constant(terms[0].b)
    steps = detect_linear_equation(terms[0].a, [loop.loop_var])
    shift = constant(steps[1]) if len(steps) == 2 and constant(steps[0]) == 1 else None
    if count is None or count < 1 or shift is None:
        return None
    sizes = {_find_size(end, terms[0], loop, variables) for end in ends}
    size = sizes.pop()
    return Slot(shift + ahead, count, size) if size is not None and not sizes else None


def _find_ends(index: Any) -> list[Any]:
    """The first and the last index of an access; nothing for vectors of another form."""
    if isinstance(index, Ramp):
        lanes = constant(index.lanes)
        return [] if lanes is None else [index.base, index.base + index.stride * (lanes - 1)]
    return [index] if index.ty.dtype.lanes == 1 else []


def _find_size(index: Any, term: FloorMod, loop: For, variables: Variables) -> int | None:
    """The size of a slot, where an index is ``term * size`` and a rest that is less than that."""
    place = Var("slot", str(term.ty.dtype))
    named = structural_map(
        index, (FloorMod, lambda node: place if tvm_ffi.structural_equal(node, term) else node)
    )
    linear = detect_linear_equation(named, [place])
    size = constant(linear[0]) if len(linear) == 2 else None
    if size is None or size < 1 or is_used(loop.loop_var, linear[1]):
        return None
    return size if variables.is_within(linear[1], size) else None


def _keep_unanimous(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    kept: dict[Any, Any] = {}
    doubtful = set()
    for variable, value in pairs:
        if not tvm_ffi.structural_equal(kept.setdefault(variable, value), value):
            doubtful.add(variable)
    return {variable: value for variable, value in kept.items() if variable not in doubtful}


def is_barrier(statement: Any) -> bool:
    """Whether a statement lets the threads of a GPU block wait for each other."""
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
    """What a function does to memory, in program order.

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
    walk = _Walk(Variables.of(function))
    walk.visit(function.body, (), ())
    return walk.found


class _Walk:
    def __init__(self, variables: Variables) -> None:
        self.found = Uses()
        self._variables = variables
        self._place = 0
        self._launch = 0
        self._is_inside = False

    def visit(self, node: Any, loops: tuple[For, ...], guards: tuple[Any, ...]) -> None:
        """Note what a statement does."""
        if isinstance(node, For):
            begin = self._place
            self.visit(node.body, (*loops, node), guards)
            self.found.spans[node] = (begin, self._place)
        elif isinstance(node, IfThenElse):
            self._note_loads(node.condition, node, loops, guards)
            condition = self._variables.expand(node.condition)
            self.visit(node.then_case, loops, (*guards, *get_operands(condition, And)))
            if node.else_case is not None:
                self.visit(node.else_case, loops, (*guards, Not(condition)))
        elif isinstance(node, AttrStmt):
            self._visit_attribute(node, loops, guards)
        elif getattr(node, "seq", None) is not None:
            for part in node.seq:
                self.visit(part, loops, guards)
        else:
            if is_barrier(node):
                self.found.barriers.append(self._place)
            else:
                self._note_loads(node, node, loops, guards)
                if isinstance(node, BufferStore):
                    self._note(node, node, loops, guards)
            self._place += 1

    def _visit_attribute(
        self, node: AttrStmt, loops: tuple[For, ...], guards: tuple[Any, ...]
    ) -> None:
        is_thread = node.attr_key == THREAD_EXTENT
        is_launch = is_thread and not self._is_inside
        if is_launch:
            self._is_inside = True
            self._launch += 1
            self.found.threads[self._launch] = {}
            self.found.outer[self._launch] = len(loops)
        if is_thread and str(node.node.thread_tag).startswith("threadIdx"):
            self.found.threads[self._launch][node.node.var] = constant(node.value) or 1
        self.visit(node.body, loops, guards)
        if is_launch:
            self._is_inside = False

    def _note_loads(
        self, node: Any, statement: Any, loops: tuple[For, ...], guards: tuple[Any, ...]
    ) -> None:
        loads = find_all(node, TensorLoad)
        choices = [call for call in find_all(node, Call) if is_choice(call)] if loads else []
        for load in loads:
            conditions = []
            for call in choices:
                for case, holds in ((call.args[1], True), (call.args[2], False)):
                    if any(load.same_as(item) for item in find_all(case, TensorLoad)):
                        condition = self._variables.expand(call.args[0])
                        conditions.append(condition if holds else Not(condition))
            self._note(load, statement, loops, (*guards, *conditions))
        self._place += 1

    def _note(
        self, node: Any, statement: Any, loops: tuple[For, ...], guards: tuple[Any, ...]
    ) -> None:
        is_write = isinstance(node, BufferStore)
        expanded = tuple(self._variables.expand(index) for index in node.indices)
        self.found.uses.append(
            Use(
                node.buffer if is_write else node.source,
                expanded,
                self._variables.expand(node.value) if is_write else None,
                loops,
                guards,
                self._place,
                self._launch if self._is_inside else 0,
                statement,
            )
        )


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

    def rewrite(sequence: Any) -> Any:
        parts = list(sequence.seq)
        changed = False
        for place, part in enumerate(parts):
            following = next((each for each in parts[place + 1 :] if not _is_quiet(each)), None)
            if _is_counted(part) and is_barrier(following):
                kept = _drop_in_loop(part, variables)
                changed = changed or not kept.same_as(part)
                parts[place] = kept
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
        return SeqStmt(kept) if len(kept) > 1 else kept[0]

    body = structural_map(function.body, (SeqStmt, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)


def is_proxy_fence(statement: Any) -> bool:
    """Whether a statement is ``fence.proxy.async``, which touches no memory."""
    call = getattr(statement, "value", None)
    return isinstance(call, Call) and get_op_name(call) == _PROXY_FENCE


def _is_quiet(statement: Any) -> bool:
    """Whether a statement touches no memory."""
    if isinstance(statement, Bind):
        return is_transparent(statement) and not find_all(statement, TensorLoad)
    return isinstance(statement, AllocBuffer)


def _is_counted(statement: Any) -> bool:
    """Whether a statement is a loop whose iterations run one after the other, in steps of one."""
    if not isinstance(statement, For):
        return False
    step = 1 if statement.step is None else constant(statement.step)
    return statement.kind in (ForKind.SERIAL, ForKind.UNROLLED) and step == 1


def _drop_in_loop(loop: For, variables: Variables) -> For:
    old = list(loop.body.seq) if isinstance(loop.body, SeqStmt) else [loop.body]
    parts = list(old)
    if not all(is_barrier(part) or is_transparent(part) for part in parts):
        return loop  # among others, where a barrier stands deeper inside
    while (place := _find_redundant(parts, loop, variables)) is not None:
        del parts[place]
    if len(parts) == len(old):
        return loop
    return edit_loop(loop, body=SeqStmt(parts) if len(parts) > 1 else parts[0])


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


@dataclass(frozen=True)
class SharedAccess:
    """One access of a buffer in a loop.

    Attributes
    ----------
    slot : None where it may be anywhere in the buffer
    is_lasting : whether the buffer is there before and after the loop; TVM may put two others into
        the same memory
    """

    buffer: Any
    is_write: bool
    slot: Slot | None
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
        return (
            self.slot is not None and other.slot is not None and self.slot.never_meets(other.slot)
        )


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
    return not any(key.startswith("async_") for key in keys) and not any(
        _is_opaque(call) for call in find_all(statement, Call)
    )


def _is_opaque(call: Any) -> bool:
    is_pointer = isinstance(call.ty, PointerType) or find_buffer_arguments(call)
    if is_pointer or not isinstance(call.op, Op):
        return True
    if not call.op.has_attr("TCallEffectKind"):
        return True
    return int(call.op.get_attr("TCallEffectKind")) not in HARMLESS
