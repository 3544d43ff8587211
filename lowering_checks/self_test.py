"""Faults of known kinds, planted in small programs: whether the checks themselves see them.

A check that has gone blind says that all is good. What `find_blind_checks` runs takes some tenths
of a second, and covers the bound of errors, NaN and what nobody writes, whole numbers, races,
copies in flight, stores out of bounds and the memory that a GPU has; and the proofs of our own
passes, and refusals (`self_test_transforms`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tvm
from tvm.script import from_source

from tirstep.modules import Problem, softmax, vector_add

from .devices import get_device
from .devices.device import DeviceError
from .devices.simulator import simulate_lowered
from .finding import CheckError, Finding
from .numeric import check_numbers
from .self_test_transforms import list_broken_passes, list_broken_refusals

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
        raise ValueError(f"softmax has no {exact!r} to make inexact; mend the self-test")
    return problem, from_source(text.replace(exact, f"{exact} * T.float32(1.0 + 2.0**-16)"))


def _sees_copy_in_flight() -> bool:
    """Two groups of asynchronous copies, of which one is waited for: the last one is loaded."""
    arguments = [np.ones(2 * LENGTH, "float32"), np.zeros(LENGTH, "float32")]
    found = simulate_lowered(from_source(_COPIES, check_well_formed=False), arguments).findings
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
        Finding("checks", "self-test", f"{what}; install tirstep anew, or report it")
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
