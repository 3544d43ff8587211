"""What a recipe records of its steps, and how it refuses."""

import inspect
import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm
from golden_runs import run_default_example, run_golden
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule, ScheduleError
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import tirx as T
from tvm.tirx import For

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.legality import guard
from tirstep.modules import depthwise_conv2d, get_kernel, matmul, matmul_bias_relu, relu, vector_add
from tirstep.transforms import TransformError, bind_loop, cache_read_at, split_loop, unguarded
from tirstep.transforms.recipes import LADDERS, RECIPES, Example, Recipe, Rung, recipe
from tirstep.transforms.schedule import transform
from tirstep.transforms.tir import find_all

ALL = pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
BLOCKING = RECIPES["matmul_shared_blocking"]
NO_REPLAY = "which no trace can replay"
REWRITTEN = re.compile(
    r"matmul_wgmma_(persistent|narrow|tma_store)|conv2d_wgmma_(tma|best)"
    r"|attention_(?!naive|rows|tiled|inlined)\w+"
    r"|decode_attention_(?!naive|warps)\w+|rms_norm_matmul_(?!naive|tiled|rows)\w+"
)
"""Recipes that replace blocks by their own, or store by what no tensor intrinsic describes."""


@pytest.mark.share(6)
@ALL
def test_the_trace_of_each_step_makes_its_module_again(recipe: Recipe) -> None:
    """That of the last one simplified, too, as MetaSchedule keeps it, without dead instructions."""
    run = run_golden(recipe)
    simplified = run.steps[-1].trace.simplified(remove_postproc=True)
    for module, trace in [
        *((step.module, step.trace) for step in run.steps),
        (run.steps[-1].module, simplified),
    ]:
        fresh = Schedule(run.problem.module)
        if NO_REPLAY in str(trace):  # it says so where it is tried
            with pytest.raises(ScheduleError, match=NO_REPLAY):
                trace.apply_to_schedule(fresh, remove_postproc=False)
            continue
        trace.apply_to_schedule(fresh, remove_postproc=False)
        assert_structural_equal(fresh.mod, module)


def test_a_copy_for_some_of_several_readers_survives_the_simplified_trace() -> None:
    """The other reader, outside of the loop, reads on as before."""

    @T.prim_func(s_tir=True)
    def two_readers(
        a: T.Buffer((64,), "float32"), b: T.Buffer((64,), "float32"), c: T.Buffer((64,), "float32")
    ) -> None:
        for i in range(64):
            with T.sblock("B"):
                vi = T.axis.spatial(64, i)
                b[vi] = a[vi] + T.float32(1)
        for i in range(64):
            with T.sblock("C"):
                vi = T.axis.spatial(64, i)
                c[vi] = a[vi] * T.float32(2)

    sch = Schedule(two_readers)
    block = sch.get_sblock("B")
    outer, _ = split_loop(sch, sch.get_loops(block)[0], inner=16)
    cache_read_at(sch, block, outer, operand=0)
    fresh = Schedule(two_readers)
    sch.trace.simplified(remove_postproc=True).apply_to_schedule(fresh, remove_postproc=True)
    assert_structural_equal(fresh.mod, sch.mod)
    assert "held" not in fresh.mod.script()


@ALL
def test_steps_have_names_lines_and_changes_of_their_own(recipe: Recipe) -> None:
    """The source line of each step is its yield."""
    steps, folder = run_golden(recipe).steps, Path(inspect.getfile(recipe.body)).parent
    assert [step.index for step in steps] == list(range(len(steps)))
    assert steps[0].name == "input"
    assert len({step.name for step in steps}) == len(steps)
    scripts = [step.module.script() for step in steps]
    assert all(before != after for before, after in itertools.pairwise(scripts))
    assert (NO_REPLAY in str(steps[-1].trace)) == bool(REWRITTEN.fullmatch(recipe.name))
    for step in steps[1:]:
        file, line = step.location.split(":")
        text = (folder / Path(file).name).read_text().splitlines()[int(line) - 1]
        assert text.strip().startswith("yield")
        (literal,) = re.findall(r'"(.*)"', text) or [""]
        pattern = re.sub(r"\\{.*?\\}", ".*", re.escape(literal))
        assert re.fullmatch(pattern, step.name) or "_in_shared_memory" in text


