"""What of a mutant can be compiled for a GPU, lowered modules too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import tvm
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.tirx import transform
from tvm.tirx.compilation_pipeline import PIPELINE_MAP

from tirstep.lowering_checks.devices import find_unbound_blocks
from tirstep.modules import Problem
from tirstep.transforms import TransformError

from .originals import edit_module, edit_recipe, find_lowered, find_original
from .plant import LOWERED, RECIPE, GoldenMutant, Mutant

REST = "tirstep: what is behind the simulator's last pass"


@dataclass(frozen=True)
class Subject:
    """A mutant or an original, and the pipeline that compiles it, if it is none of the module's."""

    name: str
    problem: Problem
    module: tvm.IRModule
    pipeline: str | None


def find_subjects(mutants: Iterable[Mutant | GoldenMutant]) -> list[Subject]:
    """The subjects of all mutants that have one."""
    found = [find_subject(mutant) for mutant in mutants]
    return [subject for subject in found if subject is not None]


def find_subject(mutant: Mutant | GoldenMutant) -> Subject | None:
    """A mutant's subject; None where TVM refuses it before, or no block is bound to a GPU."""
    run = find_original(mutant.original).run
    if isinstance(mutant, Mutant) and mutant.level == LOWERED:
        module = edit_module(find_lowered(mutant.original), mutant.edits)
        return Subject(mutant.name, run.problem, module, REST)
    if isinstance(mutant, GoldenMutant) and not mutant.edits:
        return None  # the fault is in a file
    if isinstance(mutant, Mutant) and mutant.level != RECIPE:
        module = edit_module(run.steps[-1].module, mutant.edits)
    else:
        try:
            module = edit_recipe(run, getattr(mutant, "raw", ()) or mutant.edits).steps[-1].module
        except (TransformError, tvm.s_tir.ScheduleError):
            return None
    if find_unbound_blocks(module):
        return None
    return Subject(mutant.name, run.problem, module, None)


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
