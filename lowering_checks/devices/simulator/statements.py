"""Statements of TIR as functions that run them for all threads of a batch at once.

The threads run in step, one statement after the other, which threads that wait for others of the
same statements cannot do. Statements between barriers of the whole thread block that have named
barriers run for each warp by itself (`SimulatedGpu.run_apart`): until it waits, and then the next
one goes on. Those in which threads use what an atomic operation found run for one half of them, and
then for the other one, so that some are faster than others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import (
    AllocBuffer,
    And,
    Break,
    Broadcast,
    BufferStore,
    Continue,
    DeclBuffer,
    Evaluate,
    IfThenElse,
    Or,
    Ramp,
    SeqStmt,
    While,
    ceildiv,
)

from tirstep.transforms.gpu_limits import WARP
from tirstep.transforms.tir import THREAD_EXTENT, cached_by_node, constant, find_all, find_axes
from tirstep.tvm_compat import get_op_name

from ...device import THREAD_AXES, Array
from .async_copies import CP_ASYNC
from .atomics import ATOMICS, WAIT, report_endless
from .clusters import VECTOR_ACCESSES
from .expressions import BUILT_IN, Address, Window, restrict, translate, translate_index
from .flatten import is_allreduce
from .function_semantics import Threads, name_call
from .mbarriers import WAITS
from .memory import BufferKey, count_lanes, differ, get_numpy_dtype
from .named_barriers import NAMED_BARRIERS, PARTING
from .operators import as_stored, is_narrow
from .ptx_calls import has_results
from .run_state import IN_ORDER, OF_KERNELS, UnsupportedError, get_location
from .tcgen05 import TCGEN05
from .warp_shuffles import BLOCK_REDUCTIONS

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

SYNC, BLOCK = "tvm_storage_sync", ("shared", "shared.dyn")
"""The call of barriers, and the scopes of those of a thread block."""
MAX_ITERATIONS = 20_000
"""Most iterations of a while loop, which may wait forever."""
IS_LONG = "does not end within"
_ROUNDS = 64
"""Iterations of a loop that waits for other threads' stores, before these threads run."""
Execute = Callable[["SimulatedGpu", "Array | None"], None]


def translate_statement(node: Any) -> Execute:
    """The function of a statement. Raises `UnsupportedError` for an unknown kind of node."""
    kind = type(node).__name__
    maker = _MAKERS.get(kind)
    if maker is None:
        raise UnsupportedError(f"the simulator does not support the statement {kind}")
    run = maker(node)
    if _has_named_barriers(node) and (not _is_in_step(node) or _has_roles(node)):
        return lambda gpu, mask: gpu.run_apart(mask, run)
    if _uses_atomics(node) and not _is_in_step(node):
        # Functions of whole warps, of all that the simulator knows, leave warps together.
        is_single = get_names(node).isdisjoint(BUILT_IN.keys() - ATOMICS.keys())
        return lambda gpu, mask: gpu.run_apart(mask, run, halves_of=1 if is_single else WARP)
    return run


def _runs_apart(statement: Any) -> bool:
    """Whether it matters who comes first to what a statement does."""
    return _has_named_barriers(statement) or _uses_atomics(statement)


def _has_named_barriers(statement: Any) -> bool:
    """Whether warps wait for one another, at named barriers or in roles of their own."""
    names = get_names(statement)
    if WAIT in names or any(map(_spins, find_all(statement, While))):
        return True
    if _wait_in_roles(getattr(statement, "seq", ())):
        return True
    has_roles = not WAITS.keys().isdisjoint(names) and not TCGEN05.keys().isdisjoint(names)
    return has_roles or not NAMED_BARRIERS.keys().isdisjoint(names)


def _wait_in_roles(statements: Iterable[Any]) -> bool:
    """Whether several branches wait, one after the other: each may be a role of other warps."""
    branches = [it for it in statements if isinstance(it, IfThenElse)]
    return sum(not WAITS.keys().isdisjoint(get_names(it)) for it in branches) > 1


def _spins(loop: Any) -> bool:
    """Whether a loop asks for what other threads may store meanwhile."""
    own = {it.buffer for it in find_all(loop.body, BufferStore) if it.buffer.scope() == "local"}
    is_shared = _asks_others(loop.condition, own)
    return is_shared or not get_names(loop).isdisjoint(ATOMICS.keys() | VECTOR_ACCESSES.keys())


