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
    environment = {"GIVEN": "a value", "PYTHONUTF8": "1"}
    cold, warm = run_both(
        tmp_path,
        TOLD,
        "one",
        "two",
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert (warm.returncode, warm.stdout, warm.stderr) == (0, cold.stdout, cold.stderr)
    assert "a value" in warm.stdout
    assert warm.args == cold.args


@pytest.mark.parametrize("program", ENDINGS.values(), ids=ENDINGS)
def test_a_script_ends_as_it_does_elsewhere(tmp_path: Path, program: str) -> None:
    cold, warm = run_both(tmp_path, program)
    assert vars(warm) == vars(cold)


def test_a_script_that_does_not_end_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time; time.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        warm_python.run([sys.executable, script], timeout=0.2)
    script.write_text("print('the next one')")
    assert warm_python.run([sys.executable, script]).stdout == b"the next one\n"


def test_the_server_has_imported_tvm_and_nothing_of_ours(tmp_path: Path) -> None:
    """A script that forgot to import ours must fail as it would elsewhere."""
    script = tmp_path / "script.py"
    script.write_text("import sys; print('tvm' in sys.modules, 'tirstep' in sys.modules)")
    assert warm_python.run([sys.executable, script], text=True).stdout == "True False\n"
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


def launch(*words: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    python = warm_python.find_launchers() / "python"
    return subprocess.run([python, *words], capture_output=True, text=True, **options)


@pytest.mark.parametrize("program", ENDINGS.values(), ids=ENDINGS)
def test_what_is_launched_ends_as_it_does_elsewhere(tmp_path: Path, program: str) -> None:
    cold = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    warm = launch("-c", program, cwd=tmp_path)
    assert {**vars(warm), "args": cold.args} == vars(cold)


def test_what_is_launched_has_ours_and_what_needs_a_python_of_its_own_gets_it() -> None:
    asked = ("-c", "import sys; print('tvm' in sys.modules, 'tirstep' in sys.modules)")
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    assert launch(*asked).stdout == "True True\n"
    assert launch("-I", *asked).stdout == "False False\n"
    assert launch(*asked, env=environment).stdout == "False False\n"


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
