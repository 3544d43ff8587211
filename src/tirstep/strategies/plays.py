"""Plays: a schedule of a problem, the calls that made it, and what the checks say of it.

Calls name blocks and loops by place, so that a play can be made anew from its calls: on a fresh
schedule, without some of them, or as the text of a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.target import Target
from tvm.tirx import For, SeqStmt

from tirstep import transforms as tr
from tirstep.lowering_checks import CheckError, DeviceError, check_numbers, get_device
from tirstep.lowering_checks.compile.compiling import compile_unrun
from tirstep.lowering_checks.facts.cuda_compilers import CompileError, get_compiler
from tirstep.lowering_checks.ownership import check_ownership
from tirstep.modules import Problem
from tirstep.transforms import TransformError, queries, tir
from tirstep.transforms.recipes import RECIPES

PREFIX = "prefix"
INT32 = 2**31 - 1
LIMIT = " exceed a GPU's limit of "
"""Of more memory than a GPU has: it refuses the launch, and computes nothing wrong."""
TARGET = "nvidia/nvidia-h100"
"""For which sources are compiled."""
LONGEST, TOO_LONG = 20_000, "would take too long"
"""Statements that the simulator may go through: some seconds."""


class WrongError(Exception):
    """Something that must not happen: what kind of thing, the details, and the call that did it."""

    def __init__(self, kind: str, text: str, call: Call | None = None) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.call = kind, call


@dataclass(frozen=True)
class Block:
    """The nth block of a name."""

    name: str
    nth: int = 0

    def __str__(self) -> str:
        nth = f", {self.nth}" if self.nth else ""
        return f'block("{self.name}"{nth})'


@dataclass(frozen=True)
class Loop:
    """A loop around a block, counted from outside."""

    block: Block
    index: int

    def __str__(self) -> str:
        return f"loop({self.block}, {self.index})"


@dataclass(frozen=True)
class Call:
    """A call of a transform, or of a recipe up to a step: `PREFIX`, its name and the steps."""

    name: str
    places: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = [_show(place) for place in self.places]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        who = PREFIX if self.name == PREFIX else f"tr.{self.name}"
        return f"{who}({', '.join(['sch', *given])})"


def _show(place: Any) -> str:
    if isinstance(place, (list, tuple)):
        return f"[{', '.join(map(_show, place))}]"
    return str(place) if isinstance(place, (Block, Loop)) else repr(place)


def prefix(sch: Schedule, recipe: str, steps: int, /, **sizes: object) -> None:
    """The first steps of a recipe."""
    running = RECIPES[recipe].run(sch, **sizes)
    for _ in range(steps):
        if next(running, None) is None:
            return


class Play:
    """A schedule of a problem.

    Attributes
    ----------
    calls, modules : those that were done, and the module behind each
    counts : how often each transform was done and refused
    wrong : what a call did that none may, where `replay` found one
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.sch = Schedule(problem.module)
        self.calls: list[Call] = []
        self.modules: list[tvm.IRModule] = []
        self.counts: dict[str, int] = {}
        self.wrong: WrongError | None = None

    @property
    def module(self) -> tvm.IRModule:
        return self.sch.mod

    @property
    def all_calls(self) -> list[Call]:
        """Those that were done, and behind them the one that did what none may."""
        own = self.wrong.call if self.wrong else None
        return [*self.calls, *([own] if own else [])]

    def blocks(self) -> list[Block]:
        """All blocks, in program order."""
        names: list[str] = []
        found = []
        for handle in self._handles():
            name = queries.get_sblock_name(self.sch, handle)
            found.append(Block(name, names.count(name)))
            names.append(name)
        return found

    def _handles(self) -> list[SBlockRV]:
        return list(self.sch.get_child_blocks(self.sch.get_sblock("root")))

    def block(self, place: Block) -> SBlockRV:
        named = [
            handle
            for handle in self._handles()
            if queries.get_sblock_name(self.sch, handle) == place.name
        ]
        return named[place.nth]

    def loops(self, place: Block) -> list[LoopRV]:
        return list(self.sch.get_loops(self.block(place)))

    def node(self, place: Loop) -> For:
        return self.sch.get(self.find(place))

    def find(self, place: Any) -> Any:
        """The handle of a place; of lists, those of all; other values as they are."""
        if isinstance(place, Block):
            return self.block(place)
        if isinstance(place, Loop):
            return self.loops(place.block)[place.index]
        if isinstance(place, (list, tuple)):
            return [self.find(inner) for inner in place]
        return place

    def call(self, call: Call) -> bool:
        """Whether the transform was done; raises `WrongError` for what no refusal may be."""
        handles = [self.find(place) for place in call.places]
        before, steps = self.module, len(self.sch.trace.insts)
        function = prefix if call.name == PREFIX else getattr(tr, call.name)
        try:
            function(self.sch, *handles, **call.options)
        except TransformError as error:
            self._count(call, "refused")
            if call.name == PREFIX:  # the steps before stay done
                self._note(call)
            elif len(self.sch.trace.insts) != steps or not tvm_ffi.structural_equal(
                before, self.module
            ):
                raise WrongError("changed by a refusal", f"{call}: {error}", call) from error
            return False
        except Exception as error:
            text = f"{call}: {type(error).__name__}: {error}"
            raise WrongError("raised", text, call) from error
        self._count(call, "done")
        self._note(call)
        return True

    def _note(self, call: Call) -> None:
        self.calls.append(call)
        self.modules.append(self.module)

    def _count(self, call: Call, outcome: str) -> None:
        key = f"{outcome} {call.name}"
        self.counts[key] = self.counts.get(key, 0) + 1


