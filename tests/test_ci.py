"""What CI runs itself: it fails where more tests are skipped than it states."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / ".ci" / "skips.py"

spec = importlib.util.spec_from_file_location("skips", SCRIPT)
skips = importlib.util.module_from_spec(spec)
spec.loader.exec_module(skips)

LINE = "SKIPPED [2] tests/modules/test_numeric.py:229: no bound holds for 2048 terms in float16\n"


@pytest.mark.parametrize(
    ("log", "finding"),
    [
        (LINE + "=== 900 passed, 5 skipped in 601.21s ===\n", "and gave reasons for 2"),
        (LINE, "pytest printed no closing line"),
        ("", "pytest printed no closing line"),
    ],
)
def test_a_log_that_lacks_something_is_a_finding(log: str, finding: str):
    assert any(finding in line for line in skips.find_findings(log, ["2 no bound holds"]))


def test_pytest_s_own_words_are_read(tmp_path: Path):
    file = tmp_path / "test_them.py"
    file.write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('one', range(3))\n"
        "def test_skipped(one):\n    pytest.skip(f'no bound holds for {\"long \" * 40}')\n"
        "@pytest.mark.skipif(True, reason='this machine has a GPU')\n"
        "def test_marked():\n    pass\n"
        "def test_run():\n    assert 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "-p", "no:cacheprovider", str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    log = tmp_path / "log"
    log.write_text(done.stdout)
    right = ["3 no bound holds for long", "1 this machine has a GPU"]
    for allowed, code in ((right, 0), (right[:1], 1), (["2 no bound", right[1]], 1)):
        run = subprocess.run(
            [sys.executable, str(SCRIPT), str(log), *allowed], capture_output=True, text=True
        )
        assert (run.returncode, run.stderr.count("skips:")) == (code, code)


@pytest.mark.share(2)
def test_the_browser_s_tests_are_as_many_as_ci_states():
    """Where there is no browser they are all skipped; where there is one, none may be."""
    script = (ROOT / ".ci" / "run").read_text()
    (stated,) = re.findall(r"^browser=(\d+)$", script, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/report"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    tests = re.findall(r"^.*\[.*\bchromium\b.*$", done.stdout, re.MULTILINE)
    assert len(tests) == int(stated)
