"""``tirstep why``: the first bad step or pass in the terminal, and a script of it in a file."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm_python
from compilers import find_compiler, needs_compiler
from own_files import make_module
from tvm.s_tir import Schedule

from tirstep.lowering_checks.compile import passes
from tirstep.transforms import keep_in_registers, reverse_compute_block_at, tile_block
from tirstep.transforms.recipes import RECIPES, Example, recipe

from .conftest import Command


def test_a_right_recipe_has_no_first_bad_step_and_leaves_no_file(command: Command, tmp_path: Path):
    script = tmp_path / "why.py"
    result = command("why", "vector_add_bound", "-o", script)
    assert (result.code, result.err) == (0, "")
    assert "nothing is wrong" in result.out
    judged = [line for line in result.out.splitlines() if line.startswith("judged  ")]
    assert judged[0].startswith("judged  by interpreter: 3 steps as scheduled, 1 step after tirx.")
    assert judged[1] == "judged  by cpu: 2 steps as a program of the CPU"
    if compiler := find_compiler():
        assert judged[2] == f"judged  by {compiler}: 1 step as generated CUDA source"
        assert "not run" not in result.out
    else:
        assert "not run in 1 step, as generated CUDA source: there is no" in result.out
    assert not script.exists()


@pytest.mark.usefixtures("no_compiler")
def test_what_was_not_judged_is_not_called_right(command: Command, tmp_path: Path):
    result = command("why", "vector_add_bound", "-o", tmp_path / "why.py")
    assert (result.code, result.err) == (0, "")
    assert "nothing is wrong in the parts that were judged\n" in result.out
    assert "not run in 1 step, as generated CUDA source: " in result.out


@pytest.mark.usefixtures("wrong_vector_add")
def test_a_wrong_kernel_is_told_with_the_script(command: Command, tmp_path: Path):
    script = tmp_path / "why.py"
    result = command("why", "vector_add_bound", "--shape", "2048", "--seed", "3", "-o", script)
    assert (result.code, result.err) == (1, "")
    first, *_ = result.out.splitlines()
    assert first == "vector_add_bound  2048, seed 3: step 0 input"
    wrong = re.search(r"wrong   C\[\d+\] is (-?\d+), and NumPy has (-?\d+); ", result.out)
    assert wrong is not None
    assert wrong[1] != wrong[2]
    assert result.out.splitlines()[-2] == f"script  {script}"
    shown = r"run     the script shows it: \d+ of 256 elements are wrong"
    assert re.fullmatch(shown, result.out.splitlines()[-1])
    alone = warm_python.run([sys.executable, script], capture_output=True, text=True)
    assert alone.returncode == 1
    assert " of 256 elements are wrong" in alone.stdout


@pytest.mark.share(2)
@needs_compiler
def test_wrong_code_generation_is_told_with_the_source(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    right = passes._read_source
    misspelt = ("blockIdx.x", "blockIdy.x")
    monkeypatch.setattr(passes, "_read_source", lambda *of: right(*of).replace(*misspelt))
    result = command("why", "vector_add_bound", "-o", tmp_path / "why.py")
    assert (result.code, result.err) == (1, "")
    first, step, source, wrong, *_ = result.out.splitlines()
    assert first == (
        "vector_add_bound  1024, seed 0: between step 02_bound after pass 58 tirx.StmtSimplify "
        "(right: interpreter) and step 02_bound as generated CUDA source "
        f"(wrong: {find_compiler()})"
    )
    assert step == (
        "step    02_bound is right after the last pass that could be run, and its source is wrong"
    )
    assert re.fullmatch(r"source  transforms/recipes/element_ladders\.py:\d+", source)
    assert 'identifier "blockIdy" is undefined' in wrong
    assert 'extern "C" __global__ void' in result.out


@pytest.mark.share(2)
def test_a_spoiled_step_is_told_with_its_diff(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The third step of a recipe is spoiled."""
    spoiled = RECIPES["window_sum_shared"]
    right = spoiled.body

    def body(sch: Schedule, **sizes: object) -> Iterator[str]:
        for name in right(sch, **sizes):
            if name == "fetched_cooperatively":
                (copy, *_) = sch.get_child_blocks(sch.get_sblock("root"))
                sch.set_scope(copy, 0, "local")
            yield name

    monkeypatch.setitem(vars(spoiled), "body", body)
    monkeypatch.chdir(tmp_path)
    result = command("why", "window_sum_shared")
    assert (result.code, result.err) == (1, "")
    assert "step 3 fetched_cooperatively" in result.out
    assert 'scope="local")' in result.out
    assert "in a register of its own" in result.out
    script = tmp_path / "why_window_sum_shared.py"
    assert f"script  {script.name}" in result.out
    alone = warm_python.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert alone.returncode == 1
    assert "tirstep finds: step 0 main: " in alone.stdout
    assert "run     the script shows it: " in result.out
    assert "T.thread_binding(" in alone.stdout


