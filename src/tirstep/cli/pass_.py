"""``tirstep pass``: a change of TVM's pipeline, tried on recipes, files or the corpus."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .formatting import count
from .guarding import find_crash, note_tried
from .request import Json, Seed, at_least
from .streams import print_error
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.experiments import Edit, Experiment, Subject, TryOptions
    from tirstep.experiments.counterexample import PassSource
    from tirstep.experiments.declaring import Declaration
    from tirstep.transforms.recipes import Recipe

PLACES = ("after", "before", "replace")


PassAndModules = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE.py:PASS] [MODULE]...",
        show_default=False,
        help="The pass, then recipes, ladders or FILE.py:NAME of a module. The file is run.",
    ),
]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="NAME", help="Put it behind this pass: s_tir.ThreadSync."),
]
Before = Annotated[
    str | None, typer.Option("--before", metavar="NAME", help="Put it in front of this pass.")
]
Replace = Annotated[
    str | None, typer.Option("--replace", metavar="NAME", help="Put it in this pass's place.")
]
Drop = Annotated[
    str | None,
    typer.Option("--drop", metavar="NAME", help="Leave this pass out; no pass is given."),
]
WholePipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline", metavar="FILE.py:NAME", help="A function that returns all the passes."
    ),
]
CorpusSize = Annotated[
    int | None,
    typer.Option(
        "--corpus",
        metavar="N",
        parser=at_least("--corpus", 1, int),
        help="Try it on N modules of the corpus: steps, drawn schedules and programs.",
    ),
]
FirstTrial = Annotated[
    int,
    typer.Option(
        "--from",
        metavar="TRIAL",
        parser=at_least("--from", 0, int),
        help="The first trial of the corpus.",
    ),
]
StateFile = Annotated[
    Path | None,
    typer.Option("--state", metavar="FILE", help="Keep the trials here, and go on from it."),
]
Audit = Annotated[
    bool,
    typer.Option("--audit", help="Hold each pass of TVM's against the interpreter instead."),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", metavar="N", parser=at_least("--jobs", 1, int), help="Processes, of an audit."
    ),
]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Besides the simulator: cpu or cuda. [default: cpu, and cuda if any]",
    ),
]
Archs = Annotated[
    list[str] | None,
    typer.Option(
        "--arch", metavar="ARCH", help="Compile for it, too: registers, spills, instructions."
    ),
]
WithDiff = Annotated[bool, typer.Option("--diff", help="Print what the pass changed.")]
ScriptFile = Annotated[
    Path | None,
    typer.Option(
        "--script",
        "-o",
        metavar="FILE",
        help="Where to write a counterexample. [default: wrong_PASS.py]",
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write an HTML page of each module without the change and with it.",
    ),
]


def command(
    names: PassAndModules = None,
    after: After = None,
    before: Before = None,
    replace: Replace = None,
    drop: Drop = None,
    pipeline: WholePipeline = None,
    corpus: CorpusSize = None,
    first: FirstTrial = 0,
    seed: Seed = 0,
    state: StateFile = None,
    audit: Audit = False,
    jobs: Jobs = 1,
    device: Devices = None,
    arch: Archs = None,
    diff: WithDiff = False,
    script: ScriptFile = None,
    report: ReportFile = None,
    json: Json = False,
) -> int:
    """Try a TIR pass: is every answer the same with it?

    A module is run without the pass and with it, and its facts are compared: what the GPU gets. One
    that is not right without the pass is left out. A wrong one is made small, and written as a
    script that shows it with TVM and NumPy alone. What the pass promises (pass_experiment) is
    checked, too. Exit code 1 if an answer changed, or a promise is broken.
    """
    wish = PassWish({"after": after, "before": before, "replace": replace}, drop, pipeline)
    given = list(names or ())
    if audit:
        if wish.is_any or given or report is not None:
            raise UseError("--audit is of TVM's own pipeline; give --corpus, --seed, --jobs alone")
        from .pass_audit import show_audit

        return show_audit(corpus or 100, first, seed, jobs, state, as_json=json)
    if wish.takes_pass and not given:
        raise UseError("name a pass: FILE.py:PASS, with --after, --before or --replace NAME")
    spec = given.pop(0) if wish.takes_pass else ""
    if given and corpus is not None:
        raise UseError(f"--corpus is tried alone; leave it out, or {' and '.join(given)}")
    if given and (state is not None or first):
        raise UseError("--state and --from are of a search over --corpus; leave them out here")
    if not given and corpus is None:
        raise UseError("name recipes, ladders or modules to try it on, or give --corpus N")
    tried = Tried(wish, spec, given, corpus, first, seed, state, script, report)
    return try_pass(tried, device, arch or [], with_diff=diff, as_json=json)


@dataclass(frozen=True)
class PassWish:
    """What is to be changed: `places` has the options that name a place, by name."""

    places: dict[str, str | None]
    drop: str | None
    pipeline: str | None

    @property
    def is_any(self) -> bool:
        """Whether anything is to be changed."""
        return any((*self.places.values(), self.drop, self.pipeline))

    @property
    def takes_pass(self) -> bool:
        """Whether the user names a pass: not to leave one out, nor for a pipeline of their own."""
        if sum(each is not None for each in (*self.places.values(), self.drop, self.pipeline)) > 1:
            raise UseError("give one of --after, --before, --replace, --drop and --pipeline")
        return self.drop is None and self.pipeline is None


@dataclass(frozen=True)
class Tried:
    """What is to be tried, on what."""

    wish: PassWish
    spec: str
    modules: Sequence[str]
    corpus: int | None
    first: int
    seed: int
    state: Path | None
    script: Path | None
    report: Path | None

    @property
    def name(self) -> str:
        """Of the pass, for people and files."""
        text = self.spec or self.wish.pipeline or self.wish.drop or ""
        return text.rpartition(":")[2].rpartition(".")[2]


@dataclass(frozen=True)
class Change:
    """A change that was loaded: its edits, or what makes a pipeline, and the pass's source.

    `promises` are what the pass declares besides right numbers.
    """

    edits: Sequence[Edit]
    whole: Any
    source: PassSource
    title: str
    promises: tuple[str, ...] = ()


def load_change(tried: Tried) -> Change:
    """Load the pass, and say where it goes; raises `UseError` where that is not known."""
    from tirstep.experiments import Edit, ExperimentError, get_declaration
    from tirstep.experiments.counterexample import PassSource
    from tirstep.experiments.editing import make_whole
    from tirstep.experiments.promises import NUMBERS
    from tirstep.experiments.user_file import load_value

    wish = tried.wish
    try:
        if wish.pipeline is not None:
            whole = make_whole(load_value(wish.pipeline), wish.pipeline)
            return Change((), whole, _read_source(wish.pipeline), f"pipeline {wish.pipeline}")
        if wish.drop is not None:
            return Change((Edit("drop", wish.drop),), None, PassSource(), f"without {wish.drop}")
        value = load_value(tried.spec)
        declared = get_declaration(value)
        edit = _place(value, tried, declared)
        promises = () if declared is None else declared.promises
        source, title = _read_source(tried.spec), f"{tried.name} {edit}"
        return Change((edit,), None, source, title, tuple(p for p in promises if p != NUMBERS))
    except ExperimentError as error:
        raise UseError(str(error)) from None


def _read_source(spec: str) -> PassSource:
    """What a script makes of ``FILE.py:NAME``, or of a module that was imported."""
    from tirstep.experiments.counterexample import PassSource, read_source

    place, _, name = spec.rpartition(":")
    if place.endswith(".py"):
        return read_source(Path(place), name)
    file = getattr(sys.modules.get(place), "__file__", None) or ""
    return (
        read_source(Path(file), name)
        if file.endswith(".py")
        else PassSource("", name, module=place)
    )


def _place(value: Any, tried: Tried, declared: Declaration | None) -> Edit:
    from tirstep.experiments import Edit
    from tirstep.experiments.editing import get_pass

    chosen = [(place, name) for place, name in tried.wish.places.items() if name is not None]
    if not chosen and declared is None:
        raise UseError(
            f"where does {tried.name} go? give --after, --before or --replace NAME, or decorate it "
            "with pass_experiment"
        )
    place, anchor = chosen[0] if chosen else (declared.place, declared.anchor)  # type: ignore[union-attr]
    return Edit(place, anchor, get_pass(value, tried.name))


def try_pass(
    tried: Tried,
    devices: Sequence[str] | None,
    archs: Sequence[str],
    *,
    with_diff: bool,
    as_json: bool,
) -> int:
    """Try it, and say what it did; 1 if an answer changed."""
    from tirstep.experiments import Experiment, ExperimentError, TryOptions
    from tirstep.experiments.trying import choose_devices
    from tirstep.lowering_checks.devices import DEVICES

    from .facts import choose_architectures
    from .pass_screen import show_corpus, show_modules
    from .screen import Screen

    change = load_change(tried)
    _require_places(tried)
    unknown = [name for name in devices or () if name not in DEVICES or name == "auto"]
    if unknown:
        raise UseError(f"--device {unknown[0]}: choose {', '.join(DEVICES[1:])}")
    chosen = tuple(name for name in devices or choose_devices() if name != "simulator")
    options = TryOptions(chosen, choose_architectures(archs))
    screen = Screen(quiet=as_json)
    try:
        with Experiment(tried.name, change.edits, change.whole) as experiment:
            if tried.corpus is not None:
                return show_corpus(screen, experiment, tried, change, options, as_json=as_json)
            subjects, is_all = list_subjects(tried.modules, tried.seed, experiment.edits)
            trials = _try_all(screen, experiment, subjects, options)
            code = show_modules(
                screen, experiment, trials, tried, change, with_diff=with_diff, as_json=as_json
            )
            return code if is_all else 2
    except ExperimentError as error:
        raise UseError(str(error)) from None


def _require_places(tried: Tried) -> None:
    """Refuse, before the work, to write where that cannot or may not be."""
    from tirstep.experiments import ExperimentError
    from tirstep.experiments.counterexample import require_place

    from .report import require_replaceable

    if tried.report is not None:
        require_replaceable(tried.report)
    if tried.script is not None:
        try:
            require_place(tried.script)
        except ExperimentError as error:
            raise UseError(str(error)) from None


def _try_all(
    screen: Any, experiment: Experiment, subjects: Sequence[Subject], options: TryOptions
) -> list[Any]:
    from tirstep.experiments import Trial, try_change

    trials = []
    with screen.working():
        for number, subject in enumerate(subjects, 1):
            screen.doing(f"{subject.label} ({number} of {count(len(subjects), 'module')})")
            note_tried(subject.label)
            crash = find_crash(subject.label)
            trials.append(
                try_change(experiment, subject, options)
                if crash is None
                else Trial(subject, "crashed", crash)
            )
    return trials


def list_subjects(
    names: Sequence[str], seed: int, edits: Sequence[Edit] = ()
) -> tuple[list[Subject], bool]:
    """The modules of recipes, ladders and the user's own programs, and whether these are all.

    Of several programs, one that cannot be run is told and left out. Raises `UseError` for names
    of others, and `ExperimentError` where none has a pass at which an edit is.
    """
    from tirstep.experiments import list_steps
    from tirstep.experiments.editing import require_reached

    from .request import make_request, pick_recipes, run_requested, try_one

    request = make_request(None, None, None, None, seed=seed)
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
    require_reached(edits, [each.module for each in found])
    return found, is_all
