"""PTX's instructions on registers alone: numbers, comparisons, bits, conversions and moves.

TVM's table says what type each operand has (`ptx_calls`); here stands what an instruction computes.
A register of a packed type, such as f16x2, is an array of its elements, and each is computed by
itself. Floats are computed in float64 and rounded once. Where hardware approximates (ex2, lg2, rcp,
rsqrt, sin, cos, tanh, div.approx) the result is the nearest float; its own is some units off.

Semantics: PTX ISA, sections Integer, Floating Point, Half Precision, Comparison and Selection,
Logic and Shift, and Data Movement and Conversion Instructions.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from tvm.backend.cuda.ptx.table import TABLE

from ...device import Array
from .function_semantics import Semantics, Threads
from .operators import ARITHMETIC, get_operator
from .ptx_calls import PREFIX, fill_register, get_type, list_types, name_operands
from .run_state import UnsupportedError, spread_to

Words = Mapping[str, str]
Compute = Callable[..., Any]
"""Computes an instruction's results from its modifiers, the type of its first result, and its
inputs, each of shape (threads, elements)."""
NO_MODIFIERS = ("oob", "scaled", "pzo")
"""What the simulator does not know of them."""


def _read(value: Any, token: str, lanes: int) -> Array:
    """The elements of a register, of shape (lanes, elements)."""
    given = spread_to(np.asarray(value), (lanes, 1))
    if token == "pred":
        return given != 0
    dtype, count = get_type(token)
    if given.dtype.kind in "iub":  # whose bits count, in as many as the register has
        given = given.astype(f"uint{8 * dtype.itemsize * count}")
    return np.ascontiguousarray(given).view(dtype)


def _run(compute: Compute, threads: Threads, *given: Any) -> None:
    """Take the inputs of an instruction, compute, and fill its results."""
    words, operands = name_operands(threads.name, given)
    if unknown := [word for name, word in words.items() if word and name in NO_MODIFIERS]:
        raise UnsupportedError(f"the simulator does not support .{unknown[0]} of {threads.name}")
    inputs: list[Any] = []
    results: list[tuple[list[Any], str]] = []
    for slot, token in list_types(threads.name, words):
        registers = operands[slot.name]
        if slot.rw == "w":
            results.append((registers, token))
        elif slot.kind == "imm":
            inputs.append(int(registers[0]))
        elif registers:
            columns = [_read(it, token, threads.lanes) for it in registers]
            inputs.append(columns[0] if len(columns) == 1 else np.hstack(columns))
    with np.errstate(all="ignore"):
        made = compute(words, get_type(results[0][1])[0], *inputs)
    for (registers, token), values in zip(
        results, made if isinstance(made, tuple) else (made,), strict=True
    ):
        if len(registers) == 1:
            fill_register(registers[0], values)
            continue
        parts = np.ascontiguousarray(values).view(get_type(token)[0])
        for place, register in enumerate(registers):
            fill_register(register, parts[:, place : place + 1])


# ---- Floats


def _flush(values: Array) -> Array:
    """Zeros of the same sign in the place of subnormal numbers."""
    smallest = ml_dtypes.finfo(values.dtype).smallest_normal
    return np.where(np.abs(values) < smallest, np.copysign(values.dtype.type(0), values), values)


def _round(exact: Array, to: np.dtype[Any], words: Words, compare: Any = None) -> Array:
    """Numbers of float64 as those of a type, as an instruction's modifiers say.

    `compare` says of rounded numbers whether they are less than the exact ones (-1), or more (1).
    """
    mode = words.get("rnd") or words.get("mode", "")
    made = exact.astype(to)
    if mode in _TOWARDS:
        sides = np.sign(made.astype(np.float64) - exact) if compare is None else compare(made)
        side, end = _TOWARDS[mode]
        is_beyond = sides == (np.sign(made.astype(np.float64)) if side is None else side)
        made = np.where(is_beyond & (sides != 0), np.nextafter(made, to.type(end)), made)
    if words.get("ftz"):
        made = _flush(made)
    if words.get("sat"):
        made = np.where(made > 0, np.minimum(made, to.type(1)), to.type(0))  # of NaN 0, too
    if words.get("relu"):
        made = np.where(made < 0, to.type(0), made)
    if words.get("satfinite"):
        largest = ml_dtypes.finfo(to).max
        is_within = np.isnan(exact) | (np.abs(exact) <= float(largest))
        is_negative = (exact < 0) & (not words.get("relu"))
        nearest = np.where(is_negative, -largest, np.where(exact < 0, to.type(0), largest))
        made = np.where(is_within, made, nearest.astype(to))
    return made


_TOWARDS: dict[str, tuple[int | None, float]] = {
    "rz": (None, 0.0),
    "rm": (1, -np.inf),
    "rp": (-1, np.inf),
}
"""For directed roundings: the side on which a result may not be, and the direction to move it."""


def _of_floats(compute: Callable[..., Any]) -> Compute:
    def run(words: Words, to: np.dtype[Any], *inputs: Array) -> Array:
        flushed = map(_flush, inputs) if words.get("ftz") else inputs
        wide = [it.astype(np.float64) for it in flushed]
        mode = words.get("rnd") or words.get("mode", "")
        if mode == "approx" and compute is operator.truediv:  # by the reciprocal, as its type is
            wide = [wide[0], 1 / _round(1 / wide[1], to, words).astype(np.float64)]
        exact = compute(*wide)
        compare = functools.partial(_compare_exactly, compute, wide, exact)
        return _round(exact, to, words, compare)

    return run


def _compare_exactly(
    compute: Callable[..., Any], inputs: list[Array], wide: Array, made: Array
) -> Array:
    """On which side of the exact result rounded numbers are: by fractions where they are the same
    as the result in float64, and else on the side of that."""

    def find(rounded: float, *given: float) -> int:
        is_exact = compute in (operator.truediv, _invert) and given[-1] == 0
        if is_exact or not all(map(math.isfinite, given)) or math.isnan(rounded):
            return 0
        if math.isinf(rounded):
            return 1 if rounded > 0 else -1
        own, exact = Fraction(rounded), Fraction(given[0])
        if compute is np.sqrt:
            own *= own
        else:
            exact = compute(*map(Fraction, given))
        return int(own > exact) - int(own < exact)

    rounded = made.astype(np.float64)
    sides, same = np.nan_to_num(np.sign(rounded - wide)), rounded == wide
    given = [np.broadcast_to(it, same.shape)[same] for it in (rounded, *inputs)]
    sides[same] = np.frompyfunc(find, len(given), 1)(*given).astype(float)
    return sides


def _find_extreme(name: str) -> Compute:
    """min and max, of two or three numbers; of zeros the one without a sign is the larger."""
    of_floats, of_integers = get_operator(name, "float32")[0], ARITHMETIC[name]

    def run(words: Words, to: np.dtype[Any], *inputs: Array) -> Array:
        made: Any
        if to.kind in "iu":
            made = functools.reduce(of_integers, inputs)
            return np.maximum(made, 0) if words["relu"] else made
        wide = [(_flush(it) if words["ftz"] else it).astype(np.float64) for it in inputs]
        wide = [np.abs(it) for it in wide] if words["abs"] else wide
        made = functools.reduce(of_floats, wide)
        if words["nan"]:
            made = np.where(functools.reduce(operator.or_, map(np.isnan, wide)), np.nan, made)
        if words.get("xorsign"):
            is_negative = functools.reduce(operator.xor, map(np.signbit, inputs))
            made = np.copysign(made, np.where(is_negative, -1.0, 1.0))
        return _round(made, to, words)

    return run


def _invert(a: Any) -> Any:
    return 1 / a


_FLOATS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "fma": lambda a, b, c: a * b + c,
    "mad": lambda a, b, c: a * b + c,
    "div": operator.truediv,
    "abs": np.abs,
    "neg": operator.neg,
    "rcp": _invert,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}

# ---- Integers and bits, as Python's: they have no end until a result is cut off


def _cut(values: Array, to: np.dtype[Any], words: Words | None = None) -> Array:
    """Python's integers as those of a type: the last bits, or with .sat the nearest number."""
    if words and words.get("sat"):
        limits = np.iinfo(to)
        values = np.minimum(np.maximum(values, int(limits.min)), int(limits.max))
    bits = 8 * to.itemsize
    return (values & (1 << bits) - 1).astype(f"uint{bits}").view(to)


