"""What is kept of nodes, which are known by their addresses."""

from tvm.tirx import Var
from tvm_ffi import structural_equal

from tirstep.transforms.tir import find_all, is_used, substitute

MORE = 10_000  # nodes than are kept, each freed before the next ones are made


def test_what_is_known_of_a_node_is_told_of_no_other_at_its_address() -> None:
    other = Var("other", "int32")
    for number in range(MORE):
        variable = Var("i", "int32")
        expression = variable * (number + 2)
        assert find_all(expression, Var)[0].same_as(variable)
        assert is_used(variable, expression)
        assert not is_used(other, expression)


def test_an_expression_is_substituted_anew_for_each_value() -> None:
    variable = Var("i", "int32")
    expression = variable + 1
    for number in range(MORE):
        value = Var("j", "int32") * (number + 2)
        made = substitute(expression, {variable: value})
        assert structural_equal(made, value + 1, map_free_vars=False)


def test_the_same_substitution_makes_the_same_node() -> None:
    """So that what is known of it is found again, in the next module."""
    first, second = Var("i", "int32"), Var("j", "int32")
    expression = first * 4 + second
    made = substitute(expression, {first: second})
    assert substitute(expression, {first: second}).same_as(made)
    assert substitute(expression, {Var("k", "int32"): second}).same_as(expression)
    assert not substitute(expression, {second: first}).same_as(made)
