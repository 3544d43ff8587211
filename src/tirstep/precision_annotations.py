"""Annotations of blocks by which a kernel allows a schedule to round.

Kernels write them and transforms read them, and neither of the two knows the other.
"""

OPERANDS = "tirstep_operands"
"""For float32 products: the type, "tf32", to which their operands may be rounded."""
SUMS = "tirstep_sums"
"""For float8 products: the type, "fp22", in which they may be accumulated."""
EXPONENTS = "tirstep_exponents"
"""For exponentials: that an exponent may be "fused" with the multiplication before it."""
