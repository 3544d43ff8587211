"""Facts of data types for the numeric checks."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tirstep.modules.validation import KernelError

_FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
# Types that only what computes has: their numbers lie in memory as float32 (`get_storage`). By the
# mantissa bits of one that is rounded to nearest, and is as far off at most.
#
# tf32: an operand of tensor cores, which ignore all but 11 bits of a float32 (with the hidden one).
# fp22: a sum of Hopper's tensor cores over products of float8, of which 14 bits are kept and the
# others cut off (Zhang and others, SageAttention2, 2024, section 3.2; DeepSeek-V3 Technical Report,
# 2024, section 3.5.2): cutting off loses as much as rounding to 13.
_IN_FLOAT32 = {"tf32": 11, "fp22": 13}
_INTEGERS = ("int32", "int16", "int8", "int64", "uint8", "uint16", "uint32", "uint64")

# For kernels that sum products: what each input type may be summed in, the default first.
# bfloat16 is not summed in itself: with 8 bits, a sum of 256 ones no longer grows.
SUMS_OF_PRODUCTS: Mapping[str, tuple[str, ...]] = {
    "float32": ("float32",),
    "float16": ("float32", "float16"),
    "bfloat16": ("float32",),
    "float8_e4m3fn": ("float32",),
    "float8_e5m2": ("float32",),
    "int8": ("int32",),
    "int32": ("int32",),
}
# For kernels that tensor cores compute: float32 operands that may be rounded to TF32, and float8
# sums as Hopper keeps them, where that is asked for by name.
SUMS_ON_TENSOR_CORES: Mapping[str, tuple[str, ...]] = {
    **SUMS_OF_PRODUCTS,
    "float8_e4m3fn": ("float32", "fp22"),
    "float8_e5m2": ("float32", "fp22"),
    "tf32": ("float32",),
}
# For kernels that add a few numbers: in the type of their inputs where a GPU adds in it. float8 it
# does not add, and a sum of two is rarely a float8: the sum is a float32.
SUMS_OF_FEW: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("float32", "float16", "bfloat16", "int32", "int8")},
    "float8_e4m3fn": ("float32",),
    "float8_e5m2": ("float32",),
}
# For exponentials, roots and quotients, which a GPU computes in float32.
FLOATS_IN_FLOAT32: Mapping[str, tuple[str, ...]] = dict.fromkeys(
    ("float32", "float16", "bfloat16"), ("float32",)
)
# For kernels that choose among their inputs and round nothing; a GPU compares no float8.
IN_OWN_TYPE: Mapping[str, tuple[str, ...]] = {
    name: (name,) for name in ("float32", "float16", "bfloat16", "int32", "int8")
}
# For kernels that move their inputs and compute nothing.
ANY_TYPE: Mapping[str, tuple[str, ...]] = {name: (name,) for name in SUMS_OF_PRODUCTS}


@dataclass(frozen=True)
class DType:
    """Facts of one data type; sizes in bytes."""

    name: str
    numpy: np.dtype[Any]
    is_float: bool
    mantissa_bits: int  # with the hidden one: 24 for float32; for an integer type, its value bits
    smallest: float  # the finite range
    largest: float
    smallest_subnormal: float  # 0 for an integer type
    smallest_normal: float  # 0 for an integer type

    @property
    def underflow(self) -> float:
        """The most that a result may be off for being too small for the type's normal numbers.

        CUDA's fast arithmetic, with which TVM compiles, takes subnormal float32 for zero, as inputs
        and as results (`-ftz=true`, NVIDIA CUDA Compiler Driver, "--use_fast_math"); bfloat16 has
        the same range and is computed in float32 where a GPU does not add it. float16 keeps its
        subnormal numbers, whatever the flag (PTX ISA, "Half Precision Floating Point").
        """
        if self.name in ("float32", "bfloat16", *_IN_FLOAT32):
            return self.smallest_normal
        return self.smallest_subnormal

    @property
    def bytes(self) -> int:
        return self.numpy.itemsize

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of one rounding to nearest; integers do not round."""
        return 2.0**-self.mantissa_bits if self.is_float else 0.0

    @property
    def exact_integers(self) -> int:
        """The number up to which every integer, of either sign, is a value of this type."""
        return 2**self.mantissa_bits if self.is_float else int(self.largest)


def get_storage(name: str) -> str:
    """The type that numbers of a type have in memory: float32 for tf32 and fp22, else itself."""
    return "float32" if name in _IN_FLOAT32 else name


@functools.cache
def dtype_facts(name: str) -> DType:
    """The facts of a data type by TVM's name of it; raises `KernelError` for a name unknown here.

    bfloat16 and the float8 types are those of ml_dtypes.
    """
    if name == "bool":
        return DType(name, np.dtype(name), False, 1, 0, 1, 0.0, 0.0)
    if name in _INTEGERS:
        integers = np.iinfo(name)
        low, high = int(integers.min), int(integers.max)
        bits = integers.bits - (low < 0)
        return DType(name, np.dtype(name), False, bits, low, high, 0.0, 0.0)
    if name in _IN_FLOAT32:
        return replace(dtype_facts("float32"), name=name, mantissa_bits=_IN_FLOAT32[name])
    if name not in _FLOATS:
        raise KernelError(
            f"dtype_facts: {name!r} is not a data type known here; use {', '.join(_FLOATS)}, "
            f"{', '.join(_INTEGERS)}, {', '.join(_IN_FLOAT32)}, bool"
        )
    # ml_dtypes knows NumPy's types too, but says nothing new of float64.
    numpy = np.dtype(getattr(ml_dtypes, name, name))
    floats = np.finfo(numpy) if name == "float64" else ml_dtypes.finfo(numpy)
    return DType(
        name,
        numpy,
        True,
        int(floats.nmant) + 1,
        float(floats.min),
        float(floats.max),
        float(floats.smallest_subnormal),
        float(floats.smallest_normal),
    )
