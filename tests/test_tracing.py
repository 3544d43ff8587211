"""`tirstep.trace` around code in this process: what it records, and that it leaves no mark."""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir.instrument import PassTimingInstrument, pass_instrument
from tvm.ir.transform import PassContext
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op
from tvm.script import tirx as T
from tvm.tirx import PrimFunc
from tvm.tirx import build as build_tir  # as an app may have imported it before

import tirstep
from tirstep import tracing
from tirstep.programs.traces import load_trace
from tirstep.tracing import read_rows

Arguments = list[Any]
GPU = "nvidia/nvidia-h100"


@T.prim_func(s_tir=True)
def pick(
    X: T.Buffer((16,), "bfloat16"),
    at: T.Buffer((4,), "int64"),
    scale: T.float32,
    n: T.int32,
    Y: T.Buffer((4,), "bfloat16"),
):
    for i in range(4):
        with T.sblock("Y"):
            vi = T.axis.spatial(4, i)
            Y[vi] = T.if_then_else(vi < n, X[at[vi]], T.bfloat16(0)) * T.Cast("bfloat16", scale)


class Model(nn.Module):
    """The rows of a table, and a product of them."""

    def __init__(self) -> None:
        self.table, self.out = nn.Embedding(32, 16), nn.Linear(16, 10, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return op.softmax(self.out(self.table(x)), axis=-1)


def make_model() -> tvm.IRModule:
    spec = {"forward": {"x": nn.spec.Tensor(("n",), "int32")}}
    return Model().export_tvm(spec=spec)[0]


def run_model(built: Any, instrument: Any = None) -> None:
    machine = relax.VirtualMachine(built, tvm.cpu())
    if instrument is not None:
        machine.set_instrument(instrument)
    weights = [np.ones((32, 16), "float32"), np.ones((10, 16), "float32")]
    given = [np.array([1, 2, 3, 31], "int32"), *weights]
    for _ in range(2):
        machine["forward"](*map(tvm.runtime.tensor, given))


def make_arguments() -> Arguments:
    x, y = np.arange(16).astype(ml_dtypes.bfloat16), np.zeros(4, ml_dtypes.bfloat16)
    tensors = [tvm.runtime.tensor(it) for it in (x, np.array([15, 3, 3, 0]), y)]
    return [*tensors[:2], 2.0, 3, tensors[2]]


WAYS: dict[str, Callable[[Arguments], Any]] = {
    "of tvm.compile, called": lambda given: tvm.compile(tvm.IRModule({"main": named()}))(*given),
    "of tvm.compile, by name": lambda given: tvm.compile(pick, "llvm")["pick"](*given),
    "of a name from before": lambda given: build_tir(pick, target="llvm")["pick"](*given),
    "of its module": lambda given: tvm.compile(pick, target="llvm").mod.pick(*given),
    "timed": lambda given: time_once(tvm.compile(pick, "llvm"), given),
    "exported and loaded": lambda given: load(tvm.compile(pick, "llvm"))["pick"](*given),
}


def named() -> PrimFunc:
    return pick.with_attr("global_symbol", "main")


def time_once(built: Any, given: Arguments) -> None:
    built.mod.time_evaluator("pick", tvm.cpu(), number=1)(*given)


def load(built: Any) -> Any:
    built.export_library("built.so")
    return tvm.runtime.load_module("built.so")


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_the_first_call_of_a_compiled_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, values: bool
):
    monkeypatch.chdir(tmp_path)
    given = make_arguments()
    with tirstep.trace("traced", values=values):
        WAYS[way](given)
        WAYS[way](make_arguments()[:4] + given[4:])
    assert given[4].numpy().astype(float).tolist() == [30, 6, 6, 0]
    ((name, found),) = load_trace(Path("traced")).items()
    assert name in ("pick", "main")
    assert found.place.rpartition(":")[0].endswith("test_tracing.py")
    x, at, scale, n, _ = found.arguments
    assert (at.dtype, at.tolist(), n.item()) == ("int64", [15, 3, 3, 0], 3)
    assert (x.dtype, x.shape, x.astype(float).max() <= 15) == (ml_dtypes.bfloat16, (16,), True)
    assert (x.astype(float).tolist() == [*range(16)]) == values
    assert scale.item() == 2


