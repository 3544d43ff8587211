"""Corner cases: each is there for a wrong kernel, and no right one fails on it."""

import dataclasses
import functools

import numpy as np
import pytest
from fast_math import RIGHT, FastMath
from wrong_kernels import WRONG, Wrong, as_program

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.numeric import check_case, check_program, make_cases
from tirstep.modules import Kernel, Problem, get_kernel, kernels
from tirstep.transforms.recipes import RECIPES

DECLARED = {name: kernel.meaning.corners for name, kernel in kernels().items()}
CORNERS = {(corners, corner): None for corners in DECLARED.values() for corner in corners}
PRODUCTS = ((8, 1, 1), (9, 3, 2), (8, 5, 67), (3, 2, 257))
FAST_SHAPES = {
    "gelu": ((257,), (3,)),
    "online softmax": ((8, 1), (9, 2), (8, 67), (3, 263)),
    "mlp_swiglu": PRODUCTS,
    "rms_norm_matmul": PRODUCTS,
    "attention": ((1, 2, 9, 1, 2), (1, 2, 9, 5, 4), (2, 1, 5, 67, 8)),
}
"""Shapes for fast arithmetic, but for other kernels of rows; columns come one by one online."""
ROWS = ((8, 1), (9, 2), (8, 67), (3, 1031))
OTHERS = {"integers", "random floats", "random bits"}


def find(wrong: Wrong, problem: Problem, seed: int = 0) -> list[str]:
    program = as_program(problem, wrong.of, is_raw=wrong.is_raw)
    return [
        finding.message for finding in check_program(problem, program, "numpy", where="", seed=seed)
    ]


@pytest.mark.share(6)
@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_wrong_kernel_is_seen(wrong: Wrong) -> None:
    """At every length and in every type, with so few rows that they are more inputs than one."""
    for dtype in wrong.dtypes:
        for sizes in wrong.sizes:
            assert find(wrong, wrong.problem(sizes, dtype)), f"{wrong} {sizes} {dtype}"


def find_alone(wrong: Wrong, corner: str) -> bool:
    """Whether a wrong kernel is farthest off in rows of a corner case, or seen with these alone, at
    some length.
    """
    kernel = get_kernel(wrong.kernel)
    alone = Kernel(kernel.factory, dataclasses.replace(kernel.meaning, corners=(corner,)))
    for sizes in wrong.sizes:
        problem = alone.problem(*sizes, **wrong.options)
        program = as_program(problem, wrong.of, is_raw=wrong.is_raw)
        *_, plain = make_cases(problem, 0, True)
        is_plain = not check_case(problem, program, plain, "")
        for case in make_cases(problem, 0, False)[len(problem.integer_rounds(0)) :]:
            found = check_case(problem, program, case, "")
            if is_plain and found and corner in case.rows:
                return True
            if any(f"({corner}, seed 0" in finding.message for finding in found):
                return True
    return False


@pytest.mark.share(2)
@pytest.mark.parametrize(("corners", "corner"), CORNERS)
def test_a_corner_case_sees_what_it_is_there_for(corners: tuple[str, ...], corner: str) -> None:
    """Of the wrong kernels that have the same ones, one names it, or else all of them are asked."""
    planted = [variant for variant in WRONG if DECLARED[variant.kernel] == corners]
    named = [variant for variant in planted if variant.seen_by == corner]
    assert all(find_alone(wrong, corner) for wrong in named)
    assert named or any(find_alone(wrong, corner) for wrong in planted)


def test_every_planted_kernel_names_an_input_that_exists() -> None:
    assert all(wrong.seen_by in {*DECLARED[wrong.kernel], *OTHERS} for wrong in WRONG)
    assert {wrong.kernel for wrong in WRONG} == set(DECLARED)


