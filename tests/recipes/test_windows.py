"""What the rungs of conv1d and depthwise_conv2d promise of memory, counted on the simulator."""

import pytest

from tirstep.lowering_checks import Counts, count_accesses, run_recipe
from tirstep.modules.convolution import CONV1D_TILE
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES, conv1d

SIGNAL = {"m": 1000, "n": 32}
STRIP = {"images": 2, "planes": 4, "threads": (1, 8), "thread_tile": (16, 4)}
IMAGES = {"b": 2, "c": 4, "h": 16, "w": 32, "k": 7}


def count(name: str, shape: dict[str, int], **sizes: object) -> Counts:
    run = run_recipe(RECIPES[name], shape, config=sizes)
    return count_accesses(run.problem, run.steps[-1].module)


def test_the_rungs_of_conv1d_have_fewer_conflicts_and_sectors() -> None:
    names = ("registers", "coalesced")
    rungs = [count(f"conv1d_{name}", SIGNAL, threads=32, each=8) for name in names]
    registers, coalesced = (rung.scopes["shared"] for rung in rungs)
    # A warp reads its window in 40 loads, four threads from each bank; of rows, in ten vectors. Its
    # sums, side by side, fill the sectors that they are stored to; that costs few conflicts.
    assert registers.bank_conflicts > 8 * coalesced.bank_conflicts
    assert 3 * coalesced.requests <= 2 * registers.requests
    assert rungs[0].scopes["global"].sectors_per_request > 16
    assert rungs[1].scopes["global"].sectors_per_request == pytest.approx(4, abs=0.1)


def test_the_window_of_a_thread_alone_is_free_of_conflicts() -> None:
    """With four outputs a thread's run is one vector, and there is nothing to fold."""
    shared = count("conv1d_coalesced", SIGNAL, each=4, threads=64).scopes["shared"]
    assert shared.bank_conflicts == 0


def test_tiles_of_conv1d_are_those_of_the_kernel() -> None:
    assert conv1d.MAX_TILE == CONV1D_TILE


@pytest.mark.parametrize("sizes", [{"threads": 48}, {"each": 2048}, {"each": 0}])
def test_tiles_that_do_not_divide_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(TransformError, match=r"do not divide the 1024 outputs of a tile; use pow"):
        run_recipe(RECIPES["conv1d_coalesced"], SIGNAL, config=sizes)


def test_zeros_and_image_are_written_without_a_question() -> None:
    """Of a plane that is a whole tile, no load and no store of the image is guarded."""
    run = run_recipe(RECIPES["depthwise_conv2d_planes"], IMAGES, config={"planes": 4})
    counts = count_accesses(run.problem, run.steps[-1].module)
    assert "if_then_else" not in run.steps[-1].module.script()
    # 512 pixels of four planes as vectors of four, both ways, and 49 taps for each of four warps.
    assert counts.scopes["global"].requests == 16 + 16 + 4 * 49


@pytest.mark.parametrize(
    ("blocks", "images", "planes", "rows"),
    [(1, 2, 4, 16), (2, 2, 2, 16), (4, 2, 1, 16), (8, 1, 1, 16), (16, 1, 1, 8)],
)
def test_few_images_get_shorter_strips(blocks: int, images: int, planes: int, rows: int) -> None:
    sizes = {**STRIP, "blocks": blocks}
    text = run_recipe(RECIPES["depthwise_conv2d_strips"], IMAGES, config=sizes).steps[2].module
    threads = images * planes * 8
    assert f'in T.thread_binding({threads}, thread="threadIdx.x")' in text.script()
    assert f'in T.thread_binding({16 // rows}, thread="blockIdx.y")' in text.script()


def test_a_strip_loads_each_row_of_its_window_once() -> None:
    """Sixteen rows of three vectors each, of which a warp has four planes, and 49 taps."""
    sizes = {**STRIP, "blocks": 1}
    run = run_recipe(RECIPES["depthwise_conv2d_strips"], IMAGES, config=sizes)
    counts = count_accesses(run.problem, run.steps[-1].module)
    assert "shared" not in counts.scopes
    # Two warps load 16 rows of three vectors and 49 taps, and store 16 rows.
    assert counts.scopes["global"].requests == 2 * (16 * 3 + 49 + 16)
