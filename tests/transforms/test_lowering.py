"""The pass that drops barriers: which one it drops, which ones it keeps, and that it finds races.

The kernels here are lowered ones: threads are launched, buffers are flat, barriers are calls.
"""

import numpy as np
import pytest
from kernels import Copy, parse_kernel
from pairs import check_pair, refuses
from tvm import IRModule, s_tir
from tvm.ir import assert_structural_equal
from tvm.ir.instrument import pass_instrument
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.tirx import Break, BufferStore, Continue, Evaluate, For, Return, SeqStmt, const
from tvm_ffi import structural_map

from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.devices.simulator import simulate_lowered
from tirstep.modules import get_kernel
from tirstep.transforms import get_pipeline, set_pipeline
from tirstep.transforms.pass_options import PIPELINE
from tirstep.transforms.passes.barriers import DropRedundantBarriers
from tirstep.transforms.recipes.gemm import GemmConfig, GemmEngine
from tirstep.transforms.tir import find_all

TARGET, BEHIND = "nvidia/nvidia-h100", "s_tir.LowerThreadAllreduce"
PROBLEM = get_kernel("matmul").problem(16, 64, 16)


def kernel(loop: str, after: str = 'T.tvm_storage_sync("shared")', before: str = "") -> IRModule:
    """A lowered kernel of 32 threads: ``for k in range(8)`` around the statements of `loop`."""
    lines = [f"            {line}" for line in loop.strip().splitlines()]
    return from_source(
        f"""
@I.ir_module(check_well_formed=False)
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((512,), "float32"), C: T.Buffer((512,), "float32")):
        t = T.launch_thread("threadIdx.x", 32)
        S = T.alloc_buffer((160,), scope="shared")
        X = T.alloc_buffer((160,), scope="shared")
        R = T.alloc_buffer((4,), scope="local")
        N = T.alloc_buffer((1,), "int32", scope="local")
        {before or "R[0] = T.float32(0)"}
        for k in range(8):
"""
        + "\n".join(lines)
        + f"\n        {after}\n        C[t] = R[0]\n",
        check_well_formed=False,
    )


BARRIER = 'T.tvm_storage_sync("shared")'


def pipeline(read: str, write: str, between: str = "") -> str:
    """One iteration that reads a slot and then writes one."""
    return f"{BARRIER}\nR[0] = R[0] + S[{read}]\n{between}\n{BARRIER}\nS[{write}] = A[k * 32 + t]"


def count_barriers(module: IRModule) -> int:
    return module.script().count("tvm_storage_sync(")


def drops(module: IRModule) -> int:
    """How many barriers the pass drops."""
    return count_barriers(module) - count_barriers(DropRedundantBarriers(module))


def lower(module: IRModule, pipeline: str) -> IRModule:
    """The module behind the passes that order threads."""
    seen = []

    @pass_instrument
    class Watch:
        def run_after_pass(self, lowered, info):
            if str(info.name) == BEHIND:
                seen.append(lowered)

    compile_module(module, TARGET, instruments=[Watch()], pipeline=pipeline)
    return seen[-1]


def remove_barrier(module: IRModule, which: int) -> IRModule:
    """A lowered module without one of its barriers."""
    seen = -1

    def edit(sequence):
        nonlocal seen
        kept = []
        for part in sequence.seq:
            is_barrier = isinstance(part, Evaluate) and "tvm_storage_sync" in str(part)
            seen += is_barrier
            if not is_barrier or seen != which:
                kept.append(part)
        return sequence if len(kept) == len(sequence.seq) else SeqStmt(kept)

    function = module["main"]
    changed = function.with_body(structural_map(function.body, (SeqStmt, edit)))
    assert seen >= which
    return IRModule({"main": changed})


def prefetched(**sizes) -> IRModule:
    """A product whose next tiles go through registers into a double buffer."""
    sch = Schedule(PROBLEM.module)
    config = GemmConfig(threads=(4, 8), thread_tile=(2, 4), tile_k=4, stages=2, **sizes)
    assert "barriers_dropped" in list(GemmEngine.run(sch, config))
    return sch.mod


