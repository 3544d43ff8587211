"""tirstep's own passes keep what they promise, and do to a few modules what their goldens say."""

import pytest
from golden_runs import run_golden
from own_passes import DECLARED, GOLDENS, get_pass, list_subjects, make_golden

from tirstep.experiments import (
    Edit,
    Experiment,
    ExperimentError,
    assert_keeps_promises,
    list_steps,
    try_change,
)
from tirstep.experiments.editing import get_pass as make_pass
from tirstep.experiments.editing import list_passes, list_places, require_reached
from tirstep.lowering_checks import run_recipe
from tirstep.transforms import pipeline
from tirstep.transforms.recipes import RECIPES

CORRECTING = ("CorrectAsyncWaits", "NameBarriersOfRoles", "PointInOwnTypes", "UseOwnLanes")


@pytest.mark.share(6)
@pytest.mark.parametrize("name", DECLARED)
def test_a_pass_of_ours_keeps_its_promises(name: str):
    subjects = list_subjects(name)
    report = assert_keeps_promises(get_pass(name), subjects, declaration=DECLARED[name])
    assert (report.tried, report.changed) == (len(subjects), len(subjects))


@pytest.mark.share(8)
@pytest.mark.parametrize("name", DECLARED)
def test_a_pass_of_ours_does_what_its_golden_says(name: str):
    assert (GOLDENS / f"{name}.diff").read_text("utf-8") == make_golden(name)


def test_every_pass_of_ours_is_held():
    """Without the others a module is wrong: test_async_waits.py holds one, the next tests three."""
    ours = {name for name, it in vars(pipeline).items() if type(it).__name__ == "PrimFuncPass"}
    assert ours == {*DECLARED, *CORRECTING, "LowerAsyncDMA"}  # which is TVM's, made faster


def test_without_the_lanes_of_fragments_a_module_is_refused() -> None:
    """Elements of fragments have rows that a thread's registers do not have."""
    (*_, last) = list_steps(run_golden(RECIPES["attention_mma"]))
    experiment = Experiment("drop", Edit("drop", "UseOwnLanes"))
    trial = try_change(experiment, last)
    assert trial.status == "refused"
    assert trial.reason


def test_without_pointers_of_their_own_types_a_module_is_refused() -> None:
    """TVM gives float32 results the memory of tiles in float16."""
    recipe = RECIPES["matmul_wgmma_tma_store"]
    config = {"tile": (64, 32), "stages": 2}
    run = run_recipe(
        recipe, {"m": 64, "n": 32, "k": 128}, options={"dtype": "float16"}, config=config
    )
    (*_, last) = list_steps(run)
    experiment = Experiment("drop", Edit("drop", "PointInOwnTypes"))
    trial = try_change(experiment, last)
    assert trial.status == "refused"
    assert trial.reason is not None
    assert "tvm_access_ptr element type must match" in trial.reason


def test_without_their_names_barriers_of_roles_are_found_wrong() -> None:
    """All warps would do what those do that compute, and what those do that copy."""
    (*_, last) = list_steps(run_golden(RECIPES["matmul_wgmma_persistent"]))
    experiment = Experiment("drop", Edit("drop", "NameBarriersOfRoles"))
    trial = try_change(experiment, last)
    assert trial.status == "wrong"


def test_a_pass_of_ours_is_a_place() -> None:
    """Where a module asks for our pipeline, which has it; elsewhere it is refused, or no change."""
    (*_, last) = list_steps(run_golden(RECIPES["matmul_prefetched"]))
    first = next(iter(list_steps(run_golden(RECIPES["vector_add_bound"]))))
    drop = Edit("drop", "DropRedundantBarriers")
    experiment = Experiment("drop", drop)
    trial = try_change(experiment, last)
    assert (trial.status, trial.is_changed) == ("right", True)
    assert trial.diff is not None
    assert (trial.diff.added, trial.diff.removed) == (1, 0)
    assert try_change(experiment, first).status == "unchanged"
    require_reached(drop, [first.module, last.module])
    with pytest.raises(ExperimentError, match="DropRedundantBarriers is a pass of tirstep's own"):
        require_reached(drop, [first.module])
    ran: list[int] = []

    def look(module: object) -> object:
        ran.append(1)
        return module

    for place in ("before", "after", "replace"):
        ran.clear()
        edit = Edit(place, "tirstep.DropDoubledBarriers", make_pass(look))
        experiment = Experiment("look", edit)
        try_change(experiment, last)
        assert ran == [1], place


def test_the_passes_of_ours_are_all_places() -> None:
    own = {*list_places()} - {*list_passes(), *list_passes("tirx")}
    names = {name.partition(".")[2] for name in own}
    assert names == {*DECLARED, *CORRECTING}
