"""What TVM writes at the head of CUDA source, and NVRTC reads for longer than the kernel."""

from __future__ import annotations

import re

TRAITS = re.compile(
    r"^ *#include <cuda/std/type_traits>\n *namespace std \{\n(?: *using cuda::std::\w+;\n)+ *\}\n",
    re.MULTILINE,
)
"""As TVM 0.27 writes it, for NVRTC alone."""
STANDARD = re.compile(r"(?<!/)\bstd\b(?!\s*::\s*u?int\d+_t\b)")
"""The namespace for anything but integers; in a header's path it is no namespace."""


def drop_unused_traits(source: str) -> str:
    """CUDA source without the header of type traits, where nothing asks for one.

    NVRTC needs half a second of a core for that header, and a quarter of a second for the kernel
    of a matmul; the machine code is the same. Where the source has anything else of a namespace
    ``std``, or its head is written in another way, it stays as it is.
    """
    short = TRAITS.sub("", source, count=1)
    return source if STANDARD.search(short) else short
