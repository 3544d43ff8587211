"""Writes what coding agents read, of the pages that people read: llms.txt, and the skill in
skills/tirstep: ``make docs``.
"""

from __future__ import annotations

import re
from pathlib import Path

from pages import update_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LLMS, SKILL = "llms.txt", "skills/tirstep/SKILL.md"

_HEAD = """\
---
name: tirstep
description: Check, diff, lower and explain TensorIR programs of Apache TVM (schedules, kernels by
  hand and in TIRx form, passes) with the command tirstep, whenever TVMScript is written or changed.
---

# tirstep

After each change of a TVMScript file run `tirstep check FILE.py --json` and read `status`, `reason`
and `findings` of each of `recipes`; `tirstep list --schema` prints the JSON schema. No GPU is
needed. A transform that raises `TransformError` has changed nothing; its advice follows the
semicolon.

"""
_NEXT = """\

## What to do on each verdict

- right: continue; `tirstep diff OLD.py --against NEW.py --numbers --json` compares it with the
  previous version.
- clean: no fault was found, but its numbers were not compared with anything: give `--reference
  FILE:NAME`, a program that computes the same.
- wrong: fix the line that the finding ends with; `tirstep why FILE.py` names the first step or
  lowering pass after which it is wrong, and writes a script that shows it.
- not judged: do what `reason` says; never treat it as right.
- exit code 2: the sentence on standard error says what is wrong with the command line or the file.
"""


def read_table(page: str, head: str) -> str:
    """The table of a page of docs whose first row begins so; links keep only their texts."""
    text = (DOCS / page).read_text(encoding="utf-8")
    table = re.search(rf"^\| {head} \|.*\n(\|.*\n)+", text, re.M)
    assert table is not None, f"{page} has no table of '{head}'"
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", table[0])


def make_skill() -> str:
    """What an agent needs to use the commands: verdicts with their codes, and what each does."""
    verdicts, commands = (read_table("commands.md", it) for it in ("verdict", "command"))
    return f"{_HEAD}## Verdicts\n\n{verdicts}{_NEXT}\n## Commands\n\n{commands}"


def make_llms() -> str:
    """The pages with a sentence each, as https://llmstxt.org has it: the index without ladders."""
    index = (DOCS / "index.md").read_text(encoding="utf-8").partition("## Ladders")[0]
    index = re.sub(r"\]\((?!\.\./)", "](docs/", index).replace("](../", "](")
    title, _, rest = index.partition("\n\n")
    summary, lists = rest.partition("\n\n")[0], rest.partition("\n## ")[2]
    summary = " ".join(re.sub(r"\[(.+?)\]\(.+?\)", r"\1", summary).split())
    return f"{title}\n\n> {summary}\n\n## {lists.rstrip()}\n\n## For agents\n\n- [Skill]({SKILL})\n"


FILES = {LLMS: make_llms, SKILL: make_skill}
"""What makes each file."""


if __name__ == "__main__":
    for name, make in FILES.items():
        update_page(ROOT / name, make)