def _asks_others(condition: Any, own: set[Any]) -> bool:
    """Whether a condition of a loop asks for shared memory alone, and not for what the loop itself
    has in registers as well: that goes on without others, as a search does.
    """
    if isinstance(condition, And | Or):
        return any(_asks_others(side, own) for side in (condition.a, condition.b))
    asked = {it.source for it in find_all(condition, TensorLoad)}
    return any(str(it.scope()) not in ("local", "warp") for it in asked) and asked.isdisjoint(own)


def _uses_atomics(statement: Any) -> bool:
    """Whether threads use what an atomic operation of a statement has found."""
    if get_names(statement).isdisjoint(ATOMICS):
        return False
    unused = {node.value for node in find_all(statement, Evaluate)}
    found = [(call, name_call(call)) for call in find_all(statement, Call)]
    return any(has_results(it) or call not in unused for call, it in found if it in ATOMICS)


@cached_by_node(4096)
def get_names(statement: Any) -> frozenset[str]:
    """The names of the functions that a statement calls."""
    return frozenset(name_call(call) for call in find_all(statement, Call))


def _is_in_step(statement: Any) -> bool:
    """Whether all threads of a block must run a statement together."""
    if any(str(node.buffer.scope()) != "local" for node in find_all(statement, AllocBuffer)):
        return True
    if not BLOCK_REDUCTIONS.keys().isdisjoint(get_names(statement)):  # which have barriers in them
        return True
    return bool(find_axes(statement)) or any(map(is_barrier, find_all(statement, Call)))


def _has_roles(node: Any) -> bool:
    """Whether a branch has barriers of the block on both sides: warps come to them in roles."""
    if not isinstance(node, IfThenElse) or node.else_case is None:
        return False
    cases = [find_all(it, Call) for it in (node.then_case, node.else_case)]
    others = [it for it in find_all(node, AllocBuffer) if str(it.buffer.scope()) != "local"]
    return not others and all(any(map(is_barrier, calls)) for calls in cases)


def is_barrier(call: Any) -> bool:
    """Whether a call is a barrier of the thread block, of which PTX has number 0."""
    name = get_op_name(call)
    if name.endswith((".bar_sync", ".barrier_sync")):
        return constant(call.args[0]) == 0
    return name.endswith(".cta_sync") or (name.endswith(SYNC) and str(call.args[0].value) in BLOCK)


def _drop_exited(gpu: SimulatedGpu, mask: Any) -> Any:
    """The lanes of a mask whose threads have not returned, nor left the loop or the iteration that
    runs; False for none of them."""
    for gone in (gpu.state.exited, *(gpu.values.get(it) for it in _LEAVING)):
        if gone is not None and mask is not False:
            mask = restrict(mask, ~gone)
    return mask


_LEAVING = _BROKEN, _SKIPPED = -3, -4
"""Among the values of variables, the lanes that have left the loop, or the iteration, that runs."""
_LEAVE = {"break_loop": _BROKEN, "continue_loop": _SKIPPED}


def _leave(key: int) -> Execute:
    """Threads leave the innermost loop, or its iteration."""

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        np.logical_or(gpu.values[key], gpu.state.get_active(mask), out=gpu.values[key])

    return run


def _is_left(loop: Any) -> bool:
    """Whether threads may leave a loop, or an iteration of it."""
    leaves = any(find_all(loop.body, kind) for kind in (Break, Continue))
    return leaves or not _LEAVE.keys().isdisjoint(get_names(loop.body))


def _keep_account(run: Execute) -> Execute:
    """A loop that threads may leave, with who has left it."""

    def enter(gpu: SimulatedGpu, mask: Array | None) -> None:
        before = [gpu.values.get(key) for key in _LEAVING]
        for key in _LEAVING:
            gpu.values[key] = np.zeros(gpu.state.get_active(None).shape, bool)
        run(gpu, mask)
        gpu.values.update(zip(_LEAVING, before, strict=True))

    return enter


