"""A search over a cluster of CPU workers: the same best, whatever happens to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cluster_tools import PLAN, SETTINGS, ClusterMachine, OneCluster, compile_nothing
from fake_pool import compile_here

from tirstep.bench.search import SearchResult, search, search_with

pytestmark = pytest.mark.xdist_group("cluster")


def run(cluster: OneCluster, plant: str) -> SearchResult:
    (cluster.folder / "plant").write_text(plant)
    return search_with(cluster.workers, PLAN, 0, lambda line: None)


def get_rows(found: SearchResult) -> object:
    return None if found.config is None else found.config["local_y"]


def test_a_cluster_finds_what_one_process_finds(
    cluster: OneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = run(cluster, "")
    (tmp_path / "plant").write_text("")
    compile_here(monkeypatch, lambda job: compile_nothing(job, {}))
    alone = search(PLAN, ClusterMachine(tmp_path), SETTINGS, cache=tmp_path, tell=lambda line: None)
    assert get_rows(found) == 2
    assert found == alone
    for one, measuring in ((found, {1, 2, 3}), (alone, {1})):  # the others may still start
        there = {it.step: it.workers for it in one.waited}
        assert there["compile"] == 1
        assert there["measure"] in measuring
        assert all(0 <= it.part <= 1 for it in one.waited)


def test_a_gpu_of_another_model_is_left_out(cluster: OneCluster):
    for _ in range(100):
        if cluster.warned:
            break
        cluster.workers._engine.wait()
    assert len(cluster.warned) == 1
    assert "Another GPU (sm_90)" in cluster.warned[0] or "Test GPU (sm_90)" in cluster.warned[0]
    assert "models are not mixed" in cluster.warned[0]


def test_a_worker_that_is_killed_costs_its_candidate_a_retry(
    cluster: OneCluster, capfd: pytest.CaptureFixture[str]
):
    found = run(cluster, "kill once")
    assert capfd.readouterr() == ("", "")
    assert (cluster.folder / "killed").exists()
    assert get_rows(found) == 2
    assert found.skipped == {"refused by split_loop": 1}


def test_a_candidate_that_hangs_is_out_after_its_retry(
    cluster: OneCluster, monkeypatch: pytest.MonkeyPatch
):
    engine = cluster.workers._engine  # what does not hang takes 0.1 s, on a busy machine far more
    monkeypatch.setattr(engine, "limits", replace(engine.limits, measure=10))
    found = run(cluster, "hang")
    assert get_rows(found) == 4
    assert found.skipped == {"refused by split_loop": 1, "took longer than 10 s to run": 1}


def test_a_worker_with_wrong_numbers_costs_its_candidates_a_retry(cluster: OneCluster):
    found = run(cluster, "wrong")
    assert (cluster.folder / "wrong").exists()
    assert get_rows(found) == 2
    assert "3 candidates that it found wrong are right elsewhere" in cluster.warned[-1]
    assert found.skipped == {"refused by split_loop": 1}


@pytest.mark.parametrize(
    ("cpus", "gpus", "expected"),
    [(32, 2, (2, 30)), (16, 1, (1, 15)), (32, 1, (1, 31)), (128, 1, (1, 32)), (128, 8, (8, 120))],
)
def test_all_cores_compile_up_to_what_gpus_can_measure(
    cluster: OneCluster,
    monkeypatch: pytest.MonkeyPatch,
    cpus: int,
    gpus: int,
    expected: tuple[int, int],
):
    from tirstep.cluster import ray_workers

    there = {"CPU": float(cpus), "GPU": float(gpus)}
    monkeypatch.setattr(ray_workers.ray, "cluster_resources", lambda: there)
    assert ray_workers.count_workers(1, None) == expected
