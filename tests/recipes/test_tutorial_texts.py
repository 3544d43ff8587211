"""docs/tutorials.md: each row's command runs, and prints the program that the text prints.

The texts' programs are in texts/, as TVM printed them there but for comments.
"""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import readme
import tutorials_page
import tvm
from lowered_structure import find_difference
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.cli import main
from tirstep.programs.modernizing import modernize_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorials.md"
NAMES = {"tvm": tvm, "T": T, "I": I, **dict.fromkeys("MNK", 512)}
"""What the texts' programs name and do not define; one has names for its sizes."""


class Row(NamedTuple):
    command: str
    verdict: str


ROWS = list(
    dict.fromkeys(
        Row(*re.search(r"\| `(tirstep [^`]+)` \| (.+?) \| [^|]*\| [^|]*\|$", line).groups())
        for line in PAGE.read_text("utf-8").splitlines()
        if "| `tirstep " in line
    )
)
TITLES = (
    "TVM: GEMM GPU Optimization",
    "TVM Learning (8)-GPU and Hardware Acceleration, Part 1",
    "TVM Matrix Multiplication Optimization - Step 3: Shared Memory",
    "TVM 행렬 곱셈 최적화 - Step 1: Simple GPU Binding",
    "TVM: 1D convolution GPU Optimization",
)


def bind_rows(sch: Schedule) -> None:
    i, j, _ = sch.get_loops(sch.get_sblock("C"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")


def block_in_shared_memory(sch: Schedule) -> None:
    block = sch.get_sblock("C")
    result = sch.cache_write(block, 0, "local")
    rows, columns, steps = sch.get_loops(block)
    i0, i1, i2 = sch.split(rows, [None, 8, 8])
    j0, j1, j2 = sch.split(columns, [None, 8, 8])
    k0, k1 = sch.split(steps, [None, 4])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(result, j1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(sch.fuse(i1, j1), "threadIdx.x")
    for operand in range(2):
        copy = sch.cache_read(block, operand, "shared")
        sch.compute_at(copy, k0)
        _, threads, vector = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [None, 64, 4])
        sch.vectorize(vector)
        sch.bind(threads, "threadIdx.x")
    sch.decompose_reduction(block, k0)


def share_tiles_out(sch: Schedule) -> None:
    block = sch.get_sblock("C")
    result = sch.cache_write(block, 0, "local")
    rows, columns, steps = sch.get_loops(block)
    i0, i1, i2 = sch.split(rows, [None, 1, 32])
    j0, j1, j2 = sch.split(columns, [None, 32, 1])
    k0, k1 = sch.split(steps, [None, 32])
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1)
    sch.reverse_compute_at(result, j1, preserve_unit_loops=True)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    for operand in range(2):
        copy = sch.cache_read(block, operand, "shared")
        sch.compute_at(copy, k0)
        y, x, _ = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [1, 32, 32])
        sch.bind(x, "threadIdx.x")
        sch.bind(y, "threadIdx.y")
    sch.decompose_reduction(block, k0)


SCHEDULES: dict[str, Callable[[Schedule], None]] = {
    "matmul_rows_on_blocks": bind_rows,
    "matmul_shared_blocking": block_in_shared_memory,
    "matmul_tiled_shared": share_tiles_out,
}
"""What texts that print no IR do, by the recipe."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.command.removeprefix("tirstep "))
def test_a_row_tells_what_its_command_prints(
    row: Row, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    _, *call = shlex.split(row.command)
    assert main(call) == 0
    printed = capfd.readouterr().out
    if row.verdict.startswith("[same]("):
        text = (PAGE.parent / row.verdict[len("[same](") : -1]).resolve()
        if text.suffix == ".cu":
            assert read_cuda(printed) == read_cuda(text.read_text())
            return
        modern = modernize_text(text.read_text())
        assert modern.renames  # it was for an older TVM
        assert not modern.marks
        theirs, ours = from_source(modern.text, extra_vars=NAMES), read_ir(printed)
        if "--pass" in call:
            assert find_difference(theirs, ours) is None
        else:
            (theirs,) = theirs.functions.values()
            assert_structural_equal(as_main(theirs), as_main(ours))
    elif row.verdict == "same schedule":
        name, shape = call[1], call[3]
        main(["steps", name, "--shape", shape, "--step", "input"])
        sch = Schedule(tvm.IRModule({"main": read_ir(capfd.readouterr().out)}))
        SCHEDULES[name](sch)
        assert_structural_equal(as_main(sch.mod["main"]), as_main(read_ir(printed)))
    elif row.verdict.startswith("differs: "):
        loop, condition, store = (
            printed.index(it) for it in ("(int k = ", "(k == 0)", "= 0x0p+0f")
        )
        assert loop < condition < store
    else:
        assert row.verdict == "–"


def read_ir(printed: str) -> tvm.tirx.PrimFunc:
    return from_source(printed)["main"]


def as_main(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Under one name, with what all of ours are annotated with."""
    return function.with_attr({"global_symbol": "main", "tirx.noalias": True})


def read_cuda(source: str) -> str:
    """A kernel of TVM's, without the endings of its names and with its variables inlined."""
    text = source[source.rindex('extern "C"') :]
    text = re.sub(r"_ptr\b|alignas\(64\) ", "", text)
    for name, value in re.findall(r"^ +int (cse_\w+) = (.+);$", text, re.M):
        text = re.sub(rf"\b{name}\b", value, re.sub(rf"^ +int {name} = .+\n", "", text, flags=re.M))
    return text.strip()


def test_every_text_has_a_heading_of_its_title() -> None:
    headings = re.findall(r"^## (.+)$", PAGE.read_text("utf-8"), re.M)
    assert headings == [*TITLES]


def test_a_difference_is_found() -> None:
    """In an index, a guard, a store, a launch, the order of statements."""
    text = modernize_text((Path(__file__).parent / "texts/gemm_v3.py").read_text()).text
    theirs = from_source(text)
    assert find_difference(theirs, theirs) is None
    for old, new in (
        ("threadIdx_x_1 * 8 + threadIdx_y_1]", "threadIdx_y_1 * 16 + threadIdx_x_1]"),
        ("threadIdx_y_1 < 8", "threadIdx_y_1 < 9"),
        ("= T.float32(0)", "= T.float32(1)"),
        ("range(256)", "range(128)"),
        ('T.launch_thread("blockIdx.y", 32)', 'T.launch_thread("blockIdx.y", 16)'),
        ("A_shared_1[threadIdx_x * 8 + k_inner] * B", "B_shared_1[k_inner * 16 + threadIdx_y] * B"),
    ):
        assert text.count(old) == 1
        assert find_difference(theirs, from_source(text.replace(old, new))) is not None


def test_the_page_has_the_times_of_the_newest_run() -> None:
    text, runs = PAGE.read_text("utf-8"), readme.find_runs(ROOT / "benchmarks/results")
    run = readme.find_newest(runs, readme.TUTORIAL)[1]
    writers = tutorials_page.find_tutorial_writers(text, run)
    assert readme.fill_markers(text, writers, str(PAGE)) == text, "run: make docs"
