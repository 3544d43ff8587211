"""Programs that nobody writes on purpose: odd ones are judged, malformed ones are a sentence."""

from pathlib import Path

import pytest

from tirstep.programs.naming import ProgramError
from tirstep.programs.picking import pick_programs

from .conftest import HEAD, Command

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
FUNCTION = """
@T.prim_func
def f(A: T.Buffer({shape}, "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        {body}
"""
NUMBERS = """
@T.prim_func(s_tir=True)
def scaled(x: T.float32, k: T.int32, A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.LOOP:
        with T.sblock("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * x + T.Cast("float32", k)
"""
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
NET = """
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
FILES = {"odd.py": ODD, "net.py": NET}
pytestmark = pytest.mark.usefixtures("folder", "report_in_this_process")


def write(shape: str, body: str, text: str = FUNCTION) -> None:
    """A file of one function, ``f.py``."""
    Path("f.py").write_text(HEAD + text.format(shape=shape, body=body))


def test_private_functions_numbers_no_dimensions_and_names_of_ours(command: Command):
    """`n + 1` in a shape, loops without blocks, and functions called `list` and `matmul`."""
    result = command("check", "odd.py", "--runs", "5")
    assert result.code == 0
    assert "with open sizes" in result.out
    assert "4 programs, 4 modules: all good" in result.out
    assert command("report", "odd.py", "--no-checks", "-o", "page.html").code == 0


@pytest.mark.parametrize(
    ("loop", "device", "judge"),
    [
        ("serial(8)", "cpu", "cpu"),
        ('thread_binding(8, thread="threadIdx.x")', "simulator", "interpreter"),
    ],
)
def test_numbers_as_parameters_run_as_a_program_too(
    command: Command, loop: str, device: str, judge: str
):
    Path("f.py").write_text(HEAD + NUMBERS.replace("LOOP", loop))
    result = command("why", "f.py")
    assert result.code == 0
    assert f"judged  by {judge}: " in result.out
    assert result.out.count("not run") == result.out.count("there is no compiler for CUDA here")
    assert command("check", "f.py", "--device", device).code == 0


def test_loops_without_blocks_are_no_kernel_of_a_gpu(command: Command):
    write("(4,)", "B[i] = A[i]")
    result = command("check", "f.py")
    assert (result.code, "numbers right on cpu" in result.out) == (0, True)


@pytest.mark.parametrize(
    ("shape", "body", "sentence"),
    [
        ("(0,)", "B[i] = T.float32(1)", "A has the shape (0,), and so no elements"),
        ("(0, 64)", "B[i] = T.float32(1)", "A has the shape (0, 64), and so no elements"),
        ("(4,)", "T.evaluate(A[i])", "it stores to none of its arguments"),
    ],
)
def test_what_cannot_be_judged_is_a_sentence(
    command: Command, shape: str, body: str, sentence: str
):
    write(shape, body)
    result = command("check", "f.py")
    assert result.code in (2, 3)
    assert sentence in f"{result.out}{result.err}"


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("shape", "out", "store", "elements"),
    [
        ("(65536, 65536, 4096)", "(4,)", "B[i] = A[i, i, i]", "17,592,186,044,420"),
        ("(4,)", "(65536, 65536)", "B[i, i] = A[i]", "4,294,967,300"),
    ],
)
def test_more_elements_than_32_bits_count_are_judged_at_smaller_sizes(
    command: Command, shape: str, out: str, store: str, elements: str
):
    write(shape, store, FUNCTION.replace("B: T.Buffer((4,)", f"B: T.Buffer({out}"))
    result = command("check", "f.py")
    assert (result.code, "numbers right for smaller sizes on cpu" in result.out) == (0, True)
    assert f"not at its own sizes: f: its arguments have {elements} elements" in result.out


OPEN = """
@T.prim_func
def opened(a: T.handle, C: T.Buffer((4, 4), "float32")):
    p, r, c = T.int64(), T.int32(), T.int32()
    A = T.match_buffer(a, (4, 4), "float32", strides=[r, c], elem_offset=p)
    for i, j in T.grid(4, 4):
        C[i, j] = A[i, j]
