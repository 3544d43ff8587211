"""How tirstep names files, and writes them: at once, and one process after the other.

A file is written under another name and then renamed, so that whoever reads it finds the old
content or the new one, whenever this process is killed or the disk is full.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PARTIAL = ".partial"
"""How the names of unfinished files end; a process that was killed may leave one."""
_POLL_SECONDS = 0.02
_WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of file systems without locks."""


def show_path(file: str | Path) -> str:
    """A path as from the current folder; of an installed package's file the name, so that what is
    printed is the same on each machine.
    """
    whole = os.path.abspath(file)
    return os.path.basename(whole) if "-packages" in whole else os.path.relpath(whole)


def write_file(
    file: Path, content: str | bytes, *, mode: int | None = None, durable: bool = True
) -> None:
    """Write a file at once, text as UTF-8 without another line end than its own.

    The file keeps its permissions, a new one gets those of the umask or, with `mode`, these. What
    a symbolic link points to is written, and not the link; into a device or a pipe the content
    goes as it is. With `durable` it is on the disk before the old content is given up; where a
    digest or git tells what is damaged, that may be left out. Raises `OSError` with the file's
    name, and leaves nothing behind.
    """
    data = content.encode() if isinstance(content, str) else content
    with _naming(file):
        place, old = _find_place(file)
        if place is None:
            with open(file, "wb", buffering=0) as stream:
                _write_all(stream.fileno(), data)
            return
        if old is not None and mode is None:
            mode = stat.S_IMODE(old) & 0o777
        partial = _write_partial(place.parent, data, mode, durable)
        try:
            os.replace(partial, place)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        if durable:  # the new name, too, where the system lets one open a folder
            with contextlib.suppress(OSError):
                descriptor = os.open(place.parent, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)


def append_line(file: Path, line: str, *, durable: bool = True) -> None:
    """Add a line to a file that ends with one: with `durable` it is on the disk when this returns;
    where it fails half-way, the file is as it was.

    Raises `OSError` with the file's name.
    """
    with _naming(file), open(file, "ab", buffering=0) as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            _write_all(stream.fileno(), f"{line}\n".encode())
            with contextlib.suppress(OSError):  # some file systems cannot
                if durable:
                    os.fsync(stream.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(stream.fileno(), size)
            raise


def may_replace(file: Path, first_line: str) -> bool:
    """Whether a file is not there, or is one of those that begin so, or the beginning of one."""
    if not file.exists():
        return True
    text = file.read_text("utf-8", "replace") if file.is_file() else None
    return text is not None and (text.startswith(first_line) or first_line.startswith(text))


def require_writable(file: Path) -> None:
    """Raise the `OSError` now that `write_file` would raise after an hour's work."""
    with _naming(file):
        place, _ = _find_place(file)
        if place is not None:
            _write_partial(place.parent, bytes(1 << 16), None, durable=True).unlink()


@contextlib.contextmanager
def made_aside(folder: Path) -> Iterator[Path]:
    """An empty folder beside another one, whose place it takes when this ends without an error.

    What stood there goes away last: until then it lies beside it, where it is found again if this
    process is killed. Raises `OSError`.
    """
    place = Path(os.path.realpath(folder))
    aside = place.with_name(f".{place.name[:60]}.before-{os.urandom(4).hex()}")
    with tempfile.TemporaryDirectory(prefix=".tirstep-", dir=place.parent) as scratch:
        made = Path(scratch, "made")
        made.mkdir()
        yield made
        try:
            if place.exists():
                os.replace(place, aside)
            os.replace(made, place)
        except BaseException:
            if aside.exists() and not place.exists():
                os.replace(aside, place)
            raise
        if aside.exists():
            shutil.rmtree(aside)


@contextlib.contextmanager
def locked(file: Path, *, seconds: float = 60.0) -> Iterator[None]:
    """While this lasts, other processes that lock the file wait, for `seconds` at most.

    Readers do not need it. Raises `TimeoutError` with a sentence where another process keeps the
    lock for longer. Where the file system knows no locks, there is none.
    """
    import fcntl  # not on Windows, where the rest of this module works

    place = Path(os.path.realpath(file))
    lock = place.with_name(f".{place.name[:60]}.lock")
    end = time.monotonic() + seconds
    with _naming(file):
        while True:
            descriptor = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Who had the lock before has removed it: the path may be another's, or nobody's.
                if os.path.samestat(os.fstat(descriptor), lock.stat()):
                    break
            except (BlockingIOError, FileNotFoundError):
                pass
            except OSError as error:
                if error.errno in _WITHOUT_LOCKS:
                    break
                os.close(descriptor)
                raise
            os.close(descriptor)
            if time.monotonic() > end:
                waited = f" for more than {seconds:g} s" if seconds else ""
                raise TimeoutError(
                    errno.ETIMEDOUT,
                    f"another process has been writing it{waited}; wait until it has ended, or end "
                    "it",
                )
            time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # before it is free: whoever waits for this one sees that
        os.close(descriptor)


@contextlib.contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Errors of writing have no name by themselves, or that of the unfinished file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(file)) from error


def _find_place(file: Path) -> tuple[Path | None, int | None]:
    """Where the content goes, None for a device or a pipe; and the mode of what is there."""
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(file)), None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(file, os.W_OK):  # a rename would not ask
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return (Path(os.path.realpath(file)) if stat.S_ISREG(mode) else None), mode


def _write_partial(folder: Path, data: bytes, mode: int | None, durable: bool) -> Path:
    """A file of its own in a folder, whole."""
    partial = folder / f".tirstep-{os.urandom(8).hex()}{PARTIAL}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(partial, flags, 0o666)
    try:
        try:
            _write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if mode is not None:
            partial.chmod(mode)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return partial


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
