"""Faults of known kinds, planted in small programs: whether the checks themselves see them.

A check that has gone blind says that all is good. What `find_blind_checks` runs takes some tenths
of a second, and covers the bound of errors, NaN and what nobody writes, whole numbers, races,
copies in flight, stores out of bounds and the memory that a GPU has; and the proofs of our own
passes, and refusals (`self_test_transforms`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import tvm
import tvm_ffi
from tvm import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import from_source

from tirstep.modules import Problem, matmul, softmax, vector_add
from tirstep.transforms import TransformError, bind_loop, cache_write_at, split_loop
from tirstep.transforms.decorators import composite
from tirstep.transforms.passes.barriers import DropRedundantBarriers
from tirstep.transforms.passes.before_flattening import (
    DropImpliedConditions,
    DropThreadDimensions,
    SplitGuardedVectors,
)

from .devices import get_device
from .devices.device import DeviceError
from .devices.simulator import simulate_lowered
from .numeric import check_numbers
from .steps import CheckError, Finding

_LOOP = """
    @T.prim_func(s_tir=True)
    def {name}(A: T.Buffer((512,), "float32"), C: T.Buffer((512,), "float32")):
        t = T.launch_thread("threadIdx.x", 32)
        S = T.alloc_buffer((160,), scope="shared")
        R = T.alloc_buffer((4,), scope="local")
        N = T.alloc_buffer((1,), "int32", scope="local")
        R[0] = T.float32(0)
        for k in range(8):
{body}
        {barrier}
        C[t] = R[0]
