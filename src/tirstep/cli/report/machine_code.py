"""SASS of a CUDA source, with the source line of each instruction.

NVRTC or nvcc notes the lines (``-lineinfo``, which changes no instruction), and nvdisasm prints
them. Where one of them is missing, what comes back says so.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from pathlib import Path

from tirstep.lowering_checks import CheckError
from tirstep.lowering_checks.facts import get_compiler
from tirstep.lowering_checks.facts.cuda_compilers import SECONDS, CudaCompiler, find_tool

from .model import MachineCodePart, Text

NAME = "tirstep-kernels"
"""What the source calls itself, which tells its lines from those of headers."""
_KERNEL = re.compile(r'^extern "C" __global__ ')
_PLACE = re.compile(rf'"[^"]*{NAME}", line (\d+)')
_SECTION = re.compile(r"^\s*\.section\s+(\S+?),")
_LABEL = re.compile(r"^(?:\.text\.)?([.\w$]+):\s*$")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?\s*$")
NO_NVDISASM = (
    "there is no nvdisasm here, which prints machine code: pip install 'tirstep[cuda]', or install "
    "NVIDIA's CUDA toolkit"
)
NOT_CUDA = "only CUDA source becomes SASS"


def get_machine_code(source: str, language: str, architecture: str) -> MachineCodePart:
    """The SASS of a device source for ``"sm_90a"``, say; or why there is none."""
    if not source:
        return MachineCodePart(missing="there is no device code")
    if language != "cuda":
        return MachineCodePart(missing=NOT_CUDA)
    try:
        return _disassemble(source, architecture)
    except CheckError as error:
        return MachineCodePart(missing=str(error))
    except subprocess.TimeoutExpired:
        return MachineCodePart(missing=f"the compiler took more than {SECONDS} seconds")


@functools.lru_cache(maxsize=256)
def _disassemble(source: str, architecture: str) -> MachineCodePart:
    program, compiler = find_tool("nvdisasm"), get_compiler()
    if program is None:
        return MachineCodePart(missing=NO_NVDISASM)
    noting = CudaCompiler(compiler.name, lambda *given: [*compiler.command(*given), "-lineinfo"])
    compiled = noting.compile(number_lines(source), architecture)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(compiled.cubin)
        done = subprocess.run(
            [program, "--print-code", "--print-line-info-inline", str(file)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    if done.returncode:
        return MachineCodePart(missing=f"nvdisasm refuses the machine code: {done.stderr.strip()}")
    lines, places = read_sass(done.stdout)
    made_by = f"{architecture}, {compiler.name}"
    return MachineCodePart(text=Text(tuple(lines)), source_lines=tuple(places), made_by=made_by)


def number_lines(source: str) -> str:
    """The source with a directive in front of each kernel, after which its lines are the source's
    own: compilers are given other lines in front of it.
    """
    numbered: list[str] = []
    for line, text in enumerate(source.splitlines(), 1):
        if _KERNEL.match(text):
            numbered.append(f'#line {line} "{NAME}"')
        numbered.append(text)
    return "\n".join(numbered) + "\n"


def read_sass(text: str) -> tuple[list[str], list[int]]:
    """The labels and instructions that nvdisasm prints, and the source line of each, or 0.

    Lines without a place of their own have that of the instruction before. Of what was inlined, the
    line of the kernel counts.
    """
    lines: list[str] = []
    places: list[int] = []
    is_code, place = False, 0
    for each in text.splitlines():
        if (section := _SECTION.match(each)) is not None:
            is_code, place = section[1].startswith(".text"), 0
        elif not is_code:
            continue
        elif each.lstrip().startswith("//## File"):
            # The last of our own files that the comment names: the outermost call's.
            found = _PLACE.findall(each)
            place = int(found[-1]) if found else 0
        elif (label := _LABEL.match(each)) is not None:
            if not (lines and lines[-1] == f"{label[1]}:"):
                lines.append(f"{label[1]}:")
                places.append(0)
        elif (instruction := _INSTRUCTION.match(each)) is not None:
            lines.append(f"    {instruction[1]}")
            places.append(place)
    return lines, places
