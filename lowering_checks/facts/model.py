"""What the facts of a module are, and what a shape loses against another."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tvm

SCOPES = ("global", "shared")
Number = int | float
_SIZES = ("blocks", "threads", "registers", "spill_stores", "spill_loads")
_FIRST_KERNEL = re.compile(r'(?m)^(extern "C" __global__|__kernel) ')


class Fact(NamedTuple):
    """One row of a table of facts.

    Attributes
    ----------
    group : ``"launch"``, ``"memory"``, ``"instructions"``, ``"work"``, ``"compiled"``, or that of
        `counted_rows`
    key : the name by which an expectation calls it; empty for rows that are text
    name : for people
    value : None where it is not known
    unit : ``"bytes"``, say; empty for counts
    """

    group: str
    key: str
    name: str
    value: Number | str | None
    unit: str = ""


@dataclass(frozen=True)
class Accesses:
    """The loads or the stores of one scope in a kernel's text.

    Attributes
    ----------
    scope : ``"global"`` or ``"shared"``
    kind : ``"load"`` or ``"store"``
    widths : how many places access so many bytes at once
    vectors, scalars : places that access several elements at once, and one
    """

    scope: str
    kind: str
    widths: Mapping[int, int]
    vectors: int
    scalars: int

    def __str__(self) -> str:
        """``2 × 16 B, 1 × 4 B``."""
        return ", ".join(f"{self.widths[size]} × {size} B" for size in sorted(self.widths)[::-1])


@dataclass(frozen=True)
class KernelFacts:
    """What one GPU kernel is, as TVM lowers it.

    Counts are static, after TVM's own unrolling: the body of a loop counts once, unless a name says
    otherwise.

    Attributes
    ----------
    name : in the source
    grid, block : the extents by axis, x first; None for a symbolic extent
    static_shared_bytes, dynamic_shared_bytes : of one thread block; None where it is symbolic
    barriers : places that wait for the whole thread block
    barriers_per_step : those in the loop that runs barriers most often, for one iteration of it
    barriers_executed : what one thread block waits for in all; None where a loop is symbolic
    accesses : loads and stores, by scope and kind, only those that there are
    copies : asynchronous copies from global to shared memory, by bytes
    ldmatrix, mma, wgmma : calls of the tensor cores and of their loads; a call of a helper that
        issues several counts once
    guards : conditions around accesses to global or shared memory
    """

    name: str
    grid: Mapping[str, int | None]
    block: Mapping[str, int | None]
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    barriers: int
    barriers_per_step: int
    barriers_executed: int | None
    accesses: tuple[Accesses, ...]
    copies: Mapping[int, int]
    ldmatrix: int
    mma: int
    wgmma: int
    guards: int

    @property
    def blocks(self) -> int | None:
        """The thread blocks of a launch."""
        return multiply(self.grid.values())

    @property
    def threads(self) -> int | None:
        """The threads of a thread block."""
        return multiply(self.block.values())

    @property
    def shared_bytes(self) -> int | None:
        """Static and dynamic shared memory of a thread block."""
        static, dynamic = self.static_shared_bytes, self.dynamic_shared_bytes
        return None if static is None or dynamic is None else static + dynamic

    def get_accesses(self, scope: str, kind: str) -> Accesses:
        """The loads or the stores of a scope; without any places where there are none."""
        for accesses in self.accesses:
            if (accesses.scope, accesses.kind) == (scope, kind):
                return accesses
        return Accesses(scope, kind, {}, 0, 0)

    def rows(self) -> Iterator[Fact]:
        """The facts as rows."""
        yield Fact("launch", "", "grid", _spell(self.grid))
        yield Fact("launch", "", "block", _spell(self.block))
        yield Fact("launch", "blocks", "blocks", self.blocks)
        yield Fact("launch", "threads", "threads per block", self.threads)
        sizes = {
            "shared_bytes": ("shared memory", self.shared_bytes),
            "static_shared_bytes": ("static shared memory", self.static_shared_bytes),
            "dynamic_shared_bytes": ("dynamic shared memory", self.dynamic_shared_bytes),
        }
        for key, (name, value) in sizes.items():
            yield Fact("memory", key, name, value, "bytes")
        for scope in SCOPES:
            for kind in ("load", "store"):
                accesses, name = self.get_accesses(scope, kind), f"{scope} {kind}s"
                key = kind if scope == "global" else f"shared_{kind}"
                if accesses.widths:
                    yield Fact("memory", "", name, str(accesses))
                yield Fact("memory", f"vector_{key}s", f"{name}, vectors", accesses.vectors)
                yield Fact("memory", f"scalar_{key}s", f"{name}, scalars", accesses.scalars)
                widest = max(accesses.widths, default=0)
                yield Fact("memory", f"{key}_bytes", f"{name}, widest", widest, "bytes")
        widest = max(self.copies, default=0)
        yield Fact("memory", "cp_async_bytes", "cp.async, widest", widest, "bytes")
        instructions = {
            "barriers": ("barriers", self.barriers),
            "barriers_per_step": ("barriers, one iteration of their loop", self.barriers_per_step),
            "barriers_executed": ("barriers, executed", self.barriers_executed),
            "cp_async": ("cp.async", sum(self.copies.values())),
            "ldmatrix": ("ldmatrix", self.ldmatrix),
            "mma": ("mma", self.mma),
            "wgmma": ("wgmma", self.wgmma),
            "guards": ("conditions around accesses", self.guards),
        }
        for key, (name, count) in instructions.items():
            yield Fact("instructions", key, name, count)


@dataclass(frozen=True)
class Facts:
    """What a module gives a GPU.

    Attributes
    ----------
    kernels : in the order of their first launch; empty where TVM refuses the module
    unrolled_loops : of the whole module: unrolled by TVM, or left to the device's compiler
    flops, bytes : of the kernel as a computation: its operations, and the least that it must move;
        None where no problem was given
    lowered : the module behind TVM's pass that splits host from device
    source, language : for the device
    refusal : why there are no kernels, in a sentence; None where there are
    """

    target: str
    language: str
    kernels: tuple[KernelFacts, ...]
    unrolled_loops: int
    flops: int | None
    bytes: int | None
    lowered: tvm.IRModule | None = field(repr=False)
    source: str = field(repr=False)
    refusal: str | None = None

    def _repr_html_(self) -> str:
        from tirstep.lowering_checks.notebook import render_facts

        return render_facts(self)

    @property
    def intensity(self) -> float | None:
        """Operations per byte that must be moved at least."""
        return None if self.flops is None or not self.bytes else self.flops / self.bytes

    @property
    def source_lines(self) -> int:
        """The lines of the kernels that are not empty, without what TVM writes in front of them."""
        first = _FIRST_KERNEL.search(self.source)
        kernels = self.source[first.start() :] if first is not None else self.source
        return sum(bool(line.strip()) for line in kernels.splitlines())

    def rows_to_compare(self) -> tuple[Fact, ...]:
        """The rows, and how many lines the source has: for two programs side by side."""
        return (*self.rows(), Fact("source", "source_lines", "source lines", self.source_lines))

    def rows(self) -> tuple[Fact, ...]:
        """The facts as rows; with several kernels, the group has the kernel's name behind it."""
        work = (
            Fact("instructions", "unrolled_loops", "unrolled loops", self.unrolled_loops),
            Fact("work", "kernels", "kernels launched", len(self.kernels)),
            Fact("work", "flops", "floating-point operations", self.flops),
            Fact("work", "bytes", "to be moved at least", self.bytes, "bytes"),
            Fact("work", "intensity", "arithmetic intensity", self.intensity, "flop/byte"),
        )
        return (*list_rows(self.kernels), *work)

    def values(self) -> dict[str, Number | None]:
        """The numbers by key, for expectations: sums over the kernels, the most of sizes."""
        return merge_rows(self.rows())


