"""The page in a browser: by keyboard, by address, narrow and dark, and with hostile texts."""

import dataclasses
import difflib
from pathlib import Path
from typing import Any

import pytest
from golden_runs import run_golden

from tirstep.cli.report.model import Peaks, Report, TimePart
from tirstep.cli.report.render import render_report
from tirstep.lowering_checks import Finding, print_module
from tirstep.lowering_checks.diff import blame_step
from tirstep.transforms.recipes import RECIPES

from .conftest import Open, Visit, is_firefox

pytestmark = pytest.mark.xdist_group("browser")
SHARED = run_golden(RECIPES["window_sum_shared"])
LAST = "window_sum_shared/03_fetched_cooperatively"


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


def test_blame_of_a_line_by_mouse_by_keyboard_and_in_the_column(visit: Open):
    opened = visit(f"{LAST}/tir")
    blamed = blame_step(SHARED, SHARED.steps[3])
    place = next(at for at, finding in enumerate(blamed) if finding.step.index == 2)
    wrote = blamed[place].step
    opened.press("d")
    opened.page.hover(f'tr[data-fresh="{place}"] td.code')
    told = f"line {place + 1}|written by step|02_{wrote.name}|{wrote.location}"
    assert "|".join(opened.texts("#status > *")) == told
    opened.press("c", "Home", *["ArrowDown"] * place)
    assert "|".join(opened.texts("#status > *")) == told
    opened.press("b")
    column = opened.page.evaluate(
        "Array.from(document.querySelectorAll('td.blame > :first-child'), (one) => one.textContent)"
    )
    assert column == [f"{finding.step.index:02d}_{finding.step.name}" for finding in blamed]


def test_the_source_is_blamed_on_the_step_that_changed_it(visit: Open, report: Report):
    opened = visit(f"{LAST}/source")
    opened.press("d")
    at = report.recipes[1].steps[3].device_source.authors.index(3)
    opened.page.hover(f'tr[data-fresh="{at}"] td.code')
    assert opened.texts("#status .who") == ["03_fetched_cooperatively"]


def test_what_stands_in_front_of_the_kernels_is_folded_until_a_line_of_it_is_asked_for(
    visit: Open, report: Report
):
    source = report.recipes[1].steps[3].device_source.text.lines
    first = next(at for at, line in enumerate(source) if line.startswith('extern "C" __global__'))
    opened = visit(f"{LAST}/source")
    opened.press("d")
    assert opened.texts("#code tr.fold") == [f"⋯ {first} lines in front of the kernels"]
    assert opened.texts("#code table.whole td.code") == list(source[first:])
    opened = visit(f"{LAST}/source?line=2")
    opened.press("d")
    assert opened.texts("#code table.whole td.code") == list(source)


def test_search_goes_to_the_line(visit: Open):
    opened = visit()
    opened.press("/")
    opened.page.keyboard.type('"A_SHARED = T."')
    found = opened.texts("#hits li")
    assert found
    assert all("A_shared = T." in text for text in found)
    opened.press("ArrowDown", "Enter")
    opened.page.wait_for_selector("tr.target")
    assert "A_shared = T.sblock_alloc_buffer" in opened.texts("tr.target td.code")[0]
    assert "&line=" in opened.place or "?line=" in opened.place
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
    assert opened.place == f"{LAST}/pass-{first.number}"
    assert side(opened, "fresh") == list(first.after.lines)
    opened.press("]")
    assert opened.place == f"{LAST}/pass-{step.passes[1].number}"
    opened.press("Escape")
    assert opened.place == f"{LAST}/tir"


def test_every_tab_has_an_address_and_a_number(visit: Open):
    opened = visit(f"{LAST}/facts")
    assert opened.page.get_by_role("tab", selected=True).inner_text() == "Facts"
    assert "shared memory" in opened.texts(".facts")[0]
    assert opened.page.locator(".facts tr.changed").count() > 0
    seen = []
    for number in "12345678":
        opened.press(number)
        seen.append(opened.page.get_by_role("tab", selected=True).inner_text())
        assert opened.page.locator("#panel").inner_text().strip()
    assert seen == ["TIR", "Loops", "CUDA", "Lines", "Facts", "Trace", "Checks", "Counts"]
    opened.press("2")
    assert opened.texts(".node.loop > .label .tag")[:2] == ["blockIdx.x", "threadIdx.x"]
    assert opened.texts(".lane.shared .card strong") == ["A_shared"]


