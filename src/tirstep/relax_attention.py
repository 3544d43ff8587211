"""Attention in functions of Relax: found as models write it, and made one kernel each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst
from tvm.s_tir import Schedule
from tvm.tirx import IntImm, PrimFunc

from tirstep.lowering_checks.compile.compiling import UNOPTIMIZED
from tirstep.modules.attention import attention
from tirstep.modules.kernel import KernelError
from tirstep.transforms.plans.attention_plan import MARK, swap_axes
from tirstep.tvm_compat import get_op_name

HIDDEN = -1e4
"""What a mask adds, or leaves of a score, at most where it hides a key: its power is 0 in float32
whatever the other scores are, as far as float16 holds them.
"""
LARGEST = float(np.finfo("float16").max)
OPAQUE = 8
"""Of TVM's OpPatternKind: `FuseOps` adds nothing to such a function."""
FLOATS = ("float16", "bfloat16", "float32")
LAYOUTS = ("bhsd", "bshd", "hsd", "sd")
"""Axes of operands: batch, heads, the sequence of queries or keys, the elements of a head."""


@dataclass(frozen=True)
class Tensor:
    """An operand or the result: a variable, and which axes it has, as one of `LAYOUTS`."""

    value: Any
    axes: str


@dataclass(frozen=True)
class Attention:
    """What a function computes somewhere.

    Attributes
    ----------
    tensors : queries, keys, values and the result
    scale : of scores, above 0
    causal : whether query i sees the keys up to i + keys - queries alone
    """

    tensors: tuple[Tensor, Tensor, Tensor, Tensor]
    scale: float
    causal: bool


class _NoMatch(Exception):
    """Why something that looks like attention is not taken."""


@tvm.transform.module_pass(opt_level=0, name="FuseAttention")
class FuseAttention:
    """A pass of Relax, before `LegalizeOps`, that makes one function of each attention.

    It finds ``R.nn.attention``, and ``softmax(scores) @ values`` of scores ``queries @ keys``, which
    may be cast, multiplied or divided by a constant, and masked by constants that hide what comes
    after a query (added, by minimum, or by where). Heads of keys and values may be repeated. What
    permutes and repeats operands, and permutes the result, becomes part of the function, whose sums
    are float32. `rules.cuda()` schedules it. All else stays as it is, also where scores or
    probabilities have other readers, where a mask is data, or a size is left open.

    Attributes
    ----------
    reasons : why attention was left alone, by the name of its result
    """

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def transform_module(self, module: tvm.IRModule, _: object) -> tvm.IRModule:
        """The module with the functions that it found; the same module if there are none."""
        builder, changed = relax.BlockBuilder(module), False
        for variable, function in module.functions_items():
            if not isinstance(function, relax.Function):
                continue
            finder = _Finder(module, function)
            found = finder.find()
            self.reasons |= finder.reasons
            if found:
                builder.update_func(variable, _replace(builder, function, found))
                changed = True
        return builder.finalize() if changed else module