def _sequence(node: Any) -> Execute:
    parts: list[Any] = []
    segment: list[Any] = []  # neighbours between barriers of the block, which run apart together

    def end_segment() -> None:
        runs_apart = len(segment) > 1 and (
            any(map(_runs_apart, segment)) or _wait_in_roles(segment)
        )
        parts.extend([SeqStmt(segment)] if runs_apart else segment)
        segment.clear()

    is_split = _runs_apart(node) and _is_in_step(node)
    for statement in node.seq:
        is_bound = isinstance(statement, DeclBuffer) and not hasattr(statement.data, "dtype")
        if is_split and (is_bound or not isinstance(statement, AllocBuffer | DeclBuffer)):
            if not is_bound and not _is_in_step(statement):
                segment.append(statement)
                continue
            end_segment()
        parts.append(statement)  # a buffer is there before a segment
    end_segment()
    statements = [translate_statement(statement) for statement in parts]

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        left: Any = mask
        for statement in statements:
            statement(gpu, left)
            left = _drop_exited(gpu, left)
            if left is False:
                return

    return run


def _attribute(node: Any) -> Execute:
    inside = node.body
    if node.attr_key == THREAD_EXTENT:
        variable, axis = node.node.var, str(node.node.thread_tag)
        key, dtype = hash(variable), get_numpy_dtype(variable.ty.dtype)
        translated = functools.cache(lambda: translate_statement(inside))

        def enter(gpu: SimulatedGpu, mask: Array | None) -> None:
            if gpu.state.running is None:  # the host comes to the outermost one
                gpu.launch(node)
                return
            places = gpu.state.batch.coordinates.get(axis, np.zeros((1, 1), np.int32))
            gpu.values[key] = places.astype(dtype, copy=False)
            translated()(gpu, mask)

        return enter
    if is_allreduce(getattr(inside, "value", None)):
        body = _allreduce(inside.value, node.node)
    else:
        body = translate_statement(inside)
    if node.attr_key == "reduce_scope":

        def mute(gpu: SimulatedGpu, mask: Array | None) -> None:
            """TVM's own reduction: lanes that do not count shuffle what they never stored."""
            gpu.state.log.muted = "uninitialized read"
            body(gpu, mask)
            gpu.state.log.muted = ""

        return mute
    if node.attr_key == "async_commit_queue_scope":

        def commit(gpu: SimulatedGpu, mask: Array | None) -> None:
            """TVM's code generator closes a group of copies behind the body."""
            body(gpu, mask)
            gpu.get_queue(CP_ASYNC).commit(gpu.state.get_active(mask))

        return commit
    if node.attr_key == "async_wait_inflight_count":
        in_flight = translate(node.value)

        def wait(gpu: SimulatedGpu, mask: Array | None) -> None:
            """TVM's code generator waits in front of the body."""
            gpu.get_queue(CP_ASYNC).wait(gpu.state.get_active(mask), in_flight(gpu, mask))
            body(gpu, mask)

        return wait
    return body


def _allreduce(call: Any, reducer: Any) -> Execute:
    """Each thread, one after the other, combines what there is with its own values; all get the
    result. TVM has it as one call between LowerCrossThreadReduction and LowerThreadAllreduce; its
    last arguments are names of axes here.
    """
    count = int(call.args[0].value)
    values, condition = [translate(it) for it in call.args[1 : 1 + count]], call.args[1 + count]
    holds, results = translate(condition), list(call.args[2 + count : 2 + 2 * count])
    names = [getattr(axis, "value", None) for axis in call.args[2 + 2 * count :]]
    if not names or None in names or not all(isinstance(it, TensorLoad) for it in results):
        raise UnsupportedError("the interpreter does not support this reduction over threads")
    zeros = [translate(zero) for zero in reducer.identity_element]
    combine = [translate(result) for result in reducer.result]
    left, right = ([hash(variable) for variable in side] for side in (reducer.lhs, reducer.rhs))
    stores = [(BufferKey(it.source), translate(it.indices[0]), it.ty.dtype) for it in results]
    location = get_location(call)

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        batch, active = gpu.state.batch, gpu.state.get_active(mask)
        group, step = batch.block, np.zeros_like(batch.lane)  # a group is reduced, step by step
        for axis in THREAD_AXES[::-1]:
            if axis in gpu.state.extents:
                place, extent = batch.coordinates[axis], gpu.state.extents[axis]
                if axis in names:
                    step = step * extent + place
                else:
                    group = group * extent + place
        shape, taken = (batch.lanes, 1), holds(gpu, mask)
        empty = [zero(gpu, mask) for zero in zeros]
        own = [
            np.broadcast_to(np.where(taken, value(gpu, mask), zero), shape)
            for value, zero in zip(values, empty, strict=True)
        ]
        sums = [
            np.full((int(group.max()) + 1, 1), zero, get_numpy_dtype(dtype))
            for zero, (*_, dtype) in zip(empty, stores, strict=True)
        ]
        for number in np.unique(step[active]):
            lanes = np.flatnonzero(active & (step == number))
            groups = group[lanes, 0]
            gpu.values.update(zip(left, [it[groups] for it in sums], strict=True))
            gpu.values.update(zip(right, [it[lanes] for it in own], strict=True))
            for there, new in zip(sums, [each(gpu, None) for each in combine], strict=True):
                there[groups] = new
        for there, (key, index, _) in zip(sums, stores, strict=True):
            gpu.memories[key].store(index(gpu, mask), there[group[:, 0]], mask, location)

    return run


