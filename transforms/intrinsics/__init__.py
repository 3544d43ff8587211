"""Tensor intrinsics: instructions of tensor cores, and the layout of their fragments."""

from .fragments import (
    Element,
    FragmentPlace,
    Role,
    get_depth,
    get_element,
    get_matrix_row,
    get_share,
    place_in_fragment,
)
from .mma import MmaIntrinsics, get_mma_intrinsics

__all__ = [
    "Element",
    "FragmentPlace",
    "MmaIntrinsics",
    "Role",
    "get_depth",
    "get_element",
    "get_matrix_row",
    "get_mma_intrinsics",
    "get_share",
    "place_in_fragment",
]
