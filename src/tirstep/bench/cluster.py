"""Joins a cluster of Ray's, or starts one on this machine, and leaves it in any case."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
from collections.abc import Iterator
from typing import Any

from tirstep.printing import silenced_stderr
from tirstep.processes import count_cores

from . import BenchError, find_last_line

REACH_SECONDS = 4.0
"""Within these the cluster's head has to answer; Ray itself waits for minutes."""


def require_reachable(address: str) -> None:
    """Raise `BenchError` where nothing listens within `REACH_SECONDS`."""
    host, colon, port = address.rpartition(":")
    if "://" in address or not (colon and host and port.isdigit() and 0 < int(port) < 1 << 16):
        raise BenchError(
            f"--cluster {address} is not an address; give auto, local, or HOST:PORT of the "
            "cluster's head, such as 10.0.0.5:6379, on a machine that has joined it with ray start"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise BenchError(
            f"--cluster {address}: nothing answers there ({error}); is the cluster's head "
            "running (ray start --head), and is this its address?"
        ) from error


@contextlib.contextmanager
def connected(address: str, **settings: Any) -> Iterator[None]:
    """Be part of a cluster: ``auto`` joins the one of this machine or starts one, ``local`` starts
    one, HOST:PORT joins that one. `settings` are `ray.init`'s, for a cluster that is started.

    Raises `BenchError` where there is none. What was started here ends here.
    """
    if importlib.util.find_spec("ray") is None:
        raise BenchError(
            "--cluster runs through Ray, which is not installed; install the extra cluster: "
            "pip install 'tirstep[cluster]'"
        )
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS") or "auto"
    # Ray reads its environment as it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address not in ("auto", "local"):
        require_reachable(address)
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "3")  # whether it takes us
    import ray
    from ray.exceptions import RayError

    # Ray prints a paragraph for each process that dies; the search says what it came to.
    ray._private.worker.print_to_stdstream = lambda *arguments, **named: None
    # Ray counts the machine's cores, or a container's, and not those that taskset leaves.
    cores = count_cores()
    limited = {"num_cpus": cores} if cores < (os.cpu_count() or 1) else {}
    started: dict[str, Any] = {"include_dashboard": False, **limited, **settings}
    for place in ("auto", "local") if address == "auto" else (address,):
        given = started if place == "local" else {}
        try:
            with silenced_stderr():  # a line for each attempt, past Python
                ray.init(address=place, log_to_driver=False, logging_level="ERROR", **given)
            break
        except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
            if place == "auto" and isinstance(error, ConnectionError):
                continue  # there is none to join
            raise BenchError(
                f"--cluster {address}: Ray does not work ({find_last_line(error)}); run this "
                "on a machine that has joined the cluster, with the same versions of Ray and "
                "Python, and with RAY_AUTH_MODE=token where the cluster's head asks for a token"
            ) from error
    try:
        yield
    finally:
        ray.shutdown()
