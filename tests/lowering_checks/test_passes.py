"""The passes of a compilation: their numbers, what each changed, and the source in the end."""

import itertools

import pytest
import tvm
import tvm_ffi
from golden_runs import run_golden
from tvm import s_tir
from tvm.ir.instrument import pass_instrument
from tvm.tirx import For, ForKind
from tvm_ffi import structural_map

from tirstep.lowering_checks import CheckError, print_module
from tirstep.lowering_checks.compile.compiling import TARGET
from tirstep.lowering_checks.compile.passes import Lowering, Pass, lower_through_passes
from tirstep.transforms.recipes import find_recipe
from tirstep.transforms.tir import find_all


def scheduled(name: str = "matmul_shared") -> tvm.IRModule:
    return run_golden(find_recipe(name)).steps[-1].module


@pytest.fixture(scope="module")
def lowering() -> Lowering:
    return lower_through_passes(scheduled())


def watch_alone(module: tvm.IRModule) -> list[tuple[str, str]]:
    """Every pass that ends and the text after it, taken down at once by another instrument."""
    seen: list[tuple[str, str]] = []

    @pass_instrument
    class Watch:
        def run_after_pass(self, module: tvm.IRModule, info: object) -> None:
            seen.append((str(info.name), print_module(module)))

    with tvm.transform.PassContext(instruments=[Watch()]):
        tvm.compile(module, target=TARGET)
    return [(name, text) for name, text in seen if name not in ("sequential", "_pipeline")]


def test_every_pass_is_there_with_the_module_after_it(lowering: Lowering):
    got = [(step.name, print_module(step.module)) for step in lowering.passes]
    assert got == watch_alone(scheduled())
    assert sorted(step.number for step in lowering.passes) == list(range(1, len(got) + 1))
    assert all(step.seconds >= 0 for step in lowering.passes)


def test_what_did_not_change_is_equal_and_what_changed_is_not(lowering: Lowering):
    assert 15 < len(lowering.changed) < 30 < len(lowering.passes)
    for step in lowering.passes:
        is_equal = tvm_ffi.structural_equal(step.before, step.module)
        assert step.changed is not is_equal
        assert step.changed or step.diff().lines == ()


def test_each_pass_goes_on_from_the_one_before(lowering: Lowering):
    names = [step.name for step in lowering.passes]
    chain = lowering.passes[: names.index("tirx.ConvertSSA")]  # then the device's part goes apart
    for before, after in itertools.pairwise(chain):
        assert tvm_ffi.structural_equal(before.module, after.before), after.label


def test_a_pass_that_changes_its_module_in_place_is_seen(lowering: Lowering):
    one = lowering.get_pass("tirx.AnnotateEntryFunc")
    assert one.changed
    assert "tirx.is_entry_func" not in print_module(one.before)
    assert "tirx.is_entry_func" in print_module(one.module)


def unroll_all(module: tvm.IRModule) -> tvm.IRModule:
    """A pass of ours that changes something, in every function."""

    def unrolled(loop: For) -> For:
        kind = ForKind.UNROLLED if loop.kind == ForKind.SERIAL else loop.kind
        return For(loop.loop_var, loop.min, loop.extent, kind, loop.body, None, {}, loop.step)

    functions = module.functions.items()
    return tvm.IRModule(
        {name: structural_map(function, (For, unrolled)) for name, function in functions}
    )


def use_pipeline(monkeypatch: pytest.MonkeyPatch, first: object) -> None:
    """Register a pipeline "own": a pass of ours, then TVM's."""

    def own() -> object:
        default, *finalize = s_tir.pipeline.default_s_tir_pipeline()
        return tvm.transform.Sequential([first, default]), *finalize

    monkeypatch.setitem(tvm.tirx.compilation_pipeline.PIPELINE_MAP, "own", own)


