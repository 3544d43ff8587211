"""What nvcc says of the sources of recipes, as it was recorded: a source that is the same text, for
the same compiler with the same options, is not compiled again.

A compiler says the same of a text each time, and of the machine code there is nothing here but
what ptxas's log has of it. What is not recorded is compiled as ever: a recipe that was changed,
another version of nvcc. ``make compiled`` records all of which a recipe expects something; tests
compile the shortest of each part of it again, and hold it against that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tirstep.lowering_checks.facts.compiled import read_resources
from tirstep.lowering_checks.facts.cuda_compilers import CudaCompiler, find_tool

FILE = Path(__file__).with_name("compiled_record.json")
_RESOURCES = re.compile(r"(?m)^(?:ptxas info +: (?!Compile time)|    \d+ bytes stack frame).*\n")
Sources = Iterable[tuple[str, str]]
"""Of each the text and the architecture."""


def find_recorded(
    compiler: CudaCompiler, sources: Sources, file: Path = FILE
) -> dict[tuple[str, str], str]:
    """ptxas's logs of those sources that are recorded; none where machine code is to be read."""
    if find_tool("nvdisasm") is not None or not file.is_file():
        return {}
    logs: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    keys = {source: compute_key(compiler, *source) for source in sources}
    return {source: logs[key] for source, key in keys.items() if key in logs}


def require_true(compiler: CudaCompiler, recorded: Mapping[tuple[str, str], str]) -> None:
    """Compile the shortest of recorded sources again; raises `AssertionError` if it is not so."""
    if not recorded:
        return
    source = min(recorded, key=lambda each: len(each[0]))
    made = read_resources(compiler.compile(*source).log)
    assert made == read_resources(recorded[source]), (
        f"{compiler.name} says {made}, and {FILE.name} has something else; run `make compiled`"
    )


def compute_key(compiler: CudaCompiler, source: str, architecture: str) -> str:
    """A digest of the compiler's version and options, but for where it is, and of the source."""
    _, *options = compiler.command(architecture, Path("kernels.cubin"))
    text = "\0".join([compiler.name, *options, source])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def write(compiler: CudaCompiler, logs: dict[tuple[str, str], str], file: Path = FILE) -> None:
    """Record logs, and nothing else."""
    recorded = {
        compute_key(compiler, *source): "".join(_RESOURCES.findall(log))
        for source, log in logs.items()
    }
    text = json.dumps(dict(sorted(recorded.items())), indent=0)
    file.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Record all sources of which a recipe expects something; those that are new are compiled."""
    from compiled_together import compile_all

    compiler, logs = compile_all()
    write(compiler, logs)


if __name__ == "__main__":
    main()
