"""Counts of a launch's accesses, held against what warps do by hand."""

import pytest
from kernels import at_block, parse_kernel

from tirstep.lowering_checks import Counts, DeviceError, count_accesses
from tirstep.lowering_checks.facts.lowered import is_decided_by_memory
from tirstep.modules import get_kernel
from tirstep.transforms import bind_loop, cache_read_at, fetch_cooperatively, tile_block

ADD = get_kernel("vector_add").problem(n=256)
MATMUL = get_kernel("matmul").problem(m=32, n=32, k=32)


def test_threads_that_lie_far_apart_do_not() -> None:
    sch, _, loop = at_block(ADD.module, "C")
    threads, blocks = sch.split(loop, [32, None])
    sch.reorder(blocks, threads)
    bind_loop(sch, blocks, axis="blockIdx.x")
    bind_loop(sch, threads, axis="threadIdx.x")
    assert count_accesses(ADD, sch.mod).scopes["global"].sectors_per_request == 32.0


def count_with_tile_of_a(letters: tuple[str, str]) -> Counts:
    """One warp's 32 elements of C, a column or a row of it, with the rows of A in shared memory."""
    sch, block, *_ = at_block(MATMUL.module, "C")
    threads = (32, 1) if letters == ("x", "y") else (1, 32)
    tile = tile_block(sch, block, threads=threads, axes=letters)
    copy = cache_read_at(sch, block, tile.threads[-1], operand=0, scope="shared")
    fetch_cooperatively(sch, copy, threads=(32,), tail="guard")
    return count_accesses(MATMUL, sch.mod)


def test_a_broadcast_of_shared_memory_has_none() -> None:
    assert count_with_tile_of_a(("y", "x")).scopes["shared"].bank_conflicts == 0


def test_what_is_not_bound_is_refused() -> None:
    sentence = "there is no launch to count: not bound yet: C; bind its loops first"
    with pytest.raises(DeviceError, match=sentence):
        count_accesses(ADD, ADD.module)


@pytest.mark.parametrize(
    ("body", "is_decided"),
    [
        ("B[i] = A[i] + A[63 - i]", False),
        ("B[i] = A[I[i]]", True),
        ("if I[i] > 0:\n            B[i] = A[i]", True),
        ("for j in range(I[i]):\n            B[i] = A[j]", True),
    ],
)
def test_inputs_are_drawn_where_memory_decides_what_is_accessed(body: str, is_decided: bool):
    module = parse_kernel(f"""
    A (64,), I (64,) int32, B (64,)
    for i in T.thread_binding(64, thread="threadIdx.x"):
        {body}
    """)
    assert is_decided_by_memory(module["main"].body) == is_decided
