"""A compiler of CUDA that is given many sources at once, and reads CUDA's headers once for them;
one that keeps what it made for the next run of the tests, as the device "host" keeps its programs;
and the parts of the recipes whose default examples are compiled so, each in one test process.

Of the half second that nvcc takes for a small kernel, nearly all goes into its headers. Each kernel
is optimized by itself, so that ptxas says of it what it says of it alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from compiled_record import find_recorded, require_true
from golden_runs import run_default_example

from tirstep.caches import find_cache, forget_oldest, keep, take
from tirstep.lowering_checks import expectations
from tirstep.lowering_checks.facts import Facts, get_facts
from tirstep.lowering_checks.facts.cuda_compilers import (
    Compiled,
    CompileError,
    CudaCompiler,
    find_tool,
    get_compiler,
)
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.expected_facts import Expect

_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(")
_ENTRY = re.compile(r"(?m)^(?=.*Compiling entry function ')")
_FIRST = 'extern "C" __global__'
_FUNCTION = re.compile(r"(?m)^(?=__forceinline__ __device__ )")
_KEPT = 300
"""Compiled sources that are kept, of some 100 KB each."""


@dataclass(frozen=True)
class KeepingCompiler(CudaCompiler):
    """A compiler that keeps what it made, by the source, its options and its version."""

    def compile(self, source: str, architecture: str) -> Compiled:
        file = find_cache("tests") / self.compute_key(source, architecture)
        if (content := take(file)) is not None:
            log, _, cubin = content.partition(b"\n")
            os.utime(file)
            return Compiled(cubin, json.loads(log))
        made = super().compile(source, architecture)
        with contextlib.suppress(OSError):
            keep(json.dumps(made.log).encode() + b"\n" + made.cubin, file)
            forget_oldest(file.parent, _KEPT)
        return made

    def compute_key(self, source: str, architecture: str) -> str:
        """A digest of all that decides what is made; a program that was changed is another one."""
        words = self.command(architecture, Path("kernels.cubin"))
        program = os.stat(shutil.which(words[0]) or words[0])
        parts = [self.name, str(program.st_mtime_ns), str(program.st_size), *words, source]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class CompilerOfMany(CudaCompiler):
    """A compiler that has compiled sources before it is asked for them.

    Attributes
    ----------
    other : what compiles the others
    known : what was made of a source for an architecture, without the machine code
    """

    other: CudaCompiler = field(kw_only=True)
    known: dict[tuple[str, str], Compiled] = field(
        default_factory=dict, compare=False, kw_only=True
    )

    def compile(self, source: str, architecture: str) -> Compiled:
        return self.known.get((source, architecture)) or self.other.compile(source, architecture)


def compile_together(
    compiler: CudaCompiler,
    sources: Iterable[tuple[str, str]],
    recorded: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> CompilerOfMany:
    """A compiler that knows sources, each with its architecture, after few calls of another one.

    Those of one beginning, which is headers and types of TVM's, are compiled together, with the
    functions of TVM's for instructions that any of them has; what is refused in company is left to
    be compiled alone, and so is all where the machine code is read. Of `recorded` ones the logs are
    known already.
    """
    known = CompilerOfMany(compiler.name, compiler.command, compiler.advice, other=compiler)
    known.known.update((source, Compiled(b"", log)) for source, log in recorded.items())
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for source, architecture in dict.fromkeys(sources):
        if (source, architecture) in recorded:
            continue
        together[_split(source)[0].rstrip(), architecture].append(source)
    for (_, architecture), alike in together.items():
        if len(alike) > 1 and find_tool("nvdisasm") is None:
            logs = _compile_alike(compiler, alike, architecture)
            known.known.update(
                ((source, architecture), Compiled(b"", log)) for source, log in logs.items()
            )
    return known


def _split(source: str) -> tuple[str, list[str], str]:
    """Headers and types, TVM's functions for instructions, and the kernels of a source."""
    before, first, kernels = source.partition(_FIRST)
    beginning, *functions = _FUNCTION.split(before)
    return beginning, functions, first + kernels


def _compile_alike(compiler: CudaCompiler, sources: list[str], architecture: str) -> dict[str, str]:
    """ptxas's log of each source of one beginning."""
    kernels: list[str] = []
    functions: dict[str, None] = {}
    owners: dict[str, tuple[str, str]] = {}
    for index, source in enumerate(sources):
        beginning, own, text = _split(source)
        functions |= dict.fromkeys(function.rstrip() for function in own)
        for name in dict.fromkeys(_KERNEL.findall(text)):
            owners[f"{name}_of_{index}"] = source, name
            text = re.sub(rf"\b{name}\b", f"{name}_of_{index}", text)
        kernels.append(text)
    try:
        log = compiler.compile("\n".join([beginning, *functions, *kernels]), architecture).log
    except CompileError:
        return {}
    parts: dict[str, str] = defaultdict(str)
    for part in _ENTRY.split(log)[1:]:
        alias = part.split("'")[1]
        source, name = owners[alias]
        parts[source] += re.sub(rf"\b{alias}\b", name, part)
    return dict(parts)


def find_compiled(name: str) -> list[tuple[str, str]]:
    """The steps of a recipe of whose machine code something is expected, with the architectures."""
    return [
        (step, expectation.architecture or expectations.ARCHITECTURE)
        for step, expected in RECIPES[name].expects.items()
        for expectation in expected
        if isinstance(expectation, Expect) and expectations._is_compiled(expectation.fact)
    ]


COMPILED = [name for name in RECIPES if find_compiled(name)]
_PART = 13
"""Recipes whose sources are compiled together: fewer than the runs that are kept."""


def find_group(name: str) -> str:
    """What one process has all tests of: a recipe, or a part of those that are compiled."""
    return f"compiled {_find_part(name)}" if name in COMPILED else name


def compile_part_of(name: str) -> CompilerOfMany:
    """The compiler that knows the sources of the part of a recipe of `COMPILED`."""
    return _compile_part(_find_part(name))


def _find_part(name: str) -> int:
    return COMPILED.index(name) // _PART


@functools.lru_cache(maxsize=1)
def _compile_part(part: int) -> CompilerOfMany:
    found, sources = _find_keeping(), find_sources(COMPILED[part * _PART : (part + 1) * _PART])
    recorded = find_recorded(found, sources)
    require_true(found, recorded)
    return compile_together(found, sources, recorded)


def _find_keeping() -> CudaCompiler:
    found = get_compiler()
    return KeepingCompiler(found.name, found.command, found.advice)


def find_sources(names: Iterable[str]) -> list[tuple[str, str]]:
    """The sources of recipes of whose machine code something is expected, with architectures."""
    wanted = [(name, *each) for name in names for each in find_compiled(name)]
    return [(get_facts_of_step(name, step).source, place) for name, step, place in wanted]


def compile_all() -> tuple[CudaCompiler, dict[tuple[str, str], str]]:
    """The compiler, and ptxas's log of each source of all parts."""
    logs: dict[tuple[str, str], str] = {}
    for part in range(-(-len(COMPILED) // _PART)):
        compiler = _compile_part(part)
        for source in find_sources(COMPILED[part * _PART : (part + 1) * _PART]):
            logs[source] = compiler.compile(*source).log
    return get_compiler(), logs


@functools.lru_cache(maxsize=2 * _PART)
def get_facts_of_step(recipe: str, step: str) -> Facts:
    """The facts of a step of a recipe's default example."""
    run = run_default_example(RECIPES[recipe])
    module = next(each.module for each in run.steps if each.name == step)
    return get_facts(module, problem=run.problem)
