"""Stands in for Python: a script, ``-m MODULE`` or ``-c PROGRAM`` runs in a fork of `warm_server`.

`warm_python` writes it into a folder, below lines that say where the server listens, which words
come first, which variables of Python's own the server has, and the Python that runs whatever else
is asked.
"""

import json
import os
import re
import signal
import socket
import sys


def launch(words: list[str]) -> int:
    """Have the server run it on this process' streams; the exit code."""
    job = {
        "words": words,
        "cwd": os.getcwd(),
        "env": dict(os.environ),
        "executable": os.path.join(os.path.dirname(SERVER), "python"),  # noqa: F821
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(SERVER)  # noqa: F821
        socket.send_fds(server, [json.dumps(job).encode()], [0, 1, 2])
        signal.signal(signal.SIGTERM, lambda number, _: server.send(b"%d" % number))
        return int(server.recv(64))


def is_for_python(words: list[str]) -> bool:
    """Whether it needs a Python of its own: for another option, or with other settings."""
    settings = {name: it for name, it in os.environ.items() if re.match("PYTHON.", name)}
    is_option = not words or (words[0].startswith("-") and words[0] not in ("-m", "-c"))
    return is_option or settings != SETTINGS  # noqa: F821


words = [*BEFORE, *sys.argv[1:]]  # noqa: F821
if is_for_python(words):
    os.execv(PYTHON, [PYTHON, *words])  # noqa: F821
code = launch(words)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
