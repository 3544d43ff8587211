"""The device `host`: what nobody wrote, what a CPU computes otherwise, and memory beyond limits."""

import numpy as np
import pytest
from lowered import REST, write_kernel

from tirstep.lowering_checks import DeviceError
from tirstep.lowering_checks.devices import DeviceFinding
from tirstep.lowering_checks.devices.host import HostDevice, generate


@pytest.fixture(scope="module")
def host() -> HostDevice:
    try:
        return HostDevice()
    except DeviceError as error:
        pytest.skip(str(error))


def judge(arrays: dict[str, np.ndarray], *bodies: str, **extents: int) -> list[DeviceFinding]:
    """The findings of a lowered kernel."""
    source = generate(write_kernel(arrays, *bodies, **extents), pipeline=REST)
    program = HostDevice().compile_generated(source)
    program(list(arrays.values()))
    return list(program.findings)


def make_arrays(dtype: str = "float32", filler: float = np.nan) -> dict[str, np.ndarray]:
    return {"A": np.arange(1, 33, dtype="float32"), "B": np.full(32, filler, dtype)}


REGISTER = "r = T.alloc_local((1,))\n---\n"
SHIFTED = "T.tvm_warp_shuffle_down(T.uint32(0xFFFFFFFF), r[0], 1, 32, 32)"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (f"{REGISTER}if tx < 16:\n    r[0] = A[tx]\nB[tx] = r[0]", 16),
        (f"{REGISTER}if tx < 16:\n    r[0] = A[tx]\nB[tx] = {SHIFTED}", 17),
        (f"{REGISTER}r[0] = A[tx]\nB[tx] = r[0]", 0),
        ("B[tx] = B[tx] + A[tx]", 32),
        ("B[0] = B[0] + A[tx]", 1),
        ("if tx < 16:\n    B[tx] = A[tx]", 0),
    ],
    ids=["register", "shuffled", "written", "output", "sum", "half an output"],
)
@pytest.mark.usefixtures("host")
def test_what_nobody_wrote_is_garbage_of_another_kind_in_each_run(body: str, count: int) -> None:
    findings = judge(make_arrays(), body)
    assert sum(finding.count for finding in findings) == count
    assert {finding.kind for finding in findings} <= {"uninitialized read"}


@pytest.mark.parametrize("body", ["B[tx] = B[tx] + A[tx]", "if tx < 16:\n    B[tx] = B[tx] + 1"])
@pytest.mark.usefixtures("host")
def test_what_is_given_may_be_read_and_written(body: str) -> None:
    """An output begins as `blank` makes it; any other array is an argument of both kinds."""
    assert judge(make_arrays(filler=0.0), body) == []


@pytest.mark.usefixtures("host")
def test_outputs_may_hold_any_number_and_stay_as_they_were() -> None:
    """Every byte, written over each, and one half of the elements not written at all."""
    values = np.arange(256, dtype="uint8").view("int8")
    for filler in (-128, 0, -38):
        arrays = {"A": values, "B": np.full(256, filler, "int8")}
        generated = generate(
            write_kernel(arrays, "if tx % 2 == 0:\n    B[tx] = A[tx]", threads=256), pipeline=REST
        )
        program = HostDevice().compile_generated(generated)
        result = program(list(arrays.values()))[1]
        assert list(program.findings) == []
        np.testing.assert_array_equal(result[::2], values[::2])
        assert set(result[1::2]) == {filler}


@pytest.mark.usefixtures("host")
def test_an_output_that_an_earlier_launch_wrote_may_be_read() -> None:
    assert judge(make_arrays(), "B[tx] = A[tx]", "B[tx] = B[tx] + A[tx]") == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("T.Cast('int32', A[tx] * T.float32(1e9))", "converts a number beyond the range of int"),
        ("T.shift_left(1, T.Cast('int32', A[tx]))", "shifts by 32 bits"),
        ("T.Cast('int32', A[tx] * T.float32(1e7))", ""),
        ("T.shift_left(1, T.Cast('int32', A[tx]) - 1)", ""),
    ],
)
@pytest.mark.usefixtures("host")
def test_what_a_cpu_computes_otherwise_than_a_gpu_is_told(value: str, text: str) -> None:
    findings = judge(make_arrays("int32", -1), f"B[tx] = {value}")
    assert [finding.kind for finding in findings] == (["undefined operation"] if text else [])
    assert not text or text in findings[0].message


@pytest.mark.parametrize(
    ("static", "dynamic", "local", "text"),
    [
        (10240, 51200, 1, "40960 bytes of static and 204800 of dynamic shared memory"),
        (64, 64, 150000, "600000 bytes of scope 'local' exceed"),
        (64, 64, 2, ""),
    ],
)
@pytest.mark.usefixtures("host")
def test_all_memory_of_a_launch_counts(static: int, dynamic: int, local: int, text: str) -> None:
    body = f"""\
S = T.alloc_shared(({static},))
D = T.alloc_buffer(({dynamic},), "float32", scope="shared.dyn")
---
r = T.alloc_local(({local},))
S[tx] = A[tx]
D[tx] = A[tx]
r[tx % {local}] = S[tx] + D[tx]
B[tx] = r[tx % {local}]
"""
    findings = judge(make_arrays(), body)
    assert [finding.kind for finding in findings] == (["launch"] if text else [])
    assert not text or text in findings[0].message


@pytest.mark.usefixtures("host")
def test_lanes_that_wait_in_two_shuffles_wait_for_ever() -> None:
    body = f"""\
r = T.alloc_local((1,))
---
r[0] = A[tx]
if tx < 16:
    r[0] = r[0] + {SHIFTED}
else:
    r[0] = r[0] - {SHIFTED}
B[tx] = r[0]
"""
    assert {finding.kind for finding in judge(make_arrays(), body)} == {"divergent shuffle"}
