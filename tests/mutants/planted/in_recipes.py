"""Recipes as somebody would write them wrongly, by the mistakes in their schedules.

Each mistake is told twice: as a call of our transforms on the module of a step, which most of them
refuse; and as an edit of the recipe's trace or with TVM's primitives, for the other layers.
"""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.transforms import (
    accumulate_in_registers,
    bind_loop,
    compute_block_at,
    decompose_reduction_at,
    fetch_cooperatively,
    split_loop,
    split_reduction,
    stage_operand_at,
    tile_block,
    vectorize_loop,
)

from .plant import Misuse, RecipeMutant
from .traces import cache_in, drop_instruction, rebind, split_by, split_without_predicate

A_STAGED, B_STAGED = "A_in_shared_memory", "B_in_shared_memory"


def _find_loops(sch: Schedule, block: str = "C") -> list[LoopRV]:
    return list(sch.get_loops(sch.get_sblock(block)))


def _stage_tile_of_a(**options):
    """Fetch the tile of A for a step of the sum, which is the innermost serial loop so far."""

    def call(sch: Schedule) -> None:
        block = sch.get_sblock("C")
        steps = split_reduction(sch, block, inner=4)
        stage_operand_at(sch, block, steps.outer, operand=0, **options)

    return call


def _fetch_with_a_third_axis(sch: Schedule) -> None:
    block, outer = sch.get_sblock("C"), _find_loops(sch)[4]
    stage_operand_at(sch, block, outer, operand=0, threads=(2, 16, 16))


def _bind_rounds_of_fetches_to_z(sch: Schedule) -> None:
    for copy in ("A_shared", "B_shared"):
        rounds = _find_loops(sch, copy)[-3]
        sch.bind(sch.split(rounds, [2, None])[0], "threadIdx.z")


def _write_out_under_rows(sch: Schedule) -> None:
    sch.reverse_compute_at(sch.get_sblock("C_local"), _find_loops(sch, "C_update")[2], True)


def _decompose_at_step(sch: Schedule) -> None:
    sch.decompose_reduction(sch.get_sblock("C"), _find_loops(sch)[5])


def _decompose_at_terms(sch: Schedule) -> None:
    sch.decompose_reduction(sch.get_sblock("C"), _find_loops(sch)[2])


def _keep_sums_in_half(sch: Schedule) -> None:
    sch.unsafe_set_dtype(sch.get_sblock("C_update"), 0, "float16")


def _pad_rows(sch: Schedule) -> None:
    for copy in ("A_shared", "B_shared"):
        sch.storage_align(sch.get_sblock(copy), 0, -2, 4, 1)


def _accumulate_in_every_step(sch: Schedule) -> None:
    block = sch.get_sblock("C")
    accumulate_in_registers(sch, block, split_reduction(sch, block, inner=4).outer)


def _write_out_in_every_step(sch: Schedule) -> None:
    steps = _find_loops(sch)[4]
    sch.reverse_compute_at(sch.get_sblock("C_local"), steps, True)
    sch.decompose_reduction(sch.get_sblock("C"), steps)


