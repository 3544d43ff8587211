"""Scripts that `warm_python` runs end as those that Python starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm_python

TOLD = """
import os, sys

def annotated(it: int): pass

print(sys.argv, __name__, __file__, sys.path[0], os.getcwd(), os.environ.get("GIVEN"))
print(annotated.__annotations__, sys.stdin.read(), sys.stdout.isatty(), "ä")
print(sorted(name for name in ("tvm", "tirstep") if name in vars()), "to stderr", file=sys.stderr)
"""
ENDINGS = {
    "nothing": "",
    "a number": "raise SystemExit(3)",
    "a sentence": "raise SystemExit('no, thanks')",
    "at its exit": "import atexit; atexit.register(print, 'the end')",
    "a signal": "import os; print(1, flush=True); os.kill(os.getpid(), 15)",
    "at once": "import os; print('in a buffer'); os._exit(7)",
}


def run_both(folder: Path, program: str, *words: str, **options: object) -> list[object]:
    script = folder / "script.py"
    script.write_text(program, encoding="utf-8")
    call = [sys.executable, script, *words]
    return [run(call, capture_output=True, **options) for run in (subprocess.run, warm_python.run)]


def test_a_script_finds_what_python_would_give_it(tmp_path: Path) -> None:
    environment = {**os.environ, "GIVEN": "a value"}
    cold, warm = run_both(
        tmp_path, TOLD, "one", "two", text=True, cwd=tmp_path, env=environment, input="some text"
    )
    assert (warm.returncode, warm.stdout, warm.stderr) == (0, cold.stdout, cold.stderr)
    assert "a value" in warm.stdout


@pytest.mark.parametrize("program", ENDINGS.values(), ids=ENDINGS)
def test_a_script_ends_as_it_does_elsewhere(tmp_path: Path, program: str) -> None:
    cold, warm = run_both(tmp_path, program)
    assert {**vars(warm), "args": cold.args} == vars(cold)


def test_what_is_launched_has_ours_and_what_needs_a_python_of_its_own_gets_it() -> None:
    asked = ("-c", "import sys; print('tvm' in sys.modules, 'tirstep' in sys.modules)")
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    for words, options, told in (
        (asked, {}, "True True\n"),
        (("-I", *asked), {}, "False False\n"),
        (asked, {"env": environment}, "False False\n"),
    ):
        assert warm_python.run(["python", *words], text=True, **options).stdout == told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_is_launched_ends_with_the_launcher(tmp_path: Path, number: signal.Signals) -> None:
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    python = warm_python.find_launchers() / "python"
    with subprocess.Popen([python, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        assert child != process.pid
        process.send_signal(number)
        assert process.stdout.read() == ""  # which the child holds, too
    assert process.returncode == -number
