"""Rules of dlight that schedule a model's functions by tirstep's plans.

A module of Relax is scheduled and built so::

    from tvm.s_tir import dlight
    from tirstep import rules

    with target:
        scheduled = dlight.ApplyDefaultSchedule(*rules.cuda(), dlight.gpu.Fallback())(module)
    executable = tvm.relax.build(scheduled, target, tir_pipeline="tirstep")
"""

from __future__ import annotations

from tirstep.relax_attention import FuseAttention
from tirstep.transforms.plans.plan import PLANS, TirstepRule, make_plan_rule
from tirstep.transforms.plans.roles import DEVICE
from tirstep.transforms.recipes.time_model import read_gpu

__all__ = ["FuseAttention", "TirstepRule", "cuda"]


def cuda(*, device: str = DEVICE, tensor_cores: bool = False) -> list[TirstepRule]:
    """Rules for matmuls, convolutions, attention that `FuseAttention` found, rows (softmax, norms,
    sums) and elementwise functions, in this order.

    `device` is the name of a GPU, or its properties, for the time model that chooses tiles. With
    `tensor_cores`, half-precision matmuls of constant sizes run on tensor cores, on GPUs of sm_80
    or later. A function that a rule leaves to the next one is in its `reasons`. Raises
    `TransformError` for an unknown GPU without properties.
    """
    read_gpu(device)
    return [make_plan_rule(plan, device=device, tensor_cores=tensor_cores) for plan in PLANS]
