"""What the page shows beside diffs, in a browser: Python, linked lines, search, views, print."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tirstep.cli.report.model import Report
from tirstep.cli.report.render import render_report

from .conftest import Open, Visit, is_firefox

pytestmark = pytest.mark.xdist_group("browser")
LAST = "window_sum_shared/03_fetched_cooperatively"
PLACES = (
    "",
    f"{LAST}/tir",
    f"{LAST}/tir?view=split",
    f"{LAST}/tir?view=exact,blame,wrap",
    f"{LAST}/source?view=whole",
    f"{LAST}/lines?line=14",
    *(f"{LAST}/{tab}" for tab in ("loops", "facts", "trace", "checks", "time")),
    "window_sum_shared/print",
)


def tied(visit: Visit, pane: str) -> list[str]:
    return visit.texts(f'.pane[data-pane="{pane}"] tr.tie td.code')


def test_the_python_of_a_step_stands_over_its_diff_with_its_path(visit: Open, report: Report):
    opened = visit(f"{LAST}/tir")
    python = report.recipes[1].steps[3].python
    assert opened.texts(".python .path code") == [f"{python.path}:{python.start}"]
    shown = opened.texts(".python td.code")
    assert shown == list(python.text.lines)[python.start - python.first :][: len(shown)]
    assert shown[-1].strip() == 'yield "fetched_cooperatively"'
    opened.page.locator(".python tr.fold button").first.click()
    assert len(opened.texts(".python td.code")) > len(shown)
    opened.press("p")
    assert opened.page.locator(".python").count() == 0
    assert opened.place == f"{LAST}/tir?view=bare"


def test_lines_that_belong_together_are_marked_in_all_panes(visit: Open, report: Report):
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
    at = step.links.index(line) + 1
    again = visit(f"{LAST}/lines?line={at}&in=source")
    assert tied(again, "tir") == [step.tir.lines[line - 1]]
    assert again.page.locator("tr.target").get_attribute("data-pane") == "source"
    again.page.locator('.pane[data-pane="tir"] .codebox').focus()
    again.press("End")
    assert again.place == f"{LAST}/lines?line={len(step.tir.lines)}&in=tir"


def test_machine_code_is_there_or_the_pane_says_why(visit: Open, report: Report):
    opened = visit(f"{LAST}/lines")
    code = report.recipes[1].steps[3].machine_code
    if code.text is None:
        assert code.missing in opened.texts(".pane .empty")[0]
    else:
        assert opened.texts('.pane[data-pane="sass"] td.code') == list(code.text.lines)
    before = visit("window_sum_shared/00_input/lines")
    assert before.texts(".pane .empty")[0].startswith("No CUDA: ")
    # What is missing takes no room beside what is there.
    whole, pane = (before.page.locator(it).bounding_box() for it in (".panes", ".pane .codebox"))
    assert pane["width"] > 0.95 * whole["width"]


def test_several_words_find_lines_and_passes(visit: Open):
    opened = visit()
    opened.press("/")
    opened.page.keyboard.type("shared threadsync")
    found = opened.texts("#hits li")
    assert any("pass 42 s_tir.ThreadSync" in text for text in found)
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert "/pass-" in opened.place
    opened.press("/")
    opened.page.keyboard.press("ControlOrMeta+a")
    opened.page.keyboard.type("sblock_alloc A_SHARED =")
    lines = opened.texts("#hits li code")
    assert lines
    words = ("sblock_alloc", "a_shared", "=")
    assert all(all(word in line.lower() for word in words) for line in lines)
    assert opened.page.locator("#hits li").first.locator("mark").count() >= len(words)


def test_search_goes_to_the_line_that_a_pass_wrote(visit: Open):
    opened = visit()
    opened.press("/")
    opened.page.keyboard.type("tvm_storage_sync")
    opened.page.locator("#hits li", has_text="ThreadSync").first.click()
    opened.settle()
    assert "tvm_storage_sync" in opened.texts("tr.target td.code")[0]


def test_every_view_is_in_the_address_and_comes_back_from_it(visit: Open):
    opened = visit(f"{LAST}/source")
    opened.press("d", "b", "w")
    assert opened.place == f"{LAST}/source?view=whole,blame,wrap"
    again = visit(opened.place)
    assert again.page.locator("#code table.whole.wrap td.blame").count() > 0
    again.press("1")  # another tab keeps how texts are shown
    assert again.place == f"{LAST}/tir?view=whole,blame,wrap"
    again.press("d", "b", "w")
    assert again.place == f"{LAST}/tir"
    assert visit(f"{LAST}/tir?view=split,nonsense").page.locator("table.split").count() == 1


def test_a_click_on_a_line_number_makes_its_address(visit: Open):
    opened = visit(f"{LAST}/tir?view=whole")
    opened.page.locator("#code td.ln").nth(8).click()
    assert opened.place == f"{LAST}/tir?line=9&view=whole"
    again = visit(opened.place)
    assert again.texts("#code tr.target .ln") == ["9"]


def test_texts_and_links_are_copied(visit: Open, report: Report):
    opened = visit(f"{LAST}/tir?view=whole")
    opened.page.evaluate(
        """Object.defineProperty(navigator, "clipboard",
        { value: { writeText: async (text) => { window.copied = text; } } })"""
    )
    opened.page.get_by_role("button", name="Copy text").click()
    opened.settle()
    text = "\n".join(report.recipes[1].steps[3].tir.lines) + "\n"
    assert opened.page.evaluate("window.copied") == text
    assert opened.texts("#status") == ["The text is copied."]
    opened.page.get_by_role("button", name="Copy link").click()
    opened.settle()
    assert opened.page.evaluate("window.copied").endswith(f"#{LAST}/tir?view=whole")
    opened.page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject())")
    opened.page.get_by_role("button", name="Copy text").click()
    opened.settle()
    assert "mark it and copy it yourself" in opened.texts("#status")[0]


def test_wrapped_lines_need_no_scrolling(visit: Open):
    wide = "[document.getElementById('code')].map((box) => box.scrollWidth - box.clientWidth)[0]"
    narrow = {"viewport": {"width": 900, "height": 700}}
    assert visit(f"{LAST}/source", **narrow).page.evaluate(wide) > 0
    assert visit(f"{LAST}/source?view=wrap", **narrow).page.evaluate(wide) == 0


def test_a_recipe_is_printed_as_a_whole(visit: Open, report: Report):
    opened = visit(f"{LAST}/tir")
    opened.page.get_by_role("link", name="Print the recipe").click()
    opened.settle()
    assert opened.place == "window_sum_shared/print"
    labels = [step.label for step in report.recipes[1].steps]
    assert opened.texts(".print-step h2 a") == labels
    assert opened.page.locator(".print-step .python").count() == len(labels)
    if not is_firefox(opened.page.context.browser):  # its protocol sets no media
        opened.page.emulate_media(media="print")
        for hidden in ("#side", "#top", ".head button"):
            assert not opened.page.locator(hidden).is_visible()
        cut = opened.page.evaluate(
            "Array.from(document.querySelectorAll('.codebox'), "
            "(box) => box.scrollHeight - box.clientHeight)"
        )
        assert max(cut) <= 1  # nothing is cut off


def test_counts_at_the_tutorials_shape_stand_beside_the_golden_ones(
    visit: Open, report: Report, tmp_path: Path
):
    opened = visit(f"{LAST}/time")
    recipe = report.recipes[1]
    assert opened.texts(".counts thead th") == ["Count", recipe.shape]  # both are the same here
    step = recipe.steps[-1]
    larger = replace(step, example_counts=replace(step.counts, blocks=4096))
    recipe = replace(recipe, example_shape="64x65536", steps=(*recipe.steps[:-1], larger))
    page = tmp_path / "larger.html"
    page.write_text(render_report(replace(report, recipes=(recipe,))), encoding="utf-8")
    opened = visit(f"{LAST}/time", page)
    assert opened.texts(".counts thead th") == ["Count", recipe.shape, "64×65536"]
    assert opened.texts(".counts tbody tr:first-child td") == [f"{step.counts.blocks:,}", "4,096"]


@pytest.mark.parametrize("browser", ["chromium"], indirect=True)
@pytest.mark.parametrize(
    ("theme", "size"), [("light", (1280, 900)), ("dark", (1280, 900)), ("dark", (390, 844))]
)
def test_axe_finds_nothing_wrong(visit: Open, theme: str, size: tuple[int, int]):
    """Contrast of 4.5 at least, and all else that axe-core knows of pages that all can use."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no Playwright with axe-core here"
    ).Axe()
    options: dict[str, Any] = {"viewport": {"width": size[0], "height": size[1]}}
    opened = visit(**options)
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


