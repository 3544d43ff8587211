"""What layers said that `make test` does not ask: host needs a compiler, the sanitizer a GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tirstep.lowering_checks import DeviceError, find_device
from tirstep.lowering_checks import devices as known

from .layers import ASPECTS, SANITIZER, judge_program
from .originals import edit_module, edit_recipe, find_original
from .plant import RECIPE, SCHEDULED, GoldenMutant, Mutant

FILE = Path(__file__).resolve().parents[1] / "elsewhere.json"
HOST = "host"

Record = dict[str, dict[str, bool]]
"""A layer's name, and for each mutant that it was asked about whether it kills it."""


def read() -> Record:
    """The recorded layers; the sanitizer's is there even if nobody has run it."""
    recorded = json.loads(FILE.read_text()) if FILE.is_file() else {}
    return {**recorded, SANITIZER: recorded.get(SANITIZER, {})}


def write(record: Mapping[str, Mapping[str, bool]]) -> None:
    """Record what layers said."""
    FILE.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def ask_host(mutants: tuple[Mutant | GoldenMutant, ...]) -> Record:
    """What the device host says of the mutants that it can run; nothing where it cannot run."""
    if HOST not in known.DEVICES:
        return {}
    device = find_device(HOST)
    record: Record = {f"{HOST} {aspect}": {} for aspect in ASPECTS}
    for mutant in mutants:
        if isinstance(mutant, GoldenMutant) or mutant.level not in (RECIPE, SCHEDULED):
            continue
        run = find_original(mutant.original).run
        try:
            if mutant.level == RECIPE:
                module = edit_recipe(run, mutant.raw or mutant.edits).steps[-1].module
            else:
                module = edit_module(run.steps[-1].module, mutant.edits)
            if device.find_obstacle(module) is None:
                said = judge_program(run.problem, device.compile(module), HOST)
                for layer, sentence in said.items():
                    record[layer][mutant.name] = bool(sentence)
        except (DeviceError, RuntimeError, ValueError):
            continue  # refused before it could run: the other columns say by whom
    return record
