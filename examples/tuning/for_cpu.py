"""The project's function as a kernel of tirstep's, with a recipe for the CPU that has choices."""

from collections.abc import Iterator

from product import make_product
from tvm.s_tir import Schedule

from tirstep.modules import kernel
from tirstep.transforms import split_loop
from tirstep.transforms.recipes import Example, recipe

product = kernel(
    reference=lambda a, b, **_: a @ b,
    flops=lambda m, n, k, **_: 2 * m * n * k,
    elements=lambda m, n, k, **_: max(m * k, k * n, m * n),  # of the largest tensor
)(make_product)


@recipe(
    kernel=product,
    blocks=("C",),
    default_example=Example({"m": 512, "n": 512, "k": 512}),
    golden=Example({"m": 48, "n": 64, "k": 32}),
    choices={"rows": (1, 4, 8), "columns": (8, 16, 32, 64), "depth": (1, 4)},
)
def for_cpu(sch: Schedule, *, rows: int = 4, columns: int = 16, depth: int = 1) -> Iterator[str]:
    """Tiles in vectors. Knobs: rows and columns of a tile, and products that are unrolled."""
    block = sch.get_sblock("C")
    i, j, p = sch.get_loops(block)
    outer_i, inner_i = split_loop(sch, i, inner=rows)
    outer_j, inner_j = split_loop(sch, j, inner=columns)
    outer_p, inner_p = split_loop(sch, p, inner=depth)
    sch.reorder(outer_i, outer_j, outer_p, inner_p, inner_i, inner_j)
    yield "tiled"
    sch.vectorize(inner_j)
    sch.unroll(inner_p)
    yield "vectorized"
    sch.decompose_reduction(block, outer_p)
    yield "zeros_first"
