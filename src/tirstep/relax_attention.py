"""Attention in functions of Relax: found as models write it, and made a function of TIR each."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst
from tvm.s_tir import Schedule
from tvm.tirx import IntImm, PrimFunc

from tirstep.lowering_checks.compile.compiling import UNOPTIMIZED
from tirstep.modules.attention import attention
from tirstep.modules.validation import KernelError
from tirstep.transforms.plans.attention_plan import MARK, swap_axes
from tirstep.tvm_compat import get_op_name

HIDDEN, LARGEST = -1e4, float(np.finfo("float16").max)
"""At most what a mask leaves of a score that it hides, whose power is 0 in float32 beside any that
is left; at least what cuts no score."""
FLOATS = ("float16", "bfloat16", "float32")
LAYOUTS = ("bhsd", "bshd", "hsd", "sd")
"""Orders of the axes: batch, heads, sequence of queries or keys, and elements of a head."""
_TAKEN = ("Composite", "Codegen", "Primitive")
LOG2_E = math.log2(math.e)
RESULT = 3
"""The place of the result among the tensors of an `Attention`."""
OPAQUE = 8
"""TVM's OpPatternKind of functions to which `FuseOps` adds nothing."""


class Tensor(NamedTuple):
    """A variable, and the axes that it has, of `LAYOUTS`."""

    value: Any
    axes: str

    @property
    def extents(self) -> list[int]:
        """The extents of all four axes, in the order of "bhsd"."""
        sizes = dict(zip(self.axes, _get_sizes(self.value), strict=True))
        return [sizes.get(axis, 1) for axis in "bhsd"]


class Attention(NamedTuple):
    """Queries, keys, values and the result; the scale; whether later keys are hidden; a mask that
    is data, and what it does to scores.
    """

    tensors: tuple[Tensor, ...]
    scale: float
    causal: bool
    mask: Any = None
    mask_op: Any = "add"

    @property
    def mask_extents(self) -> list[int]:
        """The mask's extents as those of batch, heads, queries and keys, where 1 is for all."""
        sizes = _get_sizes(self.mask)
        return [1] * (4 - len(sizes)) + sizes


@tvm.transform.module_pass(opt_level=0, name="FuseAttention")
class FuseAttention:
    """A pass of Relax, before `LegalizeOps`, that makes one function of each attention.

    It finds ``R.nn.attention`` and ``softmax(scores) @ values`` of scores ``queries @ keys``, which
    may be cast, multiplied or divided by one number above 0, and masked (added, or by minimum): by
    constants that hide the keys after a query, or by a tensor of any values, for all heads or for
    each. Heads of keys and values may be repeated.
    What permutes or repeats operands, or permutes the result, becomes part of the function; its
    sums are float32, and `rules.cuda` schedules it. All else stays as it is: where scores or
    probabilities have other readers, where a mask is scaled, or where a size is left open.

    Attributes
    ----------
    reasons : why attention was not fused, by the name of its result
    """

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def transform_module(self, module: tvm.IRModule, _: object) -> tvm.IRModule:
        """The module with a function for each attention; the same module where there is none."""
        builder, changed = relax.BlockBuilder(module), False
        for variable, function in module.functions_items():
            attributes = getattr(function, "attrs", None) or {}
            # What another backend, or an earlier pass, has put together stays whole.
            if not isinstance(function, relax.Function) or any(it in attributes for it in _TAKEN):
                continue
            if found := _Finder(module, function).find(self.reasons):
                builder.update_func(variable, _call_kernels(builder, function, found))
                changed = True
        return builder.finalize() if changed else module


