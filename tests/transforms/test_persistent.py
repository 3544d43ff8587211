"""Thread blocks that stay: a pair, numbers, bugs that die on the simulator, and what is refused."""

from collections.abc import Callable

import pytest
import tvm
from golden_runs import read_step
from kernels import parse_kernel
from pairs import check_pair, find_kinds, refuses
from tvm.s_tir import Schedule
from tvm.tirx import AttrStmt, IfThenElse

from tirstep.lowering_checks import check_numbers, get_device, run_golden, run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.lowering_checks.facts import get_facts
from tirstep.lowering_checks.steps import Run
from tirstep.modules import matmul_bias_gelu
from tirstep.transforms import TransformError, make_persistent
from tirstep.transforms.hopper.tma_loads import Pipeline
from tirstep.transforms.hopper.tma_tiles import TMA_COPY, TMA_PERSISTENT, TMA_ROLES
from tirstep.transforms.hopper.warp_roles import NameBarriersOfRoles
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.wgmma import WgmmaConfig, WgmmaEngine
from tirstep.transforms.tir import find_all

SIMULATOR = get_device("simulator")
ROLES, STAYS = RECIPES["matmul_wgmma_roles"], RECIPES["matmul_wgmma_persistent"]
BATCHES = RECIPES["batched_matmul_wgmma"]
HALF = {"dtype": "bfloat16", "out": "bfloat16"}
HALVES = {"dtype": "float16", "out": "float16"}
FLOAT8 = {"dtype": "float8_e4m3fn", "acc": "fp22", "transpose_b": True, "out": "bfloat16"}
INT8 = {"dtype": "int8", "out": "int32", "transpose_b": True}
SMALL = {**STAYS.golden.config, "tile": (64, 64), "store": "shared"}


def find_loop(sch: Schedule):
    """The loop over tiles around the copy of A."""
    copy = sch.get_sblock("A_shared.dyn")
    return next(loop for loop in sch.get_loops(copy) if sch.get(loop).loop_var.name == "k_0")


def make_run(shape: tuple[int, ...], options: dict, config: dict, recipe=STAYS) -> Run:
    sizes = dict(zip(recipe.golden.shape, shape, strict=True))
    base = SMALL if recipe is STAYS else recipe.golden.config
    return run_recipe(recipe, sizes, options=options, config={**base, **config})


# ---- A pair of the transform, and one of the pass


def test_make_persistent_pair() -> None:
    def read(step: str) -> tvm.IRModule:
        return read_step(step, STAYS.name)

    def change(sch: Schedule) -> None:
        make_persistent(sch, find_loop(sch), blocks=3)

    check_pair(read("09_warps_specialized"), change, read("10_blocks_stay"))


MARKED = """
A (96,)
        tx = T.launch_thread("threadIdx.x", 96)
        S = T.alloc_buffer((64,), scope="shared.dyn")
{body}
"""
BEFORE = """\
        with T.attr(64, "tirstep_warps_compute", tx < 64):
            S[tx] = T.float32(1)
            T.tvm_storage_sync("shared.dyn")
            A[tx] = S[63 - tx]
        with T.attr(64, "tirstep_warps_copy", tx < 64):
            A[tx] = T.float32(2)
"""
AFTER = """\
        if tx < 64:
            S[tx] = T.float32(1)
            T.ptx.bar.sync(T.uint32(8), T.uint32(64))
            A[tx] = S[63 - tx]
        else:
            A[tx] = T.float32(2)
"""


def test_name_barriers_of_roles_pair() -> None:
    before, after = (parse_kernel(MARKED.format(body=body)) for body in (BEFORE, AFTER))
    tvm.ir.assert_structural_equal(NameBarriersOfRoles(before), after)
    # A statement between the two, as common subexpressions are: each has a condition then.
    apart = BEFORE.replace(
        '        with T.attr(64, "tirstep_warps_copy',
        '        A[0] = T.float32(0)\n        with T.attr(64, "tirstep_warps_copy',
    )
    made = NameBarriersOfRoles(parse_kernel(MARKED.format(body=apart)))
    assert len(find_all(made["main"].body, IfThenElse)) == 2
    assert not [
        each for each in find_all(made["main"].body, AttrStmt) if "tirstep" in each.attr_key
    ]