def test_a_pass_that_runs_others_did_not_change_what_they_did(monkeypatch: pytest.MonkeyPatch):
    inner = tvm.transform.module_pass(lambda module, _: unroll_all(module), 0, name="inner")
    only_runs = tvm.transform.module_pass(lambda module, _: inner(module), 0, name="outer")
    use_pipeline(monkeypatch, only_runs)
    found = lower_through_passes(scheduled("vector_add_bound"), "llvm", pipeline="own")
    first, second = (step for step in found.passes if step.name in ("inner", "outer"))
    assert (first.name, first.number) == ("inner", second.number + 1)
    assert (first.changed, second.changed) == (True, False)


def test_a_pass_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch):
    def refuse(module: tvm.IRModule, context: object) -> tvm.IRModule:
        raise ValueError("it has one loop too many")

    use_pipeline(monkeypatch, tvm.transform.module_pass(refuse, 0, name="refusing"))
    found = lower_through_passes(scheduled("vector_add_bound"), pipeline="own")
    assert (found.executable, found.source) == (None, "")
    assert found.failed is not None
    assert (found.failed.name, found.failed.number) == ("refusing", len(found.passes) + 1)
    assert "refuses the module: " in str(found.failed)
    assert "it has one loop too many" in str(found.failed)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("s_tir.ThreadSync", "42 s_tir.ThreadSync"),  # the first of three, which changed something
        ("threadsync", "42 s_tir.ThreadSync"),
        (43, "43 s_tir.ThreadSync"),
        ("44", "44 s_tir.ThreadSync"),
        ("44 s_tir.ThreadSync", "44 s_tir.ThreadSync"),
        ("tirx.StmtSimplify", "33 tirx.StmtSimplify"),
    ],
)
def test_a_pass_by_name_and_number(lowering: Lowering, name: str | int, label: str):
    found: Pass = lowering.get_pass(name)
    assert found.label == label


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("UnrolLoop", "there is no pass 'UnrolLoop' .*; did you mean tirx.UnrollLoop or "),
        ("zzz", "there is no pass 'zzz' for the target .*; there are: tirx.BindTarget, "),
        ("0", "there is no pass 0 .*; its passes are 1 to 59"),
        (60, "there is no pass 60 .*; its passes are 1 to 59"),
    ],
)
def test_an_unknown_pass_is_refused(lowering: Lowering, name: str | int, sentence: str):
    with pytest.raises(CheckError, match=sentence):
        lowering.get_pass(name)


@pytest.mark.parametrize(
    ("target", "language", "word"),
    [
        ("cuda", "cuda", "__global__ void"),
        ("nvidia/nvidia-a100", "cuda", "__global__ void"),
        ("sm_75", "cuda", "__global__ void"),
        ("opencl", "opencl", "__kernel void"),
        ("llvm", "llvm", "define "),
    ],
)
def test_the_source_of_each_target(target: str, language: str, word: str):
    found = lower_through_passes(scheduled("vector_add_bound"), target)
    assert (found.target, found.language, found.failed) == (target, language, None)
    assert word in found.source


def test_an_architecture_as_target_reaches_tvm():
    bound = lower_through_passes(scheduled("vector_add_bound"), "sm_75").get_pass(1)
    assert '"arch": "sm_75"' in print_module(bound.module)


def test_for_llvm_no_thread_is_left():
    found = lower_through_passes(scheduled(), "llvm")
    loops = find_all(found.module["main"].body, For)
    assert all(loop.kind != ForKind.THREAD_BINDING for loop in loops)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("cudaa", "there is no target 'cudaa'; did you mean cuda?"),
        ("nvidia/nvidia-h10", "did you mean nvidia/nvidia-h100 or "),
        ("zzz", "there are cuda, opencl, llvm, sm_80 and the like, and TVM's tags"),
        ("metal", "is of the kind metal, .*; choose one of cuda, opencl, llvm"),
    ],
)
def test_an_unknown_target_is_refused(target: str, sentence: str):
    with pytest.raises(CheckError, match=sentence):
        lower_through_passes(scheduled("vector_add_bound"), target)
