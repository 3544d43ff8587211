"""Software pipelines: what is annotated, what comes out of it, and what would come out wrong."""

import math

import numpy as np
import pytest
from kernels import parse_kernel
from pairs import check_pair, refuses, run_on_cpu
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.devices.simulator import simulate
from tirstep.modules import get_kernel

SIMULATOR = get_device("simulator")
THROUGH, ASYNC = tr.prefetch_through_registers, tr.prefetch_asynchronously
BOTH = pytest.mark.parametrize("prefetch", [THROUGH, ASYNC])


# Each step mirrors a row, so that a thread reads what another one fetched.
MIRROR = """
A (12, 32), C (12, 32)
A_shared = T.sblock_alloc_buffer((12, 32), scope="shared")
for _ in T.thread_binding(1, thread="blockIdx.x"):
    for k in range(12):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("A_shared", "SS", k, t):
                A_shared[vk, vt] = A[vk, vt]
        for t in T.thread_binding(32, thread="threadIdx.x"):
            with T.sblock("C", "SS", k, t):
                C[vk, vt] = A_shared[vk, 31 - vt]
"""
Mirror = parse_kernel(MIRROR)


# A product whose inner loop copies what it reads into registers.
Fragments = parse_kernel("""
    A (6, 4), B (6, 3), C (4, 3)
    A_local = T.sblock_alloc_buffer((6, 4), scope="local")
    B_local = T.sblock_alloc_buffer((6, 3), scope="local")
    for i, j in T.grid(4, 3):
        with T.sblock("C_init", "SS", i, j):
            C[vi, vj] = T.float32(0)
    for k in range(6):
        for i in range(4):
            with T.sblock("A_local", "SS", k, i):
                A_local[vk, vi] = A[vk, vi]
        for j in range(3):
            with T.sblock("B_local", "SS", k, j):
                B_local[vk, vj] = B[vk, vj]
        for i, j in T.grid(4, 3):
            with T.sblock("C", "RSS", k, i, j):
                C[vi, vj] = C[vi, vj] + A_local[vk, vi] * B_local[vk, vj]
""")


def start(module=Mirror, place=1, block="A_shared"):
    """A schedule, a copy block, and a loop around it."""
    sch = Schedule(module, debug_mask="all")
    copy = sch.get_sblock(block)
    return sch, copy, sch.get_loops(copy)[place]


def staged(problem, *, fragments=None, vector=1, scope="shared", pad=False, turn=False, **tile):
    """A product in tiles, operands in shared memory: schedule, block, steps of k, and copies.

    `fragments` are "direct", or "between" with a loop between the steps and the fragments; `turn`
    transposes the tile of A and pads its rows; `tile` are options of `tile_in_warps`.
    """
    sch = Schedule(problem.module)  # with guards, TVM's verification doubts its own flags
    block = sch.get_sblock("C")
    if pad:
        tr.pad_block(sch, block, multiples=(8, 32, 4))
    tile = {"threads": (4, 8), "per_thread": (2, 4), **tile}
    loops = tr.tile_in_warps(sch, block, **tile)
    tr.accumulate_in_registers(sch, block, loops.threads)
    steps = tr.split_reduction(sch, block, inner=4, tail=tile.get("tail", "refuse"))
    copies = []
    for operand in range(2):
        copy = tr.cache_read_at(sch, block, steps.outer, operand=operand, scope=scope)
        tr.inline_producers(sch, copy)
        if turn and operand == 0:
            tr.transpose_tile(sch, copy)
            tr.pad_shared_rows(sch, copy, elements=4)
        count = math.prod(tile["threads"])
        tr.fetch_cooperatively(sch, copy, threads=count, vector=vector, tail="guard")
        copies.append(copy)
    if fragments == "between":
        tr.reorder_loops(sch, [loops.elements[0], steps.inner])
    for operand in range(2 if fragments else 0):
        tr.cache_read_at(sch, block, steps.inner, operand=operand, scope="local")
    tr.decompose_reduction_at(sch, block, steps.outer)
    return sch, block, steps, copies


def edit(module, old, new):
    """The module with a piece of its text replaced; reads and writes are found anew."""
    lines = module.script().splitlines()
    text = "\n".join(line for line in lines if "T.reads" not in line and "T.writes" not in line)
    assert old in text
    return from_source(text.replace(old, new))


PRODUCT = get_kernel("matmul").problem(16, 64, 16)


def source_of(module):
    compiled = compile_module(module, "nvidia/nvidia-h100")
    return compiled.mod.imports[0].inspect_source()