def add_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe with a state on the way that TVM does not lower, and a right one behind it."""
    example = Example({"m": 8, "n": 8, "k": 4})

    @recipe(kernel="matmul_bias_relu", blocks=("C D",), default_example=example, golden=example)
    def fused_first(sch: Schedule) -> Iterator[str]:
        """Fused before it is in registers."""
        block = sch.get_sblock("C")
        tile = tile_block(sch, block, threads=(4, 4))
        reverse_compute_block_at(sch, sch.get_sblock("D"), tile.threads[1])
        yield "fused"
        keep_in_registers(sch, block)
        yield "registers"

    known = {**RECIPES, "fused_first": fused_first}
    monkeypatch.setattr("tirstep.transforms.recipes.RECIPES", known)


REMEDY = "C stays in global memory inside a kernel: keep_in_registers where each thread uses its"


def test_a_refused_step_is_told_with_its_diff_and_the_remedy(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    add_refused(monkeypatch)
    result = command("why", "fused_first", "-o", tmp_path / "why.py")
    assert (result.code, result.err) == (1, "")
    text = " ".join(result.out.split())
    assert "fused_first 8x8x4, seed 0: step 1 fused, refused by tvm.compile, behind" in text
    assert REMEDY in text
    assert 'for i_1 in T.thread_binding(4, thread="threadIdx.y"):' in text
    assert "no step comes before it" not in text
    assert "run the script shows it: TVM refuses the module: Check failed:" in text


def test_check_goes_on_behind_a_refused_step(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    add_refused(monkeypatch)
    result = command("check", "fused_first", "--device", "simulator", "--golden-dir", tmp_path)
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert result.code == 1
    assert any(line.startswith("01_fused") and "on cpu 8x8x4" in line for line in lines)
    assert any(line.startswith("02_registers") and "numbers right on sim" in line for line in lines)
    assert REMEDY in " ".join(lines)
    assert "tirstep why fused_first" in result.out


REFUSED_PROGRAM = """
@I.ir_module
class Refused:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for _ in T.thread_binding(2, thread="blockIdx.x"):
            D = T.alloc_buffer((8,), "float32")
            for i in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("D"):
                    vi = T.axis.spatial(8, i)
                    D[vi] = A[vi]
            for i in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = D[vi]
