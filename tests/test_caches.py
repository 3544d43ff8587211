"""The folders of what was compiled: the user's own, and what is damaged there counts as nothing."""

import os
import pwd
import stat
import warnings
from pathlib import Path

import pytest

from tirstep import caches
from tirstep.caches import CacheWarning, find_cache, keep, take


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    caches._make_own.cache_clear()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


def test_the_folder_is_where_xdg_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = find_cache("some")
    assert folder == tmp_path / "cache" / "tirstep" / "some"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setenv("HOME", str(tmp_path))
    for relative in ("", "cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", relative)
        assert find_cache("some") == tmp_path / ".cache" / "tirstep" / "some"


def use_own(said: str) -> Path:
    """A folder of this process's, and the warning of it, which comes once."""
    with pytest.warns(CacheWarning, match=f"{said}.*, so what is compiled is not kept; set XDG"):
        folder = find_cache("some")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_cache("some") == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.stat().st_uid == os.geteuid()
    return folder


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert tmp_path not in use_own(r"cannot be made \(Not a directory\)").parents


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: tmp_path not in Path(path).parents)
    use_own("some cannot be written")


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_folder_that_others_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int):
    """What lies in a cache is run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    find_cache("some").chmod(mode)
    use_own("others may write")


def test_without_a_home_nothing_is_written_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A user without an entry, as in a container with another number."""

    def fail(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", fail)
    monkeypatch.chdir(tmp_path)
    use_own("there is no home folder")
    assert [*tmp_path.iterdir()] == []


def test_what_was_kept_is_taken(tmp_path: Path):
    file = tmp_path / "new" / "file"
    assert take(file) is None
    keep(b"content", file, mode=0o700)
    assert take(file) == b"content"
    assert stat.S_IMODE(file.stat().st_mode) == 0o700


def test_what_is_damaged_anywhere_is_nothing(tmp_path: Path):
    file = tmp_path / "file"
    keep(b"content", file)
    right = file.read_bytes()
    for place in range(len(right)):
        for damaged in (right[:place], right[:place] + b"?" + right[place + 1 :]):
            file.write_bytes(damaged)
            assert take(file) is None
    file.write_bytes(right + b"?")
    assert take(file) is None
    file.unlink()
    file.mkdir()
    assert take(file) is None
