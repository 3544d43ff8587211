"""Tests marked gpu are skipped where there is no GPU, with a reason, unless one is required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEST = "tests/report/test_roofline.py::test_a_gpu_tells_its_peaks"
# As if TVM found no device, on a machine with one too.
WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.usefixtures("warm_commands")
@pytest.mark.parametrize(
    ("required", "code", "words"),
    [("", 0, "1 skipped"), ("1", 1, "there is no CUDA device that TVM can use; see nvidia-smi")],
)
def test_without_a_gpu(required: str, code: int, words: str):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST],
        cwd=ROOT,
        env={**os.environ, **WITHOUT_GPU, "TIRSTEP_REQUIRE_GPU": required},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, words in done.stdout) == (code, True), done.stdout + done.stderr


def test_make_requires_one():
    recipe = (ROOT / "Makefile").read_text().partition("\ntest-gpu:")[2]
    assert recipe.startswith(" export TIRSTEP_REQUIRE_GPU = 1\n")
