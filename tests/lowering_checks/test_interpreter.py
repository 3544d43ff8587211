"""Which iterations the interpreter runs at once where a schedule has few threads or none."""

import numpy as np
import pytest
import tvm
from kernels import parse_kernel
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.transform import (
    ConvertBlocksToOpaque,
    LowerInitBlock,
    PlanAndUpdateBufferAllocationLocation,
)
from tvm.script import from_source
from tvm.tirx import AttrStmt

from tirstep.lowering_checks import DeviceError
from tirstep.lowering_checks.devices.simulator.flatten import flatten
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.transforms.tir import find_all

# The sums of the rows of three pages, by one thread for each page.
Sums = parse_kernel("""
    A (3, 4, 6), B (3, 4)
    for i in T.thread_binding(3, thread="blockIdx.y"):
        for j, k in T.grid(4, 6):
            with T.sblock("B", "SSR", i, j, k):
                B[vi, vj] += A[vi, vj, vk]
""")


BOUND = 'T.thread_binding(3, thread="blockIdx.y")'


def edit(old, new):
    lines = Sums.script().splitlines()
    text = "\n".join(line for line in lines if "T.reads" not in line and "T.writes" not in line)
    assert old in text
    return from_source(text.replace(old, new))


def run(module):
    array = np.arange(72, dtype="float32").reshape(3, 4, 6)
    program = Interpreter().compile(module)
    _, sums = program([array, np.full((3, 4), np.nan, "float32")])
    return np.array_equal(sums, array.sum(axis=2)), [finding.kind for finding in program.findings]


# ---- Opaque blocks, whose iterators are gone.


def make_opaque(module):
    sch = Schedule(module)
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        sch.annotate(block, "kept", 1)
    passes = [LowerInitBlock(), PlanAndUpdateBufferAllocationLocation(), ConvertBlocksToOpaque()]
    return tvm.ir.transform.Sequential(passes)(sch.mod)


@pytest.mark.parametrize(
    ("old", "new", "axes", "is_right"),
    [
        (BOUND, BOUND, {"blockIdx.y": 3, "blockIdx.x": 4}, True),  # not k, which all sums share
        (BOUND, "range(3)", {"blockIdx.x": 4, "blockIdx.y": 3}, True),
        ("B[vi, vj] + A", "B[vi, 3 - vj] + A", {"blockIdx.y": 3}, False),  # another's sum
    ],
)
def test_an_opaque_block_is_spread_where_iterations_share_no_element(old, new, axes, is_right):
    module = make_opaque(edit(old, new))
    found = find_all(module["main"].body, SBlock)
    assert all(not block.iter_vars for block in found)
    body = flatten(module["main"], in_order=True).body
    taken = {
        str(attribute.node.thread_tag): int(attribute.value)
        for attribute in find_all(body, AttrStmt)
    }
    assert taken == axes
    assert run(module)[0] == is_right


@pytest.mark.parametrize("scope", ["shared", "local", "global"])
def test_what_lasts_for_a_kernel_is_not_used_behind_it(scope: str):
    module = parse_kernel(f"""
        A (8,), B (8,)
        X = T.alloc_buffer((8,), scope="{scope}")
        for i in T.thread_binding(8, thread="threadIdx.x"):
            X[i] = A[i]
        for i in range(8):
            B[i] = X[i]
""")
    array = np.arange(8, dtype="float32")
    program = Interpreter().compile(module)
    if scope == "global":
        np.testing.assert_array_equal(program([array, np.zeros(8, "float32")])[1], array)
        return
    sentence = f"X is not defined where it is used: what lies in '{scope}' lasts for one kernel"
    with pytest.raises(DeviceError, match=sentence):
        program([array, np.zeros(8, "float32")])


def test_a_variable_that_a_pass_took_away_is_named():
    n = tvm.tirx.Var("n", "int32")
    function = Sums["main"]
    buffer = function.params[1]
    body = tvm.tirx.BufferStore(buffer, tvm.tirx.Cast("float32", n), [0, 0])
    module = tvm.IRModule({"main": function.with_body(body)})
    program = Interpreter().compile(module)
    with pytest.raises(DeviceError, match="the variable n is not defined where it is used"):
        program([np.zeros((3, 4, 6), "float32"), np.zeros((3, 4), "float32")])
