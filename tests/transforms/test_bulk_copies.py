"""Bulk copies by the TMA: pairs out of the goldens, numbers, and what is refused."""

import re
from types import SimpleNamespace

import pytest
import tvm
from edits import NOTHING, edit
from golden_runs import run_golden
from kernels import at_block, parse_kernel
from mma_by_tma import MMA_BY_TMA as TMA
from mma_by_tma import MMA_IN_ROLES as ROLES
from pairs import check_pair, find_kinds, refuses
from tvm.ir import Call
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import tirx as T
from tvm.tirx import BufferStore, Evaluate, SeqStmt, call_intrin, decl_buffer

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.devices.simulator import lower
from tirstep.lowering_checks.facts import get_facts
from tirstep.lowering_checks.steps import Run
from tirstep.modules import matmul
from tirstep.transforms.annotations import TMA_IN_FLIGHT
from tirstep.transforms.hopper.tma_loads import Pipeline, drop_fences, make_barrier, measure_copy
from tirstep.transforms.hopper.tma_tiles import (
    TMA_COPY,
    TMA_ROLES,
    TMA_STAGES,
    CopyShape,
)
from tirstep.transforms.hopper.warp_roles import require_no_barrier
from tirstep.transforms.recipes import RECIPES, Recipe
from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import get_op_name

ATTENTION = RECIPES["attention_wgmma_roles"]
SIMULATOR = get_device("simulator")
WGMMA, WGMMA_ROLES = RECIPES["matmul_wgmma_tma"], RECIPES["matmul_wgmma_roles"]
TURNED, ROWS = {"transpose_b": True}, {"tile_k": 64, "layout": "rows"}
SMALL = {**ROLES.golden.config, "tile": (32, 32), "warp": (16, 32)}


def read(step: str, recipe: Recipe = TMA) -> tvm.IRModule:
    steps = {each.name: each.module for each in run_golden(recipe).steps}
    return from_source(steps[step].script())


def find_handles(sch: Schedule):
    """The loop over tiles, and the copies of A and of B."""
    copies = [sch.get_sblock(f"{name}_shared.dyn") for name in "AB"]
    return find_loop(sch, copies[0]), copies


def find_loop(sch: Schedule, copy):
    """The loop over tiles around a copy."""
    loops = {sch.get(loop).loop_var.name: loop for loop in sch.get_loops(copy)}
    return loops.get("k_0") or loops["j_0"]


def prepare(**changes) -> Schedule:
    """A schedule of the recipe, before the last step of it: tiles are copied by threads."""
    options = {"m": 32, "n": 64, "k": 96, "transpose_b": False, "dtype": "float16"}
    config = {key: value for key, value in changes.items() if key not in options}
    options |= {key: value for key, value in changes.items() if key in options}
    shape = {key: options.pop(key) for key in "mnk"}
    recipe = RECIPES["matmul_mma_fragments"]
    run = run_recipe(recipe, shape, options=options, config={**TMA.golden.config, **config})
    return Schedule(run.steps[-2].module)


# ---- Pairs


def test_prefetch_by_tma_pair() -> None:
    def change(sch: Schedule) -> None:
        outer, copies = find_handles(sch)
        tr.prefetch_by_tma(sch, outer, copies, stages=3)

    check_pair(read("fragments_ahead"), change, read("next_tiles_by_tma"))


def test_specialize_warps_pair() -> None:
    def change(sch: Schedule) -> None:
        tr.specialize_warps(sch, find_handles(sch)[0])

    check_pair(read("next_tiles_by_tma", ROLES), change, read("warps_specialized", ROLES))


def find_queries(sch: Schedule):
    """The loop over tiles of keys and values, and the copy of queries in front of it."""
    return find_loop(sch, sch.get_sblock("K_shared.dyn")), sch.get_sblock("Q_shared.dyn")


