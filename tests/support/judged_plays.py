"""What fuzzers ask of a play (plays.py): its structure, its numbers on the devices
that can run it, and as few calls as show what is wrong. Problems that they alone play have prime
sizes, or some 2**31 iterations.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import tvm
from players import OPTIONS, TABLE, Player, weigh
from plays import PRIMITIVE, Call, Play, WrongError, is_for_threads
from tvm.tirx import For

from tirstep.experiments.corpus import LONGEST, count_steps
from tirstep.lowering_checks import DeviceError, check_numbers, get_device
from tirstep.lowering_checks.compile.compiling import TARGET
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.lowering_checks.expectations import ARCHITECTURE
from tirstep.lowering_checks.facts.compiled import find_source_error
from tirstep.lowering_checks.facts.cuda_compilers import CompilerMissing
from tirstep.lowering_checks.legality.accesses import find_outside
from tirstep.lowering_checks.legality.reads import find_lost_reads
from tirstep.modules import Problem, get_kernel
from tirstep.strategies.drawn_programs import Choice
from tirstep.strategies.problems import SIZES, Choices, draw_kernel
from tirstep.transforms import tir

INT32 = 2**31 - 1
LIMIT = " exceed a GPU's limit of "
"""In the message of a launch that a GPU refuses for its memory, which is not a wrong result."""
TOO_LONG = "would take too long"
WITH_PRIMITIVES = {
    **TABLE,
    "sch.annotate": weigh(
        2,
        "loop",
        ann_key=("pragma_auto_unroll_max_step", "pragma_unroll_explicit"),
        ann_val=(0, 1, 16),
    ),
    "sch.blockize": weigh(4, "loop"),
    "sch.cache_read": weigh(
        4, "at", read_buffer_index=OPTIONS["operand"], storage_scope=Player.scope
    ),
    "sch.cache_write": weigh(3, "at", write_buffer_index=(0,), storage_scope=Player.scope),
    "sch.compute_at": weigh(3, "at elsewhere"),
    "sch.decompose_reduction": weigh(3, "at loop"),
    "sch.reindex": weigh(2, "at", buffer=(("read", 0), ("read", 1), ("write", 0))),
    "sch.reverse_compute_at": weigh(3, "at elsewhere"),
    "sch.rfactor": weigh(3, "loop", factor_axis=(0, 0, 1, 2)),
    "sch.set_scope": weigh(3, "at", buffer_index=(0,), storage_scope=Player.scope),
    "sch.storage_align": weigh(
        2, "at", buffer_index=(0,), axis=(0, -2, 1), factor=(2, 4, 8, 32), offset=(1, 1, 4, 8)
    ),
}
"""The moves of the fuzzers: all public transforms, and TVM's primitives between them."""
PRIMES = (2, 3, 5, 7, 11, 13, 17, 23, 31)
PRIME: dict[str, Choices] = {
    name: dict.fromkeys(sizes, PRIMES)
    for name, sizes in SIZES.items()
    if name not in ("attention", "conv2d", "decode_attention", "depthwise_conv2d")
}
"""Kernels whose sizes may be any, at sizes that no tile divides."""
HUGE: tuple[tuple[str, dict[str, int]], ...] = (
    ("vector_add", {"n": 2**31 - 8}),
    ("vector_add", {"n": 2**31 - 1}),
    ("transpose", {"m": 46340, "n": 46340}),
    ("matmul", {"m": 1625, "n": 1625, "k": 1625}),
    ("matmul", {"m": 2048, "n": 2048, "k": 1024}),
    ("row_sum", {"m": 1, "n": 2**31 - 1}),
    ("depthwise_conv2d", {"b": 32, "c": 512, "h": 112, "w": 112, "k": 7}),
)
"""Nests of about 2**31 iterations and more: they are scheduled, and not run."""


def draw_prime(choice: Choice, name: str) -> Problem:
    """A small problem all of whose sizes are primes."""
    return draw_kernel(choice, name, PRIME)


def draw_huge(choice: Choice) -> Problem:
    name, sizes = choice.one(HUGE, "huge")
    return get_kernel(name).problem(**sizes)


def replay(problem: Problem, calls: Iterable[Call]) -> Play:
    """A play of these calls; those that find no place, or are refused, are left out."""
    play = Play(problem)
    for call in calls:
        try:
            play.call(call)
        except LookupError:  # its place is gone with another call
            continue
        except WrongError as wrong:
            play.wrong = wrong
            break
    return play


