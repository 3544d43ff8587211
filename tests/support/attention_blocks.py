"""Blocks of models with attention, as `relax.frontend.nn` and TVM's other frontends write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

from tirstep.lowering_checks.compile.compiling import UNOPTIMIZED


@dataclass(frozen=True)
class Sizes:
    """Of a block; `shared` heads of keys and values serve all heads of queries."""

    rows: int | str
    heads: int
    shared: int
    head: int
    batch: int = 1
    dtype: str = "float16"

    @property
    def width(self) -> int:
        return self.heads * self.head


class Block(nn.Module):
    """Queries, keys and values of rows, attention in some form, and what mixes its heads."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, several = sizes, (sizes.heads + 2 * sizes.shared) * sizes.head
        self.inputs = nn.Linear(sizes.width, several, dtype=sizes.dtype)
        self.mix = nn.Linear(sizes.width, sizes.width, dtype=sizes.dtype)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        heads, shared, head = self.sizes.heads, self.sizes.shared, self.sizes.head
        each = op.reshape(self.inputs(x), (*x.shape[:2], heads + 2 * shared, head))
        mixed = self.attend(*op.split(each, [heads, heads + shared], axis=2))
        return x + self.mix(op.reshape(mixed, x.shape))

    def attend(self, q: nn.Tensor, k: nn.Tensor, v: nn.Tensor) -> nn.Tensor:
        """Attention of (batch, rows, heads, head)."""
        raise NotImplementedError


def heads_first(*tensors: nn.Tensor) -> list[nn.Tensor]:
    return [op.permute_dims(it, [0, 2, 1, 3]) for it in tensors]


class Gpt2(Block):
    """Scores divided by a root, a constant triangle of -inf added, all in the model's type."""

    def attend(self, q: nn.Tensor, k: nn.Tensor, v: nn.Tensor) -> nn.Tensor:
        q, k, v = heads_first(q, k, v)
        scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])) / math.sqrt(self.sizes.head)
        hidden = np.triu(np.full((q.shape[2], k.shape[2]), -np.inf), 1).astype(self.sizes.dtype)
        scores = scores + nn.Tensor.from_const(hidden)
        return heads_first(op.matmul(op.softmax(scores, axis=-1), v))[0]


class Llama(Block):
    """Groups of heads, and a mask that cuts scores, as MLC's models have them; float32 between."""

    def attend(self, q: nn.Tensor, k: nn.Tensor, v: nn.Tensor) -> nn.Tensor:
        dtype, group = self.sizes.dtype, self.sizes.heads // self.sizes.shared
        q, k, v = heads_first(q, op.repeat(k, group, axis=2), op.repeat(v, group, axis=2))
        scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])) / math.sqrt(self.sizes.head)
        scores = op.maximum(scores, nn.Tensor.from_scalar(-65504.0, dtype))

        def hide(b: tirx.Var, h: tirx.Var, i: tirx.Var, j: tirx.Var) -> tirx.Expr:
            return tirx.Select(j > i, tirx.min_value(dtype), tirx.max_value(dtype))

        shape = (1, 1, q.shape[2], k.shape[2])
        mask = op.tensor_expr_op(lambda: te.compute(shape, hide), "causal_mask", [])
        scores = op.astype(op.minimum(scores, mask), "float32")
        weights = op.astype(op.softmax(scores, axis=-1), dtype)
        return heads_first(op.matmul(weights, v))[0]


class Vit(Block):
    """No mask; queries are scaled before, and heads are part of the batch."""

    def attend(self, q: nn.Tensor, k: nn.Tensor, v: nn.Tensor) -> nn.Tensor:
        batch, rows, heads, head = q.shape
        q, k, v = heads_first(q * head**-0.5, k, v)
        q, k, v = (op.reshape(it, (batch * heads, rows, head)) for it in (q, k, v))
        weights = op.softmax(op.matmul(q, op.permute_dims(k, [0, 2, 1])), axis=-1)
        mixed = op.reshape(op.matmul(weights, v), (batch, heads, rows, head))
        return heads_first(mixed)[0]


class Scaled(Block):
    """The operator of Relax."""

    def attend(self, q: nn.Tensor, k: nn.Tensor, v: nn.Tensor) -> nn.Tensor:
        return op.scaled_dot_product_attention(q, k, v, is_causal=True)


class Exported(Block):
    """The operator as the frontend for PyTorch writes it, between permutations."""

    def attend(self, q: nn.Tensor, k: nn.Tensor, v: nn.Tensor) -> nn.Tensor:
        q, k, v = heads_first(*heads_first(q, k, v))
        return heads_first(*heads_first(op.scaled_dot_product_attention(q, k, v)))[0]


BLOCKS: Mapping[str, Callable[[Sizes], Block]] = {
    "gpt2": Gpt2,
    "llama": Llama,
    "vit": Vit,
    "scaled": Scaled,
    "exported": Exported,
}


def make_block(name: str, sizes: Sizes) -> tvm.IRModule:
    """The module of a block whose one function is "forward"."""
    spec = {"x": nn.spec.Tensor([sizes.batch, sizes.rows, sizes.width], sizes.dtype)}
    return BLOCKS[name](sizes).export_tvm({"forward": spec})[0]


def run_on_the_cpu(
    module: tvm.IRModule, *, place: int = -1, values: Sequence[float] = ()
) -> np.ndarray:
    """What "forward" of a module computes of random numbers, through the virtual machine.

    The parameter at `place` has some `values` instead.
    """
    generator, arguments, given = np.random.default_rng(0), [], values
    for number, parameter in enumerate(module["forward"].params):
        values = generator.normal(size=[int(size) for size in parameter.ty.shape]) / 4
        values = generator.choice(given, values.shape) if number == place else values
        arguments.append(tvm.runtime.tensor(values.astype(str(parameter.ty.dtype))))
    machine = relax.VirtualMachine(relax.build(module, UNOPTIMIZED), tvm.cpu())
    return np.asarray(machine["forward"](*arguments).numpy())