def test_copy_once_by_tma_pair() -> None:
    def change(sch: Schedule) -> None:
        loop, queries = find_queries(sch)
        tr.specialize_warps(sch, loop)
        tr.copy_once_by_tma(sch, loop, queries)

    before = run_golden(RECIPES["attention_wgmma_tma"]).steps[-1].module
    check_pair(before, change, read("warps_specialized", ATTENTION), is_verified=False)


COPY = """
A (4, 16) float16, B (4, 16) float16
with T.sblock("root"):
    S = T.sblock_alloc_buffer({shape}, "float16", scope="{scope}")
    for i, j in T.grid(4, 16):
        with T.sblock("copy"):
            v, w = T.axis.remap("SS", [i, j])
            S[{place}] = A[v, w]
    for i, j in T.grid(4, 16):
        with T.sblock("use"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = S[{place}]
"""


def make_copy(shape: str = "(4, 16)", scope: str = "shared", place: str = "v, w") -> tvm.IRModule:
    return parse_kernel(COPY.format(shape=shape, scope=scope, place=place))


# ---- Numbers, on the simulator


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("recipe", "shape", "options", "config"),
    [
        (TMA, (64, 64, 192), {"transpose_b": True}, {"tile_k": 64}),
        (ROLES, (64, 128, 128), {}, {"tile": (32, 64), "warp": (32, 32), "stages": 2}),
        (ROLES, (64, 64, 128), {"transpose_b": True}, {"tile_k": 64, "stages": 2}),
        (ROLES, (56, 72, 136), {}, {"tail": "pad"}),
        (TMA, (56, 71, 133), {}, {"tail": "copy"}),
        # Copies of operands, whose memory TVM would give to the partial sums.
        (ROLES, (44, 19, 133), {}, {"tail": "copy", "split_k": 2, "stages": 2}),
        (ROLES, (32, 64, 192), {}, {"split_k": 2, "store": "shared"}),
        (ROLES, (64, 64, 192), {**TURNED, "dtype": "int8", "out": "int32"}, ROWS),
        (TMA, (64, 64, 192), {**TURNED, "dtype": "float8_e4m3fn"}, ROWS),
        (ROLES, (32, 64, 96), {"dtype": "bfloat16"}, {"layout": "rows"}),
    ],
    ids=str,
)
def test_every_tile_arrives(
    recipe: Recipe, shape: tuple[int, int, int], options: dict, config: dict
) -> None:
    sizes = dict(zip("mnk", shape, strict=True))
    run = run_recipe(
        recipe, sizes, options={"dtype": "float16", **options}, config={**SMALL, **config}
    )
    last = run.steps[-1].module
    assert check_numbers(run.problem, last, SIMULATOR, where=str(config)) == []
    assert lower(last).script().count('"bulk", "tensor"') >= 2


@pytest.mark.parametrize(("threads", "roles"), [((8, 16), True), ((8, 32), False)])
def test_threads_that_compute_on_scalar_units_use_them_too(roles: bool, threads) -> None:
    """Tiles in static shared memory, in single elements, read by loads of plain TIR."""
    problem = matmul.problem(64, 64, 96, transpose_b=True)
    sch, block, *_ = at_block(problem.module, "C")
    tile = tr.tile_block(sch, block, threads=threads)
    tr.accumulate_in_registers(sch, block, tile.threads[1])
    outer, _ = sch.split(tr.get_reduction_loops(sch, block)[0], [None, 32])
    copies = [
        tr.stage_operand_at(sch, block, outer, operand=operand, threads=threads)
        for operand in range(2)
    ]
    tr.decompose_reduction_at(sch, block, outer)
    tr.prefetch_by_tma(sch, outer, copies, stages=2)
    if roles:
        tr.specialize_warps(sch, outer)
    assert check_numbers(problem, sch.mod, SIMULATOR, where=str(threads)) == []
    assert "__shared__ alignas" not in get_facts(sch.mod, "cuda", problem=problem).source


# ---- Bugs that die in a lowered recipe


