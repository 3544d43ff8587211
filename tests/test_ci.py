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

BROWSER = (
    "SKIPPED [28] tests/report/conftest.py:35: no Playwright: pip install -c constraints.txt\n"
)
BOUND = "SKIPPED [2] tests/modules/test_numeric.py:229: no bound holds for 2048 terms in float16\n"
MORE = "SKIPPED [1] tests/modules/test_numeric.py:229: no bound holds for 4096 terms in float16\n"
ALLOWED = ["28 no (Playwright|Chromium)", "3 no bound holds"]


def closing(count: int) -> str:
    skipped = f"{count} skipped, " if count else ""
    return f"===== 900 passed, {skipped}3 warnings in 601.21s (0:10:01) =====\n"


TWICE = "900 passed, 28 skipped in 1.2s\n"


@pytest.mark.parametrize(
    ("log", "allowed"),
    [
        (BROWSER + BOUND + MORE + closing(31), ALLOWED),
        (BOUND + closing(2), ["0 no (Playwright|Chromium)", "3 no bound holds"]),
        (closing(0), ALLOWED),
        (closing(0), []),
        (TWICE + BROWSER + TWICE, ALLOWED),
    ],
)
def test_what_may_be_skipped_is_no_finding(log: str, allowed: list[str]):
    assert skips.find_findings(log, allowed) == []


@pytest.mark.parametrize(
    ("log", "allowed", "finding"),
    [
        (BROWSER + closing(28), ["0 no (Playwright|Chromium)"], "28 more skipped than .ci/run"),
        (BROWSER + closing(28), ["27 no (Playwright|Chromium)"], "1 more skipped than .ci/run"),
        (BOUND + MORE + closing(3), ["2 no bound holds"], "1 more skipped than .ci/run allows"),
        (
            BROWSER + closing(28),
            [],
            "28 skipped in tests/report/conftest.py:35, and .ci/run allows",
        ),
        (BROWSER + closing(28), ["28 Playwright"], "allows none: no Playwright: pip install"),
        (closing(5), ALLOWED, "pytest skipped 5 tests, and gave reasons for 0"),
        (BROWSER + closing(29), ALLOWED, "pytest skipped 29 tests, and gave reasons for 28"),
        (BROWSER, ALLOWED, "pytest printed no closing line"),
        ("", ALLOWED, "pytest printed no closing line"),
    ],
)
def test_what_is_skipped_beyond_is_one(log: str, allowed: list[str], finding: str):
    findings = skips.find_findings(log, allowed)
    assert any(finding in line for line in findings)


def test_pytest_s_own_words_are_read(tmp_path: Path):
    """The lines above are typed; these come from the pytest that is installed."""
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


def test_ci_states_what_may_be_skipped():
    script = (ROOT / ".ci" / "run").read_text()
    assert '.ci/skips.py "$log" "${skips[@]}"' in script
    stated = re.findall(
        r'^  "(\S+) (.+)"$', script.partition("skips=(")[2].partition(")\n")[0], re.M
    )
    assert stated
    for count, reason in stated:
        assert count.isdecimal() or re.fullmatch(r"\$[a-z]+", count)
        re.compile(reason)


def test_the_browser_s_tests_are_as_many_as_ci_states():
    """Where there is no browser they are all skipped; where there is one, none may be."""
    script = (ROOT / ".ci" / "run").read_text()
    (stated,) = re.findall(r"^browser=(\d+)$", script, re.MULTILINE)
    (firefox,) = re.findall(r"\|\| firefox=(\d+)$", script, re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/report"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    tests = [
        line for line in done.stdout.splitlines() if re.search(r"\[.*\b(chromium|firefox)\b", line)
    ]
    assert len(tests) == int(stated)
    assert sum("firefox" in line for line in tests) == int(firefox)
