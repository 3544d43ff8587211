"""What recipes expect of the lowering of their steps: that it holds, and that a breach is found."""

import dataclasses
import importlib.util
from pathlib import Path

import compiled_record
import compiled_together
import pytest
from compiled_together import (
    COMPILED,
    KeepingCompiler,
    compile_part_of,
    compile_together,
    get_facts_of_step,
)
from golden_runs import run_default_example, run_golden

from tirstep.lowering_checks import CheckError, Run, run_recipe
from tirstep.lowering_checks import expectations as checked
from tirstep.lowering_checks.expectations import (
    check_expectations,
    find_unmade_steps,
    judge_expectations,
)
from tirstep.lowering_checks.facts import compiled, cuda_compilers
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import RECIPES, find_recipe
from tirstep.transforms.recipes.expected_facts import (
    Expect,
    SourcePattern,
    parse_expectation,
    read_expectations,
)


def expecting(run: Run, *expected: str | SourcePattern) -> Run:
    """The run of a recipe that expects something else of its last step."""
    expects = read_expectations({run.steps[-1].name: expected})
    return dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, expects=expects))


def sentences(run: Run) -> list[str]:
    return [expectation.message for expectation in check_expectations(run, run.steps[-1])]


@pytest.fixture(scope="module")
def blocking() -> Run:
    return run_default_example(find_recipe("matmul_shared_blocking"))


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_compilers, "_find_nvrtc", lambda: None)
    monkeypatch.setattr(cuda_compilers, "_find_nvcc", lambda: None)


def test_every_recipe_expects_something():
    """Give ``@recipe(expects=...)`` what `tirstep facts` says of its last step."""
    assert [name for name, recipe in RECIPES.items() if not recipe.expects] == []


def has_compiler() -> bool:
    try:
        cuda_compilers.get_compiler()
    except CheckError:
        return False
    return True


@pytest.mark.parametrize(
    "name",
    [name for name, recipe in RECIPES.items() if recipe.expects],
)
def test_what_a_recipe_expects_holds_at_its_seed(name: str, monkeypatch: pytest.MonkeyPatch):
    run = run_default_example(find_recipe(name))
    if name in COMPILED and has_compiler():
        compiler = compile_part_of(name)
        monkeypatch.setattr(compiled, "get_compiler", lambda: compiler)
        of_module = {id(step.module): step.name for step in run.steps}
        monkeypatch.setattr(
            checked,
            "get_facts",
            lambda module, *_, **__: get_facts_of_step(name, of_module[id(module)]),
        )
    steps = {step.name: step for step in run.steps}
    chooses = name.endswith("_best")  # what the last step is depends on the shape
    assert chooses or run.steps[-1].name in run.recipe.expects
    assert set(run.recipe.expects) <= set(steps)
    for step in run.recipe.expects:
        outcomes = judge_expectations(run, steps[step])
        assert [str(outcome.finding) for outcome in outcomes if outcome.finding is not None] == []


@pytest.mark.parametrize(
    ("text", "expectation"),
    [
        ("spills == 0", Expect("spills", "==", 0)),
        ("shared_bytes <= 48 KiB", Expect("shared_bytes", "<=", 49152)),
        ("load_bytes>=16 B", Expect("load_bytes", ">=", 16)),
        ("LDG.128 > 3 on sm_80", Expect("LDG.128", ">", 3, "sm_80")),
        ("occupancy >= 0.25 on sm_120a", Expect("occupancy", ">=", 0.25, "sm_120a")),
    ],
)
def test_a_sentence_is_parsed(text: str, expectation: Expect):
    assert parse_expectation(text) == expectation


@pytest.mark.parametrize("text", ["spills = 0", "spills", "== 0", "a == b", "a == 1 on gpu"])
def test_what_is_no_sentence_is_refused(text: str):
    with pytest.raises(TransformError, match=f"'{text}' is no expectation; write FACT, one of =="):
        parse_expectation(text)


def test_each_relation():
    held = {
        relation: [value for value in (1, 2, 3) if Expect("a", relation, 2).is_met_by(value)]
        for relation in ("==", "!=", "<=", ">=", "<", ">")
    }
    assert held == {"==": [2], "!=": [1, 3], "<=": [1, 2], ">=": [2, 3], "<": [1], ">": [3]}


def test_a_breach_is_a_finding_with_the_step_and_the_number(blocking: Run):
    run = expecting(blocking, "vector_loads >= 4", "threads == 64", "shared_bytes <= 1 KiB")
    findings = check_expectations(run, run.steps[-1])
    assert [finding.message for finding in findings] == [
        "vector_loads >= 4 is expected, and vector_loads is 2",
        "shared_bytes <= 1024 is expected, and shared_bytes is 2048",
    ]
    assert findings[0].where == "matmul_shared_blocking 05_decomposed"
    assert findings[0].check == "expectations"


