"""Recipes as somebody would write them wrongly: caches, fetches, registers, reductions."""

from .plant import RECIPE, Edit, Mutant

STAGE = "stage_operand_at(sch, block, steps.outer, operand=operand, threads=(columns, rows))"
STAGE_FUSED = (
    "stage_operand_at(sch, block, steps.outer, operand=operand, threads=threads, vector=vector)"
)
COPY = "copy = sch.cache_read(block, operand, {scope})\nsch.compute_at(copy, steps.outer, True)\n"
SHARED = COPY.format(scope='"shared"')
FETCH_2D = (
    "pieces = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [None, {y}, {x}])\n"
    'sch.bind(pieces[1], "threadIdx.y")\nsch.bind(pieces[2], "threadIdx.x")'
)
FETCH_1D = (
    "pieces = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [None, {x}, vector])\n"
    'sch.vectorize(pieces[2])\nsch.bind(pieces[1], "threadIdx.x")'
)

IN_RECIPES = (
    Mutant(
        name="fetch into registers",
        kind="scope too narrow",
        text="a tile that all threads fetch together goes to scope local",
        original="matmul_registers",
        level=RECIPE,
        edits=(Edit("threads=(columns, rows))", 'threads=(columns, rows), scope="local")'),),
        raw=(Edit(STAGE, COPY.format(scope='"local"') + FETCH_2D.format(y="columns", x="rows")),),
    ),
    Mutant(
        name="fetch with half of the threads",
        kind="thread extents that differ",
        text="the fetch is split for 16 threads, the compute loops for 32",
        original="matmul_shared_blocking",
        level=RECIPE,
        edits=(Edit("threads = block_y * block_x", "threads = block_y * block_x // 2"),),
        raw=(
            Edit("threads = block_y * block_x", "threads = block_y * block_x // 2"),
            Edit(STAGE_FUSED, SHARED + FETCH_1D.format(x="threads")),
        ),
    ),
    Mutant(
        name="fetch with a third axis",
        kind="thread extents that differ",
        text="the fetch binds threadIdx.z too, so that all else runs once for each of its threads",
        original="matmul_shared",
        level=RECIPE,
        edits=(Edit("threads=(columns, rows)", "threads=(2, columns, rows)"),),
        raw=(
            Edit(
                STAGE,
                SHARED
                + FETCH_2D.format(y="columns", x="rows")
                + '\nsch.bind(sch.split(pieces[0], [2, None])[0], "threadIdx.z")',
            ),
        ),
    ),
    Mutant(
        name="fetch without its predicate",
        kind="predicate lost",
        text="the window of 130 elements is split for 128 threads with predicates turned off",
        original="window_sum_shared",
        level=RECIPE,
        edits=(Edit('threads=threads, tail="guard")', "threads=threads)"),),
        raw=(
            Edit(
                'fetch_cooperatively(sch, window, threads=threads, tail="guard")',
                "loop = sch.get_loops(window)[-1]\n"
                "loops = sch.split(loop, [None, threads], disable_predication=True)\n"
                'sch.bind(loops[1], "threadIdx.x")',
            ),
        ),
    ),
    Mutant(
        name="outputs without their predicate",
        kind="predicate lost",
        text="131 outputs are split for blocks of 32 threads with predicates turned off",
        original="conv1d_threads_2d",
        level=RECIPE,
        edits=(Edit("inner=rows * lanes, tail=tail", "inner=rows * lanes"),),
        raw=(
            Edit(
                "outer, inner = split_loop(sch, i, inner=rows * lanes, tail=tail)",
                "outer, inner = sch.split(i, [None, rows * lanes], disable_predication=True)",
            ),
        ),
    ),
    Mutant(
        name="steps of the sum without their predicate",
        kind="predicate lost",
        text="32 terms are split into steps of 5 with predicates turned off",
        original="matmul_local_blocking",
        level=RECIPE,
        edits=(Edit("inner=tile_k, tail=tail", "inner=5"),),
        raw=(
            Edit(
                "steps = split_reduction(sch, block, inner=tile_k, tail=tail)",
                "from types import SimpleNamespace\n"
                "k = sch.get_loops(block)[4]\n"
                "k_0, k_1 = sch.split(k, [None, 5], disable_predication=True)\n"
                "steps = SimpleNamespace(outer=k_0, inner=k_1)",
            ),
        ),
    ),
    Mutant(
        name="registers written out by other threads",
        kind="scope too narrow",
        text="the sums are copied out under the first of the two thread loops",
        original="matmul_local_blocking",
        level=RECIPE,
        edits=(Edit("block, tile.threads[1])", "block, tile.threads[0])"),),
        raw=(
            Edit(
                "accumulate_in_registers(sch, block, tile.threads[1])",
                'copy = sch.cache_write(block, 0, "local")\n'
                "sch.reverse_compute_at(copy, tile.threads[0], True)",
            ),
        ),
    ),
    Mutant(
        name="sums set to zero in every step",
        kind="init misplaced",
        text="the initialization is taken out in front of the inner loop of the sum",
        original="matmul_registers",
        level=RECIPE,
        edits=(
            Edit(
                "decompose_reduction_at(sch, block, steps.outer)",
                "decompose_reduction_at(sch, block, steps.inner)",
            ),
        ),
        raw=(
            Edit(
                "decompose_reduction_at(sch, block, steps.outer)",
                "sch.decompose_reduction(block, steps.inner)",
            ),
        ),
    ),
    Mutant(
        name="terms of a sum on threads",
        kind="race",
        text="the terms of a sum are bound to threads, and its initialization is taken out",
        original="matmul_sum_over_threads",
        level=RECIPE,
        edits=(
            Edit(
                'yield "bound"',
                "from tirstep.transforms import decompose_reduction_at\n"
                "block = sch.get_sblock('C')\n"
                "decompose_reduction_at(sch, block, sch.get_loops(block)[2])\n"
                'yield "bound"',
            ),
        ),
        raw=(
            Edit(
                'yield "bound"',
                "block = sch.get_sblock('C')\n"
                "sch.decompose_reduction(block, sch.get_loops(block)[2])\n"
                'yield "bound"',
            ),
        ),
    ),
    Mutant(
        name="sums kept in float16",
        kind="cast to the wrong dtype",
        text="the type of the sums is set to float16, to save registers",
        original="matmul_registers, float16",
        level=RECIPE,
        edits=(
            Edit(
                'yield "decomposed"',
                'sch.unsafe_set_dtype(block, 0, "float16")\nyield "decomposed"',
            ),
        ),
    ),
    Mutant(
        name="padded rows with vectors",
        kind="vector misaligned",
        text="rows of 4 elements are padded to 5 against bank conflicts, and fetched in vectors",
        original="matmul_shared_blocking",
        level=RECIPE,
        edits=(
            Edit(
                'yield f"{name}_in_shared_memory"',
                "sch.storage_align(sch.get_producers(block)[operand], 0, -2, 4, 1)\n"
                'yield f"{name}_in_shared_memory"',
            ),
        ),
    ),
    Mutant(
        name="tiles too deep for shared memory",
        kind="limit of the machine",
        text="the tiles of A and B are fetched for the whole sum at once, 32 KiB each",
        original="matmul_shared, deep",
        level=RECIPE,
        edits=(Edit("inner=tile_k", "inner=256"),),
    ),
    Mutant(
        name="first operand staged twice",
        kind="wrong operand",
        text="the loop over the operands always stages operand 0: the staged copy is staged again",
        original="matmul_shared",
        level=RECIPE,
        edits=(Edit("operand=operand", "operand=0"),),
    ),
    Mutant(
        name="results written after every step",
        kind="placed too deep",
        text="the sums are copied out inside of the loop over k, and not behind it",
        original="matmul_local_blocking",
        level=RECIPE,
        edits=(
            Edit("accumulate_in_registers(sch, block, tile.threads[1])", "pass"),
            Edit(
                "unroll_loop(sch, steps.inner)",
                "accumulate_in_registers(sch, block, steps.outer)\nunroll_loop(sch, steps.inner)",
            ),
        ),
        raw=(
            Edit("accumulate_in_registers(sch, block, tile.threads[1])", "pass"),
            Edit(
                "unroll_loop(sch, steps.inner)",
                'copy = sch.cache_write(block, 0, "local")\n'
                "sch.reverse_compute_at(copy, steps.outer, True)\n"
                "unroll_loop(sch, steps.inner)",
            ),
        ),
    ),
)
