"""Facts of a compiled source: registers, spills, occupancy, instructions. Needs no GPU.

Registers and spills are read off ptxas's log, instructions off what nvdisasm prints.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tirstep.processes import count_cores

from .architectures import (
    ARCHITECTURES,
    Occupancy,
    compute_occupancy,
    find_refusal,
    get_architecture,
)
from .cuda_compilers import (
    Compiled,
    CompileError,
    CompilerMissing,
    CudaCompiler,
    find_tool,
    get_compiler,
)
from .model import Fact, Facts, KernelFacts, Number, list_rows, merge_rows

_FUNCTION = re.compile(r"Function properties for (\S+)")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)[^)]*\)\s+(\w+)\(")
MISSING_NVDISASM = (
    "there is no nvdisasm here to read the machine code with; pip install 'tirstep[cuda]'"
)
COUNTED = (
    "FFMA",
    "FFMA2",
    "DFMA",
    "IMMA",
    "HMMA",
    "HGMMA",
    "LDSM",
    "STSM",
    "LDGSTS",
    "UTMALDG",
    "UTMASTG",
    "BAR",
)
BY_WIDTH = ("LDG", "STG", "LDS", "STS", "LDL", "STL")
"""Loads and stores, counted by bits: ``LDG.128``. LDL and STL are of a thread's own memory."""
_KERNEL = re.compile(r"^\.text\.([^:\s]+):")
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_.]*)")
_WIDTH = re.compile(r"\.[US]?(8|16|64|128)(?=\.|$)")


@dataclass(frozen=True)
class CompiledKernel:
    """What the compiler made of one kernel; sizes in bytes, of one thread but for shared memory.

    Attributes
    ----------
    instructions : how many stand in the machine code, as ``{"LDG.128": 4}``; None without nvdisasm
    occupancy : None where the threads of a thread block are not known
    """

    name: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    static_shared_bytes: int
    occupancy: Occupancy | None
    instructions: Mapping[str, int] | None

    def rows(self) -> Iterator[Fact]:
        """The facts as rows."""
        sizes = {
            "registers": ("registers of a thread", self.registers, ""),
            "spill_stores": ("spill stores", self.spill_stores, "bytes"),
            "spill_loads": ("spill loads", self.spill_loads, "bytes"),
            "stack_bytes": ("stack frame", self.stack_bytes, "bytes"),
            "compiled_shared_bytes": ("static shared memory", self.static_shared_bytes, "bytes"),
        }
        for key, (name, value, unit) in sizes.items():
            yield Fact("compiled", key, name, value, unit)
        if self.occupancy is not None:
            fraction, limit = self.occupancy.fraction, self.occupancy.limit
            yield Fact("compiled", "occupancy", "occupancy", fraction, "of the warps")
            yield Fact("compiled", "", "occupancy is limited by", limit)
            yield Fact("compiled", "resident_blocks", "blocks on an SM", self.occupancy.blocks)
        for name, count in sorted((self.instructions or {}).items()):
            yield Fact("compiled", name, name, count)


@dataclass(frozen=True)
class CompiledFacts:
    """A source compiled for one architecture.

    Attributes
    ----------
    compiler : its name and version
    kernels : empty where it cannot run
    refusal : why it cannot run there, in a sentence; None where it can
    """

    architecture: str
    compiler: str
    kernels: tuple[CompiledKernel, ...]
    refusal: str | None = None
    log: str = field(default="", repr=False)

    def rows(self) -> tuple[Fact, ...]:
        """The facts as rows; with several kernels, the group has the kernel's name behind it."""
        return tuple(list_rows(self.kernels))

    def values(self) -> dict[str, Number | None]:
        """The numbers by key, for expectations: the worst of the kernels, instructions in sum."""
        spills = sum(kernel.spill_stores + kernel.spill_loads for kernel in self.kernels)
        rows = (row for kernel in self.kernels for row in kernel.rows())
        return {"spills": spills, **merge_rows(rows)}