class _Finder:
    """What a function of Relax computes, backwards from its results."""

    def __init__(self, module: tvm.IRModule, function: relax.Function) -> None:
        self.module, self.reasons = module, dict[str, str]()
        self.values: dict[Any, Any] = {}
        self.uses: dict[Any, int] = {}
        self.constants: dict[Any, np.ndarray | None] = {}  # computed when they are asked for
        bindings = [it for block in function.body.blocks for it in block.bindings]
        for binding in bindings:
            self.values[binding.var] = value = binding.value
            free = relax.analysis.free_vars(value)
            if isinstance(value, relax.Call) and _is_pure(value):
                if all(it in self.constants for it in free):
                    self.constants[binding.var] = None
            for used in free:
                self.uses[used] = self.uses.get(used, 0) + 1
        for used in relax.analysis.free_vars(function.body.body):
            self.uses[used] = self.uses.get(used, 0) + 1

    def find(self) -> dict[Any, Attention]:
        """Attention by the variable that has its result."""
        found: dict[Any, Attention] = {}
        for variable, value in self.values.items():
            try:
                if made := self._match(variable, value):
                    found[variable] = made
                elif _get_name(value) == "relax.permute_dims" and self._is_alone(value.args[0]):
                    self._permute(found, variable, value)
            except (_NoMatch, KernelError) as reason:
                self.reasons[str(variable.name)] = str(reason)
        return found

    def _permute(self, found: dict[Any, Attention], variable: Any, value: Any) -> None:
        """Let a permutation of a result be part of what computes it."""
        inner = found.get(value.args[0])
        axes = "" if inner is None else _permute_back(value, inner.tensors[3].axes, is_inverse=True)
        if inner is not None and axes in LAYOUTS:
            del found[value.args[0]]
            tensors = (*inner.tensors[:3], Tensor(variable, axes))
            found[variable] = replace(inner, tensors=tensors)

    def _match(self, variable: Any, value: Any) -> Attention | None:
        name = _get_name(value)
        if name == "relax.nn.attention":
            queries, keys, values = (self._read(value.args[at], "bshd") for at in range(3))
            first, last = (_get_extents(it)[2] for it in (queries, keys))
            if value.attrs.window_size is not None:
                raise _NoMatch("it has a window")
            if value.attrs.causal_mask == "TopLeft" and first != last:
                raise _NoMatch(f"its mask is that of {first} queries, and there are {last} keys")
            scale, causal = value.attrs.scale, value.attrs.causal_mask is not None
            scale = 1 / math.sqrt(_get_extents(queries)[3]) if scale is None else float(scale)
            tensors = (queries, keys, values, Tensor(variable, "bshd"))
        elif name == "relax.matmul":
            probabilities = self._skip_casts(value.args[0])
            if _get_name(probabilities) != "relax.nn.softmax":
                return None
            axes = "bhsd"[4 - len(_get_sizes(probabilities)) :]
            if int(probabilities.attrs.axis) not in (-1, len(axes) - 1):
                raise _NoMatch(f"softmax is over axis {probabilities.attrs.axis}, not the last one")
            queries, keys, scale, causal = self._read_scores(probabilities.args[0], axes)
            values = self._read(value.args[1], axes)
            tensors = (queries, keys, values, Tensor(variable, axes))
        else:
            return None
        made = Attention(tensors, scale, causal)
        _write_kernel(made)  # or raise why there is none
        return made

    def _read_scores(self, scores: Any, axes: str) -> tuple[Tensor, Tensor, float, bool]:
        """Queries, keys, the scale and whether it is causal, from scores back to their product."""
        scale, visible = 1.0, None
        while True:
            self._require_alone(scores, "the scores")
            call = self.values.get(scores)
            name = _get_name(call)
            if name == "relax.matmul":
                queries = self._read(call.args[0], axes)
                keys = self._read(call.args[1], f"{axes[:-2]}ds")
                return queries, keys, scale, visible is not None and _is_causal(visible)
            if name == "relax.astype" and str(call.ty.dtype) in FLOATS:
                scores = call.args[0]
                continue
            if name not in _OF_SCORES:
                raise _NoMatch(f"scores come from {name or 'elsewhere'}, and not from a product")
            given = [self._compute(it) for it in call.args]
            data = [at for at, it in enumerate(given) if it is None]
            if len(data) != 1 or (name == "relax.divide" and data != [0]):
                raise _NoMatch(f"{name} takes {len(data)} operands that are no constants")
            scores = call.args[data[0]]
            if _get_sizes(scores) != (sizes := _get_sizes(call)):
                raise _NoMatch(f"{name} repeats the scores")
            if name in ("relax.multiply", "relax.divide"):
                factors = np.unique(given[1 - data[0]].astype("float64"))
                if len(factors) != 1 or not 0 < (factor := float(factors[0])) < math.inf:
                    raise _NoMatch("the scale is not one number above 0")
                scale = scale * factor if name == "relax.multiply" else scale / factor
                continue
            seen = _find_seen(name, given, scale)
            seen = seen.reshape(-1, *seen.shape[-2:]) if seen.ndim > 2 else seen[None]
            if (seen != seen[:1]).any():
                raise _NoMatch("heads or sequences have masks of their own")
            seen = np.broadcast_to(seen[0], sizes[-2:])
            visible = seen if visible is None else visible & seen

    def _read(self, value: Any, axes: str) -> Tensor:
        """The tensor of which an operand is a permutation, with heads repeated."""
        found = None
        while len(axes) == len(_get_sizes(value)):
            found = Tensor(value, axes) if axes in LAYOUTS else found
            call = self.values.get(value)
            name = _get_name(call)
            if name == "relax.permute_dims":
                value, axes = call.args[0], _permute_back(call, axes)
            elif name == "relax.repeat" and _is_over_heads(call, axes):
                value = call.args[0]
            else:
                break
        if found is None:
            raise _NoMatch(f"'{value}' has no axes {' or '.join(LAYOUTS)}")
        return found

    def _skip_casts(self, value: Any) -> Any:
        """What computes the probabilities, or None where that has other readers."""
        call = self.values.get(value)
        while _get_name(call) == "relax.astype" and str(call.ty.dtype) in FLOATS:
            if not self._is_alone(value):
                return None
            value = call.args[0]
            call = self.values.get(value)
        if _get_name(call) == "relax.nn.softmax":
            self._require_alone(value, "the probabilities")
        return call

    def _is_alone(self, value: Any) -> bool:
        return self.uses.get(value) == 1

    def _require_alone(self, value: Any, what: str) -> None:
        if not self._is_alone(value):
            raise _NoMatch(f"{what} have other readers")

    def _compute(self, value: Any) -> np.ndarray | None:
        """What needs no parameter, computed on the CPU; None for data."""
        if isinstance(value, GenericConst):
            return np.asarray(value.value.numpy())
        if value not in self.constants:
            return None
        if self.constants[value] is None:
            needed, result = {value}, relax.Var("result", value.ty)
            bindings = [relax.VarBinding(result, value)]
            for variable in reversed([*self.values]):
                if variable in needed:
                    bindings.insert(0, relax.VarBinding(variable, self.values[variable]))
                    needed |= {*relax.analysis.free_vars(self.values[variable])}
            body = relax.SeqExpr([relax.DataflowBlock(bindings)], result)
            function = relax.Function([], body, value.ty).with_attr("global_symbol", "constant")
            others = {it: f for it, f in self.module.functions_items() if isinstance(f, PrimFunc)}
            module = tvm.IRModule({**others, tvm.ir.GlobalVar("constant"): function})
            module = relax.transform.DeadCodeElimination(["constant"])(module)
            try:
                machine = relax.VirtualMachine(
                    relax.build(module, tvm.target.Target(UNOPTIMIZED)), tvm.cpu()
                )
                self.constants[value] = machine["constant"]().numpy()
            except Exception as error:  # of TVM's many kinds
                raise _NoMatch(f"'{value}' is constant, and not computed: {error}") from error
        return self.constants[value]