def is_right(module, reference=Mirror, dtype="float32"):
    """Whether the simulator computes what the schedule says, without a fault."""
    a = np.random.default_rng(0).integers(-4, 5, (12, 32)).astype(dtype)
    want = run_on_cpu(reference, a, output=(12, 32), dtype="float32")
    run = simulate(module, [a, np.full((12, 32), np.nan, "float32")])
    return run.findings == [] and np.array_equal(run.arguments[-1], want)


def test_prefetch_fragments_of_the_next_step():
    before = "for k in range(6):"
    after = """for k in T.serial(6, annotations={
        "software_pipeline_order": [0, 1, 2],
        "software_pipeline_stage": [0, 0, 1],
    }):"""

    def change(sch):
        copy = sch.get_sblock("A_local")
        k, _ = sch.get_loops(copy)
        tr.prefetch_fragments(sch, k)
        return copy, k

    check_pair(Fragments, change, edit(Fragments, before, after))


def test_prefetch_through_registers_into_a_double_buffer():
    after = edit(
        Mirror,
        "for k in range(12):",
        """for k in T.serial(12, annotations={
            "software_pipeline_order": [0, 2, 1],
            "software_pipeline_stage": [0, 0, 1],
        }):""",
    )
    marks = {"double_buffer_scope": 0, "tirx.manifest_shared_memory_local_stage": 1}
    copy = "A_shared[vk, vt] = A[vk, vt]"
    after = edit(after, copy, f"T.sblock_attr({marks}); {copy}")

    def change(sch):
        copy = sch.get_sblock("A_shared")
        k = sch.get_loops(copy)[1]
        tr.prefetch_through_registers(sch, k, [copy])
        return copy, k

    check_pair(Mirror, change, after)
    sch, copy, k = start()
    tr.prefetch_through_registers(sch, k, (copy,))
    assert is_right(sch.mod)
    assert "float A_shared_ptr[64]" in source_of(sch.mod)


def test_prefetch_asynchronously_with_its_pass_options():
    after = edit(
        Mirror,
        "for k in range(12):",
        """for k in T.serial(12, annotations={
            "software_pipeline_async_stages": [0],
            "software_pipeline_order": [0, 1],
            "software_pipeline_stage": [0, 2],
        }):""",
    )
    wanted = Schedule(after)
    for name in ("tirx.disable_storage_rewrite", "tirx.use_async_copy"):
        tr.set_pass_option(wanted, name=name, value=True)

    def change(sch):
        copy = sch.get_sblock("A_shared")
        k = sch.get_loops(copy)[1]
        tr.prefetch_asynchronously(sch, k, [copy])
        return copy, k

    check_pair(Mirror, change, wanted.mod)


@BOTH
@pytest.mark.parametrize(("fragments", "statements"), [("direct", 3), ("between", 1)])
def test_a_pipeline_of_fragments_inside_is_right(prefetch, fragments, statements):
    sch, _, steps, copies = staged(PRODUCT, fragments=fragments)
    tr.prefetch_fragments(sch, steps.inner)
    prefetch(sch, steps.outer, copies)
    stages = sch.get(steps.outer).annotations["software_pipeline_stage"]
    assert len(stages) == (4 if prefetch is THROUGH else 2) + statements
    assert check_numbers(PRODUCT, sch.mod, SIMULATOR, where="pipeline") == []


TRANSFORMS = {"prefetch_through_registers": THROUGH, "prefetch_asynchronously": ASYNC}
ALL = ["prefetch_fragments", *TRANSFORMS]


def begin(name):
    """A schedule, the loop that a transform may pipeline, and the call that does."""
    if name == "prefetch_fragments":
        sch, copy, loop = start(Fragments, 0, "A_local")
        return sch, loop, lambda: tr.prefetch_fragments(sch, loop)
    sch, copy, loop = start()
    return sch, loop, lambda: TRANSFORMS[name](sch, loop, [copy])


@pytest.mark.parametrize("name", ALL)
def test_prefetch_refuses_a_loop_that_is_a_pipeline_already(name):
    sch, _, call = begin(name)
    call()
    with refuses(sch, rf"{name}: loop 'k' is a pipeline already; pipeline a loop once"):
        call()


@pytest.mark.parametrize("name", ALL)
def test_prefetch_refuses_a_bound_loop(name):
    scope = "local" if name == "prefetch_fragments" else "shared"
    sch, copy, loop = start(edit(Mirror, 'scope="shared"', f'scope="{scope}"'))
    sch.bind(loop, "blockIdx.y")
    with refuses(sch, rf"{name}: loop 'k' is already bound to 'blockIdx.y'; do this while the lo"):
        tr.prefetch_fragments(sch, loop) if scope == "local" else TRANSFORMS[name](
            sch, loop, [copy]
        )


