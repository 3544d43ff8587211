"""The page in a browser: by keyboard, by address, light and dark, and with hostile texts."""

import difflib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden_runs import run_golden

from tirstep.cli.report.document import RecipePart, Report, StepPart, render_report
from tirstep.lowering_checks import print_module
from tirstep.transforms.recipes import RECIPES

from .conftest import Open, Visit

pytestmark = pytest.mark.xdist_group("browser")
SHARED = run_golden(RECIPES["window_sum_shared"])
LAST = "window_sum_shared/03_fetched_cooperatively"
TABS = ["TIR", "CUDA", "Lines", "Facts", "Trace", "Checks"]
PLACES = (
    "",
    f"{LAST}/tir",
    f"{LAST}/tir?view=split",
    f"{LAST}/tir?view=exact",
    f"{LAST}/source?view=whole",
    f"{LAST}/lines?line=14",
    *(f"{LAST}/{tab}" for tab in ("facts", "trace", "checks")),
)


@pytest.fixture
def planted(report: Report, tmp_path: Path) -> Callable[..., Path]:
    """A page of the report with the last step, its recipe or itself changed."""

    def make(step: dict[str, Any] | None = None, recipe: Any = None, **changes: Any) -> Path:
        first, second = report.recipes
        last = replace(second.steps[-1], **(step or {}))
        second = replace(second, steps=(*second.steps[:-1], last), **(recipe or {}))
        path = tmp_path / "planted.html"
        made = replace(report, **{"recipes": (first, second), **changes})
        path.write_text(render_report(made), encoding="utf-8")
        return path

    return make


def lines(step: int) -> list[str]:
    return print_module(SHARED.steps[step].module).splitlines()


def side(visit: Visit, name: str) -> list[str]:
    """The code of the rows of one side of a unified diff, its folds opened."""
    while visit.page.locator("#code tr.fold button").count():
        visit.page.locator("#code tr.fold button").first.click()
    return visit.page.evaluate(
        """(skipped) => [...document.querySelectorAll(`#code tr:not(.${skipped}) td.code`)]
        .map((cell) => cell.textContent)""",
        {"old": "add", "fresh": "del"}[name],
    )


def test_the_overview_names_every_recipe_and_what_was_counted(visit: Open):
    opened = visit()
    assert opened.texts(".ladder tbody th a") == ["window_sum_bound", "window_sum_shared"]
    shape = "×".join(map(str, SHARED.problem.shape.values()))
    assert opened.heading == f"window_sum {shape} float32"
    assert "Every check passed." in opened.texts(".about")[0]
    assert opened.texts(".ladder thead th")[-3:] == ["Global traffic", "Bank conflicts", "Barriers"]


def test_the_overview_of_one_recipe_lists_its_steps(visit: Open, report: Report, tmp_path: Path):
    alone = replace(report, recipes=report.recipes[1:])
    path = tmp_path / "alone.html"
    path.write_text(render_report(alone), encoding="utf-8")
    opened = visit(path=path)
    steps = alone.recipes[0].steps
    assert opened.texts(".ladder tbody th a") == [step.label for step in steps]
    changes = opened.texts(".ladder tbody td.num:nth-child(2)")
    assert changes[0] == ""
    assert all(change.startswith("+") for change in changes[1:])
    assert f"1 recipe, {len(steps) - 1} steps." in opened.texts(".about")[0]
    opened.page.locator(".first a").click()
    assert opened.heading.split()[-1] == steps[1].name


def test_what_stands_before_the_kernels_is_folded_in_a_diff_as_in_a_text(visit: Open):
    for view in ("", "?view=whole"):
        opened = visit(f"{LAST}/source{view}")
        (fold,) = [it for it in opened.texts("#code tr.fold") if "in front of" in it]
        assert "extern" in opened.texts("#code td.code")[0]
        assert int(fold.split()[1]) > 20


def test_keys_walk_the_steps_of_all_recipes_and_back(visit: Open, report: Report):
    opened = visit()
    labels = [f"{part.name}/{step.label}" for part in report.recipes for step in part.steps]
    walked = []
    for _ in labels:
        opened.press("j")
        walked.append(opened.place.removesuffix("/tir"))
    assert walked == labels
    opened.press("j")  # there is no next one
    assert opened.place == f"{labels[-1]}/tir"
    opened.press("k")
    assert opened.heading.split()[-1] == "window_in_every_thread"
    opened.page.go_back()
    assert opened.heading.split()[-1] == "fetched_cooperatively"
    opened.press("o")
    assert opened.texts(".ladder tbody th a")[0] == "window_sum_bound"


@pytest.mark.parametrize("step", [1, 2, 3])
def test_the_diff_has_the_lines_of_both_steps(visit: Open, step: int):
    opened = visit(f"window_sum_shared/{step}/tir")
    assert side(opened, "fresh") == lines(step)
    stripped = [line.strip() for line in side(opened, "old")]
    assert stripped == [line.strip() for line in lines(step - 1)]
    opened.press("i")  # with its indentation, the diff is exact
    assert side(opened, "old") == lines(step - 1)
    assert side(opened, "fresh") == lines(step)
    changed = [line for line in difflib.ndiff(lines(step - 1), lines(step)) if line[0] in "+-"]
    shown = opened.page.locator("#code tr.add, #code tr.del").count()
    assert 0 < shown <= len(changed)


