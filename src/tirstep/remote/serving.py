"""Serves this machine's devices to `--device rpc://HOST:PORT/KEY`, through TVM's RPC."""

from __future__ import annotations

import ipaddress
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FEWEST_SECONDS = 1.0
"""A server that ends sooner than this after its start is not started again."""


class ServeError(RuntimeError):
    """Nothing can be served: one sentence of what is wrong and what to do."""


@dataclass(frozen=True)
class Service:
    """What is served.

    Attributes
    ----------
    host, port : where the server listens
    key : what a client has to name; not a secret, since it is sent as it is
    tracker : host and port of a tracker that hands the server out; None without one
    address : how the tracker's clients reach this machine; empty for what the tracker sees
    """

    host: str = "127.0.0.1"
    port: int = 9090
    key: str = "tirstep"
    tracker: tuple[str, int] | None = None
    address: str = ""

    def is_open(self) -> bool:
        """Whether other machines can connect."""
        try:
            found = socket.getaddrinfo(self.host, self.port, proto=socket.IPPROTO_TCP)
        except OSError as error:
            raise ServeError(
                f"there is no host {self.host} here ({error.strerror}); use 127.0.0.1, or an "
                "address of this machine"
            ) from error
        return not all(ipaddress.ip_address(each[4][0]).is_loopback for each in found)


@contextmanager
def start_server(service: Service) -> Iterator[subprocess.Popen[bytes]]:
    """A process that listens, while this lasts; raises `ServeError` where it cannot."""
    where = json.dumps([service.host, service.port, service.key, service.tracker, service.address])
    process = subprocess.Popen(
        [sys.executable, "-m", "tirstep.remote.server_process", where],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            assert process.stdout is not None
            started = json.loads(process.stdout.readline() or b"{}")
            if "port" not in started:
                raise ServeError(
                    f"cannot listen at {service.host}:{service.port} "
                    f"({started.get('error', 'its process ended')}); choose another --port"
                )
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()  # which ends it and its sessions
            process.wait()
