"""``tirstep pass``: a change of TVM's pipeline, tried on recipes, files or the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .formatting import count
from .guarding import note_tried
from .request import (
    JSON,
    Request,
    argument,
    flag,
    make_request,
    option,
    pick_recipes,
    run_requested,
    try_one,
    with_options,
)
from .streams import print_error
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.experiments import Edit, Experiment, Subject, TryOptions
    from tirstep.experiments.counterexample import Counterexample
    from tirstep.experiments.trials import TrialRecord
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen

SHRUNK = 6
"""Wrong modules of which one is to be made small."""


@with_options("seed")
def command(
    *,
    request: Request,
    names: list[str] | None = argument(
        "[FILE.py:PASS] [MODULE]...",
        "The pass, then recipes, ladders or FILE.py:NAME of a module. The file is run.",
        default=None,
        show_default=False,
    ),
    after: str | None = option("--after", "NAME", "Put it behind this pass: s_tir.ThreadSync."),
    before: str | None = option("--before", "NAME", "Put it in front of this pass."),
    replace: str | None = option("--replace", "NAME", "Put it in this pass's place."),
    drop: str | None = option("--drop", "NAME", "Leave this pass out; no pass is given."),
    pipeline: str | None = option(
        "--pipeline", "FILE.py:NAME", "A function that returns all the passes."
    ),
    corpus: int | None = option(
        "--corpus",
        "N",
        "Try it on N modules of the corpus: steps, drawn schedules and programs.",
        least=1,
    ),
    first: int = option("--from", "TRIAL", "The first trial of the corpus.", default=0, least=0),
    state: Path | None = option("--state", "FILE", "Keep the trials here, and go on from it."),
    audit: bool = flag("--audit", "Hold each pass of TVM's against the interpreter instead."),
    device: list[str] | None = option(
        "--device", "NAME", "Besides the simulator: cpu or cuda. [default: cpu, and cuda if any]"
    ),
    arch: list[str] | None = option(
        "--arch", "ARCH", "Compile for it, too: registers, spills, instructions."
    ),
    diff: bool = flag("--diff", "Print what the pass changed."),
    script: Path | None = option(
        "--script -o", "FILE", "Where to write a counterexample. [default: wrong_PASS.py]"
    ),
    json: bool = JSON,
) -> int:
    """Try a TIR pass: is every answer the same with it?

    A module is run without the pass and with it, and its facts are compared: what the GPU gets. One
    that is not right without the pass is left out. A wrong one is made small, and written as a
    script that shows it. What the pass promises (pass_experiment) is checked, too. Exit code 1 if
    an answer changed, or a promise is broken.
    """
    places = {
        "after": after,
        "before": before,
        "replace": replace,
        "drop": drop,
        "pipeline": pipeline,
    }
    chosen = {place: name for place, name in places.items() if name is not None}
    modules = list(names or ())
    if audit and (chosen or modules):
        raise UseError("--audit is of TVM's own pipeline; give --corpus and --seed alone")
    if audit:
        return audit_passes(range(first, first + (corpus or 100)), request.seed, state, json)
    if len(chosen) > 1:
        raise UseError("give one of --after, --before, --replace, --drop and --pipeline")
    takes_pass = not {"drop", "pipeline"} & chosen.keys()
    if takes_pass and not modules:
        raise UseError("name a pass: FILE.py:PASS, with --after, --before or --replace NAME")
    spec = modules.pop(0) if takes_pass else ""
    if modules and corpus is not None:
        raise UseError(f"--corpus is tried alone; leave it out, or {' and '.join(modules)}")
    if modules and (state is not None or first):
        raise UseError("--state and --from are of a search over --corpus; leave them out here")
    if not modules and corpus is None:
        raise UseError("name recipes, ladders or modules to try it on, or give --corpus N")

    from tirstep.experiments import TryOptions
    from tirstep.experiments.counterexample import require_place
    from tirstep.experiments.loading import load_experiment
    from tirstep.experiments.trying import choose_devices
    from tirstep.lowering_checks.devices import DEVICES

    from .facts import choose_architectures
    from .screen import Screen

    if script is not None:
        require_place(script)  # what may not be written is refused before the work
    for name in device or ():
        if name not in DEVICES or name == "auto":
            raise UseError(f"--device {name}: choose {', '.join(DEVICES[1:])}")
    devices = tuple(name for name in device or choose_devices() if name != "simulator")
    options = TryOptions(devices, choose_architectures(arch or ()), with_facts=True)
    screen = Screen(quiet=json)
    place, anchor = next(iter(chosen.items()), ("", ""))
    with load_experiment(place, anchor, spec) as experiment:
        name = (spec or anchor).rpartition(":")[2].rpartition(".")[2]
        path = script or Path(f"wrong_{name.replace('#', '_')}.py")
        if corpus is None:
            return try_modules(screen, experiment, modules, request.seed, options, path, diff, json)
        trials = range(first, first + corpus)
        return try_corpus(screen, experiment, trials, request.seed, state, path, json)


def try_modules(
    screen: Screen,
    experiment: Experiment,
    names: Sequence[str],
    seed: int,
    options: TryOptions,
    path: Path,
    with_diff: bool,
    as_json: bool,
) -> int:
    """Try a change on modules; 1 if it is wrong, 2 if a module cannot be run."""
    from tirstep.experiments import PromiseReport, try_change

    from . import pass_screen as shown

    subjects, is_all = list_subjects(names, seed, experiment.edit)
    trials = []
    with screen.working():
        for number, it in enumerate(subjects, 1):
            screen.doing(f"{it.label} ({number} of {count(len(subjects), 'module')})")
            note_tried(it.label)
            trials.append(try_change(experiment, it, options))
    bad = [each for each in trials if each.is_bad]
    held = PromiseReport()
    for trial in trials:
        if trial.is_changed and not trial.is_bad:
            shown.hold(held, trial, experiment)
    shown.show_trials(screen, trials, experiment.title)
    shown.show_promises(screen, held, experiment)
    for trial in trials if with_diff else bad[:1]:
        if trial.diff is not None and trial.diff.lines:
            screen.line()
            screen.line((f"# {trial.subject.label}", "bold"))
            screen.diff(trial.diff.lines)
    found = None
    if bad:
        screen.line()
        shown.show_bad(screen, bad[0].status, f"{bad[0].subject.label}: {bad[0].reason}")
        found = shrink(screen, experiment, [each.subject for each in bad], seed, path)
    if as_json:
        modules = [shown.spell_trial(each) for each in trials]
        shown.print_json(experiment, held, found, trials, modules=modules)
    return 1 if bad or held.broken else 0 if is_all else 2


def try_corpus(
    screen: Screen,
    experiment: Experiment,
    trials: Sequence[int],
    seed: int,
    state: Path | None,
    path: Path,
    as_json: bool,
) -> int:
    """Try a change over the corpus; 1 if it is wrong."""
    from tirstep.experiments import Corpus, PromiseReport, try_change
    from tirstep.experiments.trials import TrialFile, hunt
    from tirstep.experiments.trying import RIGHT

    from . import pass_screen as shown

    corpus = Corpus(seed)
    head = {"change": experiment.title, "seed": seed, "text": experiment.digest}
    file = TrialFile(state, head)
    records: list[TrialRecord] = []

    def attempt(subject: Subject) -> dict[str, str]:
        note_tried(subject.label)
        found = try_change(experiment, subject)
        return {"status": found.status, "reason": found.reason, "what": found.what}

    held = PromiseReport()
    with screen.working():
        for record in hunt(corpus, trials, file, attempt):
            records.append(record)
            screen.doing(f"trial {record.trial}, {len(records)} of {len(trials)}")
        for record in records if experiment.promises else ():
            if record.status == RIGHT:
                screen.doing(f"the promises on trial {record.trial}")
                shown.hold(held, try_change(experiment, corpus.draw(record.trial)), experiment)
    # Drawn programs first, which are small already.
    bad = sorted((each for each in records if each.is_bad), key=lambda it: it.kind != "program")
    shown.show_records(screen, records, experiment.title, seed)
    shown.show_promises(screen, held, experiment)
    found = None
    if bad:
        subjects = [corpus.draw(each.trial) for each in bad[:SHRUNK]]
        found = shrink(screen, experiment, subjects, seed, path)
    if as_json:
        lines = [shown.spell_record(each) for each in records]
        shown.print_json(experiment, held, found, records, seed=seed, trials=lines)
    return 1 if bad or held.broken else 0


def shrink(
    screen: Screen, experiment: Experiment, bad: Sequence[Subject], seed: int, path: Path
) -> Counterexample | None:
    """Make one of some wrong modules small, and show it."""
    from tirstep.experiments.counterexample import find_counterexample

    from .pass_screen import show_counterexample

    with screen.working():
        screen.doing("making it small")
        note_tried("")  # many, for a minute and a half
        found = find_counterexample(experiment, bad[:SHRUNK], path, seed=seed)
    show_counterexample(screen, found)
    return found


def audit_passes(trials: Sequence[int], seed: int, state: Path | None, as_json: bool) -> int:
    """Hold TVM's own passes against the interpreter, over the corpus; 1 if one is wrong."""
    from tirstep.experiments import Corpus, list_passes
    from tirstep.experiments.audit import audit, tabulate
    from tirstep.experiments.trials import TrialFile, hunt

    from . import pass_screen as shown
    from .screen import Screen

    def attempt(subject: Subject) -> dict[str, object]:
        note_tried(subject.label)
        return dict(audit(subject))

    screen = Screen(quiet=as_json)
    records: list[TrialRecord] = []
    file = TrialFile(state, {"audit": True, "seed": seed})
    with screen.working():
        for record in hunt(Corpus(seed), trials, file, attempt):
            records.append(record)
            screen.doing(f"{len(records)} of {len(trials)} trials")
    rows = tabulate(records, list_passes())
    shown.show_audit(screen, records, rows, seed)
    if as_json:
        shown.print_audit(records, rows, seed)
    return 1 if any(each.status == "wrong" for each in records) else 0


def list_subjects(
    names: Sequence[str], seed: int, edit: Edit | None = None
) -> tuple[list[Subject], bool]:
    """The modules of recipes, ladders and the user's own programs, and whether these are all.

    Of several programs, one that cannot be run is told and left out. Raises `UseError` for names
    of others, and `ExperimentError` where none has the pass at which an edit is.
    """
    from tirstep.experiments import list_steps
    from tirstep.experiments.editing import require_reached

    request = make_request(seed=seed)
    found: list[Subject] = []

    def add(recipe: Recipe) -> int:
        found.extend(list_steps(run_requested(recipe, request), seed))
        return 0

    recipes, is_all = pick_recipes(names, request), True
    for recipe in recipes:
        if len(recipes) == 1:
            add(recipe)
            continue
        _, sentence = try_one(partial(add, recipe))
        if sentence is not None:
            print_error(f"{recipe.name}: {sentence}")
            is_all = False
    require_reached(edit, [each.module for each in found])
    return found, is_all
