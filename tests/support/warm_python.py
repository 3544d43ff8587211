"""`run`, for scripts that tests start: what `subprocess.run` does, without the second of an import.

A server (`warm_server`) has imported TVM, and nothing of tirstep's, and forks for each script. What
a test says about the start itself, about signals, terminals or encodings it shows with
`subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tirstep.experiments import counterexample
from tirstep.lowering_checks.bisect import reproducer

SERVER, LAUNCHER = map(Path(__file__).with_name, ("warm_server.py", "warm_launcher.py"))


def run(
    words: Sequence[str | Path],
    *,
    capture_output: bool = True,
    text: bool = False,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[Any]:
    """Run ``[sys.executable, SCRIPT, *words]``, or ``-m MODULE`` for the script, to its end."""
    program, *rest = map(os.fspath, words)
    assert (program, capture_output) == (sys.executable, True), words
    assert not rest[0].startswith("-") or rest[0] == "-m", f"no option of Python's: {rest[0]}"
    job = {
        "words": rest,
        "cwd": str(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
    }
    temporary = tempfile.TemporaryFile
    with open(os.devnull, "rb") as empty, temporary() as out, temporary() as err:
        code = _ask(job, [empty.fileno(), out.fileno(), err.fileno()], words, timeout)
        streams: list[Any] = []
        for file in (out, err):
            file.seek(0)
            streams.append(file.read())
    if text:
        streams = [each.decode().replace("\r\n", "\n") for each in streams]
    done = subprocess.CompletedProcess(list(words), code, *streams)
    if check:
        done.check_returncode()
    return done


def _ask(
    job: dict[str, Any], streams: list[int], words: Sequence[Any], timeout: float | None
) -> int:
    """The exit code of a script; raises `subprocess.TimeoutExpired`."""
    server = _start(os.getpid())
    socket.send_fds(server, [json.dumps(job).encode()], streams)
    child = server.recv(64)
    assert child, "the server of warm_python has ended; its last words are on standard error"
    server.settimeout(timeout)
    try:
        return int(server.recv(64))
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), 9)
        server.settimeout(None)
        server.recv(64)
        raise subprocess.TimeoutExpired(list(words), timeout or 0) from None
    finally:
        server.settimeout(None)


def find_launchers() -> Path:
    """A folder with programs ``python`` and ``tirstep``, which take a script or a command to a
    server that has imported tirstep, too, and have their own streams, terminals among them.
    """
    return _make_launchers(os.getpid())


@functools.cache
def _make_launchers(process: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = str(folder / "server")
    begin = {
        "SERVER": place,
        "SETTINGS": {name: it for name, it in os.environ.items() if re.match("PYTHON.", name)},
        "PYTHON": sys.executable,
    }
    for name, words in (("python", []), ("tirstep", ["-m", "tirstep"])):
        lines = [f"#!{os.path.realpath(sys.executable)} -IS"]
        lines += [f"{key} = {value!r}" for key, value in {**begin, "BEFORE": words}.items()]
        (folder / name).write_text("\n".join([*lines, LAUNCHER.read_text("utf-8")]), "utf-8")
        (folder / name).chmod(0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(place)
        listener.listen(64)
        _start(process, listener.fileno())
    return folder


@functools.cache
def _start(_process: int, listener: int | None = None) -> socket.socket:
    """The socket of this process' own server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [] if listener is None else [listener]
    with theirs:
        # OpenBLAS begins its threads as NumPy is imported, and they would not be there in a fork.
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, str(SERVER), *map(str, words)], stdin=theirs, env=alone, pass_fds=words
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def install() -> None:
    """Let the modules that write a script and run it once start that so, in this process."""
    warm = SimpleNamespace(**{**vars(subprocess), "run": run})
    for module in (reproducer, counterexample):
        module.subprocess = warm  # type: ignore[attr-defined]
