"""What a kernel cannot be is refused with a sentence, before a module is made."""

import numpy as np
import pytest
import tvm

from tirstep.modules import (
    KernelError,
    conv1d,
    depthwise_conv2d,
    get_kernel,
    kernels,
    matmul,
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


TYPES = r"choose 'float32', .* 'float8_e5m2', 'int8', 'int32' or 'tf32'"
FLOATS = "choose 'float32', 'float16' or 'bfloat16'"
REFUSED = {
    "matmul(1, 2, 3, 4, 5)": "got 5 sizes for m, n and k; leave out the last 2",
    "matmul(1, 2)": "size k is missing; give m, n and k",
    "vector_add()": "size n is missing; give n",
    "matmul(1, 2, 3, m=1)": "size m is given twice; give it by place or by name",
    "matmul(1, 3.0, 3)": "size n=.* is of type float; give an int",
    "matmul(1, '3', 3)": "size n=.* is of type str; give an int",
    "matmul(1, True, 3)": "size n=.* is of type bool; give an int",
    "matmul(1, None, 3)": "size n=.* is of type NoneType; give an int",
    "matmul(1, 2, 0)": "size k=0 is below 1; give 1 or more",
    "matmul(1, 2, -7)": "size k=-7 is below 1; give 1 or more",
    "matmul(1, 2, 3, symbolic=('m', 'x'))": "there is no size 'x' that could be symbolic; "
    "there are: m, n, k",
    "matmul(1, 2, 3, symbolic=('m', 'm'))": r"symbolic=\('m', 'm'\) names a size twice; "
    "name it once",
    "matmul(1, 2, 3, transposeb=True)": "there is no option 'transposeb'; the nearest: transpose_b",
    "vector_add(1, width=3)": "there is no option 'width'; there are: dtype",
    "softmax(1, 2, dtype='int8')": f"dtype='int8' is not possible; {FLOATS}",
    "relu(1, dtype='float8_e5m2')": "dtype='float8_e5m2' is not possible; choose 'float32', .* or "
    "'int8'",
    "gelu(1, approximate='none')": "approximate='none' is not possible; choose 'tanh'",
    "conv1d(9, 3, over='input')": "over='input' is not possible; choose 'filter', 'output' or "
    "'padded'",
    "depthwise_conv2d(1, 1, 8, 8, 4)": "k=4 is even, and both sides have the "
    "same padding; choose an odd k",
}
REFUSED |= {
    f"matmul(1, 2, 3, dtype={dtype})": f"dtype=.* is not possible; {TYPES}"
    for dtype in ("'float64'", "'float'", "''", "None", "32", "np.float32")
}
REFUSED |= {
    f"matmul(1, 2, 3, dtype='{dtype}', acc='{acc}')": f"acc='{acc}' is not possible with "
    f"dtype='{dtype}'; choose {advice}"
    for dtype, acc, advice in (
        ("float32", "float16", "'float32'"),
        ("float16", "bfloat16", "'float32' or 'float16'"),
        ("bfloat16", "bfloat16", "'float32'"),
        ("int8", "int8", "'int32'"),
        ("int8", "", "'int32'"),
    )
}
REFUSED |= {
    f"matmul(1, 2, 3, dtype='{dtype}', acc='{acc}', out='{out}')": f"out='{out}' is not .* "
    f"dtype='{dtype}' and acc='{acc}'; choose {advice}"
    for dtype, acc, out, advice in (
        ("float32", "float32", "float16", "'float32'"),
        ("float16", "float32", "bfloat16", "'float32' or 'float16'"),
        ("float16", "float16", "float32", "'float16'"),
        ("int8", "int32", "int8", "'int32'"),
    )
}
REFUSED |= {
    f"window_sum(9, width={width})": "width=.* is not possible; give an int from 1 to 64"
    for width in ("0", "65", "-1", "3.0", "True", "'3'")
}
REFUSED |= {
    f"matmul(1, 2, 3, transpose_b={value})": "transpose_b=.* is not possible; choose False or True"
    for value in ("1", "0", "None", "'yes'")
}


@pytest.mark.parametrize(("call", "sentence"), REFUSED.items())
def test_what_cannot_be_is_refused(call: str, sentence: str) -> None:
    with pytest.raises(KernelError, match=f"^{call.partition('(')[0]}: {sentence}$"):
        eval(call, {"np": np, **kernels()})


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
    sentence = r"^dtype_facts: 'float33' is not a data type known here; use float64, float32, "
    with pytest.raises(KernelError, match=sentence):
        dtype_facts("float33")


@pytest.mark.parametrize("draw", ["integer_inputs", "float_inputs"])
def test_inputs_for_a_kernel_that_cannot_but_overflow(draw: str) -> None:
    """No kernel here is such; a stranger's, which multiplies int8 by 1000, is."""

    @kernel(
        reference=lambda a, **_: 1000 * (a[:-1] + a[1:]),
        flops=lambda n, **_: n,
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
