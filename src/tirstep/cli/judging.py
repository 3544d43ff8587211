"""Judges recipes: plans what to run, runs the checks, and says what they found."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from tirstep.lowering_checks import (
    Counts,
    Device,
    Diff,
    Finding,
    GoldenStore,
    Run,
    Verdict,
    diff_steps,
    get_device,
    judge_run,
    run_golden,
)
from tirstep.lowering_checks.devices import Timing
from tirstep.lowering_checks.judgement import Status, estimate_seconds, get_exit_code
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import NO_DEVICE, OtherRun, golden_word
from tirstep.modules import KernelError
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.schedule import TransformError

from .formats import Document, read_keys, run_keys
from .formatting import first_sentence, get_dtype, spell_config
from .request import GOLDEN_DIR, ExampleName, Request, run_requested
from .screen import WORD_STYLES, Part, Screen, change_words
from .wrong_use import UseError, find_sentence

Tell = Callable[..., None]
"""Takes a line of progress, and about how many seconds it takes."""
COUNTS = ("wavefronts/request", "bank conflicts", "barriers")
"""The columns of a ladder on the simulator, whose times would say nothing."""
PROSE = ("recipe", "adds", "golden", "numbers", "shape")
"""The columns that are not numbers."""


@dataclass
class JudgedRecipe:
    """A recipe, of a ladder say, with the verdicts of its steps.

    Attributes
    ----------
    run : None where the recipe refused
    error : why the recipe does not take the request, or what the user's program raises
    own_findings : of the whole recipe, such as a broken expectation of its lowering
    counts : of the last step's accesses; None where they were not counted
    others : what the last step computes in other runs of the recipe
    """

    recipe: Recipe
    run: Run | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    error: BaseException | None = None
    own_findings: list[Finding] = field(default_factory=list)
    counts: Counts | None = None
    others: list[Verdict] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """All that is wrong with the recipe."""
        verdicts = (*self.verdicts, *self.others)
        found = [finding for verdict in verdicts for finding in verdict.findings]
        return [*found, *self.own_findings]

    @property
    def change(self) -> Diff | None:
        """From the kernel as it was written to the last step."""
        return None if self.run is None else diff_steps(self.run.steps[0], self.run.steps[-1])

    @property
    def timing(self) -> Timing | None:
        """The time of the last step."""
        return self.verdicts[-1].timing if self.verdicts and not self.own_findings else None

    @property
    def numbers(self) -> Status | None:
        """Wrong if those of a step are; else what is said of the last one."""
        if any(verdict.status is Status.WRONG for verdict in self.verdicts):
            return Status.WRONG
        if self.unrun:
            return Status.NOT_JUDGED
        return self.verdicts[-1].status if self.verdicts else None

    @property
    def unrun(self) -> list[str]:
        """Parts of the last step that ran in no run."""
        last = [*self.verdicts[-1:], *self.others]
        return [it for it in (last[0].unrun if last else ()) if all(it in v.unrun for v in last)]

    @property
    def status(self) -> Status:
        """Wrong if anything is; else what is said of the last step."""
        if self.error is not None:
            return Status.NOT_JUDGED
        return Status.WRONG if self.findings else self.numbers or Status.NOT_JUDGED

    @property
    def is_broken(self) -> bool:
        """Whether the user's program raises, and not because of what was requested."""
        return self.error is not None and not isinstance(self.error, TransformError | KernelError)

    @property
    def refusal(self) -> str | None:
        """Why there are no verdicts, in a sentence."""
        return None if self.error is None else find_sentence(self.error) or str(self.error)

    @property
    def reason(self) -> str | None:
        """Why it is not judged, or clean and no more."""
        told = self.verdicts[-1].reason if self.verdicts else ""
        return self.refusal or told or "; ".join(self.unrun) or None

    @contextlib.contextmanager
    def keeping_others(self, *, is_alone: bool) -> Iterator[None]:
        """While this lasts, what a user's program raises is noted, so that others are judged; alone
        it is raised.
        """
        try:
            yield
        except (Exception, SystemExit) as error:
            is_theirs = bool(self.recipe.spelling) and find_sentence(error) is not None
            if is_alone or not is_theirs or isinstance(error, UseError):
                raise
            self.error = error

    @property
    def checked_on(self) -> list[str]:
        """The devices and shapes that numbers were checked on, that of the last step first."""
        return list(dict.fromkeys(verdict.checked_on for verdict in reversed(self.verdicts)))


