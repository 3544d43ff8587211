"""Planted bugs, and which layer of the checks kills which."""

from .in_fused import IN_FUSED
from .in_goldens import IN_GOLDENS
from .in_lowered import IN_LOWERED, IN_TENSOR_CORES
from .in_nets import IN_NETS
from .in_pipelines import IN_PIPELINES
from .in_recipes import IN_RECIPES
from .in_schedules import IN_SCHEDULES
from .plant import GoldenMutant, Mutant, RecipeMutant

MUTANTS: tuple[Mutant, ...] = (
    *IN_RECIPES,
    *IN_SCHEDULES,
    *IN_FUSED,
    *IN_NETS,
    *IN_LOWERED,
    *IN_PIPELINES,
    *IN_TENSOR_CORES,
    *IN_GOLDENS,
)

__all__ = ["MUTANTS", "GoldenMutant", "Mutant", "RecipeMutant"]
