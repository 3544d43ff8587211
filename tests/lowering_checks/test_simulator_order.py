"""What the simulator holds to be ordered: barriers of each thread block, blocks among each other,
equal values, masks of shuffles, and buffers that follow each other in one place."""

import numpy as np
import pytest
from lowered import find_kinds, run_kernel, write_kernel
from tvm.script import from_source

from tirstep.lowering_checks.devices.simulator import (
    UnsupportedError,
    simulate_lowered,
    statements,
)
from tirstep.lowering_checks.devices.simulator import co_writers as co_writers_module
from tirstep.lowering_checks.devices.simulator.co_writers import CoWriters

SYNC = 'T.tvm_storage_sync("shared")'
SHARED = "S = T.alloc_shared((64,))\n---\n"


def floats(size: int = 64) -> np.ndarray:
    return np.random.default_rng(1).integers(1, 90, size).astype("float32")


def blank(size: int = 64) -> np.ndarray:
    return np.full(size, np.nan, "float32")


def kinds(body: str, *more: str, blocks: int = 2, threads: int = 32, **arrays) -> list[str]:
    arrays = arrays or {"A": floats(), "B": blank()}
    return find_kinds(run_kernel(arrays, body, *more, blocks=blocks, threads=threads))


# ---- Barriers that some of the thread blocks pass.


@pytest.mark.parametrize(("passing", "wrong"), [("bx >= 0", []), ("bx == 1", ["race"])])
def test_a_barrier_orders_the_blocks_that_pass_it(passing: str, wrong: list[str]) -> None:
    body = (
        f"{SHARED}S[tx] = A[bx * 32 + tx]\nif {passing}:\n    {SYNC}\nB[bx * 32 + tx] = S[31 - tx]"
    )
    assert kinds(body) == wrong


@pytest.mark.parametrize(("rounds", "wrong"), [([3, 3], []), ([1, 3], []), ([0, 2], [])])
def test_blocks_may_pass_barriers_different_numbers_of_times(rounds, wrong) -> None:
    counts = np.array(rounds, "int32")
    body = f"""\
S = T.alloc_shared((64,))
---
B[bx * 32 + tx] = T.float32(0)
for k in range(n[bx]):
    S[tx] = A[bx * 32 + tx]
    {SYNC}
    B[bx * 32 + tx] = B[bx * 32 + tx] + S[31 - tx]
    {SYNC}
"""
    assert kinds(body, A=floats(), n=counts, B=blank()) == wrong


def test_a_read_before_another_blocks_barrier_still_counts() -> None:
    """Block 1 passes a barrier between its read and its write; block 0 passes none."""
    body = f"""\
S = T.alloc_shared((64,))
r = T.alloc_local((1,))
---
S[tx] = A[tx]
{SYNC}
r[0] = S[31 - tx]
if bx == 1:
    {SYNC}
S[tx] = r[0] + T.float32(1)
{SYNC}
B[bx * 32 + tx] = S[tx]
"""
    findings = run_kernel({"A": floats(), "B": blank()}, body, blocks=2).findings
    assert [(finding.kind, finding.count) for finding in findings] == [("race", 32)]
    assert (
        "store to S[0] by thread (0, 0, 0) of block (0, 0, 0) and load by thread (31, 0, 0)"
        in str(findings[0])
    )


def test_a_barrier_in_the_arms_of_a_branch_over_blocks_orders_each_of_them() -> None:
    body = f"""{SHARED}S[tx] = A[bx * 32 + tx]
if bx == 0:
    {SYNC}
else:
    {SYNC}
B[bx * 32 + tx] = S[31 - tx]"""
    assert kinds(body) == []


def test_copies_that_one_block_waits_for_and_another_does_not() -> None:
    """An own wait and barrier in block 1; block 0 has neither, and reads what is on its way."""
    copy = 'T.evaluate(T.s_tir.cp_async_raw("float32", X.data, tx, A.data, bx * 32 + tx, 4))'
    body = f"""\
X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
---
with T.attr({{"async_commit_queue_scope": 0}}):
    {copy}
if bx == 1:
    with T.attr({{"async_wait_queue_scope": 0, "async_wait_inflight_count": 0}}):
        T.tvm_storage_sync("shared.dyn")
B[bx * 32 + tx] = X[31 - tx]
"""
    (finding,) = run_kernel({"A": floats(), "B": blank()}, body, blocks=2).findings
    assert (finding.kind, finding.count) == ("race", 32)
    assert "load of X[31] by thread" in finding.message


