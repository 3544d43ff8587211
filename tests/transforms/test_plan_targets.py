"""What plans foresee of targets; nothing is run."""

from __future__ import annotations

import re

import pytest
import tvm
from golden_runs import run_golden
from relax_functions import make_functions
from tvm.relax import op
from tvm.s_tir import Schedule

from tirstep import rules
from tirstep.modules import relu
from tirstep.transforms.plans.plan import find_unsupported
from tirstep.transforms.recipes import find_recipe


def test_wgmma_is_foreseen_on_one_architecture() -> None:
    for name, arch, wanted in (
        ("matmul_wgmma", "sm_90", "it uses wgmma, which sm_90 has not"),
        ("matmul_wgmma", "sm_90a", ""),
        ("matmul_mma", "sm_90", ""),
    ):
        module = run_golden(find_recipe(name)).steps[-1].module
        target = tvm.target.Target({"kind": "cuda", "arch": arch})
        assert find_unsupported(module, target) == wanted


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_num_threads": 32, "max_threads_per_block": 32}, "64 threads in a block, and the"),
        ({"max_num_threads": 64}, ""),
    ],
)
def test_too_many_threads_are_foreseen(limits: dict[str, int], said: str) -> None:
    module = find_recipe("relu_bound")(Schedule(relu(64)), threads=64).mod
    reason = find_unsupported(module, tvm.target.Target({"kind": "cuda", **limits}))
    assert said in reason
    assert bool(said) == bool(reason)


def test_rules_try_configs_until_one_is_what_a_target_has() -> None:
    """And leave a function alone where none is, or the target is no CUDA."""
    (function,) = make_functions(op.nn.relu, (64, 64, "float16")).values()
    *_, flat = rules.cuda()
    limits = {"max_num_threads": 32, "max_threads_per_block": 32}
    few = tvm.target.Target({"kind": "cuda", "arch": "sm_90a", **limits})
    assert flat.apply(function, few, False) is None
    assert re.search(
        "256 threads in a block, and the target 'cuda' takes 32", *flat.reasons.values()
    )
    assert flat.apply(function, tvm.target.Target("nvidia/nvidia-h100"), False) is not None
    assert flat.apply(function, tvm.target.Target({"kind": "opencl"}), False) is None
