"""`rules.FuseAttention`: what it takes of models, what it leaves alone, and the numbers."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from attention_blocks import BLOCKS, Sizes, make_block, run_on_the_cpu
from relax_functions import find_difference, fuse, list_functions
from tvm import relax
from tvm.relax import op
from tvm.s_tir import dlight

from tirstep import rules
from tirstep.transforms.passes.serial import make_threads_serial

ROOT = Path(__file__).resolve().parents[1]
GPU = tvm.target.Target("nvidia/nvidia-h100")
SIZES = {name: Sizes(20, 4, 4, 16) for name in BLOCKS} | {"llama": Sizes(20, 8, 2, 16)}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_has_its_attention_in_one_function_and_computes_the_same(name: str) -> None:
    for sizes in (SIZES[name], replace(SIZES[name], batch=2, dtype="float32")):
        plain, fuser = make_block(name, sizes), rules.FuseAttention()
        fused = fuser(plain)
        assert fuser.reasons == {}
        text = fused["forward"].script()
        assert text.count("R.call_tir(") == text.count("fused_attention") == 1
        for operator in ("nn.softmax", "nn.attention", "repeat", "maximum"):
            assert f"R.{operator}(" not in text
        # Of permutations that of the weights alone, and where heads are part of the batch.
        few = {"vit": 2 + 4, "exported": 2 + 1}
        assert text.count("R.permute_dims(") <= few.get(name, 2)
        results = [run_on_the_cpu(each).astype("float64") for each in (plain, fused)]
        tolerance = 1e-5 if sizes.dtype == "float32" else 4e-3
        np.testing.assert_allclose(*results, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["llama", "vit", "exported"])
def test_the_rules_schedule_a_block_and_the_simulator_computes_the_same(
    name: str, dtype: str
) -> None:
    module = fuse(rules.FuseAttention()(make_block(name, replace(SIZES[name], dtype=dtype))))
    ours = rules.cuda(tensor_cores=True)
    plain = list_functions(module)["fused_attention"]
    with GPU:
        scheduled = dlight.ApplyDefaultSchedule(*ours)(module.clone())
    made = list_functions(scheduled)["fused_attention"]
    assert ("wgmma" in made.script()) == (dtype == "float16")
    assert find_difference(tvm.IRModule({"main": made}), plain) == ""
    assert relax.build(scheduled, GPU, tir_pipeline="tirstep") is not None
    if dtype == "float32":  # the whole block, its threads one after the other
        results = [run_on_the_cpu(each) for each in (module, make_threads_serial(scheduled))]
        np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def write(build: Callable[..., Any], *shapes: Any, dtype: str = "float32") -> tvm.IRModule:
    """A function of tensors of these shapes, whose calls `build` emits."""
    builder = relax.BlockBuilder()
    variables = [
        relax.Var(f"x{number}", relax.TensorType(shape, dtype))
        for number, shape in enumerate([*shapes])
    ]

    with builder.function("forward", variables):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, *variables))
        builder.emit_func_output(result)
    return builder.get()


def attend(
    emit: Callable[[Any], Any],
    q: Any,
    k: Any,
    v: Any,
    *,
    change: Callable[[Any], Any] = lambda it: op.divide(it, relax.const(2, str(it.ty.dtype))),
    weigh: Callable[[Any], Any] = op.nn.softmax,
    returns: str = "",
) -> Any:
    """Attention of (batch, heads, rows, head), with something done to the scores."""
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    weights = emit(weigh(emit(change(scores))))
    result = emit(op.matmul(weights, v))
    others = {"scores": scores, "weights": weights}
    return relax.Tuple([result, others[returns]]) if returns else result


def constant(values: Any) -> Any:
    return relax.const(np.asarray(values, "float32"))


def mask(value: float = -np.inf, ahead: int = 0, shape: tuple[int, int] = (6, 6)) -> np.ndarray:
    return np.where(np.tri(*shape, ahead, dtype=bool), 0, value).astype("float32")


def scale(values: Any) -> Callable[[Any], Any]:
    return lambda scores: op.multiply(scores, constant(values))


def add(values: Any) -> Callable[[Any], Any]:
    return lambda scores: op.add(scores, constant(values))


HEADS = (1, 2, 6, 8)
SEEN = np.tri(6, 6, dtype=bool)
TAKEN: dict[str, Callable[[Any], Any]] = {
    "no scale": lambda scores: op.astype(scores, "float32"),
    "the scale first": lambda scores: op.multiply(constant([[[[0.5]]]]), scores),
    "divided": lambda scores: op.divide(scores, constant(4)),
    "a mask in front": lambda scores: op.add(constant(mask()), scores),
    "a low number": add(mask(-1e9)),
    "a mask for each head": add(np.stack([mask(), mask()])),
    "all visible": add(np.zeros((6, 6))),
    "a minimum": lambda scores: op.minimum(scores, constant(np.where(SEEN, 1e5, -1e5))),
    "of one head alone": add(np.stack([mask(), mask(0)])),
    "a key too late": add(mask(ahead=1)),
    "a key too early, so that a query has none": add(mask(ahead=-1)),
    "the other triangle": add(mask().T),
    "a bias": add(mask(-5)),
}
BY_TRIANGLE = ("a mask in front", "a low number", "a mask for each head", "a minimum")


@pytest.mark.parametrize("name", TAKEN)
def test_a_form_of_scores_is_taken_and_computes_the_same(name: str) -> None:
    plain = write(lambda emit, *given: attend(emit, *given, change=TAKEN[name]), *[HEADS] * 3)
    fused = rules.FuseAttention()(plain)
    assert "softmax" not in fused["forward"].script()
    assert ("if_then_else" in fused.script()) == (name in BY_TRIANGLE)
    np.testing.assert_allclose(run_on_the_cpu(fused), run_on_the_cpu(plain), rtol=1e-5, atol=1e-5)


GROUPS = (1, 4, 6, 8), (1, 2, 9, 8), (1, 2, 9, 8)
LOWEST = -65504.0


def cut(emit: Callable[[Any], Any], scores: Any, given: Any) -> Any:
    """Scores of 16 bits under a mask as MLC's models had it: a minimum."""
    floor = relax.const(LOWEST, str(scores.ty.dtype))
    scores = emit(
        op.minimum(
            emit(op.maximum(emit(op.divide(scores, constant_like(4, scores))), floor)), given
        )
    )
    return op.astype(scores, "float32")


