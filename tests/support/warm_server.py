"""A process that has imported TVM and tirstep once, and forks for each script that it is given.

`warm_python` starts it, with a socket on standard input that closes where it is to end, and the
descriptor of another socket as a word, where it listens to `warm_launcher`; several of these may
wait at the same time. A message is what a process needs to begin: words, folder and environment,
and with it the descriptors of its standard streams. The answer is its exit code. It forks before
anything has begun a thread, which none survives.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MESSAGE = 1 << 20


def serve(listener: socket.socket, ending: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for each launcher, until the other socket closes. Returns in the child alone."""
    selector = selectors.DefaultSelector()
    selector.register(ending, selectors.EVENT_READ)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is ending:
                for other in filter(None, (each.data for each in selector.get_map().values())):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(other[0], signal.SIGKILL)
                os._exit(0)
            elif key.fileobj is not listener:
                finish(selector, key)
                continue
            asking, _ = listener.accept()
            data, descriptors, _, _ = socket.recv_fds(asking, MESSAGE, 3)
            child = os.fork()
            if not child:
                for each in (asking, listener, ending, selector):
                    each.close()
                return json.loads(data), descriptors
            for each in descriptors:
                os.close(each)
            ended = os.pidfd_open(child)
            selector.register(ended, selectors.EVENT_READ, (child, asking, ended))
            selector.register(asking, selectors.EVENT_READ, (child, asking, ended))


def finish(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Tell a launcher how its child has ended, or the child of a signal that the launcher got; one
    that was killed takes its child along.
    """
    child, asking, ended = key.data
    if asking.fileno() < 0:  # both have been seen at once, and the end of the child is told
        return
    if key.fileobj is asking:
        said = asking.recv(64)
        if not said:
            selector.unregister(asking)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, int(said or signal.SIGKILL))
        return
    selector.unregister(ended)
    os.close(ended)
    _, status = os.waitpid(child, 0)
    with asking:
        with contextlib.suppress(KeyError):
            selector.unregister(asking)
        with contextlib.suppress(OSError):
            asking.send(str(os.waitstatus_to_exitcode(status)).encode())


class Fork:
    """What `subprocess.Popen` is to a command that runs itself guarded, without the imports."""

    def __init__(self, words: list[str], env: dict[str, str], pass_fds: list[int]) -> None:
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            os.environ.update(env)
            os._exit(run_to_its_end(words[1:]))

    def wait(self) -> int:
        """The exit code, or the signal below 0."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run_to_its_end(words: list[str]) -> int:
    """Run a module in the middle of another one; its exit code."""
    code: object = 0
    try:
        run(words)
    except SystemExit as ended:
        code = ended.code
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code or 0)  # type: ignore[call-overload]


def become(job: dict[str, Any], descriptors: list[int]) -> None:
    """Take the streams, the folder and the environment of a process that begins."""
    for number, each in enumerate(descriptors):
        os.dup2(each, number)
        os.close(each)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.executable = job["executable"]
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
    by_line = number == 2 or (mode == "w" and binary.isatty())
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=by_line, write_through=at_once)


def run(words: list[str]) -> None:
    """Run a script, ``-m MODULE``, or ``-c PROGRAM``, as ``python`` would."""
    if words[0] == "-m":
        sys.path[0], sys.argv = os.getcwd(), words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    main = type(sys)("__main__")
    main.__dict__.update(__builtins__=builtins)
    sys.modules["__main__"] = main
    if words[0] == "-c":
        sys.path[0], sys.argv = "", ["-c", *words[2:]]
        text, name = words[1].encode(), "<string>"
    else:
        sys.path[0], sys.argv = str(Path(words[0]).resolve().parent), words
        text, name = Path(words[0]).read_bytes(), words[0]
        main.__dict__.update(__file__=name)
    exec(compile(text, name, "exec", dont_inherit=True), vars(main))


def count_threads() -> int:
    """Threads of this process, those of C++ included; 1 where the system does not say."""
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1


def import_commands() -> None:
    """What the commands of tirstep import as they run; processes that they spawn are Python's."""
    importlib.import_module("multiprocessing.spawn")
    for name in ("app", "check", "judging", "screen", "report.jobs", "report.document"):
        importlib.import_module(f"tirstep.cli.{name}")


if __name__ == "__main__":
    import_commands()
    gc.collect()
    gc.freeze()  # no child looks at what the imports made, and their memory stays shared
    if count_threads() > 1:
        sys.exit("warm_server: imports began a thread, which a fork would lose")
    job, descriptors = serve(
        socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=os.dup(0))
    )
    from tirstep.cli import guarding

    guarding.subprocess = SimpleNamespace(Popen=Fork)  # type: ignore[assignment]
    become(job, descriptors)
    run(job["words"])