# ---- Thread blocks are in no order until the launch ends.


@pytest.mark.parametrize("blocks", [2, 2000], ids=["one batch", "many batches"])
@pytest.mark.parametrize("first", ["tx + bx * 32", "(tx + bx * 32 + 32) % {0}"])
def test_a_read_of_another_blocks_cell_is_never_ordered(first: str, blocks: int) -> None:
    """Own cell first or neighbour's first, a barrier, then the own store."""
    size = blocks * 32
    other = "(tx + bx * 32 + 32) % {0}" if first.startswith("tx") else "tx + bx * 32"
    body = f"""\
r = T.alloc_local((1,))
---
r[0] = C[{first.format(size)}]
r[0] = r[0] + C[{other.format(size)}]
{SYNC}
C[tx + bx * 32] = r[0]
"""
    fill = "C[tx + bx * 32] = A[tx + bx * 32]"
    arrays = {"A": floats(size), "C": blank(size)}
    result = run_kernel(arrays, fill, body, blocks=blocks)
    assert find_kinds(result) == ["race"]
    assert "and load by thread (0, 0, 0) of block (" in result.findings[0].message


def test_what_a_block_does_to_cells_of_its_own_is_ordered_by_its_barriers() -> None:
    body = """\
r = T.alloc_local((1,))
---
r[0] = C[63 - tx - bx * 32] + C[31 - tx + bx * 32] * T.float32(0)
"""
    own = f"""\
r = T.alloc_local((1,))
---
r[0] = C[31 - tx + bx * 32]
{SYNC}
C[tx + bx * 32] = r[0]
"""
    fill = "C[tx + bx * 32] = A[tx + bx * 32]"
    assert kinds(fill, own, A=floats(), C=blank()) == []
    assert kinds(fill, body + "C[tx + bx * 32] = r[0]", A=floats(), C=blank()) == ["race"]


def test_the_next_launch_begins_anew() -> None:
    turn = "C[tx + bx * 32] = A[63 - tx - bx * 32]"
    back = "A[tx + bx * 32] = C[63 - tx - bx * 32]"
    fill = "A[tx + bx * 32] = I[tx + bx * 32]"
    arrays = {"I": floats(), "A": blank(), "C": blank()}
    assert find_kinds(run_kernel(arrays, fill, turn, back, turn, blocks=2)) == []


# ---- Equal values.


EQUAL = {
    "all write one value and read it": (f"{SHARED}S[0] = T.float32(7)\nB[tx] = S[0]", []),
    "in two statements": (
        f"{SHARED}S[tx % 8] = T.float32(7)\nS[tx % 4] = T.float32(7)\nB[tx] = S[tx % 4]",
        [],
    ),
    "another thread reads it": (
        f"{SHARED}S[tx % 8] = T.float32(7)\nB[tx] = S[(tx + 1) % 8]",
        ["race"],
    ),
    "a thread writes it after others": (
        f"{SHARED}if tx < 16:\n    S[0] = T.float32(7)\nS[0] = T.float32(7)\nB[tx] = S[0]",
        [],
    ),
    "half of the threads write it": (
        f"{SHARED}if tx < 16:\n    S[0] = T.float32(7)\nB[tx] = S[0]",
        ["race"],
    ),
    "written once more behind a barrier": (
        f"{SHARED}S[tx] = T.float32(7)\n{SYNC}\nS[tx] = T.float32(7)\nB[tx] = S[31 - tx]",
        [],
    ),
    "one of them writes another value": (
        f"{SHARED}S[0] = T.float32(7)\nif tx == 3:\n    S[0] = T.float32(8)\n{SYNC}\nB[tx] = S[0]",
        ["race"],
    ),
    "one of them writes another value behind a barrier": (
        f"{SHARED}S[0] = T.float32(7)\n{SYNC}\nif tx == 3:\n    S[0] = T.float32(8)\n{SYNC}\n"
        "B[tx] = S[0]",
        [],
    ),
    "the last to write it writes another value": (
        f"{SHARED}S[0] = T.float32(7)\nif tx == 31:\n    S[0] = T.float32(8)\n{SYNC}\nB[tx] = S[0]",
        ["race"],
    ),
    "not a number": (f"{SHARED}S[0] = A[0] / A[0] - A[0] / A[0]\nB[tx] = S[0]", []),
}


