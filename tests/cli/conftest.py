"""The command line in this process, and a device with a clock that needs no GPU."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import readme
import tvm
from fake_machine import FakeMachine
from own_files import HEAD
from tvm.script import from_source

from tirstep.cli import main
from tirstep.lowering_checks import print_module
from tirstep.lowering_checks.bisect import Reproduction
from tirstep.lowering_checks.devices import CpuDevice, DeviceError, Timing, find_unbound_sblocks
from tirstep.modules import vector_add

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "src/tirstep/cli/schema.json").read_text())


@dataclass(frozen=True)
class Result:
    """What a command left: its exit code and its two streams."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as JSON, and nothing but JSON, as the schema has it."""
        import jsonschema  # no test on a GPU needs it

        document = json.loads(self.out)
        kinds = [
            it
            for it in SCHEMA["oneOf"]
            if it["properties"]["command"]["const"] == document["command"]
        ]
        jsonschema.validate(document, {**SCHEMA, "oneOf": kinds})
        return document


Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the top of the repository, with no variable that changes what is printed or written."""
    monkeypatch.chdir(ROOT)
    for name in ("CI", "FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the FILES of the test's module, and the current one."""
    for name, text in getattr(request.module, "FILES", {}).items():
        (tmp_path / name).write_text(text if "import" in text else HEAD + text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def nothing_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes in which an export is replayed, and the script of a wrong step run."""
    shown = Reproduction(True, "8 of 8 elements are wrong")
    monkeypatch.setattr("tirstep.lowering_checks.bisect.run_reproducer", lambda _: shown)
    monkeypatch.setattr("tirstep.cli.export._verify", lambda *_: None)


@pytest.fixture
def fill_documents(capfd: pytest.CaptureFixture[str]) -> Command:
    """Run ``docs/build/readme.py ARGUMENTS``."""

    def call(*arguments: object) -> Result:
        capfd.readouterr()
        code = readme.main([str(argument) for argument in arguments])
        return Result(code, *capfd.readouterr())

    return call


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run ``tirstep ARGUMENTS``; its output goes into no terminal, and says of nothing that it is
    slow, which it is on a busy machine.
    """
    monkeypatch.setattr("tirstep.cli.screen.PATIENCE", 600.0)

    def call(*arguments: object) -> Result:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return Result(code, *capfd.readouterr())

    return call


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A GPU for the commands."""
    fake = FakeMachine()
    # In this order: search imports bench's function, which must be the right one after the test.
    monkeypatch.setattr("tirstep.cli.search.make_machine", lambda command: fake)
    monkeypatch.setattr("tirstep.cli.bench.make_machine", lambda command: fake)
    return fake


class ClockDevice(CpuDevice):
    """A GPU for tests: the CPU computes, and each module is twice as fast as the one before."""

    name = "cuda"
    has_clock = True
    description = "Test GPU (sm_00)"

    def __init__(self) -> None:
        self.timed = 0

    def find_obstacle(self, module: Any) -> str | None:
        unbound = find_unbound_sblocks(module)
        return f"not bound yet: {', '.join(unbound)}" if unbound else None

    def time(self, module: Any, arguments: Any) -> Timing:
        self.timed += 1
        seconds = 4e-3 / 2**self.timed
        return Timing(seconds, 0.9 * seconds, 1.25 * seconds, 20)


class BrokenDevice(CpuDevice):
    """A device whose compiler is missing."""

    def compile(self, module: Any) -> Any:
        raise DeviceError("there is no compiler; install one")


@pytest.fixture
def wrong_vector_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel subtracts, and its meaning is still the sum."""
    right = vector_add.factory

    def subtract(*sizes: int, **options: Any) -> tvm.IRModule:
        text = print_module(right(*sizes, **options))
        return from_source(text.replace("A[vi] + B[vi]", "A[vi] - B[vi]"))

    monkeypatch.setattr(vector_add, "factory", subtract)


@pytest.fixture
def clock_device(monkeypatch: pytest.MonkeyPatch) -> ClockDevice:
    device = ClockDevice()
    monkeypatch.setattr("tirstep.cli.judging.get_device", lambda name: device)
    return device


@pytest.fixture
def broken_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tirstep.cli.judging.get_device", lambda name: BrokenDevice())
