"""Where fused reductions go: more axes than one, whole tensors, outputs between, other loops."""

import numpy as np
import pytest
import tvm
from golden_runs import run_golden
from kernels import parse_kernel
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep import transforms as tr
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.transforms.placement import require_in_iteration
from tirstep.transforms.recipes import RECIPES

LARGEST = """
for i, k in T.grid(5, 24):
    with T.sblock("max", "SR", i, k):
        with T.init():
            m[vi] = T.float32("-inf")
        m[vi] = T.max(m[vi], A[vi, vk])
"""
AXES = """
A (5, 24, 3), s (5, 3), m (5,)
for i, k, c in T.grid(5, 24, 3):
    with T.sblock("max", "SRR", i, k, c):
        with T.init():
            m[vi] = T.float32("-inf")
        m[vi] = T.max(m[vi], A[vi, vk, vc])
for i, c, k in T.grid(5, 3, 24):
    with T.sblock("sum", "SSR", i, c, k):
        s[vi, vc] += T.exp(A[vi, vk, vc] - m[vi])
"""
BETWEEN = f"""
A (5, 24), B (24, 6), s (5,), P (5, 24)
m = T.sblock_alloc_buffer((5,))
{LARGEST}
for i, k in T.grid(5, 24):
    with T.sblock("P", "SS", i, k):
        P[vi, vk] = T.exp(A[vi, vk] - m[vi])
for i, c, k in T.grid(5, 6, 24):
    with T.sblock("sum", "SRR", i, c, k):
        s[vi] += P[vi, vk] * B[vk, vc]
"""
WHOLE = """
A (24,), s (1,)
m = T.sblock_alloc_buffer((1,))
for k in range(24):
    with T.sblock("max"):
        vk = T.axis.reduce(24, k)
        with T.init():
            m[0] = T.float32("-inf")
        m[0] = T.max(m[0], A[vk])
for k in range(24):
    with T.sblock("sum"):
        vk = T.axis.reduce(24, k)
        s[0] += T.exp(A[vk] - m[0])
"""
CLOSED = f"""
A (5, 24), s (5,)
m = T.sblock_alloc_buffer((5,))
{LARGEST}
for i, k in T.grid(5, 24):
    with T.sblock("sum", "SR", i, k):
        s[vi] += T.exp(A[vi, vk] - m[vi])
"""
OPEN = CLOSED.replace("(5, 24)", "(5, n)")
PROGRAMS = {
    "two axes": (AXES, 1, [(5, 24, 3)], [(5, 3), (5,)]),
    "an output between": (BETWEEN, 1, [(5, 24), (24, 6)], [(5,), (5, 24)]),
    "some of the terms": (
        BETWEEN.replace("T.grid(5, 6, 24)", "T.grid(5, 6, 11)"),
        1,
        [(5, 24), (24, 6)],
        [(5,), (5, 24)],
    ),
    "a whole tensor": (WHOLE, 0, [(24,)], [(1,)]),
    "an open size": (OPEN, 1, [(5, 23)], [(5,)]),
}


def run(module: tvm.IRModule, inputs: list[np.ndarray], shapes) -> list[np.ndarray]:
    outputs = [np.full(shape, np.nan, "float32") for shape in shapes]
    return CpuDevice().compile(module)([*inputs, *outputs])[len(inputs) :]


WAYS = [((), "in place"), ((7,), "in place"), ((24,), "apart"), ((4, 3), "in place")]
CASES = [
    (name, *way) for name in PROGRAMS for way in WAYS if (name, way[0]) != ("an open size", (4, 3))
]


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "tiles", "accumulate"), CASES)
def test_places(name: str, tiles: tuple[int, ...], accumulate: str) -> None:
    text, axis, inputs, outputs = PROGRAMS[name]
    module, generator = parse_kernel(text), np.random.default_rng(0)
    sch = Schedule(module)
    largest, total = sch.get_sblock("max"), sch.get_sblock("sum")
    loop = sch.get_loops(largest)[axis]
    if tiles:
        loop = tr.split_loop(sch, loop, inner=tiles[0], tail="guard").outer
    if len(tiles) > 1:  # the loop in the middle of three
        loop = tr.split_loop(sch, loop, inner=tiles[1], tail="guard").inner
    tr.fuse_reductions(sch, largest, total, loop, accumulate=accumulate)
    data = [generator.standard_normal(shape).astype("float32") for shape in inputs]
    wanted, got = run(module, data, outputs), run(sch.mod, data, outputs)
    for first, second in zip(wanted, got, strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-5)


def test_a_module_of_several_functions() -> None:
    module = from_source(parse_kernel(WHOLE).script().replace("def main", "def soft"))
    module["other"] = parse_kernel(OPEN)["main"].with_attr("global_symbol", "other")
    sch = Schedule(module)
    largest, total = (sch.get_sblock(name, "soft") for name in ("max", "sum"))
    outer, _ = tr.split_loop(sch, sch.get_loops(largest)[0], inner=6)
    (tile,), _ = tr.fuse_reductions(sch, largest, total, outer)
    assert sch.get(tile).name_hint == "max_tile"
    assert sch.mod["other"].same_as(module["other"])


