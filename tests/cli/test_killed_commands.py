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
import tirstep.bench, tirstep.lowering_checks  # once, and not in each process
import tirstep.cli.bench, tirstep.cli.export, tirstep.cli.search
from tirstep.cli import main

tirstep.cli.export._verify = lambda *_: None  # in a process of its own
tirstep.cli.bench.make_machine = tirstep.cli.search.make_machine = lambda command: FakeMachine()
replace = os.replace


def read(folder):
    # What a killed process had put beside it counts.
    found = folder if folder.exists() else next(Path().glob(f".{{folder}}.before-*"))
    return {{str(each.relative_to(found)): each.read_bytes() for each in found.rglob("*")
             if each.is_file() and not each.name.startswith(".")}}


def run(arguments, kill_at):
    child = os.fork()
    if not child:
        moved = [0]

        def moving(*places, **named):
            is_here = str(Path.cwd()) in str(Path(places[1]).absolute())
            moved[0] += is_here
            if is_here and 2 * moved[0] - 1 == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*places, **named)
            if is_here and 2 * moved[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        os.replace = moving
        sys.argv = ["tirstep", *arguments]
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(main())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


kills, arguments, folder = map(int, sys.argv[1].split(",")), sys.argv[2:], Path("out")
folder.mkdir()
again = [*arguments, "--force"] if arguments[0] == "export" else arguments
assert run(arguments, 0) == 0
old = read(folder)
for kill_at in kills:
    assert run(again, kill_at) == -9, kill_at
    now = read(folder)
    assert now.keys() == old.keys(), (kill_at, old.keys() ^ now.keys())
    if arguments[0] != "bench":  # whose times differ
        assert now == old, kill_at
assert run(again, 0) == 0
assert read(folder).keys() == old.keys()
"""


@pytest.mark.share(3)
@pytest.mark.usefixtures("warm_commands")
# After the last of these the folder lies beside its place.
@pytest.mark.parametrize(
    ("kills", "line"),
    [
        ("3,10,8", "export vector_add_bound out --as trace"),
        ("1,2", "bench matmul --shape 16x16x8 --recipe matmul_naive --quick -o out/run.json"),
    ],
)
def test_a_command_that_is_killed_leaves_what_was_there_and_may_be_run_again(
    kills: str, line: str, tmp_path: Path
):
    environment = {**os.environ}
    environment.pop("CI", None)
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(support=str(SUPPORT)), kills, *line.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
