"""Products of 16 bits whose rows are no whole vectors: what is chosen, and what is copied."""

import pytest
from golden_runs import require_right
from tvm.s_tir import Schedule

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.facts import get_facts
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.gemm import GemmConfig
from tirstep.transforms.recipes.matmul_best import COPY_US, count_copies
from tirstep.transforms.recipes.matmul_best import choose as choose_best
from tirstep.transforms.recipes.mma import MmaConfig
from tirstep.transforms.recipes.time_model import GPUS, H200, Product
from tirstep.transforms.recipes.wgmma import WgmmaConfig


def run(recipe: str, m: int, n: int, k: int, dtype: str = "bfloat16", **config: object):
    options = {"dtype": dtype, "out": dtype}
    return run_recipe(RECIPES[recipe], {"m": m, "n": n, "k": k}, options=options, config=config)


def choose(m: int, n: int, k: int):
    options = {"dtype": "bfloat16", "out": "bfloat16"}
    problem = get_kernel("matmul").problem(m, n, k, **options)
    return choose_best(Schedule(problem.module), "matmul_wgmma_best", H200.name).config


@pytest.mark.parametrize(
    ("shape", "ladder", "kernels"), [((12, 20, 23), MmaConfig, 1), ((12, 20, 131), GemmConfig, 1)]
)
def test_what_reads_odd_rows_as_they_lie_is_chosen_and_right(shape, ladder, kernels):
    """By mma.sync where k is one step."""
    made = run("matmul_wgmma_best", *shape)
    found = get_facts(made.steps[-1].module).kernels
    assert isinstance(choose(*shape), ladder)
    assert len(found) == kernels
    assert found[0].wgmma == 0
    assert (found[0].mma > 0) == (ladder is MmaConfig)
    require_right(made)


def test_few_columns_are_read_in_slices_of_k_and_right():
    config = choose(2000, 11, 3001)
    assert isinstance(config, MmaConfig)
    assert config.split_k > 8
    made = run("matmul_mma_split_k", 70, 3, 130, **{**vars(config), "split_k": 2})
    require_right(made)


@pytest.mark.parametrize("shape", [(2000, 1501, 999), (500, 501, 1000), (64, 64, 64)])
def test_tiles_of_wgmma_are_kept_where_they_are_faster(shape):
    assert isinstance(choose(*shape), WgmmaConfig)


@pytest.mark.parametrize("shape", [(700, 700, 300), (500, 1000, 250), (2050, 514, 258)])
def test_rows_of_whole_pairs_are_read_as_they_lie_by_wgmma(shape):
    """Of few products, for which copies of operands would take longer."""
    config = choose(*shape)
    assert (type(config), config.tail) == (WgmmaConfig, "pad")
    made = run("matmul_wgmma_roles", 70, 100, 94, **{**vars(config), "tile": (64, 64)})
    (kernel,) = get_facts(made.steps[-1].module).kernels
    assert kernel.wgmma > 0
    require_right(made)


def test_large_ones_are_copied_for_tensor_cores():
    *copies, product = get_facts(run("matmul_wgmma_best", 900, 901, 499).steps[-1].module).kernels
    assert len(copies) == 2
    assert product.wgmma > 0


@pytest.mark.parametrize("shape", [(9, 24, 531), (9, 533, 40)])
def test_blocks_have_long_rows_that_are_copied_to_themselves(shape):
    made = run("matmul_mma_split_k", *shape, tile=(16, 32), warp=(16, 16), split_k=1, tail="copy")
    copy, _ = get_facts(made.steps[-1].module).kernels
    assert copy.threads < 256
    require_right(made)


def test_copies_are_counted_of_odd_rows_alone():
    times = [count_copies(Product(64, *nk, 2), H200) for nk in ((64, 64), (63, 64), (63, 63))]
    assert times[0] == 0
    assert COPY_US < times[1] < times[2] / 1.9
    long = Product(10000, 16, 5001, 2)
    assert count_copies(long, GPUS["NVIDIA A100-SXM4-80GB"]) > 2 * count_copies(long, H200)
