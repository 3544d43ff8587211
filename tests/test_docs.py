"""docs: pages are as generated, the index names them all, and the site is searched from disk."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agents
import pages
import pytest
from browser import NoBrowserError, open_browser

import tirstep.transforms
from tirstep.transforms.recipes import LADDERS, RECIPES

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_generated_page_is_as_generated(name: str):
    assert (DOCS / name).read_text("utf-8") == pages.PAGES[name](), "run: make docs"


@pytest.mark.parametrize("name", agents.FILES)
def test_what_agents_read_is_as_generated(name: str):
    assert (ROOT / name).read_text("utf-8") == agents.FILES[name](), "run: make docs"


def test_every_transform_and_recipe_has_its_place():
    transforms, recipes = ((DOCS / name).read_text() for name in ("transforms.md", "recipes.md"))
    for name in tirstep.transforms.__all__:
        if inspect.isfunction(getattr(tirstep.transforms, name)):
            assert f"\n### `{name}`\n" in transforms, "no topic of pages.TOPICS has its module"
    assert re.findall("^## `(.+)`$", recipes, re.MULTILINE) == [*LADDERS]
    assert re.findall(r"^\| \d+ \| `(.+?)`", recipes, re.MULTILINE) == [*RECIPES]


def test_the_index_names_every_page():
    found = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"index.md"}
    linked = re.findall(r"^- \[.+?\]\((.+?)\)", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert sorted(linked) == sorted(found)


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))], ids=str)
def test_links_lead_to_files_and_headings(page: Path):
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text())
    for target, anchor in re.findall(r"\]\((?!https?:)([^)# ]*)#?([^) ]*)\)", text):
        file = page.parent / target if target else page
        assert file.exists(), target
        text = file.read_text() if anchor else ""
        headings = re.findall(r"(?m)^#+ (.*)$", text)
        slugs = [re.sub(r"[^\w -]", "", it.lower()).replace(" ", "-") for it in headings]
        assert anchor in ["", *slugs, *re.findall(r'<a id="(.+?)">', text)], f"{target}#{anchor}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    if not all(map(importlib.util.find_spec, ("sphinx", "furo", "myst_parser"))):
        pytest.skip("the site needs Sphinx: pip install -c constraints.txt -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "-c", DOCS / "build", "-d", folder / "doctrees"]
    call = [sys.executable, "-m", "sphinx", *options, DOCS, folder / "html"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture
def page(site: Path) -> Iterator[Any]:
    try:
        with open_browser() as browser:
            yield browser.new_page()
    except NoBrowserError as missing:
        pytest.skip(f"the site needs a browser: {missing}")


@pytest.mark.xdist_group("site")  # which is built once
def test_the_site_has_the_reference(site: Path):
    reference = (site / "api.html").read_text()
    for name in ("transforms.split_loop", "modules.matmul", "lowering_checks.diff_modules"):
        assert f'id="tirstep.{name}"' in reference


@pytest.mark.xdist_group("site")
def test_the_site_is_searched_from_disk(site: Path, page: Any):
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.fill("input.sidebar-search", "split_loop")
    page.press("input.sidebar-search", "Enter")
    page.get_by_role("link", name="Transforms > split_loop", exact=True).click()
    page.wait_for_url("**/transforms.html*")
    assert page.locator("h3 >> text=split_loop").first.is_visible()
    assert errors == []
    assert [url for url in asked if not url.startswith("file:")] == []