def _of_integers(compute: Callable[..., Any]) -> Compute:
    """`compute` takes the modifiers, the bits of the first input, and all inputs."""

    def run(words: Words, to: np.dtype[Any], *inputs: Any) -> Array:
        exact = [it.astype(object) if isinstance(it, np.ndarray) else it for it in inputs]
        made = compute(words, 8 * inputs[0].itemsize, *exact)
        return _cut(np.asarray(made, object), to, words)

    return run


def _of_bits(compute: Callable[..., int]) -> Compute:
    """The same for one thread's numbers."""

    def run(words: Words, bits: int, *inputs: Any) -> Any:
        return np.frompyfunc(functools.partial(compute, words, bits), len(inputs), 1)(*inputs)

    return _of_integers(run)


def _take_part(words: Words, bits: int, product: Any) -> Any:
    return product >> bits if words["mode"] == "hi" else product


def _multiply_24(words: Words, _bits: int, a: int, b: int, c: int = 0) -> int:
    is_signed = words["type"] == "s32"
    one, two = ((it & 0xFFFFFF) - ((it & 0x800000) << 1) * is_signed for it in (a, b))
    product = one * two
    return (product >> 16 if words["mode"] == "hi" else product) + c


def _dot_bytes(words: Words, _bits: int, a: int, b: int, c: int) -> int:
    """dp4a: c and the products of four pairs of bytes."""

    def split(value: int, kind: str) -> list[int]:
        parts = [value >> shift & 0xFF for shift in (0, 8, 16, 24)]
        return [it - 256 * (it > 127) for it in parts] if kind == "s32" else parts

    pairs = zip(split(a, words["atype"]), split(b, words["btype"]), strict=True)
    return c + sum(one * two for one, two in pairs)


