"""Planted bugs, and which layer of the checks kills which."""

from .in_goldens import IN_GOLDENS
from .in_lowered_barriers import IN_LOWERED_BARRIERS
from .in_lowered_memory import IN_LOWERED_MEMORY
from .in_lowered_pipelines import IN_LOWERED_PIPELINES
from .in_lowered_tensor_cores import IN_LOWERED_TENSOR_CORES
from .in_recipes import IN_RECIPES
from .in_recipes_binding import IN_RECIPES_BINDING
from .in_schedules import IN_SCHEDULES
from .in_schedules_epilogue import IN_SCHEDULES_EPILOGUE
from .in_schedules_types import IN_SCHEDULES_TYPES
from .plant import GoldenMutant, Mutant

MUTANTS: tuple[Mutant | GoldenMutant, ...] = (
    *IN_RECIPES,
    *IN_RECIPES_BINDING,
    *IN_SCHEDULES,
    *IN_SCHEDULES_EPILOGUE,
    *IN_SCHEDULES_TYPES,
    *IN_LOWERED_BARRIERS,
    *IN_LOWERED_MEMORY,
    *IN_LOWERED_PIPELINES,
    *IN_LOWERED_TENSOR_CORES,
    *IN_GOLDENS,
)

__all__ = ["MUTANTS", "GoldenMutant", "Mutant"]
