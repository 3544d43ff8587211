"""Warpgroups that take tiles in turn: a pair, numbers, bugs that die, and what is refused."""

from collections.abc import Callable

import pytest
import tvm
from golden_runs import read_step
from pairs import check_pair, refuses
from tvm.s_tir import Schedule
from tvm.tirx import AttrStmt, Evaluate, SeqStmt

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device, run_golden, run_recipe
from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices.simulator import lower, simulate_lowered
from tirstep.lowering_checks.facts import get_facts
from tirstep.lowering_checks.steps import Run
from tirstep.modules import batched_matmul
from tirstep.transforms.hopper import warp_roles as tma
from tirstep.transforms.hopper.tma_tiles import (
    TMA_BLOCKS,
    TMA_OVERLAP,
    TMA_PERSISTENT,
    TMA_PINGPONG,
    TMA_ROLES,
    TMA_STAGES,
    TMA_TURNS,
)
from tirstep.transforms.hopper.warp_turns import TileTurns
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.wgmma import WgmmaConfig, schedule

SIMULATOR = get_device("simulator")
TURNS = RECIPES["matmul_wgmma_pingpong"]
HALF = {"dtype": "bfloat16", "out": "bfloat16"}
SMALL = {**TURNS.config, **TURNS.golden.config, "persistent": 1}


def make_run(shape: tuple[int, int, int], options: dict, config: dict) -> Run:
    sizes = dict(zip("mnk", shape, strict=True))
    return run_recipe(TURNS, sizes, options=options, config={**SMALL, **config})


def find_loop(sch: Schedule):
    """The loop in which warps have roles."""
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    loops = [loop for block in blocks for loop in sch.get_loops(block)]
    return next(loop for loop in loops if TMA_ROLES in sch.get(loop).annotations)


def test_alternate_tiles_pair() -> None:
    def read(step: str) -> tvm.IRModule:
        return read_step(step, TURNS.name)

    def change(sch: Schedule) -> None:
        tr.alternate_tiles(sch, find_loop(sch), registers=(40, 232))

    check_pair(read("10_blocks_stay"), change, read("11_tiles_in_turn"))


# ---- Numbers, on the simulator


def test_batches_take_turns_too() -> None:
    """A grid of two axes, gone through along blockIdx.x first, and threads without registers."""
    problem = batched_matmul.problem(3, 64, 32, 128, **HALF)
    sch = Schedule(problem.module)
    config = WgmmaConfig(**{**SMALL, "turns": 1, "persistent": 2})
    assert list(schedule(sch, config))[-1] == "blocks_stay"
    tr.alternate_tiles(sch, find_loop(sch))
    assert check_numbers(problem, sch.mod, SIMULATOR, where="batches") == []


def test_a_block_grows_by_the_other_warpgroup() -> None:
    run = run_golden(TURNS)
    (kernel,) = get_facts(run.steps[-1].module, "cuda", problem=run.problem).kernels
    assert kernel.threads == 3 * 128
    (before,) = get_facts(run.steps[-2].module, "cuda", problem=run.problem).kernels
    assert kernel.dynamic_shared_bytes == before.dynamic_shared_bytes


# ---- Bugs that die in a lowered recipe


@pytest.fixture(scope="module")
def run() -> Run:
    """Three tiles of four steps for a block with three stages."""
    return make_run((64, 96, 256), HALF, {})


def simulate(module: tvm.IRModule, run: Run) -> set[str]:
    """The kinds of what the simulator finds."""
    arguments = [*run.problem.integer_inputs(0), *map(blank, run.problem.outputs)]
    return {found.kind for found in simulate_lowered(lower(module), arguments).findings}


def test_turns_are_whole(run: Run) -> None:
    assert simulate(run.steps[-1].module, run) == set()


def is_bulk_wait(statement: object) -> bool:
    return isinstance(statement, Evaluate) and "wait_group" in str(statement)


def without(statement: SeqStmt, is_left_out: Callable[[object], bool]) -> SeqStmt:
    kept = [each for each in statement.seq if not is_left_out(each)]
    assert len(kept) < len(statement.seq)
    return SeqStmt(kept)


def cut(made: AttrStmt, first: int, last: int | None) -> AttrStmt:
    return AttrStmt(made.node, made.attr_key, made.value, SeqStmt(list(made.body.seq)[first:last]))