class Judge:
    """What recipes are checked with: the device and the goldens that a request asks for.

    Attributes
    ----------
    store : None where there is no folder of goldens
    folder_findings : of that folder as a whole: its version of TVM. If there are any, its files
        are not looked at: they would all differ.
    golden_dir : the folder, as it was given
    """

    def __init__(self, request: Request) -> None:
        self.request, self.device = request, get_device(request.device)
        folder = request.golden_dir or (GOLDEN_DIR if GOLDEN_DIR.is_dir() else None)
        if folder is not None and not folder.is_dir():
            raise UseError(
                f"there is no folder {folder}; give --golden-dir the folder of the goldens"
            )
        self.store = None if folder is None else GoldenStore(folder)
        self.folder_findings = [] if self.store is None else self.store.check_version()
        self.golden_dir = None if self.store is None else str(self.store.root)

    def plan(
        self,
        recipes: Sequence[Recipe],
        tell: Tell,
        *,
        example: ExampleName,
        among: Sequence[Recipe] = (),
    ) -> list[JudgedRecipe]:
        """The runs of some recipes as requested, by default at one of their examples.

        A recipe that refuses what was requested is to be skipped. One of ours that refuses its own
        example is wrong. `among` are all that the request is for, where these are not.
        """
        rungs = []
        for recipe in recipes:
            rung = JudgedRecipe(recipe)
            rungs.append(rung)
            tell(recipe.name)
            others = among or recipes
            kernel = recipe.kernel
            unknown = kernel.unknown_sizes if isinstance(kernel, ModuleKernel) else ()
            if unknown and self.request.shape is None:
                rung.error = KernelError(
                    f"{recipe.name}: it was not called while it was traced, and nothing says how "
                    f"its sizes {', '.join(unknown)} belong together; give --shape"
                )
                continue
            try:
                with rung.keeping_others(is_alone=len(others) == 1):
                    rung.run = run_requested(recipe, self.request, example=example, among=others)
            except (TransformError, KernelError) as error:
                if self.request.is_of_examples and not recipe.spelling:
                    message = f"the recipe rejects its own example: {error}"
                    rung.own_findings.append(Finding("recipe", recipe.name, message))
                else:
                    rung.error = error
        return rungs

    def judge(
        self, rung: JudgedRecipe, tell: Tell, *, timed: bool, others: Iterable[OtherRun] = ()
    ) -> Iterator[Verdict]:
        """Judge a planned rung: the verdict of each step, and of the last one in other runs, as it
        comes, which the rung keeps.
        """
        run, store = rung.run, None if self.folder_findings else self.store
        if run is None:
            return
        # A program of the user's is held against nothing, where nothing of it is in the folder and
        # the folder was not asked for.
        if store is not None and run.recipe.spelling and self.request.golden_dir is None:
            files = store.get_files(run_golden(run.recipe))
            store = store if any(file.is_file() for file in files) else None
        verdicts = judge_run(
            run,
            self.device,
            store=store,
            seed=self.request.seed,
            timed=timed,
            others=others,
        )
        for step in itertools.chain(run.steps, itertools.repeat(None)):
            about, place = 0.0, "other runs"
            if step is not None:
                about = estimate_seconds(run.problem, step.module, self.device)
                place = step_label(step)
            tell(f"{run.recipe.name} {place}", about)
            verdict = next(verdicts, None)
            if verdict is None:
                return
            (rung.verdicts if verdict.run is run else rung.others).append(verdict)
            yield verdict


def find_baseline(rungs: Sequence[JudgedRecipe]) -> JudgedRecipe | None:
    """The baseline of speed-ups: the first rung that has a time."""
    return next((rung for rung in rungs if rung.timing is not None), None)


def compute_speedup(rung: JudgedRecipe, baseline: JudgedRecipe | None) -> float | None:
    """How often faster a rung is; None at another shape or type, where times do not compare."""
    if baseline is None or baseline.run is None or rung.run is None:
        return None
    if rung.timing is None or baseline.timing is None:
        return None
    ours, theirs = rung.run.problem, baseline.run.problem
    is_alike = dict(ours.shape) == dict(theirs.shape) and get_dtype(ours) == get_dtype(theirs)
    return baseline.timing.median / rung.timing.median if is_alike else None