def _extract(words: Words, bits: int, a: int, begin: int, length: int) -> int:
    """bfe: `length` bits from `begin` on; signed ones are filled up with the last one's."""
    begin, length = begin & 0xFF, length & 0xFF
    value = a & (1 << bits) - 1
    found = value >> begin & (1 << length) - 1
    last = min(begin + length - 1, bits - 1)
    if words["type"].startswith("s") and length and value >> last & 1:
        found |= -1 << max(0, min(length, bits - begin))
    return found


def _insert(_words: Words, bits: int, a: int, b: int, begin: int, length: int) -> int:
    """bfi: the first `length` bits of a in b, from `begin` on."""
    begin, length = begin & 0xFF, length & 0xFF
    mask = ((1 << length) - 1 << begin) & (1 << bits) - 1
    return b & ~mask | a << begin & mask


_PERMUTATIONS = {
    "f4e": "3210 4321 5432 6543",
    "b4e": "5670 6701 7012 0123",
    "rc8": "0000 1111 2222 3333",
    "ecl": "3210 3211 3222 3333",
    "ecr": "0000 1110 2210 3210",
    "rc16": "1010 3232 1010 3232",
}
"""The bytes that prmt takes by its mode and the last two bits of its selector, the last one first.
"""


def _permute(words: Words, _bits: int, a: int, b: int, chosen: int) -> int:
    """prmt: four of the eight bytes of a and b, or copies of their first bits."""
    if words["mode"]:
        chosen = int(_PERMUTATIONS[words["mode"]].split()[chosen & 3], 16)
    both, made = b << 32 | a, 0
    for place in range(4):
        nibble = chosen >> 4 * place & 15
        byte = both >> 8 * (nibble & 7) & 0xFF
        made |= (0xFF * (byte >> 7) if nibble & 8 else byte) << 8 * place
    return made


def _look_up(_words: Words, bits: int, a: int, b: int, c: int, table: int) -> int:
    """lop3: each bit by a table of what the three bits make."""
    made, whole = 0, (1 << bits) - 1
    for row in range(8):
        if table >> row & 1:
            terms = ((it if row >> at & 1 else ~it) for it, at in ((a, 2), (b, 1), (c, 0)))
            made |= functools.reduce(operator.and_, terms) & whole
    return made


