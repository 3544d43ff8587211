"""Sums of halves in float32: a pair, numbers, foreign forms, and what is refused."""

import pytest
import tvm
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.transforms import bind_loop, decompose_reduction_at, split_loop, widen_sums

HEAD = """\
# from tvm.script import ir as I
# from tvm.script import tirx as T
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
"""
PLAIN = """\
    def main(
        A: T.Buffer((6, 20), "float16"),
        B: T.Buffer((20, 4), "float16"),
        C: T.Buffer((6, 4), "float16"),
    ):
        for i, j, k in T.grid(6, 4, 20):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float16(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
AFTER = """\
    def main(
        A: T.Buffer((6, 20), "float16"),
        B: T.Buffer((20, 4), "float16"),
        C: T.Buffer((6, 4), "float16"),
    ):
        C_global = T.sblock_alloc_buffer((6, 4))
        for i, j, k in T.grid(6, 4, 20):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_global[vi, vj] = T.float32(0)
                C_global[vi, vj] = C_global[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast(
                    "float32", B[vk, vj]
                )
        for i, j in T.grid(6, 4):
            with T.sblock("C_global"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.Cast("float16", C_global[vi, vj])
"""
SUM, TERM = "C[vi, vj] + A[vi, vk] * B[vk, vj]", "A[vi, vk] * B[vk, vj]"
INTERMEDIATE = """\
    def main(
        A: T.Buffer((6, 20), "float16"),
        B: T.Buffer((20, 4), "float16"),
        D: T.Buffer((6, 4), "float16"),
    ):
        C = T.sblock_alloc_buffer((6, 4), "float16")
        E = T.sblock_alloc_buffer((6, 4), "float16")
"""
CONSUMERS = """\
        for i, j in T.grid(6, 4):
            with T.sblock("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = C[vi, vj] * T.float16(2)
        for i, j in T.grid(6, 4):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi, vj] + E[vi, vj]
"""
BODY = PLAIN[PLAIN.index("        for i,") :]
REPEATED = "".join(
    [
        PLAIN.removesuffix(BODY),
        "        for r in range(3):\n",
        *(f"    {line}\n" for line in BODY.splitlines()),
    ]
)
OPEN = """\
    def main(a: T.handle, B: T.Buffer((20, 4), "float16"), c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 20), "float16")
        C = T.match_buffer(c, (n, 4), "float16")
"""
ONE_LOOP = """\
    def main(
        A: T.Buffer((6, 20), "float16"),
        B: T.Buffer((20, 4), "float16"),
        D: T.Buffer((6, 4), "float16"),
    ):
        C = T.sblock_alloc_buffer((6, 4), "float16")
        for i in range(6):
            for j, k in T.grid(4, 20):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float16(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
            for j in range(4):
                with T.sblock("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = C[vi, vj]
"""


def read(text: str) -> tvm.IRModule:
    return from_source(HEAD + text)


def widen(module: tvm.IRModule) -> tvm.IRModule:
    sch = Schedule(module, debug_mask="all")
    sch.get(widen_sums(sch, sch.get_sblock("C")))
    return sch.mod


def test_widen_sums_pair() -> None:
    def run(sch: Schedule):
        block = sch.get_sblock("C")
        return widen_sums(sch, block), block, sch.get_loops(block)

    check_pair(read(PLAIN), run, read(AFTER), is_replayable=False)


def cast(dtype: str, value: str) -> str:
    return f'T.Cast("{dtype}", {value})'


WIDE_TERM = f"{cast('float32', 'A[vi, vk]')} * {cast('float32', 'B[vk, vj]')}"
B_OF = "B: T.Buffer((20, 4), "
C_OF = "C: T.Buffer((6, 4)"


def change(old: str, new: str, *more: tuple[str, str]) -> str:
    """The plain program with other parts."""
    text = PLAIN
    for before, after in ((old, new), *more):
        assert before in text
        text = text.replace(before, after)
    return text


OF_CASTS = cast("float16", cast("float32", "B[vk, vj]"))
FORMS = {
    "the sum comes last": change(SUM, f"{TERM} + C[vi, vj]"),
    "rounded products": change(TERM, cast("float16", WIDE_TERM)),
    "casts of casts": change("* B[vk, vj]", f"* {OF_CASTS}"),
    "brackets": change(TERM, f"({TERM} + A[vi, vk])"),
    "other types": change(
        f'{B_OF}"float16"',
        f'{B_OF}"bfloat16"',
        ("* B[vk, vj]", f"* {cast('float16', 'B[vk, vj]')}"),
    ),
    "bfloat16": change("T.float16(0)", "T.bfloat16(0)", ('"float16"', '"bfloat16"')),
    "transposed": change(C_OF, "C: T.Buffer((4, 6)", ("C[vi, vj]", "C[vj, vi]")),
    "a dimension of one": change(C_OF, "C: T.Buffer((6, 1, 4)", ("C[vi, vj]", "C[vi, 0, vj]")),
    "a part of C": change(C_OF, "C: T.Buffer((9, 4)"),
    "repeated": REPEATED,
    "two consumers": INTERMEDIATE + BODY + CONSUMERS,
    "open": OPEN + BODY.replace("T.grid(6,", "T.grid(n,"),
}


def test_a_term_that_is_rounded_stays_rounded() -> None:
    """Only products of halves are exact, and other roundings may be meant."""
    text = widen(read(FORMS["rounded products"])).script()
    assert 'T.Cast("float32", T.Cast("float16", T.Cast("float32", A[vi, vk])' in text


# ---- What is refused

NO_SUM = "block 'C' is no sum with its initialization; pass a block with T.init"
NO_TERM = "block 'C' does not add one term to a sum of float16 or bfloat16 that begins at zero;"
INIT = """\
                with T.init():
                    C[vi, vj] = T.float16(0)
"""
GUARD = "                T.where(i + j < 5)\n"
REFUSED = {
    "max": (change(SUM, f"T.max(C[vi, vj], {TERM})"), NO_TERM),
    "difference": (change(SUM, f"C[vi, vj] - {TERM}"), NO_TERM),
    "several": (change(SUM, f"{SUM} + A[vi, vk]"), NO_TERM),
    "of the sum": (change(TERM, "A[vi, vk] * C[vi, vj]"), NO_TERM),
    "one": (change("T.float16(0)", "T.float16(1)"), NO_TERM),
    "wide": (change("float16", "float32"), NO_TERM),
    "integers": (change("float16", "int32"), NO_TERM),
    "no init": (change(INIT, ""), NO_SUM),
    "predicate": (
        change("                vi,", f"{GUARD}                vi,"),
        "block 'C' runs under a predicate, which leaves elements as they were; widen sums before",
    ),
    "places": (
        change(C_OF, "C: T.Buffer((8, 4)", ("C[vi,", "C[vi + 2,")),
        "block 'C' does not sum to one element for each of its rows and columns; let each",
    ),
    "one loop": (ONE_LOOP, "blocks 'C' and 'D' stand in one loop, behind which sums would be"),
    "two writers": (
        (INTERMEDIATE + BODY + CONSUMERS).replace("E[vi, vj] = C", "C[vi, vj] = C"),
        "TVM refuses: The buffer C is expected to be written by single block",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_widen_sums_refuses(name: str) -> None:
    text, sentence = REFUSED[name]
    sch = Schedule(read(text))
    block = sch.get_sblock("C")
    with refuses(sch, f"widen_sums: {sentence}"):
        widen_sums(sch, block)


def test_widen_sums_refuses_what_is_scheduled_already() -> None:
    sch = Schedule(read(PLAIN))
    block = sch.get_sblock("C")
    bind_loop(sch, split_loop(sch, sch.get_loops(block)[0], inner=2).outer, axis="blockIdx.x")
    with refuses(sch, "widen_sums: loop 'i_0' is already bound to 'blockIdx.x'"):
        widen_sums(sch, block)
    sch = Schedule(read(PLAIN))
    block = sch.get_sblock("C")
    decompose_reduction_at(sch, block, sch.get_loops(block)[2])
    with refuses(sch, "widen_sums: block 'C_update' is no sum with its initialization"):
        widen_sums(sch, block)