def get_common_shape(rungs: Sequence[JudgedRecipe]) -> str | None:
    """The shape of all rungs that run, as ``--shape`` takes it; None where they differ."""
    shapes = {rung.run.problem.shape_text for rung in rungs if rung.run is not None}
    return shapes.pop() if len(shapes) == 1 else None


def show_judge(screen: Screen, judge: Judge) -> None:
    """The lines above verdicts: which device was taken, and whether there are goldens."""
    screen.line(("device  ", "dim"), judge.device.description)
    if judge.golden_dir is None:
        how = "--write-goldens --golden-dir DIR keeps each step to compare with"
        screen.line(("golden  ", "dim"), f"no {GOLDEN_DIR} here; {how}")
    else:
        screen.line(("golden  ", "dim"), judge.golden_dir)


def find_exit_code(rungs: Sequence[JudgedRecipe], findings: Sequence[Finding], strict: bool) -> int:
    """That of a command that judged some recipes, and found something of their folder: 2 where a
    program of the user's raises; see `get_exit_code`. If `strict`, every step is to be judged.
    """
    statuses = [rung.status for rung in rungs]
    if strict:
        statuses += [verdict.status for rung in rungs for verdict in rung.verdicts]
    if any(rung.is_broken for rung in rungs):
        return 2
    return 1 if findings else get_exit_code(statuses, strict=strict)


def status_words(verdict: Verdict) -> list[Part]:
    """``numbers right on cpu 64x48x32``; ``right for 8 of 256 thread blocks on simulator``."""
    word, part = str(verdict.status), f" for {verdict.part}" if verdict.part else ""
    place = "" if verdict.checked_on == NO_DEVICE else f" on {verdict.checked_on}"
    return [("numbers ", "dim"), (word + part, WORD_STYLES[word]), (place, "dim")]


def verdict_words(verdict: Verdict) -> list[Part]:
    """``golden ok   numbers right on cpu 64x48x32``, and the time where there is one."""
    golden = golden_word([verdict]) or "none"
    words: list[Part] = [
        ("golden ", "dim"),
        (f"{golden:<9}", WORD_STYLES[golden]),
        *status_words(verdict),
    ]
    if verdict.timing is not None:
        words += [("   time ", "dim"), f"{verdict.timing.median * 1e6:.1f} us"]
    return words


def show_findings(screen: Screen, findings: Sequence[Finding], *, apart: bool = False) -> None:
    """Findings in full: the sentence, and the diff or whatever there is to look at."""
    if apart and findings:
        screen.line()
    for finding in findings:
        screen.line((f"{finding.place}: ", "bold red"), finding.message)
        if finding.detail:
            screen.diff(finding.detail.splitlines())


def show_ladder_table(
    screen: Screen, rungs: Sequence[JudgedRecipe], device: Device, *, with_steps: bool
) -> None:
    """A row for each rung, and for each of its steps if asked; times where there is a clock."""
    baseline = find_baseline(rungs)
    has_counts = any(rung.counts is not None for rung in rungs)
    left_out = {
        *(() if any(rung.recipe.delta for rung in rungs) else ("adds",)),
        *(("shape",) if get_common_shape(rungs) is not None else ()),
        *(() if device.has_clock else ("time us", "GFLOP/s", "speed-up")),
        *(() if has_counts else ("traffic", *COUNTS)),
    }
    rows: list[dict[str, Text]] = []
    for rung in rungs:
        run, counts, is_judged = rung.run, rung.counts, rung.error is None
        numbers = _numbers(rung.numbers, rung.checked_on)
        if not is_judged or rung.own_findings:
            numbers = _styled(str(rung.status))
        least = 0 if run is None else run.problem.bytes
        shared = counts and counts.scopes.get("shared")
        counted = {
            COUNTS[0]: f"{shared.wavefronts_per_request:.1f}" if shared else "",
            COUNTS[1]: str(shared.bank_conflicts) if shared else "",
            COUNTS[2]: str(counts.barriers) if counts else "",
        }
        rows.append(
            {
                "recipe": Text(rung.recipe.name, "cyan" if is_judged else "dim"),
                "adds": Text(spell_config(rung.recipe.delta)),
                "steps": Text("" if run is None else str(len(run.steps) - 1)),
                "golden": _styled(golden_word(rung.verdicts) or ""),
                "numbers": numbers,
                "lines": Text.assemble(*change_words(rung.change)),
                "shape": Text("" if run is None else run.problem.shape_text),
                **_time_cells(rung, rung.timing),
                "speed-up": _number(compute_speedup(rung, baseline), "x"),
                "traffic": _number(counts.traffic / least if counts and least else None, "x"),
                **{name: Text(cell) for name, cell in counted.items()},
            }
        )
        for verdict in rung.verdicts if with_steps else ():
            own = _numbers(verdict.status, [verdict.checked_on]) if is_judged else Text()
            rows.append(
                {
                    "recipe": Text(f"  {step_label(verdict.step)}", "dim"),
                    "golden": _styled(golden_word([verdict]) or ""),
                    "numbers": own,
                    "lines": Text.assemble(*change_words(verdict.diff)),
                    **_time_cells(rung, verdict.timing),
                }
            )
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", show_edge=False, padding=(0, 1, 0, 0))
    columns = [name for name in rows[0] if name not in left_out]
    for name in columns:
        table.add_column(name, justify="left" if name in PROSE else "right")
    for row in rows:
        table.add_row(*(row.get(name, "") for name in columns))
    screen.table(table)
    notes = []
    if baseline is not None:
        notes.append(f"speed-up: over {baseline.recipe.name}; GFLOP/s: by the kernel's FLOP count")
    if has_counts:
        notes.append("traffic: global memory that the last step moves, over the minimum")
        notes.append("the rest: first thread block of each launch; one request per warp access")
    devices = {_name_device(place) for rung in rungs for place in rung.checked_on}
    for other in sorted(devices - {device.name, NO_DEVICE}):
        skipped = f"steps that {device.name} cannot run"
        notes.append(f"numbers on {other}: of {skipped}, at the shape of their goldens")
    if notes:
        screen.line()
    for note in notes:
        screen.line((note, "dim"))