"""


@pytest.mark.usefixtures("folder")
def test_a_refused_program_has_no_step_before_it(command: Command):
    result = command("why", "refused.py:Refused")
    assert result.code == 1
    assert "the kernel as it was written: no step comes before it" in result.out
    assert "D stays in global memory inside a kernel: keep_in_registers" in result.out


@pytest.mark.usefixtures("folder")
def test_threads_that_are_unsound_are_told_where_no_answer_is_wrong(command: Command):
    """A block that no loop binds is right on a CPU, and `check` says that it runs on the host."""
    told = "block 'D' is outside of any kernel, and would run on the host, on a GPU's memory;"
    assert told in command("check", "half.py").out
    result = command("why", "half.py")
    assert result.code == 1
    assert "all results are right, but the last step is unsound on a GPU" in result.out
    assert told in " ".join(result.out.split())


REAL_SIZE = (Path(__file__).parents[1] / "conformance/real_sizes/gemms.py").read_text()
IN_REGISTERS = REAL_SIZE.replace('operand, "shared"', 'operand, "local"')
"""The same with operands in registers of the threads that copy them."""
BY_HAND = """
@T.prim_func(s_tir=True)
def rotated(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("CTA"):
                vb, vt = T.axis.remap("SS", [b, t])
                row = T.sblock_alloc_buffer((65,), "float32", scope="shared")
                row[vt] = A[vb, vt]
                row[vt + 1] = A[vb, vt]
                T.tvm_storage_sync("shared")
                B[vb, vt] = row[63 - vt]
"""


@pytest.mark.share(3)
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("program", "place", "found"),
    [
        (
            "real.py:scheduled",
            "scheduled  32x64x16, seed 0: step 1",
            "uninitialized read",
        ),
        ("by_hand.py", "rotated, seed 0: step 0 input", "race: store to row"),
    ],
)
def test_programs_of_real_size_and_without_a_reference_are_explained(
    command: Command, program: str, place: str, found: str
):
    """With a script that runs."""
    result = command("why", program)
    assert result.code == 1
    assert place in result.out
    assert f"wrong   {found}" in result.out
    assert re.search(rf"the script shows it: tirstep finds: .*{found}", result.out, re.DOTALL)


TWO = """
A (8,), C (8,), D (8,)
i:8  C[i] = A[i] + T.float32(1)
i:8  D[i] = C[i] + T.float32(1)
"""
HALF_BOUND = f"""
{make_module("Two", TWO)}
def half(sch):
    sch.bind(sch.get_loops(sch.get_sblock("C"))[0], "threadIdx.x")
"""
FILES = {
    "refused.py": REFUSED_PROGRAM,
    "half.py": HALF_BOUND,
    "real.py": IN_REGISTERS,
    "by_hand.py": BY_HAND,
}


BOUND = """from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def turned(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for b in T.thread_binding(2, thread="blockIdx.x"):
        with T.sblock("b"):
            vb = T.axis.spatial(2, b)
            S = T.sblock_alloc_buffer((32,), scope="shared")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("S"):
                    v = T.axis.spatial(32, t)
                    S[v] = A[vb * 32 + v]
            for t in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("B"):
                    v = T.axis.spatial(32, t)
                    B[vb * 32 + v] = S[31 - v]


def own(sch):
    sch.set_scope(sch.get_sblock("S"), 0, "local")
"""


def test_the_script_runs_for_a_kernel_that_was_bound_already(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """LLVM does not take the shared memory of its threads; and positions are lines of the files."""
    (tmp_path / "bound.py").write_text(BOUND)
    monkeypatch.chdir(tmp_path)
    result = command("why", "bound.py:own")
    assert result.code == 1
    text = " ".join(result.out.split())
    shown, line = re.search(r"the script (.*?): .*\[why_own\.py:(\d+)\]$", text).groups()
    assert shown == "shows it"
    own = Path("why_own.py").read_text().splitlines()
    assert own[int(line) - 1].strip() == "B[vb * 32 + v] = S_local[31 - v]"
    (line,) = re.findall(r"wrong uninitialized read: [^\[]*S_local\[.*?\[bound\.py:(\d+)\]", text)
    assert BOUND.splitlines()[int(line) - 1].strip() == "B[vb * 32 + v] = S[31 - v]"


REDUCE = """\
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def total(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4,), "float32")):
{before}    bx = T.launch_thread("blockIdx.x", 4)
    tx = T.launch_thread("threadIdx.x", 64)
{inside}    S[tx] = A[bx, tx]
    T.tvm_storage_sync("shared")
    for s in range(6):
        if tx < T.shift_right(32, s):
            S[tx] = S[tx] + S[tx + T.shift_right(32, s)]
{divergent}        T.tvm_storage_sync("shared")
    if tx == 0:
        B[bx] = S[0]
"""
SHARED = '    S = T.alloc_buffer((64,), "float32", scope="shared")\n'
BARRIER = '            T.tvm_storage_sync("shared")\n'


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"inside": SHARED}, ""),
        ({"before": SHARED}, "race: store to S"),
        ({"inside": SHARED, "divergent": BARRIER}, "reached by only some threads of a block"),
    ],
)
def test_why_says_what_check_says_of_barriers_by_hand(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: dict[str, str], said
):
    """Shared memory that is allocated outside of a launch is one for all thread blocks."""
    monkeypatch.chdir(tmp_path)
    text = REDUCE.format(**{"before": "", "inside": "", "divergent": "", **parts})
    (tmp_path / "total.py").write_text(text)
    check, why = (command(name, "total.py:total") for name in ("check", "why"))
    assert (check.code, why.code) == ((1, 1) if said else (0, 0))
    assert said in check.out + check.err
    assert said in why.out
    assert ("[total.py:14]" in check.out + check.err) == ("divergent" in parts)
    assert ("the kernel as it was written" in why.out) == bool(said)
