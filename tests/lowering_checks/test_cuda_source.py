"""The head of CUDA source: what nobody asks for is not compiled."""

from __future__ import annotations

import pytest
import tvm
from golden_runs import run_golden

from tirstep.lowering_checks.compile import compiling
from tirstep.lowering_checks.compile.cuda_source import drop_unused_traits
from tirstep.transforms.recipes import find_recipe

HEADER = "#include <cuda/std/type_traits>"


def write_source(name: str) -> str:
    module = run_golden(find_recipe(name)).steps[-1].module
    executable = compiling.compile_unrun(module, compiling.get_target("cuda"))
    return str(executable.mod.imports[0].inspect_source())


@pytest.mark.parametrize("name", ["vector_add_bound", "matmul_wgmma_async", "matmul_mma"])
def test_tvm_s_head_loses_the_header_and_nothing_else(name: str):
    source = write_source(name)
    short = drop_unused_traits(source)
    assert HEADER in source
    assert HEADER not in short
    before, _, after = source.partition(f"  {HEADER}\n")
    _, _, after = after.partition("  }\n")
    assert short == before + after
    assert "using cuda::std::int64_t;" in short
    assert drop_unused_traits(short) == short


@pytest.mark.parametrize(
    "line", ["std::is_same<int, T>::value", "cuda::std::is_integral_v<T>", "using namespace std ;"]
)
def test_what_somebody_asks_for_stays(line: str):
    source = write_source("vector_add_bound")
    asking = f"{source}\n// {line}\n" if "namespace" not in line else f"{line}\n{source}"
    assert drop_unused_traits(asking) == asking
    other = source.replace("namespace std {", "namespace std  {  // anew")
    assert drop_unused_traits(other) == other


def test_the_compiler_gets_the_short_source(monkeypatch: pytest.MonkeyPatch):
    """As the machine with a GPU asks for it, whichever compiler is registered."""
    got: list[str] = []
    original = tvm.get_global_func(compiling.COMPILER, allow_missing=True)
    monkeypatch.setattr(compiling, "_registered", None)

    def compile_(source: str) -> bytes:
        got.append(source)
        return b"code"

    tvm.register_global_func(compiling.COMPILER, compile_, override=True)
    try:
        compiling.register_compiler()
        source = write_source("vector_add_bound")
        assert bytes(tvm.get_global_func(compiling.COMPILER)(source)) == b"code"
        assert got == [drop_unused_traits(source)] != [source]
    finally:
        if original is not None:
            tvm.register_global_func(compiling.COMPILER, original, override=True)
