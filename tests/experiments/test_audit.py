"""What the audit says is the pass that is wrong, where its result cannot be interpreted."""

import pytest

from tirstep.experiments import make_subject
from tirstep.experiments.audit import audit_subject
from tirstep.strategies.program_text import parse_program

SHARING = """
# from tvm.script import tirx as T
@T.prim_func
def main(B: T.Buffer((1,), 'int32'), C: T.Buffer((1,), 'int32')):
    for tx in T.thread_binding(2, thread='threadIdx.x'):
        S = T.alloc_buffer((2,), 'float32', scope='{scope}')
        S[tx] = B[0]
        R = T.alloc_buffer((2,), 'int32', scope='{scope}')
        R[1 - tx] = tx
        C[0] = R[0]
"""


@pytest.mark.parametrize(
    ("scope", "name"), [("shared", "tirx.StorageRewrite"), ("shared.dyn", "code generation")]
)
def test_two_types_in_one_place_are_the_pass_s_that_puts_them_there(scope: str, name: str):
    """In static memory StorageRewrite alone does that; in dynamic memory another pass does, too."""
    subject = make_subject("sharing", parse_program(SHARING.format(scope=scope)))
    found = audit_subject(subject)
    assert (found.status, found.at, found.what) == ("wrong", name, "race")
