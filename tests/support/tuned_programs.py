"""A kernel with recipes to tune, among them what computes something else for one choice."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import tvm
from kernels import parse_kernel
from tvm.s_tir import Schedule

from tirstep.modules import kernel
from tirstep.transforms import split_loop
from tirstep.transforms.recipes import Example, recipe


@kernel(
    reference=lambda a, **_: 2 * a + 1,
    flops=lambda n, **_: 2 * n,
    elements=lambda n, **_: n,
    accumulators={"float32": ("float32",), "float16": ("float16",)},
)
def twice_plus_one(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """C = 2 A + 1, by way of B = 2 A."""
    return parse_kernel(f"""
        A ({n},) {dtype}, C ({n},) {dtype}
        B ({n},) {dtype}
        i:{n}  B[i] = A[i] * T.Cast("{dtype}", 2)
        i:{n}  C[i] = B[i] + T.Cast("{dtype}", 1)
    """)


EXAMPLE = Example({"n": 64})
tunable = functools.partial(
    recipe, kernel=twice_plus_one, blocks=("B C",), default_example=EXAMPLE, golden=EXAMPLE
)


@tunable(choices={"inner": (2, 8, 24), "fold": (1, 2)})
def folded(sch: Schedule, *, inner: int = 4, fold: int = 1) -> Iterator[str]:
    """With fold=2 neighbours share a place of B, which TVM is told to believe in."""
    block = sch.get_sblock("B")
    sch.transform_layout(
        block, ("write", 0), lambda i: [i // fold], assume_injective_transform=True
    )
    split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=inner)
    yield "split"


@tunable(choices={"inner": (3, 5, 7)})
def never_fits(sch: Schedule, *, inner: int = 9) -> Iterator[str]:
    """None of these divides 64."""
    split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=inner)
    yield "split"


@tunable()
def without_choices(sch: Schedule, *, inner: int = 4) -> Iterator[str]:
    """Nothing to tune."""
    split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=inner)
    yield "split"