def test_fuse_reductions_refuses_what_does_not_fit():
    sch = Schedule(parse_kernel(AXES))
    largest, total = sch.get_sblock("max"), sch.get_sblock("sum")
    _, k, c = sch.get_loops(largest)
    sch.reorder(c, k)
    with refuses(
        sch, "fuse_reductions: loop 'c' around the fused one goes over terms of block 'max"
    ):
        tr.fuse_reductions(sch, largest, total, k)
    sch = Schedule(parse_kernel(OPEN))
    largest, total = sch.get_sblock("max"), sch.get_sblock("sum")
    outer, _ = tr.split_loop(sch, sch.get_loops(largest)[1], inner=4, tail="guard")
    loop = tr.split_loop(sch, outer, inner=3, tail="guard").inner
    with refuses(sch, "fuse_reductions: block 'max' reduces only where .*; split its loop once"):
        tr.fuse_reductions(sch, largest, total, loop)
    later = """for k, c in T.grid(24, 6):
    with T.sblock("Z", "SS", k, c):
        Z[vk, vc] = B[vk, vc] * T.float32(2)
"""
    text = BETWEEN.replace("m = T.sb", "Z = T.sblock_alloc_buffer((24, 6))\nm = T.sb")
    text = text.replace("for i, c, k", later + "for i, c, k").replace("* B[", "* Z[")
    sch = Schedule(parse_kernel(text))
    largest, total = sch.get_sblock("max"), sch.get_sblock("sum")
    loop = sch.get_loops(largest)[1]
    with refuses(sch, "block 'sum' also reads 'Z', which under loop 'k' comes later"):
        tr.fuse_reductions(sch, largest, total, loop)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("P[vi, vk] * B", "P[vi, 23 - vk] * B", "with which with -inf first it would give"),
        ("A[vi, vk])\n\nfor", "A[vi, vk * 2 % 24])\n\nfor", "is not certain that"),
    ],
)
def test_fuse_reductions_refuses_other_terms(old: str, new: str, sentence: str) -> None:
    assert old in BETWEEN
    sch = Schedule(parse_kernel(BETWEEN.replace(old, new)))
    largest, total = sch.get_sblock("max"), sch.get_sblock("sum")
    loop = sch.get_loops(largest)[-1]
    with refuses(sch, f"fuse_reductions: .*{sentence}"):
        tr.fuse_reductions(sch, largest, total, loop)


# ---- What a repaired block must keep


def fuse_tiles() -> tuple[Schedule, list]:
    sch = Schedule(parse_kernel(CLOSED))
    largest, total = sch.get_sblock("max"), sch.get_sblock("sum")
    outer, _ = tr.split_loop(sch, sch.get_loops(largest)[1], inner=8)
    tr.fuse_reductions(sch, largest, total, outer)
    return sch, [total, *sch.get_loops(total)]


def test_accumulate_in_registers_refuses_to_lose_what_is_repaired() -> None:
    sch, (total, row, outer, _) = fuse_tiles()
    with refuses(sch, "block 'sum' rescales what 's_local' held in the previous iteration of loop"):
        tr.accumulate_in_registers(sch, total, outer)
    tr.accumulate_in_registers(sch, total, row)


def test_spread_over_threads_refuses_a_repair_in_place() -> None:
    sch, (total, row, *_) = fuse_tiles()
    tr.bind_loop(sch, row, axis="blockIdx.x")
    with refuses(sch, 'come from the threads of loop .*; fuse with accumulate="apart"'):
        tr.spread_over_threads(sch, total, threads=8)


def test_what_reads_running_values_stays_in_their_iteration() -> None:
    """The maximum of an iteration before is overwritten in the next one, and repairs need it."""
    steps = run_golden(RECIPES["decode_attention_fused"]).steps
    sch = Schedule(next(step.module for step in steps if step.name == "fused"))
    weighted, loop = sch.get_sblock("weighted"), sch.get_loops(sch.get_sblock("Y"))[-2]
    with refuses(sch, "block 'weighted' reads 'largest.*' in each iteration of loop 'j_0', where"):
        tr.compute_block_at(sch, weighted, loop)


REPEATED = """
A (4,), B (4,)
first = T.sblock_alloc_buffer((1,))
C = T.sblock_alloc_buffer((4,))
for r in range(4):
    with T.sblock("first"):
        vi = T.axis.spatial(4, 0)
        first[0] = A[vi]
    with T.sblock("C"):
        vr = T.axis.spatial(4, r)
        C[vr] = first[0] + A[vr]
for i in range(4):
    with T.sblock("B"):
        vi = T.axis.spatial(4, i)
        B[vi] = C[vi]
"""


def test_what_may_leave_an_iteration() -> None:
    """What reads no running value may, and what each iteration writes anew alike."""
    steps = run_golden(RECIPES["decode_attention_fused"]).steps
    sch = Schedule(next(step.module for step in steps if step.name == "fused"))
    weighted, scores = sch.get_sblock("weighted"), sch.get_sblock("scores")
    for loop in sch.get_loops(weighted)[3:]:  # j_0 itself, and those inside of it
        require_in_iteration(sch, weighted, loop)
    require_in_iteration(sch, scores, sch.get_loops(sch.get_sblock("Y"))[-1])
    sch = Schedule(parse_kernel(REPEATED))
    require_in_iteration(sch, sch.get_sblock("C"), sch.get_loops(sch.get_sblock("B"))[0])
    sch = Schedule(parse_kernel(REPEATED.replace("spatial(4, 0)", "spatial(4, r)")))
    block, loop = sch.get_sblock("C"), sch.get_loops(sch.get_sblock("B"))[0]
    with refuses(sch, "block 'C' reads 'first' in each iteration of loop 'r', where block 'first'"):
        require_in_iteration(sch, block, loop)
