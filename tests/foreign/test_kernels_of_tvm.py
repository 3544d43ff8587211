"""The kernels of paged caches, attention, sums and sampling that TVM's wheel has: each gets its
verdict, on index arrays that are drawn for it; what is called wrong is.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import tvm

from tirstep.lowering_checks.devices import CpuDevice, SimulatorDevice
from tirstep.lowering_checks.judgement import Status, judge_numbers
from tirstep.lowering_checks.reference import ModuleKernel

R, C, W, N = Status.RIGHT, Status.CLEAN, Status.WRONG, Status.NOT_JUDGED
TARGET = tvm.target.Target(
    {
        "kind": "cuda",
        "arch": "sm_80",
        "max_num_threads": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
    }
)
LLM, GPU = "tvm.relax.frontend.nn.llm", "tvm.relax.backend.gpu_generic"
PAGES, DECODE, PREFILL, TREE, ROPE = (
    f"{LLM}.{name}"
    for name in (
        *("_page_kernels", "_decode_kernels", "_prefill_kernels"),
        *("tree_attn", "position_embedding"),
    )
)
HEADS, CPU = (1, 2, 32, "float16"), (1, 2, 16, "float32")
# TVM 0.27 loads scale_O[d_idx], of which there is one element; a lane of a warp stores what
# another one loads, in step with it or not; TVM does not lower the last one.
BEYOND, LANES, UNLOWERED = "the index of scale_O[d_idx] leaves its buffer", "race: ", "not lower"
KERNELS: list[tuple[str, str, tuple[Any, ...], tuple[Status, ...], str]] = [
    (PAGES, "_kv_cache_transpose_append", (2, 16, "float16", 4), (R,), ""),
    (PAGES, "_kv_cache_transpose_append_mla", (16, "float16", 4), (R,), ""),
    (PAGES, "_kv_cache_debug_get_kv", (2, 2, 16, "float16"), (R,), ""),
    (PAGES, "_kv_cache_debug_get_kv_mla", (2, 16, "float16"), (R,), ""),
    (PAGES, "_copy_single_page_cpu", (2, 4, 16, "float16"), (R,), ""),
    (PAGES, "_copy_single_page", (2, 4, 16, "float16", TARGET), (R,), ""),
    (PAGES, "_copy_single_page_mla", (4, 16, "float16", TARGET), (R,), ""),
    (PAGES, "_compact_kv_copy_cpu", (2, 16, "float16", 4), (R,), ""),
    (PAGES, "_compact_kv_copy", (2, 16, "float16", TARGET, 4), (R,), ""),
    (DECODE, "_attention_decode_cpu", (*CPU, False, {}, 4), (R,), ""),
    (DECODE, "_attention_decode_cpu", (*CPU, True, {}, 4), (R,), ""),
    (DECODE, "_attention_decode", (*HEADS, False, {}, TARGET, 4), (C,), ""),
    (DECODE, "_attention_decode", (*HEADS, True, {}, TARGET, 4), (C,), ""),
    (DECODE, "_merge_state_inplace_cpu", ("float32",), (R,), ""),
    (DECODE, "_merge_state_inplace", (2, 32, "float16", TARGET), (W,), LANES),
    (PREFILL, "_attention_prefill_cpu", (*CPU, False, {}, 4), (W,), BEYOND),
    (PREFILL, "_attention_prefill_cpu", (*CPU, True, {}, 4), (W,), BEYOND),
    (PREFILL, "_attention_prefill", (*HEADS, False, {}, TARGET, 4), (C, N), ""),
    (PREFILL, "_attention_prefill", (*HEADS, True, {}, TARGET, 4), (C, N), ""),
    (PREFILL, "_attention_prefill_ragged_cpu", (1, 2, 16, 16, "float32", {}), (R,), ""),
    (PREFILL, "_attention_prefill_ragged", (1, 2, 32, 32, "float16", {}, TARGET), (C, N), ""),
    (PREFILL, "_attention_sequence_prefill", (*HEADS, TARGET), (C,), ""),
    (PREFILL, "_attention_sequence_prefill", (*HEADS, TARGET, 1), (C,), ""),
    (PREFILL, "_attention_sequence_prefill_with_mask", (*HEADS, TARGET), (C,), ""),
    (PREFILL, "_attention_prefill_mla", (2, 32, 16, "float16", False, TARGET, 4), (C, N), ""),
    (TREE, "tree_attn_cpu", (*CPU, {}), (R,), ""),
    (TREE, "tree_attn", (*HEADS, {}, TARGET), (W,), UNLOWERED),
    (TREE, "tree_attn_with_paged_kv_cache_cpu", (*CPU, {}), (R, N), ""),
    (TREE, "tree_attn_with_paged_kv_cache", (*HEADS, {}, TARGET), (C, N), ""),
    (ROPE, "llama_rope_with_position_map", (10000.0, 1.0, 16, 2, 1, "float32", {}), (R,), ""),
    (f"{GPU}.cumsum", "gpu_2d_continuous_cumsum", (), (W,), LANES),
    (f"{GPU}.cumsum", "gpu_3d_axis_1_cumsum", (), (R,), ""),
    (f"{GPU}.sampling", "gpu_multinomial_from_uniform", (), (W, N), ""),
    (f"{GPU}.sampling", "generic_get_sample_index", (), (R,), ""),
]
SIZES = {"page_size": 4, "H": 2, "D": 32}
"""Of open sizes those that a kernel is made for; all others are small and differ."""


@pytest.mark.share(30)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("module", "name", "given", "statuses", "told"),
    KERNELS,
    ids=[f"{name}-{len(given)}-{place}" for place, (_, name, given, *_) in enumerate(KERNELS)],
)
def test_each_kernel_has_its_verdict(
    module: str,
    name: str,
    given: tuple[Any, ...],
    statuses: tuple[Status, ...],
    told: str,
    seed: int,
) -> None:
    """Where the simulator lacks an instruction it is not judged, and says so."""
    function = getattr(importlib.import_module(module), name)(*given)
    kernel = ModuleKernel(tvm.IRModule({"main": function}), name)
    problem = kernel.problem(
        **{size: SIZES.get(size, 5 + 2 * place) for place, size in enumerate(kernel.size_names)}
    )
    simulator = SimulatorDevice()
    is_launched = simulator.find_obstacle(problem.module) is None
    device = simulator if is_launched else CpuDevice()
    judged = judge_numbers(problem, problem.module, device, where=name, seed=seed)
    said = [f"{it.check}: {it.message}" for it in judged.findings]
    assert judged.status in statuses, (said, judged.reason)
    assert all(told in it or "numbers: " in it for it in said)
    assert judged.reason or judged.status in (R, W)
    if judged.status == R:
        assert problem.find_unrun(seed) == []
