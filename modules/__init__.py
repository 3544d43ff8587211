"""What is computed: kernels as plain TVMScript, with their meaning in NumPy.

A kernel is called with its sizes and gives a module: ``matmul(64, 48, 32, dtype="float16")``.
``matmul.problem(64, 48, 32)`` gives the same with inputs, the reference, the bound on the error,
and the counts of operations and bytes. kernel.py says how to add one.
"""

if __name__ != "tirstep.modules":
    raise ImportError("import it as tirstep.modules")

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tirstep.versions import require_supported_tvm

require_supported_tvm()

# TVM may be imported from here on only.
from tirstep.modules.attention import attention, decode_attention
from tirstep.modules.chains import mlp_swiglu, rms_norm_matmul
from tirstep.modules.convolution import conv1d, conv2d, depthwise_conv2d, window_sum
from tirstep.modules.elementwise import gelu, relu, transpose, vector_add
from tirstep.modules.kernel import Kernel, Problem, kernel
from tirstep.modules.matmul import batched_matmul, matmul, matmul_bias_gelu, matmul_bias_relu
from tirstep.modules.problem import AnyProblem, Tensor
from tirstep.modules.rows import layer_norm, matvec, rms_norm, row_argmax, row_sum, softmax
from tirstep.modules.validation import KernelError, nearest

__all__ = [
    "AnyProblem",
    "Kernel",
    "KernelError",
    "Problem",
    "Tensor",
    "attention",
    "batched_matmul",
    "conv1d",
    "conv2d",
    "decode_attention",
    "depthwise_conv2d",
    "gelu",
    "get_kernel",
    "kernel",
    "kernels",
    "layer_norm",
    "matmul",
    "matmul_bias_gelu",
    "matmul_bias_relu",
    "matvec",
    "mlp_swiglu",
    "relu",
    "rms_norm",
    "rms_norm_matmul",
    "row_argmax",
    "row_sum",
    "softmax",
    "transpose",
    "vector_add",
    "window_sum",
]

# A list, not a side effect of the decorator: kernels made elsewhere stay out of it.
_KERNELS = (
    vector_add,
    relu,
    gelu,
    transpose,
    row_sum,
    row_argmax,
    softmax,
    rms_norm,
    layer_norm,
    window_sum,
    conv1d,
    matvec,
    matmul,
    matmul_bias_relu,
    matmul_bias_gelu,
    batched_matmul,
    depthwise_conv2d,
    conv2d,
    mlp_swiglu,
    rms_norm_matmul,
    attention,
    decode_attention,
)


def kernels() -> Mapping[str, Kernel]:
    """Every kernel of the package, by name, from the simplest on."""
    return MappingProxyType({each.name: each for each in _KERNELS})


def get_kernel(name: Any) -> Any:
    """The kernel of this name; what is no name is a kernel itself, or like one, and is returned.

    Raises `KernelError` with the nearest names if there is none.
    """
    if not isinstance(name, str):
        return name
    known = kernels()
    if name not in known:
        raise KernelError(f"get_kernel: no kernel is named {name!r}; {nearest(name, known)}")
    return known[name]
