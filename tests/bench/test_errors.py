"""What is told of an error of another framework."""

import pytest
import tvm

from tirstep.bench import LONGEST_NOTE, BenchError, PeerMissing, find_last_line, shorten
from tirstep.modules import vector_add


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("Compilation failed:\n  a.cu(7): error\x00\x00", "a.cu(7): error"),
        ("a.cu(7): error: no such type\n\x00\x00", "a.cu(7): error: no such type"),
        ("first\nsecond\tline\n \x1b\x85 \n", "second line"),
        ("\x00\x00", ""),
        ("", ""),
    ],
)
def test_the_last_line_that_has_words(text: str, last: str):
    assert find_last_line(RuntimeError(text)) == last


def test_a_note_has_the_kind_and_the_words():
    assert shorten(RuntimeError("why\n\x00")) == "RuntimeError: why"
    assert shorten(RuntimeError("\x00")) == "RuntimeError"
    assert shorten(PeerMissing("triton is not installed")) == "triton is not installed"
    assert shorten(BenchError("x" * 2 * LONGEST_NOTE)).endswith("x…")


def test_of_tvm_s_error_the_reason_is_told_and_not_the_line_behind_it():
    program = tvm.compile(vector_add(8), target="llvm")
    tensors = [tvm.runtime.empty((size,), "float32") for size in (3, 8, 8)]
    with pytest.raises(ValueError, match=r"expected 8$") as caught:
        program(*tensors)
    told = "ValueError: Invalid A.shape[0] on argument #0: expected 8"
    assert shorten(caught.value) == told
