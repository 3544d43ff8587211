"""A model of Relax, and one schedule for each of its TIR functions."""

import tvm
from tvm import relax
from tvm.relax.frontend import nn
from tvm.s_tir import Schedule

from tirstep.transforms import bind_loop, split_loop


class Perceptron(nn.Module):
    def __init__(self) -> None:
        self.hidden = nn.Linear(48, 32)
        self.out = nn.Linear(32, 10, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """Class scores of the rows of x."""
        return nn.op.softmax(self.out(nn.op.relu(self.hidden(x))), axis=-1)


def make_perceptron() -> tvm.IRModule:
    """The model's module, with a TIR function for each of its operators."""
    spec = {"forward": {"x": nn.spec.Tensor((6, 48), "float32")}}
    module, _ = Perceptron().export_tvm(spec=spec)
    return relax.transform.LegalizeOps()(module)


perceptron = make_perceptron()


def each_block(sch: Schedule, *, threads: int = 8) -> None:
    """A GPU kernel for each TIR block, an element for each thread. Knobs: threads per block."""
    root = sch.get_sblock("root", func_name=sch.func_working_on.name_hint)
    for block in sch.get_child_blocks(root):
        axes = [it.iter_type for it in sch.get(block).iter_vars]
        spatial = [loop for loop, kind in zip(sch.get_loops(block), axes, strict=True) if kind == 0]
        split = split_loop(sch, sch.fuse(*spatial), inner=threads, tail="guard")
        bind_loop(sch, split.outer, axis="blockIdx.x")
        bind_loop(sch, split.inner, axis="threadIdx.x")
