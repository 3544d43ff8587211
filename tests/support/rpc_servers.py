"""A server of `tirstep serve`, on a port of this machine that is free."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serve(port: int, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`tirstep serve`, which is ready when this begins."""
    command = [sys.executable, "-m", "tirstep", "serve", "--port", str(port), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert f"serving at rpc://127.0.0.1:{port}/" in process.stdout.readline()
            yield process
        finally:
            process.kill()
