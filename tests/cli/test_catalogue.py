"""The catalogue: what is stored is what there is, and what is stale is not believed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tirstep.cli import catalogue
from tirstep.modules import kernels
from tirstep.transforms.recipes import FORMER_NAMES, LADDERS, RECIPES

from .conftest import Command

pytestmark = pytest.mark.xdist_group("catalogue")  # one process makes it once

LADDER_NAMES = {
    name: [recipe.name for recipe in LADDERS.get(name, ())] for name in {**LADDERS, **kernels()}
}


STEPS = {
    recipe["recipe"]: recipe["steps"]
    for kernel in json.loads(catalogue.FILE.read_text())["kernels"]
    for recipe in kernel["recipes"]
}


@pytest.fixture(scope="module")
def made() -> Iterator[list[catalogue.Entry]]:
    """What `make_catalogue` makes, with the names of steps that are stored: it would run every
    recipe for them. `test_golden` holds them, recipe by recipe.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalogue, "_name_steps", lambda recipe: STEPS.get(recipe.name))
        yield catalogue.make_catalogue()


@pytest.fixture
def makes_once(made: list[catalogue.Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "make_catalogue", lambda: made)


def test_what_is_stored_is_what_there_is(made: list[catalogue.Entry]):
    stored = json.loads(catalogue.FILE.read_text())
    made = json.loads(json.dumps(made))
    assert stored["kernels"] == made, "run `make catalogue`"
    assert stored["former"] == dict(FORMER_NAMES), "run `make catalogue`"
    assert stored["digest"] == catalogue.compute_digest(), "run `make catalogue`"
    assert catalogue.name_recipes(made) == LADDER_NAMES
    assert sum(map(len, LADDER_NAMES.values())) == len(RECIPES)


def test_the_digest_is_of_every_kernel_and_recipe():
    names = {path.name for path in catalogue._find_sources()}
    assert {"matmul.py", "kernel.py", "rows.py", "gemm.py", "recipe.py"} <= names


def stale(file: Path) -> None:
    document = json.loads(catalogue.FILE.read_text())
    file.write_text(json.dumps({**document, "digest": "of other sources", "kernels": []}))


def cut(file: Path) -> None:
    file.write_text(catalogue.FILE.read_text()[:1000])


def replace(file: Path) -> None:
    file.write_text("[1, 2]")


def remove(file: Path) -> None:
    file.unlink(missing_ok=True)


@pytest.mark.usefixtures("makes_once")
@pytest.mark.parametrize("spoil", [stale, cut, replace, remove])
def test_what_is_stale_or_damaged_is_made_anew(
    spoil: Callable[[Path], None],
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    right, file = command("list", "relu").out, tmp_path / "catalogue.json"
    spoil(file)
    monkeypatch.setattr(catalogue, "FILE", file)
    assert command("list", "relu").out == right
    assert "there is no kernel, ladder or recipe 'zzz'" in command("list", "zzz").err


@pytest.mark.usefixtures("makes_once")
def test_writing_it_makes_it_fresh(tmp_path: Path):
    file = tmp_path / "catalogue.json"
    catalogue.write_catalogue(file)
    assert file.read_text() == catalogue.FILE.read_text()


def test_what_is_no_kernel_with_a_ladder_is_told_so():
    ladders = {"plain": [], "matmul": ["matmul_naive"]}
    refuse = catalogue.explain_unknown_ladder
    assert refuse("plain", ladders) == "the kernel 'plain' has no recipes; there are: matmul"
    assert "is a recipe of the ladder matmul" in (refuse("matmul_naive", ladders) or "")
    assert refuse("matmul", ladders) is None
    assert catalogue.explain_unknown_recipe("matmul_naive", ladders) is None
    assert catalogue.explain_unknown_name("plain", ladders) is None
