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
from .request import (
    Json,
    Request,
    at_least,
    make_request,
    pick_recipes,
    run_requested,
    try_one,
    with_options,
)
from .streams import print_error
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.experiments import Edit, Subject
    from tirstep.experiments.counterexample import PassSource
    from tirstep.transforms.recipes import Recipe


@with_options("seed")
def command(
    request: Request,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.py:PASS] [MODULE]...",
            show_default=False,
            help="The pass, then recipes, ladders or FILE.py:NAME of a module. The file is run.",
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="NAME", help="Put it behind this pass: s_tir.ThreadSync."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="NAME", help="Put it in front of this pass.")
    ] = None,
    replace: Annotated[
        str | None, typer.Option("--replace", metavar="NAME", help="Put it in this pass's place.")
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option("--drop", metavar="NAME", help="Leave this pass out; no pass is given."),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline", metavar="FILE.py:NAME", help="A function that returns all the passes."
        ),
    ] = None,
    corpus: Annotated[
        int | None,
        typer.Option(
            "--corpus",
            metavar="N",
            parser=at_least("--corpus", 1, int),
            help="Try it on N modules of the corpus: steps, drawn schedules and programs.",
        ),
    ] = None,
    first: Annotated[
        int,
        typer.Option(
            "--from",
            metavar="TRIAL",
            parser=at_least("--from", 0, int),
            help="The first trial of the corpus.",
        ),
    ] = 0,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Keep the trials here, and go on from it."),
    ] = None,
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Hold each pass of TVM's against the interpreter instead."),
    ] = False,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs", metavar="N", parser=at_least("--jobs", 1, int), help="Processes, of an audit."
        ),
    ] = 1,
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            metavar="NAME",
            help="Besides the simulator: cpu or cuda. [default: cpu, and cuda if any]",
        ),
    ] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch", metavar="ARCH", help="Compile for it, too: registers, spills, instructions."
        ),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print what the pass changed.")] = False,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            "-o",
            metavar="FILE",
            help="Where to write a counterexample. [default: wrong_PASS.py]",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write an HTML page of each module without the change and with it.",
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Try a TIR pass: is every answer the same with it?

    A module is run without the pass and with it, and its facts are compared: what the GPU gets. One
    that is not right without the pass is left out. A wrong one is made small, and written as a
    script that shows it with TVM and NumPy alone. What the pass promises (pass_experiment) is
    checked, too. Exit code 1 if an answer changed, or a promise is broken.
    """
    places = {
        "after": after,
        "before": before,
        "replace": replace,
        "drop": drop,
        "pipeline": pipeline,
    }
    chosen = {place: name for place, name in places.items() if name is not None}
    given = list(names or ())
    if audit:
        if chosen or given or report is not None:
            raise UseError("--audit is of TVM's own pipeline; give --corpus, --seed, --jobs alone")
        from .pass_audit import show_audit

        return show_audit(corpus or 100, first, request.seed, jobs, state, as_json=json)
    if len(chosen) > 1:
        raise UseError("give one of --after, --before, --replace, --drop and --pipeline")
    takes_pass = not {"drop", "pipeline"} & chosen.keys()
    if takes_pass and not given:
        raise UseError("name a pass: FILE.py:PASS, with --after, --before or --replace NAME")
    spec = given.pop(0) if takes_pass else ""
    if given and corpus is not None:
        raise UseError(f"--corpus is tried alone; leave it out, or {' and '.join(given)}")
    if given and (state is not None or first):
        raise UseError("--state and --from are of a search over --corpus; leave them out here")
    if not given and corpus is None:
        raise UseError("name recipes, ladders or modules to try it on, or give --corpus N")
    place, anchor = next(iter(chosen.items()), ("", ""))
    tried = Tried(
        place, anchor, spec, tuple(given), corpus, first, request.seed, state, script, report, diff
    )
    return try_pass(tried, device or (), arch or (), as_json=json)


@dataclass(frozen=True)
class Tried:
    """What is to be tried, on what.

    Attributes
    ----------
    place, anchor : of the only option that names a place, ``"after"`` and the name of a pass, say;
        of ``"pipeline"`` what names it; empty where the pass declares it
    spec : the pass; empty where it is one to be left out, or a pipeline
    """

    place: str
    anchor: str
    spec: str
    modules: tuple[str, ...]
    corpus: int | None
    first: int
    seed: int
    state: Path | None
    script: Path | None
    report: Path | None
    with_diff: bool = False

    @property
    def name(self) -> str:
        """Of the pass, for people and files."""
        return (self.spec or self.anchor).rpartition(":")[2].rpartition(".")[2]

    @property
    def path(self) -> Path:
        """Where the script of a counterexample goes."""
        return self.script or Path(f"wrong_{self.name.replace('#', '_')}.py")


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
    from tirstep.experiments.editing import get_pass, make_whole
    from tirstep.experiments.promises import NUMBERS
    from tirstep.experiments.user_file import load_value

    try:
        if tried.place == "pipeline":
            whole = make_whole(load_value(tried.anchor), tried.anchor)
            return Change((), whole, _read_source(tried.anchor), f"pipeline {tried.anchor}")
        if tried.place == "drop":
            title = f"without {tried.anchor}"
            return Change((Edit("drop", tried.anchor),), None, PassSource(), title)
        value = load_value(tried.spec)
        declared = get_declaration(value)
        if tried.place:
            place, anchor = tried.place, tried.anchor
        elif declared is not None:
            place, anchor = declared.place, declared.anchor
        else:
            raise UseError(
                f"where does {tried.name} go? give --after, --before or --replace NAME, or "
                "decorate it with pass_experiment"
            )
        edit = Edit(place, anchor, get_pass(value, tried.name))
        promises = () if declared is None else declared.promises
        source, title = _read_source(tried.spec), f"{tried.name} {edit}"
        return Change((edit,), None, source, title, tuple(p for p in promises if p != NUMBERS))
    except ExperimentError as error:
        raise UseError(str(error)) from None


def _read_source(spec: str) -> PassSource:
    """What a script makes of ``FILE.py:NAME``, or of a module that was imported."""
    from tirstep.experiments.counterexample import PassSource, read_source

    place, _, name = spec.rpartition(":")
    file = place
    if not place.endswith(".py"):
        file = getattr(sys.modules.get(place), "__file__", None) or ""
    if file.endswith(".py"):
        return read_source(Path(file), name)
    return PassSource("", name, module=place)


def try_pass(tried: Tried, devices: Sequence[str], archs: Sequence[str], *, as_json: bool) -> int:
    """Try it, and say what it did; 1 if an answer changed, 2 if a module cannot be run."""
    from tirstep.experiments import Experiment, ExperimentError, Trial, TryOptions, try_change
    from tirstep.experiments.counterexample import require_place
    from tirstep.experiments.trying import choose_devices
    from tirstep.lowering_checks.devices import DEVICES

    from .facts import choose_architectures
    from .pass_screen import show_corpus, show_modules
    from .report import require_replaceable
    from .screen import Screen

    change = load_change(tried)
    screen = Screen(quiet=as_json)
    try:
        # What cannot or may not be written is refused before the work.
        if tried.report is not None:
            require_replaceable(tried.report)
        if tried.script is not None:
            require_place(tried.script)
        unknown = [name for name in devices if name not in DEVICES or name == "auto"]
        if unknown:
            raise UseError(f"--device {unknown[0]}: choose {', '.join(DEVICES[1:])}")
        chosen = tuple(name for name in devices or choose_devices() if name != "simulator")
        options = TryOptions(chosen, choose_architectures(archs))
        with Experiment(tried.name, change.edits, change.whole) as experiment:
            if tried.corpus is not None:
                return show_corpus(screen, experiment, tried, change, options, as_json=as_json)
            subjects, is_all = list_subjects(tried.modules, tried.seed, experiment.edits)
            trials = []
            with screen.working():
                for number, it in enumerate(subjects, 1):
                    screen.doing(f"{it.label} ({number} of {count(len(subjects), 'module')})")
                    note_tried(it.label)
                    crash = find_crash(it.label)
                    trials.append(
                        try_change(experiment, it, options)
                        if crash is None
                        else Trial(it, "crashed", crash)
                    )
            code = show_modules(screen, experiment, trials, tried, change, as_json=as_json)
            return code if is_all else 2
    except ExperimentError as error:
        raise UseError(str(error)) from None


def list_subjects(
    names: Sequence[str], seed: int, edits: Sequence[Edit] = ()
) -> tuple[list[Subject], bool]:
    """The modules of recipes, ladders and the user's own programs, and whether these are all.

    Of several programs, one that cannot be run is told and left out. Raises `UseError` for names
    of others, and `ExperimentError` where none has a pass at which an edit is.
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
    require_reached(edits, [each.module for each in found])
    return found, is_all