@pytest.mark.parametrize("recipe", [WGMMA, WGMMA_ROLES], ids=lambda recipe: recipe.name)
def test_a_stage_is_not_refilled_under_its_group(recipe: Recipe) -> None:
    """Nor a tile swizzled otherwise than wgmma's descriptor says."""
    shape, config = {"m": 64, "n": 64, "k": 384}, recipe.golden.config
    run = run_recipe(recipe, shape, options={"dtype": "float16"}, config=config)
    assert find_kinds(lower(run.steps[-1].module), run) == set()
    sch = Schedule(run.steps[-1].module)
    outer, _ = find_handles(sch)
    sch.unannotate(outer, TMA_IN_FLIGHT)
    assert "race" in find_kinds(lower(sch.mod), run)

    sch = Schedule(run.steps[-1].module)
    shape = CopyShape.of_list(sch.get(find_handles(sch)[1][0]).annotations[TMA_COPY])
    copy = find_handles(sch)[1][0]
    sch.unannotate(copy, TMA_COPY)
    sch.annotate(copy, TMA_COPY, shape._replace(swizzle=0).to_list())
    found = check_numbers(run.problem, sch.mod, SIMULATOR, where=recipe.name)
    assert len(found) == 1
    assert "elements are wrong" in found[0].message


@pytest.fixture(scope="module")
def attention() -> Run:
    """Three tiles of queries for two thread blocks that stay; keys and values come apart."""
    return run_recipe(
        RECIPES["attention_wgmma_persistent"],
        {"batch": 1, "heads": 3, "queries": 64, "keys": 96, "dim": 32},
        options={"dtype": "float16", "out": "float16", "fused_exponents": True},
        config={"persistent": 2, "warpgroups": 1, "keys": 32},
    )


@pytest.mark.share(6)
@pytest.mark.parametrize("which", [None, *range(8)])
@pytest.mark.parametrize(("call", "keeps"), [("wait", False), ("wait", True), ("arrive", False)])
def test_each_wait_and_arrival_counts(attention: Run, call: str, keeps: bool, which) -> None:
    """And the parity of what waits are for, where they are kept."""

    def is_wanted(node: Evaluate) -> bool:
        return isinstance(node.value, Call) and f"mbarrier_{call}" in get_op_name(node.value)

    def change(node: Evaluate) -> Evaluate:
        if not keeps:
            return NOTHING
        place, parity = node.value.args
        return Evaluate(call_intrin(node.value.ty, node.value.op, place, parity * 0))

    lowered = lower(attention.steps[-1].module)
    if which is not None:
        lowered = edit(lowered, Evaluate, is_wanted, change, which)
    assert bool(find_kinds(lowered, attention) & {"race", "deadlock"}) == (which is not None)


def test_groups_end_before_tiles_become_other_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**WGMMA_ROLES.golden.config, "tile": (128, 64), "store": "shared"}
    run = run_recipe(
        WGMMA_ROLES, {"m": 128, "n": 64, "k": 384}, options={"dtype": "float16"}, config=config
    )
    assert find_kinds(lower(run.steps[-1].module), run) == set()
    monkeypatch.setattr(Pipeline, "wait_for_groups", lambda self: [])
    assert "race" in find_kinds(lower(run.steps[-1].module), run)


def test_fences_stay_where_threads_store() -> None:
    fence = Evaluate(T.ptx.fence.proxy.async_.shared__cta())
    tile = decl_buffer((4,), "float32", "tile", scope="shared.dyn")
    store = BufferStore(tile, T.float32(0), [0])
    group = SeqStmt([fence, make_barrier(), Evaluate(T.ptx.wgmma.commit_group.sync.aligned())])
    assert len(find_all(drop_fences([group])[0], Evaluate)) == 1
    assert drop_fences([store, group]) == [store, group]