"""
_KERNEL = """
    @T.prim_func(s_tir=True)
    def {name}(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        t = T.launch_thread("threadIdx.x", 16)
{body}
"""
_BARRIER = 'T.tvm_storage_sync("shared")'


class Duty(NamedTuple):
    """What a pass must make of a program.

    Attributes
    ----------
    what : the pass would do otherwise, in words
    body : of a kernel; of a loop in one, where barriers stand
    result : what must come out; "" where the program stays
    """

    what: str
    run: Any
    body: str
    result: str = ""

    @property
    def template(self) -> str:
        """The kernel around the body."""
        return _LOOP if self.run is DropRedundantBarriers else _KERNEL


def _read_then_write(read: str, write: str, between: str = "") -> str:
    return f"""
{_BARRIER}
R[0] = R[0] + S[{read}]
{between}
{_BARRIER}
S[{write}] = A[k * 32 + t]
"""


_GUARDED = """
for v in T.vectorized(4):
    if t * 4 + v < 63:
        B[t * 4 + v] = A[t * 4 + v]
"""
_SPLIT = """
if t * 4 + 3 < 63:
    for v in T.vectorized(4):
        B[t * 4 + v] = A[t * 4 + v]
else:
    for v in range(4):
        if t * 4 + v < 63:
            B[t * 4 + v] = A[t * 4 + v]
"""
DUTIES = (
    Duty(
        "drops a barrier before a store to the slot beside that of a load, which goes one element "
        "beyond its own",
        DropRedundantBarriers,
        _read_then_write("k % 2 * 32 + t + 1", "(k + 1) % 2 * 32 + t"),
    ),
    Duty(
        "drops a barrier before a store to the slot of three iterations later, of three slots",
        DropRedundantBarriers,
        _read_then_write("k % 3 * 32 + t", "(k + 3) % 3 * 32 + 31 - t"),
    ),
    Duty(
        "drops a barrier before a load at the head of the next iteration",
        DropRedundantBarriers,
        f"""
R[0] = S[k % 2 * 32 + t]
{_BARRIER}
S[(k + 1) % 2 * 32 + 31 - t] = A[t]
{_BARRIER}
R[1] = A[t]
""",
    ),
    Duty(
        "drops a barrier because of a condition on a value that has changed since",
        DropRedundantBarriers,
        _read_then_write(
            "k % 2 * 32 + t",
            "(k + 1) % 2 * 32 + t",
            "if N[0] < 8 and N[0] >= 0:\n    N[0] = 9\n    R[1] = S[k % 2 * 32 + N[0] + 24]",
        ),
    ),
    Duty(
        "drops a barrier between two tiles to which TVM gives one place",
        DropRedundantBarriers,
        f"""
D = T.alloc_buffer((32,), scope="shared.dyn")
E = T.alloc_buffer((32,), scope="shared.dyn")
D[t] = A[k * 32 + t]
{_BARRIER}
R[0] = R[0] + D[31 - t]
{_BARRIER}
E[t] = A[k * 32 + t + 256]
{_BARRIER}
R[0] = R[0] + E[31 - t]
""",
    ),
    Duty(
        "drops a condition that holds in the last iteration of a loop",
        DropImpliedConditions,
        """
for r in range(4):
    B[t * 4 + r] = T.if_then_else(
        t == 1, T.float32(0), T.if_then_else(r >= 3, A[t * 4 + r], T.float32(0))
    )
""",
    ),
    Duty(
        "makes a whole vector where the guard keeps its last element out",
        SplitGuardedVectors,
        _GUARDED,
        _SPLIT,
    ),
    Duty(
        "takes the registers that a thread stores and those that it loads for the same",
        DropThreadDimensions,
        """
L = T.alloc_buffer((4, 16), scope="local")
for r in range(4):
    L[r, t] = A[r * 16 + t]
for r in range(4):
    B[r * 16 + t] = L[r, (t + 1) % 16]
""",
    ),
)


def list_broken_passes() -> list[str]:
    """What our passes do that they must not, each as a sentence's beginning."""
    module = _make_programs()
    made = {id(duty.run): duty.run(module) for duty in DUTIES}
    return [
        f"{duty.run.info.name} {duty.what}"
        for number, duty in enumerate(DUTIES)
        if not _is_same(
            made[id(duty.run)][f"program_{number}"],
            module[f"result_{number}" if duty.result else f"program_{number}"],
        )
    ]


def _is_same(made: Any, expected: Any) -> bool:
    return bool(tvm_ffi.structural_equal(made.body, expected.body, map_free_vars=True))


@cache
def _make_programs() -> IRModule:
    """All programs in one module, which is parsed once, and the results where these are others."""
    functions = []
    for number, duty in enumerate(DUTIES):
        functions.append(_write(duty, f"program_{number}", duty.body))
        if duty.result:
            functions.append(_write(duty, f"result_{number}", duty.result))
    text = "@I.ir_module(check_well_formed=False)\nclass Module:\n" + "\n".join(functions)
    return from_source(text, check_well_formed=False)


def _write(duty: Duty, name: str, body: str) -> str:
    depth = 12 if duty.template is _LOOP else 8
    lines = [" " * depth + line for line in body.strip().splitlines() if line.strip()]
    return duty.template.format(name=name, body="\n".join(lines), barrier=_BARRIER)


def list_broken_refusals() -> list[str]:
    """What our transforms let pass, or leave behind where they refuse."""
    broken = []
    if _accepts_a_leak():
        broken.append("cache_write_at lets all blocks of an axis write what each keeps for itself")
    if _changes_on_refusal():
        broken.append("a composite that is refused half-way changes the schedule")
    return broken


def _accepts_a_leak() -> bool:
    """A tile of the output's rows is kept in registers of blocks that have a column each."""
    sch = Schedule(matmul(4, 4, 4))
    block = sch.get_sblock("C")
    row, column, _ = sch.get_loops(block)
    bind_loop(sch, row, axis="blockIdx.x")
    bind_loop(sch, column, axis="blockIdx.y")
    try:
        cache_write_at(sch, block, row, scope="local")
    except TransformError:
        return False
    return True


def _changes_on_refusal() -> bool:
    @composite
    def halve(sch: Schedule, loop: LoopRV, *, then: int) -> None:
        outer, _ = split_loop(sch, loop, inner=2)
        split_loop(sch, outer, inner=then)

    sch = Schedule(matmul(4, 4, 4))
    before = sch.mod
    try:
        halve(sch, sch.get_loops(sch.get_sblock("C"))[0], then=3)
    except TransformError:
        return not tvm_ffi.structural_equal(before, sch.mod)
    return True


LENGTH = 64
_SCRIPT = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer(({length},), "float32"),
        B: T.Buffer(({length},), "float32"),
        C: T.Buffer(({length},), "float32"),
    ):
        S = T.sblock_alloc_buffer(({shared},), "float32", scope="shared")
        for i in T.thread_binding({threads}, thread="threadIdx.x"):
            with T.sblock("C"):
                v = T.axis.spatial({threads}, i)
                T.reads()
                T.writes(C[0:{length}], S[0:{shared}])
                {body}