def list_violations(axe: Any, page: Any) -> list[tuple[str, str]]:
    response = axe.run(page).response
    axe.axe_script = "undefined"  # this page has it by now
    return [
        (each["id"], node["html"][:120])
        for each in response["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("browser", ["chromium"], indirect=True)
def test_axe_finds_a_planted_pale_text(visit: Open):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no Playwright with axe-core here"
    ).Axe()
    opened = visit(f"{LAST}/tir")
    opened.page.evaluate("document.querySelector('.meta code').style.color = '#bbb'")
    opened.page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert "color-contrast" in {name for name, _ in list_violations(axe, opened.page)}


CLIPBOARD = ["clipboard-read", "clipboard-write"]
COPIES = (
    f"{LAST}/tir?view=split,blame",
    f"{LAST}/lines?line=14&in=source",
    f"{LAST}/pass-42",
)


def get_clipboard(visit: Visit) -> str:
    """What a user would paste; a browser that lets nobody read it pastes into a box."""
    if not is_firefox(visit.page.context.browser):
        return str(visit.page.evaluate("navigator.clipboard.readText()"))
    visit.page.evaluate(
        "document.body.append(Object.assign(document.createElement('textarea'), {id: 'pasted'}))"
    )
    box = visit.page.locator("#pasted")
    box.focus()
    visit.page.keyboard.press("ControlOrMeta+v")
    pasted = str(box.input_value())
    box.evaluate("(box) => box.remove()")
    return pasted


def click_copy(visit: Visit, what: str) -> str:
    """Click a button, and what the page says then."""
    visit.page.locator("button", has_text=f"Copy {what}").first.click()
    visit.page.wait_for_function(
        "(what) => document.body.textContent.includes(`${what} is copied`)", arg=what
    )
    return get_clipboard(visit)


@pytest.mark.parametrize("place", COPIES)
def test_what_is_copied_can_be_pasted(visit: Open, browser: Any, report: Report, place: str):
    """The whole text that is shown, and an address at which another reader sees the same."""
    granted = {} if is_firefox(browser) else {"permissions": CLIPBOARD}
    opened = visit(place, **granted)
    step = report.recipes[1].steps[3]
    texts = {"tir": step.tir, "lines": step.device_source.text}
    tab = place.removeprefix(f"{LAST}/").partition("?")[0]
    expected = texts.get(tab) or next(it.after for it in step.passes if it.number == 42)
    assert click_copy(opened, "text") == "\n".join(expected.lines) + "\n"
    link = click_copy(opened, "link")
    assert link == f"{opened.address}#{place}"
    again = visit(link.partition("#")[2])
    assert again.heading == opened.heading
    assert again.place == place
