"""Ladders and families: what a rung changes, in its config and in its goldens."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tirstep.transforms.recipes import RECIPES, Rung
from tirstep.transforms.schedule import TransformError

GOLDENS = Path(__file__).resolve().parents[1] / "golden"
RUNGS = [recipe for recipe in RECIPES.values() if isinstance(recipe, Rung) and recipe.base]


def read_last_golden(name: str) -> str:
    """The module of a recipe's last step, as its golden has it."""
    *_, last = sorted((GOLDENS / name).glob("*.py"))
    return last.read_text("utf-8")


def read_golden_config(rung: Any) -> dict[str, object]:
    return {**rung.config, **rung.golden.config}


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_the_golden_of_a_rung_differs_from_its_base_s_by_its_knobs(rung: Rung) -> None:
    base = RECIPES[str(rung.base)]
    assert rung.golden.shape == base.golden.shape
    before, after = (read_golden_config(each) for each in (base, rung))
    changed = {name for name in after if after[name] != before[name]}
    changed |= {name for name in rung.golden.options if rung.golden.options != base.golden.options}
    assert changed == set(rung.delta)
    programs = [read_last_golden(each.name) for each in (base, rung)]
    assert programs[0] != programs[1]


@pytest.mark.parametrize(
    ("delta", "sentence"),
    [
        ({}, "the rung 'worse' sets {}"),
        ({"tile_k": 8}, "sets {'tile_k': 8}"),  # as it is already
        ({"tile_k": 8, "padding": 4}, "sets {'tile_k': 8, 'padding': 4}"),
        ({"tiles": 3}, "sets {'tiles': 3}"),
        ({"tile_k": 16, "golden": {"padding": 4}}, "'golden': {'padding': 4}}"),
    ],
)
def test_a_rung_sets_knobs_to_other_values(delta: dict[str, Any], sentence: str) -> None:
    base = RECIPES["matmul_fragments"]
    assert isinstance(base, Rung)
    with pytest.raises(TransformError) as caught:
        base.plus("worse", why="It is not", **delta)
    assert sentence in str(caught.value)
    assert "set knobs to other values" in str(caught.value)


def test_a_root_sets_as_many_knobs_as_it_needs() -> None:
    base = RECIPES["matmul_fragments"]
    assert isinstance(base, Rung)
    root = base.family.root("own", why="Ours", tile_k=16, padding=4, golden={"tile_k": 8})
    assert (root.name, root.base, dict(root.delta)) == ("matmul_own", None, {})
    defaults = {knob.name: knob.default for knob in dataclasses.fields(base.family.config)}
    assert root.config == {**defaults, "tile_k": 16, "padding": 4}
    assert read_golden_config(root)["tile_k"] == 8
    assert "Adds" not in root.doc