class _Finder:
    """The computation of a Relax function, from results back to its parameters.

    Raises `KernelError` for attention that our kernel does not compute.
    """

    def __init__(self, module: tvm.IRModule, function: relax.Function) -> None:
        self.module = module
        self.values: Any = {}
        self.uses: dict[Any, int] = {}
        self.constants: dict[Any, np.ndarray | None] = {}  # computed when they are asked for
        for binding in (it for block in function.body.blocks for it in block.bindings):
            self.values[binding.var] = binding.value
            read = relax.analysis.free_vars(binding.value)
            name = _get_name(binding.value)
            is_pure = name and (name == "relax.call_tir" or not name.startswith("relax.call_"))
            if is_pure and all(it in self.constants for it in read):
                self.constants[binding.var] = None
            for variable in read:
                self.uses[variable] = self.uses.get(variable, 0) + 1
        for variable in relax.analysis.free_vars(function.body.body):
            self.uses[variable] = self.uses.get(variable, 0) + 1

    def find(self, reasons: dict[str, str]) -> dict[Any, Attention]:
        """Attention by the variable that has its result; and why others are none."""
        found: dict[Any, Attention] = {}
        for variable, value in self.values.items():
            try:
                made = self._match(variable, value)
                if _get_name(value) == "relax.permute_dims" and value.args[0] in found:
                    inner = found[value.args[0]]
                    axes = "".join(inner.tensors[3].axes[at] for at in _get_order(value))
                    if axes in LAYOUTS and self.uses[value.args[0]] == 1:
                        del found[value.args[0]]  # this permutation is part of it
                        made = inner._replace(tensors=(*inner.tensors[:3], Tensor(variable, axes)))
                if made is not None:
                    _write_kernel(made)  # or say why there is none
                    found[variable] = made
            except KernelError as reason:
                reasons[str(variable.name)] = str(reason)
        return found

    def _match(self, variable: Any, value: Any) -> Attention | None:
        """The attention whose result is a variable's value, if it may be one."""
        name = _get_name(value)
        if name in ("relax.nn.attention", "relax.nn.attention_bias"):
            tensors = [*(self._read(it, "bshd") for it in value.args[:3]), Tensor(variable, "bshd")]
            (*_, first, dim), (*_, last, _) = (it.extents for it in tensors[:2])
            scale, mask, window = (
                value.attrs[it] for it in ("scale", "causal_mask", "window_size")
            )
            if window is not None or (mask == "TopLeft" and first != last):
                raise KernelError(f"its mask is that of {first} queries, and there are {last} keys")
            scale = 1 / math.sqrt(dim) if scale is None else float(scale)
            return Attention(tuple(tensors), scale, mask is not None, *value.args[3:])
        if name != "relax.matmul":
            return None
        inner = [value.args[0]]  # from the probabilities, cast or not, to the softmax
        while self._is_cast(call := self.values.get(inner[-1])):
            inner.append(call.args[0])
        if _get_name(call) != "relax.nn.softmax":
            return None
        for each in inner:
            self._require_alone(each, "the probabilities")
        axes = {len(it): it for it in ("bhsd", "hsd", "sd")}.get(len(_get_sizes(call)))
        if axes is None or int(call.attrs.axis) not in (-1, len(axes) - 1):
            raise KernelError(f"softmax is over axis {call.attrs.axis}, and not the last one")
        made = self._read_scores(call.args[0], axes)
        values = self._read(value.args[1], axes)
        return made._replace(tensors=(*made.tensors, values, Tensor(variable, axes)))

    def _read_scores(self, scores: Any, axes: str) -> Attention:
        """Attention without values and result, from scores back to their product."""
        scale, causal, masks, has_floor = 1.0, False, list[Any](), False
        queries, keys = _get_sizes(scores)[-2:]
        triangle = np.tri(queries, keys, keys - queries, dtype=bool)
        while _get_name(call := self.values.get(scores)) != "relax.matmul":
            self._require_alone(scores, "the scores")
            name = _get_name(call)
            if self._is_cast(call):
                scores = call.args[0]
                continue
            if name not in _OF_SCORES:
                raise KernelError(f"scores come from {name or 'elsewhere'}, and not from a product")
            is_first = self._is_product(call.args[0])
            scores, other = call.args if is_first else [*call.args][::-1]
            if scores in self.constants or not isinstance(scores, relax.Var):
                raise KernelError("scores come from a constant, and not from a product")
            if _get_sizes(scores) != _get_sizes(call):
                raise KernelError(f"{name} repeats the scores")
            number = self._compute(other)
            if name in ("relax.multiply", "relax.divide"):
                factors = np.unique(0 if number is None else number.astype("float64"))
                is_one = len(factors) == 1 and 0 < (factor := float(factors[0])) < math.inf
                if not is_one or (name == "relax.divide" and not is_first):
                    raise KernelError("the scale is not one number above 0")
                scale = scale * factor if name == "relax.multiply" else scale / factor
                continue
            hides = False if number is None else number * scale <= HIDDEN
            if name == "relax.maximum":
                if not np.all(hides):
                    raise KernelError("relax.maximum raises scores that no mask hides")
                has_floor = True
                continue
            if number is not None:
                seen = number == 0 if name == "relax.add" else number >= LARGEST
                is_mask = np.all(seen | hides)
                if is_mask and seen.all():
                    continue
                if is_mask and (np.atleast_2d(seen) == triangle).all():
                    causal = True
                    continue
            if scale != 1 or has_floor or masks:
                raise KernelError("a scale, a floor or another mask comes after its mask")
            while _get_name(read := self.values.get(other)) == "relax.broadcast_to":
                other = read.args[0]
            masks = [other, name.removeprefix("relax.")]
        self._require_alone(scores, "the scores")
        if causal and masks:
            raise KernelError("it has a causal mask and another one")
        first, last = self._read(call.args[0], axes), self._read(call.args[1], f"{axes[:-2]}ds")
        return Attention((first, last), scale, causal, *masks)

    def _is_product(self, value: Any) -> bool:
        """Whether a value is a product, or what `_read_scores` follows to one."""
        name = _get_name(call := self.values.get(value))
        is_between = name in _OF_SCORES or self._is_cast(call)
        return name == "relax.matmul" or (is_between and any(map(self._is_product, call.args)))

    def _read(self, value: Any, axes: str) -> Tensor:
        """The tensor that an operand permutes, with heads repeated."""
        found = None
        while len(axes) == len(_get_sizes(value)):
            found = Tensor(value, axes) if axes in LAYOUTS else found
            name = _get_name(call := self.values.get(value))
            if name == "relax.permute_dims":
                places = _get_order(call)
                axes = "".join(axes[places.index(at)] for at in range(len(axes)))
            elif name == "relax.reshape":
                value = self._find_repeated(value, axes)
                if value is None:
                    break
                continue
            elif name != "relax.repeat" or axes[int(call.attrs.axis or 0)] != "h":
                break
            value = call.args[0]
        if found is None:
            raise KernelError(f"'{value}' has no axes {' or '.join(LAYOUTS)}")
        return found

    def _find_repeated(self, value: Any, axes: str) -> Any:
        """The tensor whose heads become more by an axis after theirs, which is broadcast and
        reshaped into it; None if they do not.
        """
        places, chain = axes.index("h") + 1 if "h" in axes else 0, [value]
        for names in (("reshape",), ("broadcast_to",), ("expand_dims", "reshape")):
            call = self.values.get(chain[-1])
            if _get_name(call) not in [f"relax.{it}" for it in names]:
                return None
            chain.append(call.args[0])
        made, wide, thin, given = map(_get_sizes, chain)
        if len(given) != len(axes) or len(wide) != len(axes) + 1 or not places:
            return None
        front, back = given[:places], given[places:]
        is_repeated = thin == [*front, 1, *back] and wide == [*front, wide[places], *back]
        is_whole = made == [*front[:-1], front[-1] * wide[places], *back]
        return chain[-1] if is_repeated and is_whole else None

    def _is_cast(self, call: Any) -> bool:
        return _get_name(call) == "relax.astype" and str(call.ty.dtype) in FLOATS

    def _require_alone(self, value: Any, what: str) -> None:
        if self.uses.get(value) != 1:
            raise KernelError(f"{what} have other readers")

    def _compute(self, value: Any) -> np.ndarray | None:
        """The value of an expression without parameters, computed on the CPU; None for data."""
        if isinstance(value, GenericConst):
            return np.asarray(value.value.numpy())
        if value in self.constants and self.constants[value] is None:
            needed, result = {value}, relax.Var("result", value.ty)
            bindings = [relax.VarBinding(result, value)]
            for variable in reversed([*self.values]):
                if variable in needed:
                    bindings.insert(0, relax.VarBinding(variable, self.values[variable]))
                    needed |= {*relax.analysis.free_vars(self.values[variable])}
            body = relax.SeqExpr([relax.DataflowBlock(bindings)], result)
            main = relax.Function([], body, value.ty).with_attr("global_symbol", "main")
            others = {it: f for it, f in self.module.functions_items() if isinstance(f, PrimFunc)}
            module = tvm.IRModule({**others, tvm.ir.GlobalVar("main"): main})
            module = relax.transform.DeadCodeElimination(["main"])(module)
            try:
                built = relax.build(module, tvm.target.Target(UNOPTIMIZED))
                self.constants[value] = relax.VirtualMachine(built, tvm.cpu())["main"]().numpy()
            except Exception as error:  # of TVM's many kinds
                raise KernelError(f"'{value}' is constant, and not computed: {error}") from error
        return self.constants.get(value)


