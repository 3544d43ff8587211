"""The folders of `tirstep.trace`: each function that was compiled, with the arguments of a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.tirx import PrimFunc, Var
from tvm_ffi import structural_equal

from tirstep.files import show_path
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.inputs import Array
from tirstep.tracing import ARGUMENTS, FUNCTIONS, read_rows

from .naming import ProgramError, describe_error


@dataclass(frozen=True)
class Capture:
    """A TIR function that was compiled while a trace was recorded.

    Attributes
    ----------
    states : what passes of Relax made of it, with their names; the first as it came to be, the last
        as TIR's passes got it; all take the same arguments
    place : ``FILE:LINE`` of the build
    about : of the build, and whether it was called
    arguments : of its first call, in the order of its parameters; none where it was not called
    """

    states: tuple[tuple[str, PrimFunc], ...]
    place: str
    about: str
    arguments: tuple[Array, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that the function leaves open, as they were in that call."""
        named = zip(self.states[0][1].params, self.arguments, strict=False)
        return {
            str(extent.name): int(size)
            for parameter, array in named
            for extent, size in zip(getattr(parameter, "shape", ()), array.shape, strict=True)
            if isinstance(extent, Var)
        }


def load_trace(folder: Path) -> dict[str, Capture]:
    """The functions of a trace by name, in the order of their builds; of several different ones of
    a name the second is ``NAME_2``. Raises `ProgramError`.
    """
    rows, found, files = read_rows(folder), dict[str, Capture](), set[str]()
    calls = {row["call"]: row["arguments"] for row in reversed(rows) if "call" in row}
    for row in rows:
        for name, states in row.get("functions", {}).items():
            file, number, unique = states[-1][1], 1, name
            if file in files:  # it was built before
                continue
            files.add(file)
            while unique in found:
                number += 1
                unique = f"{name}_{number}"
            target = row["target"]
            target = json.loads(target)["kind"] if target.startswith("{") else target
            about = f"{row['build']} for {target}"
            try:
                texts = {it: (folder / FUNCTIONS / it).read_text("utf-8") for _, it in states}
                loaded = [(label, tvm.ir.load_json(texts[it])) for label, it in states]
                arguments = _load_arguments(folder, file, calls.get(file, []))
            except Exception as error:  # TVM's, NumPy's and the system's
                told = describe_error(error)
                raise ProgramError(f"{folder}: '{name}' cannot be read: {told}") from None
            if not arguments:
                about += f", failed: {row['error']}" if row["error"] else ", not called"
            source, _, line = row["place"].rpartition(":")
            place = f"{show_path(source)}:{line}"
            found[unique] = Capture(_keep_alike(loaded), place, about, arguments)
    if not found:
        raise ProgramError(
            f"{folder} is a trace without functions of TIR: nothing was compiled in it, or in "
            "another process than the recorded one; tirstep trace FOLDER -- COMMAND follows "
            "child processes"
        )
    return found


def _keep_alike(states: list[tuple[str, PrimFunc]]) -> tuple[tuple[str, PrimFunc], ...]:
    """The last states that take the arguments of the last one: a pass may add or take away some."""
    kept = [states[-1]]
    for label, function in reversed(states[:-1]):
        types, others = ([it.ty for it in each.params] for each in (function, kept[0][1]))
        if not structural_equal(types, others, map_free_vars=True):
            break
        kept.insert(0, (label, function))
    return tuple(kept)


def _load_arguments(folder: Path, file: str, rows: list[Mapping[str, Any]]) -> tuple[Array, ...]:
    """The arguments of a call; those that were not kept are random, by their range and seed."""
    kept: Mapping[str, Array] = {}
    if any(row.get("kept") for row in rows):
        kept = np.load(folder / ARGUMENTS / file.replace(".json", ".npz"))
    arrays = []
    for place, row in enumerate(rows):
        facts, (low, high) = dtype_facts(row["dtype"]), row["range"]
        if row.get("kept"):
            array = kept[str(place)]
            is_bits = array.dtype.kind == "u" and facts.is_float
            arrays.append(array.view(facts.numpy) if is_bits else array.astype(facts.numpy))
            continue
        random = np.random.default_rng(row["seed"])
        if facts.is_float:  # its ends may lie as far apart as no float64 is large
            share = random.random(row["shape"])
            drawn = low * (1 - share) + high * share
        else:
            drawn = random.integers(low, high, row["shape"], endpoint=True)
        arrays.append(np.asarray(drawn).astype(facts.numpy))
    return tuple(arrays)