@pytest.mark.parametrize(("body", "wrong"), EQUAL.values(), ids=EQUAL)
def test_writing_the_same_value_is_a_race_only_for_those_who_did_not(body, wrong) -> None:
    assert kinds(body, blocks=1) == wrong


@pytest.mark.parametrize("blocks", [2, 1500], ids=["one batch", "many batches"])
def test_blocks_may_compute_the_same_twice(blocks: int) -> None:
    """As paddings that every block computes for itself; one that changes them is found."""
    body = f"C[tx] = A[tx]\n{SYNC}\nB[tx + bx * 32] = C[31 - tx]"
    arrays = {"A": floats(32), "C": blank(32), "B": blank(blocks * 32)}
    assert (
        find_kinds(run_kernel(arrays, "C[tx] = A[tx]\nB[tx + bx * 32] = C[tx]", blocks=blocks))
        == []
    )
    assert find_kinds(run_kernel(arrays, body, blocks=blocks)) == []
    late = f"C[tx] = A[tx]\nif bx == {blocks - 1}:\n    C[tx] = A[tx] + T.float32(1)"
    assert find_kinds(run_kernel(arrays, late, blocks=blocks)) == ["race"]


def test_co_writers_are_found_by_cell_and_thread() -> None:
    co_writers = CoWriters()
    assert not co_writers
    co_writers.add(np.array([4, 4, 9]), np.array([1, 70, 2]), time=5, per_block=64)
    cells, threads = np.array([[4, 4, 9]]), np.array([[1, 2, 2]])
    begun = np.full(cells.shape, 6)
    has = co_writers.has(cells, threads, begun - 1, per_block=64)
    np.testing.assert_array_equal(has, [[True, False, True]])
    has = co_writers.has(cells, threads, begun, per_block=64)
    np.testing.assert_array_equal(has, [[True, True, True]])  # behind a barrier
    rivals = co_writers.find_rivals(cells, threads, begun, per_block=64)
    np.testing.assert_array_equal(rivals, [[70, 70, -1]])  # of another block, whenever that was
    rivals = co_writers.find_rivals(cells, threads, begun - 1, per_block=64)
    assert rivals[0, 1] in (1, 70)
    co_writers.drop(np.array([4]))
    np.testing.assert_array_equal(co_writers.take()[0], [9])
    assert not co_writers


def test_co_writers_of_the_same_interval_are_forgotten_with_their_value() -> None:
    co_writers = CoWriters()
    co_writers.add(np.array([4, 4, 9]), np.array([1, 70, 2]), time=5, per_block=64)
    co_writers.drop(np.array([4]))
    np.testing.assert_array_equal(co_writers.take()[0], [9])