"""


def test_open_strides_and_offsets_are_those_of_packed_arrays(command: Command):
    """As an open size is a small one; by itself, and against a reference without."""
    other = OPEN.replace("opened", "wrong").replace("A[i, j]", "A[j, i]")
    Path("f.py").write_text(HEAD + STRIDED.replace("PLACE", "strides=[4, 1]") + OPEN + other)
    alone = command("check", "f.py:opened")
    assert (alone.code, "numbers right" in alone.out) == (0, True)
    assert command("check", "f.py:opened", "--reference", "f.py:plain").code == 0
    assert command("check", "f.py:plain", "--reference", "f.py:opened").code == 0
    wrong = command("check", "f.py:wrong", "--reference", "f.py:plain")
    assert (wrong.code, "12 of 16 elements are wrong" in wrong.out) == (1, True)


@pytest.mark.parametrize("place", ["strides=[8, 1]", "strides=[4, 1], elem_offset=4"])
def test_strides_and_offsets_are_refused_where_numbers_are_asked_for(command: Command, place: str):
    Path("f.py").write_text(HEAD + STRIDED.replace("PLACE", place))
    result = command("check", "f.py:strided")
    assert result.code == 3
    assert "parameter A have strides, or an offset" in result.out
    assert "numbers not judged\n" in result.out
    assert command("report", "f.py", "-o", "page.html").code == 0  # with a page all the same
    assert Path("page.html").is_file()
    assert command("facts", "f.py:strided").code == 0
    referred = command("check", "f.py:strided", "--reference", "f.py:plain")
    assert (referred.code, "the program does not run: Invalid A." in referred.out) == (1, True)


def test_strides_of_a_compact_buffer_are_none(command: Command):
    Path("f.py").write_text(HEAD + STRIDED.replace("PLACE", "strides=[4, 1]"))
    assert command("check", "f.py:strided").code == 0


def test_a_ladder_that_is_run_nowhere_names_no_device(command: Command):
    write("(4,)", 'B[i] = T.call_extern("float32", "f", A[i])')
    out = command("ladder", "f.py").out
    assert "not judged" in out
    assert "numbers on no" not in out


def test_a_colon_without_a_file_is_a_sentence(command: Command):
    result = command("check", ":f")
    assert (result.code, "':f' has an empty name" in result.err) == (2, True)


def test_a_model_of_relax_beside_its_functions_is_no_obstacle() -> None:
    """As users have it: the model as it is written, and what LegalizeOps made of it."""
    assert [recipe.name for recipe in pick_programs("net.py")] == ["Model"]
    with pytest.raises(ProgramError, match="'Net' has no PrimFunc"):
        pick_programs("net.py:Net")


REFUSED = """
from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def sums(A: T.Buffer((32, 64), "float32"), y: T.Buffer((32,), "float32")):
    for i, k in T.grid(32, 64):
        with T.sblock("y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] = y[vi] + A[vi, vk]


def inlined(sch):
    sch.compute_inline(sch.get_sblock("y"))


def fused(sch):
    i, k = sch.get_loops(sch.get_sblock("y"))
    sch.fuse(k, i)
"""
REFUSALS = (
    "inlined: f.py:16: The block has init statement: block 'y'",
    "fused: f.py:21: The loops can't be fused because the outer loop 'k' is not the parent of "
    "the inner loop 'i'",
)


@pytest.mark.parametrize("name", ["check", "steps", "lower", "facts", "why"])
def test_each_refused_schedule_has_its_line_with_the_names_of_blocks_and_loops(
    command: Command, name: str
):
    Path("f.py").write_text(REFUSED)
    result = command(name, "f.py")
    assert result.code == 2
    assert result.err.splitlines() == [f"tirstep: {each}" for each in REFUSALS]


@pytest.mark.usefixtures("report_in_this_process")
@pytest.mark.parametrize(("name", "verb"), [("ladder", ":"), ("report", " says:")])
def test_one_sentence_has_all_refused_schedules(command: Command, name: str, verb: str):
    Path("f.py").write_text(REFUSED)
    result = command(name, "f.py")
    told = "; ".join(each.replace(": f.py", f"{verb} f.py") for each in REFUSALS)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.endswith(f"{told}\n")


PRINTED = """# from tvm.script import ir as I
# from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        shared = T.sblock_alloc_buffer((64,), scope="shared")
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("shared"):
                v = T.axis.spatial(64, tx)
                shared[v] = A[v]
            with T.sblock("C"):
                v = T.axis.spatial(64, tx)
                C[v] = shared[64 - v]
"""


@pytest.mark.parametrize("name", ["check", "why"])
def test_positions_in_a_printed_module_are_those_of_its_file(command: Command, name: str):
    Path("printed.py").write_text(PRINTED)
    result = command(name, "printed.py")
    assert result.code == 1
    assert "out of bounds: load of shared[64] by thread (0, 0, 0)" in result.out
    assert "[printed.py:15]" in result.out