def _find_first(words: Words, bits: int, a: int) -> int:
    """bfind: the place of the first bit that is not the sign's; all ones where there is none."""
    place = (~a if a < 0 else a).bit_length() - 1
    return bits - 1 - place if words["shiftamt"] and place >= 0 else place


def _find_nth(_words: Words, _bits: int, mask: int, base: int, offset: int) -> int:
    """fns: the place of the n-th bit that is set, upwards or downwards from a base; or all ones."""
    places = range(base, -1, -1) if offset < 0 else range(base, 32 if offset else base + 1)
    found = [it for it in places if mask >> it & 1]
    count = abs(offset) or 1
    return found[count - 1] if count <= len(found) else -1


def _shift_funnel(words: Words, _bits: int, a: int, b: int, by: int) -> int:
    by = min(by, 32) if words["mode"] == "clamp" else by & 31
    both = b << 32 | a
    return both << by >> 32 if words["dir"] == "l" else both >> by


_INTEGERS: dict[str, Callable[..., Any]] = {
    "add_int": lambda words, bits, a, b: a + b,
    "sub_int": lambda words, bits, a, b: a - b,
    **dict.fromkeys(
        ("mul_int", "mul_wide"), lambda words, bits, a, b: _take_part(words, bits, a * b)
    ),
    **dict.fromkeys(
        ("mad_int", "mad_wide"), lambda words, bits, a, b, c: _take_part(words, bits, a * b) + c
    ),
    "sad": lambda words, bits, a, b, c: c + abs(a - b),
    "abs": lambda words, bits, a: abs(a),
    "neg_int": lambda words, bits, a: -a,
    "and": lambda words, bits, a, b: a & b,
    "or": lambda words, bits, a, b: a | b,
    "xor": lambda words, bits, a, b: a ^ b,
    "shl": lambda words, bits, a, b: a << np.minimum(b, bits),
    "shr": lambda words, bits, a, b: a >> np.minimum(b, bits),
}
"""Functions of arrays, with elementwise operators."""
_BITS: dict[str, Callable[..., int]] = {
    "not": lambda words, bits, a: not a if words["type"] == "pred" else ~a,
    "cnot": lambda words, bits, a: int(a == 0),
    "popc": lambda words, bits, a: a.bit_count(),
    "clz": lambda words, bits, a: bits - a.bit_length(),
    "brev": lambda words, bits, a: int(f"{a:0{bits}b}"[::-1], 2),
    "bfind": _find_first,
    "fns": _find_nth,
    "bfe": _extract,
    "bfi": _insert,
    "prmt": _permute,
    "lop3": _look_up,
    "shf": _shift_funnel,
    "dp4a": _dot_bytes,
    **dict.fromkeys(("mul24", "mad24"), _multiply_24),
}
"""Functions of one thread's numbers."""


def _divide(name: str, threads: Threads, *given: Any) -> None:
    """div and rem of integers: of a divisor 0 PTX does not say what comes out."""

    def compute(_words: Words, _to: Any, a: Array, b: Array) -> Array:
        def tell(at: tuple[int, ...]) -> str:
            return f"{threads.state.describe_lane(at[0])} divides {a[at]} by zero"

        places = threads.active & (b == 0)
        threads.state.log.add("division by zero", "", threads.location, places, tell)
        return ARITHMETIC[name](a, np.where(b == 0, b.dtype.type(1), b))

    _run(compute, threads, *given)


# ---- Comparisons and choices

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}
_TRUTHS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _compare(words: Words, a: Array, b: Array) -> Array:
    """Whether a comparison holds; one with a u holds, too, where one of the numbers is NaN."""
    name = words["cmp"]
    if a.dtype.kind in "iu":
        return np.asarray(_COMPARISONS[name](a, b))
    if words.get("ftz"):
        a, b = _flush(a), _flush(b)
    has_nan = np.isnan(a) | np.isnan(b)
    if name in ("num", "nan"):
        return has_nan == (name == "nan")
    holds = _COMPARISONS[name[:2]](a, b)
    return holds | has_nan if len(name) > 2 else holds & ~has_nan


