"""Matmul on tensor cores: types, shapes and configs on the simulator."""

import re

import pytest
from golden_runs import require_right, run_golden
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.facts import get_facts
from tirstep.modules import matmul
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.matmul_best import choose

SIMULATOR = get_device("simulator")
LAST = RECIPES["matmul_mma_rows"]
SMALL = {**LAST.golden.config, "store": "registers"}


CASES = [
    *(
        ((32, 64, 192), {"dtype": dtype, "out": out, "transpose_b": turned}, {"tile_k": 64})
        for dtype, out, turned in (
            ("float16", "float32", False),
            ("float16", "float16", True),
            ("bfloat16", "bfloat16", False),
            ("int8", "int32", False),
            ("int8", "int32", True),
            ("float8_e4m3fn", "float32", True),
            ("float8_e5m2", "float8_e5m2", False),
            ("tf32", "float32", False),
            ("tf32", "float32", True),
        )
    ),
    *(
        (shape, {"dtype": "bfloat16", "out": "bfloat16"}, {"tail": tail})
        for shape in ((62, 97, 41), (1, 1, 1), (17, 40, 133))
        for tail in ("pad", "copy")
    ),
    *(
        ((32, 64, 256), {"dtype": "float16"}, config)
        for config in (
            {"split_k": 2},
            {"split_k": 2, "tail": "copy"},
            {"store": "shared"},
            {"stages": 2},
            {"stages": 4, "tile_k": 64},
            {"layout": "padded"},
            {"tile": (32, 32), "warp": (32, 16)},
        )
    ),
]


@pytest.mark.share(9)
@pytest.mark.parametrize(("shape", "options", "config"), CASES, ids=str)
def test_types_shapes_and_configs(shape: tuple, options: dict, config: dict) -> None:
    sizes = dict(zip("mnk", shape, strict=True))
    require_right(run_recipe(LAST, sizes, options=options, config={**SMALL, **config}))


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "name",
    [f"matmul_mma_{it}" for it in ("rows", "split_k", "best")]
    + [f"matmul_wgmma_{it}" for it in ("split_k", "roles")],
)
def test_every_step_is_right(name: str) -> None:
    """On the CPU while it has no instruction, which the simulator would take minutes for."""
    run, cpu = run_golden(RECIPES[name]), get_device("cpu")
    for step in run.steps:
        device = cpu if cpu.find_obstacle(step.module) is None else SIMULATOR
        if device.find_obstacle(step.module) is not None:
            assert step.name == "tensorized" or step is not run.steps[-1]
            continue  # the second kernel of split-K is not bound yet
        assert check_numbers(run.problem, step.module, device, where=step.name) == []


def test_the_last_steps_are_right_at_one_small_tile() -> None:
    """Before its instructions each lane computes the whole tile, which takes the simulator long."""
    config = {"tile": (16, 16), "warp": (16, 16), "tile_k": 16, "tail": "refuse"}
    run = run_recipe(
        RECIPES["matmul_mma"],
        {"m": 16, "n": 16, "k": 16},
        options={"dtype": "float16"},
        config=config,
    )
    for step in run.steps[-3:]:
        if SIMULATOR.find_obstacle(step.module) is None:
            assert check_numbers(run.problem, step.module, SIMULATOR, where=step.name) == []


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", ["int8", "float8_e5m2"])
@pytest.mark.parametrize("tail", ["pad", "copy"])
@pytest.mark.parametrize("name", ["matmul_mma_swizzled", "matmul_mma_rows"])
def test_guarded_vectors_of_bytes_are_ones_that_cuda_has(name: str, tail: str, dtype: str) -> None:
    """TVM makes `make_int4` of 16 zeros otherwise, and refuses vectors of float8 in registers."""
    config = {"tile": (64, 128), "warp": (32, 64), "tile_k": 64, "tail": tail}
    shape = {"m": 96, "n": 80, "k": 1}
    run = run_recipe(RECIPES[name], shape, options={"dtype": dtype}, config=config)
    facts = get_facts(run.steps[-1].module, "cuda", problem=run.problem)
    assert facts.refusal is None
    calls = re.findall(r"make_\w+?([1248])\(([^;]*)\);", facts.source)
    assert [call for call in calls if call[1].count(",") + 1 > int(call[0])] == []


@pytest.mark.parametrize("name", ["matmul_mma_rows", "matmul_wgmma_rows"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_other_types_are_refused(name: str, dtype: str) -> None:
    message = f"tensor cores do not multiply {dtype} as it is; use float16, bfloat16"
    with pytest.raises(TransformError, match=message):
        run_recipe(RECIPES[name], {"m": 128, "n": 128, "k": 128}, options={"dtype": dtype})


def test_more_shared_memory_than_there_is_is_refused() -> None:
    message = "6 stages of tiles of .128, 256. by tile_k=64 take 288 KiB of shared memory, and a bl"
    with pytest.raises(TransformError, match=message):
        LAST(Schedule(matmul(128, 256, 512, dtype="float16")), tile=(128, 256), tile_k=64, stages=6)


@pytest.mark.parametrize(
    ("engine", "shape", "split_k", "tail"),
    [
        ("mma", (16, 4096, 4096), 4, "refuse"),
        ("wgmma", (16, 1024, 16384), 16, "pad"),
        *(
            (engine, *chosen)
            for engine in ("mma", "wgmma")
            for chosen in (
                ((4096, 4096, 4096), 1, "refuse"),
                ((1000, 776, 328), 1, "pad"),
                ((1000, 777, 333), 1, "copy"),
            )
        ),
    ],
)
def test_the_chosen_config_fits_the_shape(
    engine: str, shape: tuple[int, int, int], split_k: int, tail: str
) -> None:
    sch = Schedule(matmul(*shape, dtype="float16"))
    config = choose(sch, f"matmul_{engine}_best", "none").config
    assert (config.split_k, config.tail) == (split_k, tail)
    shared = sum(config.tile) * config.tile_k * 2 * config.stages
    if engine == "wgmma":
        assert shared <= 227 << 10
        assert config.warpgroup[0] % 64 == config.warpgroup[1] % 8 == 0
    else:
        assert shared <= 163 << 10  # of a block on compute capability 8.0
        assert config.tile[0] % config.warp[0] == config.tile[1] % config.warp[1] == 0
