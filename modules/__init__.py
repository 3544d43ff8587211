"""What is computed: kernels as plain TVMScript, with their meaning in NumPy.

A kernel is called with its sizes and gives a module: ``matmul(64, 48, 32, dtype="float16")``.
``matmul.problem(64, 48, 32)`` gives the same with inputs, the reference, the bound on the error,
and the counts of operations and bytes. kernel.py says how to add one.
"""

if __name__ != "tirstep.modules":
    raise ImportError("import it as tirstep.modules")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

# TVM may be imported from here on only.
from tirstep.modules.activations import gelu, relu
from tirstep.modules.catalogue import get_kernel, kernels
from tirstep.modules.convolution import depthwise_conv2d
from tirstep.modules.elementwise import vector_add
from tirstep.modules.errors import KernelError
from tirstep.modules.kernel import Kernel, Problem, Tensor
from tirstep.modules.matmul import matmul, matmul_bias_relu
from tirstep.modules.matvec import matvec
from tirstep.modules.movement import transpose
from tirstep.modules.rows import layer_norm, rms_norm, row_sum
from tirstep.modules.softmax import softmax
from tirstep.modules.stencil import conv1d, window_sum

__all__ = [
    "Kernel",
    "KernelError",
    "Problem",
    "Tensor",
    "conv1d",
    "depthwise_conv2d",
    "gelu",
    "get_kernel",
    "kernels",
    "layer_norm",
    "matmul",
    "matmul_bias_relu",
    "matvec",
    "relu",
    "rms_norm",
    "row_sum",
    "softmax",
    "transpose",
    "vector_add",
    "window_sum",
]