def test_co_writers_are_those_of_a_list_of_all_stores() -> None:
    """Any stores, drops and barriers: what is told of them is what asking every store tells."""
    dice = np.random.default_rng(5)
    co_writers, stores, per_block = CoWriters(), [], 4
    for time in range(1, 400):
        kind, cells = dice.integers(10), dice.integers(0, 3, dice.integers(1, 12)) * 7
        threads = dice.integers(0, 4 + time // 20, cells.size)
        if kind < 6:
            co_writers.add(cells, threads, time, per_block)
            stores += zip(cells.tolist(), threads.tolist(), [time] * cells.size, strict=True)
        elif kind == 6:
            co_writers.drop(cells[:1])
            stores = [store for store in stores if store[0] != cells[0]]
        since = dice.integers(max(0, time - 8), time + 2, cells.size)
        rivals = co_writers.find_rivals(cells, threads, since, per_block)
        owns = co_writers.has(cells, threads, since, per_block)
        for cell, thread, begun, rival, own in zip(
            cells, threads, since, rivals, owns, strict=True
        ):
            near = [(t, at, t // 4 == thread // 4) for c, t, at in stores if c == cell]
            wrong = {t for t, at, is_same in near if t != thread and (not is_same or at >= begun)}
            assert rival in (wrong or {-1})
            assert own == any(t == thread or (same and at < begun) for t, at, same in near)


def test_stores_of_the_same_again_and_again_are_sorted_seldom(monkeypatch) -> None:
    """A tile that 128 threads store in each iteration of a loop: its stores do not pile up."""
    sizes = []
    sort = co_writers_module._Sorted
    monkeypatch.setattr(
        co_writers_module,
        "_Sorted",
        lambda stores, *rest: sizes.append(stores.cells.size) or sort(stores, *rest),
    )
    co_writers, threads = CoWriters(), np.arange(128)
    for number in range(4096):
        cells = np.full(128, number % 512)
        co_writers.add(cells, threads, time=0, per_block=128)
        if number % 128 == 0:
            assert co_writers.has(cells, threads, threads * 0, per_block=128).all()
    assert sum(part.keys.size for part in co_writers._parts) <= 2 * 512 * 128
    assert sum(sizes) < 16 * 4096 * 128


# ---- Threads that return, and loops without a count.


def test_threads_that_have_returned_are_waited_for_by_nobody() -> None:
    body = f"""\
S = T.alloc_shared((64,))
---
if tx >= 32:
    T.thread_return()
S[tx] = A[tx]
{SYNC}
B[tx] = S[31 - tx] + T.tvm_warp_shuffle_down(T.uint32(0xFFFFFFFF), A[tx], 1, 32, 32)
"""
    result = run_kernel({"A": floats(), "B": blank()}, body, threads=64)
    assert result.findings == []
    assert np.isnan(result.arguments[1][32:]).all()
    early = f"{SHARED}S[tx] = A[tx]\nif tx < 4:\n    T.thread_return()\nB[tx] = S[31 - tx]"
    assert kinds(early, blocks=1) == ["race"]


@pytest.mark.parametrize(
    "loop", ["for k in range(4)", "for k in range(tx % 5)", "while r[0] < 90.0"]
)
def test_a_thread_returns_from_within_a_loop(loop: str) -> None:
    body = f"""\
r = T.alloc_local((1,))
---
r[0] = A[tx]
B[tx] = r[0]
{loop}:
    if r[0] > T.float32(50):
        T.thread_return()
    r[0] = r[0] + T.float32(20)
    B[tx] = r[0]
"""
    numbers = floats(32)
    result = run_kernel({"A": numbers, "B": blank(32)}, body)
    want = numbers.copy()
    rounds = np.arange(32) % 5 if "tx" in loop else np.full(32, 4)
    for place, most in enumerate(rounds):
        for _ in range(most):
            want[place] += 0 if want[place] > 50 else 20
    np.testing.assert_array_equal(result.arguments[1], want)


def test_a_loop_that_never_ends_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(statements, "MAX_ITERATIONS", 50)
    body = "while B[0] < T.float32({0}):\n    B[tx] = B[tx] + T.float32({1})"
    arrays = {"A": np.zeros(32, "float32"), "B": np.zeros(32, "float32")}
    fill = "B[tx] = A[tx]"
    assert set(run_kernel(arrays, fill, body.format(49, 1)).arguments[1]) == {49}
    with pytest.raises(UnsupportedError, match="does not end within 50 iterations in the simulat"):
        run_kernel(arrays, fill, body.format(1, 0))


# ---- Shuffles.


def shuffle(mask: str, guard: str, distance: int = 8, width: int = 16) -> str:
    value = f"T.tvm_warp_shuffle_down(T.uint32({mask}), r[0], {distance}, {width}, 32)"
    guarded = f"if {guard}:\n    r[0] = r[0] + {value}"
    return f"r = T.alloc_local((1,))\n---\nr[0] = A[tx]\n{guarded}\nB[tx] = r[0]"


@pytest.mark.parametrize(
    ("mask", "guard", "threads", "wrong"),
    [
        ("0xFFFFFFFF", "tx < 16", 32, ["divergent shuffle"]),
        ("0xFFFF", "tx < 16", 32, []),
        ("0xFFFFFFFF", "tx < 48", 48, []),
        ("0xFFFFFFFF", "tx < 32", 48, []),
        ("0xFFFFFFFF", "tx < 40", 48, ["divergent shuffle"]),
        ("0xFF", "tx < 16", 32, ["divergent shuffle"]),
    ],
)
def test_all_lanes_that_a_mask_names_must_come(mask, guard, threads, wrong) -> None:
    assert kinds(shuffle(mask, guard), blocks=1, threads=threads) == wrong


def test_a_lane_that_a_mask_names_in_vain_is_told() -> None:
    finding = run_kernel({"A": floats(), "B": blank()}, shuffle("0xFFFFFFFF", "tx < 16")).findings[
        0
    ]
    assert finding.count == 16
    assert finding.message == (
        "shuffle whose mask names thread (16, 0, 0) of block (0, 0, 0), which does not reach it"
    )


@pytest.mark.parametrize("threads", [32, 40])
@pytest.mark.parametrize("guard", ["tx >= 0", "tx < 13", "tx % 2 == 0"])
def test_the_active_mask_names_the_lanes_that_are_here(guard: str, threads: int) -> None:
    arrays = {"R": np.zeros(threads, "uint32")}
    body = f"if {guard}:\n    R[tx] = T.tvm_warp_activemask()"
    (got,) = run_kernel(arrays, body, threads=threads).arguments
    here = np.array([eval(guard, {"tx": tx}) for tx in range(threads)])
    for warp in range(0, threads, 32):
        bits = sum(1 << lane for lane, taken in enumerate(here[warp : warp + 32]) if taken)
        assert set(got[warp : warp + 32][here[warp : warp + 32]]) <= {bits}


@pytest.mark.parametrize(("bits", "width"), [(1, 32), (16, 32), (3, 8), (8, 8), (4, 4)])
def test_a_shuffle_by_exclusive_or_stays_within_its_segment(bits: int, width: int) -> None:
    """CUDA's guide: lanes of earlier segments may be read, those of later ones are one's own."""
    value = f"T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[tx], {bits}, {width}, 32)"
    got = run_kernel({"A": np.arange(32, dtype="float32"), "B": blank(32)}, f"B[tx] = {value}")
    lane = np.arange(32)
    later = (lane ^ bits) >= (lane // width + 1) * width
    np.testing.assert_array_equal(got.arguments[1], np.where(later, lane, lane ^ bits))


# ---- Buffers in one place.


MERGED = """\
X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
---
X[tx] = A[tx]
T.tvm_storage_sync("shared.dyn")
B[tx] = X[63 - tx]
T.tvm_storage_sync("shared.dyn")
{0}
T.tvm_storage_sync("shared.dyn")
B[tx] = B[tx] + Y[63 - tx]
"""


@pytest.mark.parametrize(
    ("store", "wrong"),
    [
        ("Y[tx] = A[tx]", 0),
        ("if tx < 32:\n    Y[tx] = A[tx]", 32),
        ("if tx > 99:\n    Y[tx] = A[tx]", 64),
    ],
)
def test_what_lies_in_a_dead_buffers_place_is_not_ones_own(store: str, wrong: int) -> None:
    arrays = {"A": floats(), "B": blank()}
    findings = run_kernel(arrays, MERGED.format(store), threads=64).findings
    assert sum(finding.count for finding in findings) == wrong
    for finding in findings:
        assert finding.kind == "uninitialized read"
        assert finding.message.startswith("load of Y[63] by thread (0, 0, 0)")
        assert "before any store to it (another buffer's value" in finding.message


def test_two_views_of_one_buffer_are_one() -> None:
    """The bytes of a buffer may be read as another type, also where a third lies in its place."""
    body = """\
X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
Z = T.decl_buffer((256,), "int8", data=X.data, scope="shared.dyn")
Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
---
X[tx] = A[tx]
T.tvm_storage_sync("shared.dyn")
N[tx] = Z[255 - tx]
T.tvm_storage_sync("shared.dyn")
Y[tx] = A[tx]
T.tvm_storage_sync("shared.dyn")
B[tx] = Y[63 - tx]
"""
    arrays = {"A": floats(), "N": np.zeros(64, "int8"), "B": blank()}
    result = run_kernel(arrays, body, threads=64)
    assert result.findings == []
    np.testing.assert_array_equal(result.arguments[1], arrays["A"].view("int8")[::-1][:64])


# ---- Limits of memory.


@pytest.mark.parametrize(
    ("static", "dynamic", "local", "wrong"),
    [
        (
            40 << 10,
            200 << 10,
            4,
            "40960 bytes of static and 204800 of dynamic shared memory, 245760",
        ),
        (27 << 10, 200 << 10, 4, ""),
        (64, 227 << 10, 4, "64 bytes of static and 232448 of dynamic"),
        (64, 64, 512 << 10, ""),
        (64, 64, (512 << 10) + 4, "524292 bytes of scope 'local' exceed"),
    ],
)
def test_memory_is_added_up(static: int, dynamic: int, local: int, wrong: str) -> None:
    body = f"""\
S = T.alloc_shared(({static // 4},))
D = T.alloc_buffer(({dynamic // 4},), "float32", scope="shared.dyn")
---
r = T.alloc_local(({local // 4},))
for k in range(2):
    S[tx] = A[tx]
    D[tx] = A[tx]
    r[k * {local // 4 - 1}] = S[tx] + D[tx]
B[tx] = r[0]
"""
    findings = run_kernel({"A": floats(), "B": blank()}, body, threads=8).findings
    assert [finding.kind for finding in findings] == (["launch"] if wrong else [])
    assert not wrong or wrong in findings[0].message


def test_an_allocation_in_a_loop_counts_once() -> None:
    body = "for k in range(9):\n    r = T.alloc_local((20000,))\n    r[k] = A[tx]\n    B[tx] = r[k]"
    assert kinds(body, blocks=1, threads=8) == []


ROUND = """\
B[tx] = T.float32(0)
for k in range(2):
    S = T.alloc_shared((32,))
"""


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (f"S[tx] = A[k * 32 + tx]\n{SYNC}\nB[tx] = B[tx] + S[31 - tx]", ["race"]),
        (f"S[tx] = A[k * 32 + tx]\n{SYNC}\nB[tx] = B[tx] + S[31 - tx]\n{SYNC}", []),
        (f"S[tx] = A[tx]\n{SYNC}\nB[tx] = B[tx] + S[31 - tx]", []),  # what is there already
        (f"if k == 0:\n    S[tx] = A[tx]\n{SYNC}\nB[tx] = S[31 - tx]", ["uninitialized read"]),
    ],
)
def test_a_buffer_that_a_loop_makes_has_one_place_and_nothing_in_it(body, wrong) -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    assert kinds(ROUND + lines, blocks=1) == wrong


def test_a_negative_extent_is_no_launch() -> None:
    module = write_kernel({"A": floats(), "B": blank()}, "B[tx] = A[tx]")
    text = module.script().replace('"blockIdx.x", 1)', '"blockIdx.x", -1)')
    (finding,) = simulate_lowered(from_source(text), [floats(), blank()]).findings
    assert (finding.kind, finding.message) == (
        "launch",
        "extent -1 of 'blockIdx.x' is negative",
    )


def test_of_many_that_stored_the_same_a_few_are_asked() -> None:
    """All threads of 16 GPU blocks store to one cell: asking all pairs took minutes a kernel."""
    threads = np.arange(1024)
    cells, begun = np.zeros(1024, np.int64), np.zeros(1024, np.int64)
    co_writers = CoWriters()
    co_writers.add(cells, threads, time=1, per_block=64)
    rivals = co_writers.find_rivals(cells, threads, begun, per_block=64)
    assert (rivals != threads).all()
    assert set(rivals) == {0, 1023}, "one for all others, and another one for itself"
