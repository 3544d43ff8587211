"""``tirstep list`` and ``tirstep steps``."""

import ast

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks import print_module, run_recipe
from tirstep.modules import kernels
from tirstep.transforms.recipes import RECIPES, find_recipe

from .conftest import Command


def test_list_has_every_kernel_and_recipe(command: Command):
    result = command("list")
    assert (result.code, result.err) == (0, "")
    for kernel in kernels().values():
        assert f"{kernel.name}({', '.join(kernel.size_names)})" in result.out
    for recipe in RECIPES:
        assert f" {recipe} " in result.out
    assert "options  acc, out, transpose_b=false (or true)" in result.out
    assert "width=3 (1 to 64)" in result.out
    assert "rows=16 columns=16 tile_k=8 tail=refuse" in result.out
    assert "B[i] = A[i] + A[i + 1] + ... + A[i + width - 1] for" in result.out
    assert not [line for line in result.out.splitlines() if line != line.rstrip()]


def test_list_as_json(command: Command):
    (kernel, *_) = command("list", "vector_add", "--json").document["kernels"]
    assert {recipe["steps"] for recipe in kernel["recipes"]} == {None}  # none was run
    document = command("list", "vector_add_bound", "--json").document
    assert set(document) == {"command", "versions", "kernels"}
    (kernel,) = document["kernels"]
    assert set(kernel) == {"kernel", "doc", "shape", "dtypes", "options", "recipes"}
    recipe = kernel["recipes"][0]
    assert set(recipe["default_example"]) == set(recipe["golden"])
    about = {"recipe", "doc", "kernel", "config", "steps", "ladder", "base", "delta", "why"}
    assert set(recipe) == {*about, "default_example", "golden"}
    assert recipe["steps"] == ["input", "split", "bound"]
    assert recipe["config"] == {"threads": 128, "tail": "refuse"}
    assert set(recipe["default_example"]) == {"shape", "options", "config"}


def test_a_pair_of_the_command_line_is_a_pair_of_the_recipe(command: Command):
    wish = ("--shape", "64x64x64", "--set", "threads=4,8", "--set", "thread_tile=8x4")
    document = command("steps", "matmul_strips", *wish, "--json").document
    assert document["config"]["threads"] == [4, 8]
    assert document["config"]["thread_tile"] == [8, 4]
    assert 'T.thread_binding(32, thread="threadIdx.x")' in document["steps"][1]["tir"]


def test_steps_print_a_program_for_each(command: Command):
    result = command("steps", "vector_add_bound")
    run = run_golden(find_recipe("vector_add_bound"))
    assert (result.code, result.err) == (0, "")
    for step in run.steps:
        heading = f"# vector_add_bound {step.index:02d}_{step.name}  1024  {step.location}\n"
        assert heading in result.out
        assert print_module(step.module) in result.out
    ast.parse(result.out)  # the headings are comments


@pytest.mark.parametrize("name", ["bound", "2", "02", "02_bound"])
def test_a_step_by_name_and_number(command: Command, name: str):
    result = command("steps", "vector_add_bound", "--step", name)
    heading, _, program = result.out.partition("\n")
    assert heading.startswith("# vector_add_bound 02_bound  1024  transforms/recipes/element_lad")
    assert program == print_module(run_golden(find_recipe("vector_add_bound")).steps[2].module)


def test_traces(command: Command):
    result = command("steps", "vector_add_bound", "--trace")
    assert result.out.count("def apply_trace(sch") == 3
    assert 'sch.bind(loop=l3, thread_axis="threadIdx.x")' in result.out
    assert "T.prim_func" not in result.out
    ast.parse(result.out)


def test_steps_as_wished(command: Command):
    options = ("--dtype", "float16", "--option", "transpose_b=true", "--option", "out=float16")
    sizes = ("--set", "tile_k=4", "--set", "tail=guard")
    shape = ("--shape", "m=33,k=20,n=17")
    result = command("steps", "matmul_shared", "--step", "4", *options, *sizes, *shape)
    run = run_recipe(
        find_recipe("matmul_shared"),
        {"m": 33, "n": 17, "k": 20},
        options={"dtype": "float16", "transpose_b": True, "out": "float16"},
        config={"tile_k": 4, "tail": "guard"},
    )
    assert result.out.partition("\n")[2] == print_module(run.steps[4].module)


def test_steps_as_json(command: Command):
    document = command("steps", "vector_add_bound", "--json").document
    assert set(document) == {
        *("command", "versions", "recipe", "shape", "options", "config", "steps"),
    }
    assert document["shape"] == {"n": 1024}
    assert document["config"] == {"threads": 128, "tail": "refuse"}
    assert [step["number"] for step in document["steps"]] == [0, 1, 2]
    for step in document["steps"]:
        assert set(step) == {"number", "name", "source", "tir", "trace"}
