"""What a kernel cannot be is refused with a sentence, before a module is made."""

import numpy as np
import pytest
import tvm

from tirstep.modules import (
    KernelError,
    conv1d,
    depthwise_conv2d,
    gelu,
    get_kernel,
    kernels,
    matmul,
    relu,
    softmax,
    vector_add,
    window_sum,
)
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.kernel import kernel


@pytest.fixture(autouse=True)
def no_module_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("a refused kernel was made all the same")

    for made in kernels().values():
        monkeypatch.setattr(made, "factory", fail)


def test_too_many_sizes() -> None:
    sentence = r"^matmul: got 5 sizes for m, n and k; leave out the last 2$"
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, 4, 5)


def test_too_few_sizes() -> None:
    with pytest.raises(KernelError, match=r"^matmul: size k is missing; give m, n and k$"):
        matmul(1, 2)
    with pytest.raises(KernelError, match=r"^vector_add: size n is missing; give n$"):
        vector_add()


def test_a_size_twice() -> None:
    sentence = r"^matmul: size m is given twice; give it by place or by name$"
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, m=1)


@pytest.mark.parametrize(
    ("size", "kind"), [(3.0, "float"), ("3", "str"), (True, "bool"), (None, "NoneType")]
)
def test_a_size_that_is_no_int(size: object, kind: str) -> None:
    with pytest.raises(KernelError, match=rf"^matmul: size n=.* is of type {kind}; give an int$"):
        matmul(1, size, 3)


@pytest.mark.parametrize("size", [0, -7])
def test_a_size_below_one(size: int) -> None:
    with pytest.raises(KernelError, match=rf"^matmul: size k={size} is below 1; give 1 or more$"):
        matmul(1, 2, size)


@pytest.mark.parametrize(
    ("kernel", "sizes", "elements"),
    [
        (vector_add, (2**31,), 2**31),
        (softmax, (2**16, 2**15), 2**31),
        (window_sum, (2**31 - 3,), 2**31),
        (conv1d, (2**30, 2**30 + 1), 2**31),
        (matmul, (2**16, 2**15, 1), 2**31),
        (matmul, (2**16, 1, 2**15), 2**31),
        (matmul, (1, 2**16, 2**15), 2**31),
        (matmul, (10**30, 1, 1), 10**30),
        (depthwise_conv2d, (2**10, 2**10, 40, 40, 7), 2**20 * 46 * 46),
    ],
    ids=str,
)
def test_more_elements_than_indices(kernel, sizes: tuple[int, ...], elements: int) -> None:
    named = ", ".join(f"{n}={v}" for n, v in zip(kernel.size_names, sizes, strict=True))
    sentence = (
        rf"^{kernel.name}: {named} make a tensor of {elements} elements, and indices of 32 bits "
        r"end at 2147483647; choose smaller sizes$"
    )
    with pytest.raises(KernelError, match=sentence):
        kernel(*sizes)


def test_as_many_elements_as_indices_are_fine() -> None:
    assert vector_add.problem(2**31 - 1).shape == {"n": 2**31 - 1}


def test_an_open_size_that_is_none() -> None:
    sentence = r"^matmul: there is no size 'x' that could be symbolic; there are: m, n, k$"
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, symbolic=("m", "x"))
    sentence = r"^matmul: symbolic=\('m', 'm'\) names a size twice; name it once$"
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, symbolic=("m", "m"))


def test_an_unknown_option() -> None:
    sentence = r"^matmul: there is no option 'transposeb'; the nearest: transpose_b$"
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, transposeb=True)
    sentence = r"^vector_add: there is no option 'width'; there are: dtype$"
    with pytest.raises(KernelError, match=sentence):
        vector_add(1, width=3)


@pytest.mark.parametrize("dtype", ["float64", "float", "", None, 32, np.float32])
def test_an_unknown_dtype(dtype: object) -> None:
    sentence = (
        r"^matmul: dtype=.* is not possible; "
        r"choose 'float32', .* 'float8_e5m2', 'int8', 'int32' or 'tf32'$"
    )
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, dtype=dtype)


def test_a_type_that_is_for_other_kernels() -> None:
    sentence = r"^softmax: dtype='int8' is not possible; choose 'float32', 'float16' or 'bfloat16'$"
    with pytest.raises(KernelError, match=sentence):
        softmax(1, 2, dtype="int8")
    sentence = r"^relu: dtype='float8_e5m2' is not possible; choose 'float32', .* or 'int8'$"
    with pytest.raises(KernelError, match=sentence):
        relu(1, dtype="float8_e5m2")
    with pytest.raises(KernelError, match=r"^gelu: approximate='none' is not possible; choose"):
        gelu(1, approximate="none")


