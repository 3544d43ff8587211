"""Sums of halves in float32: a pair, a term that is rounded, and what is refused."""

import pytest
from kernels import at_block, parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep.transforms import bind_loop, decompose_reduction_at, split_loop, widen_sums

PLAIN = """
A (6, 20) float16, B (20, 4) float16, C (6, 4) float16
for i, j, k in T.grid(6, 4, 20):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float16(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
SUM, TERM = "C[vi, vj] + A[vi, vk] * B[vk, vj]", "A[vi, vk] * B[vk, vj]"
CONSUMERS = """
for i, j in T.grid(6, 4):
    with T.sblock("E"):
        vi, vj = T.axis.remap("SS", [i, j])
        E[vi, vj] = C[vi, vj] * T.float16(2)
for i, j in T.grid(6, 4):
    with T.sblock("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = C[vi, vj] + E[vi, vj]
"""
INTERMEDIATE = PLAIN.replace("C (6, 4) float16", "D (6, 4) float16, E (6, 4) float16").replace(
    "for i,", 'C = T.sblock_alloc_buffer((6, 4), "float16")\nfor i,'
)


def change(old: str, new: str, *more: tuple[str, str]) -> str:
    """The plain program with other parts."""
    text = PLAIN
    for before, after in ((old, new), *more):
        assert before in text
        text = text.replace(before, after)
    return text


def test_widen_sums_pair() -> None:
    after = """
        C_global = T.sblock_alloc_buffer((6, 4))
        for i, j, k in T.grid(6, 4, 20):
            with T.sblock("C", "SSR", i, j, k):
                C_global[vi, vj] += T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
        for i, j in T.grid(6, 4):
            with T.sblock("C_global", "SS", i, j):
                C[vi, vj] = T.Cast("float16", C_global[vi, vj])
    """

    def run(sch: Schedule):
        block = sch.get_sblock("C")
        return widen_sums(sch, block), block, sch.get_loops(block)

    check_pair(parse_kernel(PLAIN), run, after, is_replayable=False)


def test_a_term_that_is_rounded_stays_rounded() -> None:
    """Only products of halves are exact, and other roundings may be meant."""
    wide = 'T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])'
    sch = Schedule(parse_kernel(change(TERM, f'T.Cast("float16", {wide})')), debug_mask="all")
    widen_sums(sch, sch.get_sblock("C"))
    assert 'T.Cast("float32", T.Cast("float16", T.Cast("float32", A[vi, vk])' in sch.mod.script()


# ---- What is refused

NO_SUM, REDUCES = "it must be a sum of floats that", "block 'C' reduces to 'C' by .*, which is"
INIT = """        with T.init():
            C[vi, vj] = T.float16(0)
"""
REFUSED = {
    "max": (change(SUM, f"T.max(C[vi, vj], {TERM})"), f"a maximum of float16 .*; {NO_SUM}"),
    "difference": (change(SUM, f"C[vi, vj] - {TERM}"), REDUCES),
    "several": (change(SUM, f"{SUM} + A[vi, vk]"), REDUCES),
    "of the sum": (change(TERM, "A[vi, vk] * C[vi, vj]"), REDUCES),
    "one": (change("T.float16(0)", "T.float16(1)"), f"starts from .*; {NO_SUM}"),
    "wide": (change("float16", "float32"), "'C' is a sum of float32, not of float16 or bfloat16"),
    "integers": (change("float16", "int32"), f"a sum of int32 .*; {NO_SUM}"),
    "no init": (change(INIT, ""), "block 'C' is not a reduction with its initialization"),
    "predicate": (
        change("        vi,", "        T.where(i + j < 5)\n        vi,"),
        "block 'C' runs under a predicate, which leaves elements as they were; widen sums before",
    ),
    "places": (
        change("C (6, 4)", "C (8, 4)", ("C[vi,", "C[vi + 2,")),
        "block 'C' does not sum to one element for each of its rows; let each",
    ),
    "two writers": (
        (INTERMEDIATE + CONSUMERS).replace("E[vi, vj] = C", "C[vi, vj] = C"),
        "TVM refuses: The buffer C is expected to be written by single block",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_widen_sums_refuses(name: str) -> None:
    text, sentence = REFUSED[name]
    sch, block, *_ = at_block(parse_kernel(text), "C")
    with refuses(sch, f"widen_sums: .*{sentence}"):
        widen_sums(sch, block)


def test_widen_sums_refuses_what_is_scheduled_already() -> None:
    sch, block, *_ = at_block(parse_kernel(PLAIN), "C")
    bind_loop(sch, split_loop(sch, sch.get_loops(block)[0], inner=2).outer, axis="blockIdx.x")
    with refuses(sch, "widen_sums: loop 'i_0' is already bound to 'blockIdx.x'"):
        widen_sums(sch, block)
    sch, block, *_ = at_block(parse_kernel(PLAIN), "C")
    decompose_reduction_at(sch, block, sch.get_loops(block)[2])
    with refuses(sch, "widen_sums: block 'C_update' is not a reduction with its initialization"):
        widen_sums(sch, block)
