"""The gated layer and the product behind a norm in one kernel: what drawn numbers do not show."""

import numpy as np
import pytest
from golden_runs import require_right
from tvm.s_tir import SBlock, Schedule

from tirstep.lowering_checks import get_device, run_recipe
from tirstep.modules import rms_norm_matmul
from tirstep.transforms import fuse_reductions, split_loop
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.tir import find_all


def list_blocks(name: str, shape: dict[str, int], **config: object) -> list[str]:
    run = run_recipe(RECIPES[name], shape, config=config)
    return [str(block.name_hint) for block in find_all(run.steps[-1].module["main"].body, SBlock)]


@pytest.mark.parametrize("kernel", ["mlp_swiglu", "rms_norm_matmul"])
def test_both_sums_share_one_tile_of_x(kernel: str) -> None:
    names = list_blocks(f"{kernel}_warps", {"m": 128, "n": 128, "k": 32})
    assert [name for name in names if name.startswith("X_")] == ["X_shared", "X_shared_local"]


def test_a_guarded_tile_is_no_larger_than_the_result() -> None:
    """Of 5 rows and 17 columns: 2 rows of threads with 4 rows each, and 5 columns with 4."""
    run = run_recipe(
        RECIPES["mlp_swiglu_prefetched"], {"m": 5, "n": 17, "k": 9}, config={"tail": "guard"}
    )
    assert 'T.thread_binding(10, thread="threadIdx.x")' in run.steps[-1].module.script()
    assert 'thread="vthread.x"' not in run.steps[-1].module.script().replace(
        'T.thread_binding(1, thread="vthread.x")', ""
    )


def test_no_pipeline_is_made_of_one_step() -> None:
    run = run_recipe(
        RECIPES["rms_norm_matmul_prefetched"], {"m": 128, "n": 128, "k": 8}, config={"tile_k": 8}
    )
    assert run.steps[-1].name == "decomposed"


def test_what_the_norm_keeps_in_float16_s_range_needs_it_no_more() -> None:
    """x * gain is beyond float16 in all terms, and what it comes to is not."""
    run = run_recipe(
        RECIPES["rms_norm_matmul_fused"],
        {"m": 4, "n": 4, "k": 8},
        options={"dtype": "float16", "out": "float16"},
        config={"tail": "guard"},
    )
    x = np.full((4, 8), 60000.0, "float16")
    gain, w = np.full(8, 4.0, "float16"), np.full((8, 4), 0.5, "float16")
    blank = np.full((4, 4), np.nan, "float16")
    *_, got = get_device("cpu").compile(run.steps[-1].module)([x, gain, w, blank])
    np.testing.assert_array_equal(got, np.full((4, 4), 16.0))


def test_the_norm_could_be_repaired_too() -> None:
    """As docs/fusion.md says: the factor that a rolling update would need is derived."""
    sch = Schedule(rms_norm_matmul(8, 12, 16))
    squares, product = sch.get_sblock("sum"), sch.get_sblock("C")
    steps, _ = split_loop(sch, sch.get_loops(squares)[1], inner=4)
    fuse_reductions(sch, squares, product, steps)
    old, new = (f"T.rsqrt(squares{which}[vi] / T.float32(16.0)" for which in ("_previous", ""))
    (repair,) = [line for line in sch.mod.script().splitlines() if old in line]
    assert f"C_acc[vi, vj] * ({new}" in repair


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("rms_norm_matmul_rows", {"m": 3, "n": 5, "k": 64}),
        ("attention_rows", {"batch": 1, "heads": 1, "queries": 3, "keys": 64, "dim": 8}),
        ("decode_attention_warps", {"batch": 3, "heads": 1, "keys": 64, "dim": 8}),
    ],
)
def test_rows_that_a_block_has_too_many_of_and_a_warp_divides(name: str, shape: dict[str, int]):
    """The guard of the rows is the only one there, which TVM loses where threads reduce a row."""
    run = run_recipe(RECIPES[name], shape, config={"threads": (4, 8), "tail": "guard"})
    require_right(run)
