"""Pieces of models of the kinds that TVM's projects compile, and what tirstep's rules make of them.

`python models.py` prints, for each piece, how many of its functions the rules take and what the
others are; `--compute` runs each on the CPU as it is scheduled, too, at small sizes.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.dpl import DFPattern, GlobalVarPattern, TuplePattern, is_op, wildcard
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op
from tvm.relax.transform import FusionPattern
from tvm.tirx import PrimFunc

from tirstep import rules
from tirstep.transforms.passes.serial import make_threads_serial

GPU = "nvidia/nvidia-h100"
GROUP, PACKED = 32, 8
"""Weights that share a scale, and weights of a word."""


@dataclass(frozen=True)
class Sizes:
    """Of a decoder: `words` is the size of its vocabulary."""

    width: int
    heads: int
    shared_heads: int
    hidden: int
    words: int

    @property
    def head(self) -> int:
        """Elements of one head."""
        return self.width // self.heads


SMALL = Sizes(64, 4, 2, 96, 128)
LARGE = Sizes(4096, 32, 8, 14336, 128256)
"""Of Llama 3's 8B."""


class GroupedLinear(nn.Module):
    """A linear layer of weights in four bits, eight to a word, a scale for each group of a row."""

    def __init__(self, inputs: int, outputs: int, dtype: str) -> None:
        self.outputs, self.inputs, self.dtype = outputs, inputs, dtype
        self.words = nn.Parameter((outputs, inputs // PACKED), "uint32")
        self.scales = nn.Parameter((outputs, inputs // GROUP), dtype)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        """x by the weights, which are unpacked by a function of their own, for TVM to fuse."""

        def unpack(words: te.Tensor, scales: te.Tensor) -> te.Tensor:
            def compute(i: tirx.Var, j: tirx.Var) -> tirx.Expr:
                shift = tirx.Cast("uint32", j % PACKED * 4)
                bits = words[i, j // PACKED] >> shift & tirx.const(15, "uint32")
                return (bits.astype(self.dtype) - tirx.const(7, self.dtype)) * scales[i, j // GROUP]

            return te.compute((self.outputs, self.inputs), compute, name="unpacked")

        weights = op.tensor_expr_op(unpack, "unpack", [self.words, self.scales])
        return op.matmul(x, op.permute_dims(weights))


class Decoder(nn.Module):
    """A layer of a decoder with its head: RMS norms, rotary grouped attention over a cache, SwiGLU.

    `forward` has the new rows, the keys and values of all rows before, and a mask for the new ones.
    """

    def __init__(self, sizes: Sizes, dtype: str, *, is_packed: bool) -> None:
        self.sizes, self.dtype = sizes, dtype

        def linear(inputs: int, outputs: int) -> nn.Module:
            if is_packed:
                return GroupedLinear(inputs, outputs, dtype)
            return nn.Linear(inputs, outputs, bias=False, dtype=dtype)

        several = (sizes.heads + 2 * sizes.shared_heads) * sizes.head
        self.first_norm = nn.RMSNorm(sizes.width, -1, 1e-5, bias=False, dtype=dtype)
        self.inputs, self.mix = linear(sizes.width, several), linear(sizes.width, sizes.width)
        self.second_norm = nn.RMSNorm(sizes.width, -1, 1e-5, bias=False, dtype=dtype)
        self.gate_and_up = linear(sizes.width, 2 * sizes.hidden)
        self.down = linear(sizes.hidden, sizes.width)
        self.last_norm = nn.RMSNorm(sizes.width, -1, 1e-5, bias=False, dtype=dtype)
        self.scores = linear(sizes.width, sizes.words)

    def turn(self, x: nn.Tensor, cosines: nn.Tensor, sines: nn.Tensor) -> nn.Tensor:
        """Rotary positions, of halves of a head."""
        first, second = op.split(x, 2, axis=-1)
        turned = op.concat([op.negative(second), first], dim=-1)
        return x * cosines + turned * sines

    def attend(
        self,
        x: nn.Tensor,
        cache: list[nn.Tensor],
        turns: list[nn.Tensor],
        mask: nn.Tensor,
    ) -> nn.Tensor:
        """Attention of new rows over those of the cache and these, which `mask` is for."""
        sizes, (batch, rows, _) = self.sizes, x.shape
        heads, shared = sizes.heads, sizes.shared_heads
        each = op.reshape(self.inputs(x), (batch, rows, heads + 2 * shared, sizes.head))
        q, k, v = op.split(each, [heads, heads + shared], axis=2)
        q, k = self.turn(q, *turns), self.turn(k, *turns)
        past = cache[0].shape[1]
        k, v = (op.concat([*pair], dim=1) for pair in zip(cache, (k, v), strict=True))
        k, v = (op.repeat(part, heads // shared, axis=2) for part in (k, v))
        q, k, v = (op.permute_dims(part, [0, 2, 1, 3]) for part in (q, k, v))
        scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])) * sizes.head**-0.5
        mask = op.concat([op.zeros((1, 1, rows, past), self.dtype), mask], dim=-1)
        scores = scores + mask
        weights = op.astype(op.softmax(op.astype(scores, "float32"), axis=-1), self.dtype)
        return op.reshape(op.permute_dims(op.matmul(weights, v), [0, 2, 1, 3]), x.shape)

    def forward(
        self,
        x: nn.Tensor,
        keys: nn.Tensor,
        values: nn.Tensor,
        cosines: nn.Tensor,
        sines: nn.Tensor,
        mask: nn.Tensor,
    ) -> nn.Tensor:
        """The probabilities of the next word, for each new row."""
        x = x + self.mix(self.attend(self.first_norm(x), [keys, values], [cosines, sines], mask))
        gate, up = op.split(self.gate_and_up(self.second_norm(x)), 2, axis=-1)
        x = x + self.down(op.silu(gate) * up)
        return op.softmax(op.astype(self.scores(self.last_norm(x)), "float32"), axis=-1)


class Diffusion(nn.Module):
    """A block of a U-Net: a residual pair of convolutions that knows the time, and a transformer.

    Group norms, SiLU, layer norms, attention of pixels to each other and to a text, GEGLU, and a
    picture of twice the size.
    """

    def __init__(self, channels: int, text: int, groups: int, dtype: str) -> None:
        self.channels, self.dtype = channels, dtype

        def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=bias, dtype=dtype)

        def convolve(size: int) -> nn.Conv2D:
            return nn.Conv2D(channels, channels, size, padding=size // 2, dtype=dtype)

        self.norms = nn.ModuleList([nn.GroupNorm(groups, channels, dtype=dtype) for _ in range(3)])
        self.convolutions = nn.ModuleList([convolve(3), convolve(3), convolve(3)])
        self.of_time = linear(channels, channels)
        self.row_norms = nn.ModuleList([nn.LayerNorm(channels, dtype=dtype) for _ in range(3)])
        self.inputs = nn.ModuleList([linear(channels, channels, bias=False) for _ in range(2)])
        self.keys = nn.ModuleList(
            [linear(channels, channels, bias=False), linear(text, channels, bias=False)]
        )
        self.values = nn.ModuleList(
            [linear(channels, channels, bias=False), linear(text, channels, bias=False)]
        )
        self.mixes = nn.ModuleList([linear(channels, channels) for _ in range(2)])
        self.wide, self.narrow = linear(channels, 8 * channels), linear(4 * channels, channels)

    def attend(self, x: nn.Tensor, other: nn.Tensor, number: int, heads: int = 4) -> nn.Tensor:
        """Attention of the rows of x to those of another tensor."""
        parts = []
        for made in (self.inputs[number](x), self.keys[number](other), self.values[number](other)):
            batch, rows, width = made.shape
            each = op.reshape(made, (batch, rows, heads, width // heads))
            parts.append(op.permute_dims(each, [0, 2, 1, 3]))
        q, k, v = parts
        scores = op.matmul(q, op.permute_dims(k, [0, 1, 3, 2])) * (self.channels // heads) ** -0.5
        mixed = op.matmul(op.softmax(scores, axis=-1), v)
        return self.mixes[number](op.reshape(op.permute_dims(mixed, [0, 2, 1, 3]), x.shape))

    def forward(self, x: nn.Tensor, time: nn.Tensor, text: nn.Tensor) -> nn.Tensor:
        """The next picture of features, of a time's embedding and a text's."""
        batch, channels, height, width = x.shape
        inner = self.convolutions[0](op.silu(self.norms[0](x)))
        inner = inner + op.reshape(self.of_time(op.silu(time)), (batch, channels, 1, 1))
        x = x + self.convolutions[1](op.silu(self.norms[1](inner)))
        rows = op.reshape(
            op.permute_dims(self.norms[2](x), [0, 2, 3, 1]), (batch, height * width, channels)
        )
        normed = self.row_norms[0](rows)
        rows = rows + self.attend(normed, normed, 0)
        rows = rows + self.attend(self.row_norms[1](rows), text, 1)
        plain, gate = op.split(self.wide(self.row_norms[2](rows)), 2, axis=-1)
        rows = rows + self.narrow(plain * op.gelu(gate))
        back = op.permute_dims(op.reshape(rows, (batch, height, width, channels)), [0, 3, 1, 2])
        return self.convolutions[2](op.interpolate(x + back, scale_factor=2.0, mode="nearest"))


def make_decoder(
    sizes: Sizes,
    rows: int | str,
    past: int | str,
    *,
    dtype: str = "float16",
    is_packed: bool,
    first: Sequence[tvm.transform.Pass] = (),
) -> tvm.IRModule:
    """A decoder's module with fused functions; sizes in letters are left open. Passes may come
    first, while its operators are those of Relax.
    """
    cache = nn.spec.Tensor([1, past, sizes.shared_heads, sizes.head], dtype)
    turns = nn.spec.Tensor([1, rows, 1, sizes.head], dtype)
    spec = {
        "x": nn.spec.Tensor([1, rows, sizes.width], dtype),
        "keys": cache,
        "values": cache,
        "cosines": turns,
        "sines": turns,
        "mask": nn.spec.Tensor([1, 1, rows, rows], dtype),
    }
    return fuse(Decoder(sizes, dtype, is_packed=is_packed).export_tvm({"forward": spec})[0], first)


def make_diffusion(
    channels: int,
    pixels: int,
    *,
    text: int,
    groups: int,
    dtype: str = "float16",
    first: Sequence[tvm.transform.Pass] = (),
) -> tvm.IRModule:
    """The module of a U-Net's block, for two pictures, of pixels by pixels and a text of 77."""
    spec = {
        "x": nn.spec.Tensor([2, channels, pixels, pixels], dtype),
        "time": nn.spec.Tensor([2, channels], dtype),
        "text": nn.spec.Tensor([2, 77, text], dtype),
    }
    return fuse(Diffusion(channels, text, groups, dtype).export_tvm({"forward": spec})[0], first)


def fuse(module: tvm.IRModule, first: Sequence[tvm.transform.Pass] = ()) -> tvm.IRModule:
    """The module with its operators as functions of TIR, fused as TVM's projects do.

    A product takes the unpacking of its weights along, which TVM's own passes do not change.
    """
    return tvm.transform.Sequential(
        [
            *first,
            relax.transform.FuseTransposeMatmul(),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            fuse_unpacking(),
            relax.transform.FuseTIR(),
            mark_products,
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            relax.transform.DeadCodeElimination(),
        ]
    )(module)


def fuse_unpacking() -> tvm.transform.Pass:
    """Make one function of `unpack` and the product that reads it."""

    def call(*operands: DFPattern) -> DFPattern:
        variables = TuplePattern([*operands])
        return is_op("relax.call_tir")(GlobalVarPattern(), variables, add_constraint=False)

    unpacked = call(wildcard(), wildcard())
    product = call(wildcard(), unpacked)

    def is_product(match: relax.transform.PatternCheckContext) -> bool:
        callee = match.annotated_expr["unpacked"].args[0]
        return str(callee.name_hint).startswith("unpack")

    pattern = FusionPattern("unpack_matmul", product, {"unpacked": unpacked}, is_product)
    return relax.transform.FuseOpsByPattern([pattern])


@tvm.transform.module_pass(opt_level=0)
def mark_products(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Let `FuseOps` take what follows a product with unpacked weights into it."""
    products = 4  # kOutEWiseFusable of TVM's OpPatternKind
    for variable, function in module.functions_items():
        name = str(variable.name_hint)
        if isinstance(function, PrimFunc) and "unpack" in name and "matmul" in name:
            module.update_func(variable, function.with_attr("op_pattern", products))
    return module


MODELS: dict[str, Callable[[], tvm.IRModule]] = {
    "Llama, 4 bits, one row": lambda: make_decoder(SMALL, 1, 15, is_packed=True),
    "Llama, 4 bits, 8 rows": lambda: make_decoder(SMALL, 8, 8, is_packed=True),
    "Llama, 4 bits, open": lambda: make_decoder(SMALL, "n", "m", is_packed=True),
    "Llama, float16, one row": lambda: make_decoder(SMALL, 1, 15, is_packed=False),
    "Llama, float16, open": lambda: make_decoder(SMALL, "n", "m", is_packed=False),
    "diffusion, float16": lambda: make_diffusion(32, 8, text=48, groups=8),
}
"""At sizes that a CPU computes in a second."""


def schedule(module: tvm.IRModule) -> tuple[tvm.IRModule, Counter[str], dict[str, list[str]]]:
    """The module by tirstep's rules, how many functions each took, and why not the others."""
    ours, target = rules.cuda(), tvm.target.Target(GPU)
    taken: Counter[str] = Counter()
    left: dict[str, list[str]] = {}
    scheduled = module.clone()
    for variable, function in module.functions_items():
        if not isinstance(function, PrimFunc):
            continue
        for rule in ours:
            made = rule.apply(function, target, False)
            if made is not None:
                taken[rule.name] += 1
                done = made.mod["main"].with_attr("tirx.is_scheduled", True)
                scheduled.update_func(variable, done)
                break
        else:
            left[str(variable.name_hint)] = [[*rule.reasons.values()][-1] for rule in ours]
    return scheduled, taken, left


def compute(module: tvm.IRModule, **sizes: int) -> np.ndarray:
    """What a model computes on the CPU for random numbers, its threads one after the other."""
    executable = relax.build(make_threads_serial(module), tvm.target.Target("llvm"))
    generator, arguments = np.random.default_rng(0), []
    for parameter in module["forward"].params:
        shape = [int(it) if hasattr(it, "value") else sizes[str(it)] for it in parameter.ty.shape]
        dtype = str(parameter.ty.dtype)
        values = generator.integers(0, 2**32, shape) if dtype == "uint32" else None
        values = generator.normal(size=shape) / 8 if values is None else values
        arguments.append(tvm.runtime.tensor(np.asarray(values).astype(dtype)))
    result = relax.VirtualMachine(executable, tvm.cpu())["forward"](*arguments)
    return (result if hasattr(result, "numpy") else result[0]).numpy()


def main() -> None:
    """Print how many functions of each piece the rules take, and what is not taken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compute", action="store_true", help="run each on the CPU, too")
    is_computed = parser.parse_args().compute
    for name, make in MODELS.items():
        module = make()
        scheduled, taken, left = schedule(module)
        number = taken.total() + len(left)
        print(f"{name}: {taken.total()} of {number} functions: {dict(taken)}", flush=True)
        for each, reasons in left.items():
            print(f"  {each}: " + " | ".join(reasons))
        if is_computed:
            one, other = (compute(each, n=5, m=11) for each in (module, scheduled))
            difference = np.abs(one.astype("float64") - other.astype("float64")).max()
            print(f"  differs by {difference:.1e}, of {np.abs(one).max():.1e} at most")


if __name__ == "__main__":
    main()
