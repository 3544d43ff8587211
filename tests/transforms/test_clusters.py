"""Tiles that blocks of a cluster copy for one another: a pair, numbers, bugs, and refusals."""

from collections.abc import Callable

import pytest
import tvm
import tvm_ffi
from golden_runs import read_step
from pairs import check_pair, refuses
from tvm.ir import Call
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.tirx import Evaluate, For, IntImm
from tvm_ffi import structural_map

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.devices.device import blank
from tirstep.lowering_checks.devices.simulator import lower, simulate_lowered
from tirstep.lowering_checks.steps import Run
from tirstep.transforms import TransformError, multicast_in_clusters
from tirstep.transforms.passes.clusters import Cluster
from tirstep.transforms.passes.tma_pipeline import if_one_lane
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.tma_tiles import TMA_OVERLAP

SIMULATOR = get_device("simulator")
NAME = "matmul_wgmma_multicast"
MULTICAST, ROLES, MMA = (
    RECIPES[name] for name in (NAME, "matmul_wgmma_roles", "matmul_mma_tma_roles")
)


def read(step: str, recipe: str = NAME) -> Schedule:
    return Schedule(read_step(step, recipe))


def find_loop(sch: Schedule):
    """The loop over tiles."""
    loops = sch.get_loops(sch.get_sblock("A_shared.dyn"))
    return next(loop for loop in loops if sch.get(loop).loop_var.name == "k_0")


def run_with(recipe, shape: tuple[int, int, int], options: dict, config: dict) -> Run:
    sizes = dict(zip("mnk", shape, strict=True))
    return run_recipe(recipe, sizes, options=options, config={**recipe.golden.config, **config})


def test_multicast_in_clusters_pair() -> None:
    before = read("08_warps_specialized").mod
    after = read("09_multicast_in_clusters").mod
    check_pair(before, lambda sch: multicast_in_clusters(sch, find_loop(sch)), after)


# ---- Numbers, on the simulator


@pytest.mark.parametrize(
    ("shape", "options", "config"),
    [
        ((64, 128, 192), {"dtype": "float16"}, {"cluster": (1, 2)}),
        (
            (128, 128, 128),
            {"dtype": "bfloat16", "out": "bfloat16", "transpose_b": True},
            {"cluster": (2, 2), "stages": 2},
        ),
        (
            (256, 64, 128),
            {"dtype": "int8", "out": "int32", "transpose_b": True},
            {"cluster": (4, 1), "swizzle": 4},
        ),
        # Three tiles of rows, and a fourth of zeros alone, which makes the last cluster whole.
        ((130, 40, 72), {"dtype": "bfloat16", "out": "bfloat16"}, {"tail": "pad"}),
        ((128, 64, 64), {"dtype": "tf32", "transpose_b": True}, {"tile_k": 32}),
        ((64, 128, 192), {"dtype": "float16"}, {"cluster": (1, 2), "split_k": 3}),
    ],
    ids=str,
)
def test_slices_of_all_blocks_arrive(shape, options: dict, config: dict) -> None:
    run = run_with(MULTICAST, shape, options, config)
    last = run.steps[-1].module
    assert check_numbers(run.problem, last, SIMULATOR, where=str(config)) == []
    script = lower(last).script()
    if "split_k" not in config:  # of which each slice has a single step
        assert '"multicast::cluster"' in script
        assert 'T.launch_thread("clusterCtaIdx.x"' in script


def multicast_mma(cluster: tuple[int, int] = (2, 1)) -> tuple[tvm.IRModule, Run]:
    """A matmul by mma.sync, whose threads load tiles themselves."""
    config = {"swizzle": 2, "tile": (32, 32), "warp": (16, 32)}
    run = run_with(MMA, (64, 32, 128), {"dtype": "float16"}, config)
    sch = Schedule(run.steps[-1].module)
    multicast_in_clusters(sch, find_loop(sch), cluster=cluster)
    return lower(sch.mod), run


def test_threads_release_what_they_load_to_the_cluster() -> None:
    """What tensor cores read by themselves needs no release, which would wait for all stores."""
    module, run = multicast_mma()
    assert find_kinds(module, run) == set()
    script = module.script()
    assert '"release", "cluster", "shared::cluster"' in script
    assert "mbarrier_wait_acquire_cluster" in script
    alone = change_calls(module, "wait_acquire_cluster", wait_in_block)
    assert "race" in find_kinds(alone, run)
    relaxed = change_calls(module, "arrive_nocount", relax)
    assert "race" in find_kinds(relaxed, run)


