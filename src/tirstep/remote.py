"""Serves this machine's devices to `--device rpc://HOST:PORT/KEY`, through TVM's RPC.

`start_server` starts this file as a program, the process that listens.
"""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
        [sys.executable, "-m", "tirstep.remote", where],
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


def listen(host: str, port: int, key: str, tracker: list[Any] | None, address: str) -> None:
    """Listen in this process, and print the port; ends with its sessions or with its parent.

    TVM's own starter leaves a process behind that goes on listening when its parent is killed. This
    one reads its standard input, which its parent holds open, and ends with all sessions when that
    ends.
    """
    from tvm.rpc.server import PopenRPCServerState  # which the parent does not need

    threading.excepthook = lambda _: None  # a session died: who started this says so
    try:
        state = PopenRPCServerState(
            host,
            port,
            port + 1,
            key=key,
            tracker_addr=tuple(tracker) if tracker else None,
            custom_addr=address or None,
            silent=True,
        )
    except (OSError, ValueError) as error:
        print(json.dumps({"error": getattr(error, "strerror", None) or str(error)}), flush=True)
        os._exit(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(json.dumps({"port": state.port}), flush=True)
    state.thread.join()
    _end_group()


def _end_with_parent() -> None:
    while os.read(0, 1):  # not through sys.stdin, whose lock a session's process would inherit
        pass
    _end_group()


def _end_group() -> None:
    """End the sessions too, which are processes of this one's group."""
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    listen(*json.loads(sys.argv[1]))