def _name_device(place: str) -> str:
    """``cpu`` of ``cpu 64x48``."""
    return place if place == NO_DEVICE else place.split()[0]


def _numbers(status: Status | None, places: Sequence[str]) -> Text:
    devices = [it for it in dict.fromkeys(map(_name_device, places)) if it != NO_DEVICE]
    cell = _styled(str(status or ""))
    return cell.append(f" on {', '.join(devices)}", "dim") if devices else cell


def _time_cells(rung: JudgedRecipe, timing: Timing | None) -> dict[str, Text]:
    keys = _time_keys(rung, timing)
    return {"time us": _number(keys["time_us"]), "GFLOP/s": _number(keys["gflops"])}


def _number(number: float | None, unit: str = "") -> Text:
    return Text("" if number is None else f"{number:,.1f}{unit}")


def _styled(word: str) -> Text:
    return Text(word, WORD_STYLES.get(word, ""))


def rung_documents(rungs: Sequence[JudgedRecipe]) -> list[Document]:
    """``recipe`` of schema.json, for each rung."""
    baseline = find_baseline(rungs)
    return [
        {
            **run_keys(rung.run),
            "recipe": rung.recipe.name,
            "program": rung.recipe.spelling or None,
            "summary": first_sentence(rung.recipe.doc),
            **read_keys(rung.recipe, "base delta"),
            "status": rung.status,
            "reason": rung.reason,
            "golden": golden_word(rung.verdicts),
            **read_keys(rung, "numbers checked_on"),
            **read_keys(rung.change, "added removed"),
            **_time_keys(rung, rung.timing),
            "speedup": compute_speedup(rung, baseline),
            "findings": rung.findings,
            "steps": [
                {
                    **read_keys(verdict.step, "number=index name source=location"),
                    "golden": golden_word([verdict]),
                    **read_keys(verdict, "numbers=status part reason checked_on left_open"),
                    **read_keys(verdict.diff, "added removed"),
                    **_time_keys(rung, verdict.timing),
                    "findings": verdict.findings,
                }
                for verdict in rung.verdicts
            ],
        }
        for rung in rungs
    ]


def _time_keys(rung: JudgedRecipe, timing: Timing | None) -> dict[str, Any]:
    """With operations by the kernel's own count, whatever the schedule computes twice."""
    gflops = None
    if timing is not None and rung.run is not None:
        gflops = rung.run.problem.flops / timing.median / 1e9
    keys: dict[str, Any] = read_keys(
        timing, "time_us=median time_us_lower=lower time_us_upper=upper"
    )
    return {
        **{key: None if it is None else it * 1e6 for key, it in keys.items()},
        **read_keys(timing, "repeats"),
        "gflops": gflops,
    }
