"""Facts of a compiled source: registers, spills, occupancy, instructions. Needs no GPU."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tirstep.transforms.gpu_limits import MAX_THREADS

from .architectures import (
    ARCHITECTURES,
    KIB,
    MAX_STATIC_SHARED,
    Architecture,
    Occupancy,
    find_architecture,
    find_occupancy,
)
from .compiler import Compiled, CompileError, Compiler, CompilerMissing, find_compiler
from .machine_code import count_instructions
from .model import Fact, Facts, KernelFacts, Number

_FUNCTION = re.compile(r"Function properties for (\S+)")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)[^)]*\)\s+(\w+)\(")


@dataclass(frozen=True)
class CompiledKernel:
    """What the compiler made of one kernel; sizes in bytes, of one thread but for shared memory.

    Attributes
    ----------
    instructions : how many stand in the machine code, as ``{"LDG.128": 4}``; None without nvdisasm
    occupancy : None where the threads of a GPU block are not known
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
            one = self.occupancy
            yield Fact("compiled", "occupancy", "occupancy", one.fraction, "of the warps")
            yield Fact("compiled", "", "occupancy is limited by", one.limit)
            yield Fact("compiled", "resident_blocks", "blocks on an SM", one.blocks)
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
        return tuple(
            row._replace(group=f"{row.group} {kernel.name}") if len(self.kernels) > 1 else row
            for kernel in self.kernels
            for row in kernel.rows()
        )

    def values(self) -> dict[str, Number]:
        """The numbers by key, for expectations: the worst of the kernels, instructions in sum."""
        found: dict[str, Number] = {"spills": 0}
        for kernel in self.kernels:
            found["spills"] += kernel.spill_stores + kernel.spill_loads
            for row in kernel.rows():
                if isinstance(row.value, int | float):
                    found[row.key] = _merge(row.key, found.get(row.key), row.value)
        return found


def compile_facts(
    source: str,
    architecture: str,
    kernels: Sequence[KernelFacts] = (),
    *,
    compiler: Compiler | None = None,
) -> CompiledFacts:
    """The facts of CUDA source, compiled for one architecture, as ``"sm_80"``.

    `kernels` are its kernels as TVM launches them: their dynamic shared memory and their threads
    are not in the source. Without `compiler`, it is the one that TVM would take. A source that the
    architecture cannot run has no kernels and a `refusal`. Raises `CheckError` for an unknown
    architecture, and where there is no compiler or it does not work.
    """
    limits, compiler = find_architecture(architecture), compiler or find_compiler()
    refusal = find_refusal(limits, kernels)
    if refusal is None:
        try:
            compiled = _compile(compiler, source, architecture)
            return CompiledFacts(
                architecture,
                compiler.name,
                tuple(_read_kernels(compiled, limits, source, kernels)),
                log=compiled.log,
            )
        except CompileError as error:
            refusal = _explain(compiler, architecture, error)
    return CompiledFacts(architecture, compiler.name, (), refusal)


def _explain(compiler: Compiler, architecture: str, error: CompileError) -> str:
    """Whether a source is at fault, or a compiler that refuses an empty kernel, too.

    Raises `CompilerMissing` for a compiler that works for no architecture: nvcc without a C++
    compiler.
    """
    complaint = _find_complaint(compiler, architecture)
    if complaint is None:
        return f"{architecture} cannot run it: {error}"
    if all(_find_complaint(compiler, one) is not None for one in ARCHITECTURES):
        raise CompilerMissing(f"{compiler.name} does not work here: {complaint}; {compiler.advice}")
    return f"{compiler.name} does not compile for {architecture}: {complaint}"


@functools.lru_cache(maxsize=64)
def _find_complaint(compiler: Compiler, architecture: str) -> str | None:
    """What a compiler says against a kernel that does nothing; None if it compiles it."""
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
    for one in architectures:
        find_architecture(one)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return tuple(
            pool.map(lambda one: compile_facts(facts.source, one, facts.kernels), architectures)
        )


def find_refusal(limits: Architecture, kernels: Sequence[KernelFacts]) -> str | None:
    """Why an architecture cannot run kernels, as far as their lowering shows; None if it can.

    The compiler cannot tell: it knows nothing of dynamic shared memory, and for sm_90 it accepts
    static shared memory that no launch gets.
    """
    for kernel in kernels:
        static, shared = kernel.static_shared_bytes or 0, kernel.shared_bytes or 0
        threads = kernel.threads or 1
        reasons = {
            f"a GPU block has {threads} threads, and may have {MAX_THREADS}": threads > MAX_THREADS,
            f"static shared memory is {_kib(static)}, and may be {_kib(MAX_STATIC_SHARED)}": (
                static > MAX_STATIC_SHARED
            ),
            f"shared memory is {_kib(shared)}, and may be {_kib(limits.shared_per_block)}": (
                shared > limits.shared_per_block
            ),
            "cp.async needs sm_80 or later": bool(kernel.copies) and limits.capability < 80,
            "wgmma runs on sm_90a alone": bool(kernel.wgmma) and limits.name != "sm_90a",
        }
        for reason, holds in reasons.items():
            if holds:
                return f"{limits.name} cannot run {kernel.name}: {reason}"
    return None


@functools.lru_cache(maxsize=256)
def _compile(compiler: Compiler, source: str, architecture: str) -> Compiled:
    return compiler.compile(source, architecture)


def _read_kernels(
    compiled: Compiled, limits: Architecture, source: str, kernels: Sequence[KernelFacts]
) -> Iterator[CompiledKernel]:
    instructions = count_instructions(compiled.cubin)
    launched = {kernel.name: kernel for kernel in kernels}
    bounds = {name: int(threads) for threads, name in _BOUNDS.findall(source)}
    for name, used in read_resources(compiled.log).items():
        kernel = launched.get(name)
        threads = (kernel.threads if kernel else None) or bounds.get(name)
        dynamic = (kernel.dynamic_shared_bytes if kernel else 0) or 0
        occupancy = None
        if threads is not None:
            occupancy = find_occupancy(
                limits,
                threads=threads,
                registers=used["registers"],
                shared_bytes=used["shared"] + dynamic,
            )
        yield CompiledKernel(
            name=name,
            registers=used["registers"],
            spill_stores=used["spill_stores"],
            spill_loads=used["spill_loads"],
            stack_bytes=used["stack"],
            static_shared_bytes=used["shared"],
            occupancy=occupancy,
            instructions=None if instructions is None else dict(instructions.get(name, {})),
        )


def read_resources(log: str) -> dict[str, dict[str, int]]:
    """What ptxas says in a log of each kernel: registers, stack, spills and shared memory."""
    found: dict[str, dict[str, int]] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match[1]
            found[entry] = {}
        elif match := _FUNCTION.search(line):
            function = match[1]
        elif (match := _STACK.search(line)) and function == entry:
            names = ("stack", "spill_stores", "spill_loads")
            found[entry].update(zip(names, map(int, match.groups()), strict=True))
        elif entry and (match := _USED.search(line)):
            shared = _SHARED.search(line)
            found[entry].update(registers=int(match[1]), shared=int(shared[1]) if shared else 0)
    return found


def _merge(key: str, other: Number | None, value: Number) -> Number:
    if other is None:
        return value
    if key.isupper() or "." in key:
        return other + value
    return min(other, value) if key in ("occupancy", "resident_blocks") else max(other, value)


def _kib(size: int) -> str:
    return f"{size / KIB:g} KiB"
