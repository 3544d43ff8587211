"""A pass that gives each lane of a warp the rows of fragments that are its own.

Intrinsics describe a fragment as a matrix with a row for each lane of a warp, and use the first row
of a lane's own registers. What computes with single elements of fragments, between two products,
names the row of its lane.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import BufferLoad, BufferStore, For
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..own_lanes import OWN_LANES, has_lane_rows, number_lane
from ..tir import bind_ranges, constant, find_all, get_elements


@prim_func_pass(opt_level=0, name="tirstep.UseOwnLanes")
def UseOwnLanes(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Let each lane find its own row of a fragment in its registers, where intrinsics find it.

    It runs where each thread axis is one loop, of functions that `lay_in_quads` has marked. Buffers
    of which some access has neither its lane's row nor the first one stay as they are.

    rewrite: ``P[i, j, threadIdx.y * 4 + threadIdx.x, e]`` -> ``P[i, j, 0, e]`` of P in registers
    """
    if not any(OWN_LANES in block.annotations for block in find_all(function.body, SBlock)):
        return function
    loops = find_all(function.body, For)
    analyzer, lane = bind_ranges(loops), number_lane(loops)
    uses: dict[Any, list[Any]] = {}
    for buffer, indices in get_elements(function.body):
        if has_lane_rows(buffer):
            uses.setdefault(buffer, []).append(indices[-2])

    def is_own(row: Any) -> bool:
        return constant(row) == 0 or constant(analyzer.simplify(row - lane)) == 0

    own = {buffer for buffer, rows in uses.items() if all(map(is_own, rows))}

    def at(indices: Any) -> list[Any]:
        return [*indices[:-2], 0, indices[-1]]

    def load(node: Any) -> Any:
        return BufferLoad(node.source, at(node.indices)) if node.source in own else node

    def store(node: Any) -> Any:
        if node.buffer not in own:
            return node
        return BufferStore(node.buffer, node.value, at(node.indices))

    return function.with_body(
        structural_map(function.body, [(TensorLoad, load), (BufferStore, store)])
    )
