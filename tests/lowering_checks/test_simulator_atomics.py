"""Atomic operations in the simulator: what each computes and finds, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import run_kernel

from tirstep.lowering_checks.devices.simulator import UnknownFunctionError, UnsupportedError

CALL = 'T.call_extern("{dtype}", "{name}", T.address_of(C[tx % 4]), {value})'
PTX = 'T.ptx["{name}"](T.address_of(C[tx % 4]), {value})'
BEGIN = "if tx < 4:\n    C[tx] = T.{dtype}({first})"


def fold(start: int, values: np.ndarray, change: object) -> np.ndarray:
    """Four cells, each changed by every fourth value."""
    cells = np.full(4, start).astype(values.dtype)
    for lane, value in enumerate(values):
        cells[lane % 4] = change(cells[lane % 4], value)
    return cells


@pytest.mark.parametrize(
    ("template", "name", "dtype", "change"),
    [
        (CALL, "atomicAdd", "int32", np.add),
        (CALL, "atomicAdd", "float64", np.add),
        (CALL, "atomicAdd", "uint32", np.add),
        (CALL, "atomicAdd", "float16", np.add),
        (CALL, "atomicSub", "int32", np.subtract),
        (CALL, "atomicMax", "int64", np.maximum),
        (CALL, "atomicMin", "uint32", np.minimum),
        (CALL, "atomicAnd", "int32", np.bitwise_and),
        (CALL, "atomicOr", "uint32", np.bitwise_or),
        (CALL, "atomicXor", "int32", np.bitwise_xor),
        (CALL, "atomicInc", "uint32", lambda old, most: 0 if old >= 9 else old + 1),
        (
            CALL,
            "atomicDec",
            "uint32",
            lambda old, most: 9 if old == 0 or old > 9 else old - 1,
        ),
        (PTX, "red.global.add.u32", "uint32", np.add),
        (PTX, "red.relaxed.gpu.global.max.s32", "int32", np.maximum),
        (
            PTX.replace("{value}", 'T.Cast("uint32", {value})'),
            "red.max.u32",
            "int32",
            lambda *pair: max(np.array(pair).astype("uint32")).astype("int32"),
        ),
        (PTX, "red.xor.b32", "int32", np.bitwise_xor),
        (PTX, "red.add.f64", "float64", np.add),
    ],
)
def test_what_all_threads_make_of_a_cell(
    template: str, name: str, dtype: str, change: object
) -> None:
    given = np.arange(64).astype(dtype) * (3 if "float" in dtype else 7) - (
        0 if dtype[0] == "u" or "float" in dtype else 200
    )
    value = "T.uint32(9)" if name in ("atomicInc", "atomicDec") else "A[tx]"
    arrays = {"A": given.astype(dtype), "C": np.zeros(4, dtype)}
    first = 25 if name == "atomicDec" else 5
    body = template.format(dtype=dtype, name=name, value=value)
    ran = run_kernel(arrays, BEGIN.format(dtype=dtype, first=first), body, threads=64)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arguments[1], fold(first, arrays["A"], change))


@pytest.mark.parametrize(
    "take",
    [
        "{0}[tx] = T.cuda.atomic_add(T.address_of(C[{1}]), 1)",
        '{0}[tx] = T.call_extern("int32", "atomicAdd", C.access_ptr("rw", offset={1}), 1)',
        'T.ptx["atom.global.add.s32"](r[0], T.address_of(C[{1}]), 1)\n{0}[tx] = r[0]',
    ],
)
def test_each_thread_gets_what_it_found(take: str) -> None:
    """Each another one, in an order that is none of theirs, and another one each time."""
    arrays = {name: np.full(64, -1, np.int32) for name in "BDC"}
    body = f'r = T.alloc_local((1,), "int32")\n{take.format("B", 0)}\n{take.format("D", 1)}'
    ran = run_kernel(arrays, BEGIN.format(dtype="int32", first=16), body, threads=64)
    assert ran.findings == []
    orders = [*ran.arguments[:2], np.arange(16, 80)]
    for order in orders:
        assert sorted(order) == [*range(16, 80)]
        assert sum(np.array_equal(order, other) for other in orders) == 1


def test_an_exchange_and_a_comparison_store_what_they_are_given() -> None:
    arrays = {"B": np.full(64, -1, np.int32), "C": np.zeros(4, np.int32)}
    exchanged = run_kernel(
        arrays,
        BEGIN.format(dtype="int32", first=99),
        'B[tx] = T.call_extern("int32", "atomicExch", T.address_of(C[0]), tx)',
        threads=64,
    )
    assert exchanged.findings == []
    assert sorted([*exchanged.arguments[0], exchanged.arguments[1][0]]) == [*range(64), 99]
    compared = run_kernel(
        arrays,
        BEGIN.format(dtype="int32", first=7),
        'r = T.alloc_local((1,), "uint32")\n'
        'T.ptx["atom.cas.b32"](r[0], T.address_of(C[0]), T.uint32(7), T.Cast("uint32", tx + 100))\n'
        'B[tx] = T.Cast("int32", r[0])',
        threads=64,
    )
    (winner,) = np.flatnonzero(compared.arguments[0] == 7)
    assert compared.arguments[1][0] == winner + 100
    assert set(np.delete(compared.arguments[0], winner)) == {winner + 100}


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "T.evaluate(T.cuda.atomic_add(T.address_of(r[0]), 1))",
            "r lies in registers, and atomic operations change shared or global memory",
        ),
        (
            'T.call_extern("int32", "atomicAdd_block", T.address_of(C[0]), 1)',
            "the simulator does not know the function 'atomicAdd_block'",
        ),
    ],
)
def test_other_atomic_operations_are_refused(statement: str, sentence: str) -> None:
    body = f'r = T.alloc_local((1,), "int32")\nr[0] = 0\n{statement}'
    with pytest.raises((UnsupportedError, UnknownFunctionError), match=sentence):
        run_kernel({"C": np.zeros(4, np.int32)}, body)
