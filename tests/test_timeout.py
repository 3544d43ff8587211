"""A test that hangs outside of Python fails at its limit, with a sentence, and the others run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = "from groups import pytest_handlecrashitem, pytest_xdist_make_scheduler\n"
PLANTED = """
import ctypes

import pytest


def test_before():
    pass


def test_hangs():
    ctypes.CDLL(None).sleep(600)


@pytest.mark.parametrize("number", range(4))
def test_behind(number):
    pass
"""


def run_planted(folder: Path, *options: str, source: str = PLANTED) -> tuple[int, str, str]:
    """Run a planted file with the project's own configuration, but for the limit."""
    file = folder / "test_planted.py"
    file.write_text(source)
    (folder / "conftest.py").write_text(CONFTEST)
    configured = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder))
    without = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *configured, *without, *options, file],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_hanging_test_fails_and_the_others_run(tmp_path: Path) -> None:
    limit = ("-o", "faulthandler_timeout=1")
    code, out, err = run_planted(tmp_path, *limit, "-n", "2", "--dist", "loadgroup")
    assert code == 1, out
    sentence = (
        "crashed while running 'test_planted.py::test_hangs': either it took more than 1 s "
        "(faulthandler_timeout), and its stack stands on standard error under 'Timeout', or it "
        "ended the process in another way"
    )
    assert sentence in out
    assert "1 failed, 5 passed" in out
    assert "Timeout (0:00:01)!" in err
    assert "in test_hangs" in err
