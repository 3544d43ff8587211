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
from tirstep.modules.attention import attention as attention
from tirstep.modules.attention import decode_attention as decode_attention
from tirstep.modules.chains import mlp_swiglu as mlp_swiglu
from tirstep.modules.chains import rms_norm_matmul as rms_norm_matmul
from tirstep.modules.convolution import conv1d as conv1d
from tirstep.modules.convolution import conv2d as conv2d
from tirstep.modules.convolution import depthwise_conv2d as depthwise_conv2d
from tirstep.modules.convolution import window_sum as window_sum
from tirstep.modules.elementwise import gelu as gelu
from tirstep.modules.elementwise import relu as relu
from tirstep.modules.elementwise import transpose as transpose
from tirstep.modules.elementwise import vector_add as vector_add
from tirstep.modules.kernel import AnyProblem as AnyProblem
from tirstep.modules.kernel import Kernel as Kernel
from tirstep.modules.kernel import Problem as Problem
from tirstep.modules.kernel import Tensor as Tensor
from tirstep.modules.kernel import kernel as kernel
from tirstep.modules.matmul import batched_matmul as batched_matmul
from tirstep.modules.matmul import matmul as matmul
from tirstep.modules.matmul import matmul_bias_gelu as matmul_bias_gelu
from tirstep.modules.matmul import matmul_bias_relu as matmul_bias_relu
from tirstep.modules.rows import layer_norm as layer_norm
from tirstep.modules.rows import matvec as matvec
from tirstep.modules.rows import rms_norm as rms_norm
from tirstep.modules.rows import row_argmax as row_argmax
from tirstep.modules.rows import row_sum as row_sum
from tirstep.modules.rows import softmax as softmax
from tirstep.modules.validation import KernelError as KernelError
from tirstep.modules.validation import nearest

# From the simplest on: by files, and as they stand there. Kernels made elsewhere stay out.
_FILES = [
    f"{__name__}.{family}"
    for family in ("elementwise", "rows", "convolution", "matmul", "chains", "attention")
]
_KERNELS = sorted(
    (each for each in list(vars().values()) if isinstance(each, Kernel)),
    key=lambda each: (_FILES.index(each.factory.__module__), each.factory.__code__.co_firstlineno),
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