def test_warps_with_roles_have_no_barrier_of_all_threads() -> None:
    pipeline = SimpleNamespace(loop=SimpleNamespace(loop_var=SimpleNamespace(name="k_0")))
    require_no_barrier([Evaluate(T.cuda.warp_sync())], pipeline)
    with pytest.raises(
        tr.TransformError, match="loop 'k_0' has a barrier of all threads; specialize"
    ):
        require_no_barrier([SeqStmt([make_barrier(), make_barrier()])], pipeline)


# ---- Refusals


BIG = {"m": 256, "n": 256, "k": 512, "transpose_b": True, "tile": (256, 256), "warp": (64, 64)}


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"in_flight": -1}, "in_flight=-1 is not a number of groups; use 0 or more"),
        ({}, {"in_flight": 2}, "stages=3 does not fit loop 'k_0' of 3 iterations with 2 groups in"),
        ({}, {"stages": 4}, "stages=4 does not fit loop 'k_0' of 3 iterations; use 2 to 3"),
        (
            {**BIG, "tile_k": 64},
            {"stages": 4},
            "4 stages of these tiles take 256 KiB of shared memory, and a block has 226 KiB at",
        ),
        (
            {"m": 512, "tile": (512, 32), "warp": (64, 32)},
            {},
            r"is .512, 32., and the TMA copies 256 elements along a dimension at most",
        ),
        ({"tile": (32, 64), "warp": (32, 32)}, {}, "|"),
        (
            {"n": 256, "tile": (32, 128), "warp": (32, 32)},
            {},
            "has rows of 256 bytes, and the TMA swizzles rows of 32 or 64 or 128; use a tile of",
        ),
        (
            {"k": 100, "tail": "pad"},
            {},
            "'A', which block 'A_pad_shared.dyn' copies, has a pitch of 200 bytes, and the TMA",
        ),
    ],
)
def test_prefetch_by_tma_refuses(changes: dict, arguments: dict, message: str) -> None:
    sch = prepare(**changes)
    names = [f"{name}{'_pad' if 'tail' in changes else ''}_shared.dyn" for name in "AB"]
    copies = [sch.get_sblock(name) for name in names]
    outer = find_loop(sch, copies[0])
    if message.endswith("|"):  # one that is accepted
        tr.prefetch_by_tma(sch, outer, copies, **arguments)
        return
    with refuses(sch, f"prefetch_by_tma: .*{message}"):
        tr.prefetch_by_tma(sch, outer, copies, **arguments)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("S[v, w] = A[v, w]", "S[w, v] = A[v, w]", "stores its tile in another order than it"),
        ("S[v, w] = A[v, w]", "S[v, w] = A[v, w] + T.float16(1)", "does more than copy from"),
        ("S[v, w] = A[v, w]", "S[v, w] = A[v, w // 2 * 2]", "and the TMA copies a dense rectangle"),
        (
            "S[v, w] = A[v, w]",
            "S[v, w] = T.if_then_else(v >= 2, A[v, w], T.float16(0))",
            "stores zeros where not '2 <= v'|stores zeros where not 'v >= 2'",
        ),
        (", 16)", ", 20)", "has a pitch of 40 bytes, and the TMA takes multiples of 16"),
        ("float16", "float64", "the TMA has no elements of float64"),
        ("(4, 16)", "(4, 16)", "copies 128 bytes at once, and addresses in shared memory must be"),
    ],
)
def test_prefetch_by_tma_takes_no_such_copy(old: str, new: str, message: str) -> None:
    text = COPY.format(shape="(16, 16)", scope="shared", place="v, w").replace(old, new)
    sch = Schedule(parse_kernel(text))
    with pytest.raises(tr.TransformError, match=message):
        measure_copy(sch, sch.get_sblock("copy"))


