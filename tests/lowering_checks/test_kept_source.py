"""On a machine with a GPU, TVM compiles CUDA source at once: not where nobody runs it.

A module of source stands in for that of TVM's CUDA runtime, which asks for machine code as this
does.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import tvm
from tvm_ffi.registry import remove_global_func

from tirstep.lowering_checks import check_numbers, get_device, run_golden
from tirstep.lowering_checks.compile.compiling import (
    COMPILER,
    compile_module,
    compile_unrun,
    watch_passes,
)
from tirstep.lowering_checks.compile.passes import lower_through_passes
from tirstep.transforms.recipes import RECIPES

RUNTIME = "ffi.Module.create.cuda"
TARGET = tvm.target.Target("nvidia/nvidia-h100")


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """The sources that NVIDIA's compiler is asked to compile; it refuses what no GPU holds."""
    original, sources = tvm.get_global_func(COMPILER), []
    make = tvm.get_global_func("runtime.SourceModuleCreate")
    runtime = tvm.get_global_func(RUNTIME, allow_missing=True)

    def compile_source(source: str, *_: Any) -> bytes:
        sources.append(source)
        raise RuntimeError("ptxas error : uses too much shared data")

    def create(code: Any, *_: Any) -> Any:
        text = bytes(code).decode()
        tvm.get_global_func(COMPILER)(text)
        return make(text, "cuda")

    tvm.register_global_func(COMPILER, compile_source, override=True)
    tvm.register_global_func(RUNTIME, create, override=True)
    yield sources
    tvm.register_global_func(COMPILER, original, override=True)
    remove_global_func(RUNTIME)
    if runtime is not None:
        tvm.register_global_func(RUNTIME, runtime)


@pytest.fixture(scope="module")
def golden() -> Any:
    return run_golden(RECIPES["vector_add_bound"])


def test_what_is_looked_at_is_not_compiled(compiled: list[str], golden: Any) -> None:
    module = golden.steps[-1].module
    assert "__global__" in compile_unrun(module, TARGET).mod.imports[0].inspect_source()
    lowering = lower_through_passes(module)
    assert lowering.failed is None
    assert "__global__" in lowering.source
    assert not check_numbers(golden.problem, module, get_device("simulator"), where="it")
    assert compiled == []


def test_what_is_run_is_compiled(compiled: list[str], golden: Any) -> None:
    lower_through_passes(golden.steps[-1].module)
    with pytest.raises(RuntimeError, match="too much shared data"):
        compile_module(golden.steps[-1].module, TARGET)
    assert len(compiled) == 1


def test_a_module_with_tensor_maps_is_compiled_once() -> None:
    """TVM does not write their host's part in C: no other attempt has to say so."""
    names: list[str] = []
    watch = watch_passes(before=lambda name, module: names.append(name))
    module = run_golden(RECIPES["matmul_wgmma_tma"]).steps[-1].module
    compile_unrun(module, TARGET, instruments=[watch])
    assert names.count("s_tir.MergeSharedMemoryAllocations") == 1