def _loop(node: Any) -> Execute:
    by = 1 if node.step is None else constant(node.step) or 0
    if by < 1:
        raise UnsupportedError(f"the simulator does not support loops with a step {node.step}")
    first, extent = (
        translate(node.min),
        translate(node.extent if by == 1 else ceildiv(node.extent, by)),
    )
    body, key = translate_statement(node.body), hash(node.loop_var)
    is_left = _is_left(node)

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        start, count = first(gpu, mask), extent(gpu, mask)
        is_uniform = not isinstance(count, np.ndarray)

        def run_iteration(step: int) -> None:
            running = _drop_exited(gpu, mask if is_uniform else restrict(mask, step < count))
            gpu.require_time()
            gpu.values[key] = start + step * by
            if running is not False:
                body(gpu, running)
            if is_left:
                gpu.values[_SKIPPED].fill(False)

        if (period := gpu.periods.get(node)) is not None:
            gpu.run_periodic(period, int(count), run_iteration)
            return
        for step in range(int(count if is_uniform else count.max())):
            run_iteration(step)

    return _keep_account(run) if is_left else run


def _while(node: Any) -> Execute:
    condition, body = translate(node.condition), translate_statement(node.body)
    location, spins, is_left = get_location(node), _spins(node), _is_left(node)
    stored = [it.buffer for it in find_all(node.body, BufferStore)]
    asked = [it.source for it in find_all(node.condition, TensorLoad)]
    is_alone = get_names(node).isdisjoint({SYNC, *BUILT_IN})
    is_private = all(it.source.scope() == "local" for it in find_all(node, TensorLoad))

    def look(gpu: SimulatedGpu, number: int) -> list[Any]:
        """What an iteration may change; a number for memory that nobody knows."""
        cells = (gpu.memories.get(BufferKey(it)) for it in (*stored, *asked))
        return [np.array(getattr(getattr(it, "base", it), "data", number)) for it in cells]

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        running: Any = mask
        for number in range(MAX_ITERATIONS):
            gpu.location = location
            running = restrict(running, condition(gpu, running))
            if running is False:
                return
            is_host, is_round = gpu.state.running is None, number % _ROUNDS == _ROUNDS - 1
            waits = spins and not is_host
            is_seen = waits or (is_round and is_alone and (is_host or is_private))
            before, progress = look(gpu, number) if is_seen else [], gpu.mbarriers.progress
            body(gpu, running)
            if is_left:
                gpu.values[_SKIPPED].fill(False)
            running = _drop_exited(gpu, running)
            if running is False:
                return
            if not is_seen:
                continue
            pairs = zip(before, look(gpu, number + 1), strict=True)
            is_new = progress != gpu.mbarriers.progress or any(differ(*it).any() for it in pairs)
            if is_new and waits and is_round:  # it may count how often it asks
                gpu.let_others_run(waits=False)
            if not is_new and not waits:
                told = "an iteration of a while loop changes nothing, and so do all after it"
                gpu.state.log.add_sentence("endless loop", told, location)
                return
            if not is_new and not gpu.let_others_run():
                threads = Threads(gpu, running, "while", location)
                report_endless(threads, running, "what a loop loads")
                return
        raise UnsupportedError(
            f"a while loop {IS_LONG} {MAX_ITERATIONS} iterations in the simulator, whose "
            "threads run in step"
        )

    return _keep_account(run) if is_left else run


