"""``tirstep pass`` on passes that declare what they promise: found in a file, and held to it."""

import pytest

from .conftest import Command

PASSES = """
import tvm
from tvm.tirx import Add
from tirstep.experiments import pass_experiment
from tvm_ffi import structural_map


def swap(module):
    functions = {
        name.name_hint: structural_map(function, (Add, lambda node: Add(node.b, node.a)))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions)


@pass_experiment(before="tirx.VectorizeLoop", promises=["drops barriers only"])
def liar(module):
    '''It says that it touches barriers alone.'''
    return swap(module)


@pass_experiment(before="tirx.VectorizeLoop", promises=["adds no barriers"])
def honest(module):
    return swap(module)
"""
MODULE = """
@T.prim_func
def plus(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        C[i] = A[i] + T.float32(1)
"""
FILES = {"passes.py": PASSES, "module.py": MODULE}
pytestmark = pytest.mark.usefixtures("folder")


def test_list_has_functions_that_are_declared_as_passes(command: Command):
    result = command("list", "passes.py", "--json")
    kinds = {each["name"]: each["kind"] for each in result.document["programs"]}
    assert kinds == {"liar": "pass", "honest": "pass"}


@pytest.mark.share(2)
@pytest.mark.parametrize("modules", [["module.py:plus"], ["--corpus", "6"]])
def test_a_broken_promise_is_told_where_every_answer_is_right(command: Command, modules: list[str]):
    result = command("pass", "passes.py:liar", *modules)
    assert result.code == 1
    assert "it changes something other than barriers" in result.out
    assert "wrong" not in result.out
    document = command("pass", "passes.py:liar", *modules, "--json").document
    assert not document["ok"]
    assert {each["promise"] for each in document["promises"]["broken"]} == {"drops barriers only"}


def test_a_kept_promise_is_told(command: Command):
    result = command("pass", "passes.py:honest", "module.py:plus")
    assert result.code == 0
    assert "kept  'adds no barriers' on 1 module that it changes" in result.out
