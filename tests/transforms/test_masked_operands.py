"""Operands that are read where a mask lets them through: a pair, numbers, and refusals."""

import pytest
from kernels import parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import decode_attention
from tirstep.transforms.padding import pad_axis

MASKED = """
    A (5, 24), B (24, 7), n (1,) int32, s (5, 7)
    p = T.sblock_alloc_buffer((5, 24))
    for i, k in T.grid(5, 24):
        with T.sblock("chosen", "SS", i, k):
            p[vi, vk] = T.if_then_else(vk < n[0], T.exp(A[vi, vk]), T.float32(0))
    for i, d, k in T.grid(5, 7, 24):
        with T.sblock("sum", "SSR", i, d, k):
            s[vi, vd] += p[vi, vk] * B[vk, vd]
"""


def test_mask_operand_reads_what_is_multiplied_by_a_chosen_zero() -> None:
    after = """
        p = T.sblock_alloc_buffer((5, 24))
        B_global = T.sblock_alloc_buffer((24, 7))
        for ax0, ax1 in T.grid(24, 7):
            with T.sblock("B_global", "SS", ax0, ax1):
                B_global[vax0, vax1] = T.if_then_else(vax0 < n[0], B[vax0, vax1], T.float32(0))
        for i, k in T.grid(5, 24):
            with T.sblock("chosen", "SS", i, k):
                p[vi, vk] = T.if_then_else(vk < n[0], T.exp(A[vi, vk]), T.float32(0))
        for i, d, k in T.grid(5, 7, 24):
            with T.sblock("sum", "SSR", i, d, k):
                s[vi, vd] += p[vi, vk] * B_global[vk, vd]
    """

    def change(sch: Schedule) -> object:
        return tr.mask_operand(sch, sch.get_sblock("sum"), operand=1)

    check_pair(parse_kernel(MASKED), change, after, is_replayable=False)


@pytest.mark.parametrize("keys", [30, 32])
def test_keys_and_values_up_to_a_length(keys: int) -> None:
    """Of keys whose scores nobody uses, too; the end of a padded axis comes to the mask."""
    problem = decode_attention.problem(2, 4, keys, 8, group=2)
    sch = Schedule(problem.module)
    blocks = [sch.get_sblock(name) for name in ("scores", "weighted")]
    copies = [tr.mask_operand(sch, block, operand=1) for block in blocks]
    pad_axis(sch, sch.get_loops(sch.get_sblock("max"))[3], multiple=16)
    end = " and v2 < 30" if keys == 30 else ""
    for name in "KV":
        guarded = f"T.if_then_else(v2 < lengths[v0]{end}, {name}[v0, v1, v2, v3]"
        assert guarded in sch.mod.script()
    for copy in copies:
        sch.compute_inline(copy)
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="cpu") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("p[vi, vk] * B", "T.max(p[vi, vk], B[vk, vd]) * B"),
        ("p[vi, vk] * B[vk, vd]", "p[vi, vk] + B[vk, vd] * T.float32(2)"),
        ("p[vi, vk] * B", "T.cos(p[vi, vk]) * B"),
        ("vk < n[0]", "vk + vi < n[0]"),  # which the indices of B do not say
        ("T.float32(0))", "T.float32(1))"),
    ],
)
def test_mask_operand_refuses_what_no_mask_of_it_hides(old: str, new: str) -> None:
    sch = Schedule(parse_kernel(MASKED.replace(old, new)))
    block = sch.get_sblock("sum")
    with refuses(sch, "mask_operand: no mask that depends only on indices of 'B' hides .*; leave"):
        tr.mask_operand(sch, block, operand=1)


def test_mask_operand_refuses_a_block_around_others() -> None:
    """Of a block of TVM's blockize, which stores nothing itself, it was an AttributeError."""
    sch = Schedule(parse_kernel(MASKED))
    block = sch.blockize(sch.get_loops(sch.get_sblock("sum"))[1])
    with refuses(sch, "mask_operand: no mask that depends only on indices of 'B' hides what"):
        tr.mask_operand(sch, block, operand=1)
