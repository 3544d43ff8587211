"""The kernels of this package by name."""

from collections.abc import Mapping
from types import MappingProxyType

from tirstep.modules.activations import gelu, relu
from tirstep.modules.convolution import depthwise_conv2d
from tirstep.modules.elementwise import vector_add
from tirstep.modules.errors import KernelError, nearest
from tirstep.modules.kernel import Kernel
from tirstep.modules.matmul import matmul, matmul_bias_relu
from tirstep.modules.matvec import matvec
from tirstep.modules.movement import transpose
from tirstep.modules.rows import layer_norm, rms_norm, row_sum
from tirstep.modules.softmax import softmax
from tirstep.modules.stencil import conv1d, window_sum

# A list, not a side effect of the decorator: kernels made elsewhere stay out of it.
_KERNELS = (
    vector_add,
    relu,
    gelu,
    transpose,
    row_sum,
    softmax,
    rms_norm,
    layer_norm,
    window_sum,
    conv1d,
    matvec,
    matmul,
    matmul_bias_relu,
    depthwise_conv2d,
)


def kernels() -> Mapping[str, Kernel]:
    """Every kernel of the package, by name, from the simplest on."""
    return MappingProxyType({kernel.name: kernel for kernel in _KERNELS})


def get_kernel(name: str) -> Kernel:
    """The kernel of this name; raises `KernelError` with the nearest names if there is none."""
    known = kernels()
    if name not in known:
        raise KernelError(f"get_kernel: no kernel is named {name!r}; {nearest(name, known)}")
    return known[name]