def compile_facts(
    source: str,
    architecture: str,
    kernels: Sequence[KernelFacts] = (),
    *,
    compiler: CudaCompiler | None = None,
) -> CompiledFacts:
    """The facts of CUDA source, compiled for one architecture, as ``"sm_80"``.

    `kernels` are its kernels as TVM launches them: their dynamic shared memory and their threads
    are not in the source. Without `compiler`, it is the one that TVM would take. A source that the
    architecture cannot run has no kernels and a `refusal`. Raises `CheckError` for an unknown
    architecture, and where there is no compiler or it does not work.
    """
    limits, compiler = get_architecture(architecture), compiler or get_compiler()
    refusal = find_refusal(limits, kernels)
    if refusal is None:
        try:
            compiled = _compile(compiler, source, architecture)
            instructions = count_instructions(compiled.cubin)
            launched = {kernel.name: kernel for kernel in kernels}
            bounds = {name: int(threads) for threads, name in _BOUNDS.findall(source)}
            found = []
            for name, used in read_resources(compiled.log).items():
                kernel, occupancy = launched.get(name), None
                threads = (kernel.threads if kernel else None) or bounds.get(name)
                if threads is not None:
                    dynamic = (kernel.dynamic_shared_bytes if kernel else 0) or 0
                    shared, registers = used["static_shared_bytes"] + dynamic, used["registers"]
                    occupancy = compute_occupancy(
                        limits, threads=threads, registers=registers, shared_bytes=shared
                    )
                counts = None if instructions is None else dict(instructions.get(name, {}))
                found.append(
                    CompiledKernel(name=name, **used, occupancy=occupancy, instructions=counts)
                )
            return CompiledFacts(architecture, compiler.name, tuple(found), log=compiled.log)
        except CompileError as error:
            # The source is wrong, or the compiler refuses an empty kernel, too; one that works for
            # no architecture is nvcc without a C++ compiler.
            empty_error = _find_error_of_nothing(compiler, architecture)
            refusal = f"{compiler.name} does not compile for {architecture}: {empty_error}"
            if empty_error is None:
                refusal = f"{architecture} cannot run it: {error}"
            elif all(_find_error_of_nothing(compiler, name) is not None for name in ARCHITECTURES):
                raise CompilerMissing(
                    f"{compiler.name} does not work here: {empty_error}; {compiler.advice}"
                ) from error
    return CompiledFacts(architecture, compiler.name, (), refusal)


def find_source_error(source: str, architecture: str) -> str | None:
    """The first error of CUDA's compiler in a source; None where it compiles it.

    Raises `CompilerMissing` where none is here that compiles for the architecture.
    """
    compiler = get_compiler()
    try:
        _compile(compiler, source, architecture)
    except CompileError as error:
        if unsupported := _find_error_of_nothing(compiler, architecture):
            raise CompilerMissing(f"{compiler.name}: {unsupported}") from error
        return str(error)
    return None


@functools.lru_cache(maxsize=64)
def _find_error_of_nothing(compiler: CudaCompiler, architecture: str) -> str | None:
    """The error of a compiler for a kernel that does nothing; None if it compiles it."""
    try:
        compiler.compile('extern "C" __global__ void nothing() {}', architecture)
    except CompileError as error:
        return str(error).rstrip(".")
    return None


def compile_everywhere(
    facts: Facts, architectures: Sequence[str] = tuple(ARCHITECTURES)
) -> tuple[CompiledFacts, ...]:
    """The facts of a module for several architectures, compiled at the same time.

    Raises `CheckError` as `compile_facts` does.
    """
    for name in architectures:
        get_architecture(name)
    with ThreadPoolExecutor(count_cores()) as pool:
        return tuple(
            pool.map(lambda name: compile_facts(facts.source, name, facts.kernels), architectures)
        )


@functools.lru_cache(maxsize=256)
def _compile(compiler: CudaCompiler, source: str, architecture: str) -> Compiled:
    return compiler.compile(source, architecture)


def read_resources(log: str) -> dict[str, dict[str, int]]:
    """Each kernel's registers, stack, spills and shared memory, off ptxas's log."""
    found: dict[str, dict[str, int]] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match[1]
            found[entry] = {}
        elif match := _FUNCTION.search(line):
            function = match[1]
        elif (match := _STACK.search(line)) and function == entry:
            names = ("stack_bytes", "spill_stores", "spill_loads")
            found[entry].update(zip(names, map(int, match.groups()), strict=True))
        elif entry and (match := _USED.search(line)):
            shared = int(given[1]) if (given := _SHARED.search(line)) else 0
            found[entry].update(registers=int(match[1]), static_shared_bytes=shared)
    return found


@functools.lru_cache(maxsize=256)
def count_instructions(cubin: bytes) -> Mapping[str, Counter[str]] | None:
    """How many of each instruction that matters, by kernel; None where there is no nvdisasm."""
    program = find_tool("nvdisasm")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cubin"
        file.write_bytes(cubin)
        done = subprocess.run(
            [program, "--print-code", str(file)], capture_output=True, text=True, errors="replace"
        )
    return None if done.returncode else read_instructions(done.stdout)


def read_instructions(text: str) -> dict[str, Counter[str]]:
    """The same, of the text that nvdisasm prints."""
    counts: dict[str, Counter[str]] = {}
    kernel = ""
    for line in text.splitlines():
        if start := _KERNEL.match(line):
            kernel = start[1]
            counts[kernel] = Counter()
        elif kernel and (found := _INSTRUCTION.match(line)):
            name, _, modifiers = found[1].partition(".")
            width = _WIDTH.search(f".{modifiers}")
            if name in BY_WIDTH:
                counts[kernel][f"{name}.{width[1] if width else 32}"] += 1
            elif name in COUNTED:
                is_multicast = "MULTICAST" in modifiers.split(".")
                counts[kernel].update([name, f"{name}.MULTICAST"] if is_multicast else [name])
    return counts
