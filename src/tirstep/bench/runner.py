"""One problem on a machine: whoever solves it runs on the same tensors, is checked, and is timed in
turns with the others.

Outputs are filled with NaN before every run that is checked, so that what nobody writes is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.devices import find_unbound_sblocks
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem
from tirstep.modules.numeric import Array
from tirstep.modules.validation import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import RECIPES, Recipe

from . import PeerMissing, shorten
from .cases import MEANINGS
from .compile_pool import CompileJob
from .machine import (
    Launch,
    Machine,
    Reference,
    Replay,
    require_alive,
    take_results,
)
from .peers import Peer

Prepare = Callable[[Machine, Problem, Sequence[Any]], Launch]
"""Compiles something for a problem's tensors on a machine."""

TYPES = ("dtype", "acc", "out")


class Tried(NamedTuple):
    """What became of a candidate: how it is run again, or why it is out.

    Attributes
    ----------
    status : ``"ok"``, ``"wrong"``, ``"failed"``, or ``"missing"`` where a peer does not have the
        kernel or a recipe refuses the shape
    note : the reason in words
    """

    status: str
    note: str = ""
    replay: Replay | None = None


class Runner:
    """The tensors of a problem on a machine, and what their outputs must be."""

    def __init__(self, machine: Machine, reference: Reference) -> None:
        problem = reference.problem
        self.machine, self.problem = machine, problem
        inputs = [
            array.item() if kind.is_scalar else machine.upload(array)
            for kind, array in zip(problem.inputs, reference.inputs, strict=True)
        ]
        outputs = [machine.upload(blank(output)) for output in problem.outputs]
        self.arguments = problem.make_arguments(inputs, outputs)
        self._expectations = machine.expect(reference)

    def try_once(
        self, name: str, prepare: Prepare, *, on_cpu: bool = False, is_checked: bool = True
    ) -> Tried:
        """Compile, run and check a candidate.

        Raises `BenchError` where it leaves the device unusable.
        """
        machine, outputs = self.machine, self.problem.take_outputs(self.arguments)
        try:
            launch = prepare(machine, self.problem, self.arguments)
            if on_cpu:
                replay = Replay(launch, (), "call")
            else:
                self._poison(outputs)
                replay = machine.record(launch, outputs)
            error = self.find_error(replay) if is_checked else None
        except (PeerMissing, TransformError, KernelError) as raised:
            return Tried("missing", shorten(raised))
        except Exception as raised:  # whatever a framework raises: the others still run
            require_alive(machine, name, raised)
            return Tried("failed", shorten(raised))
        return Tried("ok", replay=replay) if error is None else Tried("wrong", error)

    def find_error(self, replay: Replay) -> str | None:
        """Run once more on outputs of NaN; what is wrong with them, None if they are right."""
        self._poison(replay.outputs)
        outputs = take_results(replay.run(), replay.outputs)  # others each time, it may be
        if len(outputs) != len(self._expectations):
            names = ", ".join(each.name for each in self._expectations)
            returns = f"it returns {len(outputs)} results"
            return f"{returns}, and the outputs are {names}; return them all"
        pairs = zip(self._expectations, outputs, strict=True)
        errors = (self.machine.find_error(expectation, output) for expectation, output in pairs)
        return next(filter(None, errors), None)

    def fill(self, inputs: Sequence[Array]) -> None:
        """Other values of the inputs, which are timed but not checked."""
        tensors = self.problem.take_inputs(self.arguments)
        for kind, tensor, array in zip(self.problem.inputs, tensors, inputs, strict=True):
            if not kind.is_scalar:  # a recorded launch keeps its numbers
                tensor[...] = self.machine.upload(array)

    def _poison(self, outputs: Sequence[Any]) -> None:
        for tensor in outputs:
            self.machine.poison(tensor)


def prepare_recipe(recipe: Recipe, sizes: dict[str, object]) -> Prepare:
    """What compiles a recipe's last step for some tensors."""

    def prepare(machine: Machine, problem: Problem, arguments: Sequence[Any]) -> Launch:
        options = get_options(recipe, problem)
        run = run_recipe(recipe, problem.shape, options=options, config=sizes)
        module = run.steps[-1].module
        if len(run.steps) == 1 and (unbound := find_unbound_sblocks(module)):
            raise KernelError(
                f"no schedule binds {', '.join(unbound)} to a GPU; give a function of a schedule"
            )
        return machine.compile(module, arguments)

    return prepare


def prepare_library(library: Path) -> Prepare:
    """What loads a file that another process compiled."""
    return lambda machine, problem, arguments: machine.load(library, arguments)


def prepare_job(job: CompileJob, recipe: Recipe) -> Prepare:
    """What another process compiled, or the same again where it left no file."""
    library = Path(job.library)
    return (
        prepare_library(library) if library.exists() else prepare_recipe(recipe, dict(job.config))
    )


def prepare_peer(peer: Peer) -> Prepare:
    """What a peer runs."""
    return lambda machine, problem, arguments: machine.prepare_peer(peer, problem, arguments)


def get_options(recipe: Recipe, problem: Problem) -> dict[str, object]:
    """The kernel's options for a recipe: the problem's, but in the form that the recipe schedules.

    A ladder may begin with another textbook form of its kernel, such as conv1d over all positions
    of the signal; types and meanings are always the problem's.
    """
    others = [it for it in RECIPES.values() if it.kernel == recipe.kernel]
    form = {
        name: value
        for name, value in recipe.default_example.options.items()
        if name not in (*TYPES, *MEANINGS)
        and any(it.default_example.options.get(name) != value for it in others)
    }
    return {**problem.options, **form}
