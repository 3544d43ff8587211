"""Where output goes that cannot be written: a sentence and 2, or the quiet end of a pipe."""

import errno
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from tirstep.cli import main
from tirstep.cli.app import COMMANDS
from tirstep.cli.wrong_use import find_sentence
from tirstep.processes import count_cores

from .conftest import ROOT, Command

# Each command as it prints something, and what it needs to do so.
CALLS = {
    "new": ("new", "{folder}/fresh"),
    "list": ("list",),
    "steps": ("steps", "vector_add_bound"),
    "diff": ("diff", "vector_add_bound"),
    "lower": ("lower", "vector_add_bound"),
    "facts": ("facts", "vector_add_bound"),
    "check": ("check", "vector_add_bound", "--device", "cpu"),
    "choose": ("choose", "matmul", "--shape", "64x48x32"),
    "pass": ("pass", "--drop", "s_tir.LoopPartition", "vector_add_bound", "--device", "cpu"),
    "why": ("why", "vector_add_bound", "-o", "{folder}/why.py"),
    "ladder": ("ladder", "vector_add", "--device", "cpu"),
    "report": ("report", "vector_add_bound", "--no-checks", "-o", "{folder}/report.html"),
    "export": ("export", "vector_add_bound", "{folder}/export", "--as", "trace"),
    "modernize": ("modernize", f"{ROOT}/examples/old_program/mm_relu.py"),
}
ELSEWHERE = {"bench", "search", "tune", "trace"}
"""They need a GPU or processes; the same `Screen` prints for them, but for trace: an app does."""
PLAIN = [("--help",), ("--version",), ("list", "--help")]
FULL = "tirstep: standard output cannot be written: No space left on device\n"


def test_every_command_is_here():
    assert {*CALLS, *ELSEWHERE} == {*COMMANDS}


@pytest.mark.share(2)
@pytest.mark.usefixtures("nothing_is_run_again")
@pytest.mark.parametrize("name", CALLS)
def test_every_command_prints_one_document(command: Command, tmp_path: Path, name: str):
    (tmp_path / "plain").mkdir()
    (tmp_path / "told").mkdir()
    plain = command(*spell(CALLS[name], tmp_path / "plain"))
    result = command(*spell(CALLS[name], tmp_path / "told"), "--json")
    assert result.code == plain.code
    assert (result.document["command"], result.document["versions"]["document"]) == (name, 2)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_every_other_command_takes_json_as_these_do(command: Command, name: str):
    assert re.search(r"--json +Print one JSON document", command(name, "--help").out)


def spell(arguments: tuple[str, ...], folder: Path) -> list[str]:
    return [argument.format(folder=folder) for argument in arguments]


def run_into(stream: TextIO, arguments: tuple[str, ...], folder: Path) -> int:
    """The exit code of a command whose standard output is a stream of the system's."""
    before, sys.stdout = sys.stdout, stream
    try:
        return main(spell(arguments, folder))
    finally:
        sys.stdout = before
        stream.close()


@pytest.mark.share(2)
@pytest.mark.usefixtures("nothing_is_run_again")
@pytest.mark.parametrize("arguments", [*PLAIN, *CALLS.values()], ids=" ".join)
def test_output_to_a_full_disk_is_a_sentence_and_to_nobody_a_quiet_end(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...]
):
    read, write = os.pipe()
    os.close(read)
    for name, place, code, told in (("full", "/dev/full", 2, FULL), ("gone", write, 141, "")):
        folder = tmp_path / name
        folder.mkdir()
        assert run_into(open(place, "w"), arguments, folder) == code  # noqa: SIM115
        assert capfd.readouterr().err == told


def shell(line: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tirstep {line}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return done.returncode, done.stdout, done.stderr


CLOSED = "tirstep: standard output is closed; send it somewhere, or to /dev/null\n"


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("steps vector_add_bound --json > /dev/full", (2, "", FULL)),
        ("--version > /dev/full", (2, "", FULL)),
        ("list >&-", (2, "", CLOSED)),
        ("lst >&- 2>&-", (2, "", "")),
        ("lst 2>&-", (2, "", "")),
        ("lst 2> /dev/full", (2, "", "")),
        # More than a pipe holds, so that it is being written still when its reader ends.
        ("list --json | head -c 1; exit ${PIPESTATUS[0]}", (141, "{", "")),
        ("--help | true; exit ${PIPESTATUS[0]}", (141, "", "")),
    ],
)
def test_the_streams_of_a_shell(line: str, expected: tuple[int, str, str]):
    """The whole process: nothing fails once more while it ends."""
    assert shell(line) == expected