def test_prefetch_fragments_refuses_what_does_not_fit():
    sch, _, loop = start()
    with refuses(
        sch,
        r"prefetch_fragments: block 'A_shared' writes scope 'shared', not registers; pipeline .* "
        "with prefetch_through_registers",
    ):
        tr.prefetch_fragments(sch, loop)
    sch, _, steps, copies = staged(PRODUCT, fragments="direct")
    tr.prefetch_through_registers(sch, steps.outer, copies)
    with refuses(
        sch,
        r"prefetch_fragments: loop 'k_0' around loop 'k_1' is a pipeline already, which counts the "
        "statements in its body; pipeline the inner loop first",
    ):
        tr.prefetch_fragments(sch, steps.inner)
    module = edit(Fragments, "= B[vk, vj]", "= B_local[vk, vj] + B[vk, vj]")
    sch, _, loop = start(module, 0, "A_local")
    with refuses(sch, "block 'B_local' writes 'B_local' in loop 'k', which block 'B_local' would"):
        tr.prefetch_fragments(sch, loop)
    sch, _, loop = start(Fragments, 1, "A_local")
    with refuses(
        sch, r"prefetch_fragments: loop 'i' has one statement in its body, and nothing to"
    ):
        tr.prefetch_fragments(sch, loop)
    sch, _, steps, _ = staged(get_kernel("matmul").problem(16, 64, 4), fragments="direct")
    with refuses(sch, r"prefetch_fragments: loop 'k_0' runs once"):
        tr.prefetch_fragments(sch, steps.outer)


ONE_ROW = {"buffer((12, 32)": "buffer((32,)", "A_shared[vk, ": "A_shared["}
LAST = """
    for t in T.thread_binding(32, thread="threadIdx.x"):
        with T.sblock("last", "S", t):
            C[12, vt] = A_shared[31 - vt]"""
ROUND = "T.where(t % 12 == k)\n                "
SUM = """for r in range(3):
                with T.sblock("A_shared", "SSR", k, t, r):
                    A_shared[vk, vt] += A[vk, vt, vr]"""
COPY = 'with T.sblock("A_shared", "SS", k, t):\n                A_shared[vk, vt] = A[vk, vt]'


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {**ONE_ROW, "C (12": "C (13", "_shared[31 - vt]": f"_shared[31 - vt]{LAST}"},
            "block 'last' uses 'A_shared' outside of loop 'k', whose iterations would have tiles "
            "of their own; give that block a copy of its own",
        ),
        (
            {**ONE_ROW, " A_shared[vt] =": f" {ROUND}A_shared[vt] =", "31 - vt": "vt // 12 * 12"},
            "block 'C' may read cells of 'A_shared' that block 'A_shared' does not write in the "
            "same iteration of loop 'k'; copy all that an iteration reads",
        ),
        (
            {"A (12, 32)": "A (12, 32, 3)", COPY: SUM},
            "block 'A_shared' is more than one store; place copies in the loop with cach",
        ),
    ],
    ids=["used after the loop", "filled by earlier iterations", "a sum"],
)
def test_prefetch_refuses_tiles_that_are_not_an_iteration_s_own(name, changes, sentence):
    text = MIRROR
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    sch, copy, k = start(parse_kernel(text))
    with refuses(sch, f"{name}: {sentence}"):
        TRANSFORMS[name](sch, k, [copy])


@BOTH
def test_prefetch_refuses_copies_that_are_not_all_of_the_loop_in_their_order(prefetch):
    sch, block, steps, copies = staged(PRODUCT)
    with refuses(sch, r"block 'B_shared' is not statement 1 of loop 'k_0'; name the copies that"):
        prefetch(sch, steps.outer, copies[::-1])
    with refuses(sch, r"block 'A_shared' is not statement 2 of loop 'k_0'"):
        prefetch(sch, steps.outer, [copies[0], copies[0]])
    with refuses(sch, r"loop 'k_0' has 3 statements for 1 copies; name all copies of the loop"):
        prefetch(sch, steps.outer, copies[:1])
    with refuses(sch, r"loop 'k_0' has 3 statements for 0 copies"):
        prefetch(sch, steps.outer, [])
    with refuses(sch, r"block 'C_update' writes scope 'local'; name copies into shared memory"):
        prefetch(sch, steps.outer, [copies[0], block])
    with refuses(sch, r"copies is not a list of block handles; pass a list"):
        prefetch(sch, steps.outer, copies[0])
    with refuses(sch, r"loop 'k_1' has one statement in its body, and nothing to fetch ahead; pla"):
        prefetch(sch, steps.inner, copies)


