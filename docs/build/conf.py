"""Sphinx builds the site of `make docs` with this: the pages of docs and an API reference.

The pages are plain Markdown for a reader of the repository. What only Sphinx understands is added
while it reads them: the contents, which are the links of index.md, and the reference of api.md.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from importlib import import_module
from types import ModuleType
from typing import Any

import tirstep

project = "tirstep"
version = release = tirstep.__version__
author = "the authors of tirstep"
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["build"]
myst_heading_anchors = 3
# Folders of the repository, which have no page; and names of attributes: Sphinx looks up each as a
# link where it stands in the list of its own class, though another class has one of that name.
suppress_warnings = ["myst.xref_missing", "ref.python"]

html_theme = "furo"
html_title = f"tirstep {release}"
# A summary would have to be fetched, which a browser refuses a page that was opened from disk.
html_show_search_summary = False
html_copy_source = False
html_show_sourcelink = False

# Docstrings have names in single backticks.
default_role = "code"
add_module_names = False
autodoc_typehints = "signature"
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
napoleon_use_ivar = True

PACKAGES = (
    "tirstep.transforms",
    "tirstep.transforms.recipes",
    "tirstep.transforms.plans",
    "tirstep.transforms.queries",
    "tirstep.rules",
    "tirstep.modules",
    "tirstep.lowering_checks",
    "tirstep.lowering_checks.devices",
    "tirstep.lowering_checks.facts",
    "tirstep.lowering_checks.bisect",
)
# Wide tables are set smaller, and a shadow says that they scroll. Options do not break at dashes.
STYLE = """<style>table.docutils{font-size:.8rem}code span.pre{white-space:nowrap}
.table-wrapper{background:linear-gradient(90deg,var(--color-background-primary) 2rem,#0000) local,
linear-gradient(270deg,var(--color-background-primary) 2rem,#0000) right local,
linear-gradient(270deg,#0003,#0000 .8rem) right;background-repeat:no-repeat}
table.docutils th{background:none}</style>"""
SECTION = re.compile(r"^(rewrite|consumes|returns|requires|guarded): ")


def setup(app: Any) -> None:
    """Have the two pages completed, and the sections of transforms' docstrings set apart."""
    app.connect("source-read", complete_page)
    app.connect("html-page-context", add_style)
    app.connect("autodoc-process-docstring", mark_sections)


def add_style(app: Any, name: str, template: str, context: dict[str, Any], tree: Any) -> None:
    context["metatags"] = context.get("metatags", "") + STYLE


def complete_page(app: Any, name: str, source: list[str]) -> None:
    """Add the contents to index.md and the reference to api.md, and let files of the repository's
    root, which are no pages, be downloaded."""
    source[0] = re.sub(r"\[([A-Z]+)\]\((\.\./\1\.md)\)", r"{download}`\1 <\2>`", source[0])
    if name == "index":
        source[0] += write_contents(source[0])
    elif name == "api":
        source[0] += write_reference()


def write_contents(index: str) -> str:
    """A hidden list of contents for each heading of index.md, of the pages linked there."""
    trees = []
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        caption, pages = part.partition("\n")[0], re.findall(r"^- .*?\]\((.+)\.md\)", part, re.M)
        trees.append(
            "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```"])
        )
    return "\n".join(trees)


def write_reference() -> str:
    """All packages; what several of them export stands with the first."""
    parts: list[str] = []
    told: set[str] = set()
    for package in PACKAGES:
        module = import_module(package)
        names = set(getattr(module, "__all__", ())) or {
            name
            for name, it in vars(module).items()
            if not name.startswith("_") and str(getattr(it, "__module__", "")).startswith(package)
        }
        options = f":members: {', '.join(sorted(names - told))}", ":imported-members:"
        directive = "\n   ".join([f".. automodule:: {package}", *options])
        objects = "".join(write_object(module, name) for name in sorted(names))
        parts.append(f"\n## {package}\n\n```{{eval-rst}}\n{directive}\n{objects}```\n")
        told |= names
    return "".join(parts)


def write_object(module: ModuleType, name: str) -> str:
    """An object with a docstring of its own, such as a kernel, which autodoc leaves out."""
    it = getattr(module, name)
    if isinstance(it, type) or inspect.isroutine(it) or it.__doc__ == type(it).__doc__:
        return ""
    text = textwrap.indent(inspect.cleandoc(it.__doc__), "   ")
    return f"\n.. py:data:: {name}\n   :module: {module.__name__}\n\n{text}\n"


def mark_sections(
    app: Any, what: str, name: str, it: object, options: Any, lines: list[str]
) -> None:
    """Turn ``rewrite: ...`` and the like into fields, which reStructuredText sets apart."""
    marked: list[str] = []
    for line in lines:
        if SECTION.match(line):
            if marked and marked[-1] and not marked[-1].startswith((" ", ":")):
                marked.append("")
            line = SECTION.sub(r":\1: ", line)
        marked.append(line)
    lines[:] = marked
