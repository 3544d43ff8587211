"""What TVM refuses comes with advice, in each of the sentences that functions of models meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from relax_functions import make_functions
from tvm.relax import op
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.transforms.schedule import LOOK, advise

MODELS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (op.nn.softmax, ((6, 40),)),
    (lambda x: op.argmax(x, axis=1), ((3, 70),)),
    (op.nn.conv2d, ((1, 3, 8, 8), (4, 3, 3, 3))),
    (lambda x: op.std(x, axis=1), ((4, 30),)),
]


def list_calls(names: list[str]) -> Iterator[Callable[[Schedule, Any, Any], object]]:
    """Calls on a block and one of its loops, most of which are refused somewhere."""
    yield lambda sch, block, loop: tr.vectorize_loop(sch, loop)
    yield lambda sch, block, loop: tr.bind_loop(sch, loop, axis="threadIdx.x")
    yield lambda sch, block, loop: tr.cache_write_at(sch, block, loop)
    yield lambda sch, block, loop: tr.tile_block(sch, block, threads=[4], tail="guard")
    yield lambda sch, block, loop: tr.rfactor_reduction(sch, block, parts=2)
    yield lambda sch, block, loop: tr.spread_over_threads(sch, block, threads=4, tail="guard")
    yield lambda sch, block, loop: tr.pad_block(sch, block, multiples=[4] * 3)
    for name in names:
        yield lambda sch, block, loop, it=name: tr.compute_block_at(sch, sch.get_sblock(it), loop)
        yield lambda sch, block, loop, it=name: tr.reverse_compute_block_at(
            sch, sch.get_sblock(it), loop
        )
        yield lambda sch, block, loop, it=name: tr.fuse_epilogue_at(
            sch, block, sch.get_sblock(it), loop
        )


@pytest.mark.share(2)
@pytest.mark.parametrize("fuses", [False, True])
def test_no_refusal_of_tvm_s_is_passed_on_bare(fuses: bool) -> None:
    refusals = []
    for build, tensors in MODELS:
        (function,) = make_functions(build, *tensors).values()
        start = Schedule(function)
        root = start.get_child_blocks(start.get_sblock("root"))
        names = [str(start.get(block).name_hint) for block in root]
        for name in names:
            for call in list_calls(names):
                sch = Schedule(function)
                block = sch.get_sblock(name)
                if fuses:
                    sch.fuse(*sch.get_loops(block)[:2])
                try:
                    call(sch, block, sch.get_loops(block)[-1])
                except tr.TransformError as error:
                    refusals.append(error)
    ours = [error for error in refusals if not error.problem.startswith("TVM refuses")]
    assert len(ours) > 50
    assert len(refusals) - len(ours) > 20
    assert [str(error) for error in refusals if error.advice == LOOK] == []


def test_words_that_are_not_known_show_the_schedule() -> None:
    assert advise("something else") == LOOK == "see the schedule with sch.show()"
    assert "rfactor_reduction" in advise(
        "because some block iter is not a data parallel block iter"
    )
