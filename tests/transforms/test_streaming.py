"""Equal shares of steps: which there are, what a kernel becomes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from kernels import parse_kernel
from pairs import check_pair, refuses
from streamed_sums import DEPTH, ROWS, cut_row_sums, make_row_sums
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.modules import Problem, get_kernel
from tirstep.transforms import set_pipeline, stream_steps
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.stream_k import Shares, StreamSteps, share_steps


def test_fewer_workers_than_parts_share_nothing() -> None:
    assert share_steps(3, 8, 4, 3) is None
    assert share_steps(3, 8, 2, 4) == Shares(3, 8, 2, each=6, workers=4)
    # Of so many steps the smallest share is not looked for, which took minutes.
    assert share_steps(1 << 11, 1 << 20, 2, 5) == Shares(1 << 11, 1 << 20, 2, 536608769, 5)


def stream_row_sums(tiles: int, steps: int, parts: int, workers: int) -> Schedule:
    sch = Schedule(make_row_sums(tiles, steps), debug_mask="all")
    stream_steps(sch, cut_row_sums(sch, parts), workers=workers)
    return sch


def run_on_simulator(module: tvm.IRModule, tiles: int, steps: int) -> tuple[np.ndarray, object]:
    """How far each sum is off; 0 where it is right, and the findings."""
    values = np.random.default_rng(0).integers(1, 9, (tiles * ROWS, steps * DEPTH))
    blank = np.full(tiles * ROWS, np.nan, np.float32)
    program = get_device("simulator").compile(module)
    got = program([values.astype(np.float32), blank])[-1]
    return got - values.sum(axis=1), program.findings


# What the pass makes of 3 tiles of 8 steps, in two parts and for 4 workers.
Streamed = parse_kernel("""
    A (12, 16), B (12,)
    with T.sblock("root"):
        T.sblock_attr({"tir_pipeline": "tirstep"})
        B_rf = T.sblock_alloc_buffer((2, 12))
        for worker in T.thread_binding(4, thread="blockIdx.x"):
            for visit in range(
                T.min((worker * 6 + 5) // 8 + 1, 3) - T.max(worker * 6 + 1, 0) // 8
            ):
                tile = T.meta_var(T.max(worker * 6 + 1, 0) // 8 + visit)
                first = T.meta_var(T.min(T.max(worker * 6 - tile * 8, 0), 8))
                for i_1 in T.thread_binding(4, thread="threadIdx.x"):
                    with T.sblock("B_rf_init"):
                        vk_0 = T.axis.spatial(2, worker - tile * 8 // 6)
                        vi = T.axis.spatial(12, tile * 4 + i_1)
                        B_rf[vk_0, vi] = T.float32(0)
                    for k_1_0, k_1_1 in T.grid(
                        T.min((worker + 1) * 6 - tile * 8, 8) - first, 2
                    ):
                        with T.sblock("B_rf_update"):
                            vk_0 = T.axis.spatial(2, worker - tile * 8 // 6)
                            vi = T.axis.spatial(12, tile * 4 + i_1)
                            vk_1 = T.axis.reduce(16, k_1_0 * 2 + k_1_1)
                            vfirst = T.axis.spatial(8, first)
                            B_rf[vk_0, vi] = B_rf[vk_0, vi] + A[vi, vfirst * 2 + vk_1]
        for i in T.thread_binding(12, thread="threadIdx.x"):
            for k_0 in range(2):
                with T.sblock("B", "RS", k_0, i):
                    B[vi] += B_rf[vk_0, vi]
""")


def test_stream_steps_marks_a_loop() -> None:
    sch = Schedule(make_row_sums(3, 8))
    name = sch.get(cut_row_sums(sch, 2)).loop_var.name
    set_pipeline(sch)
    text = sch.mod.script()
    unmarked = "for k_1_0, k_1_1 in T.grid(4, 2):\n"
    head, tail = text.split(unmarked)
    block, rest = tail.split("            for i in T.thread_binding(12")
    inner = "".join(f"    {line}\n" for line in block.splitlines())
    indent = " " * 28
    marked = (
        f'for {name} in T.serial(4, annotations={{"tirstep_streams": 4}}):\n'
        f"{indent}for k_1_1 in range(2):\n{inner}            for i in T.thread_binding(12"
    )

    def change(sch: Schedule) -> None:
        stream_steps(sch, sch.get_loops(sch.get_sblock("B_rf_update"))[3], workers=4)

    check_pair(sch.mod, change, from_source(head + marked + rest))


def test_the_pass_writes_a_kernel_of_workers() -> None:
    assert_structural_equal(StreamSteps(stream_row_sums(3, 8, 2, 4).mod), Streamed)


TILE = "(T.max(worker * 6 + 1, 0) // 8 + visit)"


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (f"(worker + 1) * 6 - {TILE} * 8, 8)", f"worker * 6 + 7 - {TILE} * 8, 8)"),  # a step twice
        (f"(worker + 1) * 6 - {TILE} * 8, 8)", f"worker * 6 + 5 - {TILE} * 8, 8)"),  # left out
        (f"T.max(worker * 6 - {TILE} * 8, 0)", f"T.max(worker * 6 + 1 - {TILE} * 8, 0)"),
        (f"spatial(2, worker - {TILE} * 8 // 6)", "spatial(2, worker // 2 % 2)"),  # another part
        (f"spatial(12, {TILE} * 4 + i_1)", f"spatial(12, ({TILE} + worker) % 3 * 4 + i_1)"),
        ("T.min((worker * 6 + 5) // 8 + 1, 3)", "T.min((worker * 6 + 5) // 8, 3)"),  # its last tile
        ("T.max(worker * 6 + 1, 0) // 8", "T.max(worker * 6 + 3, 0) // 8"),  # its first one
    ],
)
def test_a_planted_bug_is_seen(good: str, bad: str) -> None:
    text = Streamed.script()
    assert good in text
    off, findings = run_on_simulator(from_source(text.replace(good, bad)), 3, 8)
    assert bool(np.any(off != 0)) or bool(findings)


def test_stream_steps_refuses_other_loops() -> None:
    sch = Schedule(make_row_sums(3, 8))
    steps = cut_row_sums(sch, 2)
    rows = sch.get_loops(sch.get_sblock("B"))[0]
    with refuses(sch, "is not under parts on blockIdx.y and tiles on blockIdx.x"):
        stream_steps(sch, rows, workers=4)
    with refuses(sch, "workers=0 must be >= 1"):
        stream_steps(sch, steps, workers=0)
    with refuses(sch, "1 GPU blocks are fewer than the 2 parts of a sum"):
        stream_steps(sch, steps, workers=1)
    stream_steps(sch, steps, workers=4)
    with refuses(sch, "is shared already"):
        stream_steps(sch, steps, workers=4)


def test_a_sum_must_begin_in_front_of_its_steps() -> None:
    sch = Schedule(make_row_sums(3, 8))
    steps = cut_row_sums(sch, 2, decompose=False)
    with refuses(sch, "block 'B_rf' begins with the first step; take the initialization"):
        stream_steps(sch, steps, workers=4)


def test_a_part_of_one_step_has_no_loop_to_share() -> None:
    sch = Schedule(make_row_sums(3, 2))
    steps = cut_row_sums(sch, 2)
    with refuses(sch, "is no serial loop of two steps or more"):
        stream_steps(sch, steps, workers=4)


def make_scaled(part: str) -> tvm.IRModule:
    """B = sums over the rows of A, and of each part something else, `part`."""
    return parse_kernel(f"""
        A (12, 16), S (2,), B (12,)
        P = T.alloc_buffer((2, 12))
        for p in T.thread_binding(2, thread="blockIdx.y"):
            for i_0 in T.thread_binding(3, thread="blockIdx.x"):
                for i_1 in T.thread_binding(4, thread="threadIdx.x"):
                    with T.sblock("zero", "S", p):
                        vi = T.axis.spatial(12, i_0 * 4 + i_1)
                        P[vp, vi] = T.float32(0)
                    for k in range(8):
                        with T.sblock("part", "S", p):
                            vi = T.axis.spatial(12, i_0 * 4 + i_1)
                            vk = T.axis.reduce(8, k)
                            P[vp, vi] = {part}
        for i in T.thread_binding(12, thread="threadIdx.x"):
            for p in range(2):
                with T.sblock("B", "SR", i, p):
                    B[vi] += P[vp, vi]
    """)


OF_A = "A[vi, vp * 8 + vk]"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (f"P[vp, vi] + {OF_A} * S[vp]", "depends on the part"),
        (f"P[vp, vi] + {OF_A} * T.Cast('float32', vp)", "depends on the part"),
        (f"P[vp, vi] + {OF_A} * T.Cast('float32', vk)", "depends on the part"),
        (f"T.max(P[vp, vi], {OF_A})", "block 'part' does not add up"),
        (f"P[vp, vi] * T.float32(2) + {OF_A}", "block 'part' does not add up"),
    ],
)
def test_what_a_part_does_for_itself_is_refused(part: str, sentence: str) -> None:
    sch = Schedule(make_scaled(part))
    steps = sch.get_loops(sch.get_sblock("part"))[3]
    with refuses(sch, sentence):
        stream_steps(sch, steps, workers=4)


# Sums of the squares of what parts come to.
Squared = parse_kernel("""
    A (12, 16), B (12,)
    P = T.sblock_alloc_buffer((2, 12))
    L = T.sblock_alloc_buffer((2, 12), scope="local")
    K = T.sblock_alloc_buffer((2, 12), scope="local")
    for p in T.thread_binding(2, thread="blockIdx.y"):
        for i_0 in T.thread_binding(3, thread="blockIdx.x"):
            for i_1 in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock("zero", "S", p):
                    vi = T.axis.spatial(12, i_0 * 4 + i_1)
                    L[vp, vi] = T.float32(0)
                for k in range(8):
                    with T.sblock("keep", "S", p):
                        vi = T.axis.spatial(12, i_0 * 4 + i_1)
                        vk = T.axis.spatial(16, p * 8 + k)
                        K[vp, vi] = A[vi, vk]
                    with T.sblock("part", "S", p):
                        vi = T.axis.spatial(12, i_0 * 4 + i_1)
                        vk = T.axis.reduce(8, k)
                        L[vp, vi] = L[vp, vi] + A[vi, vp * 8 + vk]
                with T.sblock("square", "S", p):
                    vi = T.axis.spatial(12, i_0 * 4 + i_1)
                    P[vp, vi] = L[vp, vi] * L[vp, vi]
    for i in T.thread_binding(12, thread="threadIdx.x"):
        for p in range(2):
            with T.sblock("B", "SR", i, p):
                B[vi] += P[vp, vi]
""")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "block 'square' computes with 'L', which other steps change"),
        ({"L[vp, vi] * L[vp, vi]": "L[vp, vi]"}, ""),
        ({"L[vp, vi] * L[vp, vi]": "K[vp, vi]"}, "block 'square' computes with 'K'"),  # of the last
        (
            {
                "= L[vp, vi] * L[vp, vi]": "= L[vp, vi]",
                "vp * 8 + vk]\n": "vp * 8 + vk] * K[vp, vi]\n",
            },
            "",
        ),
        (
            {"K[vp, vi] = A[vi, vk]": "K[vp, vi] = A[vi, vk] + L[vp, vi]"},
            "block 'keep' computes with 'L'",
        ),
        (
            {"K[vp, vi] = A[vi, vk]": "K[vp, vi] = A[vi, vk] - K[vp, vi]"},
            "block 'keep' computes with 'K'",  # of the step before
        ),
        (
            {"+ A[vi, vp * 8 + vk]": "+ A[vi, vp * 8 + vk] * L[vp, vi]"},
            "computes with 'L'|does not add up",
        ),
    ],
)
def test_steps_that_use_each_other_are_refused(changes: dict[str, str], sentence: str) -> None:
    text = Squared.script()
    for good, bad in changes.items():
        assert good in text
        text = text.replace(good, bad)
    sch = Schedule(from_source(text))
    steps = sch.get_loops(sch.get_sblock("part"))[3]
    if not sentence:
        stream_steps(sch, steps, workers=5)
        values = np.random.default_rng(0).integers(-5, 6, (12, 16)).astype(np.float32)
        program = get_device("simulator").compile(sch.mod)
        got = program([values, np.full(12, np.nan, np.float32)])[-1]
        terms = values * values if len(changes) > 1 else values
        np.testing.assert_array_equal(got, terms.sum(axis=1))
        assert not program.findings
        return
    with refuses(sch, sentence):
        stream_steps(sch, steps, workers=4)


def test_a_buffer_that_no_block_allocates_is_refused() -> None:
    text = Squared.script().replace("L[vp, vi] * L[vp, vi]", "L[vp, vi]")
    good = 'L = T.sblock_alloc_buffer((2, 12), scope="local")'
    assert good in text
    sch = Schedule(from_source(text.replace(good, 'L = T.alloc_buffer((2, 12), scope="local")')))
    steps = sch.get_loops(sch.get_sblock("part"))[3]
    with refuses(sch, "'L' in local memory is allocated by no block"):
        stream_steps(sch, steps, workers=4)


ROUNDS, REMAP = "for p in range(2):", 'vi, vp = T.axis.remap("SR", [i, p])'
READS, INIT = "T.reads(P[vp, vi])\n                    T.writes(B[vi])", "B[vi] = T.float32(0.0)"
TOTAL = "B[vi] = B[vi] + P[vp, vi]"
SPLIT = {
    ROUNDS: "for p_0, p_1 in T.grid(2, 2):",
    REMAP: "vi = T.axis.spatial(12, i)\n                    vp = T.axis.reduce(2, p_0 * {} + p_1)",
    READS: "T.where(p_0 * {} + p_1 < 2)\n                    T.reads(P[vp, vi])",
}


def add_up_parts(changes: dict[str, str]) -> tuple[Schedule, LoopRV]:
    """A kernel of parts whose sums are others, and the loop over its steps."""
    text = make_scaled(f"P[vp, vi] + {OF_A}").script()
    for good, bad in changes.items():
        assert good in text
        text = text.replace(good, bad)
    sch = Schedule(from_source(text))
    return sch, sch.get_loops(sch.get_sblock("part"))[3]


@pytest.mark.parametrize(
    "changes",
    [
        {TOTAL: "B[vi] = B[vi] + P[vp, vi] * S[vp]"},
        {TOTAL: "B[vi] = T.max(B[vi], P[vp, vi])"},
        {TOTAL: "B[vi] = B[vi] + P[0, vi]"},
        {TOTAL: "B[vi] = B[vi] + P[vp, (vi + vp) % 12]"},
        {TOTAL: f"if vp < 1:\n                        {TOTAL}"},
        {TOTAL: f"{TOTAL}\n                    B[vi] = B[vi] + P[0, vi]"},
        {INIT: "B[vi] = P[0, vi]"},
        {ROUNDS: "for p in range(1):"},
        {READS: f"T.where(p < 1)\n                    {READS}"},
        {READS: f"T.where(p <= i)\n                    {READS}"},
        {REMAP: "vi = T.axis.spatial(12, i)\n                    vp = T.axis.reduce(2, p * 0)"},
        {REMAP: "vi = T.axis.spatial(12, i + p)\n                    vp = T.axis.reduce(2, p)"},
        {key: value.format(1) for key, value in SPLIT.items()},  # the second part twice
        {TOTAL: f"{TOTAL}\n                with T.sblock('use'):\n                    S[p] = B[i]"},
        {
            "        for i in T.thread_binding(12": "        with T.sblock('other'):\n"
            "            P[0, 0] = T.float32(1)\n        for i in T.thread_binding(12"
        },
    ],
    ids=str,
)
def test_parts_that_are_not_all_added_up_are_refused(changes: dict[str, str]) -> None:
    sch, steps = add_up_parts(changes)
    with refuses(sch, r"block '\w+' does not add up all parts of 'P', or does more with them"):
        stream_steps(sch, steps, workers=4)


def test_sums_of_all_parts_may_be_split_and_repeated() -> None:
    for changes in ({}, {key: value.format(2) for key, value in SPLIT.items()}):
        sch, steps = add_up_parts(changes)
        stream_steps(sch, steps, workers=4)
    twice = {ROUNDS: "for p, _ in T.grid(2, 2):"}
    stream_steps(*add_up_parts(twice), workers=4)


def test_parts_that_a_caller_sees_are_refused() -> None:
    text = make_scaled(f"P[vp, vi] + {OF_A}").script()
    good = "        P = T.alloc_buffer((2, 12))\n"
    assert good in text
    text = text.replace(good, "").replace('S: T.Buffer((2,), "float32")', "P: T.Buffer((2, 12))")
    sch = Schedule(from_source(text))
    steps = sch.get_loops(sch.get_sblock("part"))[3]
    with refuses(sch, "parts of 'P' are seen outside of the function"):
        stream_steps(sch, steps, workers=4)


def test_a_loop_that_is_no_stream_any_more_stays_one_of_slices() -> None:
    sch = stream_row_sums(3, 8, 2, 4)
    text = sch.mod.script().replace("B[vi] = B[vi] + B_rf[vk_0, vi]", "B[vi] = B_rf[vk_0, vi]")
    module = from_source(text)
    lowered = StreamSteps(module)
    assert 'thread="blockIdx.y"' in lowered.script()
    assert "tirstep_streams" not in lowered.script()


def test_a_streamed_product_is_exact() -> None:
    recipe = RECIPES["matmul_stream_k"]
    config = {**recipe.golden.config, "tail": "pad", "split_k": 3, "workers": 5}
    run = run_recipe(recipe, {"m": 33, "n": 17, "k": 61}, config=config)
    module = run.steps[-1].module
    assert "tirstep_streams" in module.script()
    assert not check_numbers(run.problem, module, get_device("simulator"), where=recipe.name)


def get_update_loops(sch: Schedule) -> list[LoopRV]:
    """The loops around the products of a part."""
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    names = [str(sch.get(it).name_hint) for it in blocks]
    name = next(it for it in names if it in ("C_rf_update_o", "C_rf_o_update"))
    return sch.get_loops(blocks[names.index(name)])


def schedule_halves(name: str, config: dict[str, object]) -> tuple[Problem, Schedule, LoopRV]:
    """A product on tensor cores in parts, and the loop over its steps."""
    recipe = RECIPES[name]
    problem = get_kernel("matmul").problem(64, 128, 192, dtype="float16")
    sch = Schedule(problem.module)
    recipe(sch, **{**recipe.golden.config, **config})
    loops = get_update_loops(sch)
    piped = [it for it in loops if "software_pipeline_stage" in sch.get(it).annotations]
    return problem, sch, (piped or loops)[0]


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("matmul_mma_split_k", {"tile": (64, 64), "warp": (32, 32), "tile_k": 32, "split_k": 2}),
        ("matmul_wgmma_split_k", {"tile": (64, 64), "tile_k": 32, "split_k": 2}),
    ],
)
def test_fragments_of_a_stream_are_exact(name: str, config: dict[str, object]) -> None:
    problem, sch, steps = schedule_halves(name, config)
    stream_steps(sch, steps, workers=3)
    assert not check_numbers(problem, sch.mod, get_device("simulator"), where=name)


def test_bulk_copies_do_not_stream() -> None:
    config = {"tile": (64, 64), "tile_k": 32, "split_k": 2}
    _, sch, _ = schedule_halves("matmul_wgmma_tma", config)
    loops = get_update_loops(sch)
    steps = next(it for it in loops if sch.get(it).extent == 3 and not sch.get(it).thread_binding)
    with refuses(sch, "waits for bulk copies, whose barriers count the steps of one tile"):
        stream_steps(sch, steps, workers=4)
