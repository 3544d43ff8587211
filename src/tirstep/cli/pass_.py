"""``tirstep pass``: a change of TVM's pipeline, tried on recipes, files or the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tirstep.printing import print_error
from tirstep.programs.loading import load_place
from tirstep.programs.naming import read_spelling

from .formats import Document, print_document, read_keys
from .formatting import count
from .guarding import note_tried
from .request import (
    LADDER,
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
    from tirstep.experiments import Edit, Experiment, PromiseReport, Subject, Trial
    from tirstep.experiments.corpus import Attempt, TrialRecord
    from tirstep.experiments.shrinking import Counterexample
    from tirstep.lowering_checks.facts import Fact
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen

SHRUNK = 6
"""Wrong modules, one of which is to be reduced."""
DERIVED = (", vectors", ", scalars", ", widest")
"""Ends of the names of facts that another one tells, too."""
BAD_STYLE = "bold red"
STYLES = {"right": "green", "wrong": BAD_STYLE, "refused": BAD_STYLE, "unchanged": "dim"}
MOST_SHOWN = 5
"""Broken promises, and wrong trials, that are printed."""


@with_options("seed", "format")
def command(
    *,
    request: Request,
    names: list[str] | None = argument(
        "[FILE.py:PASS] [MODULE]...",
        "The pass, then recipes, ladders or FILE.py:NAME of a module. The file is run.",
        default=None,
        show_default=False,
    ),
    after: str | None = option("--after", "NAME", "Insert it after this pass: s_tir.ThreadSync."),
    before: str | None = option("--before", "NAME", "Insert it before this pass."),
    replace: str | None = option("--replace", "NAME", "Put it in this pass's place."),
    drop: str | None = option("--drop", "NAME", "Leave this pass out, instead of adding one."),
    pipeline: str | None = option(
        "--pipeline", "FILE.py:NAME", "A function that returns all the passes."
    ),
    corpus: int | None = option(
        "--corpus",
        "N",
        "Try it on N modules: recipes' steps and random programs.",
        least=1,
    ),
    first: int = option("--from", "TRIAL", "The first trial of the corpus.", default=0, least=0),
    device: list[str] | None = option(
        "--device",
        "NAME",
        "Where modules run besides the simulator: cpu or cuda; may be repeated. [default: cpu, "
        "and cuda if any]",
    ),
    arch: list[str] | None = option(
        "--arch", "ARCH", "Also compile for this architecture: registers, spills, instructions."
    ),
    ladder: bool = LADDER,
    diff: bool = flag("--diff", "Print what the pass changed."),
    script: Path | None = option(
        "--script -o", "FILE", "Where to write a counterexample. [default: wrong_PASS.py]"
    ),
    json: bool,
) -> int:
    """Test a TIR pass: does a program compute the same with it?

    Each module runs without the pass and with it, and the facts of both are compared: loads,
    barriers, registers. One that is wrong even without the pass is left out. A counterexample is
    reduced, and written as a script. What the pass promises (pass_experiment) is checked, too.
    Exit code 1 if a result changes, a promise is broken or the pass raises; 3 if nothing changes.
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
    if len(chosen) > 1:
        raise UseError("give one of --after, --before, --replace, --drop and --pipeline")
    takes_pass = not {"drop", "pipeline"} & chosen.keys()
    if takes_pass and not modules:
        raise UseError("name a pass: FILE.py:PASS, with --after, --before or --replace NAME")
    spec = modules.pop(0) if takes_pass else ""
    if modules and corpus is not None:
        raise UseError(f"--corpus excludes modules; leave it out, or {' and '.join(modules)}")
    if modules and first:
        raise UseError("--from belongs to --corpus; leave it out here")
    if not modules and corpus is None:
        raise UseError("name recipes, ladders or modules to try it on, or give --corpus N")

    from tirstep.experiments import Corpus, PromiseReport, try_change
    from tirstep.experiments.corpus import hunt
    from tirstep.experiments.promises import attempt_change, load_experiment
    from tirstep.experiments.shrinking import find_counterexample, require_place
    from tirstep.experiments.trying import LEFT_OUT, RIGHT, UNJUDGED
    from tirstep.lowering_checks.devices import DEVICES, is_cuda_available

    from .facts import choose_architectures
    from .screen import Screen

    if script is not None:
        require_place(script)  # what may not be written is refused before the work
    for name in device or ():
        if name not in DEVICES or name == "auto":
            raise UseError(f"--device {name}: choose {', '.join(DEVICES[1:])}")
    all_devices = ("cpu", "cuda") if is_cuda_available() else ("cpu",)
    devices = tuple(name for name in device or all_devices if name != "simulator")
    look = partial(
        try_change,
        devices=devices,
        architectures=choose_architectures(arch or ()),
        with_facts=True,
    )
    screen, held, is_all, seed = Screen(quiet=json), PromiseReport(), True, request.seed
    place, anchor = next(iter(chosen.items()), ("", ""))
    experiment = load_experiment(place, anchor, spec)
    tried: list[Trial | TrialRecord]
    keys: dict[str, object]
    if corpus is None:
        subjects, is_all = list_subjects(modules, seed, experiment.edit, ladder)
        tries: list[Trial] = []
        with screen.working():
            for number, it in enumerate(subjects, 1):
                screen.doing(f"{it.label} ({number} of {count(len(subjects), 'module')})")
                note_tried(it.label)
                tries.append(look(experiment, it))
                if tries[-1].raised:
                    break
        wrong = [each for each in tries if each.is_bad]
        for trial in tries if experiment.promises else ():
            if trial.is_changed and not trial.is_bad:
                assert experiment.edit is not None, "what promises something is a pass"
                held.changed += 1
                held.hold(trial, experiment.edit.made, experiment.promises)
        show_trials(screen, tries, experiment.title)
        show_promises(screen, held, experiment)
        for trial in tries if diff else wrong[:1]:
            if trial.diff is not None and trial.diff.lines:
                screen.line()
                screen.line((f"# {trial.subject.label}", "bold"))
                screen.diff(trial.diff.lines)
        if wrong:
            screen.line()
            text = f"{wrong[0].subject.label}: {wrong[0].reason}"
            screen.line((f"{wrong[0].status}  ", BAD_STYLE), text)
        bad = [each.subject for each in wrong]
        tried, keys = [*tries], {"modules": [spell_trial(each) for each in tries]}
    else:
        drawn, numbers = Corpus(seed), range(first, first + corpus)
        records: list[TrialRecord] = []
        attempt = partial(attempt_noted, partial(attempt_change, experiment))
        with screen.working():
            for record in hunt(drawn, numbers, attempt):
                records.append(record)
                screen.doing(f"trial {record.trial}, {len(records)} of {len(numbers)}")
        if experiment.promises:
            held.changed = sum(it.status == RIGHT for it in records)
            held.broken += [(it.label, it.broken[0], it.broken[1]) for it in records if it.broken]
        # Drawn programs first, which are small already.
        worst = sorted((it for it in records if it.is_bad), key=lambda it: it.kind != "program")
        show_records(screen, records, experiment.title, seed)
        show_promises(screen, held, experiment)
        bad = [drawn.draw(each.trial, each.redraw) for each in worst[:SHRUNK]]
        lines = [read_keys(it, "trial kind label status reason what") for it in records]
        tried, keys = [*records], {"seed": seed, "trials": lines}
    changed = [each for each in tried if each.is_changed]
    tested = sum(each.status not in (LEFT_OUT, UNJUDGED) for each in changed)
    if not (bad or tested):
        why = f"{experiment.title} changes none of {count(len(tried), 'module')}"
        if changed:
            why = f"of {count(len(changed), 'module')} that it changes none could be judged"
        text = f"nothing was tested: {why}; try it on others, or on more (--corpus N)"
        screen.line((text, "yellow"))
    elif corpus is not None:
        screen.line((f"tested on {tested} of {count(len(tried), 'module')}", "dim"))
    keys["tested"] = tested
    found = None
    # On every module, perhaps: no small program tells more.
    if raised := "".join(each.raised for each in tried[-1:]):
        screen.line()
        for line in raised.splitlines():
            screen.line(line)
    elif bad:
        name = (spec or anchor).rpartition(":")[2].rpartition(".")[2]
        path = script or Path(f"wrong_{name.replace('#', '_')}.py")
        with screen.working():
            screen.doing("making it small")
            note_tried("")  # many, for a minute and a half
            ran_on = devices if corpus is None else ("cpu",)
            found = find_counterexample(experiment, bad[:SHRUNK], path, seed=seed, devices=ran_on)
        show_counterexample(screen, found, bad[0].label)
    if json:
        print_json(experiment, held, found, tried, **keys)
    if bad or held.broken:
        return 1
    return 2 if not is_all else 0 if tested else 3