def constant_like(value: float, other: Any) -> Any:
    return relax.const(value, str(other.ty.dtype))


def repeat_heads(emit: Callable[[Any], Any], given: Any, times: int, axis: int = 2) -> Any:
    """As Hugging Face's `repeat_kv`, which PyTorch exports as an expansion; at axis 1 the heads are
    repeated together: 0, 1, 0, 1.
    """
    sizes = [*map(int, given.ty.shape.values)]
    wide = [*sizes[:axis], times, *sizes[axis:]]
    expanded = emit(op.broadcast_to(emit(op.expand_dims(given, axis)), wide))
    return emit(op.reshape(expanded, (sizes[0], sizes[1] * times, *sizes[2:])))


def attend_under(
    emit: Callable[[Any], Any],
    q: Any,
    k: Any,
    v: Any,
    given: Any,
    change: Callable[..., Any] = lambda emit, scores, given: op.add(scores, given),
) -> Any:
    """Attention with groups of heads under a mask that is an input."""
    times = int(q.ty.shape.values[1]) // int(k.ty.shape.values[1])
    if times > 1:
        k, v = (repeat_heads(emit, it, times) for it in (k, v))
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    weights = emit(op.nn.softmax(emit(change(emit, scores, given))))
    weights = (
        emit(op.astype(weights, str(v.ty.dtype))) if v.ty.dtype != weights.ty.dtype else weights
    )
    return op.matmul(weights, v)


def scale_and_add(emit: Callable[[Any], Any], scores: Any, given: Any) -> Any:
    return op.add(given, emit(op.multiply(scores, constant_like(0.5, scores))))


