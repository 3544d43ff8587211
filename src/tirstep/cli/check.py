"""``tirstep check``: the goldens and the numbers of recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tirstep.lowering_checks import Finding, Run, Verdict, run_default_example, run_golden
from tirstep.lowering_checks.expectations import check_expectations
from tirstep.lowering_checks.steps import step_label
from tirstep.lowering_checks.verdict import numbers_word
from tirstep.transforms.recipes import RECIPES, Recipe

from .documents import device_keys, finding_keys, print_document, rung_documents
from .judge import Judge, make_judge, plan
from .rungs import Rung
from .screen import WORD_STYLES, Screen
from .selection import format_shape, pick_recipe, spell_command
from .texts import count
from .verdicts import say_where, show_findings, verdict_words
from .wishes import Request


def check_recipes(names: Sequence[str], request: Request, *, as_json: bool) -> int:
    """Check the named recipes, or all of them where no name is given; 1 if anything is wrong."""
    recipes = [pick_recipe(name) for name in dict.fromkeys(names)] or list(RECIPES.values())
    judge = make_judge(request)
    report = _Report(Screen(), quiet=as_json)
    with report.screen.working():
        rungs = plan(recipes, judge, report.screen, example="golden")
        for rung in rungs:
            # A recipe named by its user should run: what it refuses is wrong use.
            if rung.refusal is not None:
                raise rung.refusal
        report.begin(judge)
        for rung in rungs:
            judge.climb(rung, report.screen, report.step, timed=False, at_odd_shape=True)
            report.odd_shape(rung)
            rung.trouble.extend(_find_broken_expectations(rung.recipe))
            report.findings(rung.trouble)
        orphans = [] if names or judge.store is None else _find_orphans(judge)
        report.findings(orphans)
    folder = [*judge.folder, *orphans]
    is_good = not folder and not any(rung.findings for rung in rungs)
    report.end(rungs, folder, request)
    if as_json:
        print_document(
            "check",
            device=device_keys(judge.device),
            golden_dir=judge.golden_dir,
            seed=request.seed,
            ok=is_good,
            findings=[finding_keys(finding) for finding in folder],
            recipes=rung_documents(rungs),
        )
    return 0 if is_good else 1


def _find_broken_expectations(recipe: Recipe) -> list[Finding]:
    """What a recipe expects of its lowering, at the sizes of its tutorial."""
    if not recipe.expects:
        return []
    run = run_default_example(recipe)
    return [finding for step in run.steps for finding in check_expectations(run, step)]


def _find_orphans(judge: Judge) -> list[Finding]:
    assert judge.store is not None
    return judge.store.find_orphans([run_golden(recipe) for recipe in RECIPES.values()])


@dataclass
class _Report:
    """What people see of a check."""

    screen: Screen
    quiet: bool
    _shown: Rung | None = None

    def begin(self, judge: Judge) -> None:
        if not self.quiet:
            say_where(self.screen, judge)
            show_findings(self.screen, judge.folder)

    def step(self, rung: Rung, verdict: Verdict) -> None:
        if self.quiet or rung.run is None:
            return
        if self._shown is not rung:
            self._shown = rung
            shape = format_shape(rung.run.problem.shape)
            self.screen.line()
            self.screen.line((rung.recipe.name, "bold"), (f"  {shape}", "dim"))
        width = max(len(step_label(step)) for step in rung.run.steps)
        self.screen.line(f"  {step_label(verdict.step):<{width}}   ", *verdict_words(verdict))
        show_findings(self.screen, verdict.findings)

    def odd_shape(self, rung: Rung) -> None:
        """The line below the steps, with what was looked at besides the example."""
        if self.quiet or rung.run is None or rung.odd is None:
            return
        width = max(len(step_label(step)) for step in rung.run.steps)
        word = "failed" if rung.odd.findings else "ok"
        self.screen.line(
            f"  {'at an odd shape':<{width + len('   golden ok       ')}}",
            ("numbers ", "dim"),
            (word, WORD_STYLES[word]),
            (f" on {rung.odd.checked_on}", "dim"),
        )
        show_findings(self.screen, rung.odd.findings)

    def findings(self, findings: Sequence[Finding]) -> None:
        if findings and not self.quiet:
            self.screen.line()
            show_findings(self.screen, findings)

    def end(self, rungs: Sequence[Rung], folder: Sequence[Finding], request: Request) -> None:
        if self.quiet:
            return
        found = len(folder) + sum(len(rung.findings) for rung in rungs)
        modules = sum(len(rung.verdicts) for rung in rungs)
        checked = f"{count(len(rungs), 'recipe')}, {count(modules, 'module')}: "
        self.screen.line()
        if found:
            self.screen.line(checked, (count(found, "finding"), "bold red"))
        else:
            self.screen.line(checked, ("all good", "green"))
        for rung in rungs:
            if rung.run is None:
                continue
            words = None
            if numbers_word(rung.verdicts) == "failed":
                words = spell_command("why", rung.run, request)
            elif rung.odd is not None and rung.odd.findings:
                words = spell_command("why", rung.odd.run, _wish_for(rung.odd.run, request))
            if words is not None:
                self.screen.line(("who is at fault?  ", "dim"), words)


def _wish_for(run: Run, request: Request) -> Request:
    """The same request for the shape and the tail of a run."""
    wish = replace(
        request.wish,
        shape=format_shape(run.problem.shape),
        config={**request.wish.config, **run.config},
    )
    return replace(request, wish=wish)
