"""Bulk copies and mbarriers in the simulator: kernels that are right, and bugs that die in them."""

import re

import numpy as np
import pytest
from lowered import find_kinds, run_kernel

from tirstep.lowering_checks.devices import DeviceError
from tirstep.lowering_checks.devices.simulator import Simulation
from tirstep.lowering_checks.devices.simulator.run_state import UnsupportedError

ROWS, COLUMNS, FIRST = 32, 36, 8
"""Of the tensor, and the column at which tiles of 8 rows and 32 columns begin: 4 lie outside."""
TENSOR = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) % 61 + 1
HOST = """\
tm: T.let[T.handle("tensormap")] = T.tvm_stack_alloca("tensormap", 1)
T.evaluate(T.tensormap_encode_tiled(
    tm, A.data, 36, 32, 144, 32, 8, 1, 1, descriptor_dtype="float32", rank=2, swizzle=3))
"""
LOAD = (
    'T.ptx["cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"]'
    '(S.access_ptr("r", offset={0} % 2 * 256), T.address_of(tm), 8, ({0}) * 8, '
    'bar.access_ptr("r", offset={0} % 2))'
)
EXPECT = 'T.ptx["mbarrier.arrive.expect_tx.shared.b64"](bar.access_ptr("r", offset={} % 2), 1024)'
ALLOCATE = """
S = T.alloc_buffer((512,), "float32", scope="shared.dyn")
bar = T.alloc_buffer((128,), "uint64", scope="shared.dyn")
---
"""
FENCE = 'T.ptx["fence.proxy.async.shared::cta"]()'
"""Behind loads of what a bulk copy overwrites."""
IN_STEP = f"""{ALLOCATE}
if tx == 0:
    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 1)
    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)
    T.ptx["fence.mbarrier_init.release.cluster"]()
T.tvm_storage_sync("shared")  # of initialization
if tx == 0:
    {EXPECT.format(0)}
    {LOAD.format(0)}
for k in range(4):
    T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)
    T.tvm_storage_sync("shared")  # of the stage
    if tx == 0 and k < 3:
        {EXPECT.format("(k + 1)")}
        {LOAD.format("(k + 1)")}
    for i in range(4):
        B[k * 256 + i * 64 + tx] = S[
            k % 2 * 256 + (i * 64 + tx) // 32 * 32
            + (((i * 64 + tx) % 32 // 4) ^ ((i * 64 + tx) // 32 % 8)) * 4 + tx % 4]
    {FENCE}"""
"""All threads wait and compute; one of them copies one tile ahead."""
STORE = """
S = T.alloc_buffer((256,), "float32", scope="shared.dyn")
---
for i in range(4):
    S[i * 64 + tx] = T.float32(3)
T.ptx["fence.proxy.async.shared::cta"]()
T.tvm_storage_sync("shared")
if tx == 0:
    T.ptx["cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"](
        T.address_of(tm), 8, 28, S.access_ptr("r"))
    T.ptx["cp.async.bulk.commit_group"]()
    T.ptx["cp.async.bulk.wait_group.read"](0)
"""


def run(body: str) -> Simulation:
    arrays = {"A": TENSOR.reshape(-1), "B": np.full(ROWS * 32, np.nan, np.float32)}
    return run_kernel(arrays, body, threads=64, host=HOST)


def plant(body: str, old: str, new: str, count: int = 0) -> Simulation:
    """Run a kernel in which a bug is planted."""
    planted, times = re.subn(re.escape(old), new, body, count=count)
    assert times
    return run(planted)


WAIT = 'T.cuda.mbarrier_wait(bar.access_ptr("r", offset=k % 2), k // 2 % 2)'
NOTHING = "T.evaluate(0)"


@pytest.mark.parametrize(
    ("old", "new", "kinds", "message"),
    [
        (
            'T.tvm_storage_sync("shared")  # of initialization',
            NOTHING,
            {"race"},
            "with no barrier after its initialization by thread",
        ),
        (
            'T.ptx["fence.mbarrier_init.release.cluster"]()',
            NOTHING,
            {"mbarrier"},
            "no fence after its initialization",
        ),
        ("offset=0), 1)", "offset=0), 2)", {"deadlock"}, "lacks 1 of 2 arrivals"),
        ("1024)", "1040)", {"deadlock"}, "lacks 16 of the bytes that were announced"),
        ("1024)", "1008)", {"deadlock"}, "got 16 bytes more than were announced"),
        (
            'T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 1)',
            NOTHING,
            {"mbarrier"},
            "was not initialized",
        ),
    ],
)
def test_a_bug_in_a_pipeline_dies(old: str, new: str, kinds: set[str], message: str) -> None:
    simulation = plant(IN_STEP, old, new)
    assert kinds <= set(find_kinds(simulation)), simulation.findings
    assert any(re.search(message, found.message) for found in simulation.findings)


