"""A process that has imported TVM once, and forks for each script that it is given.

`warm_python` starts it, with a socket on standard input. A message there is what a process needs to
begin: words, folder and environment, and with it the descriptors of its standard streams. Answers
are the process' number, and its exit code once it has ended. It forks before anything has begun a
thread, which none survives.
"""

from __future__ import annotations

import builtins
import gc
import io
import json
import os
import runpy
import signal
import socket
import sys
from pathlib import Path
from typing import Any

MESSAGE = 1 << 20


def serve(asking: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each message, one after the other. Returns in the child alone."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(asking, MESSAGE, 3)
        if not data:
            os._exit(0)
        child = os.fork()
        if not child:
            asking.close()
            return json.loads(data), descriptors
        for each in descriptors:
            os.close(each)
        asking.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        asking.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(job: dict[str, Any], descriptors: list[int]) -> None:
    """Take the streams, the folder and the environment of a process that begins."""
    for number, each in enumerate(descriptors):
        os.dup2(each, number)
        os.close(each)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.stdin = sys.__stdin__ = open_stream(0, "r", "strict")
    sys.stdout = sys.__stdout__ = open_stream(1, "w", "strict")
    sys.stderr = sys.__stderr__ = open_stream(2, "w", "backslashreplace")


def open_stream(number: int, mode: str, errors: str) -> io.TextIOWrapper:
    """A standard stream as Python opens it where it is no terminal."""
    at_once = mode == "w" and bool(os.environ.get("PYTHONUNBUFFERED"))
    binary = open(number, f"{mode}b", 0 if at_once else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary, "utf-8", errors, line_buffering=number == 2, write_through=at_once
    )


def run(words: list[str]) -> None:
    """Run a script, or ``-m MODULE``, as ``python`` would."""
    if words[0] == "-m":
        sys.path[0], sys.argv = os.getcwd(), words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.path[0], sys.argv = str(Path(words[0]).resolve().parent), words
    main = type(sys)("__main__")
    main.__dict__.update(__file__=words[0], __builtins__=builtins)
    sys.modules["__main__"] = main
    code = compile(Path(words[0]).read_bytes(), words[0], "exec", dont_inherit=True)
    exec(code, vars(main))


def count_threads() -> int:
    """Threads of this process, those of C++ included; 1 where the system does not say."""
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1


if __name__ == "__main__":
    import numpy  # noqa: F401
    import tvm  # noqa: F401

    gc.collect()
    gc.freeze()  # no child looks at what the imports made, and their memory stays shared
    if count_threads() > 1:
        sys.exit("warm_server: imports began a thread, which a fork would lose")
    job, descriptors = serve(socket.socket(fileno=os.dup(0)))
    become(job, descriptors)
    run(job["words"])
