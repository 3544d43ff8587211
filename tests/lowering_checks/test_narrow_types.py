"""Rounding to a narrower type is seen wherever it is done, at short and long reductions."""

import pytest
from narrow_kernels import RIGHT, Narrowing, as_program, narrowings
from wrong_kernels import as_program as of_function

from tirstep.lowering_checks.numeric import check_program
from tirstep.modules import Problem, get_kernel

SUMMED = ((4, 61), (8, 4096))
SHAPES = {
    "row_sum": SUMMED,
    "matvec": SUMMED,
    "matmul": ((6, 5, 33), (8, 4, 2048)),
    "matmul_bias_relu": ((6, 5, 33), (8, 4, 2048)),
    "conv1d": ((97, 5), (300, 200)),
    "window_sum": ((97,),),
    "depthwise_conv2d": ((2, 3, 9, 11, 3), (1, 2, 12, 12, 7)),
    "softmax": SUMMED,
    "rms_norm": SUMMED,
    "layer_norm": SUMMED,
}
HALF_SUMS = {"dtype": "float16", "acc": "float16"}
PROBLEMS = [
    get_kernel(name).problem(*sizes, **options)
    for name, shapes in SHAPES.items()
    for sizes in shapes
    for options in (*({"dtype": name} for name in ("float32", "float16", "bfloat16")), HALF_SUMS)
    if "acc" in get_kernel(name).options or "acc" not in options
]
FLOAT8 = [
    get_kernel(name).problem(*SHAPES[name][-1], dtype=dtype)
    for name in ("row_sum", "matvec", "matmul", "conv1d")
    for dtype in ("float8_e4m3fn", "float8_e5m2")
]


def is_seen(problem: Problem, narrowing: Narrowing, seeds: range) -> bool:
    program = as_program(problem, narrowing)
    return any(check_program(problem, program, "numpy", where="", seed=seed) for seed in seeds)


@pytest.mark.share(8)
@pytest.mark.parametrize("problem", [*PROBLEMS, *FLOAT8], ids=str)
def test_a_narrower_type_is_seen_and_the_right_one_is_not(problem: Problem) -> None:
    """With one seed where chance has no part in it, and else with one of three."""
    for right in RIGHT:
        assert not is_seen(problem, right, range(3)), right
    is_certain = problem.is_exact and problem.outputs[0].dtype == "float32"
    missed = [
        str(narrowing)
        for narrowing in narrowings(problem)
        if not is_seen(problem, narrowing, range(1 if is_certain else 3))
    ]
    assert missed == []


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_integers_summed_in_a_narrower_type_are_seen(rows: int) -> None:
    """Sums of either sign stay small, so that whole numbers of chance show nothing."""
    problem = get_kernel("row_sum").problem(rows, 1000, dtype="int8")
    for dtype, is_right in (("int32", True), ("int16", False)):
        program = of_function(problem, lambda a, dtype=dtype: a.sum(1, dtype=dtype), is_raw=True)
        assert (not check_program(problem, program, "numpy", where="")) == is_right


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("name", ["row_sum", "matvec", "matmul"])
def test_a_type_of_a_smaller_range_is_seen_in_few_rows(name: str, rows: int) -> None:
    """float16 has more bits than bfloat16, and nothing below 6e-8 or beyond 65504."""
    for columns in (61, 4096):
        sizes = (rows, 3, columns) if name == "matmul" else (rows, columns)
        for dtype in ("bfloat16", "float32"):
            problem = get_kernel(name).problem(*sizes, dtype=dtype)
            narrow = Narrowing("operand 0", "float16")
            assert is_seen(problem, narrow, range(1)), problem
            assert not is_seen(problem, Narrowing(), range(3)), problem