@ALL
def test_an_example_is_small_and_a_reader_is_told_what_a_recipe_does(recipe: Recipe) -> None:
    shape = dict(recipe.golden.shape)
    if shape.get("queries") == shape.get("keys"):
        shape.pop("queries", None)  # attention of a sequence to itself, whose diagonal masks are of
    extents = [size for size in shape.values() if size > 1]
    assert len(set(extents)) == len(extents)
    assert max(extents) <= 2048
    assert recipe.doc.split("\n")[0].endswith((".", ")", ";", ":"))
    for size in recipe.config:
        assert size == "tail" or size in recipe.doc, f"the docstring does not explain {size}"


@pytest.mark.share(6)
@pytest.mark.parametrize(
    "recipe",
    {recipe.body: recipe for recipe in RECIPES.values()}.values(),
    ids=lambda recipe: recipe.name,
)
def test_calling_a_recipe_does_what_its_steps_do(recipe: Recipe) -> None:
    run = run_golden(recipe)
    sch = recipe(Schedule(run.problem.module), **run.config)
    assert_structural_equal(sch.mod, run.steps[-1].module)


def tag(loop: For) -> str:
    """The thread axis of a loop; empty where it has none."""
    return "" if loop.thread_binding is None else str(loop.thread_binding.thread_tag)


@pytest.mark.share(15)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_a_recipe_compiles_for_a_gpu_at_its_seed(recipe: Recipe) -> None:
    """TVM's own code generator, without a GPU: its kernels have the threads of the schedule."""
    module = run_default_example(recipe).steps[-1].module
    target = tvm.target.Target("nvidia/nvidia-h100", host="c")
    source = tvm.compile(module, target=target).mod.imports[0].inspect_source()
    kernels = [loop for loop in find_all(module["main"].body, For) if tag(loop) == "blockIdx.x"]
    # Each is declared and defined.
    assert source.count('extern "C" __global__') == 2 * len(kernels)
    wanted = []
    for kernel in kernels:
        loops = [loop for loop in find_all(kernel, For) if tag(loop).startswith("threadIdx")]
        threads = {tag(loop): int(loop.extent) for loop in loops}
        wanted += 2 * [str(math.prod(threads.values()))] if threads else []
    assert sorted(re.findall(r"__launch_bounds__\((\d+)\)", source)) == sorted(wanted)
    if "shared" in recipe.name:
        assert "__shared__" in source
        assert "__syncthreads()" in source


def test_every_kernel_has_a_ladder_and_every_ladder_is_of_one_kernel() -> None:
    for name, ladder in LADDERS.items():
        assert (ladder.name, ladder.title != "") == (name, True)
        assert ladder
        assert all(recipe.kernel == ladder.kernel for recipe in ladder)
        assert get_kernel(ladder.kernel).problem(**ladder.shape)
    assert {recipe.kernel for recipe in RECIPES.values()} <= set(LADDERS)
    assert sum(map(len, LADDERS.values())) == len(RECIPES)


@ALL
def test_a_rung_is_an_earlier_one_and_some_knobs_with_a_reason(recipe: Recipe) -> None:
    (ladder,) = [ladder for ladder in LADDERS.values() if recipe in ladder.recipes]
    if not isinstance(recipe, Rung):
        assert (recipe.base, dict(recipe.delta)) == (None, {})
        return
    assert recipe.why
    assert recipe.doc.startswith(f"{recipe.why}.\n")
    earlier = ladder[: ladder.recipes.index(recipe)]
    if recipe.base is None:
        assert not any(isinstance(rung, Rung) and rung.family is recipe.family for rung in earlier)
        return
    (base,) = [rung for rung in earlier if rung.name == recipe.base]
    before = {**base.config, **base.default_example.options}
    after = {**recipe.config, **recipe.default_example.options}
    changed = {name: value for name, value in after.items() if value != before.get(name)}
    assert changed == recipe.delta
    assert changed


@pytest.mark.parametrize(
    ("size", "value", "sentence"),
    [
        *(
            ("threads", value, r"threads=.* is not a pair of integers; pass rows and")
            for value in (16, (16,), (4, 8, 2), ("a", "b"), None)
        ),
        ("tail", "x", "tail='x' is unknown; use \"refuse\" or"),
        ("inner", "x", "inner='x' is unknown; use \"columns\" or"),
    ],
)
def test_a_value_of_another_kind_is_refused(size: str, value: object, sentence: str) -> None:
    with pytest.raises(TransformError, match=sentence):
        RECIPES["matmul_strips"](Schedule(matmul(64, 64, 64)), **{size: value})


