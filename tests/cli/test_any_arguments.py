"""Every command on programs with several outputs, in-out arguments and scalars."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_files import ARGMAX

from .conftest import HEAD, Command

AXPY = """
@I.ir_module
class Axpy:
    @T.prim_func(s_tir=True)
    def main(Y: T.Buffer((48,), "float32"), alpha: T.float32, n: T.int32,
             X: T.Buffer((48,), "float32")):
        for bx in T.thread_binding(12, thread="blockIdx.x"):
            for tx in T.thread_binding(4, thread="threadIdx.x"):
                for unit in range(1):
                    with T.sblock("Y"):
                        vi = T.axis.spatial(48, bx * 4 + tx + unit)
                        if vi < n:
                            Y[vi] = Y[vi] + alpha * X[vi]


def scheduled(sch):
    sch.unroll(sch.get_loops(sch.get_sblock("Y"))[-1])
"""

FILES = {"argmax": ("argmax_rows", ARGMAX), "axpy": ("scheduled", HEAD + AXPY)}
LINES = [
    "list {file}",
    "steps {program}",
    "diff {program}",
    "lower {program} --source",
    "facts {program}",
    "facts {program} --json",
    "check {program} --device simulator",
    "check {program} --device cpu --json",
    "why {program}",
    "diff {program} --against {program} --numbers --step input",
    "diff {program} --against {program} --numbers --json",
    "ladder {file} --steps",
    "ladder {file} --json",
    "report {program} -o page.html",
    "export {program} out --as trace",
    "check {program} --write-goldens --golden-dir golden",
    "check {program} --golden-dir golden",
]


@pytest.mark.share(10)
@pytest.mark.parametrize("name", FILES)
def test_every_command_takes_it(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    file, (scheduled, text) = f"any_{name}.py", FILES[name]
    Path(file).write_text(text)
    for line in LINES:
        called = line.format(file=file, program=f"{file}:{scheduled}").split()
        result = command(*called)
        assert (result.code, result.err) == (0, ""), (line, result)
        assert "Traceback" not in result.out
        if line.startswith("check") and not {"--json", "--write-goldens"} & {*called}:
            assert "all good" in result.out, (line, result)