# ---- Numbers, on the simulator


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("recipe", "shape", "options", "config"),
    [
        (STAYS, (64, 320, 192), HALF, {}),  # rounds that do not come out even
        (STAYS, (64, 64, 192), HALVES, {}),  # fewer tiles than blocks
        (STAYS, (70, 133, 200), HALVES, {"persistent": 132, "tail": "pad"}),  # one for each block
        (STAYS, (64, 128, 96), {"dtype": "tf32"}, {"transpose": "kernel", "tile_k": 32}),
        (STAYS, (64, 192, 128), FLOAT8, {"stages": 5, "persistent": 2}),  # stages of other tiles
        (STAYS, (70, 70, 128), INT8, {"tail": "pad"}),
        (STAYS, (64, 64, 384), HALVES, {"split_k": 3, "store": "registers"}),  # blockIdx.y
        (BATCHES, (3, 64, 64, 128), HALF, {"persistent": 2}),  # blockIdx.z
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_every_tile_is_computed_once(recipe, shape, options: dict, config: dict) -> None:
    run = make_run(shape, options, config, recipe)
    last = run.steps[-1]
    assert last.name == "blocks_stay"
    assert check_numbers(run.problem, last.module, SIMULATOR, where=str(config)) == []
    grids = [each.blocks for each in get_facts(last.module, "cuda", problem=run.problem).kernels]
    assert min(grids) <= run.config["persistent"]


def test_a_bias_is_added_by_named_barriers() -> None:
    """What goes through shared memory has an epilogue, and barriers there are of some warps."""
    problem = matmul_bias_gelu.problem(72, 40, 128, **HALF)
    sch = Schedule(problem.module)
    config = WgmmaConfig(**{**STAYS.config, **SMALL, "tail": "pad", "persistent": 1})
    assert list(WgmmaEngine.run(sch, config))[-1] == "blocks_stay"
    assert check_numbers(problem, sch.mod, SIMULATOR, where="bias") == []


# ---- Memory, and fences


def simulate(module: tvm.IRModule, run: Run) -> set[str]:
    return find_kinds(lower(module), run)


@pytest.fixture(scope="module")
def run() -> Run:
    """Three tiles of two warpgroups for two blocks, of four steps for three stages each."""
    config = {"persistent": 2, "tile": (128, 64)}
    return make_run((128, 192, 256), {"dtype": "float16"}, config)


def test_the_last_stages_are_released_when_their_groups_have_ended(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pipeline, "wait_for_groups", lambda self: [])
    assert "race" in simulate(run.steps[-1].module, run)


def test_memory_of_stages_is_nothing_elses(run: Run) -> None:
    """TVM gives memory that is not used any more to others; that of stages always is used."""
    (kernel,) = get_facts(run.steps[-1].module, "cuda", problem=run.problem).kernels
    stages, sums, mbarriers = 3 * (128 + 64) * 64 * 2, 128 * (64 + 8) * 4, 1024
    assert kernel.dynamic_shared_bytes == stages + sums + mbarriers


def test_queries_are_fenced_for_each_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """If threads store them, and wgmma reads them, beside what bulk copies bring."""
    run = run_golden(RECIPES["attention_wgmma_roles"])
    sch = Schedule(run.steps[-1].module)
    sch.unannotate(sch.get_sblock("Q_shared.dyn"), TMA_COPY)
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    loops = [loop for block in blocks for loop in sch.get_loops(block)]
    loop = next(loop for loop in loops if TMA_ROLES in sch.get(loop).annotations)
    make_persistent(sch, loop, blocks=1)
    assert simulate(sch.mod, run) == set()
    monkeypatch.setattr(Pipeline, "fence_others", lambda self: [])
    assert simulate(sch.mod, run) == {"missing fence"}


# ---- What is refused


def annotate(key: str) -> Callable[[Schedule], None]:
    return lambda sch: sch.annotate(find_loop(sch), key, 1)


@pytest.mark.parametrize(
    ("prepare_more", "options", "message"),
    [
        (None, {"blocks": 2, "stages": 2}, "stages=2 are fewer than the 3 that loop 'k_0' has"),
        (None, {"blocks": 2, "stages": 64}, "stages=64 need 129 mbarriers, and there is room for"),
        (None, {"blocks": 2, "stages": 14}, "14 stages of loop 'k_0' and the tile that is stored"),
        (annotate(TMA_PERSISTENT), {"blocks": 2}, "loop 'k_0' is not a warp-specialized pipeline,"),
        (
            lambda sch: sch.unannotate(find_loop(sch), TMA_ROLES),
            {"blocks": 2},
            "loop 'k_0' is not a warp-specialized pipeline, .*; call specialize_warps",
        ),
    ],
)
def test_make_persistent_refuses(prepare_more, options: dict, message: str) -> None:
    sch = Schedule(run_golden(ROLES).steps[-1].module)
    if prepare_more:
        prepare_more(sch)
    loop = find_loop(sch)
    with refuses(sch, f"make_persistent: {message}"):
        make_persistent(sch, loop, **options)


def test_what_no_memory_is_left_for_is_stored_from_registers() -> None:
    """Or refused, where it is cropped on its way through shared memory."""
    wide = {**STAYS.config, "store": "shared"}
    run = run_recipe(STAYS, {"m": 128, "n": 256, "k": 256}, options=HALVES, config=wide)
    assert "C_shared" not in run.steps[-1].module.script()
    with pytest.raises(TransformError, match=r"4 stages of loop 'k_0' .* take 325 KiB of shared"):
        run_recipe(
            STAYS, {"m": 100, "n": 256, "k": 256}, options=HALVES, config={**wide, "tail": "pad"}
        )


# ---- On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("shape", "config"),
    [
        ((1024, 2304, 512), {"tile": (128, 256)}),
        ((1000, 776, 328), {"tile": (128, 128), "tail": "pad", "persistent": 20}),
        ((512, 512, 128), {"tile": (128, 128), "stages": 4, "persistent": 5}),
    ],
    ids=str,
)
def test_a_gpu_agrees(shape: tuple[int, int, int], config: dict) -> None:
    config = {**STAYS.config, **config}
    run = run_recipe(STAYS, dict(zip("mnk", shape, strict=True)), options=HALF, config=config)
    found = check_numbers(run.problem, run.steps[-1].module, get_device("cuda"), where=str(config))
    assert found == []