_OF_SCORES = {
    f"relax.{name}" for name in ("multiply", "divide", "add", "minimum", "maximum", "where")
}


def _find_seen(name: str, given: Sequence[Any], scale: float) -> np.ndarray:
    """Which scores a constant operand leaves as they are; it must hide all others."""
    if name == "relax.where":
        condition, first, second = given
        if condition is None:
            raise _NoMatch("its mask is data")
        seen, mask = (condition != 0, second) if first is None else (condition == 0, first)
        hides = mask * scale <= HIDDEN
        seen, hides = np.broadcast_arrays(seen, hides)
    else:
        (mask,) = (it for it in given if it is not None)
        neutral = {"relax.add": mask == 0, "relax.minimum": mask >= LARGEST}
        hides = mask * scale <= HIDDEN
        # A maximum raises what is hidden, and no other score.
        seen = neutral.get(name, hides)
    if not (seen | hides).all():
        raise _NoMatch(f"{name} changes scores by other values than those of a mask")
    return np.asarray(seen)


def _is_causal(visible: np.ndarray) -> bool:
    queries, keys = visible.shape
    if visible.all():
        return False
    if (visible != np.tri(queries, keys, keys - queries, dtype=bool)).any():
        raise _NoMatch("its mask is not that of causality, where the last query sees all keys")
    return True


def _get_extents(tensor: Tensor) -> list[int]:
    """Of batch, heads, sequence and head."""
    by_axis = dict(zip(tensor.axes, _get_sizes(tensor.value), strict=True))
    return [by_axis.get(axis, 1) for axis in "bhsd"]


