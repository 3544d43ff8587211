"""A block of a transformer in Relax, whose functions tirstep's plans schedule for a GPU.

`tirstep check block.py` checks each function on the simulator; `python block.py` builds the model
for a GPU, and runs it as it is scheduled on the CPU.
"""

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op
from tvm.s_tir import Schedule, dlight
from tvm.tirx import PrimFunc

from tirstep import rules
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.plans import schedule_function

WIDTH, HEADS, HIDDEN, WORDS = 32, 4, 56, 40
GPU = "nvidia/nvidia-h100"


class Block(nn.Module):
    """Norm, attention, norm, gated MLP, and the scores of the next word."""

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False, dtype=dtype)

        self.first_norm = nn.RMSNorm(WIDTH, -1, 1e-5, bias=False, dtype=dtype)
        self.queries_keys_values, self.mix = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)
        self.second_norm = nn.RMSNorm(WIDTH, -1, 1e-5, bias=False, dtype=dtype)
        self.gate_and_up, self.down = linear(WIDTH, 2 * HIDDEN), linear(HIDDEN, WIDTH)
        self.scores = linear(WIDTH, WORDS)

    def attend(self, x: nn.Tensor, mask: nn.Tensor) -> nn.Tensor:
        """Attention of HEADS heads; `mask` is added to the scores."""
        rows, length, _ = x.shape
        each = op.reshape(self.queries_keys_values(x), (rows, length, 3 * HEADS, WIDTH // HEADS))
        q, k, v = (op.permute_dims(part, [0, 2, 1, 3]) for part in op.split(each, 3, axis=2))
        scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])) * (WIDTH // HEADS) ** -0.5 + mask
        weights = op.astype(op.softmax(op.astype(scores, "float32"), axis=-1), self.dtype)
        return op.reshape(op.permute_dims(op.matmul(weights, v), [0, 2, 1, 3]), x.shape)

    def forward(self, x: nn.Tensor, mask: nn.Tensor) -> nn.Tensor:
        """The probabilities of the next word, for each row of x."""
        x = x + self.mix(self.attend(self.first_norm(x), mask))
        gate, up = op.split(self.gate_and_up(self.second_norm(x)), 2, axis=-1)
        x = x + self.down(op.silu(gate) * up)
        return op.softmax(op.astype(self.scores(x), "float32"), axis=-1)


def make_block(length: int | str = 12, dtype: str = "float32") -> tvm.IRModule:
    """The model's module with fused functions; a `length` in letters is left open."""
    spec = {
        "x": nn.spec.Tensor([1, length, WIDTH], dtype),
        "mask": nn.spec.Tensor([1, 1, length, length], dtype),
    }
    module, _ = Block(dtype).export_tvm({"forward": spec})
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    return tvm.transform.Sequential(passes)(module)


block = make_block()


def by_plans(sch: Schedule) -> None:
    """The plan of tirstep that takes the function."""
    schedule_function(sch)


def schedule_block(module: tvm.IRModule) -> tvm.IRModule:
    """The module with all functions scheduled for a GPU; this one line is what a project needs."""
    with tvm.target.Target(GPU):
        return dlight.ApplyDefaultSchedule(*rules.cuda())(module.clone())


def run_on_the_cpu(module: tvm.IRModule, length: int) -> np.ndarray:
    """What a model computes for random weights, its threads one after the other."""
    executable = relax.build(make_threads_serial(module), tvm.target.Target("llvm"))
    generator = np.random.default_rng(0)
    arguments = []
    for parameter in module["forward"].params:
        shape = [int(size) if hasattr(size, "value") else length for size in parameter.ty.shape]
        values = generator.integers(-8, 9, shape) / 16
        arguments.append(tvm.runtime.tensor(values.astype(str(parameter.ty.dtype))))
    result = relax.VirtualMachine(executable, tvm.cpu())["forward"](*arguments)
    return result.numpy() if hasattr(result, "numpy") else result[0].numpy()


def main() -> None:
    """Schedule and build with the length left open, and compare what is computed."""
    plain = make_block("n")
    scheduled = schedule_block(plain)
    functions = [each for _, each in scheduled.functions_items() if isinstance(each, PrimFunc)]
    done = sum("tirx.is_scheduled" in each.attrs for each in functions)
    relax.build(scheduled, tvm.target.Target(GPU), tir_pipeline="tirstep")
    for length in (7, 24):
        results = [run_on_the_cpu(each, length) for each in (plain, scheduled)]
        difference = np.abs(results[0] - results[1]).max()
        print(f"{done} of {len(functions)} functions, length {length}: differs by {difference:.1e}")


if __name__ == "__main__":
    main()