@pytest.mark.parametrize(
    ("prepare", "name", "message"),
    [
        (lambda sch, loop, _: sch.unannotate(loop, TMA_ROLES), "Q", "not a warp-specialized"),
        (
            lambda sch, loop, _: tr.make_persistent(sch, loop, blocks=2),
            "Q",
            "or is persistent already",
        ),
        (lambda *_: None, "V", "block 'V_shared.dyn' does not come before loop 'j_0'; stage"),
        (lambda sch, _, copy: sch.annotate(sch.get_loops(copy)[-1], TMA_STAGES, 2), "Q", "another"),
        (
            lambda sch, _, copy: sch.storage_align(copy, 0, -2, 32, 8),
            "Q",
            "writes rows with padding",
        ),
    ],
)
def test_copy_once_by_tma_refuses(prepare, name: str, message: str) -> None:
    sch = Schedule(read("warps_specialized", ATTENTION))
    loop, copy = find_queries(sch)
    prepare(sch, loop, copy)
    block = sch.get_sblock(f"{name}_shared.dyn")
    with refuses(sch, f"copy_once_by_tma: .*{message}"):
        tr.copy_once_by_tma(sch, loop, block)


@pytest.fixture(scope="module")
def by_tma() -> Run:
    """256 threads compute and 128 copy, once warps have roles."""
    config = {**SMALL, "tile": (64, 64), "warp": (16, 32)}
    shape = {"m": 64, "n": 64, "k": 96}
    return run_recipe(TMA, shape, options={"dtype": "float16"}, config=config)


NO_SHARE = (
    "384 threads begin with 168 .* must share out these 64512"  # setmaxnreg would wait forever
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"registers": each}, NO_SHARE) for each in ((48, 232), (176, 168), (24, 160))),
        (
            {"registers": (40, 256)},
            "256 threads with 256 registers and 128 with 40 are not whole warpgroups in the 65536",
        ),
    ],
)
def test_specialize_warps_refuses_registers_that_there_are_not(
    by_tma: Run, options: dict, message: str
) -> None:
    sch = Schedule(by_tma.steps[-1].module)
    outer, _ = find_handles(sch)
    with refuses(sch, f"specialize_warps: {message}"):
        tr.specialize_warps(sch, outer, **options)


def test_registers_move_to_the_warps_that_compute(by_tma: Run) -> None:
    sch = Schedule(by_tma.steps[-1].module)
    tr.specialize_warps(sch, find_handles(sch)[0], registers=(40, 232))
    assert check_numbers(by_tma.problem, sch.mod, SIMULATOR, where="registers") == []
    source = get_facts(sch.mod, "cuda", problem=by_tma.problem).source
    body = source[source.rindex("__launch_bounds__") :]
    assert body.startswith("__launch_bounds__(384")
    found = re.findall(r"setmaxnreg_(inc|dec)_sync_aligned_u32_(\d+)", body)
    assert ", ".join(map(" ".join, found)) == "inc 232, dec 168, dec 40, inc 168"


def test_registers_that_there_are_not_are_waited_for(by_tma: Run) -> None:
    """They are given back in the end: what warps have in between counts, too."""
    sch = Schedule(by_tma.steps[-1].module)
    loop, _ = find_handles(sch)
    tr.specialize_warps(sch, loop, registers=(40, 232))
    sch.unannotate(loop, TMA_ROLES)
    sch.annotate(loop, TMA_ROLES, [128, 56, 240])
    (found,) = check_numbers(by_tma.problem, sch.mod, SIMULATOR, where="registers")
    assert "setmaxnreg waits forever: the warpgroups of a thread block ask for 68608" in str(found)


# ---- On a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", [TMA, ROLES], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("shape", [(256, 256, 512), (248, 264, 328)], ids=str)
def test_a_gpu_agrees(recipe, shape: tuple[int, int, int]) -> None:
    tail = "refuse" if shape[0] % 128 == 0 else "pad"
    run = run_recipe(
        recipe,
        dict(zip("mnk", shape, strict=True)),
        options={"dtype": "float16"},
        config={"tile": (128, 64), "tile_k": 64, "stages": 4, "tail": tail},
    )
    assert check_numbers(run.problem, run.steps[-1].module, get_device("cuda"), where=tail) == []
