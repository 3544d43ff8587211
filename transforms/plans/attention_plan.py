"""The plan of attention: the recipes of our kernel, on tensors in a model's layouts.

Recipes know the axes (batch, heads, sequence, head). Where a model has heads after the sequence,
these two are swapped for the recipe, and back afterwards: its kernels read and write the model's
own tensors, by the TMA too.
"""

from __future__ import annotations

from tvm.s_tir import SBlock, Schedule

from ..hopper.tma_tiles import TMA_COPY, CopyShape
from ..hopper.wgmma_intrinsics import ARCHITECTURE
from ..recipes import find_recipe
from ..recipes.attention import FORMS
from ..recipes.recipe import Recipe
from ..recipes.time_model import read_gpu
from ..reduction import HALVES
from ..schedule import TransformError
from ..tir import constant, find_all, find_choices
from .roles import Mismatch, Plan, Roles, list_sblocks, make_roles

ATTENTION = "attention"
MARK = "tirstep.attention"
"""The attribute of a function with the blocks of our kernel: the numbers of its tensors (queries,
keys, values, a mask of data if there is one, result) that have heads after the sequence."""
_WIDE = 64


def swap_axes(sch: Schedule, number: int) -> None:
    """Let a function's tensor have its second and third axis in the other order, wherever it is
    used. Raises `TransformError` where blocks that use it share a name.
    """
    function = sch.mod[sch.func_working_on]
    tensor, nodes = function.params[number], find_all(function.body, SBlock)
    uses = [
        (str(node.name_hint), kind, place, node.annotations.get(TMA_COPY))
        for node in nodes
        for kind, regions in (("read", node.reads), ("write", node.writes))
        for place, region in enumerate(regions)
        if node.name_hint != "root" and region.source.same_as(tensor)
    ]
    for name, _, _, copied in uses:
        if [str(node.name_hint) for node in nodes].count(name) > 1:
            problem = f"several blocks '{name}' use '{tensor.name}'"
            raise TransformError("swap_axes", problem, "swap axes before blocks are copied")
        if copied is not None:  # its box has an extent for each axis, too
            shape = CopyShape.of_list(copied)
            batch, second, third, head = shape.box
            sch.unannotate(sch.get_sblock(name), TMA_COPY)
            swapped = shape._replace(box=(batch, third, second, head))
            sch.annotate(sch.get_sblock(name), TMA_COPY, swapped.to_list())
    name, kind, place, _ = uses[0]
    sch.transform_layout(sch.get_sblock(name), (kind, place), lambda b, i, j, d: (b, j, i, d))


def match_attention(sch: Schedule) -> Roles | Mismatch:
    """The blocks of a function that is marked as attention, or why there are none."""
    attributes = sch.mod[sch.func_working_on].attrs
    if attributes is None or MARK not in attributes:
        return Mismatch(ATTENTION, f"the function has no attribute '{MARK}'")
    roles = make_roles(sch, ATTENTION, list_sblocks(sch))
    if (found := " ".join(roles.names)) not in FORMS:
        return Mismatch(ATTENTION, f"the blocks are '{found}', and not '{FORMS[0]}'")
    return roles


def schedule_attention(sch: Schedule, roles: Roles, config: Recipe) -> None:
    """Run a recipe of attention, whatever the order of axes is."""
    swapped = list(map(int, sch.mod[sch.func_working_on].attrs[MARK]))
    for number in swapped:
        swap_axes(sch, number)
    config(sch)
    for number in swapped:
        swap_axes(sch, number)


def choose_attention(sch: Schedule, roles: Roles, device: str, tensor_cores: bool) -> list[Recipe]:
    """Recipes to try: on tensor cores for half precision, where they are asked for; then others."""
    scores, *_, power, _, _, _ = (sch.get(block) for block in roles.blocks)
    is_masked, dim = bool(find_choices(power)), constant(scores.iter_vars[-1].dom.extent) or 0
    # Tiles of longer rows are more than what shared memory holds of most GPUs.
    names = ["causal_ended"] if is_masked else ["wider"] if dim <= _WIDE else ["padded"]
    if tensor_cores and str(scores.reads[0].source.dtype) in HALVES:
        names.insert(0, "mma_causal_parted" if is_masked else "mma_exp2")
        if read_gpu(device).architecture == ARCHITECTURE:
            names.insert(0, "wgmma_best")
    return [find_recipe(f"attention_{name}") for name in names]


ATTENTION_PLAN = Plan(ATTENTION, match_attention, schedule_attention, choose_attention)
