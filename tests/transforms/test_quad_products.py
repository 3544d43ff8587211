"""Products on tensor cores whose fragments stay in registers: alone, in chains, and refused."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes  # noqa: F401 - NumPy then knows bfloat16
import numpy as np
import pytest
import tvm
from golden_runs import read_step
from kernels import parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep import transforms as tr
from tirstep.lowering_checks import get_device
from tirstep.transforms.schedule import transform


def read(step: str) -> tvm.IRModule:
    return read_step(step, "attention_mma")


def test_tensorize_in_quads_of_attention() -> None:
    """Both products, and what lies between them, in a transform of one's own."""

    @transform
    def change(sch: Schedule) -> None:
        scores, weighted = sch.get_sblock("scores_o"), sch.get_sblock("weighted_update_o")
        names = ("Q_local", "K_shared.dyn_local", "V_shared.dyn_local")
        loads = [sch.get_sblock(name) for name in names]
        zeros = tr.decompose_reduction_at(sch, scores, sch.get_loops(scores)[-3])
        tr.tensorize_in_quads(sch, scores, loads[:2], zeros)
        tr.tensorize_in_quads(sch, weighted, loads[2:], None)
        names = ("Y", "weighted_init", "power_global", "sum", "sum_tile", "exp_running", "max")
        for name in (*names, "max_tile"):
            tr.spread_over_quads(sch, sch.get_sblock(name), columns=name not in ("sum", "max"))
        tr.vectorize_loop(sch, sch.get_loops(sch.get_sblock("Y"))[-1])

    check_pair(read("04_in_shared_memory"), change, read("05_tensorized"), is_verified=False)


ONE = """
A (32, 64) {dtype}, B {b} {dtype}, C (32, 48) {out}
X = T.sblock_alloc_buffer((32, 48), "{acc}")
for i, j, k in T.grid(32, 48, 64):
    with T.sblock("X", "SSR", i, j, k):
        with T.init():
            X[vi, vj] = T.{acc}(0)
        X[vi, vj] = X[vi, vj] + T.Cast("{acc}", A[vi, vk]) * T.Cast("{acc}", B[{at}])
for i, j in T.grid(32, 48):
    with T.sblock("C", "SS", i, j):
        C[vi, vj] = {finish}
"""
STAGED = {"operand": 0, "warps": 2, "layout": "padded", "in_quads": True}


def make_one(
    dtype: str = "float16",
    *,
    acc: str = "float32",
    finish: str = "T.max(X[vi, vj], T.float32(0))",
    transposed: bool = False,
) -> tvm.IRModule:
    b, at = ("(48, 64)", "vj, vk") if transposed else ("(64, 48)", "vk, vj")
    out = acc if finish == "X[vi, vj]" else "float32"
    return parse_kernel(ONE.format(dtype=dtype, acc=acc, finish=finish, b=b, at=at, out=out))


def take_warps(sch: Schedule) -> LoopRV:
    """16 rows of block C for each of two warps of one thread block; the loop over these."""
    rows = tr.split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=16).outer
    grid, warp = tr.split_loop(sch, rows, inner=2)
    tr.bind_loop(sch, grid, axis="blockIdx.x")
    tr.bind_loop(sch, warp, axis="threadIdx.z")
    return warp


def load(sch: Schedule, product: tr.FragmentProduct, operand: int, warp: LoopRV) -> SBlockRV:
    """A copy of an operand into registers, by way of shared memory."""
    place = product.column if operand else product.step
    copy = tr.cache_read_at(sch, product.block, place, operand=operand, scope="local")
    vector = 16 // sch.get(copy).writes[0].source.dtype.itemsize
    tr.stage_fragments_at(sch, copy, warp, vector=vector, **STAGED)
    return copy


def prepare_one(
    module: tvm.IRModule, *, lays: bool = True, spreads: bool = True, decomposes: bool = True
) -> tuple[Schedule, SBlockRV, list[SBlockRV], SBlockRV]:
    """All up to `tensorize_in_quads`; zeros are block C where the product is not decomposed."""
    sch = Schedule(module)
    warp, zeros = take_warps(sch), sch.get_sblock("C")
    tr.compute_block_at(sch, sch.get_sblock("X"), warp)
    product = tr.tile_product(sch, sch.get_sblock("X"))
    if lays:
        tr.lay_in_quads(sch, product.block, rows=0, columns=1)
    loads = [load(sch, product, operand, warp) for operand in (0, 1)]
    if spreads:
        tr.spread_over_quads(sch, sch.get_sblock("C"))
    if decomposes:
        zeros = tr.decompose_reduction_at(sch, product.block, product.step)
    return sch, product.block, loads, zeros


def check_numbers(before: tvm.IRModule, after: tvm.IRModule) -> None:
    """Whole numbers, of which none is rounded."""
    rng, found = np.random.default_rng(0), []
    tensors = before["main"].params
    shapes = [(tuple(map(int, it.shape)), np.dtype(str(it.dtype))) for it in tensors]
    values = [rng.integers(-3, 4, shape).astype(dtype) for shape, dtype in shapes]
    for name, module in (("cpu", before), ("simulator", after)):
        program = get_device(name).compile(module)
        found.append(program([*values[:-1], np.full_like(values[-1], 7)])[-1])
        assert list(getattr(program, "findings", [])) == []
    np.testing.assert_array_equal(found[1], found[0])