def test_choices_are_of_sizes_that_exist_and_defaults_are_among_them() -> None:
    for declared in RECIPES.values():
        for name, values in declared.choices.items():
            assert declared.config[name] in values


def test_an_unknown_size_names_the_nearest() -> None:
    with pytest.raises(TransformError, match="there is no knob 'tile_n'; did you mean 'tile_k'"):
        run_recipe(BLOCKING, {"m": 64, "n": 64, "k": 64}, config={"tile_n": 4})


def test_a_module_with_other_blocks_is_refused_untouched() -> None:
    sch = Schedule(matmul_bias_relu(64, 64, 64))
    before = sch.mod.script()
    sentence = "matmul_naive: the module has the blocks 'C D', and this recipe schedules 'C'"
    with pytest.raises(TransformError, match=sentence):
        RECIPES["matmul_naive"](sch)
    assert sch.mod.script() == before


def test_what_tvm_refuses_of_a_primitive_is_a_refusal_of_the_recipe() -> None:
    """decompose_padding wants sizes that are known; the recipe calls it itself."""
    problem = depthwise_conv2d.problem(2, 1, 6, 1, 1, symbolic=("b", "c", "h", "k"))
    running = RECIPES["depthwise_conv2d_planes"].run(
        Schedule(problem.module), planes=8, tail="guard"
    )
    refusal = (
        r"^depthwise_conv2d_planes: TVM refuses: decompose_padding expect the block 'padded' .*"
        r"\[recipe depthwise_conv2d_planes, after step 'fragments_in_registers', "
    )
    with unguarded(), pytest.raises(TransformError, match=refusal):  # k decides on registers
        list(running)


def test_a_refusal_says_after_which_step_and_where() -> None:
    with pytest.raises(TransformError) as caught:
        BLOCKING(Schedule(matmul(64, 64, 30)), tile_k=4)
    error = caught.value
    assert (error.recipe, error.step) == ("matmul_shared_blocking", "accumulated_in_registers")
    file, line = error.line.split(":")
    text = Path(file).read_text().splitlines()
    assert "split_reduction" in text[int(line) - 1]
    assert error.kernel_line.split(":")[0].endswith("matmul.py")
    assert "loop 'k' runs 30 times, which inner=4 does not divide" in str(error)
    assert "[recipe matmul_shared_blocking, after step 'accumulated_in_registers', " in str(error)


@pytest.mark.parametrize("name", ["row_sum_vectors", "softmax_vectors", "softmax_online"])
def test_a_row_that_threads_do_not_divide_is_refused(name: str) -> None:
    shape, options = {"m": 6, "n": 100}, RECIPES[name].golden.options
    for sizes in ({"threads": 32, "tail": "guard"}, {"threads": 25}):
        assert len(run_recipe(RECIPES[name], shape, options=options, config=sizes).steps) > 1
    with pytest.raises(TransformError, match=r"runs 100 times, which threads=32 \* vector=4 does"):
        run_recipe(RECIPES[name], shape, options=options, config={"threads": 32})


def test_single_elements_come_in_batches_as_vectors_do() -> None:
    config = {"threads": 32, "vector": 1, "each": 2}
    run = run_recipe(RECIPES["relu_vectors"], {"n": 1536}, config=config)
    text = run.steps[-1].module.script()
    assert 'in T.thread_binding(24, thread="blockIdx.x")' in text
    assert "in T.unroll(2)" in text


def declare(kernel: str, *blocks: str, **options: Any) -> Any:
    """The decorator of a recipe of 64 elements."""
    small = Example({"n": 64})
    return recipe(
        **{"kernel": kernel, "blocks": blocks, "default_example": small, "golden": small, **options}
    )


def make_recipe(
    names: list[object], blocks: object = ("C",), dtypes: tuple[str, ...] = ()
) -> Recipe:
    @declare("vector_add", blocks=blocks, dtypes=dtypes)
    def mine(sch: Schedule) -> Iterator[object]:
        """A recipe."""
        yield from names

    return mine


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (
            ["one", "two", "one"],
            "yields 'one', and an earlier step has that name; yield a new name for each step "
            "(letters, digits and _, no digit first), as 'one_2'",
        ),
        (["input"], "yields 'input', and an earlier step has that name"),
        ([3], "yields 3, which cannot name a step"),
        (
            ["a b/c"],
            "yields 'a b/c', which cannot name a step; yield a new name for each step (letters, "
            "digits and _, no digit first), as 'tiled'",
        ),
    ],
)
def test_a_step_without_a_name_of_its_own_is_refused(names: list[object], problem: str) -> None:
    mine = make_recipe(names)
    with pytest.raises(TransformError, match=re.escape(problem)):
        list(mine.run(Schedule(vector_add(64))))


