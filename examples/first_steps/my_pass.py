"""Integer divisions by powers of two, as shifts; wrong, since a shift rounds down."""

from tvm import tirx
from tvm.tirx import Div, IntImm
from tvm_ffi import structural_map

from tirstep.experiments import pass_experiment


def shift(node: Div) -> object:
    """``x / 8`` as ``x >> 3``."""
    divisor = node.b
    if isinstance(divisor, IntImm) and divisor.value > 0 and divisor.value.bit_count() == 1:
        return node.a >> (divisor.value.bit_length() - 1)
    return node


@pass_experiment(after="s_tir.LowerInitBlock")
@tirx.transform.prim_func_pass(opt_level=0)
def shift_quotients(func, module, context):
    return func.with_body(structural_map(func.body, (Div, shift)))
