"""All functions of numbers that TVM lowers for CUDA: the simulator knows each, or it is listed."""

import numpy as np
import pytest
import tvm
from kernels import parse_kernel
from tvm.ir import Op

from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.devices.simulator.expressions import BUILT_IN
from tirstep.lowering_checks.devices.simulator.operators import FUNCTIONS

RULES = ("cuda.FLowerIntrinsic", "default.FLowerIntrinsic", "default.FLegalize")
MISSING = {
    "q_multiply_shift": "fixed-point numbers of CPUs",
    "q_multiply_shift_per_axis": "fixed-point numbers of CPUs",
    "tvm_warp_activemask": "TVM's own, in what it lowers after the simulator's place",
}
"""What the simulator does not know, and why."""
CASES = [
    # Of x, what NumPy says, and the type.
    ("T.acosh(A[v] + T.float32(1))", lambda x: np.arccosh(x + 1), "float32"),
    ("T.asinh(A[v])", np.arcsinh, "float32"),
    ("T.atanh(A[v] / T.float32(100))", lambda x: np.arctanh(x / np.float32(100)), "float32"),
    ("T.copysign(A[v], T.float32(-1))", lambda x: -np.abs(x), "float32"),
    ("T.hypot(A[v], T.float32(2))", lambda x: np.hypot(x, np.float32(2)), "float32"),
    ("T.ldexp(A[v], T.float32(3))", lambda x: x * 8, "float32"),
    ("T.nextafter(A[v], T.float32(99))", lambda x: np.nextafter(x, np.float32(99)), "float32"),
    ("T.clz(A[v])", lambda x: np.array([32 - int(it).bit_length() for it in x]), "int32"),
    ("T.popcount(A[v])", lambda x: np.array([bin(it).count("1") for it in x]), "uint32"),
    ("T.popcount(A[v])", lambda x: np.array([bin(it).count("1") for it in x]), "uint64"),
    ("T.sigmoid(A[v])", lambda x: 1 / (1 + np.exp(-x)), "float32"),
]


def list_lowered() -> list[str]:
    def has_rule(name: str) -> bool:
        for rule in RULES:
            try:
                if Op.get(name).get_attr(rule) is not None:
                    return True
            except tvm.error.InternalError:
                continue  # no operator has such a rule
        return False

    names = [str(name) for name in Op.list_op_names()]
    return [it for it in names if it.partition(".")[0] in ("tirx", "prim") and has_rule(it)]


def test_each_function_that_tvm_lowers_is_known_or_listed():
    names = {name.rpartition(".")[2] for name in list_lowered()}
    known = {*FUNCTIONS, *BUILT_IN, "clz", "tvm_access_ptr"}
    assert len(names) > 40
    assert names - known == set(MISSING) - known
    assert not (set(MISSING) - names)


@pytest.mark.parametrize(("text", "expected", "dtype"), CASES)
def test_a_function_on_the_simulator(text, expected, dtype):
    module = parse_kernel(f"""
        A (48,) {dtype}, B (48,) {dtype}
        for i in T.thread_binding(48, thread="threadIdx.x"):
            with T.sblock("B"):
                v = T.axis.spatial(48, i)
                B[v] = {text}
    """)
    given = np.arange(48).astype(dtype)
    program = get_device("simulator").compile(module)
    result = program([given, np.zeros(48, dtype)])[1]
    assert not program.findings
    np.testing.assert_allclose(result, expected(given), rtol=1e-6)