def _write_kernel(made: Attention) -> PrimFunc:
    """The function of TIR, its tensors with the axes that they have here."""
    (q, k, v, y) = map(_get_extents, made.tensors)
    (batch, heads, queries, dim), (_, shared, keys, _) = q, k
    if k != v or y != q or k[0] != batch or k[3] != dim or heads % shared:
        raise _NoMatch(f"queries {q}, keys {k}, values {v} and result {y} do not fit together")
    dtype, *others, out = (str(it.value.ty.dtype) for it in made.tensors)
    if {*others} != {dtype}:
        raise _NoMatch(f"queries, keys and values are {', '.join((dtype, *others))}")
    module = attention(
        *(batch, heads, queries, keys, dim),
        dtype=dtype,
        out=out,
        group=heads // shared,
        scale=made.scale,
        # By a factor above 1 the lowest score, from which maxima begin, becomes -inf.
        fused_exponents=dtype != "float32" and made.scale * math.log2(math.e) <= 1,
        causal=made.causal,
    )
    sch = Schedule(module)
    for number, tensor in enumerate(made.tensors):
        if tensor.axes == "bshd":
            swap_axes(sch, number)
    function = sch.mod["main"].without_attr("global_symbol").with_attr(MARK, True)
    return function.with_attr("op_pattern", OPAQUE)


def _replace(
    builder: relax.BlockBuilder, function: relax.Function, found: dict[Any, Attention]
) -> relax.Function:
    """The function with calls of what was found."""

    def bind(binding: Any) -> list[Any]:
        if binding.var not in found:
            return [binding]
        made, bindings = found[binding.var], []

        def emit(value: Any, variable: Any = None) -> Any:
            value = builder.normalize(value)
            if variable is None:
                variable = type(binding.var)("attended", value.ty)
            bindings.append(relax.VarBinding(variable, value))
            return variable

        def reshape(tensor: Tensor) -> Any:
            if len(tensor.axes) == 4:
                return tensor.value
            return emit(relax.op.reshape(tensor.value, _get_extents(tensor)))

        callee = builder.add_func(_write_kernel(made), "fused_attention")
        result, given = made.tensors[3], [reshape(it) for it in made.tensors[:3]]
        shape, dtype = _get_extents(result), str(binding.var.ty.dtype)
        if len(result.axes) < 4:
            call = emit(relax.call_tir(callee, given, relax.TensorType(shape, dtype)))
            emit(relax.op.reshape(call, _get_sizes(binding.var)), binding.var)
        else:
            emit(relax.call_tir(callee, given, binding.var.ty), binding.var)
        return bindings

    blocks = [
        type(block)([it for binding in block.bindings for it in bind(binding)])
        for block in function.body.blocks
    ]
    body = relax.SeqExpr(blocks, function.body.body)
    made = relax.Function(
        function.params, body, function.ret_ty, function.is_pure, function.attrs, function.span
    )
    return relax.analysis.remove_all_unused(made)


def _is_over_heads(call: Any, axes: str) -> bool:
    return call.attrs.axis is not None and axes[int(call.attrs.axis)] == "h"


def _is_pure(call: Any) -> bool:
    """Whether a call computes the same each time, and runs nothing of other libraries."""
    name = _get_name(call)
    return name == "relax.call_tir" or (
        name.startswith("relax.") and not name.startswith(("relax.call_", "relax.nn.dropout"))
    )


def _get_name(value: Any) -> str:
    is_call = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)
    return get_op_name(value) if is_call else ""


def _get_sizes(value: Any) -> list[int]:
    shape = value.ty.shape
    sizes = [] if shape is None else list(getattr(shape, "values", ()))
    if not sizes or not all(isinstance(size, IntImm) for size in sizes):
        raise _NoMatch(f"the sizes of '{value}' are not known")
    return [int(size) for size in sizes]


def _permute_back(call: Any, axes: str, *, is_inverse: bool = False) -> str:
    """The axes of what is permuted, from those of the result; or the other way round."""
    order = call.attrs.axes
    places = [*range(len(axes))][::-1] if order is None else [int(it) % len(axes) for it in order]
    if is_inverse:
        return "".join(axes[place] for place in places)
    return "".join(axes[places.index(at)] for at in range(len(axes)))