@pytest.mark.parametrize("new", [NOTHING, f"if tx == 63:\n            {FENCE}"], ids=["no", "one"])
def test_a_copy_over_what_was_loaded_needs_a_fence(new: str) -> None:
    """An H200 overwrote fragments of a matmul by mma.sync in a few of 1024 tiles without it."""
    simulation = plant(IN_STEP, FENCE, new)
    assert set(find_kinds(simulation)) == {"missing proxy fence"}
    assert "loaded without fence.proxy.async after it" in simulation.findings[0].message


def run_store(body: str) -> tuple[set[str], np.ndarray]:
    array = np.zeros((ROWS, COLUMNS), np.float32)
    simulation = run_kernel({"A": array.reshape(-1)}, body, threads=64, host=HOST)
    return set(find_kinds(simulation)), simulation.arguments[0].reshape(ROWS, COLUMNS)


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ('T.ptx["fence.proxy.async.shared::cta"]()', NOTHING, {"missing proxy fence"}),
        (
            'T.ptx["fence.proxy.async.shared::cta"]()',
            'if tx == 0:\n    T.ptx["fence.proxy.async.shared::cta"]()',
            {"missing proxy fence"},
        ),
        ('T.tvm_storage_sync("shared")', NOTHING, {"race"}),
        (
            'T.ptx["cp.async.bulk.wait_group.read"](0)',
            "S[0] = T.float32(4)",
            {"unfinished bulk store"},
        ),
        (
            'T.ptx["cp.async.bulk.wait_group.read"](0)',
            'S[0] = T.float32(4)\n    T.ptx["cp.async.bulk.wait_group.read"](0)',
            {"race"},
        ),
        (
            'S.access_ptr("r")',
            'S.access_ptr("r", offset=8)',
            {"misaligned access", "out of bounds"},
        ),
    ],
)
def test_a_bug_at_a_store_dies(old: str, new: str, kinds: set[str]) -> None:
    assert old in STORE
    found, _ = run_store(STORE.replace(old, new))
    assert found >= kinds


def test_a_copy_that_nobody_waits_for_is_found() -> None:
    body = IN_STEP.split("for k in range(4)")[0] + "B[tx] = T.float32(0)\n"
    assert find_kinds(run(body)) == ["mbarrier"]


def test_a_tensor_map_that_the_driver_refuses_is_none() -> None:
    arrays = {"A": TENSOR.reshape(-1), "B": np.full(ROWS * 32, np.nan, np.float32)}
    with pytest.raises((UnsupportedError, DeviceError), match=r"pitches .136., box"):
        run_kernel(arrays, IN_STEP, threads=64, host=HOST.replace("144", "136"))


STEP = """
        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=0), k % 2)
        B[bx * 128 + k * 32 + tx] = T.Cast("float32", k)
        T.ptx["mbarrier.arrive.shared.b64"](bar.access_ptr("r", offset=1))"""
APART = f"""
bar = T.alloc_buffer((128,), "uint64", scope="shared.dyn")
---
if tx == 0:
    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=0), 32)
    T.ptx.mbarrier.init.shared.b64(bar.access_ptr("r", offset=1), 32)
    T.ptx["fence.mbarrier_init.release.cluster"]()
T.tvm_storage_sync("shared")
if tx < 32:
    for k in range(bx):{STEP}
    for k in range(bx, 4):{STEP}
else:
    for k in range(4):
        T.cuda.mbarrier_wait(bar.access_ptr("r", offset=1), (k + 1) % 2)
        T.ptx["mbarrier.arrive.shared.b64"](bar.access_ptr("r", offset=0))
"""
"""Two warps wait for one another, in loops that are of other lengths in each block."""


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("", "", []),
        ("offset=0), 32)", "offset=0), 33)", ["deadlock"]),
    ],
)
def test_blocks_wait_in_loops_of_their_own(old: str, new: str, kinds: list[str]) -> None:
    arrays = {"B": np.zeros(512, np.float32)}
    simulation = run_kernel(arrays, APART.replace(old, new), threads=64, blocks=4)
    assert find_kinds(simulation) == kinds
    assert np.array_equal(simulation.arguments[0][::32], [*range(4)] * 4) == (not kinds)
