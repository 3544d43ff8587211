"""The checks, checked: every planted bug is killed by the layers that are there to kill it.

What is planted, and how, is in planted/; what must kill it, in expected.txt; the table of all of it
in docs/mutants.md, which `make mutants` writes.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from planted import MUTANTS, elsewhere, expectations
from planted.in_recipes import IN_RECIPES
from planted.layers import LAYERS, judge, judge_original
from planted.originals import find_original, replay
from planted.plant import SCHEDULED, Edit, Mutant
from planted.table import find_cells, is_killed, render
from planted.traces import rebind, split_by
from tvm.ir import assert_structural_equal

# One process asks each layer about each mutant once: the answers are kept.
pytestmark = pytest.mark.xdist_group("mutants")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "mutants.md"
EXPECTED = expectations.read()
RECORD = elsewhere.read()
COUNTED = [mutant for mutant in MUTANTS if not mutant.equivalent]
ORIGINALS = sorted({mutant.original for mutant in MUTANTS})
KINDS = {
    "barrier dropped",
    "barrier moved",
    "divergent barrier",
    "predicate lost",
    "scope too narrow",
    "fetch one short",
    "index swapped",
    "init lost",
    "stage off by one",
    "wait dropped",
    "wait one group short",
    "commit missing",
    "cast to the wrong dtype",
    "double binding",
    "thread extents that differ",
    "vector over the edge",
    "stale golden",
}


def by_name(mutants) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mutant", mutants, ids=lambda mutant: mutant.name)


@by_name([mutant for mutant in COUNTED if not mutant.survives])
def test_a_mutant_is_killed_by_what_must_kill_it(mutant: Mutant) -> None:
    said = judge(mutant)
    silent = sorted(layer for layer in EXPECTED[mutant.name] if not said.get(layer))
    assert not silent, f"{mutant.name}: {', '.join(silent)} said nothing; others said {said}"


@by_name([mutant for mutant in MUTANTS if mutant.survives or mutant.equivalent])
def test_what_is_declared_to_survive_does(mutant: Mutant) -> None:
    """Killed after all: a check has become better, or the argument is wrong. Say which."""
    cells = find_cells(mutant, RECORD)
    assert not is_killed(mutant, cells), f"{mutant.name} is killed: {judge(mutant)}"


@pytest.mark.parametrize("name", ORIGINALS)
def test_an_original_is_killed_by_nothing(name: str) -> None:
    accused = {layer: said for layer, said in judge_original(name).items() if said}
    assert accused == {}


def test_at_least_95_percent_are_killed_without_a_gpu() -> None:
    killed = [mutant for mutant in COUNTED if is_killed(mutant, find_cells(mutant, RECORD))]
    assert len(killed) >= 0.95 * len(COUNTED)


def test_the_kinds_of_mistakes_are_there() -> None:
    assert len(COUNTED) >= 45
    assert {mutant.kind for mutant in COUNTED} >= KINDS


def test_names_and_expectations_fit() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert set(EXPECTED) == {mutant.name for mutant in COUNTED if not mutant.survives}
    assert {layer for layers in EXPECTED.values() for layer in layers} <= set(LAYERS)
    assert all(EXPECTED.values())


def test_the_document_has_this_table() -> None:
    text = DOCUMENT.read_text() if DOCUMENT.is_file() else ""
    assert text == render(MUTANTS), "docs/mutants.md is not up to date: run `make mutants`"


def test_a_mutant_that_changes_nothing_is_refused() -> None:
    first = next(mutant for mutant in MUTANTS if mutant.level == SCHEDULED)
    idle = replace(first, edits=(Edit("B[vk, vj]", "B[vk, vj + 0]"),))
    with pytest.raises(AssertionError, match="is the original: fix it"):
        judge(idle)


@pytest.mark.parametrize("name", sorted({mutant.original for mutant in IN_RECIPES}))
def test_an_unedited_trace_makes_the_original(name: str) -> None:
    original = find_original(name)
    assert_structural_equal(replay(original.run).steps[-1].module, original.module)


def test_an_edit_of_an_instruction_that_is_not_there_is_refused() -> None:
    run = find_original("matmul_threads_1d").run
    with pytest.raises(LookupError, match=r"no occurrence 0 of Bind threadIdx\.y in any step: fix"):
        replay(run, [rebind("threadIdx.y", "threadIdx.x")])
    with pytest.raises(LookupError, match="no occurrence 1 of Split in step 'rows_tiled': fix"):
        replay(run, [split_by(8, step="rows_tiled", which=1)])


def test_an_edit_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(LookupError, match="no occurrence 1 of 'b': fix the mutant"):
        Edit("b", "c", 1).apply("a b")


def test_an_edit_of_several_lines_keeps_the_indentation() -> None:
    edited = Edit("wait()", "if odd:\n    wait()").apply("for k:\n    wait()\n")
    assert edited == "for k:\n    if odd:\n        wait()\n"