def test_prefetch_through_registers_refuses_a_block_for_the_loop():
    sch, copy, _ = start()
    with refuses(sch, r"prefetch_through_registers: loop is a block handle, not a loop handle"):
        tr.prefetch_through_registers(sch, copy, [copy])


@pytest.mark.parametrize("stages", [0, 1, 13, -2])
def test_prefetch_asynchronously_refuses_stages_that_do_not_fit(stages):
    sch, copy, k = start()
    with refuses(
        sch,
        rf"prefetch_asynchronously: stages={stages} does not fit loop 'k' of 12 iterations; use "
        "2 to 12",
    ):
        tr.prefetch_asynchronously(sch, k, [copy], stages=stages)


def test_tvm_copies_other_elements_than_those_of_a_vector_that_lie_apart():
    sch, _, steps, _ = staged(PRODUCT, turn=True, vector=4)
    sch.annotate(steps.outer, "software_pipeline_stage", [0, 0, 2])
    sch.annotate(steps.outer, "software_pipeline_order", [0, 1, 2])
    sch.annotate(steps.outer, "software_pipeline_async_stages", [0])
    for name in ("tirx.use_async_copy", "tirx.disable_storage_rewrite"):
        tr.set_pass_option(sch, name=name, value=True)
    assert check_numbers(PRODUCT, sch.mod, SIMULATOR, where="pipeline") != []


@pytest.mark.parametrize("place", [0, 1])
def test_prefetch_asynchronously_refuses_a_loop_that_is_to_be_unrolled(place):
    sch, copy, k = start()
    b = sch.get_loops(copy)[0]
    if place == 0:  # it is bound, and a wish there holds for all loops inside
        sch.annotate(b, "pragma_auto_unroll_max_step", 64)
    else:
        tr.suggest_unrolling(sch, k)
    with refuses(
        sch,
        rf"prefetch_asynchronously: loop '{'_k'[place]}' is marked by suggest_unrolling, under "
        "which TVM cannot say how many copies to wait for",
    ):
        tr.prefetch_asynchronously(sch, k, [copy])
    tr.prefetch_through_registers(sch, k, [copy])
    assert is_right(sch.mod)


def test_prefetch_asynchronously_refuses_a_schedule_that_works_on_no_function():
    module = edit(Mirror, "def main", "def mirror")
    sch = Schedule(module)
    copy = sch.get_sblock("A_shared", func_name="mirror")
    k = sch.get_loops(copy)[1]
    with refuses(
        sch, r"prefetch_asynchronously: set_pass_option: the schedule works on none of 'mi"
    ):
        tr.prefetch_asynchronously(sch, k, [copy])
    sch.work_on("mirror")
    tr.prefetch_asynchronously(sch, k, [copy])
    assert tr.get_pass_options(sch.mod)["tirx.use_async_copy"]


# Rows of two types of elements, mirrored.
Scaled = parse_kernel("""
    A (12, 32), B (12, 32) float16, C (12, 32)
    A_shared = T.sblock_alloc_buffer((12, 32), scope="shared")
    B_shared = T.sblock_alloc_buffer((12, 32), "float16", scope="shared")
    for _ in T.thread_binding(1, thread="blockIdx.x"):
        for k in range(12):
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for v in T.vectorized(4):
                    with T.sblock("A_shared", "S", k):
                        vt = T.axis.spatial(32, t * 4 + v)
                        A_shared[vk, vt] = A[vk, vt]
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for v in T.vectorized(4):
                    with T.sblock("B_shared", "S", k):
                        vt = T.axis.spatial(32, t * 4 + v)
                        B_shared[vk, vt] = B[vk, vt]
            for t in T.thread_binding(8, thread="threadIdx.x"):
                for v in range(4):
                    with T.sblock("C", "S", k):
                        vt = T.axis.spatial(32, t * 4 + v)
                        C[vk, vt] = A_shared[vk, 31 - vt] * T.float32(B_shared[vk, 31 - vt])
""")


def test_one_copy_of_4_byte_elements_keeps_tvm_from_retyping_the_buffers():
    sch = Schedule(Scaled)
    copies = [sch.get_sblock(name) for name in ("A_shared", "B_shared")]
    tr.prefetch_asynchronously(sch, sch.get_loops(copies[0])[1], copies)
    assert tr.get_pass_options(sch.mod)["tirx.disable_storage_rewrite"]
    assert "cp.async" in source_of(sch.mod)
