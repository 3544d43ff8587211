"""Programs that nobody writes on purpose: odd ones are judged, malformed ones are a sentence."""

from pathlib import Path

import pytest

from tirstep.cli import main
from tirstep.programs.picking import pick_programs
from tirstep.programs.program_error import ProgramError

ODD = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def hidden(A: T.Buffer((), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[()] + T.float32(1)

    @T.prim_func(s_tir=True)
    def list(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, n + 1))
        B = T.match_buffer(b, (n,))
        for i, k in T.grid(n, n + 1):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    @T.prim_func
    def loops(x: T.float32, A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "float32")):
        for i in T.parallel(8):
            B[i] = T.Select(A[i] > T.int8(0), x, T.float32(0))


@T.prim_func
def matmul(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float16")):
    B[0] = T.Cast("float16", A[0])
"""
HEAD = "from tvm.script import ir as I\nfrom tvm.script import tirx as T\n"
FUNCTION = """
@T.prim_func
def f(A: T.Buffer({shape}, "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        {body}
"""


pytestmark = pytest.mark.usefixtures("report_in_this_process")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("report_in_this_process")
def test_private_functions_numbers_no_dimensions_and_names_of_ours(
    folder: Path, capfd: pytest.CaptureFixture[str]
):
    """`n + 1` in a shape, loops without blocks, and functions called `list` and `matmul`."""
    (folder / "odd.py").write_text(ODD)
    assert main(["check", "odd.py", "--runs", "5"]) == 0
    out = capfd.readouterr().out
    assert "with open sizes" in out
    assert "4 recipes, 4 modules: all good" in out
    assert main(["report", "odd.py", "--no-checks", "-o", "page.html"]) == 0


NUMBERS = """
@T.prim_func(s_tir=True)
def scaled(x: T.float32, k: T.int32, A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.LOOP:
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * x + T.Cast("float32", k)
"""


@pytest.mark.parametrize(
    ("loop", "device", "judge"),
    [
        ("serial(8)", "cpu", "cpu"),
        ('thread_binding(8, thread="threadIdx.x")', "simulator", "interpreter"),
    ],
)
def test_numbers_as_parameters_run_as_a_program_too(
    folder: Path, capfd: pytest.CaptureFixture[str], loop: str, device: str, judge: str
):
    (folder / "f.py").write_text(HEAD + NUMBERS.replace("LOOP", loop))
    assert main(["why", "f.py"]) == 0
    out = capfd.readouterr().out
    assert f"judged  by {judge}: " in out
    assert out.count("not run") == out.count("there is no compiler for CUDA here")
    assert main(["check", "f.py", "--device", device]) == 0


def test_loops_without_blocks_are_no_kernel_of_a_gpu(
    folder: Path, capfd: pytest.CaptureFixture[str]
):
    (folder / "plain.py").write_text(HEAD + FUNCTION.format(shape="(4,)", body="B[i] = A[i]"))
    assert main(["check", "plain.py"]) == 0
    assert "numbers ok on cpu" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("shape", "body", "sentence"),
    [
        ("(0,)", "B[i] = T.float32(1)", "A has the shape (0,), and so no elements"),
        ("(4,)", "T.evaluate(A[i])", "it stores to none of its arguments"),
        ("(65536, 65536, 4096)", "B[i] = A[i, i, i]", "there is not enough memory for what"),
    ],
)
def test_what_cannot_be_judged_is_a_sentence(
    folder: Path, capfd: pytest.CaptureFixture[str], shape: str, body: str, sentence: str
):
    (folder / "f.py").write_text(HEAD + FUNCTION.format(shape=shape, body=body))
    code = main(["check", "f.py"])
    told = capfd.readouterr()
    assert code in (1, 2)
    assert sentence in f"{told.out}{told.err}"


def test_an_output_with_more_elements_than_32_bits_count(
    folder: Path, capfd: pytest.CaptureFixture[str]
):
    text = FUNCTION.replace("B: T.Buffer((4,)", "B: T.Buffer((65536, 65536)")
    (folder / "f.py").write_text(HEAD + text.format(shape="(4,)", body="B[i, i] = A[i]"))
    assert main(["check", "f.py"]) == 1
    assert "B has 4,294,967,296 elements" in capfd.readouterr().out


STRIDED = """
@T.prim_func
def strided(a: T.handle, C: T.Buffer((4, 4), "float32")):
    A = T.match_buffer(a, (4, 4), "float32", PLACE)
    for i, j in T.grid(4, 4):
        C[i, j] = A[i, j]


@T.prim_func
def plain(A: T.Buffer((4, 4), "float32"), C: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        C[i, j] = A[i, j]
"""


@pytest.mark.parametrize("place", ["strides=[8, 1]", "strides=[4, 1], elem_offset=4"])
def test_strides_and_offsets_are_refused_where_numbers_are_asked_for(
    folder: Path, capfd: pytest.CaptureFixture[str], place: str
):
    (folder / "f.py").write_text(HEAD + STRIDED.replace("PLACE", place))
    assert main(["check", "f.py:strided"]) == 1
    out = capfd.readouterr().out
    assert "parameter A have strides, or an offset" in out
    assert "numbers failed on no device: it cannot be judged" in out
    assert main(["report", "f.py", "-o", "page.html"]) == 1  # with a page all the same
    assert (folder / "page.html").is_file()
    assert main(["facts", "f.py:strided"]) == 0
    assert main(["check", "f.py:strided", "--reference", "f.py:plain"]) == 1
    assert "the program does not run: Invalid A." in capfd.readouterr().out


def test_strides_of_a_compact_buffer_are_none(folder: Path):
    (folder / "f.py").write_text(HEAD + STRIDED.replace("PLACE", "strides=[4, 1]"))
    assert main(["check", "f.py:strided"]) == 0


def test_a_ladder_that_is_run_nowhere_names_no_device(
    folder: Path, capfd: pytest.CaptureFixture[str]
):
    body = 'B[i] = T.call_extern("float32", "f", A[i])'
    (folder / "f.py").write_text(HEAD + FUNCTION.format(shape="(4,)", body=body))
    main(["ladder", "f.py"])
    out = capfd.readouterr().out
    assert "failed on no device" in out
    assert "numbers on no" not in out


def test_a_colon_without_a_file_is_a_sentence(capfd: pytest.CaptureFixture[str]):
    assert main(["check", ":f"]) == 2
    assert "':f' has an empty name" in capfd.readouterr().err


def test_a_model_of_relax_beside_its_functions_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As users have it: the model as it is written, and what LegalizeOps made of it."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(
        """
from tvm import relax
from tvm.script import ir as I, relax as R


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            y = R.nn.relu(x)
            R.output(y)
        return y


Model = relax.transform.LegalizeOps()(Net)
"""
    )
    assert [recipe.name for recipe in pick_programs("net.py")] == ["Model"]
    with pytest.raises(ProgramError, match="'Net' has no PrimFunc"):
        pick_programs("net.py:Net")
