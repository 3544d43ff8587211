"""Names of kernels, ladders and recipes: what is said of one that is not known."""

import pytest

from tirstep.cli import names
from tirstep.modules import kernels
from tirstep.transforms.recipes import LADDERS, RECIPES

from .conftest import Command

EITHER = "there is no kernel, ladder or recipe 'zzz'; tirstep list says which there are"
RECIPE = "there is no recipe 'zzz'; tirstep list says which there are"


def test_all_names_are_known():
    known = names.name_recipes()
    assert {*known} == {*LADDERS, *kernels()}
    assert [recipe for ladder in known.values() for recipe in ladder] == [*RECIPES]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        *((f"{name} zzz", RECIPE) for name in ("steps", "diff", "lower", "facts", "check", "why")),
        ("export zzz folder --as trace", RECIPE),
        ("search zzz", RECIPE),
        ("tune zzz -o folder", RECIPE),
        ("diff relu_bound --against zzz", RECIPE),
        ("list zzz", EITHER),
        ("report zzz", EITHER),
        ("choose zzz", EITHER),
        ("check matmul", "'matmul' is a ladder of"),
        ("check relu_boun", "there is no recipe 'relu_boun'; did you mean relu_bound"),
        ("check tests", "there is no recipe 'tests'; for the folder here, write ./tests"),
        ("ladder relu_bound", "'relu_bound' is a recipe of the ladder relu: give tirstep ladder"),
    ],
)
def test_an_unknown_name_is_a_sentence(command: Command, line: str, sentence: str):
    result = command(*line.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"tirstep: {sentence}")
    assert len(result.err.splitlines()) == 1


def test_what_is_no_kernel_with_a_ladder_is_told_so(monkeypatch: pytest.MonkeyPatch):
    ladders = {"plain": [], "matmul": ["matmul_naive"]}
    monkeypatch.setattr(names, "name_recipes", lambda: ladders)
    refuse = names.explain_unknown
    plain = "the kernel 'plain' has no recipes; there are: matmul"
    assert refuse("plain", "ladder") == plain
    assert "is a recipe of the ladder matmul" in (refuse("matmul_naive", "ladder") or "")
    assert refuse("matmul", "ladder") is None
    assert refuse("matmul_naive", "recipe") is None
    assert refuse("plain", "name") is None
