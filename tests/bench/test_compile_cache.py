"""The cache of compiled kernels, and the processes that fill it."""

import dataclasses
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import tvm
import tvm_ffi
from bad_jobs import misbehave, refuse_to_start

from tirstep.bench import BenchError
from tirstep.bench.compile_pool import (
    COMPILER,
    CompileJob,
    compile_all,
    compile_job,
    compute_key,
    get_cache_folder,
    installed,
    spell_target,
)

TARGET = tvm.target.Target("nvidia/nvidia-h100")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The sources that TVM's own function was called with; a compiler stands in for it."""
    import tvm.support.nvcc  # noqa: F401 - registers the function

    original = tvm_ffi.get_global_func(COMPILER)
    sources: list[str] = []

    def compile_source(source: str) -> bytes:
        if source == "broken":
            raise RuntimeError("error: expected a ;")
        sources.append(source)
        return b"code of " + source.encode()

    tvm_ffi.register_global_func(COMPILER, compile_source, override=True)
    yield sources
    tvm_ffi.register_global_func(COMPILER, original, override=True)


def ask(source: str) -> bytes:
    return bytes(tvm_ffi.get_global_func(COMPILER)(source))


def test_a_source_is_compiled_once(compiled: list[str], tmp_path: Path):
    with installed(tmp_path) as cache:
        assert [ask("a"), ask("b"), ask("a")] == [b"code of a", b"code of b", b"code of a"]
        assert (cache.hits, cache.misses) == (1, 2)
    with installed(tmp_path) as cache:
        assert ask("a") == b"code of a"
        assert (cache.hits, cache.misses) == (1, 0)
    assert compiled == ["a", "b"]
    # Afterwards TVM compiles as before.
    ask("a")
    assert compiled == ["a", "b", "a"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: content[:32],
        lambda content: content[:-1] + b"?",
        lambda content: b"?" + content[1:],
    ],
)
def test_a_damaged_entry_is_compiled_anew(compiled: list[str], tmp_path: Path, damage: Any):
    with installed(tmp_path) as cache:
        ask("a")
        (file,) = tmp_path.iterdir()
        right = file.read_bytes()
        file.write_bytes(damage(right))
        assert ask("a") == b"code of a"
        assert (cache.hits, cache.misses) == (0, 2)
        assert file.read_bytes() == right


def test_the_key_has_all_that_decides(monkeypatch: pytest.MonkeyPatch):
    keys = {compute_key("a"), compute_key("b")}
    with TARGET:
        keys.add(compute_key("a"))
    monkeypatch.setenv("TVM_CUDA_PTXAS_EXTRA_OPTS", "-O1")
    keys.add(compute_key("a"))
    monkeypatch.setattr("tirstep.bench.compile_pool._get_compilers", lambda: ("other",))
    keys.add(compute_key("a"))
    assert len(keys) == 5


def test_a_folder_that_cannot_be_written_is_no_harm(compiled: list[str], tmp_path: Path):
    file = tmp_path / "file"
    file.touch()
    with installed(file) as cache:
        assert [ask("a"), ask("a")] == [b"code of a"] * 2
        assert (cache.hits, cache.misses) == (0, 2)


def test_a_compiler_s_error_is_not_kept(compiled: list[str], tmp_path: Path):
    with installed(tmp_path), pytest.raises(RuntimeError, match="expected a ;"):
        ask("broken")
    assert [*tmp_path.iterdir()] == []


def test_the_folder_is_the_user_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert get_cache_folder() == tmp_path / "tirstep" / "cubins"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert get_cache_folder() == tmp_path / ".cache" / "tirstep" / "cubins"


SHAPE = {"m": 64, "n": 48, "k": 32}
GOOD = CompileJob("matmul_naive", SHAPE, {"dtype": "float32"}, {})
REFUSED = CompileJob("matmul_tiled", {"m": 7, "n": 5, "k": 3}, {"dtype": "float32"}, {})

SPELLED = spell_target(TARGET)


def test_a_job_says_why_it_does_not_compile(monkeypatch: pytest.MonkeyPatch):
    assert compile_job(GOOD, SPELLED) == ""
    assert compile_job(REFUSED, SPELLED).startswith("refused: ")

    def fail(*arguments: Any, **options: Any) -> None:
        raise tvm.error.InternalError("a story\nCheck failed: lanes\n")

    monkeypatch.setattr("tvm.compile", fail)
    assert compile_job(GOOD, SPELLED) == "failed: InternalError: Check failed: lanes"


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One core, and so one process: each takes seconds to start."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda of: {0})


HOLD = [CompileJob("matmul_naive", SHAPE, {}, config) for config in ({}, {"hold": True})]
"""Jobs of `misbehave`, of which the second one does not end."""


@pytest.mark.usefixtures("one_process")
def test_a_process_that_takes_too_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.bench.compile_pool.compile_job", misbehave)
    told: list[int] = []
    reasons = compile_all(
        HOLD, TARGET, tmp_path, limit=2, report=lambda done, reason: told.append(done)
    )
    assert reasons == ["", "took longer than 2 s to compile"]
    assert told == [1, 2]


@pytest.mark.usefixtures("one_process")
def test_processes_compile(tmp_path: Path):
    library = tmp_path / "good.so"
    jobs = [dataclasses.replace(GOOD, library=str(library)), REFUSED]
    reasons = compile_all(jobs, TARGET, tmp_path, limit=100, report=lambda done, reason: None)
    assert reasons[0] == ""
    assert library.exists() == (shutil.which("g++") is not None)
    assert reasons[1].startswith("refused: tile_block")


@pytest.mark.usefixtures("one_process")
def test_a_process_that_does_not_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.bench.compile_pool._set_up", refuse_to_start)
    with pytest.raises(BenchError, match="processes that try candidates do not start"):
        compile_all([GOOD] * 3, TARGET, tmp_path, limit=9, report=lambda done, reason: None)


@pytest.mark.usefixtures("one_process")
def test_whoever_gives_up_waits_for_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.bench.compile_pool.compile_job", misbehave)

    def interrupt(done: int, reason: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compile_all(HOLD, TARGET, tmp_path, limit=300, report=interrupt)
    assert time.monotonic() - began < 60