def test_a_model_s_functions_passes_and_first_calls(tmp_path: Path):
    with tirstep.trace(tmp_path / "traced"):
        built = tvm.compile(make_model(), "llvm")
        run_model(built)
    found = load_trace(tmp_path / "traced")
    assert {*found} == {"take", "transpose", "matmul", "softmax"}
    assert found["take"].arguments[1].tolist() == [1, 2, 3, 31]
    assert found["take"].sizes == {"n": 4}
    rows = read_rows(tmp_path / "traced")
    (build,) = (row for row in rows if "build" in row)
    changed = {it["name"]: it["changed"] for it in build["passes"]}
    assert {*changed["LegalizeOps"]} == {"forward", *found}
    assert "take" in changed["tirx.FlattenBuffer"]
    assert changed["tirx.UnrollLoop"] == []
    assert [label for label, _ in build["relax"]["forward"]] == ["tvm.compile", "VMShapeLower"]
    assert [row["call"][:4] for row in rows if "call" in row] == ["take", "tran", "matm", "soft"]


def test_what_passes_made_of_a_function_are_its_states(tmp_path: Path):
    with tirstep.trace(tmp_path / "traced"):
        for _ in range(2):  # the second is no other function
            relax.build(make_model(), tvm.target.Target(GPU))
    found = load_trace(tmp_path / "traced")
    assert [label for label, _ in found["softmax"].states] == [
        "LegalizeOps",
        "ApplyDefaultSchedule",
    ]
    assert (found["softmax"].about, len(found)) == ("relax.build for cuda, not called", 4)


def test_other_functions_of_one_name_have_numbers(tmp_path: Path):
    with tirstep.trace(tmp_path / "traced"):
        tvm.compile(pick, "llvm")
        tvm.compile(
            PrimFunc(pick.params, tvm.tirx.SeqStmt([pick.body, pick.body]), attrs=pick.attrs)
        )
    assert [*load_trace(tmp_path / "traced")] == ["pick", "pick_2"]


@pass_instrument
class Own:
    """An app's own instrument."""

    def __init__(self) -> None:
        self.passes, self.entered = [], 0

    def enter_pass_ctx(self) -> None:
        self.entered += 1

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        self.passes.append(str(info.name))


@pytest.mark.parametrize("is_outer", [False, True])
def test_instruments_of_the_app_stay(tmp_path: Path, is_outer: bool):
    plain, own, timing = Own(), Own(), PassTimingInstrument()
    with PassContext(instruments=[plain], config={"tirx.disable_vectorize": True}):
        tvm.compile(pick, "llvm")
    context = {"instruments": [own, timing], "config": {"tirx.disable_vectorize": True}}
    if is_outer:
        with PassContext(**context), tirstep.trace(tmp_path / "traced"):
            tvm.compile(pick, "llvm")
    else:
        with tirstep.trace(tmp_path / "traced"), PassContext(**context):
            tvm.compile(pick, "llvm")
            assert "s_tir.LowerOpaqueBlock" in timing.render()
    assert own.passes == plain.passes
    assert own.entered == 1 + is_outer
    (row,) = read_rows(tmp_path / "traced")
    seen = [it["name"] for it in row["passes"]]
    assert {*seen} == {*own.passes} - {"sequential", "_pipeline"}


def test_an_instrument_of_a_virtual_machine_stays(tmp_path: Path):
    seen = []

    def note(function: Any, name: str, before: bool, result: Any, *given: Any) -> int:
        seen.append((name, before))
        return 1 if name == "softmax" else 0  # skips it

    with tirstep.trace(tmp_path / "traced"):
        built = tvm.compile(make_model(), "llvm")
        run_model(built, note)
    assert seen.count(("matmul", True)) == seen.count(("matmul", False)) == 2
    assert (seen.count(("softmax", True)), seen.count(("softmax", False))) == (2, 0)
    assert len(load_trace(tmp_path / "traced")["softmax"].arguments) == 2