CHAIN = """
A (32, 32) {dtype}, B (32, 32) {dtype}, V (32, 48) {dtype}, C (32, 48)
X = T.sblock_alloc_buffer((32, 32))
P = T.sblock_alloc_buffer((32, 32))
Y = T.sblock_alloc_buffer((32, 48))
for i, j, k in T.grid(32, 32, 32):
    with T.sblock("X", "SSR", i, j, k):
        X[vi, vj] += T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vj, vk])
for i, j in T.grid(32, 32):
    with T.sblock("P", "SS", i, j):
        P[vi, vj] = T.max(X[vi, vj], T.float32(0))
for i, j, k in T.grid(32, 48, 32):
    with T.sblock("Y", "SSR", i, j, k):
        Y[vi, vj] += T.Cast("float32", T.Cast("{dtype}", P[vi, vk])) * T.Cast(
            "float32", V[vk, vj])
for i, j in T.grid(32, 48):
    with T.sblock("C", "SS", i, j):
        C[vi, vj] = Y[vi, vj]
"""


def prepare_chain(module: tvm.IRModule) -> tuple[Schedule, Callable[[Schedule], None]]:
    """All up to what goes on tensor cores and lanes, and that."""
    sch = Schedule(module)
    first, between, second, result = (sch.get_sblock(name) for name in "XPYC")
    rounded = tr.round_operand(sch, second, operand=0)
    warp = take_warps(sch)
    for block in (second, rounded, between, first):
        tr.compute_block_at(sch, block, warp)
    products = tr.tile_product(sch, first), tr.tile_product(sch, second)
    for block in (products[0].block, between, rounded, products[1].block):
        tr.lay_in_quads(sch, block, rows=0, columns=1)
    values = load(sch, products[1], 1, warp)
    loads = [load(sch, products[0], operand, warp) for operand in (0, 1)]
    zeros = [tr.decompose_reduction_at(sch, it.block, it.step) for it in products]

    def finish(sch: Schedule) -> None:
        tr.tensorize_in_quads(sch, products[0].block, loads, zeros[0])
        tr.tensorize_in_quads(sch, products[1].block, [values], zeros[1])
        for block in (result, rounded, between):
            tr.spread_over_quads(sch, block)

    return sch, finish


@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_a_chain_of_products_in_a_transform_of_one_s_own(dtype: str) -> None:
    """What lies between is an operand as it is: it never leaves its lanes."""
    before = parse_kernel(CHAIN.format(dtype=dtype))
    sch, finish = prepare_chain(before)
    transform(finish)(sch)
    assert "X_shared" not in sch.mod.script()
    check_numbers(before, sch.mod)


@pytest.mark.share(4)
def test_tensorize_in_quads_refuses_what_does_not_fit():
    sch, finish = prepare_chain(parse_kernel(CHAIN.format(dtype="float16")))
    with refuses(sch, "lays 'X_local' out over the registers of a warp's lanes, and block 'P' wou"):
        finish(sch)
    sch, block, loads, zeros = prepare_one(make_one(), spreads=False)
    with refuses(sch, "and block 'C' would use them as plain registers"):
        tr.tensorize_in_quads(sch, block, loads, zeros)
    sch, block, loads, zeros = prepare_one(make_one(), lays=False, spreads=False)
    with refuses(sch, "'X' of block 'X_o_update' is not a fragment in registers; lay it out with"):
        tr.tensorize_in_quads(sch, block, loads, zeros)
    sch, block, loads, zeros = prepare_one(make_one(), decomposes=False)
    with refuses(sch, "block 'X_o' begins its own sums; decompose it"):
        tr.tensorize_in_quads(sch, block, loads, zeros)
    with refuses(sch, "block 'C' is not a product of fragments; pass the block that tile_product"):
        tr.tensorize_in_quads(sch, zeros, loads, None)
    sch, block, (a, b), zeros = prepare_one(make_one())
    with refuses(sch, "none of 0 loads copies 'B_local', the B of block 'X_o_update'; cache it"):
        tr.tensorize_in_quads(sch, block, [], zeros)
    with refuses(sch, "none of 1 loads copies 'B_local'"):
        tr.tensorize_in_quads(sch, block, [a], zeros)
    with refuses(sch, "' of block 'X_o_update' is not a fragment in registers; lay it out"):
        tr.tensorize_in_quads(sch, block, [b], zeros)
    fetch, result = sch.get_producers(b)[0], sch.get_sblock("C")
    with refuses(sch, "copies no operand of block 'X_o_update' from shared.dyn memory into reg"):
        tr.tensorize_in_quads(sch, block, [a, fetch], zeros)
    with refuses(sch, "block 'C' must zero 'X_local' and nothing else"):
        tr.tensorize_in_quads(sch, block, [a, b], result)
    for dtype, acc in [("float32", "float32"), ("int8", "int32")]:
        sch, block, loads, zeros = prepare_one(make_one(dtype, acc=acc, finish="X[vi, vj]"))
        with refuses(sch, f"operands of {dtype} are not of 16 bits; use float16 or bfloat16"):
            tr.tensorize_in_quads(sch, block, loads, zeros)
