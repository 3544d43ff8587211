"""Passes of our own on lowered modules, the pipeline that runs them among TVM's, and reducers.

``tvm.compile(module, target, tir_pipeline="tirstep")`` is TVM's own pipeline with them; importing
this package registers it. A module that wants it says so (`set_pipeline`).
"""

from .barriers import DropRedundantBarriers
from .pipeline import PIPELINE, find_pipeline, set_pipeline
from .reducers import register_reducer
from .thread_dimensions import DropThreadDimensions

__all__ = [
    "PIPELINE",
    "DropRedundantBarriers",
    "DropThreadDimensions",
    "find_pipeline",
    "register_reducer",
    "set_pipeline",
]
