"""What a kernel allows a schedule to round, by annotations of its blocks.

Kernels write them and transforms read them, and neither of the two knows the other.
"""

OPERANDS = "tirstep_operands"
"""Of a product of float32: the type, "tf32", to which its operands may be rounded."""
SUMS = "tirstep_sums"
"""Of a product of float8: the type, "fp22", in which its sums may be kept."""
EXPONENTS = "tirstep_exponents"
"""Of exponentials: that an exponent may be "fused" with the multiplication in front of it."""