def test_side_by_side_whole_and_another_step_to_compare_with(visit: Open):
    opened = visit(f"{LAST}/tir")
    opened.press("s")
    assert opened.page.locator("table.split").count() == 1
    opened.press("d")
    assert opened.texts("#code table.whole td.code") == lines(3)
    opened.press("d", "s")
    opened.page.select_option("#against", "window_sum_shared/00_input")
    assert opened.place == f"{LAST}/tir?against=window_sum_shared/00_input"
    assert [line.strip() for line in side(opened, "old")] == [line.strip() for line in lines(0)]


def test_every_view_is_in_the_address_and_comes_back_from_it(visit: Open):
    opened = visit(f"{LAST}/source")
    opened.press("d", "s")
    assert opened.place == f"{LAST}/source?view=whole,split"
    again = visit(opened.place)
    assert again.page.locator("#code table.whole").count() == 1
    again.press("1")  # another tab keeps how texts are shown
    assert again.place == f"{LAST}/tir?view=whole,split"
    again.press("d", "s")
    assert again.place == f"{LAST}/tir"
    again.press("d")
    again.page.locator("#code td.ln").nth(8).click()  # a line number makes its address
    assert again.place == f"{LAST}/tir?line=9&view=whole"
    assert visit(again.place).texts("#code tr.target .ln") == ["9"]
    assert visit(f"{LAST}/tir?view=split,nonsense").page.locator("table.split").count() == 1


def test_the_python_of_a_step_stands_over_its_diff_with_its_path(visit: Open, report: Report):
    opened = visit(f"{LAST}/tir")
    python = report.recipes[1].steps[3].python
    assert opened.texts(".python summary code") == [f"{python['path']}:{python['start']}"]
    shown = opened.texts(".python td.code")
    assert shown == list(python["text"].lines)[python["start"] - python["first"] :][: len(shown)]
    assert shown[-1].strip() == 'yield "fetched_cooperatively"'
    opened.page.locator(".python tr.fold button").first.click()
    assert len(opened.texts(".python td.code")) > len(shown)


def test_lines_that_belong_together_are_marked_in_both_panes(visit: Open, report: Report):
    def tied(visit: Visit, pane: str) -> list[str]:
        return visit.texts(f'.pane[data-pane="{pane}"] tr.tie td.code')

    opened = visit(f"{LAST}/lines")
    step = report.recipes[1].steps[3]
    line = next(
        at for at, text in enumerate(step.tir.lines, 1) if text.strip().startswith("A_shared[")
    )
    opened.page.locator(f'tr[data-pane="tir"][data-line="{line}"]').click()
    assert opened.place == f"{LAST}/lines?line={line}&in=tir"
    source = tied(opened, "source")
    assert source
    assert all("A_shared" in text for text in source)
    # The other way round, and from the address alone.
    at = step.device_source["links"].index(line) + 1
    again = visit(f"{LAST}/lines?line={at}&in=source")
    assert tied(again, "tir") == [step.tir.lines[line - 1]]
    assert again.page.locator("tr.target").get_attribute("data-pane") == "source"
    before = visit("window_sum_shared/00_input/lines")
    assert before.texts(".pane .empty")[0].startswith("No CUDA: ")


def test_search_goes_to_steps_passes_and_lines(visit: Open):
    opened = visit()
    opened.press("/")
    opened.page.keyboard.type("sblock_alloc A_SHARED =")
    found = opened.texts("#hits li code")
    assert found
    assert all(word in line.lower() for word in ("sblock_alloc", "a_shared", "=") for line in found)
    opened.press("ArrowDown", "Enter")
    opened.page.wait_for_selector("tr.target")
    assert "A_shared = T.sblock_alloc_buffer" in opened.texts("tr.target td.code")[0]
    assert "line=" in opened.place
    for words, hit, place in [
        ("shared threadsync", "pass 42 s_tir.ThreadSync", "/pass-42"),
        ("tvm_storage_sync", "ThreadSync", "/pass-42?line="),
    ]:
        opened.press("/")
        opened.page.keyboard.press("ControlOrMeta+a")
        opened.page.keyboard.type(words)
        opened.page.locator("#hits li", has_text=hit).first.click()
        assert place in opened.place
    assert "tvm_storage_sync" in opened.texts("tr.target td.code")[0]
    opened.press("/")
    opened.page.keyboard.type("nowhere at all")
    assert opened.texts("#found") == ["Nothing found."]
    opened.press("Escape")
    assert opened.page.locator("dialog[open]").count() == 0


