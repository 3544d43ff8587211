"""Fragments of mma.sync: one layout for the intrinsics, the simulator and the manual of PTX."""

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks.devices.simulator import simulate
from tirstep.modules import matmul
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.tensor_cores.fragments import get_depth, get_mma_intrinsics

TYPES = [
    ("float16", "float32"),
    ("float16", "float16"),
    ("bfloat16", "float32"),
    ("float32", "float32"),
    ("int8", "int32"),
    ("float8_e4m3fn", "float32"),
    ("float8_e5m2", "float32"),
]


def tensorize_matmul(
    shape: tuple[int, int, int], dtype: str, acc: str, transpose_b: bool = False, **options
) -> tvm.IRModule:
    """One warp a block, with a tile of 16×32; two fragments of k in shared memory at once."""
    bits = tvm.DataType(dtype).bits
    sch = Schedule(matmul(*shape, dtype=dtype, acc=acc, transpose_b=transpose_b))
    tile = tr.tile_in_fragments(
        sch,
        sch.get_sblock("C"),
        tile=(16, 32),
        warp=(16, 32),
        tile_k=2 * get_depth(bits),
        depth=get_depth(bits),
    )
    store = tr.accumulate_in_registers(sch, tile.block, tile.warps)
    loads = []
    for operand in range(2):
        tr.stage_fragments_at(
            sch, tile.block, tile.outer, operand=operand, warps=1, vector=4, tail="guard", **options
        )
    for operand in range(2):
        loads.append(tr.cache_read_at(sch, tile.block, tile.inner, operand=operand, scope="local"))
    zeros = tr.decompose_reduction_at(sch, tile.block, tile.outer)
    tr.tensorize_fragments(sch, tile.block, loads, zeros, store, tf32=True)
    return sch.mod


@pytest.mark.share(4)
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("dtype", "acc"), TYPES)
def test_a_tensorized_matmul_is_exact(dtype: str, acc: str, transpose_b: bool) -> None:
    """Small integers, whose sums all types hold."""
    module = tensorize_matmul((32, 64, 128), dtype, acc, transpose_b, layout="padded")
    random, held = np.random.default_rng(0), dtype_facts(dtype).numpy
    a = random.integers(-2, 3, (32, 128)).astype(held)
    b = random.integers(-2, 3, (64, 128) if transpose_b else (128, 64)).astype(held)
    blank = np.full((32, 64), -1, dtype_facts(acc).numpy)
    result = simulate(module, [a, b, blank])
    assert result.findings == []
    wide = b.astype("f8").T if transpose_b else b.astype("f8")
    np.testing.assert_array_equal(result.arguments[2].astype("f8"), a.astype("f8") @ wide)
    assert result.counts.matrix_multiplies > 0


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        ("float64", "mma.sync does not multiply float64; use one of float16"),
        ("bfloat16", "does not sum products of bfloat16 in bfloat16; sum them"),
    ],
)
def test_what_an_instruction_cannot_do_is_refused(dtype: str, message: str) -> None:
    with pytest.raises(tr.TransformError, match=message):
        get_mma_intrinsics(dtype, dtype)