def run(module: IRModule):
    """What the simulator sees of a lowered product, and whether its numbers are right."""
    inputs = PROBLEM.integer_inputs(0)
    result = simulate_lowered(module, [*inputs, np.full((16, 64), np.nan, "float32")])
    return result.findings, np.array_equal(result.arguments[-1], PROBLEM.reference(inputs)[0])


@pytest.mark.parametrize("sizes", [{}, {"warp": (4, 8)}, {"padding": 4}], ids=str)
def test_one_barrier_of_a_double_buffer_goes_and_the_numbers_stay(sizes):
    module = prefetched(**sizes)
    assert get_pipeline(module) == PIPELINE
    before, after = lower(module, "default"), lower(module, PIPELINE)
    assert (count_barriers(before), count_barriers(after)) == (3, 2)
    assert_structural_equal(after["main"].body, remove_barrier(before, 1)["main"].body)
    assert run(before) == ([], True)
    assert run(after) == ([], True)


@pytest.mark.parametrize(
    ("read", "write"),
    [
        ("k % 2 * 32 + t", "(k + 1) % 2 * 32 + t"),
        ("k % 3 * 32 + t", "(k + 1) % 3 * 32 + t"),
        ("k % 3 * 32 + t", "(k + 2) % 3 * 32 + t"),
        ("k % 5 * 32 + t", "(k + 4) % 5 * 32 + t"),
        ("(k + 3) % 2 * 32 + t", "(k + 4) % 2 * 32 + 31 - t"),
        ("k % 2 * 80 + t", "(k + 1) % 2 * 80 + t + 48"),
        ("t + k % 2 * 32", "32 * ((k + 1) % 2) + t // 4 * 4 + t % 4"),
        ("(k - 1) % 3 * 32 + t", "k % 3 * 32 + t"),
    ],
)
def test_a_barrier_between_different_slots_goes(read, write):
    module = kernel(pipeline(read, write))
    after = DropRedundantBarriers(module)
    assert_structural_equal(after["main"].body, remove_barrier(module, 1)["main"].body)


@pytest.mark.parametrize(
    ("read", "write"),
    [
        ("k % 3 * 32 + t", "k % 3 * 32 + 31 - t"),  # one slot
        ("k % 3 * 32 + t", "(k + 3) % 3 * 32 + t"),  # that of three iterations later
        ("k % 2 * 32 + t", "(k - 2) % 2 * 32 + t"),
        ("k % 2 * 32 + t", "(k + 1) % 3 * 32 + t"),  # slots of different numbers
        ("k % 2 * 32 + t", "(k + 1) % 2 * 16 + t"),  # and sizes
        ("k % 2 * 32 + t + 1", "(k + 1) % 2 * 32 + t"),  # over the end of a slot
        ("k % 2 * 32 + t", "(k + 1) % 2 * 32 + t - 1"),
        ("k % 2 * 32 + t", "(k + 1) % 2 * 32 + t * 2"),
        ("t", "t"),  # no slots
        ("k % 2 * 32 + t", "t"),
        ("t", "(k + 1) % 2 * 32 + t"),
        ("k * 4 + t", "(k + 1) * 4 + t"),
        ("k % 2 * 32 + t", "(k + 1) % 2 * 32 + k % 4"),
        ("k % 2 * 32 + t", "(k + 1) % 2 * 32 + k"),
        ("k * 2 % 2 * 32 + t", "(k * 2 + 1) % 2 * 32 + t"),  # two slots, of which one is used
        ("(k + t) % 2 * 32 + t", "(k + t + 1) % 2 * 32 + t"),  # each thread has its own
        ("k % 2 * 32 + k % 2 * 0 + t", "(k + 1) % 4 % 2 * 32 + t"),
        ("k // 2 % 2 * 32 + t", "(k // 2 + 1) % 2 * 32 + t"),
        ("T.truncmod(k, 2) * 32 + t", "T.truncmod(k + 1, 2) * 32 + t"),
    ],
)
def test_a_barrier_between_accesses_that_may_meet_stays(read, write):
    assert drops(kernel(pipeline(read, write))) == 0


TWO = ("k % 2 * 32 + t", "(k + 1) % 2 * 32 + t")


