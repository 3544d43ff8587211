"""Joins a cluster of Ray's, or starts one on this machine, and leaves it in any case."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tirstep.bench import BenchError, find_last_line
from tirstep.processes import count_cores, silenced_stderr

AUTO, LOCAL = "auto", "local"
REACH_SECONDS = 4.0
"""Within these the cluster's head has to answer."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""How HTTP/2, which Ray speaks, begins (RFC 9113, 3.4), with empty settings."""
SETTINGS = 4


def require_ray() -> None:
    """Raise `BenchError` where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise BenchError(
            "--cluster runs through Ray, which is not installed; install the extra cluster: "
            "pip install 'tirstep[cluster]'"
        )


def require_reachable(address: str) -> None:
    """Raise `BenchError` where no head of a cluster answers within `REACH_SECONDS`.

    Ray itself waits for minutes, with a log of its attempts.
    """
    if "://" in address:
        raise BenchError(
            f"--cluster {address}: give HOST:PORT of the cluster's head, on a machine that has "
            "joined it with ray start --address=HOST:PORT"
        )
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdigit() and 0 < int(port) < 1 << 16):
        raise BenchError(
            f"--cluster {address} is no address; give auto, local, or HOST:PORT such as "
            "10.0.0.5:6379"
        )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), REACH_SECONDS) as connection:
            connection.settimeout(REACH_SECONDS)
            connection.sendall(PREFACE)
            answer = connection.recv(9)
    except OSError as error:
        raise BenchError(
            f"--cluster {address}: nothing answers there ({error}); is the cluster's head "
            "running (ray start --head), and is this its address?"
        ) from error
    if len(answer) < 4 or answer[3] != SETTINGS:
        raise BenchError(
            f"--cluster {address}: what answers there is no head of a cluster of Ray's; give the "
            "address that ray start --head said"
        )


@contextlib.contextmanager
def connected(address: str, **settings: Any) -> Iterator[None]:
    """Be part of a cluster: ``auto`` joins the one of this machine or starts one, ``local`` starts
    one, HOST:PORT joins that one. `settings` are `ray.init`'s, for a cluster that is started.

    Raises `BenchError` where there is none. What was started here ends here.
    """
    require_ray()
    if address == AUTO and os.environ.get("RAY_ADDRESS"):
        address = os.environ["RAY_ADDRESS"]
    if address not in (AUTO, LOCAL):
        require_reachable(address)
        _use_token()
        # Its head answers: three tries say whether it takes us. Ray reads this as it is imported.
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "3")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Those that compile have no GPU of their own: Ray then leaves their environment as it is.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    with _without_messages():
        try:
            _join(address, settings, quiet)
            yield
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _without_messages() -> Iterator[None]:
    """Ray prints a paragraph for each process that dies, whatever is asked of it: the search says
    what it came to. It goes through a function of Ray's own, which it may rename.
    """
    import ray

    module, name = ray._private.worker, "print_to_stdstream"
    original = getattr(module, name, None)
    if original is None:
        yield
        return
    setattr(module, name, lambda *arguments, **named: None)
    try:
        yield
    finally:
        setattr(module, name, original)


def _use_token() -> None:
    """Show a cluster that is named the user's token, where there is one.

    Ray asks for tokens where it finds one as a cluster starts, and takes it along by itself only to
    a cluster that it finds or starts. It reads this setting as it is imported; one that asks for
    none ignores it.
    """
    places = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    if any(os.environ.get(it) for it in places) or (Path.home() / ".ray" / "auth_token").is_file():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _limit_cores() -> dict[str, int]:
    """What a cluster that is started here may use, where that is not all of the machine.

    Ray counts the machine's cores, or those of a container, and not those that ``taskset`` leaves.
    """
    cores = count_cores()
    return {"num_cpus": cores} if cores < (os.cpu_count() or 1) else {}


def _join(address: str, settings: dict[str, Any], quiet: dict[str, Any]) -> None:
    import ray
    from ray.exceptions import RayError

    try:
        if address != LOCAL:
            try:
                # A line for each attempt, past Python: what fails is a sentence of ours.
                with silenced_stderr():
                    ray.init(address=address, **quiet)
                return
            except ConnectionError:
                if address != AUTO:
                    raise
        given = {**_limit_cores(), **settings}
        ray.init(address=LOCAL, include_dashboard=False, **given, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        raise BenchError(
            f"--cluster {address}: Ray does not take part ({find_last_line(error)}); run this on a "
            "machine that has joined the cluster, with the same versions of Ray and Python, and "
            "with the head's ~/.ray/auth_token if there is one"
        ) from error
