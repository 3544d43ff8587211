"""Axes of chains of blocks in whole tiles: a pair, numbers on the CPU, and what is refused."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import parse_kernel
from pairs import check_pair, refuses
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


def pad(sch: Schedule, multiple: int, block: str = "m") -> None:
    tr.pad_axis(sch, sch.get_loops(sch.get_sblock(block))[-1], multiple=multiple)


@pytest.mark.parametrize(("multiple", "after"), [(16, AFTER), (11, BEFORE)])
def test_pad_axis_pair(multiple: int, after: str) -> None:
    change = functools.partial(pad, multiple=multiple)
    is_replayable = after is BEFORE
    check_pair(parse_kernel(BEFORE), change, parse_kernel(after), is_replayable=is_replayable)


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
    results = [CpuDevice().compile(it)([*map(np.copy, arrays)]) for it in (module, sch.mod)]
    for right, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, right)
        signs = [np.signbit(it[~np.isnan(right)]) for it in (got, right)]
        np.testing.assert_array_equal(*signs)


EXP = "i:3 j:77  e[i, j] = T.exp(x[i, j] - m[i])\n"
STORES = """for i, j in T.grid(3, 77):
    with T.sblock("e", "SS", i, j):
        e[vi, vj] = x[vi, vj]
        e[vi, vj] = T.exp(e[vi, vj] - m[vi])
"""


@pytest.mark.parametrize(
    ("old", "new", "multiple", "message"),
    [
        ("", "", 0, "multiple=0 is not a size; use 1 or more"),
        ("77", "n", 16, "loop 'j' has the symbolic extent n"),
        ("77", "2147483647", 16, "loop 'j' of 2147483647 iterations, rounded up .* is beyond its"),
        (
            "x[i, j] - m",
            "x[i, 76 - j] - m",
            16,
            "block 'e' uses 'x_global' at 76 - vj along the ax",
        ),
        ("+= e[i, j]", "+= e[i, 76 - j]", 16, "block 's' uses 'e' at 76 - vj along the axis of lo"),
        (EXP, STORES, 16, "block 'e' is more than one store; write one block for each"),
        ("s[i] +=", "s[i] = T.float32(0) -> s[i] -", 16, "block 's' reduces to 's' by .*not a sum"),
        (
            "m",
            [11, 7],
            16,
            "loop 'j_1' is not the loop of one block's iterator; pass a loop of a block",
        ),
        ("s", [11, 7], 16, "block 's' does not have one loop for each of its 2 iterators; pad an"),
        ("e", "threadIdx.x", 16, "block 'e' has the thread-bound loop 'j'; pad an axis before"),
    ],
)
def test_pad_axis_refuses(old: str, new: str | list[int], multiple: int, message: str) -> None:
    """Another text, or a block whose loop is split or bound before."""
    is_block = old in ("m", "e", "s")
    sch = Schedule(parse_kernel(BEFORE if is_block else BEFORE.replace(old, str(new))))
    if is_block:
        loop = sch.get_loops(sch.get_sblock(old))[-1]
        _ = sch.split(loop, new) if isinstance(new, list) else sch.bind(loop, new)
    loop = sch.get_loops(sch.get_sblock("m"))[-1]
    with refuses(sch, f"pad_axis: {message}"):
        tr.pad_axis(sch, loop, multiple=multiple)


LONGER = """
x (3, 7), y (3,)
e (3, 9)
for i, j in T.grid(3, 9):
    with T.sblock("ones", "SS", i, j):
        e[vi, vj] = T.float32(1)
i:3 j:7  e[i, j] = x[i, j]
i:3 j:9  y[i] += e[i, j]
"""
SHORTER = """
x (3, 7), y (3,)
e (3, 7)
i:3 j:7  e[i, j] = x[i, j]
i:3 j:5  y[i] += e[i, j]
"""
FROM_TWO = """
x (3, 7), y (3,)
i:3 j:7  y[i] = T.float32(2) -> y[i] * x[i, j]
"""
FROM_THREE = """
x (3, 7), y (3,)
i:3 j:7  y[i] = T.float32(3) -> y[i] + T.exp(x[i, j])
"""


@pytest.mark.parametrize("text", [LONGER, SHORTER])
def test_other_lengths_of_one_axis_are_refused(text: str) -> None:
    sch = Schedule(parse_kernel(text))
    loop = sch.get_loops(sch.get_sblock("e"))[1]
    with refuses(sch, "pad_axis: .* elements along the axis of loop 'j', which has 7"):
        tr.pad_axis(sch, loop, multiple=4)


@pytest.mark.parametrize("text", [FROM_TWO, FROM_THREE])
def test_what_a_reduction_begins_with_counts_once(text: str) -> None:
    module, x = parse_kernel(text), np.arange(21, dtype="float32").reshape(3, 7) / 8
    sch = Schedule(module)
    pad(sch, 4, "y")
    given = [x, np.zeros(3, "float32")]
    right, got = (CpuDevice().compile(it)(given)[1] for it in (module, sch.mod))
    np.testing.assert_array_equal(got, right)


def test_a_tensor_is_copied_once() -> None:
    sch = Schedule(
        parse_kernel("""
        x (3, 7), y (3,), z (3,)
        i:3 j:7  y[i] += x[i, j]
        i:3 j:7  z[i] += T.exp(x[i, j])
    """)
    )
    pad(sch, 4, "y")
    assert "x_global_global" not in sch.mod.script()
