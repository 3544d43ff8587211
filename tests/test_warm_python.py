"""Scripts that `warm_python` runs end as those that Python starts."""

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


def test_an_error_is_told_at_its_line(tmp_path: Path) -> None:
    cold, warm = run_both(tmp_path, "\n\nassert 1 == 2, 'planted'\n", text=True)
    assert warm.returncode == cold.returncode == 1
    assert (
        cold.stderr.splitlines()[1:]
        == warm.stderr.splitlines()[-len(cold.stderr.splitlines()) + 1 :]
    )
    assert "planted" in warm.stderr


def test_a_script_that_fails_may_be_asked_to_raise(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run_both(tmp_path, "raise SystemExit(2)")[1].check_returncode()


def test_a_script_that_does_not_end_is_ended(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time; time.sleep(600)")
    with pytest.raises(subprocess.TimeoutExpired):
        warm_python.run([sys.executable, script], timeout=0.2)
    script.write_text("print('the next one')")
    assert warm_python.run([sys.executable, script]).stdout == b"the next one\n"


def test_a_module_is_run_as_a_command(tmp_path: Path) -> None:
    done = warm_python.run([sys.executable, "-m", "tirstep", "--version"], text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tirstep ")


def test_the_server_has_imported_tvm_and_nothing_of_ours(tmp_path: Path) -> None:
    """A script that forgot to import ours must fail as it would elsewhere."""
    script = tmp_path / "script.py"
    script.write_text("import sys; print('tvm' in sys.modules, 'tirstep' in sys.modules)")
    assert warm_python.run([sys.executable, script], text=True).stdout == "True False\n"
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
