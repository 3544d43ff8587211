"""Every command on programs with several outputs, in-out arguments and scalars."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Command

HEAD = """
from tvm.script import ir as I
from tvm.script import tirx as T
from tirstep.transforms.recipes import Example, recipe
"""

ARGMAX = """
from tirstep.modules.rows import row_argmax

SMALL = Example({"m": 12, "n": 20})


@recipe(kernel=row_argmax, blocks=("best",), default_example=SMALL, golden=SMALL)
def scheduled(sch, *, threads: int = 4):
    i, _ = sch.get_loops(sch.get_sblock("best"))
    outer, inner = sch.split(i, [None, threads])
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    yield "bound"
"""

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

FILES = {
    "argmax": HEAD + ARGMAX,
    "axpy": HEAD + AXPY,
}
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


@pytest.fixture(params=FILES)
def program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A file of one program, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / f"any_{request.param}.py"
    file.write_text(FILES[request.param])
    yield file.name
    sys.modules.pop(file.stem, None)


def test_every_command_takes_it(command: Command, program: str) -> None:
    for line in LINES:
        called = line.format(file=program, program=f"{program}:scheduled").split()
        result = command(*called)
        assert (result.code, result.err) == (0, ""), (line, result)
        assert "Traceback" not in result.out
        if line.startswith("check") and not {"--json", "--write-goldens"} & {*called}:
            assert "all good" in result.out, (line, result)
