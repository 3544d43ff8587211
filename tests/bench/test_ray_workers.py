"""A search over a cluster of CPU workers: the same best, whatever happens to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cluster_tools
import pytest
from cluster_tools import PLAN, SETTINGS, ClusterMachine, MakeMachine, OneCluster, compile_nothing
from fake_pool import compile_here, search_here

from tirstep.bench import BenchError
from tirstep.bench.search import SearchResult, search

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneCluster]:
    """Two workers."""
    pytest.importorskip("ray", reason="the extra cluster: Ray is not installed")
    from tirstep.bench.cluster import connected
    from tirstep.bench.ray_workers import RayWorkers

    folder = tmp_path_factory.mktemp("cluster")
    (folder / "plant").write_text("")
    warned: list[str] = []
    with pytest.MonkeyPatch.context() as patch:  # processes of the cluster load what is injected
        patch.setenv("PYTHONPATH", str(Path(cluster_tools.__file__).parent))
        with connected("local", num_cpus=4, num_gpus=2):
            make = MakeMachine(folder)
            workers = RayWorkers(PLAN, SETTINGS, lambda line: None, warned.append, make)
            yield OneCluster(workers, warned, folder)
            workers.stop()


def run(cluster: OneCluster, plant: str) -> SearchResult:
    (cluster.folder / "plant").write_text(plant)
    return search(cluster.workers, PLAN, 0, lambda line: None)


def get_rows(found: SearchResult) -> object:
    return None if found.config is None else found.config["local_y"]


REFUSED = {"refused by split_loop": 1}


def test_a_cluster_finds_what_one_process_finds(
    cluster: OneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = run(cluster, "")
    (tmp_path / "plant").write_text("")
    compile_here(monkeypatch, compile_nothing)
    alone = search_here(PLAN, ClusterMachine(tmp_path), SETTINGS)
    assert get_rows(found) == 2
    assert found == alone


def test_a_gpu_of_another_model_is_left_out(cluster: OneCluster, monkeypatch: pytest.MonkeyPatch):
    from tirstep.bench import ray_workers

    workers, killed = cluster.workers, []
    there = workers._first["same"].replace("Test GPU", "Another GPU")
    late = ray_workers._Worker("9", actor="its process")
    late.expect(ray_workers.ray.put({**workers._first, "same": there}), 60)
    workers._workers.append(late)
    monkeypatch.setattr(ray_workers.ray, "kill", killed.append)
    while late in workers._workers:  # the second worker may still start
        workers._step()
    assert killed == ["its process"]
    assert cluster.warned == [
        f"left out worker 9: it is {there}, and the first worker is {workers._first['same']}: "
        "models and versions are not mixed"
    ]
    assert workers.describe() == "2 x Test GPU"


@pytest.mark.parametrize(
    ("plant", "left", "rows", "hanging"), [("kill once", "killed", 2, 0), ("hang", "", 4, 1)]
)
def test_a_worker_that_dies_or_hangs_costs_its_candidates_a_retry(
    cluster: OneCluster,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    plant: str,
    left: str,
    rows: int,
    hanging: int,
):
    """What does not hang takes 0.1 s, on a busy machine far more: the limit is of what it took."""
    limit = 4
    if plant == "hang":
        took = run(cluster, "").seconds["candidates"]
        limit = max(limit, round(10 * took))
        monkeypatch.setattr("tirstep.bench.ray_workers.MEASURE_SECONDS", limit)
        monkeypatch.setattr(cluster.workers, "_compile_limit", 1)
    cluster.workers._retried.clear()
    found = run(cluster, plant)
    assert capfd.readouterr() == ("", "")
    assert (cluster.folder / left).exists()
    assert get_rows(found) == rows
    assert found.skipped == Counter(REFUSED) + Counter({f"took longer than {limit + 1} s": hanging})
    assert len(cluster.workers._workers) == 2


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([(32, 2)], (2, 15)),
        ([(16, 1)], (1, 15)),
        ([(128, 8), (16, 0)], (8, 15)),
        ([(32, 4), (32, 2)], (6, 7)),
        ([(32, 2), (1, 1)], (2, 15)),
    ],
)
def test_each_gpu_has_the_cores_of_its_machine(
    cluster: OneCluster,
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[tuple[int, int]],
    expected: tuple[int, int],
):
    from tirstep.bench import ray_workers

    there = [
        {"Alive": True, "Resources": {"CPU": float(cpus), **({"GPU": gpus} if gpus else {})}}
        for cpus, gpus in nodes
    ]
    monkeypatch.setattr(ray_workers.ray, "nodes", lambda: there)
    assert ray_workers.count_workers() == expected


def test_without_a_worker_the_search_ends_with_a_sentence(cluster: OneCluster):
    """The last test: it takes the workers away."""
    for worker in [*cluster.workers._workers]:
        cluster.workers._dismiss(worker, "it is late")
    with pytest.raises(BenchError, match="no worker is left to measure candidates"):
        run(cluster, "")
