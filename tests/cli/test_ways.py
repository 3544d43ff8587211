"""The files that lie on the ways of CONTRIBUTING.md: from a command to what its user reads."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from fake_machine import FakeMachine
from readme import fill_markers, find_bench_writers

from .conftest import ROOT, Command

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
OURS = ("src/", "lowering_checks/", "docs/build/")
"""Kernels, transforms and recipes are what is judged and timed."""
STARTS = (
    "src/tirstep/cli/__init__.py",
    "src/tirstep/cli/app.py",
    "src/tirstep/cli/catalogue.py",
    "src/tirstep/cli/guarding.py",
    "src/tirstep/cli/streams.py",
    "src/tirstep/programs/",
)
"""What begins each command, and finds what it names."""
TOOLS = (
    "lowering_checks/compile/",
    "lowering_checks/devices/__init__.py",
    "lowering_checks/devices/device.py",
    "lowering_checks/devices/guard_zones.py",
    "src/tirstep/caches.py",
    "src/tirstep/cli/formatting.py",
    "src/tirstep/files.py",
    "src/tirstep/former_names.py",
    "src/tirstep/processes.py",
    "src/tirstep/tvm_compat.py",
)
"""What many others call, and what says by its name what it does."""
COUNTED = ("lowering_checks/accesses.py",)
"""Of `ownership`: which elements threads touch."""
SHOWN = ("src/tirstep/cli/screen.py", "src/tirstep/cli/tables.py", "src/tirstep/bench/__init__.py")
"""Of a case: what its terminal shows meanwhile, and the errors of the bench."""
RUN = ("lowering_checks/steps.py", "lowering_checks/numeric.py", "src/tirstep/cli/request.py")
"""Of a case: how a recipe is run, where arrays differ, and how a seed is read."""
SIMULATED = "lowering_checks/devices/cpu.py"
"""Of a case: what the machine of this test computes with."""
NEEDS_GPU = {
    "src/tirstep/bench/torch_machine.py",
    "src/tirstep/bench/ceilings.py",
    "src/tirstep/bench/peers/torch_functions.py",
}


def list_way(begin: str) -> list[str]:
    """The files of the table below a sentence of the page."""
    below = PAGE.partition(f"\n{begin}")[2].partition("\n\n")[2].partition("\n\n")[0]
    return [line.split("`")[1] for line in below.splitlines()[2:]]


def trace(work: Callable[[], object], *, but: tuple[str, ...] = ()) -> set[str]:
    """The files whose functions `work` calls; imports and functions named in `but` are no part."""
    ran: set[str] = set()
    aside: list[FrameType] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and aside and aside[-1] is frame:
            aside.pop()
        if event != "call" or aside:
            return
        if frame.f_code.co_name in ("<module>", *but):
            aside.append(frame)
        else:
            ran.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    paths = [Path(file) for file in ran if Path(file).is_relative_to(ROOT)]
    names = {path.relative_to(ROOT).as_posix() for path in paths}
    return {name for name in names if name.startswith(OURS)}


def leave_out(ran: set[str], *beneath: str) -> set[str]:
    return {name for name in ran if not name.startswith(beneath)}


def test_a_verdict_of_check_goes_through_the_files_of_its_way(command: Command) -> None:
    call = ("check", "vector_add_bound", "--device", "cpu", "--runs", "0")
    ran = trace(lambda: command(*call), but=("find_blind_checks", "_find_broken_expectations"))
    way = list_way("A verdict of `tirstep check`")
    assert leave_out(ran, *STARTS, *TOOLS, *COUNTED) == {*way}
    assert len(way) <= 10


def test_a_case_of_bench_goes_through_the_files_of_its_way(
    command: Command, machine: FakeMachine, tmp_path: Path
) -> None:
    run = ("bench", "matmul", "--shape", "8x8x8", "--recipe", "matmul_naive", "--quick")
    document = tmp_path / "page.md"
    document.write_text("<!-- begin bench-matmul -->\n<!-- end bench-matmul -->\n")

    def work() -> None:
        assert command(*run, "--json", tmp_path / "bench-one.json").code == 0
        writers = find_bench_writers(document, tmp_path)
        text = fill_markers(document.read_text(), writers, "page.md")
        assert "| `matmul` | 8×8×8 | float32 | `matmul_naive` |" in text

    way = list_way("A case of `tirstep bench`")
    beneath = (*STARTS, *TOOLS, *SHOWN, *RUN, SIMULATED)
    assert leave_out(trace(work), *beneath) | NEEDS_GPU == {*way}
    assert len(way) <= 12


def test_a_file_that_is_on_no_way_is_seen(command: Command) -> None:
    assert "src/tirstep/cli/listing.py" in trace(lambda: command("list"))


def test_what_is_called_aside_is_no_part_of_a_way(command: Command) -> None:
    assert trace(lambda: command("list"), but=("main",)) == set()


@pytest.mark.parametrize("begin", ["A verdict of", "A case of"])
def test_the_files_of_a_way_are_there(begin: str) -> None:
    way = list_way(begin)
    assert way
    assert [name for name in way if not (ROOT / name).is_file()] == []
