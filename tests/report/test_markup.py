"""Nothing of a report is ever parsed as markup. The pages' text says so: no browser is needed.

tests/report/test_page.py shows the same in a browser, where there is one.
"""

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_data import unpack_document

from tirstep.cli.report.document import SCRIPTS, RecipePart, Report, render_report

PAGE = Path(__file__).resolve().parents[2] / "src" / "tirstep" / "cli" / "report" / "page"

# What makes markup or a program of a string, or fetches one.
SINKS = re.compile(
    r"(inner|outer)HTML|insertAdjacentHTML|set(HTML|Inner)|HTMLUnsafe|createContextualFragment"
    r"|DOMParser|XSLTProcessor|document\s*(\.|\[)\s*[\"'`]?(write|domain|open)|srcdoc|execCommand"
    r"|\beval\b|\bFunction\s*\(|\.\s*constructor\b|\bset(Timeout|Interval)\s*\(\s*[\"'`]"
    r"|javascript\s*:|\bimport\s*\(|importScripts|fetch\s*\(|XMLHttpRequest|WebSocket|sendBeacon"
    r"|window\s*\.\s*open|location\s*=[^=]|location\s*\.\s*(href|assign|replace)|setAttributeNS"
    r"|cssText|insertRule|\[\s*[\"'`]on|\.on[a-z]+\s*=[^=]|adoptNode|importNode|cloneNode"
)
# Elements that run or fetch something, were they made.
DANGEROUS = {
    "script",
    "iframe",
    "object",
    "embed",
    "link",
    "base",
    "meta",
    "style",
    "frame",
    "form",
}
LINKS = re.compile(r'"#"|stepLink\(|passLink\(|link\b')


def find_sinks(script: str) -> list[str]:
    code = re.sub(r"(?m)^\s*//.*$|\s//\s.*$", "", script)
    found = [match[0] for match in SINKS.finditer(code)]
    tags = re.findall(r"\bh\(\s*([^,)]*)", code)
    found += [f"h({tag}" for tag in tags if not re.fullmatch(r'"[a-z][a-z0-9]*"', tag.strip())]
    found += [tag for tag in tags if tag.strip(' "').lower() in DANGEROUS]
    hrefs = re.findall(r"href\s*:\s*([^,}]*)", code)
    found += [f"href: {value}" for value in hrefs if not LINKS.match(value)]
    return found


@pytest.mark.parametrize("name", [*SCRIPTS])
def test_no_script_parses_a_string(name: str):
    script = (PAGE / f"{name}.js").read_text(encoding="utf-8")
    if name == "dom":  # the definition of h
        script = script.replace("function h(tag, ", "function made(")
    assert find_sinks(script) == []


def test_elements_are_made_in_one_place():
    made = {
        path.name: len(re.findall(r"createElement\b", path.read_text(encoding="utf-8")))
        for path in PAGE.glob("*.js")
    }
    assert {name: count for name, count in made.items() if count} == {"dom.js": 2}  # h, and stop
    dom = (PAGE / "dom.js").read_text(encoding="utf-8")
    # A child is appended: strings become text nodes. Names with "on" take functions, not texts.
    assert len(re.findall(r"\bchild\b", dom.partition("return element")[0])) == 5
    assert "child !== false) element.append(child);" in dom
    assert 'if (name.startsWith("on")) element.addEventListener(name.slice(2), value);' in dom
    assert {path.stem for path in PAGE.glob("*.js")} == set(SCRIPTS)


@pytest.mark.parametrize(
    "planted",
    [
        'element.insertAdjacentHTML("beforeend", child)',
        "element.innerHTML = text",
        "document.write(text)",
        "new Function(text)()",
        "setTimeout(`go(${text})`)",
        "new DOMParser().parseFromString(text)",
        "location.href = text",
        "element.onclick = text",
        'h("a", { href: recipe.source }, text)',
        'h("script", {}, text)',
        "h(recipe.name, {}, text)",
        "frame.srcdoc = text",
        "element.setHTMLUnsafe(text)",
    ],
)
def test_a_planted_sink_is_found(planted: str):
    assert find_sinks(f"const x = 1;\n{planted};\n") != []


HOSTILE = [
    "</title><script>taken()</script>",
    "<img src=x onerror=taken()>",
    "--><svg/onload=taken()>",
    "{{data}}{{script}}",
    "\\g<0> \\1",
    "&lt;b&gt; & \" ' `",
    "</script><script>taken()</script>",
    "a\u2028b\x00c\ud7ff",
]


class Elements(HTMLParser):
    """The elements of a page with their attributes, and the texts of the title and the data."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[object] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, attrs))
        self._inside = f"{tag} {dict(attrs).get('id', '')}".strip()

    def handle_endtag(self, tag: str) -> None:
        self.elements.append(f"/{tag}")
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data

    def handle_comment(self, data: str) -> None:
        self.elements.append(("comment", data))


def make_report(text: str) -> Report:
    """A report with a text wherever one of the user's gets in."""
    part = RecipePart(
        name=text,
        about=text,
        kernel=text,
        shape=text,
        dtype=text,
        config={text: text},
        status=None,
        refusal=text,
        findings=(),
        steps=(),
    )
    versions = {"tirstep": text, "TVM": text}
    return Report(text, kind=text, device=text, target=text, versions=versions, recipes=(part,))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_makes_an_element(text: str):
    plain, page = Elements(render_report(make_report("plain"))), render_report(make_report(text))
    parsed = Elements(page)
    assert parsed.elements == plain.elements
    assert parsed.texts["title"].replace("\ufffd", "\x00") == f"{text} · tirstep"
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", parsed.texts["script data"])
    document = unpack_document(page)
    assert (document["title"], document["recipes"][0]["name"]) == (text, text)
    # All else is as it was written: nothing is put in twice.
    for name in {*parsed.texts} - {"title", "script data"}:
        assert parsed.texts[name] == plain.texts[name]


def test_the_page_may_fetch_nothing():
    page = Elements(render_report(make_report("plain")))
    policies = [
        dict(element[1]).get("content", "")
        for element in page.elements
        if isinstance(element, tuple) and ("http-equiv", "Content-Security-Policy") in element[1]
    ]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none';")
    assert {rule.split()[0]: rule.split()[1:] for rule in policies[0].split("; ")} == {
        "default-src": ["'none'"],
        "style-src": ["'unsafe-inline'"],
        "script-src": ["'unsafe-inline'"],
        "img-src": ["data:"],
    }


def test_every_field_of_a_recipe_is_hostile_here():
    """A new field of text gets into `make_report`, or this says so."""
    texts = {field.name for field in dataclasses.fields(RecipePart) if "str" in str(field.type)}
    assert texts == {"name", "about", "kernel", "shape", "dtype", "config", "refusal"}
