"""How it is scheduled: a recipe yields the names of its steps, and each step is checked."""

from collections.abc import Iterator
from typing import Literal

from tvm.s_tir import Schedule

from my_kernels.kernels import multiply_add
from tirstep.transforms import tile_block
from tirstep.transforms.recipes import Example, recipe


@recipe(
    kernel=multiply_add,
    blocks=("C",),
    default_example=Example({"n": 1 << 20}),
    golden=Example({"n": 96}, config={"threads": 32}),
    choices={"threads": (64, 128, 256)},
)
def multiply_add_bound(
    sch: Schedule, *, threads: int = 128, tail: Literal["refuse", "guard"] = "refuse"
) -> Iterator[str]:
    """One element for each thread. Knobs: threads of a block; tail for other lengths."""
    tile_block(sch, sch.get_sblock("C"), threads=(threads,), tail=tail)
    yield "bound"
