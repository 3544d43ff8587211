"""Outputs against what is expected of them: whole numbers exactly, floats within a bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tirstep.modules.dtypes import dtype_facts

from ..finding import CheckError, Finding

Array = np.ndarray[Any, Any]
Bound = float | Array
ULPS = 64
"""Units in the last place, of the largest number that is expected, by which floats may be off where
nobody gives a bound: as many roundings differ as a changed order of some thousand terms costs."""


def compare_outputs(
    got: Sequence[Array], expected: Sequence[Array], bounds: Sequence[Bound] | None
) -> list[Finding]:
    """One finding for each output that is off; NaN is expected to be NaN.

    `bounds` are absolute errors, one for each output: a number, or one for each element. Without
    them see `find_bound`. Raises `CheckError` where they are too few or too many.
    """
    if bounds is None:
        bounds = [find_bound(array) for array in expected]
    if len(bounds) != len(expected):
        raise CheckError(
            f"find_bad_pass: {len(expected)} outputs are expected and {len(bounds)} bounds given; "
            "give one bound for each"
        )
    findings = []
    for number, (mine, right, bound) in enumerate(zip(got, expected, bounds, strict=True)):
        wrong = find_wrong(mine, right, bound)
        if wrong.any():
            message = _describe(mine, right, np.broadcast_to(bound, wrong.shape), wrong)
            findings.append(Finding("numbers", "main", f"output {number} {message}"))
    return findings


def find_bound(expected: Array) -> float:
    """0 for integers, and for floats that are all whole numbers; otherwise `ULPS` of the largest.

    Whole numbers are what exact sums of whole inputs come to, and any legal order gives the same.
    """
    if expected.dtype.kind in "biu":
        return 0.0
    values = expected.astype(np.float64)
    values = np.abs(values[np.isfinite(values)])
    facts = dtype_facts(str(expected.dtype))
    largest = float(values.max(initial=0))
    # Beyond what a type holds exactly every number is a whole one.
    if largest <= facts.exact_integers and np.array_equal(values, np.round(values)):
        return 0.0
    return ULPS * 2 * facts.unit_roundoff * largest


def find_wrong(got: Array, expected: Array, bound: Bound) -> Array:
    """Which elements are off by more than a bound; infinities must be equal, NaN be NaN."""
    if got.dtype.kind in "biu" and not np.any(bound):
        return np.asarray(got != expected)
    mine, right = (np.asarray(array).astype(np.float64) for array in (got, expected))
    with np.errstate(invalid="ignore"):
        near = np.abs(mine - right) <= bound
    return ~(near | (mine == right) | (np.isnan(mine) & np.isnan(right)))


def _describe(got: Array, expected: Array, bound: Array, wrong: Array) -> str:
    first = tuple(int(index) for index in np.argwhere(wrong)[0])
    allowed = f" with an error of at most {bound[first]:.3g}" if bound[first] else ""
    return (
        f"is {got[first]} at {list(first)}, and {expected[first]} is expected{allowed}; "
        f"{int(wrong.sum())} of {wrong.size} elements are wrong"
    )