def replay(problem: Problem, calls: Iterable[Call]) -> Play:
    """A play of these calls; those that find no place, or are refused, are left out."""
    play = Play(problem)
    for call in calls:
        try:
            places = [play.find(place) for place in call.places]
        except (IndexError, ValueError, RuntimeError):  # its place is gone with another call
            continue
        del places
        try:
            play.call(call)
        except WrongError as wrong:
            play.wrong = wrong
            break
    return play


def bound_loops(statement: Any) -> list[For]:
    """The loops of a statement that are bound to a GPU's blocks or threads."""
    loops = tir.find_all(statement, For)
    return [loop for loop in loops if "Idx" in (tir.get_axis(loop) or "")]


def find_kernels(module: tvm.IRModule) -> list[For]:
    """The outermost bound loops: each is a kernel of its own."""
    bound = bound_loops(module["main"].body)
    return [
        loop
        for loop in bound
        if not any(loop.same_as(inner) for outer in bound for inner in bound_loops(outer.body))
    ]


def find_missing_axes(kernel: For, block: Any) -> list[str]:
    """The thread axes of a kernel on which a block of it does not run, of extents above 1.

    An instruction of a warp has the loop over its lanes within.
    """
    axes: dict[str, bool] = {}
    own = bound_loops(block.body)
    for loop in bound_loops(kernel):
        if tir.constant(loop.extent) != 1:
            axis = tir.get_axis(loop) or ""
            within = any(block.same_as(sblock) for sblock in tir.find_all(loop, SBlock))
            within = within or any(map(loop.same_as, own))
            axes[axis] = axes.get(axis, False) or within
    return [axis for axis, within in axes.items() if not within]


def is_finished(module: tvm.IRModule) -> bool:
    """Whether every block of each kernel is spread over all thread axes of that kernel.

    A block that is not yet runs once for each thread, which is no fault of the last transform, and
    none at all where it writes registers: lanes of a quad have each their own copy of their rows.
    """
    kernels = find_kernels(module)
    return bool(kernels) and not any(
        find_missing_axes(kernel, block)
        for kernel in kernels
        for block in tir.find_all(kernel, SBlock)
        if any(region.source.scope() != "local" for region in block.writes)
    )


def is_for_threads(module: tvm.IRModule) -> bool:
    """Whether a module can be judged where there are threads: finished, and of owned registers."""
    return is_finished(module) and not check_ownership(module)


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
    def ran(self) -> list[str]:
        """The devices that ran it."""
        return list(self.by_device)

    @property
    def findings(self) -> list[str]:
        """What is wrong.

        On a finished schedule the devices that have threads are right: on the CPU these run one
        after the other, and TVM puts memory that they share into the loop that they have become.
        """
        has_threads = set(self.by_device) - {"cpu"}
        judges = has_threads or set(self.by_device)
        return [text for name in self.by_device if name in judges for text in self.by_device[name]]


def judge(problem: Problem, module: tvm.IRModule, devices: Sequence[str]) -> Judgement:
    """Numbers on the devices that can run a module; on those of a GPU only if it is finished."""
    said = Judgement()
    finished = is_for_threads(module)
    for name in devices:
        device = get_device(name)
        if device.find_obstacle(module) or (name != "cpu" and not finished):
            continue
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


def count_steps(module: tvm.IRModule) -> int:
    """How many statements the simulator goes through: threads at once, all else in turn."""
    loops = tir.find_all(module["main"].body, For)
    total = 0
    for block in tir.find_all(module["main"].body, SBlock):
        around = [loop for loop in loops if any(map(block.same_as, tir.find_all(loop, SBlock)))]
        serial = [loop for loop in around if "threadIdx" not in (tir.get_axis(loop) or "")]
        total += math.prod(tir.constant(loop.extent) or 1 for loop in serial)
    return total


