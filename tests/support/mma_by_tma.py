"""Matmuls by mma.sync whose tiles the TMA copies. They are slower than those of asynchronous copies
by threads, so that no recipe has them; but `prefetch_by_tma` and `specialize_warps` must be right
for tiles that ldmatrix reads, in another proxy than that of bulk copies, too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.transforms import prefetch_by_tma, specialize_warps
from tirstep.transforms.recipes import Recipe
from tirstep.transforms.recipes.mma import MMA, MmaConfig, MmaEngine


class MmaByTma(MmaEngine):
    has_roles = False

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


def make_recipe(name: str, *, has_roles: bool) -> Recipe:
    def schedule(sch: Schedule, config: MmaConfig) -> Iterator[str]:
        engine = MmaByTma(sch, config)
        engine.has_roles = has_roles
        return engine.schedule(sch.get_sblock("C"))

    knobs = {"layout": "swizzled", "stages": 4, "prefetch_fragments": True, "golden": {"stages": 3}}
    family = replace(MMA, schedule=schedule, arch="sm_90")
    return family.root(name, why="The TMA copies tiles that ldmatrix reads", **knobs)


MMA_BY_TMA = make_recipe("mma_tma", has_roles=False)
MMA_IN_ROLES = make_recipe("mma_tma_roles", has_roles=True)
