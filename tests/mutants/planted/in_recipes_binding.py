"""Recipes as somebody would write them wrongly: bindings, vectors, places."""

from .plant import RECIPE, Edit, Mutant

PLACED_IN_VECTOR = (
    "padded = sch.get_producers(block)[0]\n"
    "column = sch.get_loops(block)[3]\n"
    "outer, lane = sch.split(column, [None, 4])\n"
    "sch.reorder(*sch.get_loops(block)[5:], lane)\n"
)

IN_RECIPES_BINDING = (
    Mutant(
        name="two loops on one axis",
        kind="double binding",
        text="rows and columns are both bound to blockIdx.x, so that the diagonal alone runs",
        original="matmul_naive, square",
        level=RECIPE,
        edits=(Edit('axis="blockIdx.y"', 'axis="blockIdx.x"'),),
        raw=(
            Edit('bind_loop(sch, i, axis="blockIdx.y")', 'sch.bind(i, "blockIdx.x")'),
            Edit('bind_loop(sch, j, axis="blockIdx.x")', 'sch.bind(j, "blockIdx.x")'),
        ),
    ),
    Mutant(
        name="rows and columns on one thread axis",
        kind="double binding",
        text="both loops of a tile of 16×8 are bound to threadIdx.x",
        original="matmul_threads_2d",
        level=RECIPE,
        edits=(Edit('axes=("x", "y")', 'axes=("x", "x")'),),
        raw=(
            Edit(
                'tile_block(sch, block, threads=(rows, columns), axes=("x", "y"), tail=tail)',
                "i, j, k = sch.get_loops(block)\n"
                "i_0, i_1 = sch.split(i, [None, rows])\nj_0, j_1 = sch.split(j, [None, columns])\n"
                "sch.reorder(i_0, j_0, i_1, j_1)\n"
                'sch.bind(i_0, "blockIdx.x")\nsch.bind(j_0, "blockIdx.y")\n'
                'sch.bind(i_1, "threadIdx.x")\nsch.bind(j_1, "threadIdx.x")',
            ),
        ),
    ),
    Mutant(
        name="a loop bound twice",
        kind="double binding",
        text="the rows are bound to blockIdx.y and then, by a second line, to blockIdx.x",
        original="matmul_naive, square",
        level=RECIPE,
        edits=(
            Edit(
                'bind_loop(sch, j, axis="blockIdx.x")',
                'bind_loop(sch, i, axis="blockIdx.x")\nbind_loop(sch, j, axis="blockIdx.x")',
            ),
        ),
        raw=(
            Edit('bind_loop(sch, i, axis="blockIdx.y")', 'sch.bind(i, "blockIdx.y")'),
            Edit(
                'bind_loop(sch, j, axis="blockIdx.x")',
                'sch.bind(i, "blockIdx.x")\nsch.bind(j, "blockIdx.x")',
            ),
        ),
    ),
    Mutant(
        name="an axis that does not exist",
        kind="double binding",
        text="threads are bound to threadIdx.q, a misprint",
        original="vector_add_bound",
        level=RECIPE,
        edits=(Edit('axis="threadIdx.x"', 'axis="threadIdx.q"'),),
        raw=(Edit('bind_loop(sch, inner, axis="threadIdx.x")', 'sch.bind(inner, "threadIdx.q")'),),
    ),
    Mutant(
        name="2048 threads in a block",
        kind="limit of the machine",
        text="the threads of a block are 2048",
        original="vector_add_bound, long",
        level=RECIPE,
        edits=(Edit("inner=threads", "inner=2048"),),
        raw=(
            Edit("inner=threads", "inner=2048"),
            Edit('bind_loop(sch, inner, axis="threadIdx.x")', 'sch.bind(inner, "threadIdx.x")'),
        ),
    ),
    Mutant(
        name="128 threads on z",
        kind="limit of the machine",
        text="threads are bound to threadIdx.z, which goes to 64",
        original="vector_add_bound",
        level=RECIPE,
        edits=(Edit('axis="threadIdx.x"', 'axis="threadIdx.z"'),),
        raw=(Edit('bind_loop(sch, inner, axis="threadIdx.x")', 'sch.bind(inner, "threadIdx.z")'),),
    ),
    Mutant(
        name="70000 blocks on y",
        kind="limit of the machine",
        text="blocks are bound to blockIdx.y, which goes to 65535",
        original="vector_add_bound, longer",
        level=RECIPE,
        edits=(
            Edit("inner=threads", "inner=1"),
            Edit('axis="blockIdx.x"', 'axis="blockIdx.y"'),
        ),
        raw=(
            Edit("inner=threads", "inner=1"),
            Edit('bind_loop(sch, outer, axis="blockIdx.x")', 'sch.bind(outer, "blockIdx.y")'),
        ),
    ),
    Mutant(
        name="nothing bound",
        kind="binding lost",
        text="both lines that bind a loop are missing",
        original="vector_add_bound",
        level=RECIPE,
        edits=(
            Edit('bind_loop(sch, outer, axis="blockIdx.x")', "pass"),
            Edit('bind_loop(sch, inner, axis="threadIdx.x")', "pass"),
        ),
    ),
    Mutant(
        name="blocks not bound",
        kind="binding lost",
        text="the line that binds the outer loop is missing: one block does it all",
        original="vector_add_bound",
        level=RECIPE,
        edits=(Edit('bind_loop(sch, outer, axis="blockIdx.x")', "pass"),),
        equivalent="a serial loop instead of blocks: slower, and the same results on any input",
    ),
    Mutant(
        name="padding computed inside of a vector",
        kind="vector and placement",
        text="the padding is computed at a loop that is vectorized (TVM computes wrong values)",
        original="depthwise_conv2d_naive, small",
        level=RECIPE,
        edits=(
            Edit(
                "inline_producers(sch, block)",
                PLACED_IN_VECTOR + "sch.vectorize(lane)\n"
                "from tirstep.transforms import compute_block_at\n"
                "compute_block_at(sch, padded, lane)",
            ),
        ),
        raw=(
            Edit(
                "inline_producers(sch, block)",
                PLACED_IN_VECTOR + "sch.vectorize(lane)\n"
                'sch.set_scope(padded, 0, "local")\nsch.compute_at(padded, lane, True)',
            ),
        ),
    ),
    Mutant(
        name="a vector of 3",
        kind="vector over the edge",
        text="vectors of 3 elements, which no GPU has",
        original="vector_add_bound, long",
        level=RECIPE,
        edits=(
            Edit(
                'bind_loop(sch, inner, axis="threadIdx.x")',
                "from tirstep.transforms import vectorize_loop\n"
                "thread, lane = sch.split(inner, [None, 3])\n"
                "vectorize_loop(sch, lane)\n"
                'bind_loop(sch, thread, axis="threadIdx.x")',
            ),
        ),
        raw=(
            Edit(
                'bind_loop(sch, inner, axis="threadIdx.x")',
                "thread, lane = sch.split(inner, [None, 3], disable_predication=True)\n"
                "sch.vectorize(lane)\n"
                'sch.bind(thread, "threadIdx.x")',
            ),
        ),
    ),
)