_OF_SCORES = [f"relax.{it}" for it in ("multiply", "divide", "add", "minimum", "maximum")]


def _write_kernel(made: Attention) -> PrimFunc:
    """The function of TIR, whose tensors have the axes that they have here."""
    q, k, v, y = (it.extents for it in made.tensors)
    dtype, *others, out = (str(it.value.ty.dtype) for it in made.tensors)
    if q != y or k != v or [k[0], k[3]] != [q[0], q[3]] or q[1] % k[1] or {*others} != {dtype}:
        shown = ", ".join(f"{it.value.ty}" for it in made.tensors)
        raise KernelError(f"queries, keys, values and result do not fit together: {shown}")
    swapped, options = [at for at, it in enumerate(made.tensors) if it.axes == "bshd"], {}
    if made.mask is not None:
        own = made.mask_extents
        if own[-1] != k[2]:
            raise KernelError(f"a mask of {made.mask.ty} has no element for each of {k[2]} keys")
        axes = "".join(it for it, size in zip("bhqk", own, strict=True) if size > 1 or it == "k")
        options = {"mask": axes, "mask_op": made.mask_op, "mask_dtype": str(made.mask.ty.dtype)}
        swapped = [at + (at == RESULT) for at in swapped]  # the mask is in front of it
    module = attention(
        *(q[0], q[1], q[2], k[2], q[3]),
        dtype=dtype,
        out=out,
        causal=made.causal,
        group=q[1] // k[1],
        scale=made.scale,
        **options,
        # By a factor above 1 the lowest number, which maxima begin at, would become -inf.
        fused_exponents=dtype != "float32" and not options and made.scale * LOG2_E <= 1,
    )
    sch = Schedule(module)
    for number in swapped:
        swap_axes(sch, number)
    function = sch.mod["main"].without_attr("global_symbol").with_attr(MARK, swapped)
    return function.with_attr("op_pattern", OPAQUE)


