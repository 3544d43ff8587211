"""Chains of products by wgmma: pairs out of the goldens, a chain of one's own, and refusals."""

from __future__ import annotations

import pytest
import tvm
from golden_runs import read_step
from kernels import at_block, parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tirstep import transforms as tr
from tirstep.transforms.annotations import TMA_IN_FLIGHT
from tirstep.transforms.hopper.tma_tiles import TMA_ROLES
from tirstep.transforms.hopper.wgmma_rows import RowsProduct, get_rows_intrinsic
from tirstep.transforms.schedule import transform


def read(step: str, recipe: str = "attention_wgmma") -> tvm.IRModule:
    return read_step(step, recipe)


ORDER = """
A (32, 64), B (64, 48), C (32, 48)
for {loops}:
    with T.sblock("C", "SSR", i, j, k):
        C[vi, vj] += A[vi, vk] * B[vk, vj]
"""


def test_order_product_pair() -> None:
    before = parse_kernel(ORDER.format(loops="k, i, j in T.grid(64, 32, 48)"))
    after = parse_kernel(ORDER.format(loops="i, j, k in T.grid(32, 48, 64)"))
    check_pair(before, lambda sch: tr.order_product(sch, sch.get_sblock("C")), after)


def test_order_product_refuses_what_is_no_product() -> None:
    sch, block, *_ = at_block(read("02_fused"), "max")
    with refuses(sch, "block 'max' has 1 spatial and 0 reduction loops of its own; pass a product"):
        tr.order_product(sch, block)


def tensorize(sch: Schedule) -> None:
    """Both products of attention, and what lies between them, in a transform of one's own."""
    for name in ("scores", "weighted_update"):
        tr.tensorize_warp_rows(sch, sch.get_sblock(name))
    names = ("Y", "weighted_init", "power_global", "sum", "sum_tile", "exp_running", "max")
    for name in (*names, "max_tile"):
        tr.spread_over_quads(sch, sch.get_sblock(name), columns=name not in ("sum", "max"))
    tr.vectorize_loop(sch, sch.get_loops(sch.get_sblock("Y"))[-1])


def test_tensorize_warp_rows_pair() -> None:
    before, after = read("04_in_shared_memory"), read("05_tensorized")
    check_pair(before, transform(tensorize), after, is_verified=False, is_replayable=False)


def test_tensorize_warp_rows_refuses_one_product_of_a_chain_alone() -> None:
    sch, block, *_ = at_block(read("04_in_shared_memory"), "scores")
    with refuses(
        sch, "lays 'scores_local' out over the registers of a warp's lanes, and block 'exp_r"
    ):
        tr.tensorize_warp_rows(sch, block)


@pytest.mark.parametrize(
    ("step", "block", "message"),
    [
        ("04_in_shared_memory", "max", "are not rows, columns and steps of k; call order_pr"),
        ("03_in_fragments", "scores", "which is not a tile that descriptors of wgmma describe"),
    ],
)
def test_tensorize_warp_rows_refuses(step: str, block: str, message: str) -> None:
    sch = Schedule(read(step))
    product = sch.get_sblock(block)
    with refuses(sch, message):
        tr.tensorize_warp_rows(sch, product)


PRODUCT = {
    "dtype": "float16",
    "columns": 32,
    "depth": 32,
    "transpose_b": True,
    "swizzles": (16, 64),
    "in_registers": True,
    "begins": True,
    "warps": 4,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "int8"}, "int8 is not a 16-bit type that wgmma multiplies; use float16"),
        ({"warps": 6}, "6 warps are not whole warpgroups; use a multiple of 4"),
        ({"columns": 24}, "a tile of 24 columns is not made of whole fragments; use a multiple of"),
        ({"depth": 8}, "a tile of 8 steps of k is not made of whole fragments"),
    ],
)
def test_products_that_wgmma_does_not_make_of_a_warp_s_rows(change: dict, message: str) -> None:
    with pytest.raises(tr.TransformError, match=message):
        get_rows_intrinsic(RowsProduct(**{**PRODUCT, **change}))


# ---- Overlap


def find_steps(sch: Schedule, block: str = "K_shared.dyn") -> LoopRV:
    """The loop over tiles of keys."""
    loops = sch.get_loops(sch.get_sblock(block))
    return next(loop for loop in loops if sch.get(loop).loop_var.name == "j_0")


def test_overlap_products_pair() -> None:
    before, after = (
        read(step, "attention_wgmma_overlap")
        for step in ("09_warps_specialized", "10_products_overlapped")
    )
    check_pair(before, lambda sch: tr.overlap_products(sch, find_steps(sch)), after)


def test_overlap_products_refuses_what_does_not_fit():
    for step in ("08_next_tiles_by_tma", "10_products_overlapped"):
        sch = Schedule(read(step, "attention_wgmma_overlap"))
        loop = find_steps(sch)
        with refuses(sch, "'j_0' is not a warp-specialized pipeline, or overlaps already"):
            tr.overlap_products(sch, loop)
    sch = Schedule(read("09_warps_specialized", "attention_wgmma_overlap"))
    loop = find_steps(sch)
    sch.annotate(loop, TMA_IN_FLIGHT, 1)
    with refuses(
        sch, "leaves groups of wgmma in flight already; call prefetch_by_tma without in_fli"
    ):
        tr.overlap_products(sch, loop)
    # Of a matmul with roles: nothing is computed between two groups.
    sch = Schedule(read("08_fragments_ahead", "matmul_mma_fragments"))
    (loop,) = [
        loop
        for loop in sch.get_loops(sch.get_sblock("A_shared.dyn"))
        if sch.get(loop).loop_var.name == "k_0"
    ]
    sch.annotate(loop, TMA_ROLES, [32, 0, 0])
    with refuses(sch, "must begin and end with wgmma products, with none in between"):
        tr.overlap_products(sch, loop)
