"""Files are written at once, whatever ends the process; and only by the one who does that."""

import ast
import errno
import os
import re
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tirstep.files import locked, require_writable, write_file

ROOT = Path(__file__).resolve().parents[1]
OLD, NEW = b"old" * 50_000, b"new" * 50_000


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["a b.txt", "größe-×.txt", "-rf", "x" * 255, ".hidden"])
def test_text_is_written_as_it_is(tmp_path: Path, name: str):
    for text in ("one\r\ntwo\n×", ""):
        write_file(tmp_path / name, text)
        assert (tmp_path / name).read_bytes() == text.encode()
        assert list_names(tmp_path) == [name]


def test_permissions_are_as_the_umask_says_and_stay(tmp_path: Path):
    file = tmp_path / "file"
    before = os.umask(0o027)
    try:
        write_file(file, "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    for mode in (0o600, 0o664, 0o755):
        file.chmod(mode)
        write_file(file, "newer")
        assert stat.S_IMODE(file.stat().st_mode) == mode
    write_file(file, "program", mode=0o700)
    assert stat.S_IMODE(file.stat().st_mode) == 0o700


def test_a_link_stays_and_its_target_is_written(tmp_path: Path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(Path("there", "file"))
    for text in ("first", "second"):  # at first there is nothing where it points to
        write_file(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "there" / "file").read_text() == text
    assert list_names(tmp_path) == ["link", "there"]


def test_a_pipe_gets_the_content_and_stays(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, NEW)
    reader.join()
    assert read == [NEW]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_file(Path(os.devnull), "nothing")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def make_folder(path: Path) -> Path:
    path.mkdir()
    return path


def make_loop(path: Path) -> Path:
    path.symlink_to(path)
    return path


@pytest.mark.parametrize("write", [lambda file: write_file(file, "x"), require_writable])
@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda path: path / "file", errno.ENOENT),
        (make_folder, errno.EISDIR),
        (lambda path: path.write_text("x") and path / "file", errno.ENOTDIR),
        (lambda path: path.with_name("x" * 256), errno.ENAMETOOLONG),
        (make_loop, errno.ELOOP),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path: Path, make, number: int, write):
    file = make(tmp_path / "place")
    before = list_names(tmp_path)
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the number is looked at
        write(file)
    assert (caught.value.errno, caught.value.filename) == (number, str(file))
    assert list_names(tmp_path) == before


def test_a_read_only_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Root may write all files, so the system's answer is set here."""
    file = tmp_path / "file"
    file.write_bytes(OLD)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    for write in (lambda: write_file(file, NEW), lambda: require_writable(file)):
        with pytest.raises(PermissionError):
            write()
    assert file.read_bytes() == OLD


def test_a_probe_leaves_all_as_it_is(tmp_path: Path):
    file = tmp_path / "file"
    require_writable(file)
    assert list_names(tmp_path) == []
    file.write_bytes(OLD)
    require_writable(file)
    assert (list_names(tmp_path), file.read_bytes()) == (["file"], OLD)


