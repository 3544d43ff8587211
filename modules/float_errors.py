"""How far off a device may be by itself in quotients and functions of floats, in units of roundoff.

Those of float32 are CUDA's fast ones, with which TVM compiles (CUDA C++ Programming Guide,
"Mathematical Functions": __expf, __fdividef, rsqrtf; PTX ISA, sin.approx and tanh.approx), or what
TVM makes of functions that a device does not have (tanh and sinh of exponentials, say); other types
are given the same. A unit in the last place is two units of roundoff.
"""

from dataclasses import dataclass
from math import inf as INFINITE

DIVISION = 4.0
"""Of a quotient: 2 units in the last place."""
LARGEST_DIVISOR = 2.0**126
"""Beyond it CUDA's fast quotient of float32 may be 0."""
EXPONENTIAL = 2 * 1.173
"""Of an exponential, for each unit of the argument."""


@dataclass(frozen=True)
class FloatFunction:
    """A function that rises or falls all along its domain, or whose slope is at most 1.

    Attributes
    ----------
    name : in the C library; "" for one that is computed of others
    relative, absolute : what a device may be off by itself, in units of roundoff; the first also
        for each unit of the argument's magnitude (`growth`)
    low, high : the domain, into which ends of intervals are moved
    is_flat : the slope is at most 1, and it neither rises nor falls all along
    is_whole : its values are whole numbers, and rounded by nothing
    is_reciprocal : of a sum that overflows in its type, so that its least values are 0
    """

    name: str
    relative: float = 0.0
    growth: float = 0.0
    absolute: float = 0.0
    absolute_growth: float = 0.0
    low: float = -INFINITE
    high: float = INFINITE
    is_flat: bool = False
    is_whole: bool = False
    is_reciprocal: bool = False

    @property
    def domain(self) -> tuple[float, float]:
        return self.low, self.high


FLOAT_FUNCTIONS: dict[str, FloatFunction] = {
    "exp": FloatFunction("exp", 4, EXPONENTIAL),
    "exp2": FloatFunction("exp2", 4, EXPONENTIAL),
    "exp10": FloatFunction("", 4, 6),
    "log": FloatFunction("log", 6, absolute=8, low=0),
    "log2": FloatFunction("log2", 8, absolute=8, low=0),
    "log10": FloatFunction("log10", 8, absolute=8, low=0),
    "log1p": FloatFunction("log1p", 8, absolute=8, low=-1),
    "sqrt": FloatFunction("sqrt", 6, low=0),
    "rsqrt": FloatFunction("", 6, low=0),
    "sigmoid": FloatFunction("", 12, EXPONENTIAL, is_reciprocal=True),
    "tanh": FloatFunction("tanh", 2.0**14, absolute=8),
    "sin": FloatFunction("sin", absolute=16, absolute_growth=4, is_flat=True),
    "cos": FloatFunction("cos", absolute=16, absolute_growth=4, is_flat=True),
    "asin": FloatFunction("asin", 8, absolute=8, low=-1, high=1),
    "acos": FloatFunction("acos", 8, absolute=8, low=-1, high=1),
    "atan": FloatFunction("atan", 8, absolute=8),
    "sinh": FloatFunction("sinh", 12, EXPONENTIAL, absolute=8),
    "asinh": FloatFunction("asinh", 8, absolute=8),
    "acosh": FloatFunction("acosh", 8, absolute=8, low=1),
    "atanh": FloatFunction("atanh", 8, absolute=8, low=-1, high=1),
    "erf": FloatFunction("erf", 8, absolute=8),
    "floor": FloatFunction("floor", is_whole=True),
    "ceil": FloatFunction("ceil", is_whole=True),
    "trunc": FloatFunction("trunc", is_whole=True),
    "round": FloatFunction("nearbyint", is_whole=True),
    "nearbyint": FloatFunction("nearbyint", is_whole=True),
}
"""By TVM's names, without ``tirx.``. TVM's `round` is to the nearest even number."""
