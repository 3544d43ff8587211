"""The programs: equal to the tutorials' ones, printable, with the names that recipes rely on."""

import importlib.util
import math
import re

import numpy as np
import pytest
import tvm
from kernels import parse_kernel
from tvm.ir import assert_structural_equal
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm_ffi import structural_walk

import tirstep.modules
from tirstep.modules import Problem, get_kernel, kernels, matmul, vector_add, window_sum
from tirstep.modules.kernel import kernel

NotesVectorAdd = parse_kernel("""
    A (1024,), B (1024,), C (1024,)
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    i:1024  C[i] = A[i] + B[i]
""")


NotesWindowSum = parse_kernel("""
    A (1027,), B (1024,)
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    for i in T.grid(1024):
        with T.sblock("C"):
            vi = T.axis.remap("S", [i])
            B[vi] = A[vi] + A[vi + 1] + A[vi + 2]
""")


NotesMatmul = parse_kernel("""
    A (1024, 1024), B (1024, 1024), C (1024, 1024)
    T.func_attr({"global_symbol": "main", "tirx.noalias": True})
    i:1024 j:1024 k:1024  C[i, j] += A[i, k] * B[k, j]
""")


@pytest.mark.parametrize(
    ("ours", "notes"),
    [
        (vector_add.problem(1024), NotesVectorAdd),
        (window_sum.problem(1024), NotesWindowSum),
        (matmul.problem(1024, 1024, 1024), NotesMatmul),
    ],
    ids=str,
)
def test_the_module_is_that_of_the_notes(ours: Problem, notes: tvm.IRModule) -> None:
    assert_structural_equal(ours.module, notes)
    # Structural equality ignores names, and recipes find blocks by them.
    assert ours.module.script() == notes.script()


@pytest.mark.share(2)
def test_scripts_parse_back(problem: Problem) -> None:
    text = problem.module.script()
    again = from_source(text)
    assert_structural_equal(again, problem.module)
    assert again.script() == text


def test_no_cast_where_the_types_are_equal_and_none_of_a_literal(problem: Problem) -> None:
    text = problem.module.script()
    assert not re.search(r"Cast\(\"\w+\", (T\.\w+\()?[-\d]", text)
    if {problem.accumulator, *(tensor.dtype for tensor in problem.outputs)} == {
        problem.options["dtype"]
    }:
        assert "Cast" not in text


def test_elements_are_those_of_the_largest_buffer(problem: Problem) -> None:
    """The limit of 2**31 is checked before there is a module, by a formula that this holds to.

    Of attention it is that of the arguments: what one kernel fuses has no scores in memory.
    """
    function = problem.module["main"]
    is_fused = problem.kernel.name == "attention"
    between = [] if is_fused else list(function.body.block.alloc_buffers)
    buffers = [*function.params, *between]
    largest = max(math.prod(int(extent) for extent in buffer.shape) for buffer in buffers)
    formula = problem.kernel.meaning.elements
    assert formula(**problem.shape, **problem.options) == largest


def test_stores_know_their_line() -> None:
    lines = []

    def note(store: tvm.tirx.BufferStore) -> None:
        lines.append((store.span.source_name.name, store.span.line))

    walked = (tvm.tirx.BufferStore, note)
    structural_walk(matmul(4, 3, 2, dtype="float16")["main"].body, walked)
    assert len(lines) == 2
    for path, line in lines:
        assert path.endswith("matmul.py")
        with open(path) as source:
            assert "C_acc[vi, vj] =" in source.readlines()[line - 1]


def test_every_kernel_has_every_type_that_a_gpu_computes_it_in() -> None:
    floats = {"float32", "float16", "bfloat16"}
    every = {*floats, "float8_e4m3fn", "float8_e5m2", "int8", "int32"}
    in_float32 = ("gelu", "matmul_bias_gelu", "softmax", "rms_norm", "layer_norm", "mlp_swiglu")
    fewer = dict.fromkeys((*in_float32, "rms_norm_matmul", "attention", "decode_attention"), floats)
    fewer["matmul"] = {*every, "tf32"}  # which its tensor cores compute it in
    fewer["row_argmax"] = {"float32", "float16"}
    fewer["relu"] = {*floats, "int8", "int32"}
    for name, made in kernels().items():
        assert set(made.dtypes) == fewer.get(name, every), name


