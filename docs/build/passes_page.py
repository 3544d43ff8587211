"""Writes the outputs of docs/passes.md: what `tirstep pass` prints of the two examples.

``python docs/build/passes_page.py`` writes them; a test holds the page to them.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path

from tirstep.cli import main
from tirstep.files import write_file

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/passes.md"
FILE = "examples/passes/vectorize_maps.py"
WINS = f"{FILE}:vectorize_maps examples/passes/kernels.py:axpy depthwise_conv2d_tiled"
COMMANDS = {
    "wins": f"pass {WINS} --device cpu",
    "caught": f"pass {FILE}:vectorize_any_map --corpus 60 --seed 0",
}


def make_page() -> str:
    """The page with the outputs in their places."""
    text = PAGE.read_text("utf-8")
    for name, words in COMMANDS.items():
        block = f"```console\n$ tirstep {words}\n{run(words)}```\n"
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        head, rest = text.split(begin)
        text = f"{head}{begin}{block}{end}{rest.split(end, 1)[1]}"
    return text


def run(words: str) -> str:
    """What a command prints, without what unchanged modules have in the table."""
    out = io.StringIO()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "examples", Path(folder) / "examples")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out):
                main(words.split())
        finally:
            os.chdir(before)
    lines = [line for line in out.getvalue().splitlines() if not line.endswith("  unchanged")]
    return "".join(f"{line.rstrip()}\n" for line in lines)


if __name__ == "__main__":
    write_file(PAGE, make_page())