def test_a_schedule_that_lost_its_vectors_is_found(blocking: Run):
    recipe = blocking.recipe
    scalar = run_recipe(recipe, recipe.default_example.shape, config={"vector": 1})
    found = sentences(scalar)
    assert "vector_loads == 2 is expected, and vector_loads is 0" in found
    has_filecheck = importlib.util.find_spec("filecheck") is not None
    complaint = "the source does not match the pattern"
    assert any(text.startswith(complaint) for text in found) == has_filecheck


def test_a_pattern_of_the_source(blocking: Run):
    pytest.importorskip("filecheck")
    good = SourcePattern("CHECK: __shared__ {{.*}} A_shared_ptr[[[SIZE:[0-9]+]]]\nCHECK-NOT: goto")
    assert sentences(expecting(blocking, good)) == []
    twice = SourcePattern("CHECK-COUNT-3: __syncthreads()")
    (finding,) = check_expectations(expecting(blocking, twice), blocking.steps[-1])
    assert finding.message == f"the source does not match the pattern '{twice}'"
    assert "__syncthreads" in finding.detail
    assert "\x1b" not in finding.detail


def test_an_unknown_fact_is_refused_with_the_nearest(blocking: Run):
    with pytest.raises(CheckError, match="there is no such fact; did you mean vector_loads"):
        sentences(expecting(blocking, "vector_load == 2"))


def test_a_step_that_launches_nothing_meets_no_expectation():
    run = run_golden(find_recipe("vector_add_bound"))
    unbound = dataclasses.replace(run, steps=run.steps[:1])
    assert sentences(expecting(unbound, "threads == 1")) == [
        "the module launches no kernel: no loop is bound to a GPU"
    ]


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_or_filecheck_it_says_what_was_not_checked(
    blocking: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checked.importlib.util, "find_spec", lambda name: None)
    run = expecting(
        blocking, "spills == 0", "LDG.128 == 2", SourcePattern("CHECK: a"), "blocks > 0"
    )
    outcomes = judge_expectations(run, run.steps[-1])
    assert [outcome.unchecked for outcome in outcomes] == [
        *(cuda_compilers.MISSING, cuda_compilers.MISSING, checked.MISSING_FILECHECK, None),
    ]
    assert all(outcome.finding is None for outcome in outcomes)


def test_what_is_compiled_is_held_to_its_architecture(blocking: Run):
    try:
        cuda_compilers.get_compiler()
    except CheckError as error:
        pytest.skip(str(error))
    run = expecting(blocking, "HMMA == 1 on sm_80", "registers < 10 on sm_80")
    instructions, registers = judge_expectations(run, run.steps[-1])
    assert registers.finding is not None
    sentence = registers.finding.message
    assert sentence.startswith("registers < 10 on sm_80 is expected, and registers is ")
    if instructions.finding is None:  # nobody reads the machine code
        assert instructions.unchecked == checked.MISSING_NVDISASM
    else:
        sentence = instructions.finding.message
        assert sentence == "HMMA == 1 on sm_80 is expected, and HMMA is 0 on sm_80"


def test_without_a_disassembler_instructions_are_not_checked(
    blocking: Run, monkeypatch: pytest.MonkeyPatch
):
    try:
        cuda_compilers.get_compiler()
    except CheckError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(compiled, "count_instructions", lambda cubin: None)
    run = expecting(blocking, "HMMA > 0 on sm_80", "spills == 0 on sm_80")
    instructions, spills = judge_expectations(run, run.steps[-1])
    assert (instructions.finding, instructions.unchecked) == (None, checked.MISSING_NVDISASM)
    assert (spills.finding, spills.unchecked) == (None, None)


def test_what_is_expected_of_no_step_is_a_finding():
    run = run_golden(RECIPES["relu_bound"])
    assert find_unmade_steps(run) == []
    expects = read_expectations({"bund": ("barriers == 0",)})
    wrong = dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, expects=expects))
    (finding,) = find_unmade_steps(wrong)
    assert "step 'bund', which is not made; did you mean bound?" in finding.message


KERNEL = """\
#include <cuda.h>
{functions}
extern "C" __global__ void __launch_bounds__(64) {name}(float* __restrict__ A);
extern "C" __global__ void __launch_bounds__(64) {name}(float* __restrict__ A) {{
  __shared__ float rows[{size}];
  float values[{size}];
  for (int i = 0; i < {size}; ++i) values[i] = A[i * 64 + threadIdx.x];
  for (int i = 0; i < {size}; ++i) rows[i] = values[(int)A[i] % {size}] * values[i];
  __syncthreads();
  A[threadIdx.x] = {function}(rows[threadIdx.x % {size}]);
}}
"""
FUNCTION = """\
__forceinline__ __device__ float {name}(float x) {{
  return x {change};
}}
"""
TWICE, MORE = (
    FUNCTION.format(name="twice", change="* 2"),
    FUNCTION.format(name="more", change="+ 1"),
)