@transform
def lose(sch: Schedule, block: SBlockRV) -> None:
    sch.compute_inline(block)


def test_a_step_of_ours_is_asked_about_once_and_the_refusal_names_the_transform(monkeypatch):
    """A recipe of its user's is refused at the transform, where it may catch that."""
    asked, caught = [], []
    find_fault = guard.find_fault
    monkeypatch.setattr(guard, "find_fault", lambda change: asked.append(1) or find_fault(change))

    @declare("vector_add", "C")
    def losing(sch: Schedule) -> Iterator[str]:
        """A recipe."""
        copy = sch.cache_read(sch.get_sblock("C"), 0, "global")
        outer, inner = split_loop(sch, sch.get_loops(copy)[0], inner=8)
        bind_loop(sch, outer, axis="blockIdx.x")
        bind_loop(sch, inner, axis="threadIdx.x")
        yield "copied"
        try:
            lose(sch, copy)
        except TransformError as error:
            caught.append(error)
        (loop,) = sch.get_loops(sch.get_sblock("C"))
        bind_loop(sch, loop, axis="threadIdx.x")
        yield "lost"

    assert len(list(losing.run(Schedule(vector_add(64))))) == 2
    assert (len(asked), len(caught)) == (5, 1)
    asked.clear()
    losing.body.__module__ = BLOCKING.body.__module__
    steps = losing.run(Schedule(vector_add(64)))
    next(steps)
    assert len(asked) == 1
    with pytest.raises(TransformError, match=r"^lose: block 'A_global' would be gone") as refused:
        next(steps)
    assert refused.value.step == "copied"
    assert len(caught) == 1


@transform
def widen(sch: Schedule, loop: LoopRV) -> None:
    sch.vectorize(loop)


def test_the_lowering_of_a_recipe_of_ours_is_asked_about_once_and_a_refusal_names_the_step(
    monkeypatch,
):
    asked = []
    find_wrong = guard.find_wrong_lowering
    monkeypatch.setattr(
        guard,
        "find_wrong_lowering",
        lambda *modules, **how: asked.append(modules) or find_wrong(*modules, **how),
    )

    @declare("relu", "B")
    def widening(sch: Schedule, *, lanes: int = 4) -> Iterator[str]:
        """A recipe."""
        outer, inner = split_loop(sch, sch.get_loops(sch.get_sblock("B"))[0], inner=lanes)
        bind_loop(sch, outer, axis="threadIdx.x")
        yield "bound"
        widen(sch, inner)
        yield "widened"
        bind_loop(sch, sch.add_unit_loop(sch.get_sblock("B")), axis="threadIdx.y")
        yield "bound_twice"

    widening.body.__module__ = BLOCKING.body.__module__
    module = relu(64)
    steps = widening.steps(module)
    assert [step.name for step in steps] == ["input", "bound", "widened", "bound_twice"]
    ((first, last),) = asked
    assert first.same_as(module)
    assert last.same_as(steps[-1].module)
    sch = Schedule(module)
    for run in (lambda: widening.steps(module, lanes=8), lambda: widening(sch, lanes=8)):
        with pytest.raises(TransformError, match=r"^widen: loop '\w+' would make ") as refused:
            run()
        assert (refused.value.recipe, refused.value.step) == ("widening", "bound")
    assert_structural_equal(sch.mod, module)
    running = widening.run(sch, lanes=8)
    bound = next(running).module
    with pytest.raises(TransformError, match=r"^widen: "):
        next(running)
    assert_structural_equal(sch.mod, bound)


@pytest.mark.parametrize(
    ("dtypes", "sentence"),
    [
        (("float16", "int8"), "mine: it takes no operands in float32; choose float16 or int8"),
        (
            ("float32", "float99"),
            "mine: dtypes has 'float99', which 'vector_add' does not take; it",
        ),
    ],
)
def test_a_recipe_runs_in_the_types_that_it_names(dtypes: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(TransformError, match=re.escape(sentence)):
        run_recipe(make_recipe(["one"], dtypes=dtypes), {"n": 64})
    run_recipe(make_recipe(["one"], dtypes=("float16",)), {"n": 64}, options={"dtype": "float16"})
