"""Passes of our own on lowered modules, and the pipeline that runs them among TVM's.

``tvm.compile(module, target, tir_pipeline="tirstep")`` is TVM's own pipeline with them; importing
this package registers it. A module that wants it says so (`set_pipeline`). A pass of your own needs
no place here: `tirstep pass FILE.py:MyPass` tries it in TVM's pipeline.
"""

from .async_waits import CorrectAsyncWaits
from .barriers import DropDoubledBarriers, DropRedundantBarriers
from .before_flattening import DropImpliedConditions, DropThreadDimensions, SplitGuardedVectors
from .butterflies import ExchangeByButterflies
from .mask_loops import EndLoopsAtMasks, SplitLoopsAtMasks
from .own_lanes import UseOwnLanes
from .persistent import NameBarriersOfRoles
from .pipeline import PIPELINE, get_pass_options, get_pipeline
from .pointer_types import PointInOwnTypes
from .streams import StreamSteps
from .tma import LowerTmaPipelines
from .tma_store import LowerTmaStores

__all__ = [
    "PIPELINE",
    "CorrectAsyncWaits",
    "DropDoubledBarriers",
    "DropImpliedConditions",
    "DropRedundantBarriers",
    "DropThreadDimensions",
    "EndLoopsAtMasks",
    "ExchangeByButterflies",
    "LowerTmaPipelines",
    "LowerTmaStores",
    "NameBarriersOfRoles",
    "PointInOwnTypes",
    "SplitGuardedVectors",
    "SplitLoopsAtMasks",
    "StreamSteps",
    "UseOwnLanes",
    "get_pass_options",
    "get_pipeline",
]
