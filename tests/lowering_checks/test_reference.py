"""The reference of modules that no kernel says the meaning of."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from foreign_modules import MODULES, Argmax, OutputFirst, Symbolic
from kernels import at_block
from tvm.s_tir import dlight
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks.bisect import bisect_run
from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.lowering_checks.devices.simulator import SimulatorDevice
from tirstep.lowering_checks.numeric import INTEGERS, check_numbers, make_cases
from tirstep.lowering_checks.reference import ModuleKernel, ModuleProblem
from tirstep.lowering_checks.steps import run_recipe
from tirstep.lowering_checks.verdict import judge_run
from tirstep.modules import KernelError, get_kernel, kernels
from tirstep.modules.error_bounds import bound_computing
from tirstep.transforms.recipes import RECIPES, Example, recipe

SHAPES = {each.kernel_name: each.golden.shape for each in RECIPES.values()}
SHAPES["row_argmax"] = {"m": 6, "n": 37}
SHAPES["attention"] = {"batch": 2, "heads": 2, "queries": 5, "keys": 9, "dim": 4}
SHAPES["decode_attention"] = {"batch": 2, "heads": 2, "keys": 9, "dim": 4}
SHAPES["mlp_swiglu"] = SHAPES["rms_norm_matmul"] = {"m": 6, "n": 5, "k": 16}
FAST = [dlight.gpu.Matmul(), dlight.gpu.Reduction(), dlight.gpu.Fallback()]
PLANTED = [
    ("MatmulRelu", "T.grid(32, 40, 48)", "T.grid(32, 40, 47)", "a lost tail"),
    ("MatmulRelu", "Y[vi, vj] = T.float32(0.0)", "Y[vi, vj] = Y[vi, vj]", "no start"),
    ("MatmulRelu", "T.max(Y", "T.min(Y", "another extreme"),
    ("OutputFirst", "if vi < n:", "if vi <= n:", "a guard off by one"),
    ("OutputFirst", "Y[vi] + alpha * X[vi]", "alpha * X[vi]", "a lost input"),
    ("Attention", "vj <= vi", "vj < vi + 2", "another mask"),
    ("Attention", "0.25", "0.2501", "another scale"),
    ("Attention", "P[vi, vk] - top[vi]", "top[vi] - P[vi, vk]", "swapped operands"),
    (
        "Attention",
        'T.Cast("float32", Q[vi, vk]) * T.Cast("float32", K[vj, vk])',
        'T.Cast("float32", Q[vi, vk] * K[vj, vk])',
        "a product in float16",
    ),
    ("Argmax", "index[vi], vk)", "index[vi], vk + 1)", "an index off by one"),
    ("Argmax", "T.grid(16, 40)", "T.grid(16, 39)", "a lost column"),
    ("Argmax", "T.float32(-340282346638528859811704183484516925440.0)", "T.float32(0)", "0 first"),
    ("Gather", "near[vi] < 10", "near[vi] < 9", "a guard too tight"),
    ("Gather", "near[vi] >= 0", "near[vi] >= -1", "a guard too loose"),
    ("Cumsum", "if vj == 0:", "if vj <= 1:", "a sum that starts again"),
    ("Int8Conv", "vh < 19", "vh < 18", "a row of zeros too many"),
    (
        "Int8Conv",
        'T.Cast("int32", padded[vh + vy, vw + vx, vc]) * T.Cast("int32", W[vy, vx, vc, vo])',
        'T.Cast("int32", padded[vh + vy, vw + vx, vc] * W[vy, vx, vc, vo])',
        "a product in int8",
    ),
    ("Half", "H[vi, vk]", "H[vi, vk // 2]", "another column"),
]


def make_problem(name: str) -> ModuleProblem:
    return ModuleKernel(MODULES[name], name).problem()


@pytest.mark.share(9)
@pytest.mark.parametrize("name", list(kernels()))
def test_the_catalogue_means_what_numpy_says(name: str) -> None:
    """Values as NumPy has them, and bounds as tight as those of its arrays."""
    for dtype in get_kernel(name).dtypes[:2]:
        ours = get_kernel(name).problem(**SHAPES[name], dtype=dtype)
        theirs = ModuleKernel(ours.module, name).problem()
        assert [each.name for each in theirs.outputs] == [each.name for each in ours.outputs]
        # Of sums of whole numbers, what a program knows of its gelu is up to 300 times as loose.
        steep = 300 if name == "matmul_bias_gelu" else 1.3
        for inputs, loose in ((ours.float_inputs(0), 1.3), (ours.integer_inputs(0), steep)):
            found = zip(
                ours.reference(inputs),
                theirs.reference(inputs),
                bound_computing(ours, inputs),
                theirs.answer(inputs).errors.values(),
                strict=True,
            )
            for right, value, bound, error in found:
                # Constants are those of float32 in the program, and NumPy's in the kernel.
                assert np.all(np.abs(right - value) <= 1e-12 * np.abs(right) + bound + error)
                assert np.all(error <= loose * bound + 1e-30), dtype
        if ours.is_exact:
            assert theirs.is_exact
            assert theirs.answer(ours.integer_inputs(0)).is_exact


@pytest.mark.share(6)
@pytest.mark.parametrize("name", list(MODULES))
def test_a_module_as_it_is_and_scheduled_is_right(name: str) -> None:
    problem = make_problem(name)
    assert not check_numbers(problem, problem.module, CpuDevice(), where=name)
    if name in ("OutputFirst", "Cumsum"):  # dlight has no schedule for these
        return
    with tvm.target.Target("nvidia/nvidia-a100"):
        scheduled = dlight.ApplyDefaultSchedule(*FAST)(problem.module)
    for device in (CpuDevice(), SimulatorDevice()):
        assert not check_numbers(problem, scheduled, device, where=name)


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "right", "wrong", "what"), PLANTED, ids=lambda text: text[:24])
def test_a_wrong_module_is_found(name: str, right: str, wrong: str, what: str) -> None:
    problem = make_problem(name)
    text = problem.module.script()
    assert right in text, what
    planted = tvm.script.from_source(text.replace(right, wrong))
    assert check_numbers(problem, planted, CpuDevice(), where=name), what


@T.prim_func
def silu(A: T.Buffer((64,), "float16"), C: T.Buffer((64,), "float16")) -> None:
    for i in range(64):
        C[i] = A[i] * T.float16(4) * T.sigmoid(A[i] * T.float16(4))


def test_a_sigmoid_of_halves_is_0_where_its_exponential_overflows() -> None:
    """Of -12 it is 6e-6, and 1 / (1 + exp(12)) of float16, as TVM has it, 0."""
    problem = ModuleKernel(tvm.IRModule({"main": silu}), "silu").problem()
    values = np.linspace(-5, 5, 64).astype("float16")
    _, results = CpuDevice().compile(problem.module)([values, values * 0])
    assert not results[values < -3].any()
    assert not check_numbers(problem, problem.module, CpuDevice(), where="silu")
    text = problem.module.script()
    planted = tvm.script.from_source(text.replace("T.sigmoid(A", "T.tanh(A"))
    assert check_numbers(problem, planted, CpuDevice(), where="silu")
    (error,) = problem.answer([values]).errors.values()
    near = values.astype("float64") * 4
    assert np.all(error < np.maximum(5e-2 * np.abs(near / (1 + np.exp(-near))), 2e-4 * abs(near)))


@T.prim_func
def by_hand(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")) -> None:
    for i in range(64):
        C[i] = A[i] / (T.float32(1) + T.exp(T.float32(0) - A[i]))


@T.prim_func
def largest(A: T.Buffer((2, 500), "float32"), C: T.Buffer((2,), "float32")) -> None:
    for i in range(2):
        C[i] = T.min_value("float32")
        for j in range(500):
            C[i] = T.max(C[i], A[i, j])


@T.prim_func
def saturated(A: T.Buffer((40,), "int32"), C: T.Buffer((40,), "int8")) -> None:
    for i in range(40):
        C[i] = T.Cast("int8", T.min(T.max(A[i], -128), 127))


@T.prim_func
def largest8(A: T.Buffer((16, 50), "int8"), C: T.Buffer((16,), "int8")) -> None:
    for i in range(16):
        C[i] = T.min_value("int8")
        for j in range(50):
            C[i] = T.max(C[i], A[i, j])


@T.prim_func
def halves(A: T.Buffer((16,), "int8"), B: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int8")):
    for i in range(16):
        C[i] = T.Cast("int8", (T.Cast("int32", A[i]) + T.Cast("int32", B[i])) // 2)


@T.prim_func
def halves8(A: T.Buffer((16,), "int8"), B: T.Buffer((16,), "int8"), C: T.Buffer((16,), "int8")):
    for i in range(16):
        C[i] = (A[i] + B[i]) // T.int8(2)


SUM = '(T.Cast("int32", A[i]) + T.Cast("int32", B[i])) // 2'


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("function", "right", "wrong"),
    [
        (largest8, "range(50)", "range(49)"),
        (largest8, "range(50)", "range(1, 50)"),
        (halves, SUM, 'T.Cast("int32", A[i] + B[i]) // 2'),
        (largest, "range(500)", "range(499)"),
        (largest, "range(500)", "range(1, 500)"),
        (largest, "T.max(C[i]", "T.min(C[i]"),
        (saturated, "T.max(A[i], -128)", "A[i]"),
        (saturated, "T.min(T.max(A[i], -128), 127)", "T.max(A[i], -128)"),
        (saturated, "-128", "-127"),
        (by_hand, "- A[i]", "- T.max(A[i], T.float32(-88.5))"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_what_only_extremes_show_is_found(
    function: tvm.tirx.PrimFunc, right: str, wrong: str, seed: int
) -> None:
    """One column of 500, integers beyond what they are clipped to, exponentials that overflow."""
    problem = ModuleKernel(tvm.IRModule({"main": function}), "function").problem()
    assert not check_numbers(problem, problem.module, CpuDevice(), where="", seed=seed)
    text = problem.module.script()
    assert right in text
    planted = tvm.script.from_source(text.replace(right, wrong))
    assert check_numbers(problem, planted, CpuDevice(), where="", seed=seed)


def test_nothing_overflows_on_the_way_to_a_quotient() -> None:
    """A program that adds in int8 is run on what that holds, which its quotient does not show."""
    problem = ModuleKernel(tvm.IRModule({"main": halves8}), "halves").problem()
    for case in make_cases(problem, 0, False):
        total = case.inputs[0].astype("int32") + case.inputs[1]
        assert total.min() >= -128
        assert total.max() <= 127


def test_a_missing_barrier_is_found() -> None:
    problem = make_problem("MatmulRelu")
    with tvm.target.Target("nvidia/nvidia-a100"):
        scheduled = dlight.ApplyDefaultSchedule(dlight.gpu.Matmul())(problem.module)
    with tvm.transform.PassContext(disabled_pass=["s_tir.ThreadSync"]):
        findings = check_numbers(problem, scheduled, SimulatorDevice(), where="")
    assert findings[0].message.startswith("race: ")


@pytest.mark.parametrize("part", [0, 1], ids=["runs", "columns"])
def test_another_order_of_pairs_is_right(part: int) -> None:
    """An argmax whose parts are found apart, with equal elements or not.

    Parts that are every eighth column take another one of equal elements than the program.
    """
    problem = ModuleKernel(Argmax, "argmax").problem()
    sch, block, *_ = at_block(problem.module, "best")
    loops = sch.split(sch.get_loops(block)[1], [None, 8])
    sch.rfactor(loops[part], 1)
    assert not check_numbers(problem, sch.mod, CpuDevice(), where="")
    ties = [np.round(problem.float_inputs(0)[0] * 2).astype("float32")]
    program = CpuDevice().compile(sch.mod)
    index, _ = program(problem.make_arguments(ties, [blank(each) for each in problem.outputs]))[1:]
    (low, high), _ = problem.error_interval(ties)
    assert np.all((low <= index) & (index <= high))


def test_a_recipe_takes_a_module_and_its_wrong_step_is_found() -> None:
    kernel = ModuleKernel(Symbolic, "scaled")
    example = Example({"n": 8, "m": 8})

    @recipe(kernel=kernel, blocks=("B",), default_example=example, golden=example)
    def diagonal(sch):
        i, j = sch.get_loops(sch.get_sblock("B"))
        sch.bind(i, "blockIdx.x")
        yield "rows"
        sch.bind(j, "blockIdx.x")
        yield "again"

    run = run_recipe(diagonal, {"n": 8, "m": 8})
    assert run.recipe.kernel_name == "scaled"
    verdicts = list(judge_run(run, SimulatorDevice()))
    assert [bool(verdict.numbers) for verdict in verdicts] == [False, False, True]
    bad = bisect_run(run).first_bad
    assert bad.label == "step 2 again"


def test_arguments_of_every_kind() -> None:
    problem = ModuleKernel(OutputFirst, "axpy").problem()
    assert [each.name for each in problem.inputs] == ["Y", "alpha", "n", "X"]
    assert [each.name for each in problem.outputs] == ["Y", "total"]
    assert problem.in_out == (0,)
    assert problem.module["main"].attrs["global_symbol"] == "main"


def test_sizes_that_are_open() -> None:
    kernel = ModuleKernel(Symbolic, "scaled")
    assert kernel.size_names == ("n", "m")
    problem = kernel.problem(5, m=7)
    assert problem.outputs[0].shape == (5, 7)
    assert not check_numbers(problem, problem.module, CpuDevice(), where="")
    for sizes, sentence in [
        ({}, "scaled: n, m must have a value; give n=64, m=64"),
        ({"n": 4, "m": 4, "k": 4}, "scaled: there is no size 'k'; its symbolic sizes: n, m"),
        ({"n": 0, "m": 4}, "scaled: n=0 is not a size; give an integer >= 1"),
    ]:
        with pytest.raises(KernelError, match=f"^{re.escape(sentence)}$"):
            kernel.problem(**sizes)


@I.ir_module
class Refused:
    @T.prim_func(s_tir=True)
    def packed(A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("A"):
                vi = T.axis.opaque(4, i)
                A[vi] = T.call_extern("float32", "mystery", A[vi])

    @T.prim_func(s_tir=True)
    def pointer(a: T.handle, A: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = T.float32(1)

    @T.prim_func(s_tir=True)
    def bits(A: T.Buffer((4,), "float8_e4m3fn"), B: T.Buffer((4,), "int8")):
        for i in range(4):
            with T.sblock("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = T.reinterpret("int8", A[vi])

    @T.prim_func
    def beyond(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i + 3]

    @T.prim_func
    def behind(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(5):
            B[3 - i] = A[0]

    @T.prim_func
    def exchange(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            S[tx] = A[tx]
            B[tx] = S[7 - tx]


@I.ir_module
class Allowed:
    @T.prim_func
    def guarded(A: T.Buffer((9,), "float32"), B: T.Buffer((9,), "float32")):
        for i in range(12):
            if i < 9:
                B[i] = T.if_then_else(i + 1 < 9, A[i + 1], T.float32(0))

    @T.prim_func
    def asked(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for i in range(9):
            B[i] = 0
            if i + 1 < 9 and A[i + 1] > 0:
                B[i] = 1

    @T.prim_func
    def own(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(2, thread="threadIdx.x"):
            S = T.alloc_buffer((8,), "float32", scope="shared")
            for i in range(4):
                S[tx * 4 + i] = A[tx * 4 + i]
            for i in range(4):
                B[tx * 4 + i] = S[tx * 4 + 3 - i]

    @T.prim_func
    def digits(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        left = T.alloc_buffer((1,), "int32")
        for i in range(9):
            B[i] = 0
            left[0] = A[i]
            while left[0] > 0:
                left[0] = left[0] // 2
                B[i] = B[i] + 1


@pytest.mark.parametrize("name", ["guarded", "asked", "own", "digits"])
def test_what_is_within_and_ends_is_judged(name: str) -> None:
    """Indices behind a condition, a part of shared memory for each thread, and a ``while``."""
    problem = ModuleKernel(Allowed, "mine", name).problem()
    assert not check_numbers(problem, problem.module, CpuDevice(), where="")
    (inputs, *_) = problem.integer_rounds(0)
    (answer,) = problem.reference(inputs)
    if name == "digits":
        assert answer.tolist() == [max(int(each), 0).bit_length() for each in inputs[0]]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("packed", "it calls 'mystery', and only the device knows what that computes"),
        ("pointer", ": a is an opaque pointer; match it to a buffer"),
        ("bits", "the bits of float8_e4m3fn as int8 have no meaning here"),
        ("beyond", "the index of A[i + 3] leaves its buffer; guard it with a condition, or make"),
        ("behind", "the index of B[3 - i] leaves its buffer"),
        ("exchange", "threads exchange values in 'S'; name a plain program that"),
        (
            None,
            "the module has the functions behind, beyond, bits, exchange, packed, pointer; name",
        ),
        ("pakced", "there is no function 'pakced'; "),
    ],
)
def test_what_cannot_be_judged_is_a_sentence(function: str | None, sentence: str) -> None:
    def use() -> None:
        ModuleKernel(Refused, "mine", function).problem().float_inputs(0)

    with pytest.raises(KernelError) as caught:
        use()
    assert str(caught.value).startswith("mine: ")
    assert sentence in str(caught.value)


@I.ir_module
class Picked:
    @T.prim_func
    def main(
        X: T.Buffer((16,), "float32"), at: T.Buffer((4,), "int32"), Y: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            Y[i] = X[at[i]]


@pytest.mark.parametrize("is_known", [True, False])
def test_recorded_integers_come_first_and_a_whole_call_is_a_round(is_known: bool) -> None:
    x, at = np.linspace(0, 1, 16, dtype="float32"), np.array([15, 3, 3, 0], "int32")
    called = [x if is_known else None, at, None]
    problem = ModuleKernel(Picked, "picked", recorded=called).problem()
    cases = make_cases(problem, 0, False)
    assert cases[0].inputs[1].tolist() == at.tolist()
    first = next(case for case in cases if case.rows != INTEGERS)
    assert (first.name_at((0,)) == "the recorded call, seed 0") == is_known
    assert np.array_equal(first.inputs[0], x) == is_known
    assert all(drawn[1].tolist() == at.tolist() for drawn in problem.draw_unmeasured(0))
    elsewhere = ModuleKernel(Picked, "picked", recorded=[None, at[:3], None]).problem()
    assert elsewhere.recorded_integers == {}
