"""The head of CUDA source: what nobody asks for is not compiled."""

from __future__ import annotations

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks.compile import compiling
from tirstep.lowering_checks.compile.compiling import drop_unused_traits
from tirstep.transforms.recipes import find_recipe


def write_source(name: str) -> str:
    module = run_golden(find_recipe(name)).steps[-1].module
    executable = compiling.compile_unrun(module, compiling.get_target("cuda"))
    return str(executable.mod.imports[0].inspect_source())


@pytest.mark.parametrize(
    "line", ["std::is_same<int, T>::value", "cuda::std::is_integral_v<T>", "using namespace std ;"]
)
def test_what_somebody_asks_for_stays(line: str):
    source = write_source("vector_add_bound")
    asking = f"{source}\n// {line}\n" if "namespace" not in line else f"{line}\n{source}"
    assert drop_unused_traits(asking) == asking
    other = source.replace("namespace std {", "namespace std  {  // anew")
    assert drop_unused_traits(other) == other
