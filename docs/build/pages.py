"""Writes the pages of docs that are made of the sources: ``make docs``.

docs/recipes.md has all ladders with their recipes, from the recipes themselves. docs/transforms.md
has all public transforms and queries, from their signatures and docstrings: a transform's docstring
says what it does, and then in sections ``rewrite:``, ``consumes:``, ``returns:``, ``requires:`` and
``guarded:`` what a call means for the handles, and what it and the guard refuse.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import tirstep.transforms
from tirstep.bench.metrics import Table
from tirstep.cli.formatting import first_sentence, spell, spell_config
from tirstep.files import write_file
from tirstep.modules import Kernel, get_kernel
from tirstep.transforms.recipes import LADDERS, Ladder, Recipe

DOCS = Path(__file__).resolve().parents[1]
GENERATED = "<!-- Written by `make docs` from the sources; changes here are lost. -->\n"


def spell_shape(shape: Mapping[str, int]) -> str:
    """``1024×512×2048``."""
    return "×".join(map(str, shape.values()))


def update_page(page: Path, make: Callable[[], str]) -> None:
    """Write a page and say so, where it is not as it is made."""
    text = make()
    if not page.is_file() or page.read_text(encoding="utf-8") != text:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_file(page, text)
        print(f"wrote {page.relative_to(DOCS.parent)}", file=sys.stderr)


TRANSFORMS_PAGE = "transforms.md"
SECTIONS = ("rewrite", "consumes", "returns", "requires", "guarded")
WIDTH = 96

TRANSFORMS_INTRO = """\
# Transforms

A transform takes a schedule, handles, and sizes by keyword, and returns handles. What is listed
under *requires* is checked before the first primitive runs: a call that does not meet it raises a
`TransformError`, one sentence with names, numbers and advice, and leaves the schedule unchanged.
The result is then checked by the *guard* (`tirstep.lowering_checks.legality`), which likewise
refuses what TVM would lower incorrectly: a lost block, a read before write, a missing barrier, a
cross-thread read of registers, a predicate that a reduction over threads loses.

Handles that are *consumed* are dead afterwards. With `tail="refuse"` sizes must divide evenly;
`tail="guard"` predicates the blocks inside instead.

A matmul for a GPU begins with these five, in this order; the [tutorial](tutorial.md) uses four.
"""
FIRST = (
    "tile_block",
    "split_reduction",
    "stage_operand_at",
    "accumulate_in_registers",
    "decompose_reduction_at",
)
TOPICS = {
    "Loops": ("loops",),
    "Threads and tiles": ("binding", "thread_rows", "warp_tiling"),
    "Memory": ("caching", "placement", "inlining"),
    "Reductions": ("reduction",),
    "Vectors and layouts": ("vectorize", "layout", "padding", "windows"),
    "Pipelines": ("pipelining",),
    "Tensor cores": ("tensor_cores",),
    "Hopper: the TMA, wgmma, warp specialization": ("hopper",),
    "Fusion of reductions": ("fusion",),
    "Masks": ("masked_loops",),
    "Exponentials": ("exponentials",),
    "TVM's passes": ("pass_options",),
}
"""Headings, and the modules of `tirstep.transforms` whose transforms stand there."""


@dataclass(frozen=True)
class Entry:
    """A public function: its module in the package, its signature, what it does, and the sections
    of its docstring.
    """

    name: str
    module: str
    signature: str
    text: str
    sections: dict[str, str]

    @property
    def summary(self) -> str:
        return self.text.partition("\n")[0]


def make_transforms_page() -> str:
    """The whole page."""
    public = {name: getattr(tirstep.transforms, name) for name in tirstep.transforms.__all__}
    entries = [read_entry(name, it) for name, it in public.items() if not isinstance(it, type)]
    transforms = [entry for entry in entries if "rewrite" in entry.sections]
    queries = [entry for entry in entries if "rewrite" not in entry.sections]
    switches = (tirstep.transforms.one_change, tirstep.transforms.unguarded)
    types = {name: it for name, it in public.items() if hasattr(it, "_fields")}
    first = [entry for name in FIRST for entry in transforms if entry.name == name]
    topics = [
        (topic, [entry for entry in transforms if entry.module in modules])
        for topic, modules in TOPICS.items()
    ]
    names = [f"[{topic}](#{_slug(topic)})" for topic, _ in topics]
    parts = [
        GENERATED + TRANSFORMS_INTRO,
        write_summary("transform", first),
        f"All transforms by topic: {', '.join(names)}.",
        *(part for topic, own in topics for part in write_topic(topic, own)),
        "## Queries\n\nThese only read the schedule.",
        *(part for entry in queries for part in write_entry(entry, "###")),
        "## The guard\n\nIt runs after each transform; these change that.",
        *(part for it in switches for part in write_entry(read_entry(it.__name__, it), "###")),
        "## What transforms return\n\nSeveral handles come back as a named tuple.",
        Table(
            ["type", "fields", "what it is"],
            [
                [f"`{name}`", f"`{', '.join(it._fields)}`", str(inspect.getdoc(it)).split("\n")[0]]
                for name, it in types.items()
            ],
        ).to_markdown(),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def write_topic(topic: str, entries: list[Entry]) -> Iterator[str]:
    """A heading's part of the page."""
    yield f"## {topic}"
    yield write_summary("transform", entries)
    for entry in entries:
        yield from write_entry(entry, "###")


