"""A server of TVM's RPC, on a port of this machine that is free."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def serve(port: int, *words: str, module: str = "tvm.exec.rpc_server") -> Iterator[None]:
    """A server, or another program of TVM's, which listens when this begins."""
    command = [sys.executable, "-m", module, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--port-end", str(port + 1), "--silent", *words]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 60
            with socket.socket() as tried:
                while tried.connect_ex(("127.0.0.1", port)):
                    assert time.monotonic() < end
                    time.sleep(0.1)
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)