IN_FETCHES_AND_SUMS = (
    RecipeMutant(
        name="fetch into registers",
        kind="scope too narrow",
        text="a tile that all threads fetch together goes to scope local",
        original="matmul_registers",
        misuse=Misuse("accumulated_in_registers", _stage_tile_of_a(threads=(8, 16), scope="local")),
        trace=(cache_in("local"),),
    ),
    RecipeMutant(
        name="fetch with half of the threads",
        kind="thread extents that differ",
        text="the fetch is split for 16 threads, the compute loops for 32",
        original="matmul_shared_blocking",
        misuse=Misuse("accumulated_in_registers", _stage_tile_of_a(threads=16, vector=4)),
        trace=(split_by(16, 4, step=A_STAGED, which=1), split_by(16, 4, step=B_STAGED)),
    ),
    RecipeMutant(
        name="fetch with a third axis",
        kind="thread extents that differ",
        text="the fetch binds threadIdx.z too, so that all else runs once for each of its threads",
        original="matmul_shared",
        misuse=Misuse("tiled_and_bound", _fetch_with_a_third_axis),
        primitives=_bind_rounds_of_fetches_to_z,
    ),
    RecipeMutant(
        name="fetch without its predicate",
        kind="predicate lost",
        text="the window of 130 elements is split for 128 threads with predicates turned off",
        original="window_sum_shared",
        misuse=Misuse(
            "window_in_every_thread",
            lambda sch: fetch_cooperatively(sch, sch.get_sblock("A_shared"), threads=128),
        ),
        trace=(split_without_predicate("fetched_cooperatively"),),
    ),
    RecipeMutant(
        name="outputs without their predicate",
        kind="predicate lost",
        text="131 outputs are split for blocks of 32 threads with predicates turned off",
        original="conv1d_threads_2d",
        misuse=Misuse("input", lambda sch: split_loop(sch, _find_loops(sch, "B")[0], inner=16)),
        trace=(split_without_predicate("split", 0),),
    ),
    RecipeMutant(
        name="steps of the sum without their predicate",
        kind="predicate lost",
        text="32 terms are split into steps of 5 with predicates turned off",
        original="matmul_local_blocking",
        misuse=Misuse(
            "accumulated_in_registers",
            lambda sch: split_reduction(sch, sch.get_sblock("C"), inner=5),
        ),
        trace=(
            split_by(5, step="reduction_unrolled"),
            split_without_predicate("reduction_unrolled"),
        ),
    ),
    RecipeMutant(
        name="registers written out by other threads",
        kind="scope too narrow",
        text="the sums are copied out under the first of the two thread loops",
        original="matmul_local_blocking",
        misuse=Misuse(
            "tiled_and_bound",
            lambda sch: accumulate_in_registers(sch, sch.get_sblock("C"), _find_loops(sch)[2]),
        ),
        trace=(drop_instruction("ReverseComputeAt"),),
        primitives=_write_out_under_rows,
    ),
    RecipeMutant(
        name="sums set to zero in every step",
        kind="init misplaced",
        text="the initialization is taken out in front of the inner loop of the sum",
        original="matmul_registers",
        misuse=Misuse(
            B_STAGED,
            lambda sch: decompose_reduction_at(sch, sch.get_sblock("C"), _find_loops(sch)[5]),
        ),
        trace=(drop_instruction("DecomposeReduction"),),
        primitives=_decompose_at_step,
    ),
    RecipeMutant(
        name="terms of a sum on threads",
        kind="race",
        text="the terms of a sum are bound to threads, and its initialization is taken out",
        original="matmul_sum_over_threads",
        misuse=Misuse(
            "bound",
            lambda sch: decompose_reduction_at(sch, sch.get_sblock("C"), _find_loops(sch)[2]),
        ),
        primitives=_decompose_at_terms,
    ),
    RecipeMutant(
        name="sums kept in float16",
        kind="cast to the wrong dtype",
        text="the type of the sums is set to float16, to save registers",
        original="matmul_registers, float16",
        primitives=_keep_sums_in_half,
    ),
    RecipeMutant(
        name="padded rows with vectors",
        kind="vector misaligned",
        text="rows of 4 elements are padded to 5 against bank conflicts, and fetched in vectors",
        original="matmul_shared_blocking",
        primitives=_pad_rows,
    ),
    RecipeMutant(
        name="tiles too deep for shared memory",
        kind="limit of the machine",
        text="the tiles of A and B are fetched for the whole sum at once, 32 KiB each",
        original="matmul_shared, deep",
        config={"tile_k": 256},
    ),
    RecipeMutant(
        name="first operand staged twice",
        kind="wrong operand",
        text="the loop over the operands always stages operand 0: the staged copy is staged again",
        original="matmul_shared",
        misuse=Misuse(
            A_STAGED,
            lambda sch: stage_operand_at(
                sch, sch.get_sblock("C"), _find_loops(sch)[4], operand=0, threads=(16, 16)
            ),
        ),
    ),
    RecipeMutant(
        name="results written after every step",
        kind="placed too deep",
        text="the sums are copied out inside of the loop over k, and not behind it",
        original="matmul_local_blocking",
        misuse=Misuse("tiled_and_bound", _accumulate_in_every_step),
        trace=(drop_instruction("ReverseComputeAt"), drop_instruction("DecomposeReduction")),
        primitives=_write_out_in_every_step,
    ),
)


def _bind_both_to_x(sch: Schedule) -> None:
    i, j, _ = _find_loops(sch)
    bind_loop(sch, i, axis="blockIdx.x")
    bind_loop(sch, j, axis="blockIdx.x")


def _bind_rows_twice(sch: Schedule) -> None:
    i = _find_loops(sch)[0]
    bind_loop(sch, i, axis="blockIdx.y")
    bind_loop(sch, i, axis="blockIdx.x")


def _bind_inner(axis: str) -> Misuse:
    return Misuse("split", lambda sch: bind_loop(sch, _find_loops(sch)[1], axis=axis))


def _bind_70000(sch: Schedule) -> None:
    outer, _ = split_loop(sch, _find_loops(sch)[0], inner=1)
    bind_loop(sch, outer, axis="blockIdx.y")


def _split_columns_for_vectors(sch: Schedule) -> tuple[SBlockRV, LoopRV]:
    """The padding, and the four columns of the output that are about to become a vector."""
    block = sch.get_sblock("Y")
    _, lane = sch.split(sch.get_loops(block)[3], [None, 4])
    sch.reorder(*sch.get_loops(block)[5:], lane)
    return sch.get_producers(block)[0], lane


