"""What layers said that `make test` does not ask: host needs a compiler, the sanitizer a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tirstep.lowering_checks import DeviceError
from tirstep.lowering_checks.devices.host import HostDevice, generate, is_host_available

from .layers import ASPECTS, HOST, judge_program
from .plant import Mutant
from .subjects import Subject, find_subjects

FILE = Path(__file__).resolve().parents[1] / "elsewhere.json"
Record = dict[str, dict[str, bool]]
"""A layer's name, and for each mutant that it was asked about whether it kills it."""


def read(file: Path = FILE) -> Record:
    """The recorded layers: of a file, or of the repository's where there is none."""
    return _read_file(file)["layers"]


def read_places(file: Path = FILE) -> dict[str, str]:
    """Where each recorded device ran: the compiler, or the GPU with the date."""
    return _read_file(file)["asked on"]


def _read_file(file: Path) -> dict[str, Any]:
    empty: dict[str, Any] = {"layers": {}, "asked on": {}}
    found = next((path for path in (file, FILE) if path.is_file()), None)
    return json.loads(found.read_text()) if found else empty


def write(record: Mapping[str, Mapping[str, bool]], device: str, place: str, file: Path) -> None:
    """Record what the layers of a device said, and where; other devices' stay."""
    layers = {**read(file), **record}
    places = {**read_places(file), device: place}
    text = json.dumps({"asked on": places, "layers": layers}, indent=1, sort_keys=True)
    file.write_text(text + "\n")


def ask_host(mutants: Iterable[Mutant]) -> None:
    """Record what the device host says of all mutants that it can run; nothing without it."""
    if not is_host_available():
        return
    device = HostDevice()
    record: Record = {f"{HOST} {aspect}": {} for aspect in ASPECTS}
    for subject in find_subjects(mutants):
        for aspect, kills in _ask_host_about(device, subject).items():
            record[aspect][subject.name] = kills
    write(record, HOST, device.description, FILE)


def _ask_host_about(device: HostDevice, subject: Subject) -> dict[str, bool]:
    try:
        generated = generate(subject.module, pipeline=subject.pipeline)
        program = device.compile_generated(generated)
    except DeviceError:
        return {}  # what host does not know; other columns say who refuses
    try:
        said = judge_program(subject.problem, program, HOST)
    except DeviceError:
        return {f"{HOST} faults": True}  # the kernel's process died
    return {layer: bool(sentence) for layer, sentence in said.items()}
