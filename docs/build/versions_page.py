"""The table of docs/versions.md, from what ``tirstep upgrade-report --json`` printed.

``python docs/build/versions_page.py`` fills it in again; `FILE` is written by::

    .venv-0.26/bin/tirstep record build/old
    .venv/bin/tirstep record build/new
    .venv/bin/tirstep upgrade-report build/old build/new --json > docs/upgrades/0.26-to-0.27.json

What stands behind " [" in a refusal is cut off there: it has the machine's path of the kernel.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

from pages import DOCS, write_table

from tirstep.files import write_file

PAGE = DOCS / "versions.md"
FILE = DOCS / "upgrades" / "0.26-to-0.27.json"
BEGIN, END = "<!-- begin upgrade -->\n", "<!-- end upgrade -->"


def make_page() -> str:
    """The page with the table in its place."""
    document = json.loads(FILE.read_text("utf-8"))
    head, rest = PAGE.read_text("utf-8").split(BEGIN)
    return f"{head}{BEGIN}{_describe(document)}\n{END}{rest.split(END, 1)[1]}"


def _describe(document: dict[str, Any]) -> str:
    changes = document["changes"]
    kinds = Counter(change["kind"] for change in changes)
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.items()) or "all the same"
    line = f"TVM {document['old']} to {document['new']}: {document['steps']} steps; {told}."
    groups = defaultdict(list)
    for change in changes:
        details = "; ".join(change["details"])
        groups[change["kind"], details].append(f"{change['recipe']} {change['step']}".strip())
    rows = [[kind, what, ", ".join(names)] for (kind, what), names in groups.items()]
    table = write_table(["kind", "what", "recipes and their steps"], rows)
    return f"{line}\n\n{table}\n" if rows else f"{line}\n"


if __name__ == "__main__":
    write_file(PAGE, make_page())