def test_tabs_go_with_the_arrows(visit: Open):
    opened = visit(f"{LAST}/tir")
    opened.page.focus("#tab-tir")
    opened.press("ArrowRight")
    opened.page.wait_for_selector("#tab-loops[aria-selected=true]")
    assert opened.page.evaluate("document.activeElement.id") == "tab-loops"


def test_the_tab_of_a_source_that_nobody_made_has_a_name(
    visit: Open, report: Report, tmp_path: Path
):
    recipe = report.recipes[1]
    last = recipe.steps[-1]
    last = dataclasses.replace(
        last, device_source=dataclasses.replace(last.device_source, language="")
    )
    recipe = dataclasses.replace(recipe, steps=(*recipe.steps[:-1], last))
    path = tmp_path / "page.html"
    path.write_text(render_report(dataclasses.replace(report, recipes=(recipe,))), "utf-8")
    assert visit(f"{LAST}/tir", path=path).texts("#tab-source") == ["Source"]


def test_an_address_of_nothing_says_so(visit: Open):
    opened = visit("no_such_recipe/01_bound/tir")
    assert opened.texts("[role=alert]") == ["This report has no 'no_such_recipe/01_bound/tir'."]
    assert visit(f"{LAST}/pass-9999").texts("[role=alert]") == [
        f"This report has no '{LAST}/pass-9999'."
    ]


def test_both_themes_and_the_choice_is_remembered(visit: Open):
    colour = "getComputedStyle(document.body).backgroundColor"
    light = visit(color_scheme="light").page.evaluate(colour)
    opened = visit(color_scheme="dark")
    if is_firefox(opened.page.context.browser):  # its protocol sets no scheme
        opened.press("t")
    dark = opened.page.evaluate(colour)
    assert light != dark
    opened.press("t")
    assert opened.page.evaluate(colour) == light
    opened.page.reload()
    opened.page.wait_for_selector("h1")
    assert opened.page.evaluate(colour) == light


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


def test_recipes_that_were_skipped_are_counted(visit: Open, report: Report, tmp_path: Path):
    first, second = report.recipes
    skipped = dataclasses.replace(first, status="skipped", refusal="it does not divide", steps=())
    path = tmp_path / "skipped.html"
    path.write_text(render_report(dataclasses.replace(report, recipes=(skipped, second))), "utf-8")
    opened = visit(path=path)
    assert "1 recipe skipped. Every check passed." in opened.texts(".about")[0]
    assert "it does not divide" in opened.texts(".ladder")[0]


def test_a_module_without_a_shape_stands_beside_a_kernel(
    visit: Open, report: Report, tmp_path: Path
):
    """As in a report of a user's file: what leaves no size open has none."""
    first, second = report.recipes
    path = tmp_path / "mixed.html"
    parts = (first, dataclasses.replace(second, shape=""))
    path.write_text(render_report(dataclasses.replace(report, recipes=parts)), "utf-8")
    opened = visit(path=path)
    assert [second.name in text for text in opened.texts(".ladder")] == [True]
    opened = visit(f"{LAST}/time", path=path)
    assert "as given" in opened.texts(".counts thead th")


def test_a_finding_that_is_a_diff_has_its_colours(visit: Open, report: Report, tmp_path: Path):
    step = report.recipes[1].steps[3]
    diff = "--- golden\n+++ got\n@@ -1 +1 @@\n-old\n+new"
    finding = Finding("golden", "here", "the program changed", diff, "there.py:1")
    checks = dataclasses.replace(step.checks, golden="failed", findings=(finding,))
    steps = (*report.recipes[1].steps[:3], dataclasses.replace(step, checks=checks))
    part = dataclasses.replace(report.recipes[1], status="failed", steps=steps)
    path = tmp_path / "found.html"
    path.write_text(render_report(dataclasses.replace(report, recipes=(part,))), "utf-8")
    opened = visit(f"{LAST}/checks", path=path)
    assert opened.page.locator(".finding pre").text_content() == f"{diff}\n"
    coloured = [opened.texts(f".finding .{name}")[0].strip() for name in ("minus", "plus")]
    assert coloured == ["-old", "+new"]