def test_only_a_barrier_after_the_loop_lets_one_inside_go():
    assert drops(kernel(pipeline(*TWO))) == 1
    assert drops(kernel(pipeline(*TWO), after="R[1] = S[t]")) == 0
    assert drops(kernel(pipeline(*TWO), after=f"R[1] = S[t]\n        {BARRIER}")) == 0
    quiet = "x: T.let[T.float32] = R[0] * T.float32(2)"
    assert drops(kernel(pipeline(*TWO), after=f"y: T.let[T.int32] = t * 2\n        {BARRIER}")) == 1
    loads = "x: T.let[T.float32] = S[t]"
    for line in (quiet, loads):  # loads of any memory are taken for accesses
        assert drops(kernel(pipeline(*TWO), after=f"{line}\n        {BARRIER}")) == 0


@pytest.mark.parametrize(("shift", "gone"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_a_segment_goes_on_in_the_next_iteration(shift, gone):
    # What is read at the head of iteration k + 1 is slot k + 1 + shift.
    loop = f"""
R[0] = S[(k + {shift}) % 2 * 32 + t]
{BARRIER}
S[(k + 1) % 2 * 32 + t] = A[t]
{BARRIER}
R[1] = A[t]
"""
    assert drops(kernel(loop)) == gone


def test_each_barrier_is_judged_with_those_that_are_left():
    # Any two neighbours touch different slots; the first and the third the same one.
    loop = f"""
{BARRIER}
R[0] = S[k % 2 * 32 + t]
{BARRIER}
S[(k + 1) % 2 * 32 + t] = A[t]
{BARRIER}
S[k % 2 * 32 + 31 - t] = A[t]
"""
    module = kernel(loop)
    assert drops(module) == 1
    assert_structural_equal(
        DropRedundantBarriers(DropRedundantBarriers(module)), DropRedundantBarriers(module)
    )


@pytest.mark.parametrize(
    "between",
    [
        f"for i in range(2):\n    {BARRIER}\n    R[1] = S[i]",
        f"if t < 0:\n    {BARRIER}",
        "T.evaluate(T.call_extern('void', 'touch', S.data))",
        "T.evaluate(T.call_extern('void', 'touch', T.address_of(S[0])))",
        "T.evaluate(T.call_extern('void', 'touch'))",
        "R[1] = T.call_extern('float32', 'touch')",
        "R[1] = T.call_pure_extern('float32', 'peek', S.data)",
        "T.evaluate(T.tvm_storage_sync('warp'))",
        "with T.attr(0, 'async_wait_queue_scope', 0):\n    R[1] = S[k % 2 * 32 + t]",
        "with T.attr(0, 'async_commit_queue_scope', 0):\n    R[1] = S[k % 2 * 32 + t]",
        "if R[0] > T.float32(3):\n    break",
        "if R[0] > T.float32(3):\n    continue",
        "C[k * 32 + t] = R[0]",  # which may be A
    ],
)
def test_a_loop_that_does_more_than_to_load_and_store_shared_memory_keeps_its_barriers(between):
    assert drops(kernel(pipeline(*TWO, between))) == 0


@pytest.mark.parametrize(
    "between",
    [
        "x: T.let[T.int32] = k % 2\nR[1] = S[x * 32 + t]",
        "R[1] = T.if_then_else(t < 3, T.exp(S[k % 2 * 32 + t]), T.float32(0))",
        "for i in range(32):\n    R[1] = R[1] + S[k % 2 * 32 + i]",
        "for i in T.unroll(8):\n    R[0:4] = S[T.Ramp(k % 2 * 32 + i * 4, 1, 4)]",
        "R[0:4] = S[T.Ramp(k % 2 * 32 + t % 8, 8, 4)]",
        "with T.attr(0, 'pragma_unroll_explicit', 0):\n    R[1] = S[k % 2 * 32 + t]",
        "if t < 8:\n    R[1] = S[k % 2 * 32 + t + 24]",  # eight threads within a slot
        "X[t] = A[t]",  # another buffer, which is there before and after the loop
        "R[1] = A[t]",
    ],
)
def test_a_loop_with_other_statements_loses_its_barrier(between):
    assert drops(kernel(pipeline(*TWO, between))) == 1


@pytest.mark.parametrize(
    "between",
    [
        "if t < 9:\n    R[1] = S[k % 2 * 32 + t + 24]",
        "if N[0] < 8 and N[0] >= 0:\n    N[0] = 9\n    R[1] = S[k % 2 * 32 + N[0] + 24]",
        "if t < 8:\n    R[1] = S[0]\nelse:\n    R[1] = S[k % 2 * 32 + t + 24]",
        "for i in range(33):\n    R[1] = R[1] + S[k % 2 * 32 + i]",
        "R[0:4] = S[T.Ramp(k % 2 * 32 + t, 1, 4)]",
        "R[0:4] = S[T.Ramp(k % 2 * 32 + t % 9, 8, 4)]",
        "R[0:4] = S[T.Broadcast(k % 2 * 32, 4) + T.Ramp(0, 1, 4)]",
        "x: T.let[T.int32] = k % 2 + T.if_then_else(R[0] > T.float32(0), 1, 0)\nR[1] = S[x * 32]",
    ],
)
def test_an_access_beside_its_slot_keeps_the_barrier(between):
    assert drops(kernel(pipeline(*TWO, between))) == 0


def test_two_tiles_that_live_in_the_loop_keep_the_barrier_between_them():
    """TVM puts them into one place afterwards, and looks at no barrier when it does."""
    loop = f"""
D = T.alloc_buffer((32,), scope="shared.dyn")
E = T.alloc_buffer((32,), scope="shared.dyn")
D[t] = A[k * 32 + t]
{BARRIER}
R[0] = R[0] + D[31 - t]
{BARRIER}
E[t] = A[k * 32 + t + 256]
{BARRIER}
R[0] = R[0] + E[31 - t]
"""
    module = kernel(loop)
    merged = s_tir.transform.MergeSharedMemoryAllocations()(module).script()
    assert '(128,), "uint8", scope="shared.dyn"' in merged  # bytes, for both
    assert drops(module) == 0


@pytest.mark.parametrize("statement", [Break(), Continue(), Return(const(0, "int32"))], ids=str)
def test_a_loop_that_control_leaves_keeps_its_barriers(statement):
    module = kernel(pipeline(*TWO, "R[3] = T.float32(3)"))

    def leave(store):
        return statement if "[3] = " in store.script() else store

    function = module["main"]
    body = structural_map(function.body, (BufferStore, leave))
    assert find_all(body, type(statement))
    assert drops(IRModule({"main": function.with_body(body)})) == 0


def test_a_variable_of_two_loops_is_not_trusted():
    loop = pipeline(*TWO, "for i in range(32):\n    R[1] = R[1] + S[k % 2 * 32 + i]")
    module = kernel(loop, before="for j in range(20):\n            R[2] = S[j]")
    assert drops(module) == 1
    first, _, inner = find_all(module["main"].body, For)

    def edit(loop):
        if not loop.same_as(first):
            return loop
        return For(inner.loop_var, loop.min, loop.extent, loop.kind, loop.body)

    function = module["main"]
    shared = function.with_body(structural_map(function.body, (For, edit)))
    assert drops(IRModule({"main": shared})) == 0


def test_set_pipeline_is_noted_in_the_root_block():
    After = parse_kernel("""
        A (8,), B (8,)
        with T.sblock("root"):
            T.sblock_attr({"tir_pipeline": "tirstep"})
            for i in range(8):
                with T.sblock("B", "S", i):
                    B[vi] = A[vi]
    """)

    check_pair(Copy, set_pipeline, After)
    assert get_pipeline(Copy) == "default"
    assert get_pipeline(After) == "tirstep"


def test_set_pipeline_refuses_what_does_not_fit():
    sch = Schedule(from_source(Copy.script().replace("def main", "def copy")))
    with refuses(
        sch, "set_pipeline: the schedule works on none of 'copy'; name one with sch.work_"
    ):
        set_pipeline(sch)
    sch.work_on("copy")
    set_pipeline(sch)
    assert get_pipeline(sch.mod) == "tirstep"