def relax(arguments: list) -> list:
    words = [str(getattr(each, "value", "")) for each in arguments]
    if "shared::cluster" in words:
        arguments[words.index("release")] = tvm.ir.StringImm("relaxed")
    return arguments


def wait_in_block(arguments: list) -> Call:
    return T.cuda.mbarrier_wait(*arguments)


# ---- Bugs that die without a GPU


def find_kinds(module: tvm.IRModule, run: Run) -> set[str]:
    arguments = [*run.problem.integer_inputs(0), *map(blank, run.problem.outputs)]
    return {found.kind for found in simulate_lowered(module, arguments).findings}


def change_calls(module: tvm.IRModule, name: str, change: Callable) -> tvm.IRModule:
    """The module with other arguments of all calls of a function, or another call."""

    def rewrite(call: Call) -> Call:
        if not str(getattr(call.op, "name", "")).endswith(name):
            return call
        made = change(list(call.args))
        return made if isinstance(made, Call) else Call(call.op, made, call.attrs, ret_ty=call.ty)

    functions = module.functions_items()
    return tvm.IRModule({var: structural_map(each, (Call, rewrite)) for var, each in functions})


def drop(module: tvm.IRModule, kind: type, is_wanted: Callable) -> tvm.IRModule:
    """The module without statements of a kind."""

    def rewrite(statement):
        return Evaluate(0) if is_wanted(statement) else statement

    functions = module.functions_items()
    return tvm.IRModule({var: structural_map(each, (kind, rewrite)) for var, each in functions})


def drop_calls(module: tvm.IRModule, name: str) -> tvm.IRModule:
    return drop(
        module, Evaluate, lambda it: name in str(getattr(getattr(it.value, "op", None), "name", ""))
    )


def to_itself(arguments: list) -> list:
    """A copy for both blocks goes to the first alone."""
    found = [at for at, each in enumerate(arguments) if str(getattr(each, "ty", "")) == "uint16"]
    for at in found:
        arguments[at] = IntImm("uint16", 1)
    return arguments


def set_second(value: int, *, old: int) -> Callable:
    def change(arguments: list) -> list:
        if getattr(arguments[1], "value", None) == old:
            arguments[1] = IntImm("uint32", value)
        return arguments

    return change


def arrive_at_first(arguments: list) -> list:
    arguments[2] = IntImm("uint32", 0)
    return arguments


BUGS = {
    "mask without a peer": (
        "deadlock",
        lambda module: change_calls(module, "bulk_tensor_g2s_cluster", to_itself),
    ),
    "bytes of the own slice alone": (
        "deadlock",
        lambda module: change_calls(module, "arrive_expect_tx", set_second(12288, old=16384)),
    ),
    "arrivals of the own block alone": (
        "deadlock",
        lambda module: change_calls(module, "ptx.mbarrier_init", set_second(4, old=8)),
    ),
    "remote arrivals at one block": (
        "deadlock",
        lambda module: change_calls(module, "mapa_u32", arrive_at_first),
    ),
    "no barrier of the cluster": (
        "mbarrier",
        lambda module: drop_calls(module, "barrier_cluster"),
    ),
    "mbarriers that no fence releases to the cluster": (
        "mbarrier",
        lambda module: drop_calls(module, "fence_mbarrier_init"),
    ),
    "no wait for the last arrivals": (
        "undefined operation",
        lambda module: drop(module, For, lambda it: it.loop_var.name.endswith("_emptied")),
    ),
}


@pytest.fixture(scope="module")
def lowered() -> tuple[tvm.IRModule, Run]:
    run = run_with(MULTICAST, (128, 64, 384), {"dtype": "float16"}, {})
    return lower(run.steps[-1].module), run


def test_the_recipe_has_no_finding(lowered) -> None:
    assert find_kinds(*lowered) == set()


@pytest.mark.parametrize("name", list(BUGS))
def test_a_bug_dies(lowered, name: str) -> None:
    module, run = lowered
    kind, plant = BUGS[name]
    planted = plant(module)
    assert not tvm_ffi.structural_equal(planted, module)
    assert kind in find_kinds(planted, run)


