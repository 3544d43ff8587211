"""Rules of dlight on a block of a transformer: all functions scheduled, and the model as right."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from kernels import parse_functions
from relax_functions import find_difference, list_functions, make_functions
from tvm import relax
from tvm.relax import op
from tvm.s_tir import Schedule, dlight
from tvm.tirx import For, PrimFunc

from tirstep import rules
from tirstep.lowering_checks import get_device
from tirstep.transforms import TransformError, get_pass_options
from tirstep.transforms.plans import make_recipe_rule, match_recipe, schedule_function
from tirstep.transforms.plans.plan import narrow_indices
from tirstep.transforms.recipes import find_recipe
from tirstep.transforms.recipes.mma import MmaConfig
from tirstep.transforms.recipes.wgmma import WgmmaConfig
from tirstep.transforms.tir import find_all, get_axis

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "transformer_block" / "block.py"
GPU = tvm.target.Target("nvidia/nvidia-h100")


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def is_on_threads(function: PrimFunc) -> bool:
    axes = {get_axis(loop) for loop in find_all(function.body, For)}
    return {"blockIdx.x", "threadIdx.x"} <= axes


@pytest.mark.share(6)
def test_all_functions_of_a_block_of_half_precision_are_scheduled(example: dict[str, Any]) -> None:
    scheduled = example["schedule_block"](example["make_block"]("n", "float16"))
    functions = list_functions(scheduled)
    assert len(functions) == 22
    assert all(map(is_on_threads, functions.values()))
    assert relax.build(scheduled, GPU, tir_pipeline="tirstep") is not None


@pytest.mark.share(6)
def test_the_scheduled_block_computes_the_same_through_the_virtual_machine(
    example: dict[str, Any],
) -> None:
    plain = example["make_block"]("n")
    scheduled = example["schedule_block"](plain)
    results = [example["run_on_the_cpu"](each, 13) for each in (plain, scheduled)]
    assert results[0].shape == (1, 13, 40)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
    np.testing.assert_allclose(results[0].sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "name", ["fused_matmul1_multiply_add_cast", "fused_softmax_cast1", "rms_norm", "matmul2"]
)
def test_functions_of_an_open_length_are_right_on_the_simulator(
    example: dict[str, Any], name: str
) -> None:
    plain = list_functions(example["make_block"]("n", "float16"))[name]
    module = tvm.IRModule({"main": plain})
    with GPU:
        scheduled = dlight.ApplyDefaultSchedule(*rules.cuda())(module.clone())
    for length in (3, 21):
        assert find_difference(scheduled, plain, length) == ""


def test_functions_are_lowered_with_the_options_that_they_ask_for(example: dict[str, Any]) -> None:
    """Together they become what each is alone, under the options that it notes."""
    scheduled = list_functions(example["schedule_block"](example["make_block"](24)))
    names = ("softmax", "transpose")
    chosen = {name: scheduled[name].with_attr("global_symbol", name) for name in names}
    options = {name: get_pass_options(tvm.IRModule({name: it})) for name, it in chosen.items()}
    assert options["softmax"] != options["transpose"] == {}
    together = compile_source(tvm.IRModule(chosen), {})
    for name, function in chosen.items():
        alone = compile_source(tvm.IRModule({name: function}), options[name])
        *_, kernel = (part for part in alone.split('extern "C"') if f"{name}_kernel" in part)
        assert "{" in kernel
        assert kernel.strip() in together


def compile_source(module: tvm.IRModule, options: dict[str, Any]) -> str:
    with tvm.transform.PassContext(config=options):
        executable = tvm.compile(module, GPU, tir_pipeline="tirstep")
    return str(executable.mod.imports[0].inspect_source())


def test_a_function_that_no_rule_takes_is_left_with_reasons() -> None:
    (function,) = make_functions(lambda x: op.argmax(x, axis=1), (3, 70)).values()
    module, ours = tvm.IRModule({"main": function}), rules.cuda()
    with GPU:
        dlight.ApplyDefaultSchedule(*ours)(module)
    assert "tirx.is_scheduled" not in module["main"].attrs
    assert ["2 results" in str(rule.reasons) for rule in ours] == [False, False, False, True, False]
    assert all(list(rule.reasons) == ["x0_red_temp x0_red"] for rule in ours)


def test_rules_leave_other_targets_alone() -> None:
    (function,) = make_functions(op.nn.gelu, (3, 41)).values()
    for rule in rules.cuda():
        assert rule.apply(function, tvm.target.Target("llvm"), False) is None


def test_rules_use_tensor_cores_where_they_are_asked() -> None:
    halves = ((64, 48, "float16"), (48, 32, "float16"))
    (function,) = make_functions(op.matmul, *halves).values()
    first, *_ = rules.cuda(tensor_cores=True)
    made = first.apply(function, GPU, False)
    assert made is not None
    assert "ptx" in made.mod.script()
    assert find_difference(made.mod, function) == ""


FUNCTIONS = parse_functions("""
quantized: x (T.int64(64), T.int64(64)) float16, words (T.int64(48), T.int64(8)) uint32,
    C (T.int64(64), T.int64(48)) float16
    weights (T.int64(48), T.int64(64)) float16
    i:T.int64(48) j:T.int64(64)  weights[i, j] = T.Cast("float16", T.bitwise_and(T.shift_right(
        words[i, j // T.int64(8)], T.Cast("uint32", j % T.int64(8) * T.int64(4))), T.uint32(15))
        ) - T.float16(7)
    i:T.int64(64) j:T.int64(48) k:T.int64(64)  C[i, j] += x[i, k] * weights[j, k]

linear: x (T.int64(64), T.int64(128)) float16, w (T.int64(72), T.int64(128)) float16,
    bias (T.int64(72),) float16, out (T.int64(64), T.int64(72)) float16
    sums (T.int64(64), T.int64(72)) float16, added (T.int64(64), T.int64(72)) float16
    i:T.int64(64) j:T.int64(72) k:T.int64(128)  sums[i, j] += x[i, k] * w[j, k]
    i:T.int64(64) j:T.int64(72)  added[i, j] = sums[i, j] + bias[j]
    i:T.int64(64) j:T.int64(72)  out[i, j] = T.max(added[i, j], T.float16(0))
""")
"""Linear layers: of weights in four bits; and of rows by rows, a bias and what is positive."""


def unpack(words: np.ndarray) -> np.ndarray:
    """Eight numbers of four bits of each word."""
    return ((words[..., None] >> np.arange(0, 32, 4, "uint32")) & 15).reshape(len(words), -1) - 7.0


def make_one(build: Callable[..., Any], *tensors: tuple[Any, ...]) -> PrimFunc:
    (function,) = make_functions(build, *tensors).values()
    return function


PRODUCTS = {
    "rows of weights, bias and relu": (
        lambda: FUNCTIONS["linear"],
        lambda x, w, b: np.maximum(x @ w.T + b, 0),
    ),
    "batch": (
        lambda: make_one(op.matmul, (2, 64, 64, "float16"), (2, 64, 64, "float16")),
        lambda a, b: a @ b,
    ),
    "odd sizes": (
        lambda: make_one(op.matmul, (67, 70, "bfloat16"), (70, 35, "bfloat16")),
        lambda a, b: a @ b,
    ),
    "float32 results": (
        lambda: make_one(
            lambda a, b: op.matmul(a, b, out_dtype="float32"),
            *((64, 64, "float16"), (64, 64, "float16")),
        ),
        lambda a, b: a @ b,
    ),
    "weights of four bits": (lambda: FUNCTIONS["quantized"], lambda x, words: x @ unpack(words).T),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PRODUCTS)
def test_functions_of_relax_run_by_wgmma_and_round_once(name: str) -> None:
    """Indices of 64 bits and sums that a model declares in float16; against float64."""
    make, compute = PRODUCTS[name]
    function, dice = make(), np.random.default_rng(0)
    made = rules.cuda(tensor_cores=True)[0].apply(function, GPU, False)
    assert made is not None
    assert "wgmma" in made.mod.script()
    arrays = []
    for tensor in function.params[:-1]:
        shape = [int(size) for size in tensor.shape]
        drawn = dice.integers(0, 2**32, shape) if tensor.dtype == "uint32" else dice.random(shape)
        arrays.append(np.asarray(drawn).astype(str(tensor.dtype)))
    last = function.params[-1]
    blank = np.full([int(size) for size in last.shape], np.nan).astype(str(last.dtype))
    program = get_device("simulator").compile(made.mod)
    result = program([*arrays, blank])[-1].astype("float64")
    assert program.findings == []
    wide = [it if it.dtype == "uint32" else it.astype("float64") for it in arrays]
    exact = compute(*wide)
    rounding = {"float16": 2**-11, "bfloat16": 2**-8}.get(str(last.dtype), 2**-22)
    once = 2 if name.startswith("rows") else 1  # the sum, and what is added
    assert (abs(result - exact) <= (once * rounding + 2**-18) * abs(exact).max()).all()


@pytest.mark.parametrize(
    ("arch", "has_wgmma"), [("sm_90a", True), ("sm_90", False), ("sm_80", False)]
)
def test_wgmma_is_for_targets_that_have_it(arch: str, has_wgmma: bool) -> None:
    """A device says sm_90 of an H100; sm_90a is what has wgmma."""
    function = make_one(op.matmul, (64, 64, "float16"), (64, 48, "float16"))
    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    made = rules.cuda(tensor_cores=True)[0].apply(function, target, False)
    assert made is not None
    text = made.mod.script()
    assert ("wgmma" in text) == has_wgmma
    assert "ptx" in text
    assert ('"float32", scope="local"' in text or "float32(0" in text) == has_wgmma


def test_indices_of_64_bits_are_none_for_wgmma() -> None:
    """A schedule has them where no rule narrows them, and mma.sync takes them."""
    function = make_one(op.matmul, (64, 64, "float16"), (64, 48, "float16"))
    sch = Schedule(function)
    plan, config = schedule_function(sch, tensor_cores=True)
    assert (plan, type(config)) == ("matmul", MmaConfig)
    narrow = Schedule(narrow_indices(function))
    assert isinstance(schedule_function(narrow, tensor_cores=True)[1], WgmmaConfig)


TAKEN: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("matmul_swizzled", op.matmul, ((3, 33, 20), (3, 20, 17))),
    ("matmul_tiled", op.matmul, ((64, 32), (32, 64))),
    ("softmax_vectors", lambda x: op.nn.softmax(x, axis=-1), ((2, 6, 40),)),
    ("rms_norm_vectors", lambda x: op.sum(x, axis=-1), ((5, 2, 64),)),
    ("gelu_vectors", op.nn.relu, ((3, 5, 7),)),
    ("transpose_naive", lambda x: op.permute_dims(x), ((40, 24),)),
]


@pytest.mark.parametrize(("name", "build", "tensors"), TAKEN)
def test_a_recipe_is_a_rule_for_functions_of_other_names(
    name: str, build: Callable[..., Any], tensors: tuple[Any, ...]
) -> None:
    recipe = find_recipe(name)
    (function,) = make_functions(build, *tensors).values()
    roles = match_recipe(recipe, function)
    assert roles, str(roles)
    made = make_recipe_rule(recipe).apply(function, GPU, False)
    assert made is not None
    assert find_difference(made.mod, function) == ""


def test_a_recipe_that_does_not_match_says_why() -> None:
    (function,) = make_functions(op.nn.gelu, (3, 41)).values()
    for name, reason in (
        ("matmul_swizzled", "no matmul: 0 blocks reduce"),
        ("matmul_tiled", "no matmul_tiled: the blocks are 'T_multiply"),
        ("transpose_naive", "no transpose_naive: the blocks are"),
    ):
        missing = match_recipe(find_recipe(name), function)
        assert not missing
        assert reason in str(missing)


def test_match_and_choose_of_a_rule() -> None:
    (function,) = make_functions(op.matmul, (32, 16), (16, 24)).values()
    recipe = find_recipe("matmul_prefetched")
    seen: list[Any] = []

    def choose(given: PrimFunc) -> dict[str, object] | None:
        seen.append(given)
        return {"threads": (4, 8), "thread_tile": (4, 4), "tile_k": 8, "strided": False}

    rule = make_recipe_rule(recipe, choose=choose)
    made = rule.apply(function, GPU, False)
    assert made is not None
    assert seen[0].same_as(function)
    threads = [loop for loop in find_all(made.mod["main"].body, For) if get_axis(loop) is not None]
    assert {int(loop.extent) for loop in threads if get_axis(loop) == "threadIdx.x"} == {32}
    for rule, reason in (
        (make_recipe_rule(recipe, match=lambda _: False), "its match rejects it"),
        (make_recipe_rule(recipe, choose=lambda _: None), "no config is chosen"),
    ):
        assert rule.apply(function, GPU, False) is None
        assert rule.reasons == {"matmul": f"no matmul_prefetched: {reason}"}
    with pytest.raises(TransformError, match="there is no knob 'thread'; did you mean 'threads'"):
        make_recipe_rule(recipe, choose=lambda _: {"thread": 3}).apply(function, GPU, False)


def test_an_unknown_gpu_is_refused_before_anything_is_scheduled() -> None:
    with pytest.raises(TransformError, match="the properties of 'NVIDIA A101' are not known"):
        rules.cuda(device="NVIDIA A101")
    assert rules.cuda(device="multiprocessors=84 megahertz=1695 shared_kib=99 gigabytes=936")
