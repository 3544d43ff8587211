"""`run`, for scripts that tests start: what `subprocess.run` does, without an import's seconds.

A server (`warm_server`) has imported TVM and tirstep, and forks for each script. What a test says
about the start itself, about signals, terminals or encodings it shows with `subprocess`.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tirstep.experiments import shrinking
from tirstep.lowering_checks.bisect import reproducer

SERVER, LAUNCHER = map(Path(__file__).with_name, ("warm_server.py", "warm_launcher.py"))


def run(words: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run ``[sys.executable, SCRIPT, *words]`` to its end, and take its output."""
    python = find_launchers() / "python"
    return subprocess.run([python, *words[1:]], **{"capture_output": True, **options})


def find_launchers() -> Path:
    """A folder with programs ``python`` and ``tirstep``, which take a script or a command to the
    server, and have their own streams, terminals among them.
    """
    return _make_launchers(os.getpid())


@functools.cache
def _make_launchers(_process: int) -> Path:
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
        _start(listener.fileno())
    return folder


def _start(listener: int) -> None:
    """Start this process' own server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        # OpenBLAS begins its threads as NumPy is imported, and they would not be there in a fork.
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        words = [sys.executable, str(SERVER), str(listener)]
        process = subprocess.Popen(words, stdin=theirs, env=alone, pass_fds=[listener])

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)


def install() -> None:
    """Let the modules that write a script and run it once start that so, in this process."""
    warm = SimpleNamespace(**{**vars(subprocess), "run": run})
    for module in (reproducer, shrinking):
        module.subprocess = warm  # type: ignore[attr-defined]
