"""One cluster for all of this folder's tests: two workers that measure, and one that compiles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cluster_tools
import pytest
from cluster_tools import PLAN, SETTINGS, OneCluster, make_tools


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneCluster]:
    pytest.importorskip("ray", reason="the extra cluster: Ray is not installed")
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "plant").write_text("")
    warned: list[str] = []
    support = str(Path(cluster_tools.__file__).parent)
    with pytest.MonkeyPatch.context() as patch:  # processes of the cluster load what is injected
        patch.setenv("PYTHONPATH", support)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield from start(folder, warned)


def start(folder: Path, warned: list[str]) -> Iterator[OneCluster]:
    from tirstep.cluster.connecting import connected
    from tirstep.cluster.ray_workers import Limits, RayWorkers

    limits = Limits(start=100)
    with connected("local", num_cpus=4):
        workers = RayWorkers(
            PLAN,
            SETTINGS,
            lambda line: None,
            warned.append,
            tools=make_tools(folder),
            limits=limits,
            gpus=3,
        )
        yield OneCluster(workers, warned, folder)
        workers.stop()