"""
_COPIES = """
@I.ir_module(check_well_formed=False)
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128,), "float32"), B: T.Buffer((64,), "float32")):
        t = T.launch_thread("threadIdx.x", 64)
        X = T.alloc_buffer((128,), "float32", scope="shared.dyn")
        with T.attr({"async_commit_queue_scope": 0}):
            T.s_tir.cp_async_raw("float32", X.data, t, A.data, t, 4)
        with T.attr({"async_commit_queue_scope": 0}):
            T.s_tir.cp_async_raw("float32", X.data, t + 64, A.data, t + 64, 4)
        with T.attr({"async_wait_queue_scope": 0, "async_wait_inflight_count": 1}):
            B[t] = X[t + 64]
"""


class Plant(NamedTuple):
    """A fault in the sum of two vectors on a GPU.

    Attributes
    ----------
    what : it is, in words
    words : in a finding about it
    body : of the block, whose iterator is ``v``
    """

    what: str
    words: str
    body: str
    threads: int = LENGTH
    shared: int = LENGTH


PLANTS = (
    Plant("an element that nobody writes", "C[63] is", "C[v] = A[v] + B[v]", threads=63),
    Plant("a small error", "and NumPy has", "C[v] = (A[v] + B[v]) * T.float32(1.0 + 2.0**-19)"),
    Plant(
        "a NaN",
        "is nan, and NumPy has",
        'C[v] = T.if_then_else(v == 5, T.float32("nan"), A[v] + B[v])',
    ),
    Plant("a race", "race:", "C[(v + 1) % 64] = T.float32(0)\n                C[v] = A[v] + B[v]"),
    Plant("a store out of bounds", "out of bounds", "C[v] = A[v % 64] + B[v % 64]", threads=65),
    Plant(
        "more shared memory than a GPU has",
        "exceed a GPU's limit",
        "S[v * 950] = A[v]\n                C[v] = S[v * 950] + B[v]",
        shared=64 * 950,
    ),
)
INEXACT = "results with errors of 1.5e-5, beyond the bound of a softmax"


def make_module(plant: Plant) -> tvm.IRModule:
    """The sum of two vectors with a fault in it."""
    text = _SCRIPT.format(
        length=LENGTH, threads=plant.threads, shared=plant.shared, body=plant.body
    )
    return from_source(text, check_well_formed=False)


def make_inexact_softmax() -> tuple[Problem, tvm.IRModule]:
    """A softmax whose results are a little too large: it has no whole numbers that would show it.

    Raises ValueError where the kernel divides by its sums in other words.
    """
    problem = softmax.problem(2, 8)
    text, exact = problem.module.script(), "/ total[vi]"
    if text.count(exact) != 1:
        raise ValueError(f"softmax has no {exact!r} to make inexact; fix the self-test")
    return problem, from_source(text.replace(exact, f"{exact} * T.float32(1.0 + 2.0**-16)"))


def _sees_copy_in_flight() -> bool:
    """Two groups of asynchronous copies, of which one is waited for: the last one is loaded."""
    arguments = [np.ones(2 * LENGTH, "float32"), np.zeros(LENGTH, "float32")]
    module = from_source(_COPIES, check_well_formed=False)
    found = simulate_lowered(module, arguments).findings
    return any("race:" in str(finding) for finding in found)


def find_blind_checks(*, seed: int = 0) -> list[Finding]:
    """The planted faults that the checks of numbers do not see, on the simulator and on the CPU, or
    why they cannot be asked.
    """
    try:
        missed = _list_missed(seed)
        broken = [*list_broken_passes(), *list_broken_refusals()]
    except (CheckError, DeviceError) as error:
        return [Finding("checks", "self-test", str(error))]
    return [
        Finding("checks", "self-test", f"{what}; install tirstep again, or report it")
        for what in (
            *(
                f"the checks do not see {what}, which is planted: do not trust what they call good"
                for what in missed
            ),
            *(f"{what}: do not trust what is compiled with it" for what in broken),
        )
    ]


def _list_missed(seed: int) -> list[str]:
    problem, simulator = vector_add.problem(LENGTH), get_device("simulator")
    missed = [
        f"{plant.what} on the simulator"
        for plant in PLANTS
        if not any(
            plant.words in finding.message
            for finding in check_numbers(
                problem, make_module(plant), simulator, where="self-test", seed=seed
            )
        )
    ]
    if not _sees_copy_in_flight():
        missed.append("a load of what is still being copied, on the simulator")
    inputs = problem.integer_inputs(seed)
    if max(int(np.abs(array).max()) for array in inputs) <= 1:
        missed.append("sums that are right for 1 and -1 alone: whole numbers are no others")
    inexact, module = make_inexact_softmax()
    if not check_numbers(inexact, module, get_device("cpu"), where="self-test", seed=seed):
        missed.append(f"{INEXACT}, on the CPU")
    return missed