def _call_kernels(
    builder: relax.BlockBuilder, function: relax.Function, found: dict[Any, Attention]
) -> relax.Function:
    """The function with calls of what was found."""

    def bind(binding: Any) -> list[Any]:
        if binding.var not in found:
            return [binding]
        made, bindings = found[binding.var], list[Any]()

        def emit(value: Any, variable: Any = None) -> Any:
            value = builder.normalize(value)
            variable = type(binding.var)("heads", value.ty) if variable is None else variable
            bindings.append(relax.VarBinding(variable, value))
            return variable

        *given, result = made.tensors
        operands = [
            it.value if len(it.axes) == 4 else emit(relax.op.reshape(it.value, it.extents))
            for it in given
        ]
        if made.mask is not None:
            extents = made.mask_extents
            same = extents == _get_sizes(made.mask)
            operands.append(made.mask if same else emit(relax.op.reshape(made.mask, extents)))
        callee = builder.add_func(_write_kernel(made), "fused_attention")
        if len(result.axes) == 4:
            emit(relax.call_tir(callee, operands, binding.var.ty), binding.var)
        else:
            whole = relax.TensorType(result.extents, binding.var.ty.dtype)
            made_here = emit(relax.call_tir(callee, operands, whole))
            emit(relax.op.reshape(made_here, _get_sizes(binding.var)), binding.var)
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


def _get_name(value: Any) -> str:
    is_call = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op)
    return get_op_name(value) if is_call else ""


def _get_order(call: Any) -> list[int]:
    """The axes that a permutation takes, in the order of its result."""
    count, axes = int(call.ty.ndim), call.attrs.axes
    return [*range(count)][::-1] if axes is None else [int(it) % count for it in axes]


def _get_sizes(value: Any) -> list[int]:
    sizes = list(getattr(value.ty.shape, "values", ()))
    if not sizes or not all(isinstance(size, IntImm) for size in sizes):
        raise KernelError(f"the sizes of '{value}' are not known")
    return [int(size) for size in sizes]
