"""What is told of an error of another framework."""

import pytest

from tirstep.bench import LONGEST_NOTE, BenchError, PeerMissing, find_last_line, shorten
from tirstep.lowering_checks import DeviceError


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


def test_an_error_without_a_word_has_its_place():
    with pytest.raises(AssertionError) as caught:
        raise AssertionError
    line = caught.traceback[-1].lineno + 1
    assert shorten(caught.value) == (
        f"AssertionError: raise AssertionError (bench/test_errors.py, line {line})"
    )


def test_a_sentence_of_ours_has_no_kind():
    assert shorten(DeviceError("not bound to the GPU: Y")) == "not bound to the GPU: Y"
