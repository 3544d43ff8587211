"""The process that listens: it ends with its parent, and where TVM's server ends.

TVM's own starter leaves a process behind that goes on listening when its parent is killed. This one
reads its standard input, which its parent holds open, and ends with all sessions when that ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import Any

from tvm.rpc.server import PopenRPCServerState


def main(host: str, port: int, key: str, tracker: list[Any] | None, address: str) -> None:
    """Listen, and print the port; ends with its sessions when the server's thread ends."""
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
    main(*json.loads(sys.argv[1]))
