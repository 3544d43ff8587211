"""Matmuls by mma.sync whose tiles the TMA copies. They are slower than those of asynchronous copies
by threads, so that no recipe has them; but `prefetch_by_tma` and `specialize_warps` must be right
for tiles that ldmatrix reads, in another proxy than that of bulk copies, too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.transforms import prefetch_by_tma, specialize_warps
from tirstep.transforms.hopper.tma_tiles import PITCH
from tirstep.transforms.recipes.mma import MMA, MmaConfig, MmaEngine


class MmaByTma(MmaEngine):
    has_roles = False

    def prepare(self, total: SBlockRV) -> Iterator[str]:
        yield from super().prepare(total)
        dtype = self.sch.get(total).reads[-1].source.dtype
        if dtype.itemsize != 2:  # whose rows are padded for ldmatrix, and the TMA pads none
            self.config = replace(self.config, layout="rows")
        has_odd_pitch = any(it * dtype.itemsize % PITCH for it in self.lengths[:2])
        if self.config.tail == "pad" and has_odd_pitch:
            self.config = replace(self.config, tail="copy")

    def find_vector(self, operand: int) -> int:
        """Threads share a tile evenly: a part of one has a predicate, which the TMA has not."""
        vector, config = super().find_vector(operand), self.config
        share = config.tile[operand] * config.tile_k // math.prod(self.rows_of_threads)
        return math.gcd(vector, share) or vector

    def multiply(self, steps: LoopRV, copies: Sequence[SBlockRV]) -> Iterator[str]:
        stages = self.count_stages()
        self.config = replace(self.config, stages=1)
        yield from super().multiply(steps, copies)
        if stages > 1:
            prefetch_by_tma(self.sch, steps, copies, stages=stages)
            yield "next_tiles_by_tma"
            if self.has_roles:
                specialize_warps(self.sch, steps)
                yield "warps_specialized"


class MmaByTmaInRoles(MmaByTma):
    has_roles = True


def by_tma(sch: Schedule, config: MmaConfig) -> Iterator[str]:
    return MmaByTma(sch, config).schedule(sch.get_sblock("C"))


def in_roles(sch: Schedule, config: MmaConfig) -> Iterator[str]:
    return MmaByTmaInRoles(sch, config).schedule(sch.get_sblock("C"))


MMA_BY_TMA, MMA_IN_ROLES = (
    replace(MMA, schedule=schedule, arch="sm_90").root(
        name,
        why="The TMA copies tiles that ldmatrix reads",
        layout="swizzled",
        stages=4,
        prefetch_fragments=True,
        golden={"stages": 3},
    )
    for name, schedule in (("mma_tma", by_tma), ("mma_tma_roles", in_roles))
)
