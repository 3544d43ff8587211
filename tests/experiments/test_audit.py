"""What the audit says is the pass that is wrong, where its result cannot be interpreted."""

import pytest

from tirstep.experiments import Corpus, make_subject
from tirstep.experiments.audit import SHARES_PLACES, audit_subject, audit_trial
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


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_two_types_in_one_place_are_the_pass_s_that_puts_them_there(scope: str):
    """In static memory StorageRewrite alone does that; in dynamic memory the merging would, too."""
    subject = make_subject("sharing", parse_program(SHARING.format(scope=scope)))
    found = audit_subject(subject)
    assert (found.status, found.at, found.what) == ("wrong", SHARES_PLACES, "race")


@pytest.mark.parametrize(
    ("trial", "name"), [(1082, SHARES_PLACES), (1876, "s_tir.MergeSharedMemoryAllocations")]
)
def test_what_is_wrong_in_the_end_is_one_of_two_passes(trial: int, name: str):
    """Of the stored audit: two buffers of dynamic shared memory, with nothing between them."""
    found = audit_trial(Corpus(0), trial)
    assert (found.status, found.at, found.what) == ("wrong", name, "race")


@pytest.mark.parametrize(
    ("trial", "status", "reason"),
    [(137, "unjudged", "a CPU does not have the instruction"), (181, "left out", "tirstep.Lower")],
)
def test_what_is_no_refusal_of_tvm(trial: int, status: str, reason: str):
    """Instructions of a GPU beside a loop that nothing binds, and a pass that is not TVM's."""
    found = audit_trial(Corpus(0), trial)
    assert (found.status, found.at) == (status, "")
    assert found.reason.startswith(reason)
