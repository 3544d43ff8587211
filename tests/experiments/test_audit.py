"""What the audit says is the pass that is wrong, where its result cannot be interpreted."""

from dataclasses import replace

import pytest
from tvm.s_tir import Schedule

from tirstep.experiments import list_steps, make_subject
from tirstep.experiments.audit import audit, tabulate
from tirstep.experiments.corpus import TrialRecord
from tirstep.lowering_checks.steps import run_golden
from tirstep.strategies.drawn_programs import parse_program
from tirstep.transforms import set_pipeline
from tirstep.transforms.hopper.tma_tiles import TMA_STAGES
from tirstep.transforms.recipes import RECIPES

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
    ("scope", "name"),
    [("shared", "tirx.StorageRewrite"), ("shared.dyn", "s_tir.MergeSharedMemoryAllocations")],
)
def test_two_types_in_one_place_are_the_pass_s_that_puts_them_there(scope: str, name: str):
    """In static memory StorageRewrite alone does that; in dynamic memory the merging does, too."""
    found = audit(make_subject("sharing", parse_program(SHARING.format(scope=scope))))
    assert (found["status"], found["at"], found["what"]) == ("wrong", name, "race")


GLOBAL = """
# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(C: T.Buffer((64,), 'int32')):
    R = T.sblock_alloc_buffer((64,), 'int32')
    for tx in T.thread_binding(64, thread='threadIdx.x'):
        with T.sblock('Z'):
            v = T.axis.spatial(64, tx)
            R[v] = 0
    for b in T.thread_binding(1, thread='blockIdx.x'):
        for tx in T.thread_binding(64, thread='threadIdx.x'):
            with T.sblock('R'):
                v = T.axis.spatial(64, tx)
                R[v] = v
        for tx in T.thread_binding(64, thread='threadIdx.x'):
            with T.sblock('C'):
                v = T.axis.spatial(64, tx)
                C[v] = R[63 - v]
"""


def test_a_race_for_global_memory_is_the_program_s_own() -> None:
    """TVM orders threads in shared memory alone."""
    found = audit(make_subject("global", parse_program(GLOBAL)))
    assert found["status"] == "left out"
    assert "race: load of R[" in found["reason"]


REFUSED_LATER = {
    "s_tir.MergeSharedMemoryAllocations": """
    for tx in T.thread_binding(9, thread='threadIdx.x'):
        S1 = T.alloc_buffer((9,), 'int64', scope='shared.dyn')
        S1[tx] = T.int64(1)
        S2 = T.alloc_buffer((1,), 'int32', scope='shared.dyn')
        S2[0] = T.int32(0)
        C[0, 0] = T.float32(1)
""",
    "tirx.MakePackedAPI": """
    for i in T.unroll(2):
        for tx in T.thread_binding(2, thread='threadIdx.x'):
            C[0, tx] = T.Select(tx == 0, T.float32(0.0), T.float32(1.0))
""",
}


@pytest.mark.parametrize("name", REFUSED_LATER)
def test_what_cannot_be_run_may_be_refused_by_a_later_pass(name: str) -> None:
    """The simulator takes the place of these passes, and does not know why it fails."""
    head = "# from tvm.script import tirx as T\n@T.prim_func\n"
    head += "def main(C: T.Buffer((1, 2), 'float32')):"
    found = audit(make_subject("later", parse_program(head + REFUSED_LATER[name])))
    assert (found["status"], found.get("at", "")) == ("refused", name)


def test_a_gpu_s_instruction_beside_loops_that_nothing_binds_is_not_judged() -> None:
    """It is not a program of a CPU, which is no refusal of TVM."""
    steps = list_steps(run_golden(RECIPES["matmul_mma_split_k"]))
    (subject,) = [step for step in steps if "09_fragments_ahead" in step.label]
    found = audit(subject)
    assert found["status"] == "unjudged"
    assert found["reason"].startswith("a CPU does not have the instruction")


def test_what_a_pass_of_tirstep_refuses_is_left_out() -> None:
    """It is no refusal of TVM either: here, a pipeline of bulk copies in a loop without any."""
    (*_, last) = list_steps(run_golden(RECIPES["matmul_shared"]))
    sch = Schedule(last.module)
    sch.annotate(sch.get_loops(sch.get_sblock("C_update"))[-2], TMA_STAGES, 2)
    set_pipeline(sch)
    found = audit(replace(last, module=sch.mod))
    assert (found["status"], found.get("at", "")) == ("left out", "")
    assert " tirstep.LowerTmaPipelines refuses the module: " in found["reason"]


def test_the_table_counts_what_each_pass_did() -> None:
    trials = [
        TrialRecord(0, "program", "a", "right", changed=("x", "y")),
        TrialRecord(1, "program", "b", "wrong", "", "race", "y", ("y",)),
        TrialRecord(2, "program", "c", "refused", "", "", "z"),
    ]
    rows = [(row.name, row.changed, row.wrong, row.refused) for row in tabulate(trials, "xyw")]
    assert rows == [("x", 1, {}, 0), ("y", 2, {"race": 1}, 0), ("z", 0, {}, 1)]
