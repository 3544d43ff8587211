"""What is measured: kernels, shapes, types, recipes and peers. Data and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GPU_PEERS = ("torch", "triton", "dlight")
CPU_PEERS = ("numpy", "torch_cpu")
TUTORIAL = "tutorial"
"""The suite of whole ladders: what it shows is every recipe, and not the fastest alone."""

FLOAT32: Mapping[str, object] = {"dtype": "float32"}
FLOAT16: Mapping[str, object] = {"dtype": "float16", "out": "float16"}


@dataclass(frozen=True)
class Entry:
    """One kernel at some shapes and types.

    Attributes
    ----------
    shapes : sizes by place; a kernel of one size takes their product
    options : of the kernel; an option that it does not have is left out
    recipes : names, ladders, or ``"first"``, ``"last"`` or ``"all"`` of the kernel's recipes
    peers : as `tirstep.bench.peers` names them
    """

    kernel: str
    shapes: tuple[tuple[int, ...], ...]
    options: tuple[Mapping[str, object], ...] = (FLOAT32,)
    recipes: tuple[str, ...] = ("first", "last")
    peers: tuple[str, ...] = GPU_PEERS


# Larger than the L2 cache of an H100 or H200, but for the shape that no tile divides.
PLANES = ((4096, 4096), (8192, 8192), (16384, 1024), (1021, 4099))
OVER_MEMORY = (
    "row_sum",
    "softmax",
    "layer_norm",
    "rms_norm",
    "transpose",
    "relu",
    "gelu",
    "vector_add",
    "matvec",
)

WINDOWS = (
    "conv1d_unrolled",
    "conv1d_window",
    "conv1d_registers",
    "conv1d_folded",
    "conv1d_coalesced",
)

SUITES: Mapping[str, tuple[Entry, ...]] = MappingProxyType(
    {
        "matmul": (
            Entry(
                "matmul",
                (
                    (1024, 512, 2048),
                    (512, 512, 512),
                    (1024, 1024, 1024),
                    (2048, 2048, 2048),
                    (16, 4096, 4096),
                    (8192, 128, 8192),
                    (1000, 777, 333),
                    (1024, 768, 336),  # the nearest that tiles divide
                ),
            ),
            # The fast ladder where it fills the GPU.
            Entry("matmul", ((4096, 4096, 4096),), recipes=("matmul",)),
            # The naive kernel takes seconds here, and would say nothing new.
            Entry(
                "matmul",
                ((4096, 4096, 4096), (8192, 8192, 8192), (4096, 1024, 4096)),
                recipes=("last",),
            ),
        ),
        # All recipes: which of a ladder's upper ones is the fastest depends on shape and type.
        "bandwidth": tuple(
            Entry(kernel, PLANES, options=(FLOAT32, FLOAT16), recipes=("all",))
            for kernel in OVER_MEMORY
        ),
        # The shapes of the convolution tutorials, and one that fills a GPU.
        "convolution": (
            Entry("conv1d", ((16384, 32),), recipes=("all",)),
            # The naive kernel walks over the whole signal for each output.
            Entry("conv1d", ((1 << 24, 32),), recipes=WINDOWS),
            Entry("depthwise_conv2d", ((3, 4, 16, 32, 7), (4096, 4, 16, 32, 7)), recipes=("all",)),
        ),
        TUTORIAL: (
            Entry(
                "matmul",
                ((1024, 512, 2048), (256,) * 3, (512,) * 3, (1024,) * 3, (2048,) * 3),
                recipes=("all",),
                peers=GPU_PEERS + CPU_PEERS,
            ),
            Entry("conv1d", ((16384, 32),), recipes=("all",), peers=GPU_PEERS + CPU_PEERS),
            Entry(
                "depthwise_conv2d",
                ((3, 4, 16, 32, 7),),
                recipes=("all",),
                peers=GPU_PEERS + CPU_PEERS,
            ),
        ),
    }
)