def test_every_kernel_says_what_it_is() -> None:
    for name, made in kernels().items():
        assert made.name == name == made.__name__
        for word in ("operations", "KernelError", "block"):
            assert word in made.__doc__.lower() or word in made.__doc__, (name, word)
        assert repr(made).startswith(f"<kernel {name}(")


# A stranger's kernel, as kernel.py's docstring teaches it.
@kernel(
    reference=lambda a, b, *, scale, **_: scale * a * b,
    flops=lambda n, **_: 2 * n,
    elements=lambda n, **_: n,
    accumulators={"float32": ("float32",)},
    choices={"scale": (2, 3)},
)
def scaled_product(n: int, *, scale: int = 2, dtype: str = "float32") -> tvm.IRModule:
    N, factor = n, tvm.tirx.const(scale, dtype)

    @I.ir_module
    class ScaledProduct:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((N,), dtype), B: T.Buffer((N,), dtype), C: T.Buffer((N,), dtype)):
            for i in T.grid(N):
                with T.sblock("C"):
                    vi = T.axis.remap("S", [i])
                    C[vi] = factor * A[vi] * B[vi]

    return ScaledProduct


def test_a_kernel_made_elsewhere_works_and_stays_out_of_the_catalogue(run) -> None:
    problem = scaled_product.problem(n=7, scale=3)
    inputs = problem.integer_inputs(0)
    (got,) = run(problem.module, problem, inputs)
    assert got.tolist() == problem.reference(inputs)[0].tolist()
    assert "scaled_product" not in kernels()


def test_problems_compare_by_what_they_are() -> None:
    one, same = matmul.problem(4, 5, k=6), matmul.problem(4, k=6, n=5, acc="float32")
    assert one == same
    assert len({one, same, matmul.problem(4, 5, 7)}) == 2
    assert str(one) == (
        "matmul(m=4, n=5, k=6, dtype=float32, acc=float32, out=float32, transpose_b=False)"
    )
    assert one.module is one.module
    with pytest.raises(TypeError):
        one.shape["m"] = 1  # type: ignore[index]


def test_a_module_leaves_sizes_open_and_its_problem_does_not() -> None:
    one = matmul.problem(4, 5, 6, symbolic=("k", "m"))
    shapes = [tensor.shape for tensor in one.module["main"].params]
    assert [*map(str, shapes)] == ["(m, k)", "(k, T.int64(5))", "(m, T.int64(5))"]
    assert [tensor.shape for tensor in (*one.inputs, *one.outputs)] == [(4, 6), (6, 5), (4, 5)]
    assert str(one).endswith("transpose_b=False, symbolic=k m)")
    assert one != matmul.problem(4, 5, 6)
    assert_structural_equal(one.module, matmul(7, 5, 9, symbolic=("m", "k")), map_free_vars=True)


OPEN = {
    "window_sum": ((5,), (9,)),
    "conv1d": ((7, 3), (2, 5)),
    "conv2d": ((1, 4, 5, 2, 3, 3, 1), (2, 6, 3, 1, 2, 1, 3)),
    "batched_matmul": ((2, 3, 4, 5), (1, 6, 1, 7)),
    "depthwise_conv2d": ((1, 2, 3, 4, 5), (2, 1, 6, 3, 3)),
    "attention": ((1, 2, 3, 4, 5), (2, 1, 6, 7, 3)),
    "decode_attention": ((1, 2, 4, 5), (2, 1, 7, 3)),
}
"""Shapes of kernels that do not take any."""


@pytest.mark.share(3)
@pytest.mark.parametrize("name", kernels())
def test_every_size_of_every_kernel_can_be_open(run, name) -> None:
    made = get_kernel(name)
    count = len(made.size_names)
    shapes = OPEN.get(name, ((3, 4, 5)[:count], (6, 1, 7)[:count]))
    module = made(*shapes[0], symbolic=made.size_names)
    for shape in shapes:
        problem = made.problem(*shape)
        inputs = problem.integer_inputs(1)
        bounds = [0, 0] if problem.is_exact else problem.error_bound(inputs)
        results = run(module, problem, inputs), problem.reference(inputs), bounds
        for got, exact, bound in zip(*results, strict=False):
            assert (np.abs(got - exact) <= bound).all()


def test_the_package_has_one_name() -> None:
    spec = importlib.util.spec_from_file_location("modules", tirstep.modules.__file__)
    twin = importlib.util.module_from_spec(spec)
    with pytest.raises(ImportError, match=r"import it as tirstep\.modules"):
        spec.loader.exec_module(twin)
