"""Dependent reductions that other blocks come between, whose loops leave elements out, or whose
types round or overflow: numbers as in two passes, or a refusal."""

import numpy as np
import pytest
from kernels import parse_kernel
from pairs import refuses
from reduction_pairs import LEAST, draw, make_pair, run_pair
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.transforms import fuse_reductions, split_reductions

EXPONENTIAL = "s[vi] + T.exp(a - m[vi])"


def insert_before_second(*statements: str):
    """The pair of a maximum and a sum of exponentials with a block between the two."""
    lines = ["for i in range(5):", "    with T.sblock('between'):"]
    lines.append("        vi = T.axis.spatial(5, i)")
    lines += [f"        {statement}" for statement in statements]
    text = make_pair("max", EXPONENTIAL, dtype="float32").script()
    place = text.index("for i, k in T.grid(5, 24):\n", text.index('T.sblock("first")'))
    block = "".join(f"{line}\n{' ' * 8}" for line in lines)
    return from_source(text[:place] + block + text[place:])


class Handles:
    """A schedule with what both transforms take: a refusal leaves both as they were."""

    def __init__(self, module) -> None:
        self.sch = Schedule(module)
        self.first, self.second = (self.sch.get_sblock(name) for name in ("first", "second"))
        self.loop = self.sch.get_loops(self.first)[1]


def fuse(handles: Handles) -> None:
    fuse_reductions(handles.sch, handles.first, handles.second, handles.loop)


def split(handles: Handles) -> None:
    split_reductions(handles.sch, handles.first, [handles.second], parts=4)


# ---- Blocks between


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("B[vi, 0] = s[vi] * T.float32(2)", "block 'between' uses 's' between loop 'k' and"),
        ("s[vi] = T.float32(2)", "block 'between' uses 's' between loop 'k' and block 'second'"),
        ("m[vi] = m[vi] * T.float32(2)", "block 'between' changes 'm' between loop 'k' and"),
    ],
)
def test_a_consumer_does_not_move_in_front_of_what_uses_its_result(statement, sentence) -> None:
    """Ranges leave the consumer where it is, and may be combined with any value."""
    module = insert_before_second(statement)
    handles = Handles(module)
    with refuses(handles.sch, f"fuse_reductions: {sentence}"):
        fuse(handles)
    split(handles)
    inputs = draw("float32", is_masked=False)
    np.testing.assert_allclose(
        run_pair(handles.sch.mod, inputs), run_pair(module, inputs), rtol=1e-5
    )


@pytest.mark.parametrize("block", ["first", "second"])
@pytest.mark.parametrize("transform", [fuse, split])
def test_loops_that_leave_elements_out_are_refused(block: str, transform) -> None:
    text = make_pair("max", EXPONENTIAL, dtype="float32").script()
    start = text.index(f'T.sblock("{block}")')
    loops = text.rindex("T.grid(5, 24)", 0, start)
    axes = text.index('vi, vk = T.axis.remap("SR", [i, k])', start)
    partial = "vi = T.axis.spatial(5, i)\n                vk = T.axis.reduce(24, k)"
    text = (
        text[:loops]
        + "T.grid(5, 20)"
        + text[loops + len("T.grid(5, 24)") : axes]
        + partial
        + text[axes + len('vi, vk = T.axis.remap("SR", [i, k])') :]
    )
    handles = Handles(from_source(text))
    with refuses(handles.sch, "not certain that the loops of block 'first'|do not go over each"):
        transform(handles)


def test_consumers_of_a_split_come_in_any_order_and_once() -> None:
    """What both read is computed in front of the first of them in the program."""
    module = parse_kernel(TWO)
    sch = Schedule(module)
    first, second, third = (sch.get_sblock(name) for name in ("first", "second", "third"))
    with refuses(sch, "block 'second' is among the consumers twice; name each once"):
        split_reductions(sch, first, [second, third, second], parts=4)
    parts, _ = split_reductions(sch, first, [third, second], parts=4)
    names = [sch.get(part).name_hint for part in parts]
    assert names == ["first_part", "third_part", "second_part"]
    inputs = draw("float32", is_masked=True)
    np.testing.assert_allclose(run_pair(sch.mod, inputs), run_pair(module, inputs), rtol=1e-5)


TWO = """
A (5, 24), B (5, 24), y (5,)
m = T.sblock_alloc_buffer((5,))
p = T.sblock_alloc_buffer((5, 24))
s = T.sblock_alloc_buffer((5,))
w = T.sblock_alloc_buffer((5,))
for i, k in T.grid(5, 24):
    with T.sblock("first", "SR", i, k):
        with T.init():
            m[vi] = T.min_value("float32")
        m[vi] = T.max(m[vi], A[vi, vk])
for i, k in T.grid(5, 24):
    with T.sblock("powers", "SS", i, k):
        p[vi, vk] = T.exp(A[vi, vk] - m[vi])
for i, k in T.grid(5, 24):
    with T.sblock("second", "SR", i, k):
        s[vi] += p[vi, vk]
for i, k in T.grid(5, 24):
    with T.sblock("third", "SR", i, k):
        w[vi] += p[vi, vk] * B[vi, vk]
for i in range(5):
    with T.sblock("quotient"):
        vi = T.axis.spatial(5, i)
        y[vi] = w[vi] / s[vi]
"""

# ---- Types


@pytest.mark.parametrize(
    ("use", "start", "dtype", "sentence"),
    [
        ("s[vi] + (a - m[vi])", "0", "int32", "by a factor, which int32 sums do not hold"),
        ("T.max(s[vi], a - m[vi])", LEAST, "int32", "a maximum, and only sums are rescaled"),
    ],
)
@pytest.mark.parametrize("transform", [fuse, split])
def test_integers_that_cannot_follow(use, start, dtype, sentence, transform) -> None:
    handles = Handles(make_pair("max", use, start, dtype=dtype))
    with refuses(handles.sch, sentence):
        transform(handles)
