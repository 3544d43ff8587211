"""``tirstep check``: the goldens and the numbers of recipes."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tirstep.files import show_path
from tirstep.printing import print_error

from .formatting import complete, count, spell_shape
from .guarding import explain_end
from .request import (
    GOLDEN_DIR,
    PROGRAMS,
    RECIPE_OPTIONS,
    Request,
    argument,
    flag,
    option,
    pick_each,
    pick_recipes,
    spell_command,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run

    from .judging import Judge, JudgedRecipe
    from .screen import Screen

RUNS = 10
"""How many other runs there are by default; those with open sizes are among so many."""
SECONDS = 2.0
"""CPU seconds for the other runs of one recipe, by default; the last run may exceed them."""
POLL_SECONDS = 0.1
"""Between two looks at watched files."""
WARM = (
    "lowering_checks.expectations",
    "lowering_checks.judgement",
    "lowering_checks.devices.simulator",
    "cli.judging",
    "cli.screen",
    "programs.picking",
    "transforms.recipes",
)
"""Modules that a check imports, which takes longer than most checks."""


@with_options("golden_dir", "device", "seed", *RECIPE_OPTIONS, "reference", "format")
def command(
    *,
    request: Request,
    recipes: list[str] | None = argument(
        "RECIPE",
        f"Recipes (see tirstep list), {PROGRAMS}",
        default=None,
        show_default=False,
        autocompletion=complete("recipe"),
    ),
    everything: bool = flag("--all", "Check every recipe, and that each golden belongs to one."),
    runs: int | None = option(
        "--runs",
        "N",
        f"How many more runs the last step gets. [default: {RUNS}, within {SECONDS:.0f} s]",
        least=0,
    ),
    write_goldens: bool = flag(
        "--write-goldens",
        "Check nothing; rewrite the goldens of these recipes, or of kernels' whole ladders. "
        "Refused under CI.",
    ),
    strict: bool,
    allowed: list[str] | None = option(
        "--may-be-not-judged",
        "PATTERN",
        "Programs that need not be judged, even with --strict: 'legacy_*'.",
    ),
    may_be_empty: bool = flag("--may-be-empty", "Skip files in which there is nothing to check."),
    watch: bool = flag("--watch", "Check files again when they change, until Ctrl-C."),
    json: bool,
) -> int:
    """Check each step against its golden and against NumPy.

    The last step also runs at odd shapes, in narrower types, and with other knobs and tails, chosen
    at random from the seed.

    --write-goldens touches only the folders of these recipes and their kernels, where it deletes
    the goldens of steps that no longer exist. Files that no recipe makes are reported and kept.
    """
    names = recipes or []
    if everything == bool(names):
        raise UseError("name the recipes to check, or give --all" + (", not both" * everything))
    if write_goldens:
        plain = Request(None, {}, {}, request.golden_dir, function=request.function)
        if request != plain or runs is not None:
            raise UseError(
                "--write-goldens writes the steps of the recipes' examples; the only other "
                "options it takes are --all, --golden-dir, --function and --json"
            )
        return write_goldens_of(names, request, as_json=json)
    if everything and not request.is_of_examples:
        raise UseError("--all checks every recipe at its example; name recipes to change knobs")

    if watch:
        run_on_changes(names)

    from tirstep.lowering_checks import run_default_example, run_golden
    from tirstep.lowering_checks.expectations import check_expectations, find_unmade_steps
    from tirstep.lowering_checks.judgement import Status
    from tirstep.programs.naming import NoProgramError
    from tirstep.transforms.recipes import RECIPES

    from .formats import print_document, read_keys, run_keys
    from .judging import Judge, find_exit_code, rung_documents, show_findings, show_judge
    from .screen import Screen

    picked = []
    for name in dict.fromkeys(names):
        try:
            picked += pick_each(name, request)
        except NoProgramError:
            if not may_be_empty:
                raise
    judge, screen = Judge(request), Screen(quiet=json)  # a program may register a device
    findings = list(judge.folder_findings)
    about = {
        "device": read_keys(judge.device, "name description"),
        "golden_dir": judge.golden_dir,
        "seed": request.seed,
    }
    if names and not picked:
        print_error("there is nothing to check in these files")
        if json:
            print_document("check", **about, ok=True, findings=(), recipes=())
        return 0
    with screen.working():
        rungs = judge.plan(picked or [*RECIPES.values()], screen.doing, example="golden")
        # A recipe named by its user should run: what it refuses is wrong use. Of a file that has
        # several, each has its line below.
        is_program = all(rung.recipe.spelling for rung in rungs)
        if all(rung.error is not None for rung in rungs) and not (is_program and rungs[1:]):
            raise rungs[0].error  # type: ignore[misc]
        show_judge(screen, judge)
        show_findings(screen, findings)
        for rung in rungs:
            with rung.keeping_others(is_alone=len(rungs) == 1):
                _check_recipe(rung, judge, screen, runs)
            if rung.error is not None:
                continue
            if rung.recipe.expects:  # of its lowering, with the config of its tutorial
                run = run_default_example(rung.recipe)
                for step in run.steps:
                    rung.own_findings += check_expectations(run, step)
                rung.own_findings += find_unmade_steps(run)
            show_findings(screen, rung.own_findings, apart=True)
        if not names and judge.store is not None:
            orphans = judge.store.find_orphans([run_golden(it) for it in RECIPES.values()])
            show_findings(screen, orphans, apart=True)
            findings += orphans
    found = len(findings) + sum(len(rung.findings) for rung in rungs)
    modules = sum(len(rung.verdicts) for rung in rungs)
    broken = sum(rung.error is not None for rung in rungs)
    named = ((it, (it.recipe.name, it.recipe.spelling)) for it in rungs)
    counted = [
        it
        for it, names in named
        if it.status is not Status.NOT_JUDGED
        or not any(fnmatchcase(name, pattern) for name in names for pattern in allowed or ())
    ]
    code = 2 if broken else find_exit_code(counted, findings, strict)
    statuses = [rung.status for rung in rungs]
    unjudged, clean = (statuses.count(it) for it in (Status.NOT_JUDGED, Status.CLEAN))
    word = ("all good", "green")
    if found:
        word = (count(found, "finding"), "bold red")
    elif broken:
        word = (f"{broken} cannot be run", "bold red")
    elif unjudged:
        told = "nothing could be judged" if unjudged == len(rungs) else f"{unjudged} not judged"
        word = (told, "yellow")
    elif clean:
        word = (f"clean, {clean} without numbers to compare with", "green")
    elif any(verdict.part for rung in rungs for verdict in rung.verdicts):
        word = ("nothing is wrong in the parts that were judged", "green")
    screen.line()
    kind = "program" if is_program else "recipe"
    screen.line(f"{count(len(rungs), kind)}, {count(modules, 'module')}: ", word)
    for rung in rungs:
        wrong = rung.run if rung.numbers is Status.WRONG else None
        wrong = next((it.run for it in rung.others if it.findings), wrong)
        lacking = next((it.run for it in rung.verdicts if it.reason and not it.part), None)
        if wrong is not None:
            asked = request if wrong is rung.run else _make_request_of(wrong, request)
            screen.line(("find where it goes wrong:  ", "dim"), spell_command("why", wrong, asked))
        elif lacking is not None and lacking.problem.find_refusal() is not None:
            words = spell_command("check", lacking, replace(request, reference="FILE:NAME"))
            screen.line(("compare it with another program:  ", "dim"), words)
        if rung.refusal is not None:
            print_error(f"{rung.recipe.name}: {rung.refusal}")
    if json:
        documents = rung_documents(rungs)
        for rung, document in zip(rungs, documents, strict=True):
            document["other_runs"] = [
                {
                    "about": verdict.about,
                    **run_keys(verdict.run),
                    "symbolic": list(verdict.run.problem.symbolic),
                    **read_keys(verdict, "numbers=status part reason checked_on"),
                    "repeat": _spell_repeat(verdict.run, request),
                }
                for verdict in rung.others
            ]
        print_document("check", **about, ok=not code, findings=findings, recipes=documents)
    return code


def _check_recipe(rung: JudgedRecipe, judge: Judge, screen: Screen, runs: int | None) -> None:
    """Judge a recipe, with a line for each step and one for each other run: of these `runs`, or a
    few within `SECONDS`.
    """
    from tirstep.lowering_checks.steps import step_label
    from tirstep.lowering_checks.verdict import LimitedRuns, find_other_runs

    from .judging import show_findings, status_words, verdict_words

    run, request = rung.run, judge.request
    if run is None:
        return
    width = max(len(step_label(step)) for step in run.steps)
    found = find_other_runs(run, kept={*request.options, *request.config}, seed=request.seed)
    limits = (SECONDS, RUNS) if runs is None else (None, runs)
    others, told = LimitedRuns(found, *limits), ""
    for verdict in judge.judge(rung, screen.doing, timed=False, others=others):
        if len(rung.verdicts) == 1 and not rung.others:
            screen.line()
            screen.title(rung.recipe.name, spell_shape(run.problem))
        if verdict.about is None:
            screen.line(f"  {step_label(verdict.step):<{width}}   ", *verdict_words(verdict))
        else:
            about = f"{verdict.about}  "  # apart, if it is long
            padding = width + len("   golden ok       ")
            screen.line(f"  {about:<{padding}}", *status_words(verdict))
        if verdict.reason and verdict.reason != told:
            told = verdict.reason
            screen.line((f"    {verdict.status}  ", "dim"), (told, "dim"))
        for question in verdict.left_open:
            screen.line(("    rules leave open  ", "dim"), (question, "dim"))
        show_findings(screen, verdict.findings)
        if verdict.about is not None and verdict.findings:
            screen.line(("to repeat it:  ", "dim"), _spell_repeat(verdict.run, request))
    for sentence in rung.unrun:
        screen.line(("    not judged  ", "yellow"), (sentence, "dim"))
    if others.left:
        told = f"--runs {others.count} makes up to {others.left} more, for which {SECONDS:.0f} s"
        screen.line((f"  {told} were not enough", "dim"))


def _spell_repeat(run: Run, request: Request) -> str:
    """The command line that checks another run by itself; with open sizes, among the first."""
    device = "" if request.device == "auto" else f" --device {request.device}"
    if run.problem.symbolic:
        return f"{spell_command('check', run, request)}{device} --runs {RUNS}"
    words = spell_command("check", run, _make_request_of(run, request))
    return f"{words}{device} --runs 0"


def _make_request_of(run: Run, request: Request) -> Request:
    """The request of a run by its shape, in place of one that it was another run of."""
    example, problem = run.recipe.default_example, run.problem
    kernel = problem.kernel
    base = {**kernel.options, **example.options}
    types = {name: it for name, it in problem.options.items() if name == "dtype"}  # of some none
    chosen = {name: it for name, it in types.items() if it != base[name]}
    asked: dict[str, Any] = {**problem.shape, **example.options, **types}
    usual = kernel.problem(**asked).options
    chosen |= {name: it for name, it in problem.options.items() if it != usual[name]}
    config = {**run.recipe.config, **run.config}
    defaults = {**run.recipe.config, **example.config}
    return replace(
        request,
        shape=problem.shape_text,
        options=chosen,
        config={name: it for name, it in config.items() if it != defaults[name]},
    )


def write_goldens_of(names: Sequence[str], request: Request, *, as_json: bool) -> int:
    """Write the goldens of recipes or ladders, or of all of ours; 1 for files that no recipe makes.

    Raises `CheckError` for writing under CI.
    """
    from tirstep.lowering_checks import GoldenStore, run_golden
    from tirstep.lowering_checks.golden import INPUTS, VERSION_FILE
    from tirstep.transforms.recipes import RECIPES

    from .formats import print_document
    from .judging import show_findings
    from .screen import Screen

    folder, root = request.golden_dir, request.golden_dir or GOLDEN_DIR
    if folder is None and not root.parent.is_dir():
        raise UseError(
            f"there is no folder {root.parent} here; run this in the repository's root, or "
            "give --golden-dir"
        )
    if root.exists() and not root.is_dir():
        raise UseError(f"{root} is not a folder; give --golden-dir the folder of the goldens")
    if root.is_dir() and not (root / VERSION_FILE).is_file():
        # Goldens whose writing was ended before the version of TVM, which comes last, are no
        # other things.
        left = (".tirstep-", f".{VERSION_FILE}")  # of processes that were killed
        others = {path.name for path in root.iterdir()} - {INPUTS, *RECIPES}
        if not all(name.startswith(left) for name in others):
            raise UseError(
                f"{root} has files but no {VERSION_FILE}, so it may not be a folder of "
                "goldens; give --golden-dir a new or an empty folder"
            )
    store, screen = GoldenStore(root), Screen(quiet=as_json)
    runs = []
    with screen.working():
        for recipe in pick_recipes(names or [*RECIPES], request):
            screen.doing(recipe.name)
            runs.append(run_golden(recipe))
        changed = store.write(runs, environment=os.environ)
    ours = {run.recipe.name for run in runs}
    orphans = store.find_orphans(runs)
    findings = [each for each in orphans if not names or each.where.partition("/")[0] in ours]
    for path in changed:
        word, style = ("wrote  ", "green") if path.exists() else ("deleted", "red")
        screen.line((word, style), f" {path}")
    if changed:
        screen.line(f"{count(len(changed), 'file')} changed in {store.root}; read them in git")
    else:
        screen.line(f"nothing changed in {store.root}")
    show_findings(screen, findings)
    if as_json:
        print_document(
            "check",
            golden_dir=str(store.root),
            ok=not findings,
            changed=[str(path) for path in changed],
            findings=findings,
        )
    return 1 if findings else 0


def run_on_changes(names: Sequence[str]) -> None:
    """Return in a process of its own, which goes on with the command, now and each time that a file
    changes: one that is named, or another ``.py`` in its folder. Ctrl-C ends it.

    This process imports what the command needs and runs nothing, so that no thread, GPU or module
    of the user's is there when it forks. Raises `UseError` where no name is of a file.
    """
    folders = {file.parent for file in list_named_files(names)}
    if not folders or not hasattr(os, "fork"):
        raise UseError("--watch takes files, on a system that can fork; name FILE.py")
    for name in WARM:
        import_module(f"tirstep.{name}")
    known = None
    while True:
        files = {*list_named_files(names), *(it for each in folders for it in each.glob("*.py"))}
        stamps = read_stamps(files)
        if stamps == known:
            time.sleep(POLL_SECONDS)
            continue
        if known is not None:
            changed = {it for it in {*stamps, *known} if stamps.get(it) != known.get(it)}
            told = ", ".join(sorted(map(show_path, changed)))
            print(f"\n{told} changed", file=sys.stderr, flush=True)
        known, child = stamps, os.fork()
        if child == 0:
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code < 0:
            print_error(explain_end(-code, "", is_judge=True))


def list_named_files(names: Sequence[str]) -> set[Path]:
    """The files that are named; a database is a folder of JSON."""
    found: set[Path] = set()
    for name in names:
        place = Path(name.partition(":")[0])
        found.update(place.glob("*.json") if place.is_dir() else [place])
    return {Path(os.path.abspath(it)) for it in found if it.suffix in (".py", ".json")}


def read_stamps(files: Iterable[Path]) -> dict[Path, int]:
    """When each file was changed last; one that is just being written anew has none."""
    stamps = dict.fromkeys(files, 0)
    for path in stamps:
        with contextlib.suppress(OSError):
            stamps[path] = path.stat().st_mtime_ns
    return stamps
