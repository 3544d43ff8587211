"""Operators of TIR as the C++ that TVM generates for CUDA computes them.

Values are Python numbers where all threads agree, arrays elsewhere. Integers of less than 32 bits
are promoted: C++ computes ``a * b`` of two int8 as an int, and the result is no int8 until it is
stored, cast or bound, although TIR calls it one. The elements of vectors are the exception, since
the generated source puts each result back into a vector. All integers wrap around, as on a GPU.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ...device import Array
from .memory import count_lanes, get_numpy_dtype

Operate = Callable[[Any, Any], Any]


def _are_scalars(left: Any, right: Any) -> bool:
    return not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray)


def _holds_integers(value: Any) -> bool:
    return isinstance(value, int) or np.issubdtype(getattr(value, "dtype", float), np.integer)


def _divide_towards_zero(left: Any, right: Any) -> Any:
    """Division as in C: integers towards zero."""
    if _are_scalars(left, right) and isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if not (_holds_integers(left) and _holds_integers(right)):
        return left / right
    quotient = left // right
    is_rounded_down = (quotient * right != left) & ((left < 0) != (right < 0))
    return quotient + is_rounded_down.astype(quotient.dtype)


def _compute_remainder(left: Any, right: Any) -> Any:
    """The remainder as in C, with the sign of the dividend."""
    if _are_scalars(left, right) and isinstance(left, int) and isinstance(right, int):
        return left - right * _divide_towards_zero(left, right)
    return np.fmod(left, right)


def _select_larger(left: Any, right: Any) -> Any:
    """The larger float, or the one that is a number; of two zeros the one without a sign."""
    found = np.fmax(left, right)
    are_zeros = (left == 0) & (right == 0)
    return np.where(are_zeros, left + right, found)[()] if np.any(are_zeros) else found


ARITHMETIC: dict[str, Operate] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _divide_towards_zero,
    "Mod": _compute_remainder,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Min": lambda a, b: min(a, b) if _are_scalars(a, b) else np.minimum(a, b),
    "Max": lambda a, b: max(a, b) if _are_scalars(a, b) else np.maximum(a, b),
    # As PTX shifts: the distance is unsigned, and beyond the last bit nothing is left.
    "LShift": lambda a, b: (
        (a << b if 0 <= b < 64 else 0) if _are_scalars(a, b) else np.left_shift(a, b)
    ),
    "RShift": lambda a, b: (
        a >> (b if 0 <= b < 64 else 64) if _are_scalars(a, b) else np.right_shift(a, b)
    ),
    "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
}
COMPARISONS: dict[str, Operate] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
BINARY = {**ARITHMETIC, **COMPARISONS}
_OVERFLOWING = ("Add", "Sub", "Mul", "Div", "FloorDiv", "LShift")
DIVISIONS = ("Div", "Mod", "FloorDiv", "FloorMod")
_FLOAT_EXTREMES: dict[tuple[str, bool], Operate] = {
    # CUDA's fminf and fmaxf return the operand that is a number.
    ("Min", False): lambda a, b: -_select_larger(-a, -b),
    ("Max", False): _select_larger,
    # Those of 16 bits stand in the generated source: `a < b ? a : b`.
    ("Min", True): lambda a, b: np.where(a < b, a, b),
    ("Max", True): lambda a, b: np.where(a > b, a, b),
}


def count_leading_zeros(dtype: str) -> Callable[[Any], Any]:
    """``__clz`` of integers of a type of TIR; all bits of it for 0."""
    bits = 8 * get_numpy_dtype(dtype).itemsize
    count = np.vectorize(lambda value: bits - int(value).bit_length(), otypes=[np.int32])

    def run(value: Any) -> Any:
        found = count(np.asarray(value).astype(f"uint{bits}"))
        return found if found.ndim else int(found)

    return run


def _join(dtype: str, joined: str) -> Callable[..., Any]:
    """A function that has several numbers of a type side by side in one, the first one lowest."""

    def join(*parts: Any) -> Any:
        elements = [np.asarray(part, np.float32).astype(get_numpy_dtype(dtype)) for part in parts]
        return np.stack(np.broadcast_arrays(*elements), axis=-1).view(joined)[..., 0][()]

    return join


def _take(dtype: str, joined: str, place: int) -> Callable[[Any], Any]:
    """The inverse of `_join`, of one of the numbers."""
    return lambda value: np.ascontiguousarray(value, joined)[..., None].view(
        get_numpy_dtype(dtype)
    )[..., place][()]


_ERF = np.vectorize(math.erf, otypes=[np.float64])
_SAME_IN_NUMPY = (
    *("exp", "exp2", "log", "log2", "log10", "log1p", "sqrt", "fmod"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "atan2", "pow"),
    *("asin", "acos", "atan", "asinh", "acosh", "atanh"),
    *("floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite"),
    *("copysign", "nextafter", "hypot"),
)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _SAME_IN_NUMPY},
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    # Its exponent is an integer whatever its type: C cuts it off.
    "ldexp": lambda x, exponent: np.ldexp(x, np.asarray(exponent).astype(np.int32))[()],
    "erf": lambda x: _ERF(x).astype(np.asarray(x).dtype)[()],
    "fabs": np.abs,
    "nearbyint": np.round,
    # Rounded once, up to a sum that float64 rounds first.
    "fma": lambda a, b, c: (np.asarray(a, np.float64) * b + c).astype(np.result_type(a, b, c))[()],
    # TVM writes it for unsigned numbers of 32 and 64 bits alone.
    "fdividef": lambda a, b: np.asarray(np.divide(a, b), np.float32),
    "popcount": lambda x: np.bitwise_count(np.asarray(x).astype(np.uint64)).astype(
        np.asarray(x).dtype
    )[()],
    "make_float2": _join("float32", "uint64"),
    "float2_x": _take("float32", "uint64", 0),
    "float2_y": _take("float32", "uint64", 1),
    "float22bfloat162_rn": _join("bfloat16", "uint32"),
    "float22bfloat162_rn_from_float2": lambda pair: _join("bfloat16", "uint32")(
        *(_take("float32", "uint64", at)(pair) for at in (0, 1))
    ),
    "uint_as_float": _take("float32", "uint32", 0),
    "float_as_uint": _take("uint32", "float32", 0),
    **dict.fromkeys(("likely", "tvm_thread_invariant"), lambda x: x),
}
"""The calls that take and return values only."""


Hazard = tuple[str, str, Callable[[Any, Any, str], Any]]
"""Operands for which C++ does not define the result: the kind of finding, a text about them, and
what finds them."""
_BY_ZERO: Hazard = ("division by zero", "divides {0} by zero", lambda a, b, dtype: b == 0)
_OVERFLOW: Hazard = (
    "undefined operation",
    "divides {0} by {1}, beyond the range of the type",
    lambda a, b, dtype: (b == -1) & (a == np.iinfo(_get_promoted(dtype)).min),
)
_SHIFT: Hazard = (
    "undefined operation",
    "shifts {0} by {1} bits (the type has fewer)",
    lambda a, b, dtype: (b < 0) | (b >= 8 * _get_promoted(dtype).itemsize),
)
HAZARDS = {
    **dict.fromkeys(DIVISIONS, (_BY_ZERO, _OVERFLOW)),
    **dict.fromkeys(("LShift", "RShift"), (_SHIFT,)),
}
"""What to look for where the second operand is no constant."""


def get_operator(kind: str, dtype: str) -> tuple[Operate, np.dtype[Any] | None]:
    """The function of a binary node whose operands have a type of TIR.

    With it comes the type that the result wraps around in: arrays do so by themselves, and Python's
    integers go through `wrap`. None where the result cannot leave its range.
    """
    if not is_integer(dtype):
        half = get_numpy_dtype(dtype).itemsize <= 2
        return _FLOAT_EXTREMES.get((kind, half)) or BINARY[kind], None
    operate = BINARY[kind]
    wraps = get_numpy_dtype(dtype) if kind in _OVERFLOWING else None
    if get_numpy_dtype(dtype).itemsize >= 4:
        return operate, wraps
    if count_lanes(dtype) > 1:
        return lambda a, b: operate(_narrow(a, dtype), _narrow(b, dtype)), None
    return lambda a, b: operate(_widen(a), _widen(b)), np.dtype("int32") if wraps else None


def invert(dtype: str) -> Callable[[Any], Any]:
    """``~`` of integers of a type; narrow ones are promoted, unsigned ones to ints, too."""
    if is_narrow(dtype) and count_lanes(dtype) == 1:
        return lambda value: ~_widen(value)
    return lambda value: as_stored(~value, dtype)


def convert(source: str, target: str) -> Callable[[Any], Any]:
    """The function that casts values of one type of TIR to another, as CUDA does."""
    if source == target:
        return lambda value: value  # the generated source has no cast there
    wanted = get_numpy_dtype(target)
    if is_integer(target):
        if is_integer(source) or source.startswith("bool"):
            return lambda value: as_stored(value, target)
        return _saturating(get_numpy_dtype(source), target)
    if target.startswith("float8"):  # CUDA's types take what is too large for their largest number
        largest = np.float32(ml_dtypes.finfo(wanted).max)
        return lambda value: np.clip(
            np.asarray(value).astype(np.float32), -largest, largest
        ).astype(wanted)[()]
    return lambda value: np.asarray(value).astype(wanted)[()]


def is_integer(dtype: str) -> bool:
    """Whether a type of TIR is one of integers; predicates are not."""
    return dtype.startswith(("int", "uint")) and dtype.partition("x")[0] != "uint1"


def is_narrow(dtype: str) -> bool:
    """Whether a type is one of integers that C++ promotes before it computes."""
    return is_integer(dtype) and get_numpy_dtype(dtype).itemsize < 4


def as_stored(value: Any, dtype: str) -> Any:
    """An integer as a variable of its type holds it: what C++ promoted is cut off."""
    wanted = get_numpy_dtype(dtype)
    if isinstance(value, np.ndarray):
        return value if value.dtype == wanted else value.astype(wanted)
    return wrap(int(value), wanted)


def _get_promoted(dtype: str) -> np.dtype[Any]:
    """The type that C++ computes in."""
    own = get_numpy_dtype(dtype)
    return np.dtype("int32") if own.itemsize < 4 else own


def _widen(value: Any) -> Any:
    return value.astype(np.int32, copy=False) if isinstance(value, np.ndarray) else value


def _narrow(value: Any, dtype: str) -> Any:
    return np.asarray(value).astype(get_numpy_dtype(dtype), copy=False)


def wrap(value: int, dtype: np.dtype[Any]) -> int:
    """A Python integer as one of a type."""
    low, span = int(np.iinfo(dtype).min), 1 << 8 * dtype.itemsize
    return (value - low) % span + low


def _saturating(source: np.dtype[Any], target: str) -> Callable[[Any], Any]:
    """Floats to integers: towards zero, and what is beyond the range becomes its end.

    PTX ISA, "cvt": NaN becomes 0, or from or to 64 bits the integer whose first bit only is set.
    Narrow integers take the way over 32 bits; what CUDA makes of numbers beyond their range is not
    defined.
    """
    wanted = get_numpy_dtype(target)
    wide = wanted if wanted.itemsize >= 4 else np.dtype(f"{wanted.kind}4")
    low, high = int(np.iinfo(wide).min), int(np.iinfo(wide).max)
    first_bit = 1 << 8 * wide.itemsize - 1 if wide.kind == "u" else low
    nan = first_bit if max(source.itemsize, wide.itemsize) == 8 else 0

    def run(value: Any) -> Any:
        given: Array = np.asarray(value).astype(np.float64)
        with np.errstate(invalid="ignore"):
            result = np.where(given != given, 0, np.clip(given, low, high)).astype(wide)
        if wide.itemsize == 8:  # whose largest integer is no float64
            result = np.where(given >= float(high), wide.type(high), result)
        if nan:
            result = np.where(given != given, wide.type(nan), result)
        result = result.astype(wanted)
        return result if result.ndim else int(result)

    return run
