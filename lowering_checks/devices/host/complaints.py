"""What a C++ compiler complains of, as one sentence."""

from __future__ import annotations

import re

_ELSE = 'choose the device "simulator" or "cuda"'
_UNKNOWN_NAMES = (
    r"error: '(?:tirstep::)?([\w:]+)' (?:was not declared|has not been declared)",
    r"error: '(\w+)' does not name a type",
    r"error: use of undeclared identifier '(\w+)'",
    r"error: unknown type name '(\w+)'",
    r"error: no (?:type|member) named '(\w+)' in",
    r"error: no matching function for call to '(\w+)",
)
_ASSEMBLY = r"instruction|pseudo-op|constraint|asm|mnemonic|directive"
_INSTRUCTION = re.compile(r"\b(?:__)?asm(?:__)?\b.*?\b([a-z]\w*(?:\.\w+)+)", re.DOTALL)
_HEADER = re.compile(
    r"fatal error: '?([\w./]+)'?(?::| file) .*(?:No such file|not found)"  # GCC's, and Clang's
)


def explain_complaints(complaints: str, source: str) -> str:
    """The first thing that a compiler has against a generated source.

    Mostly that is a function of CUDA which our headers do not have, or an instruction of a GPU.
    """
    if header := _HEADER.search(complaints):
        return (
            f'the generated source includes <{header[1]}>, which the device "host" lacks; {_ELSE}'
        )
    first = next((line for line in complaints.splitlines() if "rror:" in line), complaints.strip())
    for pattern in _UNKNOWN_NAMES:
        if unknown := re.search(pattern, first):
            return _say_unknown(f"'{unknown[1]}'")
    instruction = _INSTRUCTION.search(source[source.find("__global__") :])
    if instruction and re.search(_ASSEMBLY, first):
        return _say_unknown(f"the GPU's instruction '{instruction[1]}'")
    return f"the C++ compiler refuses the generated source: {first.strip()}"


def _say_unknown(what: str) -> str:
    return f'the generated source uses {what}, which the device "host" does not know; {_ELSE}'