def write_kernel(size: int, *functions: str, function: str = "") -> str:
    """A source as TVM writes it: headers, its functions for instructions, and a kernel."""
    name = "main_kernel"
    return KERNEL.format(name=name, size=size, functions="".join(functions), function=function)


@pytest.mark.skipif(not has_compiler(), reason=cuda_compilers.MISSING)
def test_sources_that_are_compiled_together_are_what_each_is_alone():
    """Two kernels of one name, whose registers, stack and shared memory differ, and of whose
    functions one is the same.
    """
    compiler = cuda_compilers.get_compiler()
    sources = [write_kernel(4, TWICE, function="twice")]
    sources.append(write_kernel(96, MORE, TWICE, function="more"))
    together = compile_together(compiler, [(source, "sm_80") for source in sources])
    if cuda_compilers.find_tool("nvdisasm") is None:
        assert len(together.known) == 2
    found = [
        [compiled.read_resources(by.compile(source, "sm_80").log) for source in sources]
        for by in (together, compiler)
    ]
    assert found[0] == found[1]
    assert [*found[0][0]] == [*found[0][1]] == ["main_kernel"]
    assert found[0][0] != found[0][1]


@pytest.mark.skipif(not has_compiler(), reason=cuda_compilers.MISSING)
def test_what_is_kept_of_a_source_is_what_was_made_and_of_no_other_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = cuda_compilers.get_compiler()
    compiler = KeepingCompiler(found.name, found.command, found.advice)
    source = write_kernel(4)
    made = compiler.compile(source, "sm_80")

    def compile_again(*args: object, **options: object) -> None:
        raise AssertionError("it is compiled again")

    monkeypatch.setattr(cuda_compilers.subprocess, "run", compile_again)
    assert compiler.compile(source, "sm_80") == made
    keys = [compiler.compute_key(*each) for each in ((source, "sm_80"), (source, "sm_90a"))]
    keys.append(compiler.compute_key(source.replace("64", "32"), "sm_80"))
    keys.append(KeepingCompiler("nvcc 1", found.command).compute_key(source, "sm_80"))
    assert len(set(keys)) == 4
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == keys[:1]


def ptxas_says(registers: int) -> str:
    return (
        "ptxas info    : Compiling entry function 'main_kernel' for 'sm_80'\n"
        "ptxas info    : Function properties for main_kernel\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        f"ptxas info    : Used {registers} registers, used 1 barriers\n"
    )


@dataclasses.dataclass(frozen=True)
class Telling(cuda_compilers.CudaCompiler):
    """A compiler that makes nothing: of each source it says the same."""

    def compile(self, source: str, architecture: str) -> cuda_compilers.Compiled:
        return cuda_compilers.Compiled(b"", ptxas_says(40))


def test_what_is_recorded_is_of_one_source_and_compiler_and_held_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compiled_record, "find_tool", lambda name: None)
    monkeypatch.setattr(compiled_together, "find_tool", lambda name: None)
    compiler = Telling("nvcc 1", lambda architecture, _: ["nvcc", f"-arch={architecture}"])
    short, long = (write_kernel(4), "sm_80"), (write_kernel(128), "sm_80")
    file = tmp_path / "record.json"
    noise = "ptxas info    : Compile time = 9.1 ms\nwarning: A is not used\n"
    compiled_record.write(compiler, {short: ptxas_says(40), long: noise + ptxas_says(99)}, file)
    assert "not used" not in (text := file.read_text(encoding="utf-8"))
    assert "Compile time" not in text

    known = compiled_record.find_recorded(compiler, [short, long], file)
    assert known == {short: ptxas_says(40), long: ptxas_says(99)}
    compiled_record.require_true(compiler, known)
    together = compile_together(compiler, known, known)
    assert together.compile(*long).log == ptxas_says(99)

    others = [(short[0], "sm_90a"), (write_kernel(5), "sm_80")]
    assert compiled_record.find_recorded(compiler, others, file) == {}
    newer = dataclasses.replace(compiler, name="nvcc 2")
    assert compiled_record.find_recorded(newer, known, file) == {}
    faster = dataclasses.replace(compiler, command=lambda *_: ["nvcc", "-arch=sm_80", "-O0"])
    assert compiled_record.find_recorded(faster, known, file) == {}
    with pytest.raises(AssertionError, match="run `make compiled`"):
        compiled_record.require_true(compiler, {**known, short: ptxas_says(41)})
    monkeypatch.setattr(compiled_record, "find_tool", lambda name: "/usr/bin/nvdisasm")
    assert compiled_record.find_recorded(compiler, known, file) == {}
