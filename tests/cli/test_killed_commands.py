"""Whole commands that are killed as they put a file in its place: what was there stays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"
KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {support!r})
from fake_machine import FakeMachine
import tirstep.cli.bench, tirstep.cli.search
from tirstep.cli import main

tirstep.cli.bench.make_machine = tirstep.cli.search.make_machine = lambda command: FakeMachine()
replace, rename = os.replace, os.rename


def read(folder):
    return {{str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*")
             if each.is_file() and not each.name.startswith(".")}}


def run(arguments, kill_at):
    child = os.fork()
    if not child:
        moved = [0]

        def count(move, is_before):
            def moving(*places, **named):
                moved[0] += 1
                if is_before and moved[0] == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                move(*places, **named)
                if not is_before and moved[0] == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return moving

        os.replace = count(replace, kill_at % 2 == 0)
        os.rename = count(rename, kill_at % 2 == 0)
        sys.argv = ["tirstep", *arguments]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(main())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


arguments, folder = sys.argv[1:], Path("out")
folder.mkdir()
again = [*arguments, "--force"] if arguments[0] == "export" else arguments
assert run(arguments, 0) == 0
old, killed = read(folder), 0
for kill_at in (1, 2):
    code = run(again, kill_at)
    killed += code == -9
    assert code in (0, -9), code
    now = read(folder)
    assert now.keys() >= old.keys(), (kill_at, old.keys() - now.keys())
    if arguments[0] != "bench":  # whose times differ
        assert now == old, kill_at
    assert run(again, 0) == 0
    assert read(folder).keys() == old.keys()
print(killed)
"""


@pytest.mark.parametrize(
    "line",
    [
        "export vector_add_bound out --as trace",
        "bench matmul --shape 16x16x8 --recipe matmul_naive --quick --json out/run.json",
    ],
)
def test_a_command_that_is_killed_leaves_what_was_there_and_may_be_run_again(
    line: str, tmp_path: Path
):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("CI", None)
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(support=str(SUPPORT)), *line.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) >= 1
