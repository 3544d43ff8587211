"""The compilers of CUDA on this machine, for tests that ask them."""

import pytest

from tirstep.lowering_checks.facts import cuda_compilers


def find_compiler(name: str | None = None) -> str:
    """What the compiler ``"nvrtc"`` or ``"nvcc"``, or the one that is taken, calls itself; empty
    where there is none.
    """
    try:
        return cuda_compilers.get_compiler(name).name
    except cuda_compilers.CompilerMissing:
        return ""


needs_compiler = pytest.mark.skipif(not find_compiler(), reason=cuda_compilers.MISSING)
