"""The documents of ``--json``: one object on standard output, with these keys.

Every document has ``command`` and ``versions`` ({tirstep, tvm, document}; the last is of these
keys: 2 since verdicts have four words). Where nothing was measured or
asked, a key is there and null. Shapes of recipes are objects of sizes by name; times are in
microseconds. Of a file with several programs, ``steps``, ``diff``, ``lower`` and ``facts`` take one
by name.

``list``
    kernels: [{kernel, doc, shape (names of its extents), dtypes, options, recipes: [{recipe, doc,
    kernel, ladder, base, delta and why (of a rung), config (with defaults), default_example and
    golden ({shape, options, config}), steps (null unless NAME is the recipe, which is run for
    them)}]}]; of a user's file programs: [{kind, name, source, doc, functions, taken_by}]
``steps``
    recipe, shape, options, config, steps: [{number, name, source, tir, trace}]
``diff``
    recipe, against (null, or the other recipe), diffs: [DIFF]; with ``--numbers`` programs: [{name,
    recipe, shape, options, config, step, numbers (a VERDICT), reason, checked_on, findings}], diff:
    DIFF, same_structure, same_numbers, same_bits, differences: [{output, changed, size, largest}],
    facts: {name: {facts: [FACT]} or {refused}}
``lower``
    recipe, shape, options, config, step, target, passes_run (how many), refused (by which pass and
    why, or null), passes: [{number, name, changed, time_us, added, removed; with ``--diff`` also
    diff, with ``--pass`` also tir}]; with ``--source`` after target language and text
``facts``
    recipe, shape, options, config, target, steps: [{number, name, source, refused, facts: [FACT],
    counted (with ``--counts``: {refused, facts: [FACT]}), compiled: [{architecture, compiler,
    refused, facts: [FACT]}]}]
``pass``
    change, ok, counts (by status), tested (how many it changes that could be judged),
    counterexample (null, or {from, lines, program, reason, script, shown, last_line}) and modules:
    [{module, status, reason, changed, changed_in_the_end, diff, devices: [{device, before and after
    (findings, or null), note, time_us (both, or null)}],
    facts and compiled: before and after}]; with ``--corpus`` seed and trials: [{trial, kind, label,
    status, reason, what, at}]; with ``--audit`` audit, seed, ok, counts, kinds, passes: [{name,
    changed, wrong (by what), refused}] and those of the trials that are not right
``check``
    device, golden_dir, seed, ok, findings (of the whole folder: its version, its orphans),
    recipes: [RECIPE], each with other_runs: [OTHER]; with ``--write-goldens`` golden_dir, ok,
    changed (paths), findings (files that no recipe makes)
``ladder``
    ladder, kernel, device, golden_dir, seed, ok, shape_from ("option", "default" or "golden"),
    shape (as ``--shape`` takes it; null where the recipes differ), baseline (the recipe that
    speed-ups are over), findings (of the whole folder: its version), recipes: [RECIPE]
``why``
    recipe, shape, options, config, seed, ok, status (a VERDICT), first_bad (null, or {what, kind
    ("step", "pass", "between" or "refused"), number, name, finding, diff}), judged: [{state,
    device}], not_run (sentences); where it is wrong script (a file), shown, script_says; elsewhere
    unsound (findings of the last step), unknown (sentences), or reason
``search``, ``tune``
    device, or database and target; seed, ok, searches: [{recipe, shape, options, config, best_us
    and as_it_is_us ({median, lower, upper}), expected_us, tried, skipped (by reason), peer: {name,
    time_us, ratio, error}}]
``bench``
    ok, run (as ``--output`` writes it); with ``--compare`` old, new, differences (of devices and
    versions), changes: [{title, candidate, before, after, ratio, verdict}]
``report``, ``export``, ``trace``, ``new``, ``modernize``
    what was written: file, target, ok, passes, bytes, recipes: [{recipe, status, reason, findings,
    steps (how many)}]; recipe, shape, options, config, folder, as, files; folder, exit_code (of the
    app), builds, functions, called; folder, files (how many), next (a command line); written, ok,
    files: [{file, changed, diff (lines), left: [{line, message}]}]
``choose``
    recipe, shape, options, device (its properties), searched (the config that a search found at the
    shape, or null), choices: [{config, parts: {us, waves, compute, memory, sums, launch (times),
    tiles, together (on a multiprocessor)}}]; of rows parts is null or {parts (of a row), threads
    and each (vectors at once, of a thread), length (of a part), blocks, rounds, us, reading,
    memory, sums, launch (times)}
DEVICE
    {name, description}
RECIPE
    recipe, summary, base and delta (of a rung), status (a VERDICT, of goldens and numbers), reason
    (why not judged, or why clean and no more), shape, options, config, golden ("ok", "failed" or
    null), numbers (a VERDICT: wrong if any step is, else that of the last), checked_on, added,
    removed (lines, from the kernel as it was written to the last step), TIME, speedup, findings,
    steps: [STEP]
OTHER
    about (such as "at an odd shape"), recipe, shape, options, config, symbolic (the sizes left
    open), numbers (a VERDICT, of the last step), reason, checked_on, repeat (the command line);
    there is none where a step of the recipe has failed already
STEP
    number, name, source, golden, numbers (a VERDICT), reason, checked_on, left_open (of the last
    step, what the rules about memory did not decide: sentences), added, removed (against the step
    before), TIME, findings
VERDICT
    "right" (compared), "clean" (simulated without a finding, with nothing to compare with),
    "wrong" (there are findings) or "not judged"; null where it was not asked
TIME
    time_us (the median), time_us_lower and time_us_upper (the quartiles), repeats, gflops
FACT
    {group, key (of an expectation; empty for text), name, value, unit}
FINDING
    {check, where, source (the recipe's line, or empty), message, detail}
DIFF
    {before, after, added, removed, diff}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import tirstep
from tirstep.printing import begin_document

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run

Document = dict[str, object]
DOCUMENT = 2
"""The version of the keys above."""
FIELDS = {
    "Diff": "before after added removed",
    "Example": "shape options config",
    "JudgedState": "state device",
    "Time": "median=median_us lower=lower_us upper=upper_us",
    "Finding": "check where source=location message detail",
}
"""The keys of values by their class; of one, the attribute that it has."""


def print_document(command: str, **keys: object) -> None:
    """Print the document of a command; of TVM the version as pip knows it, which needs no import,
    or of one that was built from source as it says itself.
    """
    try:
        tvm_version = version("apache-tvm")
    except PackageNotFoundError:
        import tvm

        tvm_version = str(tvm.__version__)
    versions = {"tirstep": tirstep.__version__, "tvm": tvm_version, "document": DOCUMENT}
    document = {"command": command, "versions": versions, **keys}
    begin_document()
    print(json.dumps(document, indent=2, default=_encode), flush=True)


def read_keys(value: object, names: str) -> Document:
    """Attributes of a value by key, of text ``name number=index``; null where there is no value."""
    pairs = (name.partition("=") for name in names.split())
    return {key: getattr(value, name or key, None) for key, _, name in pairs}


def run_keys(run: Run | None) -> Document:
    """What ran: recipe, shape, options and config."""
    if run is None:
        return {"shape": None, "options": None, "config": None}
    keys = read_keys(run.problem, "shape options")
    return {"recipe": run.recipe.name, **keys, "config": {**run.recipe.config, **run.config}}


def _encode(value: object) -> object:
    """What JSON has no word for: mappings, the values of `FIELDS`, and all else as its text."""
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value).__name__
    if kind not in FIELDS:
        return str(value)
    keys = read_keys(value, FIELDS[kind])
    return {**keys, "diff": str(value)} if kind == "Diff" else keys