@dataclass
class Judgement:
    """What the devices say of a module.

    Attributes
    ----------
    by_device : the findings of each device that ran it
    refusals : why others did not, though no obstacle was known
    """

    by_device: dict[str, list[str]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        """What is wrong.

        On a finished schedule the devices that have threads are right: on the CPU these run one
        after the other, and TVM puts memory that they share into the loop that they have become.
        """
        judges = set(self.by_device) - {"cpu"} or set(self.by_device)
        return [text for name in self.by_device if name in judges for text in self.by_device[name]]


def judge(problem: Problem, module: tvm.IRModule, devices: Sequence[str]) -> Judgement:
    """Numbers on the devices that can run a module; on those of a GPU only if it is finished."""
    said = Judgement()
    finished = is_for_threads(module)
    outside = [f"out of bounds: {' '.join(it)}" for it in find_outside(module)]
    if outside and "cpu" in devices:  # such a store may end the process
        said.by_device["cpu"] = outside
    for name in devices:
        device = get_device(name)
        is_unsafe = any("out of bounds" in it for it in said.by_device.get("simulator", ()))
        is_unsafe |= name != "simulator" and bool(outside)
        if is_unsafe or device.find_obstacle(module) or (name != "cpu" and not finished):
            continue  # of a GPU an illegal address ends the process
        if name == "simulator" and (steps := count_steps(module)) > LONGEST:
            said.refusals.append(f"{name}: {TOO_LONG} ({steps} steps)")
            continue
        try:
            found = check_numbers(problem, module, device, where=name)
        except DeviceError as error:
            said.refusals.append(f"{name}: {error}")
            continue
        except Exception as error:
            raise WrongError("raised", f"{name}: {type(error).__name__}: {error}") from error
        texts = [str(finding) for finding in found]
        if any(LIMIT in text for text in texts):
            said.refusals.append(f"{name}: {texts[0]}")
        elif texts and name == "simulator" and (reason := _find_no_source(module)):
            said.refusals.append(f"{name}: {reason}")
        else:
            said.by_device[name] = texts
    return said


def _find_no_source(module: tvm.IRModule) -> str | None:
    """Why the source of a module is no program: a variable that no loop has any more, say.

    The simulator, which sees no source, finds it wrong. None without a compiler of CUDA.
    """
    lowering = lower_through_passes(module, TARGET, is_run=False)
    with contextlib.suppress(CompilerMissing):
        if error := find_source_error(lowering.source, ARCHITECTURE):
            return f"TVM's source does not compile: {error}"
    return None


def require_structure(module: tvm.IRModule) -> None:
    """What can be said of a module without running it; raises `WrongError`.

    Loops run at least once and count within their type; there are enough iterations around each
    block that writes an output.
    """
    function = module["main"]
    for loop in tir.find_all(function.body, For):
        extent = tir.constant(loop.extent)
        bits = str(loop.loop_var.ty.dtype if hasattr(loop.loop_var.ty, "dtype") else "int32")
        if extent is not None and not 1 <= extent <= (INT32 if bits == "int32" else 2**63 - 1):
            raise WrongError("structure", f"loop '{loop.loop_var.name}' runs {extent} times")
    for place in tir.get_places(function.body):
        block = place.block
        runs = math.prod(tir.constant(loop.extent) or 1 for loop in place.loops)
        if any(tir.is_among(region.source, function.params) for region in block.writes):
            needed = math.prod(tir.constant(it.dom.extent) or 1 for it in block.iter_vars)
            if runs < needed:
                raise WrongError(
                    "structure",
                    f"block '{block.name_hint}' runs {runs} times, and {needed} are needed",
                )


def find_own_fault(problem: Problem, calls: Iterable[Call]) -> Call | None:
    """The first primitive that makes a right module wrong by itself, which is TVM's own fault.

    Both run as they stand, interpreted and on the CPU, where what was never written may look right,
    and on the simulator, which alone knows instructions of tensor cores: rules see what is left,
    and what lies outside of buffers. What cannot be judged blames nobody.
    """

    def ask(module: tvm.IRModule) -> Iterator[bool | None]:
        for judge in (Interpreter(), get_device("cpu"), get_device("simulator")):
            try:
                yield bool(check_numbers(problem, module, judge, where="as it stands"))
            except Exception:  # of a module that may be anything
                yield None
        yield bool(find_outside(module) or find_lost_reads(module))

    play = Play(problem)
    for call in calls:
        before = play.module
        with contextlib.suppress(LookupError, WrongError):
            is_own = play.call(call) and call.name.startswith(PRIMITIVE)
            if is_own and (False, True) in zip(ask(before), ask(play.module), strict=True):
                return call
    return None


def shorten(
    problem: Problem, calls: Sequence[Call], is_wrong: Callable[[Play], bool]
) -> list[Call]:
    """Fewer calls that are wrong in the same way: each is left out once, from the last on.

    A call that is refused, or finds no place, without another that was left out goes with it.
    """
    kept = list(calls)
    for index in reversed(range(len(calls))):
        if index < len(kept):
            play = replay(problem, kept[:index] + kept[index + 1 :])
            if is_wrong(play):
                kept = play.all_calls
    return kept
