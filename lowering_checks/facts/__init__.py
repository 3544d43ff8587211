"""Facts: what the GPU gets of a module, from its lowered TIR, its source and its machine code."""

from .architectures import ARCHITECTURES, Architecture, Occupancy, get_architecture
from .compiled import CompiledFacts, CompiledKernel, compile_everywhere, compile_facts
from .cuda_compilers import get_compiler
from .lowered import count_accesses, counted_rows, facts_of_lowering, get_facts
from .model import Accesses, Fact, Facts, KernelFacts

__all__ = [
    "ARCHITECTURES",
    "Accesses",
    "Architecture",
    "CompiledFacts",
    "CompiledKernel",
    "Fact",
    "Facts",
    "KernelFacts",
    "Occupancy",
    "compile_everywhere",
    "compile_facts",
    "count_accesses",
    "counted_rows",
    "facts_of_lowering",
    "get_architecture",
    "get_compiler",
    "get_facts",
]