def _branch(node: Any) -> Execute:
    condition, then = translate(node.condition), translate_statement(node.then_case)
    otherwise = None if node.else_case is None else translate_statement(node.else_case)
    called = [get_names(case) for case in (node.then_case, node.else_case) if case is not None]
    lanes_part, both_wait = (
        not any(each.isdisjoint(names) for each in called) for names in (PARTING, WAITS)
    )

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        holds = condition(gpu, mask)
        taken, left = restrict(mask, holds), restrict(mask, holds, wanted=False)
        if otherwise is not None and taken is not False and left is not False:
            if lanes_part:
                sides = {id(taken): then, id(left): otherwise}
                gpu.run_parts(lambda _, it: sides[id(it)](gpu, it), [taken, left], splits=True)
                return
            if both_wait:
                runs = [
                    functools.partial(then, gpu, taken),
                    functools.partial(otherwise, gpu, left),
                ]
                gpu.turns.run_together(runs)
                return
        if taken is not False:
            then(gpu, taken)
        if otherwise is not None and left is not False:
            otherwise(gpu, left)

    return run


def _store(node: Any) -> Execute:
    index, value = translate_index(node.buffer, node.indices), translate(node.value)
    key, location, statement = BufferKey(node.buffer), get_location(node), hash(node)
    is_one_place = isinstance(node.indices[0], Broadcast)  # of all lanes, of which the last stays
    # TVM's code generator makes a vector of a ramp alone.
    is_vector = count_lanes(node.indices[0].ty.dtype) == 1 or isinstance(
        Analyzer().simplify(node.indices[0]), Ramp
    )

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        gpu.location = location
        gpu.ran.add(statement)
        stored = value(gpu, mask)
        if is_one_place and np.ndim(stored):
            stored = stored[..., -1:]
        gpu.memories[key].store(index(gpu, mask), stored, mask, location, is_vector=is_vector)

    return run


def _bind(node: Any) -> Execute:
    value, key, dtype = (
        translate(node.value),
        hash(node.var),
        str(getattr(node.var.ty, "dtype", "")),
    )
    has_narrow = is_narrow(dtype)

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        bound = value(gpu, mask)
        bound = as_stored(bound, dtype) if has_narrow else bound
        gpu.values[key] = bound.copy() if isinstance(bound, np.ndarray) else bound

    return run


def _allocate(node: Any) -> Execute:
    buffer, of_kernels = node.buffer, OF_KERNELS in node.annotations
    return lambda gpu, mask: gpu.allocate(buffer, of_kernels=of_kernels)


def _declare(node: Any) -> Execute:
    """A view of another buffer, from its beginning."""
    buffer, data = node.buffer, translate(node.data)

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        address = data(gpu, mask)
        if isinstance(address, int | np.ndarray):  # of mapa
            dtype = get_numpy_dtype(buffer.dtype)
            window = Window(address, str(buffer.name), dtype, gpu.state)
            gpu.memories[BufferKey(buffer)] = window
            return
        is_begin = isinstance(address, Address) and isinstance(address.offset, int)
        if not is_begin or address.offset != 0:
            raise UnsupportedError(f"the simulator does not support the view {buffer.name}")
        gpu.declare(buffer, address)

    return run


def _return(gpu: SimulatedGpu, mask: Array | None) -> None:
    if gpu.state.running is None:
        raise UnsupportedError("the simulator does not support that the host returns early")
    gpu.state.exit_threads(mask)


def _evaluate(node: Any) -> Execute:
    call, location = node.value, get_location(node)
    name = getattr(getattr(call, "op", None), "name", "")
    if (key := _LEAVE.get(name.removeprefix("tirx."))) is not None:
        return _leave(key)
    if name.endswith("thread_return"):
        return _return
    if isinstance(call, Call) and is_barrier(call):
        return lambda gpu, mask: gpu.pass_barrier(mask, location)
    if name.endswith(SYNC):
        scope = str(call.args[0].value)
        if scope == IN_ORDER:
            return lambda gpu, mask: gpu.begin_interval()
        if scope == "warp":  # of which TVM's code generator makes nothing
            return lambda gpu, mask: None
        raise UnsupportedError(f"the simulator does not support barriers of scope '{scope}'")
    value = translate(call)

    def run(gpu: SimulatedGpu, mask: Array | None) -> None:
        gpu.location = location
        value(gpu, mask)

    return run


_MAKERS: dict[str, Callable[[Any], Execute]] = {
    "SeqStmt": _sequence,
    "AttrStmt": _attribute,
    "For": _loop,
    "While": _while,
    "IfThenElse": _branch,
    "BufferStore": _store,
    "Bind": _bind,
    "Return": lambda node: _return,
    "Break": lambda node: _leave(_BROKEN),
    "Continue": lambda node: _leave(_SKIPPED),
    "AllocBuffer": _allocate,
    "DeclBuffer": _declare,
    "Evaluate": _evaluate,
}
