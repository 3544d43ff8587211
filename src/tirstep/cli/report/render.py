"""The page: its template, styles and scripts from the folder `page`, and the data of a report."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from importlib.resources import files

from .model import Report, as_document

STYLES = (
    "theme",
    "base",
    "layout",
    "tree",
    "step",
    "code",
    "lines",
    "panels",
    "overview",
    "dialogs",
)
SCRIPTS = (
    *("start", "dom", "data", "lines", "route", "diff", "highlight", "code", "panels"),
    *("overview", "tree", "step", "search", "keyboard"),
)
MARKER = '<meta name="generator" content="tirstep report">'


def render_report(report: Report) -> str:
    """One HTML file that needs nothing else."""
    page = files(__package__) / "page"

    def read(name: str) -> str:
        return (page / name).read_text(encoding="utf-8")

    script = "\n".join(read(f"{name}.js") for name in SCRIPTS)
    parts = {
        "generator": MARKER,
        "title": html.escape(f"{report.title} · tirstep"),
        "style": "\n".join(read(f"{name}.css") for name in STYLES),
        "data": pack_document(as_document(report)),
        "script": f'(async () => {{\n"use strict";\n{script}\n}})();',
    }
    # In one go: what is put in is not searched again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], read("page.html"))


def pack_document(document: object) -> str:
    """JSON, deflated and in base64: small, and no text in it can be taken for markup."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode(), level=9)).decode("ascii")