def _set_predicates(words: Words, _to: Any, a: Array, b: Array, *given: Array) -> Any:
    """setp: what holds, and what does not, or of a packed type each element by itself; each
    combined with a predicate.
    """
    holds = _compare(words, a, b)
    both = (holds[:, :1], holds[:, 1:] if holds.shape[1] > 1 else ~holds)
    if given:
        both = tuple(_TRUTHS[words["boolop"]](it, given[0]) for it in both)
    return both


def _set(words: Words, to: np.dtype[Any], a: Array, b: Array, *given: Array) -> Array:
    """set: 1.0, or of integers all bits, in each element that holds."""
    holds = _compare(words, a, b)
    if given:
        holds = _TRUTHS[words["boolop"]](holds, given[0])
    if to.kind not in "iu":
        return holds.astype(to)
    element = f"uint{8 * to.itemsize // holds.shape[1]}"  # of two in one integer, half of its bits
    return np.where(holds, np.iinfo(element).max, 0).astype(element)


_CLASSES: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).smallest_normal),
    "subnormal": lambda a: (a == 0) | (np.abs(a) < np.finfo(a.dtype).smallest_normal),
}


def _look_up_and_test(words: Words, to: np.dtype[Any], a: Any, b: Any, c: Any, *rest: Any) -> Any:
    """lop3 with a predicate: whether a bit is set, combined with another one."""
    table, given = rest
    made = _of_bits(_look_up)(words, np.dtype("uint32"), a, b, c, table)
    return made, _TRUTHS[words["boolop"]](made != 0, given)


# ---- Conversions


def _convert(words: Words, to: np.dtype[Any], a: Array) -> Array:
    """cvt of one number; a float beyond the range of an integer becomes its end."""
    if a.dtype.kind in "iu":
        if to.kind in "iu":
            return _cut(a.astype(object), to, words)
        if words["rnd"] in ("", "rn") and not words["sat"]:
            return a.astype(to)
        return _round(a.astype(np.float64), to, words)
    given = (_flush(a) if words["ftz"] else a).astype(np.float64)
    steps = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    whole = steps[words["rnd"]](given) if words["rnd"] in steps else given
    if to.kind not in "iu":
        own = {**words, "rnd": words["rnd"][:2] if whole is given else ""}
        return _round(whole, to, own if to == np.float32 else {**own, "ftz": ""})
    low, high = int(np.iinfo(to).min), int(np.iinfo(to).max)
    nan = 0 if max(to.itemsize, a.dtype.itemsize) < 8 else low or 1 << 8 * to.itemsize - 1
    fit = np.frompyfunc(
        lambda x: nan if x != x else low if x < low else high if x > high else int(x), 1, 1
    )
    return _cut(fit(whole), to)


def _pack_quarters(words: Words, _to: Any, a: Array, b: Array) -> Array:
    """cvt of two numbers to e2m1, the first one in the upper four bits of a byte."""
    e2m1 = np.dtype(ml_dtypes.float4_e2m1fn)
    upper, lower = (_round(it.astype(np.float64), e2m1, words).view(np.uint8) & 15 for it in (a, b))
    return (upper << 4 | lower).astype(np.uint8)


def _find_exponents(words: Words, _to: Any, *given: Array) -> Array:
    """cvt of two numbers to ue8m0, powers of two with neither sign nor bits behind the point; the
    first one in the upper byte.
    """
    made = []
    for each in given:
        bits = each.view(np.uint32)
        exponent, rest = bits >> 23 & 0xFF, bits & (1 << 23) - 1
        # 0 is 2**-127, half of the smallest normal number.
        is_above = (rest > 0) & (exponent < 0xFE) & ((exponent > 0) | (rest > 1 << 22))
        exponent += np.uint32(words["rnd"] == "rp") * is_above
        most = np.where(np.isnan(each) | (not words["satfinite"]), 0xFF, 0xFE)
        made.append(np.minimum(exponent, most))
    return (made[0] << 8 | made[1]).astype(np.uint16)


