"""What plans foresee of kinds of targets, against what TVM says of them; nothing is run."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tvm
from golden_runs import run_golden
from kernels import at_block
from relax_functions import make_functions
from tvm.relax import op
from tvm.s_tir import Schedule

from tirstep import rules
from tirstep.lowering_checks.compile.compiling import pass_context
from tirstep.modules import matmul, relu
from tirstep.transforms import get_pipeline, stage_operand_at, tile_block
from tirstep.transforms.plans.targets import find_unsupported
from tirstep.transforms.recipes import find_recipe

TARGETS: dict[str, Any] = {
    "cuda": "nvidia/nvidia-h100",
    "opencl": {"kind": "opencl", "max_num_threads": 1024},
    "metal": {"kind": "metal", "max_threads_per_block": 1024, "thread_warp_size": 32},
    "webgpu": {"kind": "webgpu", "max_num_threads": 1024},
}
"""Each kind with a target of it, made where no device is."""
MARKS = {"opencl": "__kernel", "metal": "kernel void", "webgpu": "@compute"}
FORESEEN = {
    "relu_bound": {},
    "transpose_vectors": {},
    "softmax_rows": {},
    "matmul_async": dict.fromkeys(MARKS, "asynchronous copies (prefetch_asynchronously), which"),
    "matmul_mma": dict.fromkeys(MARKS, "the instruction ptx_legacy.ldmatrix, which GPUs"),
    "matmul_wgmma": dict.fromkeys(MARKS, "the instruction ptx.fence_proxy, which GPUs"),
    "batched_matmul_prefetched": {"webgpu": "blockIdx.z, which TVM's WebGPU keeps for itself"},
}
"""Recipes, and why there is no source for a kind of target, where there is none."""


def make_target(kind: str) -> tvm.target.Target:
    """TVM's target of a kind."""
    return tvm.target.Target(TARGETS[kind])


def compile_source(module: tvm.IRModule, kind: str) -> str:
    """The source of a module for a kind of target; raises what TVM raises."""
    with pass_context(module):
        made = tvm.compile(module, make_target(kind), tir_pipeline=get_pipeline(module))
    return str(made.mod.imports[0].inspect_source())


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", FORESEEN)
def test_what_is_foreseen_is_what_the_code_generator_says(name: str, kind: str) -> None:
    module = run_golden(find_recipe(name)).steps[-1].module
    reason = find_unsupported(module, make_target(kind))
    wanted = FORESEEN[name].get(kind, "")
    assert wanted in reason
    assert bool(wanted) == bool(reason)
    if not wanted:
        assert MARKS.get(kind, "__global__") in compile_source(module, kind)
    elif name != "batched_matmul_prefetched":  # whose source TVM's WebGPU makes, and wrong
        with pytest.raises(Exception):  # noqa: B017, PT011
            compile_source(module, kind)


def test_dynamic_shared_memory_is_foreseen() -> None:
    sch, block, *_ = at_block(matmul(32, 32, 32), "C")
    tile_block(sch, block, threads=(8, 8))
    k = sch.get_loops(block)[-1]
    stage_operand_at(sch, block, k, operand=0, threads=(8, 8), scope="shared.dyn")
    assert "in scope 'shared.dyn'" in find_unsupported(sch.mod, make_target("metal"))
    assert find_unsupported(sch.mod, make_target("webgpu")) == ""
    assert compile_source(sch.mod, "webgpu")


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_num_threads": 32, "max_threads_per_block": 32}, "64 threads in a block, and the"),
        ({"max_num_threads": 64}, ""),
    ],
)
def test_too_many_threads_are_foreseen(limits: dict[str, int], said: str) -> None:
    module = find_recipe("relu_bound")(Schedule(relu(64)), threads=64).mod
    reason = find_unsupported(module, tvm.target.Target({"kind": "opencl", **limits}))
    assert said in reason
    assert bool(said) == bool(reason)


def test_rules_leave_alone_what_a_target_has_not() -> None:
    (batch,) = make_functions(op.matmul, (3, 33, 20), (3, 20, 17)).values()
    first, *_ = rules.cuda()
    assert first.apply(batch, make_target("webgpu"), False) is None
    assert re.search("blockIdx.z, which TVM's WebGPU keeps", *first.reasons.values())
    assert first.apply(batch, make_target("opencl"), False) is not None


def test_rules_try_the_next_config_for_a_target() -> None:
    """Metal has vectors of four halves: the config of one element a thread comes next."""
    (function,) = make_functions(op.nn.relu, (64, 64, "float16")).values()
    *_, flat = rules.cuda()
    for kind, is_wide in (("cuda", True), ("metal", False)):
        made = flat.apply(function, make_target(kind), False)
        assert ("T.vectorized(" in made.mod.script()) == is_wide
        public = made.mod["main"].with_attr("global_symbol", "main")  # TVM compiles no private ones
        source = compile_source(tvm.IRModule({"main": public}), kind)
        assert source