@pytest.mark.parametrize(
    ("dtype", "acc", "advice"),
    [
        ("float32", "float16", "'float32'"),
        ("float16", "bfloat16", "'float32' or 'float16'"),
        ("bfloat16", "bfloat16", "'float32'"),
        ("int8", "int8", "'int32'"),
        ("int8", "", "'int32'"),
    ],
)
def test_an_accumulator_that_does_not_go_with_the_dtype(dtype: str, acc: str, advice: str) -> None:
    sentence = rf"^matmul: acc='{acc}' is not possible with dtype='{dtype}'; choose {advice}$"
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, dtype=dtype, acc=acc)


@pytest.mark.parametrize(
    ("types", "out", "advice"),
    [
        ({"dtype": "float32", "acc": "float32"}, "float16", "'float32'"),
        ({"dtype": "float16", "acc": "float32"}, "bfloat16", "'float32' or 'float16'"),
        ({"dtype": "float16", "acc": "float16"}, "float32", "'float16'"),
        ({"dtype": "int8", "acc": "int32"}, "int8", "'int32'"),
    ],
    ids=str,
)
def test_an_output_type_that_does_not_go_with_the_others(
    types: dict[str, str], out: str, advice: str
) -> None:
    sentence = (
        rf"^matmul: out='{out}' is not possible with dtype='{types['dtype']}' and "
        rf"acc='{types['acc']}'; choose {advice}$"
    )
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, **types, out=out)


@pytest.mark.parametrize("width", [0, 65, -1, 3.0, True, "3"])
def test_a_width_out_of_range(width: object) -> None:
    sentence = r"^window_sum: width=.* is not possible; give an int from 1 to 64$"
    with pytest.raises(KernelError, match=sentence):
        window_sum(9, width=width)


def test_an_unknown_form_of_conv1d() -> None:
    sentence = r"^conv1d: over='input' is not possible; choose 'filter', 'output' or 'padded'$"
    with pytest.raises(KernelError, match=sentence):
        conv1d(9, 3, over="input")


@pytest.mark.parametrize("value", [1, 0, None, "yes"])
def test_transpose_b_is_a_bool(value: object) -> None:
    sentence = r"^matmul: transpose_b=.* is not possible; choose False or True$"
    with pytest.raises(KernelError, match=sentence):
        matmul(1, 2, 3, transpose_b=value)


def test_an_even_filter() -> None:
    sentence = (
        r"^depthwise_conv2d: k=4 is even, and the padding is the same on both sides; "
        r"choose an odd k$"
    )
    with pytest.raises(KernelError, match=sentence):
        depthwise_conv2d(1, 1, 8, 8, 4)


def test_an_unknown_kernel() -> None:
    sentence = (
        r"^get_kernel: no kernel is named 'matmull'; "
        "the nearest: matmul, matmul_bias_relu, matmul_bias_gelu$"
    )
    with pytest.raises(KernelError, match=sentence):
        get_kernel("matmull")
    sentence = r"^get_kernel: no kernel is named 'xyz'; there are: vector_add, relu, gelu, "
    with pytest.raises(KernelError, match=sentence):
        get_kernel("xyz")


def test_an_unknown_type() -> None:
    sentence = r"^dtype_facts: 'float33' is no data type known here; use float64, float32, "
    with pytest.raises(KernelError, match=sentence):
        dtype_facts("float33")


@pytest.mark.parametrize("draw", ["integer_inputs", "float_inputs"])
def test_inputs_for_a_kernel_that_cannot_but_overflow(draw: str) -> None:
    """No kernel here is such; a stranger's, which multiplies int8 by 1000, is."""

    @kernel(
        reference=lambda a, **_: 1000 * (a[:-1] + a[1:]),
        flops=lambda n, **_: n,
        terms=lambda **_: 1,
        elements=lambda n, **_: n,
        accumulators={"int8": ("int8",)},
    )
    def thousandfold(n: int, *, dtype: str = "int8") -> tvm.IRModule:
        return window_sum.__wrapped__(n, width=1, dtype=dtype)

    sentence = (
        r"^thousandfold\(n=9, dtype=int8\): the smallest inputs overflow int8; "
        r"choose a wider type$"
    )
    with pytest.raises(KernelError, match=sentence):
        getattr(thousandfold.problem(9), draw)(0)


def test_misshapen_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    problem = matmul.problem(2, 3, 4)
    sentence = (
        r"^matmul\(m=2, .*\): the inputs have shapes \[\(2, 4\), \(3, 4\)\]; "
        r"give \[\(2, 4\), \(4, 3\)\]$"
    )
    with pytest.raises(KernelError, match=sentence):
        problem.reference([np.zeros((2, 4)), np.zeros((3, 4))])
