"""What a C++ compiler complains of, as one sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ELSE = 'choose the device "simulator" or "cuda"'
_UNKNOWN_NAMES = (
    r"error: '(?:tirstep::)?([\w:]+)' (?:was not declared|has not been declared)",
    r"error: '(\w+)' does not name a type",
    r"error: use of undeclared identifier '(\w+)'",
    r"error: unknown type name '(\w+)'",
    r"error: no (?:type|member) named '(\w+)' in",
    r"error: no matching function for call to '(\w+)",
)
_ASSEMBLY = re.compile(r"\b_*asm_*\s*(?:_*volatile_*\s*)?\((.*?)\)\s*;", re.DOTALL)
_INSTRUCTION = re.compile(r"\b([a-z]\w*\.[a-z]\w*)(?:\.\w+)*")  # two words name it
# A predicate is no news beside what it guards; TVM's preamble has dp4a where a GPU compiles it.
_PASSED_OVER = ("setp", "dp4a")
_HEADER = re.compile(
    r"fatal error: '?([\w./]+)'?(?::| file) .*(?:No such file|not found)"  # GCC's, and Clang's
)


def find_instructions(source: str) -> list[str]:
    """What a generated source has of a GPU's own instructions, in assembly: ``cp.async``, say."""
    found = [one for text in _ASSEMBLY.findall(source) for one in _INSTRUCTION.findall(text)]
    return [one for one in dict.fromkeys(found) if not one.startswith(_PASSED_OVER)]


def explain_instructions(instructions: Sequence[str]) -> str:
    """Why a source with such instructions is not compiled at all."""
    named = ", ".join(f"'{one}'" for one in instructions)
    return _say_unknown(f"the GPU's own {named}")


def explain_complaints(complaints: str) -> str:
    """The first thing that a compiler has against a generated source.

    Mostly that is a function of CUDA which our headers do not have.
    """
    if header := _HEADER.search(complaints):
        return (
            f'the generated source includes <{header[1]}>, which the device "host" lacks; {_ELSE}'
        )
    first = next((line for line in complaints.splitlines() if "rror:" in line), complaints.strip())
    for pattern in _UNKNOWN_NAMES:
        if unknown := re.search(pattern, first):
            return _say_unknown(f"'{unknown[1]}'")
    return f"the C++ compiler refuses the generated source: {first.strip()}"


def _say_unknown(what: str) -> str:
    return f'the generated source uses {what}, which the device "host" does not know; {_ELSE}'
