"""Facts: what the GPU gets of a module, from its lowered TIR, its source and its machine code."""

from .architectures import ARCHITECTURES, Architecture, Occupancy
from .compiled import CompiledFacts, CompiledKernel, compile_everywhere, compile_facts
from .compiler import find_compiler
from .counted import counted_rows
from .find import facts_of_lowering, find_facts
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
    "counted_rows",
    "facts_of_lowering",
    "find_compiler",
    "find_facts",
]
