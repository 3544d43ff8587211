"""The documents of ``--json``: one object on standard output, with these keys.

Every document has ``command`` and ``versions`` ({tirstep, tvm}). Where nothing was measured or
asked, a key is there and null. Shapes of recipes are objects of sizes by name; times are in
microseconds.

``list``
    kernels: [{kernel, doc, shape (names of its extents), dtypes, options, recipes: [{recipe, doc,
    kernel, ladder, base, delta and why (of a rung), config (with defaults), default_example and
    golden ({shape, options, config}), steps}]}]
``steps``
    recipe, shape, options, config, steps: [{number, name, source, tir, trace}]
``diff``
    recipe, against (null, or the other recipe), diffs: [{before, after, added, removed, diff}]
``lower``
    recipe, shape, options, config, step, target, passes_run (how many), refused (by which pass and
    why, or null), passes: [{number, name, changed, time_us, added, removed; with ``--diff`` also
    diff, with ``--pass`` also tir}]
``source``
    recipe, shape, options, config, target; step, language, text; or with ``--diff`` diffs, as above
``facts``
    recipe, shape, options, config, target, steps: [{number, name, source, refused, notes, facts:
    [FACT], compiled: [{architecture, compiler, refused, facts: [FACT]}]}]
``check``
    device, golden_dir, seed, ok, findings (of the whole folder: its version, its orphans),
    recipes: [RECIPE]
``ladder``
    ladder, kernel, device, golden_dir, seed, ok, shape_from ("option", "seed" or "golden"), shape
    (as ``--shape`` takes it; null where the recipes differ), baseline (the recipe that speed-ups
    are over), findings (of the whole folder: its version), recipes: [RECIPE]
``golden``
    golden_dir, written (whether --write was given), ok, changed (paths), findings (what would
    change, and files that no recipe makes; with --write the latter alone)
DEVICE
    {name, description}
RECIPE
    recipe, summary, base and delta (of a rung), status ("ok", "failed" or "skipped"), reason (why
    skipped), shape, options, config, golden and numbers ("ok", "failed" or null), checked_on,
    added, removed (lines, from the kernel as it was written to the last step), TIME, speedup,
    odd_shape (of `check`: {shape, config, numbers, checked_on} of the last step at a shape that no
    tile divides; null where the recipe takes none or has failed already), findings, steps: [STEP]
STEP
    number, name, source, golden, numbers, checked_on, added, removed (against the step before),
    TIME, findings; with ``--diff`` also diff
TIME
    time_us (the median), time_us_lower and time_us_upper (the quartiles), repeats, gflops
FACT
    {group, key (of an expectation; empty for text), name, value, unit}
FINDING
    {check, where, source (the recipe's line, or empty), message, detail}
"""

from __future__ import annotations

from collections.abc import Sequence

from tirstep.lowering_checks import Device, Diff, Finding, Run, Verdict
from tirstep.lowering_checks.devices import Timing
from tirstep.lowering_checks.verdict import golden_word, numbers_word

from .json_output import Document, print_document
from .rungs import Rung, baseline_of, speedup
from .texts import first_sentence

__all__ = [
    "Document",
    "device_keys",
    "finding_keys",
    "print_document",
    "run_keys",
    "rung_documents",
]


def device_keys(device: Device) -> Document:
    """DEVICE of the module's docstring."""
    return {"name": device.name, "description": device.description}


def finding_keys(finding: Finding) -> Document:
    """FINDING of the module's docstring."""
    return {
        "check": finding.check,
        "where": finding.where,
        "source": finding.location,
        "message": finding.message,
        "detail": finding.detail,
    }


def run_keys(run: Run) -> Document:
    """What ran: recipe, shape, options and config."""
    return {
        "recipe": run.recipe.name,
        "shape": dict(run.problem.shape),
        "options": dict(run.problem.options),
        "config": {**run.recipe.config, **run.config},
    }


def rung_documents(rungs: Sequence[Rung], *, with_diffs: bool = False) -> list[Document]:
    """RECIPE of the module's docstring, for each rung."""
    baseline = baseline_of(rungs)
    return [_recipe_keys(rung, speedup(rung, baseline), with_diffs) for rung in rungs]


def _recipe_keys(rung: Rung, ratio: float | None, with_diffs: bool) -> Document:
    run = rung.run
    return {
        **({"shape": None, "options": None, "config": None} if run is None else run_keys(run)),
        "recipe": rung.recipe.name,
        "summary": first_sentence(rung.recipe.doc),
        "base": rung.recipe.base,
        "delta": dict(rung.recipe.delta),
        "status": rung.status,
        "reason": None if rung.refusal is None else str(rung.refusal),
        "golden": golden_word(rung.verdicts),
        "numbers": numbers_word(rung.verdicts),
        "checked_on": rung.places,
        **_change_keys(rung.change),
        **_time_keys(rung, rung.timing),
        "speedup": ratio,
        "odd_shape": _odd_keys(rung.odd),
        "findings": [finding_keys(finding) for finding in rung.findings],
        "steps": [_step_keys(rung, verdict, with_diffs) for verdict in rung.verdicts],
    }


def _odd_keys(odd: Verdict | None) -> Document | None:
    if odd is None:
        return None
    return {
        "shape": dict(odd.run.problem.shape),
        "config": {**odd.run.recipe.config, **odd.run.config},
        "numbers": "failed" if odd.findings else "ok",
        "checked_on": odd.checked_on,
    }


def _step_keys(rung: Rung, verdict: Verdict, with_diffs: bool) -> Document:
    diff = {"diff": None if verdict.diff is None else str(verdict.diff)} if with_diffs else {}
    return {
        "number": verdict.step.index,
        "name": verdict.step.name,
        "source": verdict.step.location,
        "golden": golden_word([verdict]),
        "numbers": numbers_word([verdict]),
        "checked_on": verdict.checked_on,
        **_change_keys(verdict.diff),
        **_time_keys(rung, verdict.timing),
        "findings": [finding_keys(finding) for finding in verdict.findings],
        **diff,
    }


def _change_keys(diff: Diff | None) -> Document:
    return {
        "added": None if diff is None else diff.added,
        "removed": None if diff is None else diff.removed,
    }


def _time_keys(rung: Rung, timing: Timing | None) -> Document:
    flops = rung.flops_per_second(timing)
    return {
        "time_us": None if timing is None else timing.median * 1e6,
        "time_us_lower": None if timing is None else timing.lower * 1e6,
        "time_us_upper": None if timing is None else timing.upper * 1e6,
        "repeats": None if timing is None else timing.repeats,
        "gflops": None if flops is None else flops / 1e9,
    }