def _unpack_quarters(words: Words, to: np.dtype[Any], a: Array) -> Array:
    """cvt of a byte of two e2m1, the lower four bits of which are the lower element."""
    halves = np.hstack([a & 15, a >> 4]).astype(np.uint8)
    exact = halves.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    return _round(exact, to, {**words, "rnd": ""})


def _round_to_tf32(words: Words, to: np.dtype[Any], a: Array) -> Array:
    """Ten bits behind the point: the nearest, of two the even one, or with .rna the larger one."""
    bits, last = a.view(np.uint32).astype(np.int64), 1 << 13
    half = {"rz": 0, "rna": last // 2}.get(
        words["rnd"], last // 2 - 1 + (a.view(np.uint32) >> 13 & 1)
    )
    made = (bits + half & ~(last - 1)).astype(np.uint32).view(np.float32)
    made = np.where(np.isfinite(a), made, a)
    plain = {**words, "rnd": ""}
    return _round(made.astype(np.float64), to, plain) if any(plain.values()) else made


_COMPUTED: dict[str, Compute] = {
    **{
        name + ending: _of_floats(compute)
        for name, compute in _FLOATS.items()
        for ending in ("", "_f", "_half")
    },
    **{name: _of_integers(compute) for name, compute in _INTEGERS.items()},
    **{name: _of_bits(compute) for name, compute in _BITS.items()},
    **dict.fromkeys(("min", "min3"), _find_extreme("Min")),
    **dict.fromkeys(("max", "max3"), _find_extreme("Max")),
    **{
        name: _set_predicates if name.endswith("_pq") else lambda *it: _set_predicates(*it)[0]
        for name in TABLE
        if name.startswith("setp")
    },
    **dict.fromkeys(("set", "set_bool", "set_half", "set_half_bool"), _set),
    "selp": lambda words, to, a, b, c: np.where(c, a, b),
    "slct": lambda words, to, a, b, c: np.where((_flush(c) if words["ftz"] else c) >= 0, a, b),
    "testp": lambda words, to, a: _CLASSES[words["op"]](a),
    "copysign": lambda words, to, a, b: np.copysign(b, a),
    "lop3_bool": _look_up_and_test,
    "lop3_bool_sink": lambda *given: _look_up_and_test(*given)[1],
    "cvt": _convert,
    "cvt_tf32_f32": _round_to_tf32,
    "cvt_f4x2_f32": _pack_quarters,
    "cvt_f16x2_f4x2": _unpack_quarters,
    "cvt_ue8m0x2_f32": _find_exponents,
    # PTX ISA, "cvt": 2**(e - 127), of which bfloat16 has each but NaN's as its own exponent; the
    # smallest is half of its smallest normal number.
    "cvt_bf16x2_ue8m0x2": lambda words, to, a: np.where(
        a == 0xFF, 0x7FFF, np.where(a == 0, 0x40, a.astype(np.uint16) << 7)
    ).astype(np.uint16),
    # Of two numbers to a packed type, the first one is the upper element.
    **dict.fromkeys(
        ("cvt_f16x2_f32", "cvt_bf16x2_f32", "cvt_f8x2_f32"),
        lambda words, to, a, b: _round(np.hstack([b, a]).astype(np.float64), to, words),
    ),
    **dict.fromkeys(
        ("cvt_f8x2_fp16x2", "cvt_f16x2_f8x2", "cvt_bf16x2_f8x2"), _of_floats(lambda a: a)
    ),
    **{it: lambda words, to, a: a for it in TABLE if it == "mov" or it.startswith("mov_")},
    # A cache policy changes no value.
    **dict.fromkeys(
        ("createpolicy_fractional", "createpolicy_fraction", "createpolicy_cvt"),
        lambda words, to, *_: np.zeros((1, 1), to),
    ),
}
"""By the names of TVM's table, in which those of floats and of halves have endings of their own."""
PTX_ARITHMETIC: dict[str, Semantics] = {
    **{PREFIX + name: functools.partial(_run, compute) for name, compute in _COMPUTED.items()},
    f"{PREFIX}div": functools.partial(_divide, "Div"),
    f"{PREFIX}rem": functools.partial(_divide, "Mod"),
}
