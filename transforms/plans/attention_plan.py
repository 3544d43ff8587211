"""The plan of attention: kernels as `attention` of tirstep is, with tensors in a model's layouts.

Its recipes know the tensors as (batch, heads, sequence, head). A model often has the sequence in
front of the heads: axes are swapped for the recipe alone, and back afterwards, so that threads and
the TMA read and write the model's own tensors.
"""

from __future__ import annotations

from tvm.s_tir import SBlock, Schedule

from ..hopper.tma_tiles import TMA_COPY, CopyShape
from ..recipes import find_recipe
from ..recipes.attention import BLOCKS
from ..recipes.recipe import Recipe
from ..recipes.time_model import read_gpu
from ..reduction import HALVES
from ..schedule import TransformError
from ..tir import find_all, find_choices, is_used
from .roles import Mismatch, Plan, Roles, list_sblocks, make_roles

ATTENTION = "attention"
MARK = "tirstep.attention"
"""The attribute of a function whose blocks are those of the kernel `attention`."""
TENSORS = 4
"""Queries, keys, values and the result, the parameters of such a function."""


def swap_axes(sch: Schedule, number: int) -> None:
    """Let a parameter have its second and its third axis in the other order, wherever it is used.

    Raises `TransformError` where blocks that use it share a name.
    """
    function = sch.mod[sch.func_working_on]
    tensor, nodes = function.params[number], find_all(function.body, SBlock)
    uses = [
        (node, (kind, place))
        for node in nodes
        for kind, regions in (("read", node.reads), ("write", node.writes))
        for place, region in enumerate(regions)
        if region.source.same_as(tensor) and node.name_hint != "root"
    ]
    names = [str(node.name_hint) for node in nodes]
    for node, _ in uses:
        if names.count(name := str(node.name_hint)) > 1:
            problem = f"several blocks are '{name}', which uses '{tensor.name}'"
            raise TransformError("swap_axes", problem, "swap axes before blocks are copied")
        if TMA_COPY in node.annotations:  # its box has an extent for each axis, too
            copied = CopyShape.of_list(node.annotations[TMA_COPY])
            batch, first, second, *rest = copied.box
            swapped = copied._replace(box=(batch, second, first, *rest))
            sch.unannotate(sch.get_sblock(name), TMA_COPY)
            sch.annotate(sch.get_sblock(name), TMA_COPY, swapped.to_list())
    node, place = uses[0]
    sch.transform_layout(
        sch.get_sblock(str(node.name_hint)), place, lambda b, i, j, d: (b, j, i, d)
    )


def match_attention(sch: Schedule) -> Roles | Mismatch:
    """The blocks of attention in a function that is marked to have these, or why it has none."""
    function, blocks = sch.mod[sch.func_working_on], list_sblocks(sch)
    roles = make_roles(sch, ATTENTION, blocks)
    if function.attrs is None or MARK not in function.attrs:
        return Mismatch(ATTENTION, f"the function has no attribute '{MARK}'")
    if " ".join(roles.names) != BLOCKS:
        return Mismatch(ATTENTION, f"the blocks are '{' '.join(roles.names)}', not '{BLOCKS}'")
    return roles


def schedule_attention(sch: Schedule, roles: Roles, config: Recipe) -> None:
    """Run a recipe of attention on tensors that have heads in front of the sequence, or after."""
    scores, *_, weighted, result = (sch.get(block) for block in roles.blocks)
    regions = [*scores.reads, weighted.reads[1], result.writes[0]]
    heads = [scores, scores, weighted, result]
    swapped = [
        number
        for number, (region, node) in enumerate(zip(regions, heads, strict=True))
        if not is_used(node.iter_vars[1].var, region.region[1].min)
    ]
    for number in swapped:
        swap_axes(sch, number)
    config(sch)
    for number in swapped:
        swap_axes(sch, number)


def choose_attention(sch: Schedule, roles: Roles, device: str, tensor_cores: bool) -> list[Recipe]:
    """Recipes to try: on tensor cores for half precision, where they are asked for; then others."""
    scores, _, power, *_ = (sch.get(block) for block in roles.blocks)
    is_masked = bool(find_choices(power))
    names = ["attention_wider", "attention_causal_ended", "attention_padded"]
    if tensor_cores and str(scores.reads[0].source.dtype) in HALVES:
        names[:0] = ["attention_mma_causal_parted" if is_masked else "attention_mma_exp2"]
        if read_gpu(device).architecture == find_recipe("attention_wgmma_best").arch:
            names.insert(0, "attention_wgmma_best")
    return [find_recipe(name) for name in names if is_masked or name != "attention_causal_ended"]


ATTENTION_PLAN = Plan(ATTENTION, match_attention, schedule_attention, choose_attention)