BUGS = {
    # Parities of a stage are two uses off: it was filled for another tile.
    "no turn to multiply": ("go_around", lambda made: made[1:], "deadlock"),
    "no turn to store": ("go_around", lambda made: made[:-1], "race"),
    "nobody begins": ("go_through", lambda made: cut(made, 1, None), "deadlock"),
    "no close": ("go_through", lambda made: cut(made, 0, -1), "named barrier"),
    "stores not waited for": ("end_tile", lambda made: without(made, is_bulk_wait), "race"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_missing_part_of_a_turn_dies(bug: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change, kind = BUGS[bug]
    made = getattr(TileTurns, name)
    monkeypatch.setattr(TileTurns, name, lambda *arguments: change(made(*arguments)))
    assert kind in simulate(run.steps[-1].module, run)


@pytest.mark.parametrize("is_empty", [True, False], ids=["stages", "registers"])
def test_arrivals_of_other_warpgroups_die(
    is_empty: bool, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage is emptied by the warps of one warpgroup, and registers are given back by all."""
    count = tma._count_arrivals

    def change(pipeline: object) -> list[int]:
        *full, moving = count(pipeline)
        half = len(full) // 2
        if is_empty:
            return [*full[:half], *(2 * each for each in full[half:]), moving]
        return [*full, moving // 2]

    monkeypatch.setattr(tma, "_count_arrivals", change)
    assert "deadlock" in simulate(run.steps[-1].module, run)


def test_more_registers_than_there_are_die(run: Run) -> None:
    """As many as two warpgroups may have would be right for one."""
    sch = Schedule(run.steps[-1].module)
    loop = find_loop(sch)
    sch.unannotate(loop, TMA_ROLES)
    sch.annotate(loop, TMA_ROLES, [128, 40, 240])
    assert simulate(sch.mod, run) == {"deadlock"}


# ---- What is refused


def note(key: str, value: object = 1) -> Callable[[Schedule], None]:
    return lambda sch: sch.annotate(find_loop(sch), key, value)


def drop(key: str) -> Callable[[Schedule], None]:
    return lambda sch: sch.unannotate(find_loop(sch), key)


def add_pipeline(sch: Schedule) -> None:
    sch.annotate(sch.get_loops(sch.get_sblock("A_shared.dyn"))[3], TMA_STAGES, 2)


STAYING = "the blocks of loop 'k_0' do not stay, or its warpgroups alternate already; call make_pe"
OTHERWISE = "in loop 'k_0' products overlap, warpgroups take turns, or a mask ends it; let tiles"
THREADS = r"do not take turns where threads are \[128, 1\] along x, y; tile for one warpgroup"


@pytest.mark.parametrize(
    ("prepare", "options", "message"),
    [
        (drop(TMA_PERSISTENT), {}, STAYING),
        (note(TMA_TURNS), {}, STAYING),
        (note(TMA_OVERLAP), {}, OTHERWISE),
        (note(TMA_PINGPONG), {}, OTHERWISE),
        (add_pipeline, {}, "the kernel of loop 'k_0' has another pipeline of bulk copies; let til"),
        (None, {"warpgroups": 1}, f"warpgroups=1 {THREADS}"),
        (None, {"warpgroups": 4}, f"warpgroups=4 {THREADS}"),
        (None, {"registers": (40, 240)}, "256 threads with 240 registers and 128 with 40 are no"),
        (None, {"registers": (41, 232)}, r"registers=\[41, 232\] are none that setmaxnreg sets"),
        (note(TMA_BLOCKS, 6), {}, "6 blocks of 384 threads do not fit on a multiprocessor of 2048"),
    ],
)
def test_alternate_tiles_refuses(prepare, options: dict, message: str) -> None:
    sch = Schedule(run_golden(TURNS).steps[-2].module)
    if prepare:
        prepare(sch)
    loop = find_loop(sch)
    with refuses(sch, f"alternate_tiles: {message}"):
        tr.alternate_tiles(sch, loop, **options)


def make_stay(name: str) -> tuple[Schedule, object]:
    sch = Schedule(run_golden(RECIPES[name]).steps[-1].module)
    loop = find_loop(sch)
    tr.make_persistent(sch, loop, blocks=1)
    return sch, loop


def test_alternate_tiles_refuses_fragments_of_mma() -> None:
    sch, loop = make_stay("matmul_mma_tma_roles")
    with refuses(sch, r"warpgroups=2 do not take turns where threads are \[32, 2\] along x, y;"):
        tr.alternate_tiles(sch, loop)


def test_alternate_tiles_refuses_memory_that_warpgroups_share() -> None:
    """And so does the pass, whoever annotates by hand, or has threads store more than there was."""
    sch, loop = make_stay("attention_wgmma_roles")
    with refuses(sch, "block 'Q_shared.dyn' stores to 'Q_shared.dyn', which warpgroups share"):
        tr.alternate_tiles(sch, loop)
    sch.annotate(loop, TMA_TURNS, 2)
    with pytest.raises(RuntimeError, match="warpgroups share Q_shared"):
        lower(sch.mod)


def test_alternate_tiles_refuses_two_warpgroups_a_tile() -> None:
    config = {**SMALL, "tile": (128, 64), "turns": 2}
    with pytest.raises(tr.TransformError, match=r"threads are \[128, 2\] along x, y"):
        run_recipe(TURNS, {"m": 128, "n": 64, "k": 192}, options=HALF, config=config)


@pytest.mark.parametrize("change", [tr.overlap_products, tr.alternate_warpgroups])
def test_what_does_not_go_with_turns_is_refused_behind_them(change) -> None:
    sch = Schedule(run_golden(TURNS).steps[-1].module)
    loop = find_loop(sch)
    with refuses(sch, r"stay and go through tiles|compute a tile each, in turn"):
        change(sch, loop)