@pytest.mark.parametrize(
    "place",
    [
        "",
        f"{LAST}/tir",
        f"{LAST}/lines",
        "window_sum_shared/print",
        f"{LAST}/loops",
        f"{LAST}/facts",
        f"{LAST}/time",
    ],
)
def test_a_phone_shows_it_without_scrolling_sideways(visit: Open, place: str):
    opened = visit(place, viewport={"width": 390, "height": 844})
    room = opened.page.evaluate("document.documentElement.clientWidth")  # a scroll bar takes some
    assert opened.page.evaluate("document.documentElement.scrollWidth") == room > 370
    assert not opened.page.locator("#side").is_visible()
    opened.page.click("#menu")
    opened.page.locator("#side a", has_text="Overview").click()
    opened.page.wait_for_selector("#side", state="hidden")
    assert opened.place == ""


def test_long_counts_of_a_recipe_fit_on_a_phone(visit: Open):
    opened = visit("window_sum_shared/print", viewport={"width": 390, "height": 844})
    opened.page.evaluate(
        "document.querySelectorAll('.print-step .facts .num').forEach("
        "(cell) => { cell.textContent = '1,048,576 × 65,536 × 64'; })"
    )
    room = opened.page.evaluate("document.documentElement.clientWidth")
    assert opened.page.evaluate("document.documentElement.scrollWidth") == room


def test_landmarks_and_names_for_a_screen_reader(visit: Open):
    page: Any = visit(f"{LAST}/tir").page
    for role, name in [
        ("navigation", "Recipes and steps"),
        ("region", "03_fetched_cooperatively, diff against 02_window_in_every_thread"),
        ("tablist", "Views of the step"),
        ("button", "Dark theme"),
        ("link", "next step"),
    ]:
        count = 0 if name == "next step" else 1  # this step is the last
        assert page.get_by_role(role, name=name).count() == count
    assert page.get_by_role("main").count() == page.get_by_role("banner").count() == 1
    unnamed = page.evaluate(
        """[...document.querySelectorAll("button, a, select, input")].filter(
        (one) => !one.getAttribute("aria-label") && !one.textContent.trim() && !one.labels?.length)
        .length"""
    )
    assert unnamed == 0


def test_times_are_drawn_under_the_roofs_of_the_device(visit: Open, report: Report, tmp_path):
    def with_time(part, gflops):
        time = TimePart(1e3 / gflops, 0.9e3 / gflops, 1.1e3 / gflops, 20, gflops)
        last = dataclasses.replace(part.steps[-1], time=time, counts=None)
        return dataclasses.replace(part, steps=(*part.steps[:-1], last))

    recipes = tuple(map(with_time, report.recipes, (50.0, 200.0)))
    planted = dataclasses.replace(report, recipes=recipes, peaks=Peaks(60e3, 4e3))
    path = tmp_path / "timed.html"
    path.write_text(render_report(planted), encoding="utf-8")
    opened = visit(path=path)
    assert opened.texts(".ladder thead th")[-2:] == ["Time µs", "GFLOP/s"]
    drawn = opened.page.locator(".roofline svg")
    label = "Roofline: window_sum_bound 50 GFLOP/s, window_sum_shared 200 GFLOP/s"
    assert drawn.get_attribute("aria-label") == label
    heights = opened.page.evaluate(
        "Array.from(document.querySelectorAll('.roofline circle'), (one) => one.cy.baseVal.value)"
    )
    assert heights == sorted(heights)  # the faster one is drawn first, and higher
    assert opened.page.locator(".roofline .roof").count() == 1
    opened.page.locator(".roofline a").first.click()
    assert opened.place == f"{LAST}/time"
    assert "5 µs" in opened.texts(".figure")[0]


def test_texts_that_look_like_markup_stay_texts(visit: Open, report: Report, tmp_path):
    hostile = '</script><script>window.taken=1</script><img src=x onerror="window.taken=2">'
    text = dataclasses.replace(report.recipes[1].steps[3].tir, lines=(hostile, "{{data}}"))
    step = dataclasses.replace(
        report.recipes[1].steps[3],
        name=hostile,
        label=hostile,
        source=hostile,
        tir=text,
        trace=text,
    )
    part = dataclasses.replace(
        report.recipes[1], name=hostile, about=hostile, refusal=hostile, steps=(step,)
    )
    planted = dataclasses.replace(report, title=hostile, device=hostile, recipes=(part,))
    path = tmp_path / "planted.html"
    path.write_text(render_report(planted), encoding="utf-8")
    opened = visit(path=path)
    assert opened.heading == hostile
    opened.press("j", "d")
    opened.page.wait_for_selector(".lines")
    assert opened.texts("#code td.code") == [hostile, "{{data}}"]
    for number in "2345678":
        opened.press(number)
    assert opened.page.evaluate("window.taken") is None