def attempt_noted(attempt: Attempt, subject: Subject) -> dict[str, Any]:
    """Attempt a module whose name the process that guards this one knows."""
    note_tried(subject.label)
    return attempt(subject)


def list_subjects(
    names: Sequence[str], seed: int, edit: Edit | None = None, prefer_ladders: bool = False
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

    recipes, is_all = pick_recipes(names, request, prefer_ladders=prefer_ladders), True
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


def show_promises(screen: Screen, held: PromiseReport, experiment: Experiment) -> None:
    """A line for each promise that is broken or unchecked; one where all are kept."""
    for label, promise, how in held.broken[:MOST_SHOWN]:
        screen.line(("broken  ", BAD_STYLE), f"'{promise}' on {label}: {how}")
    listed = ", ".join(f"'{each}'" for each in experiment.promises)
    if experiment.promises and not held.changed:
        told = "the pass changes none of these modules, or none that is right without it"
        screen.line(("unchecked  ", "yellow"), f"{listed}: {told}")
    if held.changed and not held.broken:
        where = count(held.changed, "module")
        screen.line(("kept  ", "dim"), f"{listed} on {where} that it changes")


def show_trials(screen: Screen, trials: Sequence[Trial], title: str) -> None:
    """A row for each module, with the facts that differ, as ``barriers 2 → 1``, and times where
    there is a clock.
    """

    def spell(value: Any) -> str:
        return "0" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    def compare(before: Sequence[Fact], after: Sequence[Fact]) -> Iterator[str]:
        known = {(fact.group, fact.name): fact.value for fact in before}
        for fact in after:
            old = known.pop((fact.group, fact.name), None)
            if old != fact.value and not fact.name.endswith(DERIVED):
                yield f"{fact.name} {spell(old)} → {spell(fact.value)}"
        for (_, name), old in known.items():
            if not name.endswith(DERIVED):
                yield f"{name} {spell(old)} → 0"

    def list_differences(trial: Trial) -> Iterator[str]:
        yield from compare(*trial.facts)
        for before, after in trial.compiled:
            yield from (
                f"{before.architecture} {it}" for it in compare(before.rows(), after.rows())
            )
            if after.refusal is not None and before.refusal is None:
                yield f"{after.architecture} refuses it"
        for verdict in trial.verdicts:
            if verdict.times is not None:
                one, other = (each.median * 1e6 for each in verdict.times)
                yield f"{verdict.device} {one:.1f} → {other:.1f} us"

    from rich.text import Text

    from .screen import make_table

    rows = []
    for each in trials:
        change = ""
        if each.diff is not None and each.is_changed:
            gone = "" if each.is_changed_in_the_end else ", the same in the end"
            change = f"+{each.diff.added} −{each.diff.removed}{gone}"
        reason = each.reason if len(each.reason) <= 100 else f"{each.reason[:99]}…"
        devices = ", ".join(it.device for it in each.verdicts if it.after is not None)
        answer = Text(each.status, STYLES.get(each.status, "yellow"))
        differs = "; ".join(list_differences(each)) or reason
        rows.append((each.subject.label, change, answer, devices, differs))
    problems = (it.subject.problem for it in trials)
    shapes = {it.shape_text for it in problems if it is not None and it.shape_text}
    where = " and ".join(sorted(shapes)) if len(shapes) < MOST_SHOWN else "the goldens' sizes"
    screen.line((title, "bold"), (where and f"  at {where}", "dim"))
    headings = ("module", "change", "answer", "run on", "what differs")
    screen.table(make_table(headings, (), rows), wraps=True)
    counts = Counter(each.status for each in trials)
    told = ", ".join(f"{number} {status}" for status, number in counts.items())
    screen.line((f"{count(len(trials), 'module')}: ", "dim"), told)


def show_records(screen: Screen, records: Sequence[TrialRecord], title: str, seed: int) -> None:
    """How many trials of each kind ended how."""
    from .screen import make_table

    statuses = list(dict.fromkeys(each.status for each in records))
    rows = []
    for kind in dict.fromkeys(each.kind for each in records):
        counts = Counter(each.status for each in records if each.kind == kind)
        rows.append((kind, *(str(counts[status] or "") for status in statuses)))
    screen.line((title, "bold"), (f"  {count(len(records), 'trial')}, seed {seed}", "dim"))
    screen.table(make_table([""], statuses, rows))
    for each in [each for each in records if each.is_bad][:MOST_SHOWN]:
        text = f"trial {each.trial}, {each.label}: {each.reason}"
        screen.line((f"{each.status}  ", BAD_STYLE), text)


def show_counterexample(screen: Screen, found: Counterexample | None, label: str) -> None:
    """The small program, and its script; or the module that shows it."""
    screen.line()
    if found is None:
        told = f"{label} shows it, and no smaller program by itself, so no script is written"
        screen.line((told, "yellow"))
        return
    lines = count(found.shrunk.lines, "line")
    screen.line(("small   ", "dim"), f"{lines}, after {found.shrunk.tried} reductions tried")
    screen.program(found.shrunk.text)
    trial = found.shrunk.trial
    reason = trial.reason.replace("<str>:", "line ")
    screen.line((f"{trial.status}   ", "dim"), reason)
    screen.line(("script  ", "dim"), str(found.path))
    verb = "shows it" if found.is_shown else "does not show it on this machine"
    screen.line(("run     ", "dim"), f"the script {verb}: {found.last_line}")


def print_json(
    experiment: Experiment,
    held: PromiseReport,
    found: Counterexample | None,
    tried: Sequence[Trial | TrialRecord],
    **keys: object,
) -> None:
    """The document of what was tried: `keys` are those of modules, or of the corpus."""
    small: Document | None = None
    if found is not None:
        small = {
            "from": found.label,
            **read_keys(found.shrunk, "lines program=text"),
            "reason": found.shrunk.trial.reason,
            **read_keys(found, "script=path shown=is_shown last_line"),
        }
    broken = [dict(zip(("module", "promise", "how"), it, strict=True)) for it in held.broken]
    own = read_spelling(experiment.named[2] or experiment.named[1])
    print_document(
        "pass",
        change=experiment.title,
        source=load_place(own.place).locate(own.names[0]) if own.names else None,
        ok=not held.broken and not any(each.is_bad for each in tried),
        counts=Counter(each.status for each in tried),
        **keys,
        promises={
            "declared": experiment.promises,
            "checked": held.changed,
            "broken": broken,
        },
        counterexample=small,
    )


def spell_trial(trial: Trial) -> Document:
    """A module, and what the change did to it."""

    def messages(findings: Any) -> list[str] | None:
        return None if findings is None else [each.message for each in findings]

    def rows(facts: Sequence[Fact]) -> list[Document]:
        return [fact._asdict() for fact in facts]

    return {
        "module": trial.subject.label,
        **read_keys(trial, "status reason changed=is_changed"),
        "changed_in_the_end": trial.is_changed_in_the_end,
        "diff": None if trial.diff is None else str(trial.diff),
        "devices": [
            {
                "device": it.device,
                "before": messages(it.before),
                "after": messages(it.after),
                "note": it.note,
                "time_us": it.times and [each.median * 1e6 for each in it.times],
            }
            for it in trial.verdicts
        ],
        "facts": [rows(facts) for facts in trial.facts],
        "compiled": [
            {
                "architecture": before.architecture,
                "before": rows(before.rows()),
                "after": rows(after.rows()),
            }
            for before, after in trial.compiled
        ],
    }
