"""The folders where tirstep keeps what it compiled, and how it knows damaged files."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import warnings
from pathlib import Path

from .files import write_file

_DIGEST_BYTES = hashlib.sha256().digest_size


class CacheWarning(UserWarning):
    """What is compiled is not kept; said once."""


def find_cache(name: str) -> Path:
    """A folder in the user's cache, ``~/.cache/tirstep/NAME`` or that of XDG_CACHE_HOME.

    What lies there is run: where it cannot be made, is not writable or is another user's, this
    process gets a folder of its own, which ends with it, and a `CacheWarning` says so.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # which XDG says to ignore
        base = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        return _make_own("there is no home folder", name)
    folder = Path(base, "tirstep", name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        return _make_own(f"{folder} cannot be made ({error.strerror})", name)
    if not os.access(folder, os.W_OK | os.X_OK):
        return _make_own(f"{folder} cannot be written", name)
    user = getattr(os, "geteuid", lambda: found.st_uid)()
    if found.st_uid != user or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return _make_own(f"others may write {folder}", name)
    return folder


def keep(content: bytes, file: Path, *, mode: int | None = None) -> None:
    """Write what `take` reads: the content, and then its digest. An `OSError` is the caller's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(content).digest()
    write_file(file, content + digest, mode=mode, durable=False)


def take(file: Path) -> bytes | None:
    """The content that was kept; None where there is none, or it was cut short or changed."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    return content if content and hashlib.sha256(content).digest() == digest else None


@functools.cache
def _make_own(reason: str, name: str) -> Path:
    """For one process, said once."""
    warnings.warn(
        f"{reason}, so what is compiled is not kept; set XDG_CACHE_HOME to a folder of your own",
        CacheWarning,
        stacklevel=3,
    )
    folder = tempfile.mkdtemp(prefix=f"tirstep-{name}-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