def list_rows(kernels: Sequence[Any]) -> Iterator[Fact]:
    """The rows of all kernels; of several, the group has the kernel's name behind it."""
    for kernel in kernels:
        for row in kernel.rows():
            several = len(kernels) > 1
            yield row._replace(group=f"{row.group} {kernel.name}") if several else row


def merge_rows(rows: Iterable[Fact]) -> dict[str, Number | None]:
    """The numbers of several kernels by key: of sizes the most, of occupancy the least, and sums of
    counts.
    """
    found: dict[str, Number | None] = {}
    for row in rows:
        key, value = row.key, row.value
        if not key or isinstance(value, str):
            continue
        other = found.get(key, value)
        if value is None or other is None:
            found[key] = None
        elif key not in found:
            found[key] = value
        elif key in ("occupancy", "resident_blocks"):
            found[key] = min(other, value)
        elif key in _SIZES or key.endswith("_bytes"):
            found[key] = max(other, value)
        else:
            found[key] = other + value
    return found


def multiply(extents: Iterable[int | None]) -> int | None:
    """The product of extents; None where one is symbolic."""
    sizes = list(extents)
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def add_up(sizes: Iterable[int | None]) -> int | None:
    """The sum of sizes; None where one is symbolic."""
    known = list(sizes)
    return None if None in known else sum(size or 0 for size in known)


def _spell(extents: Mapping[str, int | None]) -> str:
    """``8 × 4``, x first."""
    return " × ".join("?" if size is None else str(size) for size in extents.values()) or "1"