def _compute_padding_in_vector(sch: Schedule) -> None:
    padded, lane = _split_columns_for_vectors(sch)
    vectorize_loop(sch, lane)
    compute_block_at(sch, padded, lane)


def _place_padding_in_vector(sch: Schedule) -> None:
    padded, lane = _split_columns_for_vectors(sch)
    sch.vectorize(lane)
    sch.set_scope(padded, 0, "local")
    sch.compute_at(padded, lane, True)


def _vectorize_by_3(sch: Schedule) -> None:
    vectorize_loop(sch, sch.split(_find_loops(sch)[1], [None, 3])[1])


def _split_by_3(sch: Schedule) -> None:
    thread, lane = sch.split(_find_loops(sch)[1], [None, 3], disable_predication=True)
    sch.vectorize(lane)
    sch.bind(thread, "threadIdx.x")


IN_BINDINGS_AND_VECTORS = (
    RecipeMutant(
        name="two loops on one axis",
        kind="double binding",
        text="rows and columns are both bound to blockIdx.x, so that the diagonal alone runs",
        original="matmul_naive, square",
        misuse=Misuse("input", _bind_both_to_x),
        trace=(rebind("blockIdx.y", "blockIdx.x"),),
    ),
    RecipeMutant(
        name="rows and columns on one thread axis",
        kind="double binding",
        text="both loops of a tile of 16×8 are bound to threadIdx.x",
        original="matmul_threads_2d",
        misuse=Misuse(
            "input",
            lambda sch: tile_block(sch, sch.get_sblock("C"), threads=(16, 8), axes=("x", "x")),
        ),
        trace=(rebind("threadIdx.y", "threadIdx.x"),),
    ),
    RecipeMutant(
        name="a loop bound twice",
        kind="double binding",
        text="the rows are bound to blockIdx.y and then, by a second line, to blockIdx.x",
        original="matmul_naive, square",
        misuse=Misuse("input", _bind_rows_twice),
        primitives=lambda sch: sch.bind(_find_loops(sch)[0], "blockIdx.x"),
    ),
    RecipeMutant(
        name="an axis that does not exist",
        kind="double binding",
        text="threads are bound to threadIdx.q, a misprint",
        original="vector_add_bound",
        misuse=_bind_inner("threadIdx.q"),
        trace=(rebind("threadIdx.x", "threadIdx.q"),),
    ),
    RecipeMutant(
        name="2048 threads in a block",
        kind="limit of the machine",
        text="the threads of a block are 2048",
        original="vector_add_bound, long",
        config={"threads": 2048},
        trace=(split_by(2048, step="split"),),
    ),
    RecipeMutant(
        name="128 threads on z",
        kind="limit of the machine",
        text="threads are bound to threadIdx.z, which goes to 64",
        original="vector_add_bound",
        misuse=_bind_inner("threadIdx.z"),
        trace=(rebind("threadIdx.x", "threadIdx.z"),),
    ),
    RecipeMutant(
        name="70000 blocks on y",
        kind="limit of the machine",
        text="blocks are bound to blockIdx.y, which goes to 65535",
        original="vector_add_bound, longer",
        misuse=Misuse("input", _bind_70000),
        trace=(split_by(1, step="split"), rebind("blockIdx.x", "blockIdx.y")),
    ),
    RecipeMutant(
        name="nothing bound",
        kind="binding lost",
        text="both lines that bind a loop are missing",
        original="vector_add_bound",
        trace=(drop_instruction("Bind"),),
    ),
    RecipeMutant(
        name="blocks not bound",
        kind="binding lost",
        text="the line that binds the outer loop is missing: one block does it all",
        original="vector_add_bound",
        trace=(drop_instruction("Bind", axis="blockIdx.x"),),
        equivalent="a serial loop instead of blocks: slower, and the same results on any input",
    ),
    RecipeMutant(
        name="padding computed inside of a vector",
        kind="vector and placement",
        text="the padding is computed at a loop that is vectorized (TVM computes wrong values)",
        original="depthwise_conv2d_naive, small",
        misuse=Misuse("input", _compute_padding_in_vector),
        trace=(drop_instruction("ComputeInline"),),
        primitives=_place_padding_in_vector,
    ),
    RecipeMutant(
        name="a vector of 3",
        kind="vector over the edge",
        text="vectors of 3 elements, which no GPU has",
        original="vector_add_bound, long",
        misuse=Misuse("split", _vectorize_by_3),
        trace=(drop_instruction("Bind", axis="threadIdx.x"),),
        primitives=_split_by_3,
    ),
)

IN_RECIPES = (*IN_FETCHES_AND_SUMS, *IN_BINDINGS_AND_VECTORS)