def _slug(heading: str) -> str:
    """A heading's anchor."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def read_entry(name: str, function: Callable[..., Any]) -> Entry:
    """What the page says of a function."""
    text, sections = split_docstring(inspect.getdoc(function) or "")
    module = inspect.unwrap(function).__module__.split(".")[2]
    return Entry(name, module, write_signature(name, function), text, sections)


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
    return Table([kind, "what it does"], rows).to_markdown()


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
    items = split_items(text) if name in ("requires", "guarded") else [text]
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


RECIPES_PAGE = "recipes.md"

RECIPES_INTRO = """\
# Recipes

A recipe turns a plain kernel into one schedule, in named steps; a ladder is a kernel's recipes in
order, slow to fast. `tirstep list RECIPE` prints a recipe's knobs with their defaults and its
steps, `tirstep ladder LADDER` checks a ladder and times it on a GPU, and `tirstep diff RECIPE`
prints what each step changes. Each title has the shape at which `tirstep bench rungs` times the
ladder; *own example* is the shape at which commands time a recipe if no `--shape` is given.
"""


def make_recipes_page() -> str:
    """The whole page."""
    names = [f"[`{name}`](#{name})" for name in LADDERS]
    parts = [GENERATED + RECIPES_INTRO, f"Ladders: {', '.join(names)}."]
    for name, ladder in LADDERS.items():
        parts += write_ladder(name, ladder)
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def write_ladder(name: str, ladder: Ladder) -> Iterator[str]:
    """A ladder's part of the page."""
    yield f"## `{name}`"
    yield f"{ladder.title[0].upper()}{ladder.title[1:]}, timed at {spell_shape(ladder.shape)}."
    yield describe_kernel(get_kernel(ladder[0].kernel))
    rows = [
        [str(number), f"`{recipe.name}`", describe_change(recipe), describe_shape(recipe)]
        for number, recipe in enumerate(ladder, 1)
    ]
    yield Table(["rung", "recipe", "what it adds", "own example"], rows).to_markdown()
    if (DOCS / "ladders" / f"{name}.md").is_file():
        yield f"[Measured rung by rung, with each rung's diff](ladders/{name}.md)."


def describe_kernel(kernel: Kernel) -> str:
    """What the kernel computes, of which types and options."""
    options = [
        name if default is None else f"{name}={spell(default)}"
        for name, default in kernel.options.items()
        if name != "dtype"
    ]
    text = f"{first_sentence(kernel.__doc__)} Types: {', '.join(kernel.dtypes)}."
    return f"{text} Options: `{'`, `'.join(options)}`." if options else text


def describe_change(recipe: Recipe) -> str:
    """What a recipe adds to the one that it builds on, and why; what it does where it has none."""
    text = first_sentence(recipe.doc)
    return f"`{recipe.base}` with `{spell_config(recipe.delta)}`: {text}" if recipe.base else text


def describe_shape(recipe: Recipe) -> str:
    """The shape of its example, and the kernel's options there."""
    example = recipe.default_example
    options = (f"{name}={spell(value)}" for name, value in example.options.items())
    return ", ".join([spell_shape(example.shape), *options])


PAGES: Mapping[str, Callable[[], str]] = {
    TRANSFORMS_PAGE: make_transforms_page,
    RECIPES_PAGE: make_recipes_page,
}
"""What makes each page of docs."""


if __name__ == "__main__":
    for name, make in PAGES.items():
        update_page(DOCS / name, make)
