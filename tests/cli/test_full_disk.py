"""Commands whose disk gets full at any moment: a sentence and 2, and what was there stays."""

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from fake_machine import FakeMachine
from fake_pool import compile_here
from own_files import HEAD, make_module

from tirstep.bench.compile_pool import CompileJob
from tirstep.bench.session import Launch
from tirstep.cli.app import COMMANDS, MODULES
from tirstep.tuning.candidates import Candidates

from .conftest import Command

TWICE = """
A (8,), C (8,)
i:8  C[i] = A[i] + A[i]
"""
WRONG = f'''{HEAD}

{make_module("Twice", TWICE)}

def skips(sch):
    """A thread alone computes, of two."""
    (loop,) = sch.get_loops(sch.get_sblock("C"))
    outer, inner = sch.split(loop, [4, 2])
    sch.bind(outer, "threadIdx.x")
    sch.bind(inner, "threadIdx.x")
'''
OLD = "from tvm.script import tir as T\n"
GOLDEN = ("check", "--write-goldens", "vector_add_bound", "relu_bound", "--golden-dir", "golden")
BENCH = ("bench", "matmul", "--shape", "16x16x8", "--recipe", "matmul_naive", "--quick")
TUNE = ("tune", "vector_add_bound", "--shape", "1024", "--target", "llvm", "--trials", "1")
# Each command that writes, the code with which it ends, and each how many-th moment is tried.
CALLS = {
    "new": (("new", "fresh"), 0, 1),
    "golden": (GOLDEN, 0, 1),
    "report": (("report", "vector_add_bound", "--no-checks", "-o", "page.html"), 0, 1),
    "why": (("why", "wrong.py:skips", "-o", "why.py"), 1, 3),
    "export": (("export", "vector_add_bound", "export", "--as", "trace", "--force"), 0, 1),
    "trace": (("trace", "traced", "--", "true"), 0, 1),
    "modernize": (("modernize", "old.py", "--write"), 0, 1),
    "bench": ((*BENCH, "--output", "run.json"), 0, 1),
    "bench --save": ((*BENCH, "--save", "runs"), 0, 1),
    "tune": ((*TUNE, "-o", "db"), 0, 2),
}
AT_MOST = 99
ONCE = {"new", "modernize"}
"""What refuses a folder that is there, or has nothing left to do."""
ONE_BY_ONE = {"golden"}
"""What writes many files, each of which is the old one or the new one."""


class Disk:
    """A disk that takes so many changes, and is full from then on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.room, self.changes = folder, AT_MOST, 0

    def change(self, place: object = None) -> None:
        self.changes += 1
        if self.changes > self.room:
            words = () if place is None else (os.fspath(place),)
            raise OSError(errno.ENOSPC, "No space left on device", *words)

    def read(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and not {".git", "cache", "temporary"} & {*path.parts}
        }

    def list_unfinished(self) -> list[Path]:
        return [*self.folder.rglob(".tirstep-*"), *self.folder.rglob("*.lock")]


def compile_none(job: CompileJob) -> str:
    """What other processes compile, for `QuickMachine`."""
    Path(job.library).write_bytes(b"")
    return ""


class QuickMachine(FakeMachine):
    """Loads what adds two vectors, and is faster than all that were made before."""

    made = itertools.count(1)

    def __init__(self) -> None:
        super().__init__()
        self.seconds = [1e-3 / next(self.made)] * AT_MOST

    def load(self, library: Path, arguments: Sequence[Any]) -> Launch:
        a, b, c = arguments
        return lambda: np.add(a, b, out=c)


def build_none(candidates: Candidates, modules: Any, target: Any) -> list[tuple[str, str]]:
    """What other processes compile, for `run_none`."""
    return [("nowhere", "") for _ in modules]


def run_none(candidates: Candidates, path: str, kind: str) -> tuple[tuple[float, ...], str]:
    """Faster than all that were run before."""
    return (1e-3 / next(QuickMachine.made),), ""


@pytest.fixture
def disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing_is_run_again: None
) -> Iterator[Disk]:
    """The working directory's, and that of temporary files."""
    disk = Disk(tmp_path)
    for name, text in (("wrong.py", WRONG), ("old.py", OLD)):
        (tmp_path / name).write_text(text)
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    real: dict[str, Callable[..., Any]] = {
        name: getattr(os, name) for name in ("open", "write", "mkdir", "fsync")
    }

    def open_(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            disk.change(path)
        return real["open"](path, flags, *rest, **named)

    def write(descriptor: int, data: Any) -> int:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            disk.change()
        return real["write"](descriptor, data)

    def mkdir(path: Any, *rest: Any, **named: Any) -> None:
        if not os.path.isdir(path):
            disk.change(path)
        real["mkdir"](path, *rest, **named)

    def fsync(descriptor: int) -> None:
        disk.change()
        real["fsync"](descriptor)

    for name, wrapped in (("open", open_), ("write", write), ("mkdir", mkdir), ("fsync", fsync)):
        monkeypatch.setattr(os, name, wrapped)
    monkeypatch.setattr("tirstep.cli.bench.make_machine", lambda _: QuickMachine())
    compile_here(monkeypatch, compile_none)
    monkeypatch.setattr(Candidates, "build", build_none)
    monkeypatch.setattr(Candidates, "run", run_none)
    monkeypatch.setattr("tirstep.tuning.database._verify", lambda *_: None)
    yield disk
    monkeypatch.undo()


def test_every_command_that_writes_is_here():
    """``ladder`` reads goldens; ``pass`` writes as ``why`` does, and ``search`` as ``tune``."""
    writers = set()
    for name in COMMANDS:
        module = import_module(f"tirstep.cli.{MODULES.get(name, name)}")
        hints = get_type_hints(module.command)
        writers |= {name for hint in hints.values() if "Path" in str(hint)}
    written = {arguments[0] for arguments, _, _ in CALLS.values()}
    assert writers - {"ladder", "pass", "search"} == written


@pytest.mark.share(4)
@pytest.mark.parametrize("name", CALLS)
def test_a_disk_that_gets_full_at_any_moment(command: Command, disk: Disk, name: str):
    arguments, expected, stride = CALLS[name]
    if name not in ONCE:
        assert command(*arguments).code == expected
    if name == "golden":  # which leaves alone what is as it was
        for file in disk.folder.glob("golden/*/*.py"):
            file.write_text(f"# older\n{file.read_text()}")
    old, refused, states = disk.read(), 0, []
    for room in range(0, AT_MOST, stride):
        disk.room, disk.changes = room, 0
        result = command(*arguments)
        if result.code == expected:  # what is left to be written may be missing
            break
        refused += 1
        assert (result.code, "wrote" in result.out) == (2, False), room
        assert result.err.startswith("tirstep: "), room
        assert result.err.count("\n") == 1, result.err
        states.append(disk.read())
    assert (result.code, refused > 1) == (expected, True)
    new = disk.read() if name in ONE_BY_ONE else old
    for room, state in enumerate(states):
        assert state.keys() == old.keys(), room
        assert all(text in (old[file], new[file]) for file, text in state.items()), room
    assert disk.read().keys() >= old.keys()
    assert disk.list_unfinished() == []
