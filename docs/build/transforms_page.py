"""docs/transforms.md, of all public transforms and queries, from their signatures and docstrings.

A transform's docstring says what it does, and then in sections ``rewrite:``, ``consumes:``,
``returns:`` and ``requires:`` what a call means for the handles and what it refuses.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pages import GENERATED, update_page, write_table

import tirstep.transforms

PAGE = "transforms.md"
SECTIONS = ("rewrite", "consumes", "returns", "requires")
WIDTH = 96

INTRO = """\
# Transforms

A transform takes a schedule, handles, and sizes by keyword, and returns handles. What stands under
*requires* is checked before the first primitive runs: a call that does not meet it raises a
`TransformError`, one sentence with names, numbers and advice, and the schedule is as it was. Every
transform also refuses a result that TVM would lower to another program: a lost block, a buffer that
is read before it is written, a missing barrier, a guard that a sum over threads loses.

Handles that are *consumed* are dead afterwards. With `tail="refuse"` sizes have to divide;
`tail="guard"` puts predicates on the blocks inside instead.
"""


@dataclass(frozen=True)
class Entry:
    """A public function: its signature, what it does, and the sections of its docstring."""

    name: str
    signature: str
    text: str
    sections: dict[str, str]

    @property
    def summary(self) -> str:
        return self.text.partition("\n")[0]


def make_page() -> str:
    """The whole page."""
    public = {name: getattr(tirstep.transforms, name) for name in tirstep.transforms.__all__}
    entries = [read_entry(name, it) for name, it in public.items() if not isinstance(it, type)]
    transforms = [entry for entry in entries if "rewrite" in entry.sections]
    queries = [entry for entry in entries if "rewrite" not in entry.sections]
    types = {name: it for name, it in public.items() if hasattr(it, "_fields")}
    parts = [
        GENERATED + INTRO,
        write_summary("transform", transforms),
        *(part for entry in transforms for part in write_entry(entry, "##")),
        "## Queries\n\nThey change nothing.",
        *(part for entry in queries for part in write_entry(entry, "###")),
        "## What transforms return\n\nSeveral handles come back as a named tuple.",
        write_table(
            ["type", "fields", "what it is"],
            [
                [f"`{name}`", f"`{', '.join(it._fields)}`", str(inspect.getdoc(it)).split("\n")[0]]
                for name, it in types.items()
            ],
        ),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def read_entry(name: str, function: Callable[..., Any]) -> Entry:
    """What the page says of a function."""
    text, sections = split_docstring(inspect.getdoc(function) or "")
    return Entry(name, write_signature(name, function), text, sections)


def split_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """A docstring's text, and its sections by name, each on one line."""
    pieces = re.split(rf"^({'|'.join(SECTIONS)}):", doc, flags=re.MULTILINE)
    names, texts = pieces[1::2], pieces[2::2]
    return pieces[0].strip(), {
        name: " ".join(text.split()) for name, text in zip(names, texts, strict=True)
    }


def write_signature(name: str, function: Callable[..., Any]) -> str:
    """The signature as Python, a parameter a line where it is long; literals are spelt out."""
    signature = inspect.signature(function)
    hints = get_type_hints(function)
    shown, keyword_only = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            shown.append("*")
            keyword_only = True
        default = "" if parameter.default is parameter.empty else f" = {_quote(parameter.default)}"
        annotation = spell_type(hints[parameter.name], str(parameter.annotation))
        shown.append(f"{parameter.name}: {annotation}{default}")
    returned = spell_type(hints["return"], str(signature.return_annotation))
    line = f"{name}({', '.join(shown)}) -> {returned}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {line}," for line in shown), f") -> {returned}"])


def spell_type(hint: object, written: str) -> str:
    """A type as it is written; the values of a literal that has a name instead of the name."""
    if get_origin(hint) is Literal:
        return " | ".join(_quote(value) for value in get_args(hint))
    return written.replace("Int64", "int")


def _quote(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def write_summary(kind: str, entries: list[Entry]) -> str:
    """The table of contents."""
    rows = [[f"[`{entry.name}`](#{entry.name})", entry.summary] for entry in entries]
    return write_table([kind, "what it does"], rows)


def write_entry(entry: Entry, heading: str) -> Iterator[str]:
    """A function's part of the page."""
    yield f"{heading} `{entry.name}`"
    yield f"```python\n{entry.signature}\n```"
    yield entry.text
    if "rewrite" in entry.sections:
        yield draw_rewrite(entry.sections["rewrite"])
    bullets = []
    for section in SECTIONS[1:]:
        if section in entry.sections:
            bullets.append(write_section(section, entry.sections[section]))
    if bullets:
        yield "\n".join(bullets)


def draw_rewrite(picture: str) -> str:
    """Before and after, one above the other."""
    before, _, after = picture.replace("``", "").replace("`", "").partition(" -> ")
    lines = [
        line
        for mark, side in (("  ", before), ("→ ", after))
        for line in textwrap.wrap(
            side, WIDTH, initial_indent=mark, subsequent_indent=" " * 6, break_on_hyphens=False
        )
    ]
    return "\n".join(["```text", *lines, "```"])


def write_section(name: str, text: str) -> str:
    """A bullet; what is required is a list of its own where it is more than one thing."""
    items = split_items(text) if name == "requires" else [text]
    if len(items) == 1:
        return f"- *{name}* {text}"
    return "\n".join([f"- *{name}*", *(f"  - {item}" for item in items)])


def split_items(text: str) -> list[str]:
    """What semicolons separate, but for those in parentheses and in code."""
    items, depth = [""], 0
    for piece in re.findall(r"``.*?``|`.*?`|.", text):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        if piece == ";" and not depth:
            items.append("")
        else:
            items[-1] += piece
    return [item.strip() for item in items]


if __name__ == "__main__":
    update_page(PAGE, make_page)
