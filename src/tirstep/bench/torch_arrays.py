"""Arrays of NumPy as tensors of PyTorch and back, with the types of ml_dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.numeric import Array


def to_torch(array: Array) -> Any:
    """A tensor of the CPU; PyTorch takes no types of ml_dtypes, but their bits."""
    array = np.ascontiguousarray(array)
    if array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = torch.from_numpy(array.view(f"u{array.itemsize}"))
        return bits.view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


def to_numpy(tensor: Any) -> Array:
    """An array of the CPU."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = tensor.cpu().view(torch.uint16 if dtype == "bfloat16" else torch.uint8)
        return bits.numpy().view(dtype_facts(dtype).numpy)
    return tensor.cpu().numpy()
