"""What runs in the processes of a cluster: one compiles, one has a GPU, checks and times."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from tirstep.bench import BenchError
from tirstep.bench.compile_pool import (
    CompileJob,
    compile_job,
    find_recipe_of,
    find_workspaces,
    get_cache_folder,
    installed,
    name_library,
    spell_target,
)
from tirstep.bench.machine import Machine
from tirstep.bench.peers import PEERS
from tirstep.bench.search import SearchPlan
from tirstep.bench.session import Settings
from tirstep.bench.workers import Contest, LocalWorkers, Screened, Sizes, make_job
from tirstep.lowering_checks.compile.compiling import TARGET
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import find_recipe

from .scheduling import CompiledCandidate

FIRST = "vector_add_bound"
"""The recipe that processes compile to have loaded what compiles."""


def make_torch_machine() -> Machine:
    """The GPU that Ray gave to this process."""
    from tirstep.bench.torch_machine import TorchMachine

    return TorchMachine()


def load_compilers() -> str:
    """Compile something small, for any GPU: a process's first candidate takes seconds more.

    Returns why it did not compile, if it did not; the first candidate will say it again.
    """
    recipe = find_recipe(FIRST)
    shape, options = recipe.default_example.shape, recipe.default_example.options
    job = CompileJob(FIRST, dict(shape), dict(options), {}, str(name_library()))
    return compile_job(job, spell_target(tvm.target.Target(TARGET)))


@dataclass(frozen=True)
class Tools:
    """What workers work with; a test brings others.

    Attributes
    ----------
    load : what a process that compiles does before the first candidate is there
    gpus : what of GPUs a worker takes that measures; 0 in tests alone
    """

    make_machine: Callable[[], Machine] = make_torch_machine
    compile: Callable[[CompileJob, Mapping[str, object]], str] = compile_job
    load: Callable[[], object] = load_compilers
    gpus: float = 1


@dataclass(frozen=True)
class PlanSpec:
    """A plan in names and values, since it goes to other machines, which have the same recipes."""

    recipe: str
    shape: Mapping[str, int]
    options: Mapping[str, object]
    settings: Settings

    @classmethod
    def of(cls, plan: SearchPlan, settings: Settings) -> PlanSpec:
        """The names of a plan."""
        problem, recipe = plan.problem, plan.recipe
        return cls(
            recipe.spelling or recipe.name,
            dict(problem.shape),
            dict(problem.options),
            settings,
        )

    def make_plan(self) -> SearchPlan:
        """The plan again, without what only the search itself needs."""
        from tirstep.programs.benching import find_peer

        recipe = find_recipe_of(self.recipe)
        values: dict[str, Any] = {**self.shape, **self.options}
        problem = get_kernel(recipe.kernel).problem(**values)
        return SearchPlan(recipe, problem, peer=find_peer(recipe))


class Compiler:
    """Compiles one candidate after the other, into the cache of its machine."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._held = contextlib.ExitStack()
        self._held.enter_context(installed(get_cache_folder()))
        tools.load()

    def describe(self) -> dict[str, Any]:
        """That it is there."""
        return {}

    def compile(
        self, job: CompileJob, target: Mapping[str, object]
    ) -> tuple[CompiledCandidate, float]:
        """The file of a candidate, or why there is none; and the seconds that it took."""
        began = time.monotonic()
        return self._compile(job, target), time.monotonic() - began

    def _compile(self, job: CompileJob, target: Mapping[str, object]) -> CompiledCandidate:
        library = name_library()
        reason = self._tools.compile(replace(job, library=str(library)), target)
        if reason or not library.exists():
            return CompiledCandidate(reason)
        workspaces = find_workspaces(library)
        compiled = CompiledCandidate(
            "", library.read_bytes(), workspaces.read_text(encoding="utf-8")
        )
        library.unlink()
        workspaces.unlink()
        return compiled


class Measurer:
    """One GPU with the whole machinery of a local search: exact checks, cold caches, graphs."""

    def __init__(self, tools: Tools, spec: PlanSpec) -> None:
        self._machine = tools.make_machine()
        self._plan = spec.make_plan()
        self._workers = LocalWorkers(
            self._plan, self._machine, spec.settings, get_cache_folder(), lambda line: None
        )

    def describe(self) -> dict[str, Any]:
        """What it is: device, versions, method and TVM's target."""
        machine = self._machine
        return {
            "device": dict(machine.device),
            "versions": dict(machine.versions),
            "target": spell_target(machine.target),
        }

    def screen(
        self, group: Sequence[tuple[Sizes, CompiledCandidate]]
    ) -> tuple[list[Screened], float]:
        """What became of each candidate, in their order; and the seconds that it took."""
        began = time.monotonic()
        return self._screen(group), time.monotonic() - began

    def _screen(self, group: Sequence[tuple[Sizes, CompiledCandidate]]) -> list[Screened]:
        jobs = [self._write(config, compiled) for config, compiled in group]
        screened = self._workers.measure(jobs)
        self._workers.keep([])
        return [next(one for one in screened if one.config == config) for config, _ in group]

    def decide(self, finalists: Sequence[tuple[Sizes, CompiledCandidate | None]]) -> Contest:
        """Check the finalists here, and time them in turns."""
        jobs = [self._write(config, compiled) for config, compiled in finalists]
        return self._workers.decide_compiled(jobs)

    def _write(self, config: Sizes, compiled: CompiledCandidate | None) -> CompileJob:
        """A library of its own for each: a loaded file must not change."""
        library = Path(name_library())
        if compiled is not None and compiled.library is not None:
            library.write_bytes(compiled.library)
            find_workspaces(library).write_text(compiled.workspaces, encoding="utf-8")
        return make_job(self._plan, config, library)


def require_known(plan: SearchPlan) -> None:
    """Raise `BenchError` for a plan that cannot be told to other machines by names."""
    if not plan.recipe.spelling and plan.peer is not PEERS["torch"]:
        raise BenchError(f"{plan.peer.name} is a peer of this process alone; leave --cluster out")