UNDER: dict[str, tuple[Any, ...]] = {
    "for all heads": (attend_under, GROUPS, (1, 1, 6, 9)),
    "for each head": (attend_under, GROUPS, (1, 4, 6, 9)),
    "of two axes": (attend_under, GROUPS, (6, 9)),
    "of keys alone": (attend_under, ((2, 2, 6, 8),) * 3, (2, 1, 1, 6)),
    "in front, scaled before": (attend_under, GROUPS, (1, 6, 9), scale_and_add),
    "a minimum": (attend_under, GROUPS, (1, 1, 6, 9), cut),
    "broadcast before": (
        attend_under,
        GROUPS,
        (1, 1, 1, 9),
        lambda emit, scores, given: op.add(scores, emit(op.broadcast_to(given, (1, 1, 6, 9)))),
    ),
    "of the operator": (
        lambda emit, *given: emit(op.nn.attention(*given)),
        ((2, 6, 3, 8), (2, 9, 3, 8), (2, 9, 3, 8)),
        (2, 3, 6, 9),
    ),
    "of the operator, causal": (
        lambda emit, *given: emit(op.nn.attention(*given, causal_mask="BottomRight", scale=0.5)),
        ((2, 6, 3, 8), (2, 9, 3, 8), (2, 9, 3, 8)),
        (1, 1, 6, 9),
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", UNDER)
def test_a_mask_that_is_data_is_taken_and_computes_the_same(name: str, dtype: str) -> None:
    build, shapes, shape, *more = UNDER[name]
    plain = write(lambda *given: build(*given, *more), *shapes, shape, dtype=dtype)
    fuser = rules.FuseAttention()
    fused = fuser(plain)
    assert fuser.reasons == {}
    text = fused["forward"].script()
    assert text.count("R.call_tir(") == text.count("fused_attention") == 1
    for operator in ("softmax", "R.nn.", "R.add", "R.minimum", "R.expand_dims", "R.broadcast_to"):
        assert operator not in text
    # Values that hide all, and that hide nothing, of a mask; some queries have no other key.
    wide = {"values": [-np.inf, LOWEST, 0.0, LOWEST, 3.0], "place": 3}
    for hides in ({}, wide) if "causal" not in name else ({},):  # TVM's maximum has the hidden ones
        results = [run_on_the_cpu(it, **hides).astype("float64") for it in (plain, fused)]
        tolerance = 1e-5 if dtype == "float32" else 4e-3
        np.testing.assert_allclose(*results, rtol=tolerance, atol=tolerance)


def test_heads_that_are_repeated_together_are_not_taken_for_groups() -> None:
    def build(emit: Any, q: Any, k: Any, v: Any) -> Any:
        return attend(emit, q, *(repeat_heads(emit, it, 2, axis=1) for it in (k, v)))

    plain = write(build, *GROUPS)
    fused = rules.FuseAttention()(plain)
    text = fused["forward"].script()
    assert (text.count("fused_attention"), text.count("R.broadcast_to")) == (1, 2)
    np.testing.assert_allclose(run_on_the_cpu(fused), run_on_the_cpu(plain), rtol=1e-5, atol=1e-5)


BY_HEADS = (1, 4, 70, 16), (1, 2, 77, 16), (1, 2, 77, 16), (1, 1, 70, 77)
BY_ROWS = (1, 70, 2, 16), (1, 77, 2, 16), (1, 77, 2, 16), (1, 2, 70, 77)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("build", "shapes"),
    [(attend_under, BY_HEADS), (lambda emit, *given: emit(op.nn.attention(*given)), BY_ROWS)],
)
def test_the_rules_schedule_a_mask_and_the_simulator_computes_the_same(
    build: Any, shapes: Any, dtype: str
) -> None:
    module = fuse(rules.FuseAttention()(write(build, *shapes, dtype=dtype)))
    (plain,) = list_functions(module).values()
    with GPU:
        ours = rules.cuda(tensor_cores=True)
        scheduled = dlight.ApplyDefaultSchedule(*ours)(module.clone())
    (made,) = list_functions(scheduled).values()
    assert ("wgmma" in made.script()) == (dtype == "float16")
    assert find_difference(tvm.IRModule({"main": made}), plain) == ""
    assert relax.build(scheduled, GPU, tir_pipeline="tirstep") is not None


def call(build: Callable[..., Any], *others: Any, shapes: Any = (HEADS,) * 3, **more: Any) -> Any:
    return lambda: write(build, *shapes, *others, **more)


def change(function: Callable[[Any], Any], shapes: Any = (HEADS,) * 3) -> Any:
    return call(lambda emit, *given: attend(emit, *given, change=function), shapes=shapes)


ATTENTION = op.nn.attention
LEFT: dict[str, tuple[Callable[[], tvm.IRModule], str]] = {
    "another axis": (
        call(lambda emit, *it: attend(emit, *it, weigh=lambda s: op.nn.softmax(s, axis=-2))),
        "softmax is over axis -2",
    ),
    "a mask that is data and scaled": (
        call(
            lambda emit, q, k, v, m: attend(
                emit, q, k, v, change=lambda s: op.multiply(emit(op.add(s, m)), constant(0.5))
            ),
            (6, 6),
        ),
        "a scale, a floor or another mask comes after its mask",
    ),
    "two masks": (
        call(
            lambda emit, q, k, v, m: attend(
                emit, q, k, v, change=lambda s: op.add(emit(op.minimum(s, m)), m)
            ),
            (6, 6),
        ),
        "another mask comes after its mask",
    ),
    "a floor of what is hidden": (
        call(
            lambda emit, q, k, v, m: attend(
                emit, q, k, v, change=lambda s: op.maximum(emit(op.add(s, m)), constant(-1e5))
            ),
            (6, 6),
        ),
        "a floor or another mask comes after its mask",
    ),
    "a causal mask and another one": (
        call(
            lambda emit, q, k, v, m: attend(
                emit, q, k, v, change=lambda s: op.add(emit(op.add(s, m)), constant(mask()))
            ),
            (6, 6),
        ),
        "it has a causal mask and another one",
    ),
    "a mask of queries alone": (
        call(lambda emit, q, k, v, m: attend(emit, q, k, v, change=lambda s: op.add(s, m)), (6, 1)),
        "has no element for each of 6 keys",
    ),
    "a scale for each head": (change(scale([[[0.5]], [[0.25]]])), "scale is not one number"),
    "a scale below 0": (change(scale(-0.5)), "scale is not one number"),
    "a mask scaled down": (
        change(lambda s: op.multiply(op.add(s, constant(mask(-1e5))), constant(1e-3))),
        "a scale, a floor or another mask comes after its mask",
    ),
    "a cap": (change(lambda s: op.minimum(s, constant([3.0]))), "no element for each of 6 keys"),
    "a floor": (change(lambda s: op.maximum(s, constant(-3))), "raises scores that no mask hides"),
    "a soft cap": (change(op.tanh), "scores come from relax.tanh"),
    "a quotient": (change(lambda s: op.divide(constant(1), s)), "scale is not one number"),
    "dropout": (
        call(
            lambda emit, *it: attend(
                emit, *it, weigh=lambda s: emit(op.nn.dropout(emit(op.nn.softmax(s))))[0]
            )
        ),
        "",
    ),
    "scores are returned": (call(lambda *it: attend(*it, returns="scores")), "scores have other"),
    "probabilities are read": (
        call(lambda *it: attend(*it, returns="weights")),
        "probabilities have other",
    ),
    "open lengths": (
        lambda: write(attend, *[(1, 2, tvm.tirx.Var("n", "int64"), 8)] * 3),
        "are not known",
    ),
    "values of another width": (
        call(attend, shapes=(HEADS, HEADS, (1, 2, 6, 4))),
        "do not fit together",
    ),
    "one sequence of keys": (
        call(attend, shapes=((3, 2, 6, 8), HEADS, HEADS)),
        "do not fit together",
    ),
    "float64": (call(attend, dtype="float64"), "float64"),
    "the first keys of the operator": (
        call(
            lambda emit, *it: emit(ATTENTION(*it, causal_mask="TopLeft")),
            shapes=((1, 6, 2, 8), (1, 9, 2, 8), (1, 9, 2, 8)),
        ),
        "6 queries, and there are 9 keys",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_something_else_stays_as_it_is_and_says_why(name: str) -> None:
    make, reason = LEFT[name]
    plain, fuser = make(), rules.FuseAttention()
    assert tvm_ffi.structural_equal(fuser(plain), plain)
    assert reason in " ".join(fuser.reasons.values())
    assert len(fuser.reasons) == (reason != "")


def test_models_of_the_examples_have_theirs_fused_or_left_with_a_reason() -> None:
    """A U-Net's two attentions, of pixels and of a text; a decoder's, under a mask of its input."""
    example = runpy.run_path(str(ROOT / "examples" / "model_functions" / "models.py"))
    make_diffusion, make_decoder = example["make_diffusion"], example["make_decoder"]
    make_diffusion.__globals__["fuse"] = lambda module, _: module
    pieces = {
        2: make_diffusion(32, 4, text=48, groups=8, dtype="float32"),
        1: make_decoder(example["SMALL"], 8, 9, is_packed=False, dtype="float32"),
    }
    for count, plain in pieces.items():
        fused = rules.FuseAttention()(plain)
        assert fused["forward"].script().count("R.call_tir(fused_attention") == count
        results = [run_on_the_cpu(each) for each in (plain, fused)]
        np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)


def test_a_function_that_is_meant_for_another_backend_stays_whole() -> None:
    plain = write(attend, *[HEADS] * 3)
    for attribute in ("Composite", "Codegen", "Primitive"):
        marked = tvm.IRModule({"forward": plain["forward"].with_attr(attribute, "theirs")})
        assert rules.FuseAttention()(marked).same_as(marked)
