"""``tirstep trace``: records what a command compiles with TVM."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from json import dumps
from pathlib import Path

from tirstep.printing import print_error

from .formatting import count
from .request import argument, flag, with_options
from .wrong_use import UseError

SITE = '''\
"""Of tirstep trace: begins to record, and then runs what this file hides."""

import os
import sys

sys.path.remove(os.path.dirname(__file__))
try:
    from tirstep.tracing import begin_in_app
except ImportError:  # another environment's Python
    pass
else:
    begin_in_app()
own = sys.modules.pop(__name__)
try:
    import sitecustomize
except ImportError:
    sys.modules[__name__] = own
'''
"""Python imports a file of this name when it starts: so the app's own command line stays as it is,
whether that is python, pytest or a script, and its child processes are recorded as well."""


@with_options()
def command(
    *,
    folder: Path = argument("FOLDER", "A new folder, or that of an earlier trace."),
    app: list[str] = argument(
        "COMMAND",
        "The command to run, after --, with its options: python app.py, pytest, a script.",
    ),
    values: bool = flag("--values", "Keep the values of floats, not only their range."),
    json: bool,
) -> int:
    """Record what an app compiles with TVM, and what it calls.

    For example, tirstep trace FOLDER -- python app.py records each module that is compiled, what
    each pass changed, and the arguments of each function's first call: integers in full, floats by
    shape, type and range; 256 MB at most. Output and exit code are the app's. Every command takes
    the folder: tirstep report FOLDER, tirstep check FOLDER/:NAME.
    """
    from tirstep.files import write_file
    from tirstep.tracing import VARIABLE, prepare_folder, read_rows

    from .formats import print_document

    if shutil.which(app[0]) is None:
        raise UseError(f"there is no program {app[0]}; give it after --, as in -- python app.py")
    prepare_folder(folder)
    with tempfile.TemporaryDirectory(prefix="tirstep-") as site:
        write_file(Path(site, "sitecustomize.py"), SITE, durable=False)
        paths = [site, *filter(None, [os.environ.get("PYTHONPATH")])]
        asked = dumps({"folder": os.path.abspath(folder), "values": values})
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), VARIABLE: asked}
        process = subprocess.Popen(app, env=environment)
        # Ctrl-C goes to both, and is the command's to answer; who ends this one ends that.
        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
        }
        try:
            code = process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    rows = read_rows(folder)
    builds = [row for row in rows if "build" in row]
    functions = {states[-1][1] for row in builds for states in row["functions"].values()}
    told = f"{count(len(builds), 'build')}, {count(len(functions), 'function')}"
    called = len({row["call"] for row in rows if "call" in row} & functions)
    code = code if code >= 0 else 128 - code
    if json:
        counts = {"builds": len(builds), "functions": len(functions), "called": called}
        print_document("trace", folder=folder, exit_code=code, **counts)
    told = f"{told}, {called} with arguments; next: tirstep report {folder} -o report.html"
    if not builds:
        told = (
            "nothing was compiled, or only by a Python without tirstep; a Python started with "
            "-I, -E or -S is not recorded"
        )
    print_error(f"{folder}: {told}")
    return code