@pytest.mark.share(9)
@pytest.mark.parametrize("order", ["serial", "pairs"])
@pytest.mark.parametrize("name", RIGHT)
def test_fast_arithmetic_at_its_worst_is_within_the_bounds(name: str, order: str) -> None:
    kernel, options = get_kernel(name.split()[-1]), {"online": True} if "online" in name else {}
    for dtype in ("float32", "float16", "bfloat16"):
        shapes = FAST_SHAPES.get(name) or FAST_SHAPES.get(name.split()[-1], ROWS)
        for sizes in shapes:
            problem = kernel.problem(*sizes, dtype=dtype, **options)
            for seed in range(2):
                of = functools.partial(RIGHT[name], FastMath(seed, order=order))
                program = as_program(problem, of)
                found = check_program(problem, program, "numpy", where="", seed=seed)
                assert not found, f"{problem} {found}"


@pytest.mark.share(6)
@pytest.mark.parametrize("name", ["cpu", "simulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("recipe", "shape", "options"),
    [
        ("softmax_vectors", {"m": 1, "n": 61}, {}),
        ("softmax_online", {"m": 9, "n": 130}, {"dtype": "float16"}),
        ("rms_norm_vectors", {"m": 7, "n": 257}, {}),
        ("relu_vectors", {"n": 1031}, {"dtype": "float16"}),
        ("vector_add_vectors", {"n": 1031}, {"dtype": "float16"}),
        ("transpose_vectors", {"m": 33, "n": 67}, {"dtype": "bfloat16"}),
        ("conv1d_coalesced", {"m": 331, "n": 33}, {}),
        ("matmul_shared_blocking", {"m": 17, "n": 35, "k": 19}, {"dtype": "float16"}),
    ],
    ids=str,
)
def test_recipes_are_right_on_them(name: str, recipe: str, shape: dict, options: dict) -> None:
    sizes = {"tail": "guard"} if RECIPES[recipe].tails else {}
    run = run_recipe(RECIPES[recipe], shape, options=options, config=sizes)
    device = get_device(name)
    for seed in range(2):
        found = check_numbers(run.problem, run.steps[-1].module, device, where=name, seed=seed)
        assert not found, found


def test_a_finding_names_the_case_of_its_row() -> None:
    problem = get_kernel("softmax").problem(9, 33)

    def unmasked(a: np.ndarray) -> np.ndarray:
        powers = np.exp(a - a.max(axis=1, keepdims=True))
        return np.nan_to_num(powers / powers.sum(axis=1, keepdims=True))

    (found,) = check_program(problem, as_program(problem, unmasked), "numpy", where="")
    assert found.message.startswith("B[6, 0] is 0, and NumPy has nan; 33 of 297 elements are wrong")
    assert found.message.endswith("(masked, seed 0, round 2)")


def test_half_of_the_rows_have_no_case_and_every_case_has_a_row() -> None:
    """Few rows get their cases in several inputs, and an only row has none in the first."""
    all_plain = {1: [1, *[0] * 5], 2: [1] * 5, 3: [2] * 5, 4: [2, 2, 3], 7: [4, 5], 11: [6]}
    for rows, plain in all_plain.items():
        problem = get_kernel("matmul").problem(rows, 3, 5)
        drawn, planted = problem.float_inputs(3)[0], problem.planted_inputs(3)
        same = [int((drawn == inputs[0]).all(axis=1).sum()) for _, inputs in planted]
        assert same == plain == [names.count("") for names, _ in planted]
        assert any(np.isinf(inputs[0]).any() for _, inputs in planted)


def test_signals_and_images_have_one_case_at_a_time() -> None:
    for kernel, sizes in (("conv1d", (40, 5)), ("depthwise_conv2d", (2, 3, 5, 7, 3))):
        problem = get_kernel(kernel).problem(*sizes)
        infinite, thin, nothing = (inputs[0] for _, inputs in problem.planted_inputs(0))
        assert np.argwhere(np.isinf(infinite.ravel())).tolist() == [[0]]
        assert 0 == np.count_nonzero(nothing) < np.count_nonzero(thin) < 0.25 * thin.size


def test_no_case_makes_a_type_without_infinities_infinite() -> None:
    for dtype in ("int8", "float8_e4m3fn"):
        problem = get_kernel("matmul").problem(4, 3, 5, dtype=dtype)
        for _, inputs in problem.planted_inputs(0):
            assert np.isfinite(inputs[0].astype(float)).all()
