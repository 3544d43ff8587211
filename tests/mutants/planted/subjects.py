"""What of a mutant can be compiled for a GPU, lowered modules too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tvm
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.tirx import transform
from tvm.tirx.compilation_pipeline import PIPELINE_MAP

from tirstep.lowering_checks import Run
from tirstep.lowering_checks.devices import find_unbound_sblocks
from tirstep.modules import Problem
from tirstep.transforms import TransformError

from .originals import edit_module, find_lowered, find_original, plant_in_recipe, replay
from .plant import LOWERED, GoldenMutant, ModuleMutant, Mutant, RecipeMutant

REST = "tirstep: what is behind the simulator's last pass"


@dataclass(frozen=True)
class Subject:
    """A mutant or an original, and the pipeline that compiles it, if it is none of the module's."""

    name: str
    problem: Problem
    module: tvm.IRModule
    pipeline: str | None


def find_subjects(mutants: Iterable[Mutant]) -> list[Subject]:
    """The subjects of all mutants that have one."""
    found = [find_subject(mutant) for mutant in mutants]
    return [subject for subject in found if subject is not None]


def find_subject(mutant: Mutant) -> Subject | None:
    """A mutant's subject; None where TVM refuses it before, or no block is bound to a GPU."""
    run = find_original(mutant.original).run
    if isinstance(mutant, ModuleMutant) and mutant.level == LOWERED:
        module = edit_module(find_lowered(mutant.original), mutant.edits)
        return Subject(mutant.name, run.problem, module, REST)
    try:
        found = _find_module(mutant, run)
    except (TransformError, tvm.s_tir.ScheduleError):
        return None
    if found is None or find_unbound_sblocks(found):
        return None
    return Subject(mutant.name, run.problem, found, None)


def _find_module(mutant: Mutant, run: Run) -> tvm.IRModule | None:
    """The scheduled module with the bug; None where the fault is in a file or in a call alone."""
    if isinstance(mutant, ModuleMutant):
        return edit_module(run.steps[-1].module, mutant.edits)
    if isinstance(mutant, RecipeMutant):
        planted = plant_in_recipe(run, mutant)
        return None if planted is None else planted.steps[-1].module
    if isinstance(mutant, GoldenMutant) and mutant.trace:
        return replay(run, mutant.trace).steps[-1].module
    return None


def find_original_subject(name: str, *, is_lowered: bool) -> Subject:
    """An original as it is, or from its lowered text: nothing may be said of it."""
    run = find_original(name).run
    if is_lowered:
        return Subject(f"{name}, lowered", run.problem, find_lowered(name), REST)
    return Subject(name, run.problem, run.steps[-1].module, None)


def _make_rest() -> tuple[object, object, object]:
    """TVM's default pipeline behind the last pass of `tirstep...simulator.lower`."""
    _, host, device = default_s_tir_pipeline()
    passes = [
        tvm.s_tir.transform.MergeSharedMemoryAllocations(),
        transform.SplitHostDevice(),
        transform.MakePackedAPI(),
        transform.FP8StorageLegalize(),
        transform.BF16StorageLegalize(),
    ]
    return tvm.transform.Sequential(passes), host, device


PIPELINE_MAP[REST] = _make_rest