def test_stages_are_empty_when_all_blocks_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """An mbarrier that tells of the own block alone lets copies overwrite a peer's tiles."""

    def arrive(self: Cluster, lane, pointer, *, releases: bool) -> Evaluate:
        return if_one_lane([Evaluate(T.ptx["mbarrier.arrive.shared.b64"](pointer))])

    run = run_with(MULTICAST, (128, 64, 384), {"dtype": "float16"}, {})
    monkeypatch.setattr(Cluster, "arrive", arrive)
    own = change_calls(lower(run.steps[-1].module), "ptx.mbarrier_init", set_second(4, old=8))
    assert "race" in find_kinds(own, run)


# ---- Refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": (1, 1)}, r"cluster=.1, 1. is no pair of 2 to 8 blocks together"),
        ({"cluster": (16, 1)}, r"cluster=.16, 1. is no pair"),
        ({"cluster": (2,)}, r"cluster=.2,. is no pair"),
        ({"arch": "sm_80"}, "sm_80 has no TMA"),
        ({"cluster": (3, 1)}, "8 blocks on blockIdx.x do not divide into clusters of 3"),
        (
            {"cluster": (1, 2)},
            "blocks 0 and 1 of a cluster of 1 by 2 neighbours on blockIdx.x do not have the same "
            "tile of block 'A_shared.dyn'; order tiles so that clusters are neighbours",
        ),
        ({"cluster": (4, 1)}, "blocks 0 and 2 of a cluster of 4 by 1 .* of block 'B_shared.dyn'"),
    ],
)
def test_multicast_in_clusters_refuses(options: dict, message: str) -> None:
    sch = read("08_warps_specialized")
    loop = find_loop(sch)
    with refuses(sch, f"multicast_in_clusters: {message}"):
        multicast_in_clusters(sch, loop, **options)


@pytest.mark.parametrize(
    ("recipe", "step"),
    [
        (NAME, "09_multicast_in_clusters"),
        (NAME, "07_tensorized"),
        ("matmul_wgmma_rows", "07_tensorized"),
    ],
)
def test_multicast_in_clusters_needs_roles_once(recipe: str, step: str) -> None:
    sch = read(step, recipe)
    loop = find_loop(sch)
    with refuses(sch, "multicast_in_clusters: loop 'k_0' is no pipeline by the TMA in which warps"):
        multicast_in_clusters(sch, loop)


def test_multicast_in_clusters_refuses_slices_of_no_whole_rows() -> None:
    config = {"tile": (64, 32), "swizzle": 8}
    run = run_with(ROLES, (512, 32, 192), {"dtype": "float16"}, config)
    sch = Schedule(run.steps[-1].module)
    loop = find_loop(sch)
    with refuses(sch, r"block 'B_shared.dyn' copies .64, 32. at once, of which 8 blocks cannot"):
        multicast_in_clusters(sch, loop, cluster=(8, 1))


def test_multicast_in_clusters_refuses_overlapping_products() -> None:
    sch = read("08_warps_specialized")
    loop = find_loop(sch)
    sch.annotate(loop, TMA_OVERLAP, 1)
    with refuses(sch, "multicast_in_clusters: loop 'k_0' overlaps its products"):
        multicast_in_clusters(sch, loop)


def test_a_cluster_that_tiles_do_not_divide_is_refused() -> None:
    with pytest.raises(TransformError, match="does not divide 192 rows"):
        run_with(MULTICAST, (192, 64, 192), {"dtype": "float16"}, {})


@pytest.mark.gpu
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2)], ids=str)
@pytest.mark.parametrize("shape", [(512, 1024, 512), (1000, 776, 328)], ids=str)
def test_a_gpu_agrees(cluster: tuple[int, int], shape: tuple[int, int, int]) -> None:
    config = {"cluster": cluster, "tail": "refuse" if shape[0] % 128 == 0 else "pad"}
    sizes = dict(zip("mnk", shape, strict=True))
    run = run_recipe(MULTICAST, sizes, options={"dtype": "bfloat16"}, config=config)
    last = run.steps[-1].module
    assert check_numbers(run.problem, last, get_device("cuda"), where=str(cluster)) == []
