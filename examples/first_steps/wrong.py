"""Accumulators that would be reset for each tile of k."""

from kernel import Matmul  # noqa: F401
from tvm.s_tir import Schedule

from tirstep.transforms import decompose_reduction_at, split_reduction, tile_block


def begins_again(sch: Schedule) -> None:
    """The initialization is put in front of the inner loop of k."""
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=(8, 32))
    split = split_reduction(sch, block, inner=16)
    decompose_reduction_at(sch, block, split.inner)
