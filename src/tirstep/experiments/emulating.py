"""Whether what the passes make of a program computes something else, by the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tirstep.transforms.tir import constant

from . import emulator
from .editing import Edit
from .quick import lower_quickly
from .subject import Subject

MOST_STORES = 2000
"""That the emulator does within a second."""
ORDERS = (1, -1)
"""Of the threads: the first one first, and the last one first."""


def differs_emulated(edits: Sequence[Edit], subject: Subject) -> bool:
    """Whether the emulator sees other numbers with the edits than without, in one of two orders.

    A program that is too large to emulate counts as one where it does: it is to be made smaller.
    """
    if count_stores(subject.module["main"].body) > MOST_STORES:
        return True
    without = lower_quickly(subject.module, subject.target)
    found = lower_quickly(subject.module, subject.target, edits)
    right = _emulate(without, subject, 1)
    if not _is_equal(right, _emulate(without, subject, -1)):
        return False
    try:
        return not all(_is_equal(right, _emulate(found, subject, order)) for order in ORDERS)
    except IndexError:
        return True


def _emulate(module: Any, subject: Subject, order: int) -> list[Any]:
    arrays = [np.array(array) for array in subject.oracle.arguments]
    emulator.emulate(module["main"], arrays, order)
    return arrays


def _is_equal(arrays: Sequence[Any], others: Sequence[Any]) -> bool:
    pairs = zip(arrays, others, strict=True)
    return all(
        np.array_equal(left.astype("f8"), other.astype("f8"), equal_nan=True)
        for left, other in pairs
    )


def count_stores(node: Any, times: int = 1) -> int:
    """How often a statement stores; loops of extents that are not known count once."""
    kind = type(node).__name__
    if kind == "SeqStmt":
        return sum(count_stores(each, times) for each in node.seq)
    if kind == "For":
        return count_stores(node.body, times * (constant(node.extent) or 1))
    if kind == "IfThenElse":
        other = 0 if node.else_case is None else count_stores(node.else_case, times)
        return count_stores(node.then_case, times) + other
    if kind in ("SBlockRealize", "SBlock"):
        return count_stores(node.block if kind == "SBlockRealize" else node.body, times)
    if kind == "AttrStmt":
        return count_stores(node.body, times)
    return times if kind == "BufferStore" else 0
