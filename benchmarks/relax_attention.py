"""Blocks of models on a GPU, with their attention fused by `rules.FuseAttention` and without.

python benchmarks/relax_attention.py [BLOCK...]

The blocks are those of tests/support/attention_blocks.py. Both modules are scheduled by tirstep's
rules, with dlight's fallback behind, and run through Relax's virtual machine in CUDA graphs, so
that the times are the GPU's. Results of both are compared.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir import dlight

from tirstep import rules

SUPPORT = Path(__file__).resolve().parents[1] / "tests" / "support"
sys.path.insert(0, str(SUPPORT))
from attention_blocks import Sizes, make_block  # noqa: E402
from relax_functions import fuse  # noqa: E402

BLOCKS = {
    "gpt2": ("gpt2", Sizes(1024, 12, 12, 64, 8)),
    "llama": ("llama", Sizes(2048, 32, 8, 128, 1)),
    "llama-777": ("llama", Sizes(777, 32, 8, 128, 1)),
    "vit": ("vit", Sizes(577, 16, 16, 64, 16)),
    "scaled": ("scaled", Sizes(2048, 16, 16, 128, 2)),
    "exported": ("exported", Sizes(1024, 16, 16, 64, 8)),
}
TARGET = tvm.target.Target("nvidia/nvidia-h100")


def build(module: tvm.IRModule) -> tvm.runtime.Executable:
    """The module for the GPU, each function by tirstep's rules or else dlight's fallback."""
    ours = rules.cuda(tensor_cores=True)
    with TARGET:
        scheduled = dlight.ApplyDefaultSchedule(*ours, dlight.gpu.Fallback())(fuse(module))
    with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        return relax.build(scheduled, TARGET, tir_pipeline="tirstep")


def main() -> None:
    """Print a line for each block: times in us, their ratio, and how far results differ."""
    print(f"{'block':10} {'unfused':>9} {'fused':>9} {'ratio':>6}  differs")
    for name in sys.argv[1:] or BLOCKS:
        module = make_block(*BLOCKS[name])
        device, generator, given = tvm.cuda(0), np.random.default_rng(0), []
        for parameter in module["forward"].params:
            shape = [int(size) for size in parameter.ty.shape]
            values = generator.normal(size=shape) / (np.sqrt(shape[-1]) if len(shape) == 2 else 1)
            given.append(tvm.runtime.tensor(values.astype(str(parameter.ty.dtype)), device))
        times, results = [], []
        for each in (module, rules.FuseAttention()(module)):
            machine = relax.VirtualMachine(build(each), device)
            results.append(machine["forward"](*given).numpy().astype("float64"))
            timer = machine.time_evaluator("forward", device, number=20, repeat=9)
            times.append(1e6 * float(np.median(timer(*given).results)))
        difference = abs(results[0] - results[1]).max() / abs(results[0]).max()
        ratio = times[0] / times[1]
        print(
            f"{name:10} {times[0]:9.1f} {times[1]:9.1f} {ratio:6.2f}  {difference:.1e}", flush=True
        )


if __name__ == "__main__":
    main()
