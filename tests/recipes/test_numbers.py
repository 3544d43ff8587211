"""Every recipe computes what its kernel means, at drawn shapes, sizes, types and seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from drawn_recipes import DRAWN
from golden_runs import list_new_steps, lower_once, run_golden
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tirstep.lowering_checks import (
    Device,
    check_numbers,
    check_ownership,
    get_device,
    judge_run,
    run_recipe,
)
from tirstep.lowering_checks.numeric import check_program
from tirstep.lowering_checks.steps import Run
from tirstep.strategies.hypothesis_strategies import (
    SIMULATED,
    TAILS,
    open_sizes,
    options,
    shapes,
    sizes,
)
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import RECIPES, Recipe
from tirstep.transforms.recipes.rungs import Rung

ALL = pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
# The rungs of a ladder share a schedule: each is drawn less often than what it begins with.
RUNGS = [recipe for recipe in DRAWN if isinstance(recipe, Rung) and recipe.base]
FEWER = settings(max_examples=settings.default.max_examples // 2)
FEWEST = settings(max_examples=settings.default.max_examples // 4)
SEEDS = st.integers(0, 2**32 - 1)
SMALLER = {kernel for kernel, _ in SIMULATED}


def check(recipe: Recipe, names: Sequence[str], data: st.DataObject, seed: int) -> None:
    """The last step of a drawn run on devices, and a drawn one on one of them: no findings, and
    no refusal.

    Shapes and types are drawn for the first device; another is asked of what it can run.
    """
    first = names[0]
    left_open = data.draw(open_sizes(recipe), label="open sizes")
    run = run_recipe(
        recipe,
        data.draw(shapes(recipe, first), label="shape"),
        options=data.draw(options(recipe, first), label="options"),
        config=data.draw(sizes(recipe, recipe.tails[-1:] if left_open else TAILS), label="sizes"),
        symbolic=left_open,
    )
    devices = [get_device(name) for name in names]
    if left_open:
        other = data.draw(shapes(recipe, first), label="second shape")
        for device in devices:
            if device is devices[0] or device.find_obstacle(run.steps[-1].module) is None:
                check_open(run, device, {name: other[name] for name in left_open}, seed)
        return
    assert check_ownership(run.steps[-1].module) == []
    to_check = [(device, run.steps[-1]) for device in devices]
    # Before its instructions each lane of a warp computes all of the warp's tile, one by one.
    if not recipe.arch:
        steps = st.sampled_from(run.steps[:-1])
        drawn = data.draw(st.tuples(st.sampled_from(devices), steps), label="device and step")
        to_check.append(drawn)
    for device, step in to_check:
        obstacle = device.find_obstacle(step.module)
        must_run = step is run.steps[-1] and (device is devices[0] or not is_float8(run))
        assert not must_run or obstacle is None, f"{run.label(step)} cannot run: {obstacle}"
        if obstacle is None:
            findings = check_numbers(
                run.problem, step.module, device, where=run.label(step), seed=seed
            )
            assert not findings, explain(findings, run, seed)


def is_float8(run: Run) -> bool:
    """Whether the run has a type that LLVM computes wrongly."""
    return "float8" in str(run.problem)


def check_open(run: Run, device: Device, other: dict[str, int], seed: int) -> None:
    """The last step, which leaves sizes open, is compiled once and run at two shapes."""
    program = device.compile(run.steps[-1].module)
    kernel, where = run.problem.kernel, run.label(run.steps[-1])
    for changed in ({}, other):
        problem = kernel.problem(**{**run.problem.shape, **changed}, **run.problem.options)
        findings = check_program(problem, program, device.name, where=where, seed=seed)
        assert not findings, explain(findings, replace(run, problem=problem), seed)


def explain(findings, run: Run, seed: int) -> str:
    """What is wrong, all of the problem, and the command that looks for the culprit."""
    shape = "x".join(str(size) for size in run.problem.shape.values())
    sizes = "".join(f" --set {name}={value}" for name, value in run.config.items())
    dtype = f" --dtype {run.problem.options['dtype']}"
    command = f"tirstep why {run.recipe.name} --shape {shape}{dtype}{sizes} --seed {seed}"
    return "\n".join([*map(str, findings), str(run.problem), f"to find the culprit: {command}"])


@pytest.mark.share(5)
@ALL
def test_every_step_lowers_that_can_be_run(recipe: Recipe) -> None:
    """The drawn tests run the last step of what takes long to simulate; people run each.

    What steps of recipes before are is lowered there.
    """
    simulator = get_device("simulator")
    run = run_golden(recipe)
    for step in list_new_steps(run):
        if simulator.find_obstacle(step.module) is None:
            assert lower_once(step.module), run.label(step)


def by_name(recipes: Iterable[Recipe]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("recipe", [*recipes], ids=lambda recipe: recipe.name)


@pytest.mark.share(24)
@by_name(it for it in DRAWN if not it.arch and it not in RUNGS)
@given(data=st.data(), seed=SEEDS)
def test_numbers_and_faults_at_drawn_shapes(recipe: Recipe, data: st.DataObject, seed: int) -> None:
    """One run for both devices: most of the time goes into making it."""
    check(recipe, ("simulator", "cpu"), data, seed)


@pytest.mark.share(15)
@by_name(it for it in RUNGS if not it.arch)
@FEWEST
@given(data=st.data(), seed=SEEDS)
def test_numbers_and_faults_of_rungs(recipe: Recipe, data: st.DataObject, seed: int) -> None:
    check(recipe, ("simulator", "cpu"), data, seed)


@pytest.mark.share(16)
@by_name(it for it in DRAWN if it.arch)
@FEWER
@given(data=st.data(), seed=SEEDS)
def test_numbers_and_faults_on_tensor_cores(recipe: Recipe, data: st.DataObject, seed: int) -> None:
    """Each takes long to simulate."""
    check(recipe, ("simulator",), data, seed)


@pytest.mark.share(6)
@by_name(it for it in RECIPES.values() if it.kernel in SMALLER)
@FEWER
@given(data=st.data(), seed=SEEDS)
def test_numbers_at_drawn_shapes_too_large_to_simulate(
    recipe: Recipe, data: st.DataObject, seed: int
) -> None:
    check(recipe, ("cpu",), data, seed)


@pytest.mark.gpu
@by_name(DRAWN)
@given(data=st.data(), seed=SEEDS)
def test_numbers_at_drawn_shapes_on_cuda(recipe: Recipe, data: st.DataObject, seed: int) -> None:
    check(recipe, ("cuda",), data, seed)


@pytest.mark.share(5)
@pytest.mark.parametrize("device_name", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    "recipe",
    [recipe for recipe in RECIPES.values() if recipe.symbolic],
    ids=lambda recipe: recipe.name,
)
def test_a_module_that_leaves_all_claimed_sizes_open(recipe: Recipe, device_name: str) -> None:
    """Compiled once, and right at sizes that are no multiples and at 1."""
    example = recipe.golden
    config = {**example.config, **({"tail": recipe.tails[-1]} if recipe.tails else {})}
    small = {name: 2 + place for place, name in enumerate(example.shape)}
    shape = {**example.shape, **{name: small[name] for name in recipe.symbolic}}
    run = run_recipe(
        recipe, shape, options=example.options, config=config, symbolic=recipe.symbolic
    )
    check_open(run, get_device(device_name), dict.fromkeys(recipe.symbolic, 1), seed=5)


@pytest.mark.gpu
@ALL
def test_numbers_at_the_seed_on_cuda(recipe: Recipe) -> None:
    example = recipe.default_example  # 2^29 keys take minutes, and so do large products
    shape = example.shape | ({"batch": 2} if recipe.kernel == "decode_attention" else {})
    run = run_recipe(recipe, shape, options=example.options, config=example.config)
    steps = run.steps[-1:] if run.problem.shape.get("k") == 4096 else run.steps
    verdicts = list(judge_run(replace(run, steps=steps), get_device("cuda")))
    assert not [finding for verdict in verdicts for finding in verdict.findings]
    assert verdicts[-1].checked_on.startswith("cuda")
    assert verdicts[-1].timing.median > 0


@pytest.mark.gpu
@pytest.mark.parametrize("size", [256, 512, 1024, 2048])
@pytest.mark.parametrize("name", ["matmul_rows_on_blocks", "matmul_tiled", "matmul_tiled_shared"])
def test_numbers_of_the_three_steps_at_their_sizes_on_cuda(name: str, size: int) -> None:
    shape = {"m": size, "n": size, "k": size}
    if name == "matmul_rows_on_blocks" and size > 1024:
        with pytest.raises(TransformError, match="a block of 2048 threads"):
            run_recipe(RECIPES[name], shape)
        return
    run = run_recipe(RECIPES[name], shape)
    module = run.steps[-1].module
    assert not check_numbers(run.problem, module, get_device("cuda"), where=name)


@pytest.mark.share(15)
@pytest.mark.parametrize(
    "recipe", [recipe for recipe in DRAWN if recipe.tails], ids=lambda recipe: recipe.name
)
@given(data=st.data())
def test_a_size_that_does_not_divide_is_refused_or_right(
    recipe: Recipe, data: st.DataObject
) -> None:
    """The default tail never computes something wrong: it refuses in one sentence."""
    shape = data.draw(shapes(recipe), label="shape")
    drawn = data.draw(sizes(recipe, tails=("refuse",)), label="sizes")
    refusal = ""
    chosen = {"dtype": recipe.dtypes[0]} if recipe.dtypes else {}
    try:
        run = run_recipe(recipe, shape, options=chosen, config=drawn)
    except TransformError as error:
        refusal = str(error)
    event("refused" if refusal else "right")
    if refusal:
        assert "does not divide" in refusal
        assert f"recipe {recipe.name}, after step" in refusal
        return
    module = run.steps[-1].module
    device = get_device("simulator" if recipe.arch else "cpu")
    findings = check_numbers(run.problem, module, device, where=recipe.name)
    assert not findings, "\n".join(map(str, findings))
