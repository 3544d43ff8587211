"""TIRx kernels in commands: programs like any other, and no pass mends them."""

from pathlib import Path

import pytest

from .conftest import Command

KERNELS = """
from tvm.script import tirx as T


@T.prim_func
def turned(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([256])
    S = T.alloc_shared((256,), "float32")
    S[tx] = A[tx]
    T.cuda.cta_sync()
    B[tx] = S[255 - tx]


@T.prim_func
def racing(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    T.device_entry()
    T.cta_id([1])
    tx = T.thread_id([256])
    S = T.alloc_shared((256,), "float32")
    S[tx] = A[tx]
    B[tx] = S[255 - tx]


@T.prim_func(s_tir=True)
def meant(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")):
    for i in range(256):
        B[i] = A[255 - i]


@T.prim_func
def doubled(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    T.device_entry()
    bx = T.cta_id([(n + 127) // 128])
    tx = T.thread_id([128])
    if bx * 128 + tx < n:
        B[bx * 128 + tx] = A[bx * 128 + tx] * 2.0


def drop_barriers(module):
    import tvm
    from tvm_ffi import structural_map
    nothing = tvm.tirx.Evaluate(tvm.tirx.const(0, "int32"))

    def drop(node):
        return nothing if "cta_sync" in str(node.value) else node

    functions = {
        name: structural_map(function, (tvm.tirx.Evaluate, drop))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)
"""
RACE = "race: load of S[255] by thread (0, 0, 0) of block (0, 0, 0) and store by thread (255, 0, 0)"


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (["kernels.py:turned"], 0, "1 module: clean"),
        (["kernels.py:turned", "--reference", "kernels.py:meant"], 0, "1 module: all good"),
        (["kernels.py:racing"], 1, f"{RACE} of block (0, 0, 0) with no barrier in between"),
        (["kernels.py:doubled"], 0, "clean on simulator 65 n open"),
    ],
)
def test_a_kernel_is_judged_with_its_own_barriers(
    command: Command, kernels: Path, given: list[str], code: int, told: str
):
    result = command("check", *given)
    assert (result.code, told in result.out + result.err) == (code, True)


def test_the_kernel_itself_is_named_and_its_line(command: Command, kernels: Path):
    result = command("why", "kernels.py:racing")
    assert result.code == 1
    assert "the kernel as it was written: no step comes before it" in result.out
    assert "kernels.py:23]" in result.out
    assert "run     the script shows it: " in result.out


def test_facts_and_source_are_those_of_its_own_pipeline(command: Command, kernels: Path):
    facts = {row["name"]: row["value"] for row in command(
        "facts", "kernels.py:turned", "--json"
    ).document["steps"][0]["facts"]}  # fmt: skip
    assert facts["barriers"] == 1
    names = [
        it["name"] for it in command("lower", "kernels.py:turned", "--json").document["passes"]
    ]
    assert "tirx.LowerTIRxCleanup" in names
    assert "s_tir.ThreadSync" not in names
    source = command("lower", "--source", "kernels.py:racing").out
    assert "__shared__" in source
    assert "__syncthreads" not in source


@pytest.mark.share(3)
def test_a_pass_is_tried_within_its_pipeline(command: Command, kernels: Path):
    words = ["pass", "kernels.py:drop_barriers", "--after", "LowerTIRxCleanup", "kernels.py:turned"]
    result = command(*words)
    assert result.code == 1
    assert "barriers 1 → 0" in result.out
    assert "run     the script shows it: WRONG: simulator: race: " in result.out
