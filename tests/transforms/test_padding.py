"""Axes of chains of blocks in whole tiles: a pair, numbers on the CPU, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import parse_kernel
from pairs import check_pair, refuses
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks.devices import CpuDevice

BEFORE = """
x (3, 77), s (3,)
m (3,), e (3, 77)
i:3 j:77  m[i] = T.min_value("float32") -> T.max(m[i], x[i, j])
i:3 j:77  e[i, j] = T.exp(x[i, j] - m[i])
i:3 j:77  s[i] += e[i, j]
"""
LEAST = 'T.min_value("float32")'
AFTER = f"""
x (3, 77), s (3,)
m (3,), x_global (3, 80), e (3, 80)
i:3 j:80  x_global[i, j] = T.if_then_else(j < 77, x[i, j], T.float32(0))
i:3 j:80  m[i] = {LEAST} -> T.max(m[i], T.if_then_else(j < 77, x_global[i, j], {LEAST}))
i:3 j:80  e[i, j] = T.if_then_else(j < 77, T.exp(x_global[i, j] - m[i]), T.float32(0))
i:3 j:80  s[i] += e[i, j]
"""


def pad(sch: Schedule, multiple: int = 16, block: str = "m") -> None:
    tr.pad_axis(sch, sch.get_loops(sch.get_sblock(block))[-1], multiple=multiple)


def test_pad_axis_pair() -> None:
    check_pair(parse_kernel(BEFORE), pad, parse_kernel(AFTER), is_replayable=False)


@pytest.mark.parametrize("multiple", [1, 7, 11, 77])
def test_pad_axis_leaves_whole_tiles_alone(multiple: int) -> None:
    sch = Schedule(parse_kernel(BEFORE))
    pad(sch, multiple)
    assert_structural_equal(sch.mod, parse_kernel(BEFORE))


CHAIN = """
x (3, {n}), w (3, {n}), c (3,),
most (3,), least (3,), total (3,), product (3,), dot (3,), y (3, {n})
e (3, {n}), t (3, {n})
i:3 j:{n}  most[i] = T.min_value("float32") -> T.max(most[i], x[i, j])
i:3 j:{n}  least[i] = T.max_value("float32") -> T.min(least[i], x[i, j])
i:3 j:{n}  e[i, j] = T.exp(x[i, j] - most[i])
i:3 j:{n}  t[i, j] = e[i, j] * c[i] + T.float32(1)
i:3 j:{n}  total[i] += t[i, j] * c[i] * w[i, j]
i:3 j:{n}  product[i] = T.float32(1) -> product[i] * t[i, j]
i:3 j:{n}  dot[i] += x[i, j] * w[i, j] * c[i]
i:3 j:{n}  y[i, j] = t[i, j] - w[i, j]
"""
NUMBERS = [-np.inf, -3e38, -2, -1, -0.0, 0.0, 0.5, 1, 3, np.inf]


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 99))
def test_numbers_stay_as_they_were(length: int, multiple: int, seed: int) -> None:
    """To the sign of a zero: nothing beyond the end counts, be it that infinity is multiplied."""
    module, rng = parse_kernel(CHAIN.format(n=length)), np.random.default_rng(seed)
    sch = Schedule(module)
    pad(sch, multiple, "e")
    for block in ("most", "least", "e", "t", "total", "product", "dot"):
        tr.split_loop(sch, sch.get_loops(sch.get_sblock(block))[-1], inner=multiple)
    shapes = [(3, length), (3, length), (3,), *[(3,)] * 5, (3, length)]
    arrays = [rng.choice(np.array(NUMBERS, "float32"), shape) for shape in shapes]
    before, after = (
        CpuDevice().compile(it)([a.copy() for a in arrays]) for it in (module, sch.mod)
    )
    for right, got in zip(before, after, strict=True):
        np.testing.assert_array_equal(got, right)
        known = ~np.isnan(right)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(right[known]))


DIFFERENCE = "s[i] += ", "s[i] = T.float32(0) -> s[i] - "
STORES = (
    "i:3 j:77  e[i, j] = T.exp(x[i, j] - m[i])\n",
    """\
for i, j in T.grid(3, 77):
    with T.sblock("e", "SS", i, j):
        e[vi, vj] = x[vi, vj]
        e[vi, vj] = e[vi, vj] + m[vi]
""",
)


def split(sch: Schedule, block: str) -> None:
    tr.split_loop(sch, sch.get_loops(sch.get_sblock(block))[-1], inner=7)


def bind(sch: Schedule, block: str) -> None:
    tr.bind_loop(sch, sch.get_loops(sch.get_sblock(block))[0], axis="blockIdx.x")


@pytest.mark.parametrize(
    ("edit", "prepare", "multiple", "message"),
    [
        (("", ""), None, 0, "multiple=0 is no size; use 1 or more"),
        (("77", "n"), None, 16, "loop 'j' has the symbolic extent n"),
        (("77", "2147483647"), None, 16, "loop 'j' of 2147483647 iterations, rounded up .* beyond"),
        (
            ("x[i, j] - m", "x[i, 76 - j] - m"),
            None,
            16,
            "block 'e' uses 'x_global' at 76 - vj along",
        ),
        (
            ("+= e[i, j]", "+= e[i, 76 - j]"),
            None,
            16,
            "block 's' uses 'e' at 76 - vj along the axis",
        ),
        (STORES, None, 16, "block 'e' is more than one store; write one block for each"),
        (
            DIFFERENCE,
            None,
            16,
            "block 's' reduces to 's' by .* no sum, product, maximum or minimum",
        ),
        (("", ""), (split, "m"), 16, "loop 'j_1' is not that of one block's iterator; pass a loop"),
        (
            ("", ""),
            (split, "s"),
            16,
            "block 's' does not have one loop for each of its 2 iterators",
        ),
        (("", ""), (bind, "e"), 16, "block 'e' has the thread-bound loop 'i'; pad an axis before"),
    ],
)
def test_pad_axis_refuses(edit: tuple, prepare: tuple | None, multiple: int, message: str) -> None:
    sch = Schedule(parse_kernel(BEFORE.replace(*edit)))
    if prepare:
        prepare[0](sch, prepare[1])
    loop = sch.get_loops(sch.get_sblock("m"))[-1]
    with refuses(sch, f"pad_axis: {message}"):
        tr.pad_axis(sch, loop, multiple=multiple)


def test_pad_axis_refuses_the_axis_of_a_tensor() -> None:
    sch = Schedule(parse_kernel(CHAIN.format(n=7)))
    loop = sch.get_loops(sch.get_sblock("y"))[-1]
    with refuses(
        sch, "pad_axis: block 'y' would write elements of 'y' outside of the 7 that there"
    ):
        tr.pad_axis(sch, loop, multiple=4)