def test_passes_are_folded_under_their_step_and_have_diffs(visit: Open, report: Report):
    opened = visit(f"{LAST}/tir")
    assert opened.page.locator(".passes").count() == 0
    step = report.recipes[1].steps[3]
    opened.page.get_by_role(
        "button", name=f"{len(step.passes)} of {step.pass_count} passes"
    ).click()
    assert opened.page.locator(".passes li").count() == len(step.passes)
    opened.press("]")
    first = step.passes[0]
    assert opened.place == f"{LAST}/pass-{first['number']}"
    assert side(opened, "fresh") == list(first["after"].lines)
    opened.press("]")
    assert opened.place == f"{LAST}/pass-{step.passes[1]['number']}"
    opened.press("Escape")
    assert opened.place == f"{LAST}/tir"


def test_every_tab_has_an_address_and_a_number(visit: Open, planted: Callable[..., Path]):
    opened = visit(f"{LAST}/facts")
    assert opened.page.get_by_role("tab", selected=True).inner_text() == "Facts"
    assert "shared memory" in opened.texts(".facts")[0]
    assert opened.page.locator(".facts tr.changed").count() > 0
    seen = []
    for number in "123456":
        opened.press(number)
        seen.append(opened.page.get_by_role("tab", selected=True).inner_text())
        assert opened.page.locator("#panel").inner_text().strip()
    assert seen == TABS
    opened.page.focus("#tab-checks")
    opened.press("ArrowRight")
    opened.page.wait_for_selector("#tab-tir[aria-selected=true]")
    assert opened.page.evaluate("document.activeElement.id") == "tab-tir"


def test_an_address_of_nothing_says_so(visit: Open):
    for place in ("no_such_recipe/01_bound/tir", f"{LAST}/pass-9999"):
        assert visit(place).texts("[role=alert]") == [f"This report has no '{place}'."]


@pytest.mark.parametrize(
    "script", ["delete window.DecompressionStream", "CSS.supports = () => false"]
)
def test_a_browser_that_is_too_old_says_so(browser: Any, file: Path, script: str):
    page = browser.new_context().new_page()
    page.add_init_script(script)
    page.goto(file.as_uri())
    assert page.get_by_role("alert").inner_text().startswith("This browser is too old")
    page.context.close()


def test_a_file_that_was_cut_short_says_so(browser: Any, file: Path, tmp_path: Path):
    path = tmp_path / "cut.html"
    text = file.read_text(encoding="utf-8")
    at = text.index('id="data">') + 200
    path.write_text(text[:at] + text[text.index("</script>", at) :], encoding="utf-8")
    page = browser.new_context().new_page()
    page.goto(path.as_uri())
    words = page.get_by_role("alert").inner_text()
    assert words.startswith("The data of this report cannot be read")
    page.context.close()


def test_texts_that_look_like_markup_stay_texts(
    visit: Open, report: Report, planted: Callable[..., Path]
):
    hostile = '</script><script>window.taken=1</script><img src=x onerror="window.taken=2">'
    step: StepPart = report.recipes[1].steps[3]
    text = replace(step.tir, lines=(hostile, "{{data}}"))
    step = replace(step, name=hostile, label=hostile, source=hostile, tir=text, trace=text)
    part: RecipePart = replace(
        report.recipes[1], name=hostile, about=hostile, refusal=hostile, steps=(step,)
    )
    opened = visit(path=planted(title=hostile, device=hostile, recipes=(part,)))
    assert opened.heading == hostile
    opened.press("j", "d")
    opened.page.wait_for_selector(".lines")
    assert opened.texts("#code td.code") == [hostile, "{{data}}"]
    for number in "23456":
        opened.press(number)
    assert opened.page.evaluate("window.taken") is None


def list_violations(axe: Any, page: Any) -> list[tuple[str, str]]:
    response = axe.run(page).response
    axe.axe_script = "undefined"  # this page has it by now
    return [
        (each["id"], node["html"][:120])
        for each in response["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_wrong_but_a_planted_pale_text(visit: Open, theme: str):
    """Contrast of 4.5 at least, and all else that axe-core knows of pages that all can use."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no Playwright with axe-core here"
    ).Axe()
    opened = visit()
    opened.page.evaluate(f"localStorage.setItem('tirstep.theme', '{theme}')")
    opened.page.reload()
    found = []
    for place in PLACES:
        opened.page.evaluate("(place) => { location.hash = place; }", place)
        assert opened.place == place
        found += [(place, *each) for each in list_violations(axe, opened.page)]
    opened.press("/")
    opened.page.keyboard.type("shared sync")
    opened.settle()
    found += [("search", *each) for each in list_violations(axe, opened.page)]
    opened.press("Escape", "?")
    found += [("help", *each) for each in list_violations(axe, opened.page)]
    assert found == []
    opened.press("Escape")
    pale = "document.querySelector('.crumbs .dim').style.color = 'rgb(127 127 127 / 0.5)'"
    opened.page.evaluate(pale)
    assert "color-contrast" in {name for name, _ in list_violations(axe, opened.page)}