def test_a_file_does_not_get_the_number_of_a_closed_stream(tmp_path: Path):
    """TVM's C++ would print into it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "from tirstep.printing import standard_streams\n"
        "with standard_streams():\n"
        f"    print(os.open({str(script)!r}, os.O_RDONLY))\n"
    )
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} {script} <&- 2>&-"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert int(done.stdout) > 2


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EROFS", "EMFILE", "ENOMEM"])
def test_what_the_system_refuses_is_a_sentence(name: str):
    number = getattr(errno, name)
    sentence = find_sentence(OSError(number, os.strerror(number)))
    assert sentence == f"the system refuses: {os.strerror(number)}"
    assert find_sentence(OSError(number, "full", "report.html")) == "report.html: full"
    assert find_sentence(OSError(errno.EINVAL, "a defect")) is None


def test_without_a_folder_for_temporary_files(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def fail(*arguments: object, **named: object) -> None:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr("tempfile.mkdtemp", fail)
    result = command("export", "vector_add_bound", tmp_path / "export", "--as", "trace")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "tirstep: No usable temporary directory found in ['/tmp']; set TMPDIR to a folder that can "
        "be written\n"
    )


@pytest.fixture
def little_room() -> Iterator[None]:
    """No file may get longer than 70 KB, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_report_that_does_not_fit_leaves_the_one_before(
    command: Command, little_room: None, tmp_path: Path
):
    file = tmp_path / "report.html"
    before = '<meta name="generator" content="tirstep report">' * 1000
    file.write_text(before)
    result = command("report", "vector_add_bound", "--no-checks", "-o", file)
    assert (result.code, result.out, result.err) == (2, "", f"tirstep: {file}: File too large\n")
    assert file.read_text() == before
    assert [*tmp_path.iterdir()] == [file]


NOTHING_WAS_DONE = pytest.mark.usefixtures("no_work")


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work that would take minutes; nobody gets there who cannot write afterwards."""

    def fail(*arguments: object, **named: object) -> None:
        pytest.fail("it worked before it looked whether it can write")

    for name in ("cli.report.jobs.do_jobs", "lowering_checks.bisect.bisect_run"):
        monkeypatch.setattr(f"tirstep.{name}", fail)


def make_places(folder: Path) -> dict[str, Path]:
    """Where nothing can or may be written."""
    (folder / "thesis").write_text("years")
    os.mkfifo(folder / "pipe")
    return {
        "there is no folder": folder / "gone" / "file",
        "is kept; ": folder / "thesis",
        "is kept; give": folder / "pipe",
        "File name too long": folder / ("x" * 300),
    }


@NOTHING_WAS_DONE
@pytest.mark.parametrize("call", [("report", "relu", "-o"), ("why", "relu_bound", "-o")])
def test_what_cannot_be_written_is_told_before_the_work(
    command: Command, tmp_path: Path, call: tuple[str, ...]
):
    for said, place in make_places(tmp_path).items():
        result = command(*call, place)
        assert (result.code, result.out) == (2, "")
        assert said in result.err
    assert (tmp_path / "thesis").read_text() == "years"


@NOTHING_WAS_DONE
@pytest.mark.parametrize("call", [("report", "relu", "-o"), ("why", "relu_bound", "-o")])
def test_a_full_disk_is_told_before_the_work(
    command: Command, tmp_path: Path, call: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "file"
    file.touch()  # left behind by a full disk, and no loss
    monkeypatch.setattr("tirstep.files._write_all", fail)
    result = command(*call, file)
    assert (result.code, result.err) == (2, f"tirstep: {file}: No space left on device\n")
    assert [*tmp_path.iterdir()] == [file]


def find_children(process: int) -> list[str]:
    """Children of a process that run Python with `multiprocessing`'s own start."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = path.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == process and "spawn_main" in path.joinpath("cmdline").read_text():
                found.append(path.name)
        except (OSError, IndexError):
            continue
    return found


@pytest.mark.share(3)
@pytest.mark.skipif(count_cores() == 1, reason="one core has no pool of processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_processes_of_a_report_end_with_it(tmp_path: Path, number: signal.Signals):
    """Ctrl-C goes to all processes of a terminal, and a kill to one."""
    file = tmp_path / "report.html"
    process = subprocess.Popen(
        [sys.executable, "-m", "tirstep", "report", "relu", "softmax", "-o", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while len(children := find_children(process.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)  # they import
    if number == signal.SIGINT:
        for child in children:  # who are to leave it to their parent
            os.kill(int(child), number)
        time.sleep(0.5)
        os.killpg(process.pid, number)
    else:
        process.kill()
    out, err = process.communicate(timeout=60)
    assert len(children) >= 2
    if number == signal.SIGINT:
        assert (process.returncode, out, err) == (130, b"", b"")
    while any(map(is_alive, children)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(is_alive, children))
    assert [*tmp_path.iterdir()] == []


def is_alive(process: str) -> bool:
    try:
        return Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.share(2)
def test_a_locale_without_utf8_writes_the_same_files(tmp_path: Path):
    call = [sys.executable, "-m", "tirstep", "check", "--write-goldens", "vector_add_bound"]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("CI", None)
    done = subprocess.run(
        [*call, "--golden-dir", str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    for file in (ROOT / "tests" / "golden" / "vector_add_bound").iterdir():
        assert (tmp_path / "vector_add_bound" / file.name).read_bytes() == file.read_bytes()
