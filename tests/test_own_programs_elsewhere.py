"""From a wheel, in an empty folder: a user's module, a project of their own, and its report."""

from pathlib import Path

import pytest

SCRIPT = '''
import subprocess
import sys
from pathlib import Path

import tirstep
from tirstep.cli import main

MODULE = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        Y = T.sblock_alloc_buffer((8, 8))
        for i, j, k in T.grid(8, 8, 8):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * A[vk, vj]
        for i, j in T.grid(8, 8):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
"""


def run(line):
    assert main(line.split()) == 0, line


if __name__ == "__main__":
    Path("script.py").write_text(MODULE)
    for name in ("list", "check", "report"):
        run(f"{name} script.py")
    run("new mine")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(words, cwd="mine").returncode == 0
    print(tirstep.__file__)
'''


@pytest.mark.share(4)
def test_commands_take_a_users_programs(installed_wheel, tmp_path: Path):
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "run.py").write_text(SCRIPT)
    printed = installed_wheel.run(folder / "run.py")
    where = Path(printed.strip().splitlines()[-1])
    assert installed_wheel.folder in where.parents
    assert "2 passed" in printed