@pytest.mark.parametrize("name", ["open", "write", "fsync", "close", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_an_error_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException
):
    file = tmp_path / "file"
    file.write_bytes(OLD)
    real = getattr(os, name)

    def fail(*arguments: object, **named: object) -> object:
        if name == "close":
            real(*arguments)
        raise error

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(type(error)) as caught:
        write_file(file, NEW)
    monkeypatch.undo()
    if isinstance(caught.value, OSError):
        assert caught.value.filename == str(file)
    assert file.read_bytes() == OLD
    assert list_names(tmp_path) == ["file"]


def run_script(script: str, *arguments: object, timeout: float = 60) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Dies before and behind each call that changes a file system, in a child of its own.
KILLED = """
import os, signal, sys
from pathlib import Path
from tirstep.files import locked, write_file

file, old, new = Path(sys.argv[1]), b"old" * 50_000, b"new" * 50_000
seen = set()
for deadly in range(1, 99):
    file.write_bytes(old)
    child = os.fork()
    if not child:
        events = 0
        def die():
            global events
            events += 1
            if events == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
        def wrap(real):
            def call(*arguments, **named):
                die()
                result = real(*arguments, **named)
                die()
                return result
            return call
        for name in ("open", "write", "fsync", "close", "replace", "unlink"):
            setattr(os, name, wrap(getattr(os, name)))
        write = os.write  # in pieces, as a disk that gets full
        os.write = lambda descriptor, data: write(descriptor, data[:60_000])
        with locked(file):
            write_file(file, new)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    content = file.read_bytes()
    assert content in (old, new), len(content)
    seen.add(content)
    with locked(file, seconds=0):  # a lock ends with its process
        pass
    if not status:
        break
assert deadly > 20 and seen == {old, new}, (deadly, len(seen))
print("whole")
"""


def test_a_process_killed_at_any_moment_leaves_the_old_file_or_the_new(tmp_path: Path):
    assert run_script(KILLED, tmp_path / "file") == "whole\n"


FULL = """
import errno, resource, sys
from pathlib import Path
from tirstep.files import require_writable, write_file

file = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
for write in (lambda: write_file(file, "new" * 50_000), lambda: require_writable(file)):
    try:
        write()
    except OSError as error:
        assert (error.errno, error.filename) == (errno.EFBIG, str(file))
        print("refused")
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path):
    file = tmp_path / "file"
    file.write_bytes(OLD)
    assert run_script(FULL, file) == "refused\nrefused\n"
    assert (file.read_bytes(), list_names(tmp_path)) == (OLD, ["file"])


COUNTED = """
import os, sys
from pathlib import Path
from tirstep.files import locked, write_file

file = Path(sys.argv[1])
children = []
for _ in range(4):
    child = os.fork()
    if not child:
        for _ in range(25):
            with locked(file):
                write_file(file, str(int(file.read_text()) + 1), durable=False)
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
print(file.read_text())
"""


def test_of_four_processes_each_counts(tmp_path: Path):
    (tmp_path / "file").write_text("0")
    assert run_script(COUNTED, tmp_path / "file") == "100\n"
    assert list_names(tmp_path) == ["file"]


def test_whoever_waits_too_long_for_a_lock_is_told(tmp_path: Path):
    file = tmp_path / "file"
    with locked(file):
        for seconds, said in ((0, "writing it; wait"), (0.1, "writing it for more than 0.1 s;")):
            start = time.monotonic()
            with pytest.raises(TimeoutError, match=said) as caught, locked(file, seconds=seconds):
                pass
            assert caught.value.filename == str(file)
            assert time.monotonic() - start < 5
        with locked(tmp_path / "other", seconds=0):
            pass
    with locked(file, seconds=0):
        pass
    assert list_names(tmp_path) == []


def test_a_lock_is_one_whatever_the_way_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "link").symlink_to("file")
    monkeypatch.chdir(tmp_path)
    for other in (Path("file"), tmp_path / "link"):
        with locked(tmp_path / "file"), pytest.raises(TimeoutError), locked(other, seconds=0):
            pass


def test_a_file_system_without_locks_is_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with locked(tmp_path / "file"):
        write_file(tmp_path / "file", "new")
    assert list_names(tmp_path) == ["file"]


# Who writes in another way, and why nothing can be lost there.
WRITERS = {
    "src/tirstep/files.py": "the writer itself",
    "docs/build/readme.py": "a program in a temporary folder",
    "src/tirstep/bench/compile_pool.py": "libraries in a process's own folder",
    "src/tirstep/printing.py": "the null device, in the place of standard error",
    "src/tirstep/tuning/candidates.py": "the null device, in the place of standard output",
    "lowering_checks/facts/compiled.py": "a cubin in a temporary folder",
    "lowering_checks/facts/nvrtc_program.py": "a cubin in a temporary folder",
    "lowering_checks/expectations.py": "FileCheck's input in a temporary folder",
}
ALWAYS = {"write_text", "write_bytes", "rename", "replace_file", "savefig", "truncate", "fdopen"}


def find_writes(source: str) -> list[str]:
    """The calls that write a file."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func)
            values = [*call.args, *(each.value for each in call.keywords)]
            modes = [value.value for value in values if isinstance(value, ast.Constant)]
            opens = re.search(r"\bopen$", name) and any(
                re.fullmatch("[rbt]*[wax+].*", str(mode)) for mode in modes
            )
            method = name.partition(".")[2] and name.split(".")[-1]
            replaces = method == "replace" and len(values) == 1 and not call.keywords
            if opens or replaces or method in ALWAYS or name in ("os.open", "os.replace"):
                found.append(ast.unparse(call))
    return found


def test_nobody_writes_in_another_way():
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("modules", "transforms", "lowering_checks", "src", "benchmarks", "docs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if find_writes(path.read_text("utf-8"))
    }
    assert found == set(WRITERS)


def test_a_planted_write_is_found_and_reading_is_none():
    planted = [
        *("path.write_text('x')", "open(path, 'w')", "open(path, mode='wb')", "path.open('a')"),
        *("os.replace(a, b)", "partial.replace(file)", "path.rename(b)", "os.open(path, flags)"),
    ]
    for source in planted:
        assert find_writes(source), source
    assert find_writes("open(p); open(p, 'rb'); p.open(); s.replace('a', 'b'); p.read_text()") == []
