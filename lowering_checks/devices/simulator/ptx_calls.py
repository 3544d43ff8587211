"""Calls of PTX's instructions, by TVM's table of them: what each argument of a call is.

A call has the operands in PTX's order, then a predicate where one guards it, then a word for each
modifier (empty where it is left out), and in the end flags: ``"pred"`` of a predicate, ``"s1"`` of
an operand that was left out by PTX's ``_``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.backend.cuda.ptx.table import (
    TABLE,
    InstructionEntry,
    OperandSlot,
    mods,
    operand_layout,
    operand_type,
)

from ...device import Array
from .function_semantics import Pointer
from .memory import get_numpy_dtype
from .run_state import UnsupportedError

PREFIX = "ptx."
_WRITTEN = ("w", "rw")


PtxCall = tuple[list[Any], dict[str, str], frozenset[int], Any]
"""A call of an instruction: its arguments in PTX's order, None of one that is left out; what each
modifier is, by its name in TVM's table; which of the arguments are registers that the instruction
writes, or reads later on; and its predicate, None without one: if that is 0, it does nothing."""


def has_results(name: str) -> bool:
    """Whether what is called is an instruction that writes registers."""
    entry = _find_entry(name)
    return entry is not None and any(slot.rw in _WRITTEN for slot in entry.operands)


def read_ptx_call(name: str, arguments: Sequence[Any]) -> PtxCall | None:
    """The call of a name, which may be no instruction of TVM's table."""
    entry = _find_entry(name)
    if entry is None:
        return None
    end = len(arguments) - len(entry.slots) - 1
    *tokens, flags = (str(it.value) for it in arguments[end:])
    words, operands, predicate = mods(entry, tokens), list(arguments[:end]), None
    if "pred" in flags.split(","):
        predicate = operands.pop()
    for flag in flags.split(","):  # they stand in rising order
        if flag[:1] == "s" and flag[1:].isdigit():
            operands.insert(int(flag[1:]), None)
    registers = [
        place
        for slot, first, count in operand_layout(entry, words)
        for place in range(first, first + count)
        if slot.rw in _WRITTEN or (entry.family == "wgmma" and slot.name == "a")
    ]
    return operands, words, frozenset(registers), predicate


def name_operands(name: str, given: Sequence[Any]) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """What a function of semantics is given: its modifiers, and the registers of each operand, by
    their names in TVM's table.
    """
    tokens = given[len(given) - len(TABLE[name.removeprefix(PREFIX)].slots) :]
    words, layout = _lay_out(name, tuple(tokens))
    return words, {slot.name: list(given[at : at + count]) for slot, at, count, _ in layout}


def list_types(name: str, words: dict[str, str]) -> list[tuple[OperandSlot, str]]:
    """The operands of an instruction, and their types in PTX."""
    return [(slot, token) for slot, _, _, token in _lay_out(name, tuple(words.values()))[1]]


@functools.cache
def _lay_out(
    name: str, tokens: tuple[str, ...]
) -> tuple[dict[str, str], list[tuple[OperandSlot, int, int, str]]]:
    """The modifiers of an instruction, and its operands: where they are, and their types in PTX."""
    entry = TABLE[name.removeprefix(PREFIX)]
    words = mods(entry, tokens)
    return words, [
        (slot, at, count, operand_type(slot, words) if slot.kind == "reg" else "")
        for slot, at, count in operand_layout(entry, words)
    ]


ELEMENTS = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "tf32": "float32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "ue8m0": "uint8",
    "b128": "uint128",
    "b32i": "uint32",
    "b64i": "uint64",
    "pred": "bool",
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"{kind}{bits}": f"uint{bits}" for kind in "bu" for bits in (8, 16, 32, 64)},
}
"""Types of PTX, in NumPy."""


@functools.cache
def get_type(token: str) -> tuple[np.dtype[Any], int]:
    """The type of a register's elements, and how many there are."""
    name, _, count = token.partition("x")
    if token == "e2m1x2":  # two in a byte
        name, count = "b8", ""
    if name not in ELEMENTS:
        raise UnsupportedError(f"the simulator does not support registers of .{token}")
    return get_numpy_dtype(ELEMENTS[name]), int(count or 1)


def join_registers(values: Sequence[Any], dtype: np.dtype[Any], lanes: int) -> Array:
    """The bits of registers side by side as elements of a type, of shape (lanes, elements)."""
    columns = (np.broadcast_to(value, (lanes, 1)).copy() for value in values)
    size = dtype.itemsize
    return np.hstack(
        [it.view(dtype) if it.dtype.itemsize == size else it.astype(dtype) for it in columns]
    )


def fill_register(register: Pointer | None, values: Any, lanes: Any = None) -> None:
    """Store what an instruction computes, of shape (threads, elements), as the bits of its
    register; None is one that is left out.
    """
    if register is None:
        return
    made, size = np.ascontiguousarray(values), register.dtype.itemsize
    if made[0].nbytes != size:
        made = made.astype(f"uint{8 * size}")
    register.store(0, made.view(register.dtype), lanes)


@functools.cache
def _find_entry(name: str) -> InstructionEntry | None:
    return TABLE.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