def _find_no_source(module: tvm.IRModule) -> str | None:
    """Why the source of a module is no program: a variable that no loop has any more, say.

    The simulator, which sees no source, finds it wrong. None without a compiler of CUDA.
    """
    try:
        compiler = get_compiler()
        target = Target(TARGET)
        executable = compile_unrun(module, target)
        source = str(executable.mod.imports[0].inspect_source())
        compiler.compile(source, str(target.attrs["arch"]))
    except CompileError as error:
        return f"TVM's source does not compile: {error}"
    except CheckError:
        return None
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
    for realize in tir.find_all(function.body, SBlockRealize):
        block = realize.block
        outputs = [region.source for region in block.writes]
        if not any(buffer.same_as(param) for buffer in outputs for param in function.params):
            continue
        around = [
            loop
            for loop in tir.find_all(function.body, For)
            if any(block.same_as(sblock) for sblock in tir.find_all(loop, SBlock))
        ]
        needed = math.prod(tir.constant(iter_var.dom.extent) or 1 for iter_var in block.iter_vars)
        runs = math.prod(tir.constant(loop.extent) or 1 for loop in around)
        if runs < needed:
            raise WrongError(
                "structure", f"block '{block.name_hint}' runs {runs} times, and {needed} are needed"
            )


def find_sequences(play: Play, place: Block) -> list[Loop]:
    """The loops around a block whose body is several statements, as pipelines need them."""
    return [
        Loop(place, index)
        for index, handle in enumerate(play.loops(place))
        if isinstance(play.sch.get(handle).body, SeqStmt)
    ]


def find_copies(play: Play, place: Loop) -> list[Block]:
    """The blocks that stand alone in the first statements of a loop."""
    body = play.node(place).body
    parts = list(body.seq)[:-1] if isinstance(body, SeqStmt) else []
    found = []
    for part in parts:
        inside = tir.find_all(part, SBlock)
        if len(inside) != 1:
            break
        found += [
            block for block in play.blocks() if play.sch.get(play.block(block)).same_as(inside[0])
        ]
    return found


SCRIPT = '''"""{kind}: {text}"""

import tvm_ffi
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.modules import get_kernel
from tirstep.strategies.plays import WrongError, judge, require_structure
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES

problem = get_kernel("{kernel}").problem({arguments})
sch = Schedule(problem.module)


def block(name, nth=0):
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    return [one for one in blocks if sch.get(one).name_hint == name][nth]


def loop(block, index):
    return sch.get_loops(block)[index]


def prefix(sch, recipe, steps, /, **sizes):
    running = RECIPES[recipe].run(sch, **sizes)
    try:
        for _ in range(steps):
            next(running, None)
    except TransformError as error:
        print("refused, and the steps before stay:", error)


{calls}
{end}'''
JUDGED = """print(sch.mod.script())
require_structure(sch.mod)
said = judge(problem, sch.mod, {devices})
for name, found in said.by_device.items():
    print(name, *found or ["right"], sep="\\n  ")
for refusal in said.refusals:
    print("not run:", refusal)
if said.findings:
    raise WrongError("wrong", "; ".join(said.findings))
"""
CALLED = """print(sch.mod.script())
before, steps = sch.mod, len(sch.trace.insts)
try:
    {call}
except TransformError as error:
    if len(sch.trace.insts) != steps or not tvm_ffi.structural_equal(before, sch.mod):
        raise WrongError("changed by a refusal", str(error)) from error
except Exception as error:
    raise WrongError("raised", f"{{type(error).__name__}}: {{error}}") from error
"""
CHECKED = """print(sch.mod.script())
require_structure(sch.mod)
"""


def write_script(
    wrong: WrongError, problem: Problem, calls: Sequence[Call], devices: Sequence[str]
) -> str:
    """A program that makes the same schedule and ends with the same `WrongError`.

    Of calls that did what none may, the last is that one. What no refusal may leave and what is
    wrong in structure is not run: it may be of any size.
    """
    given = {**problem.shape, **problem.options}
    first_line = str(wrong).splitlines()[0][:200]
    text = first_line.partition(": ")[2].replace("\\", "/").replace('"', "'")
    done = list(calls)
    if wrong.call is not None:
        end = CALLED.format(call=done.pop())
    elif wrong.kind == "structure":
        end = CHECKED
    else:
        end = JUDGED.format(devices=tuple(devices))
    return SCRIPT.format(
        kind=wrong.kind,
        text=text,
        kernel=problem.kernel.name,
        arguments=", ".join(f"{name}={value!r}" for name, value in given.items()),
        calls="\n".join(map(str, done)),
        end=end,
    )


def shorten(
    problem: Problem, calls: Sequence[Call], is_wrong: Callable[[Play], bool]
) -> list[Call]:
    """Fewer calls that are wrong in the same way: each is left out once, from the last on.

    A call that is refused, or finds no place, without another that was left out goes with it.
    """
    kept = list(calls)
    for index in reversed(range(len(calls))):
        if index >= len(kept):
            continue
        play = replay(problem, kept[:index] + kept[index + 1 :])
        if is_wrong(play):
            kept = play.all_calls
    return kept
