"""Passes of our own on lowered modules, the pipeline that runs them among TVM's, and reducers.

``tvm.compile(module, target, tir_pipeline="tirstep")`` is TVM's own pipeline with them; importing
this package registers it. A module that wants it says so (`set_pipeline`).
"""

from .barriers import DropRedundantBarriers
from .conditions import DropImpliedConditions
from .guarded_vectors import SplitGuardedVectors
from .pipeline import PIPELINE, find_pipeline, set_pipeline
from .reducers import register_reducer
from .thread_dimensions import DropThreadDimensions

__all__ = [
    "PIPELINE",
    "DropImpliedConditions",
    "DropRedundantBarriers",
    "DropThreadDimensions",
    "SplitGuardedVectors",
    "find_pipeline",
    "register_reducer",
    "set_pipeline",
]
