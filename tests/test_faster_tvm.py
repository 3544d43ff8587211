"""TVM as the tests have it says what it says as it is."""

from typing import Any

import faster_tvm
import pytest
from foreign_modules import MatmulRelu
from tvm.ir import assert_structural_equal
from tvm.script import from_source
from tvm.script.parser.core import doc, evaluator


class Names:
    """What an expression may begin with."""

    inner = 7


@pytest.mark.parametrize("text", ["a", "a.inner", "3", "'three'", "None", "len", "a.inner + 1"])
def test_expressions_have_the_values_that_python_gives_them(text: str) -> None:
    node = doc.parse(text, mode="eval").body
    names: dict[str, Any] = {"a": Names}
    assert faster_tvm.evaluate(node, dict(names)) == eval(text, dict(names))
    assert faster_tvm.evaluate_compiled(node, dict(names)) == eval(text, dict(names))


@pytest.mark.parametrize(
    ("text", "error"), [("b", NameError), ("a.outer", AttributeError), ("b.inner", NameError)]
)
def test_what_has_no_value_is_the_same_error(text: str, error: type[Exception]) -> None:
    node = doc.parse(text, mode="eval").body
    for evaluate in (faster_tvm.evaluate, faster_tvm.evaluate_compiled):
        with pytest.raises(error):
            evaluate(node, {"a": Names})


def test_a_program_is_the_same_the_second_time_and_as_tvm_parses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = MatmulRelu.script()
    ours = [from_source(text), from_source(text)]
    monkeypatch.setattr(evaluator, "_eval_expr", faster_tvm.evaluate_compiled)
    monkeypatch.setattr(doc, "parse", doc.parse.__wrapped__)
    for program in (*ours, from_source(text)):
        assert_structural_equal(program, MatmulRelu)