def test_nothing_is_left_of_it(tmp_path: Path):
    kept = [tvm.compile, tvm.tirx.build, relax.build, build_tir, PassContext.__init__]
    kept += [tvm.runtime.Module.get_function, relax.VirtualMachine.__init__]
    with contextlib.suppress(KeyError), tirstep.trace(tmp_path / "traced"):
        context, built = PassContext(), tvm.compile(pick, "llvm")
        function = built["pick"]
        assert tvm.compile is not kept[0]
        raise KeyError("mine")
    now = [tvm.compile, tvm.tirx.build, relax.build, build_tir, PassContext.__init__]
    now += [tvm.runtime.Module.get_function, relax.VirtualMachine.__init__]
    assert all(one is other for one, other in zip(now, kept, strict=True))
    rows = read_rows(tmp_path / "traced")
    with context:
        function(*make_arguments())
        tvm.compile(pick, "llvm")
    assert read_rows(tmp_path / "traced") == rows


def test_a_build_that_fails_is_recorded_and_its_error_is_the_app_s(tmp_path: Path):
    with tirstep.trace(tmp_path / "traced"):
        with pytest.raises(Exception, match="nosuch"):
            tvm.compile(pick, "llvm", tir_pipeline="nosuch")
        with pytest.raises(TypeError):
            tvm.compile()
    first, _ = read_rows(tmp_path / "traced")
    assert "nosuch" in first["error"]
    assert [*first["functions"]] == ["pick"]


@pytest.mark.parametrize("name", ["file", "full"])
def test_a_folder_of_something_else_stays(tmp_path: Path, name: str):
    (tmp_path / "full").mkdir()
    for place in ("file", "full/file"):
        (tmp_path / place).write_text("mine")
    with pytest.raises(FileExistsError, match="not a trace of tirstep's"):
        with tirstep.trace(tmp_path / name):
            raise AssertionError
    assert (tmp_path / "full/file").read_text() == "mine"


def test_an_earlier_trace_is_replaced(tmp_path: Path):
    for _ in range(2):
        with tirstep.trace(tmp_path / "traced"):
            tvm.compile(pick, "llvm")["pick"](*make_arguments())
    assert len(read_rows(tmp_path / "traced")) == 2
    with tirstep.trace(tmp_path / "traced"):
        pass
    assert [path.name for path in (tmp_path / "traced").rglob("*.*")] == ["index.jsonl"]


def test_what_is_too_large_is_told_by_its_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tracing, "MOST_BYTES", 40)
    with tirstep.trace(tmp_path / "traced", values=True):
        tvm.compile(pick, "llvm")["pick"](*make_arguments())
    *_, row = read_rows(tmp_path / "traced")
    kept = {it["name"]: (it.get("kept", False), it["range"]) for it in row["arguments"]}
    assert kept["X"] == (True, [0, 15])
    assert kept["at"] == (False, [0, 15])
    at = load_trace(tmp_path / "traced")["pick"].arguments[1]
    assert (at.dtype, at.min() >= 0, at.max() <= 15) == ("int64", True, True)


def test_a_full_disk_is_told_once_and_the_app_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def refuse(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    given = make_arguments()
    with tirstep.trace(tmp_path / "traced"):
        monkeypatch.setattr(tracing, "append_line", refuse)
        for _ in range(2):
            tvm.compile(pick, "llvm")["pick"](*given)
    assert given[4].numpy().astype(float).tolist() == [30, 6, 6, 0]
    told = "something could not be recorded: OSError: [Errno 28] No space left on device"
    assert capfd.readouterr().err == f"tirstep: {tmp_path / 'traced'}: {told}\n"
