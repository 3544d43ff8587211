"""``tirstep pass``: a change of TVM's pipeline, tried on recipes, files or the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tirstep.printing import print_error

from .formatting import count
from .guarding import note_tried
from .request import (
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
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.experiments import Edit, Subject, Trial
    from tirstep.experiments.corpus import TrialRecord
    from tirstep.transforms.recipes import Recipe

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
    json: bool,
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
        from .pass_screen import audit_passes

        trials = range(first, first + (corpus or 100))
        return audit_passes(trials, request.seed, state, as_json=json)
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

    from tirstep.experiments import Corpus, PromiseReport, try_change
    from tirstep.experiments.corpus import TrialFile, hunt
    from tirstep.experiments.promises import load_experiment
    from tirstep.experiments.shrinking import find_counterexample, require_place
    from tirstep.experiments.trying import RIGHT, choose_devices
    from tirstep.lowering_checks.devices import DEVICES

    from . import pass_screen as shown
    from .facts import choose_architectures
    from .screen import Screen

    if script is not None:
        require_place(script)  # what may not be written is refused before the work
    for name in device or ():
        if name not in DEVICES or name == "auto":
            raise UseError(f"--device {name}: choose {', '.join(DEVICES[1:])}")
    devices = tuple(name for name in device or choose_devices() if name != "simulator")
    look = partial(
        try_change,
        devices=devices,
        architectures=choose_architectures(arch or ()),
        with_facts=True,
    )
    screen, held, is_all, seed = Screen(quiet=json), PromiseReport(), True, request.seed
    place, anchor = next(iter(chosen.items()), ("", ""))
    with load_experiment(place, anchor, spec) as experiment:

        def hold(trial: Trial) -> None:
            """Hold a pass to its promises on a module that it changes and leaves right."""
            if experiment.promises and experiment.edit is not None:
                assert experiment.edit.made is not None, "what promises something is a pass"
                held.changed += 1
                held.hold(trial, experiment.edit.made, experiment.promises)

        def attempt(subject: Subject) -> dict[str, str]:
            note_tried(subject.label)
            found = try_change(experiment, subject)
            return {"status": found.status, "reason": found.reason, "what": found.what}

        tried: list[Trial | TrialRecord]
        keys: dict[str, object]
        if corpus is None:
            subjects, is_all = list_subjects(modules, seed, experiment.edit)
            tries: list[Trial] = []
            with screen.working():
                for number, it in enumerate(subjects, 1):
                    screen.doing(f"{it.label} ({number} of {count(len(subjects), 'module')})")
                    note_tried(it.label)
                    tries.append(look(experiment, it))
            wrong = [each for each in tries if each.is_bad]
            for trial in tries:
                if trial.is_changed and not trial.is_bad:
                    hold(trial)
            shown.show_trials(screen, tries, experiment.title)
            shown.show_promises(screen, held, experiment)
            for trial in tries if diff else wrong[:1]:
                if trial.diff is not None and trial.diff.lines:
                    screen.line()
                    screen.line((f"# {trial.subject.label}", "bold"))
                    screen.diff(trial.diff.lines)
            if wrong:
                screen.line()
                text = f"{wrong[0].subject.label}: {wrong[0].reason}"
                shown.show_bad(screen, wrong[0].status, text)
            bad = [each.subject for each in wrong]
            tried, keys = [*tries], {"modules": [shown.spell_trial(each) for each in tries]}
        else:
            drawn, numbers = Corpus(seed), range(first, first + corpus)
            head = {"change": experiment.title, "seed": seed, "text": experiment.digest}
            records: list[TrialRecord] = []
            with screen.working():
                for record in hunt(drawn, numbers, TrialFile(state, head), attempt):
                    records.append(record)
                    screen.doing(f"trial {record.trial}, {len(records)} of {len(numbers)}")
                for record in records if experiment.promises else ():
                    if record.status == RIGHT:
                        screen.doing(f"the promises on trial {record.trial}")
                        hold(try_change(experiment, drawn.draw(record.trial)))
            # Drawn programs first, which are small already.
            worst = sorted((it for it in records if it.is_bad), key=lambda it: it.kind != "program")
            shown.show_records(screen, records, experiment.title, seed)
            shown.show_promises(screen, held, experiment)
            bad = [drawn.draw(each.trial) for each in worst[:SHRUNK]]
            lines = [shown.spell_record(each) for each in records]
            tried, keys = [*records], {"seed": seed, "trials": lines}
        found = None
        if bad:
            name = (spec or anchor).rpartition(":")[2].rpartition(".")[2]
            path = script or Path(f"wrong_{name.replace('#', '_')}.py")
            with screen.working():
                screen.doing("making it small")
                note_tried("")  # many, for a minute and a half
                found = find_counterexample(experiment, bad[:SHRUNK], path, seed=seed)
            shown.show_counterexample(screen, found)
        if json:
            shown.print_json(experiment, held, found, tried, **keys)
    return 1 if bad or held.broken else 0 if is_all else 2


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
