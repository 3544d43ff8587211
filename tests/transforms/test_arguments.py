"""Arguments of wrong types, numbers and handles: one sentence of the transform, nothing changed."""

import inspect
import math
import re
from typing import Annotated, Literal

import numpy as np
import pytest
import tvm
import tvm_ffi
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep import transforms as tr
from tirstep.modules import matmul, softmax
from tirstep.transforms import TransformError
from tirstep.transforms.schedule import Int64, read_arguments

FUNCTIONS = {
    name: getattr(tr, name) for name in tr.__all__ if inspect.isfunction(getattr(tr, name))
}
WEIRD = [
    *(-1, 0, 2**31, 2**63, 10**30, -(10**30), True, None, 1.5, math.nan, "x", "\0", b"x", (), []),
    *({}, (1, "a"), (0, 0), [None], (2**31,) * 2, object(), len, "many\nlines", ("C",)),
    *(np.float32(2), np.arange(3), tvm.tirx.const(4, "int32"), tvm.IRModule({}), range(2), 1j),
]
GOOD = {
    "inner": 4,
    "axis": "blockIdx.x",
    "operand": 0,
    "threads": (4, 8),
    "vector": 2,
    "offset": 0,
    "row": 4,
    "parts": 2,
    "multiple": 4,
    "multiples": (1, 1, 1),
    "elements": 1,
    "width": 1,
    "per_thread": (2, 2),
    "value": True,
    "tile": (16, 16),
    "warp": (16, 16),
    "tile_k": 16,
    "warps": 1,
    "warpgroup": (64, 16),
    "warpgroups": 1,
    "columns": 16,
    "depth": 16,
    "rows": 0,
    "blocks": 2,
}


MATMUL, SOFTMAX = matmul(16, 16, 16), softmax(8, 16)


def start(module=MATMUL):
    sch = Schedule(module)
    return sch, sch.get_child_blocks(sch.get_sblock("root"))[0]


def stage():
    """A tiled product with one operand in shared memory, and the block of that copy."""
    sch, block = start()
    tile = tr.tile_block(sch, block, threads=(4, 4))
    return sch, tr.cache_read_at(sch, block, tile.threads[-1], operand=0)


def good(sch, block, name, parameter):
    loops = sch.get_loops(block)
    handles = {
        "sch": sch,
        "module": sch.mod,
        "block": block,
        "epilogue": block,
        "producer": block,
        "consumer": block,
        "loop": loops[-1],
        "loops": loops[-2:],
        "first": loops[0],
        "second": loops[-1],
        "copies": [block],
        "copy": block,
        "consumers": [block],
        "loads": [block, block],
        "zeros": block,
        "store": block,
        "write": block,
        "grid": loops[0],
        "warp_loop": loops[-1],
    }
    if parameter == "inner" and name == "tile_in_warps":
        return "columns"
    if parameter == "name":
        return "tirx.use_async_copy"
    if parameter == "threads" and name == "spread_over_threads":
        return 4
    return {**GOOD, **handles}[parameter]


def find_wrong_handles(sch, block):
    """Handles of another kind, of another schedule, of the root block, and a dead one."""
    other, its = start()
    loop = sch.get_loops(block)[-1]
    dead = sch.get_loops(block)[-2]
    tr.split_loop(sch, dead, inner=1)
    handles = [loop, block, dead, its, other.get_loops(its)[0], sch.get_sblock("root")]
    return [*handles, *([handle] for handle in handles)]


def find_arguments(sch, block, name, parameter, value):
    """Good arguments of a function, and one other; options with a default are left out."""
    by_place, by_name = [], {}
    for one in inspect.signature(FUNCTIONS[name]).parameters.values():
        if one.default is not one.empty and one.name != parameter:
            continue
        given = value if one.name == parameter else good(sch, block, name, one.name)
        if one.kind == one.KEYWORD_ONLY:
            by_name[one.name] = given
        else:
            by_place.append(given)
    return by_place, by_name


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", [start, stage], ids=["plain", "staged"])
def test_nothing_but_a_transform_error_is_raised_and_nothing_changes(make, name):
    """Whatever is passed for one argument, and whichever function: new ones are found here."""
    sentences = []
    for parameter in inspect.signature(FUNCTIONS[name]).parameters:
        base, block = make()
        values = [*WEIRD, *find_wrong_handles(base, block)]
        for value in values:
            sch = base.copy()
            by_place, by_name = find_arguments(sch, block, name, parameter, value)
            before, steps = sch.mod, len(sch.trace.insts)
            try:
                FUNCTIONS[name](*by_place, **by_name)
            except TransformError as error:
                sentences.append(re.sub(r" \[kernel [^]]*\]$", "", str(error)))
                assert len(sch.trace.insts) == steps, sentences[-1]
                assert tvm_ffi.structural_equal(sch.mod, before)
    assert len(sentences) > len(WEIRD)
    assert all(re.fullmatch(rf"{name}: .{{10,400}}", sentence) for sentence in sentences)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda sch, i, j: tr.bind_loop(sch, i, "threadIdx.x"),
            "bind_loop: 'threadIdx.x' is given without its name; write axis=\"threadIdx.x\"",
        ),
        (
            lambda sch, i, j: tr.split_loop(sch, i, iner=2),
            "split_loop: there is no parameter 'iner'; did you mean 'inner'?",
        ),
        (
            lambda sch, i, j: tr.reorder_loops(sch, j, i),
            "reorder_loops: there is a loop handle too many; pass one list, as loops=[...]",
        ),
        (
            lambda sch, i, j: tr.fuse_loops(sch, [i, j], 4),
            "fuse_loops: 4 is an argument too many; drop it",
        ),
        (
            lambda sch, i, j: tr.split_loop(sch, i),
            "split_loop: inner is missing; pass inner=..., an integer",
        ),
        (
            lambda sch, i, j: tr.split_loop(sch, i, loop=j, inner=4),
            "split_loop: loop is given by place and by name; give it once",
        ),
        (
            lambda sch, i, j: tr.split_loop(None, i, inner=4),
            "split_loop: sch=None is not a schedule; pass a schedule",
        ),
        (
            lambda sch, i, j: tr.split_loop(sch, i, inner=4, tail="gard"),
            "split_loop: tail='gard' is unknown; did you mean tail=\"guard\"?",
        ),
        (
            lambda sch, i, j: tr.split_loop(sch, i, inner=2**31, tail="guard"),
            "split_loop: inner=2147483648 does not fit into 32 bits; "
            "use an integer up to 2147483647",
        ),
        (
            lambda sch, i, j: tr.get_pipeline(sch),
            "get_pipeline: module=s_tir.Schedule is not of the type IRModule; pass one of",
        ),
    ],
)
def test_what_a_wrong_call_is_told(call, sentence):
    sch, block = start()
    i, j, _ = sch.get_loops(block)
    with refuses(sch, ":") as caught:
        call(sch, i, j)
    assert str(caught.value).partition(" [kernel")[0].startswith(sentence)


def test_a_huge_value_of_a_pass_option_leaves_the_one_before():
    sch, _ = start()
    tr.set_pass_option(sch, name="tirx.vtcm_capacity", value=7)
    with refuses(sch, "set_pass_option: value=9223372036854775808 does not fit into 64 bits; use"):
        tr.set_pass_option(sch, name="tirx.vtcm_capacity", value=2**63)
    assert tr.get_pass_options(sch.mod) == {"tirx.vtcm_capacity": 7}
    tr.set_pass_option(sch, name="tirx.vtcm_capacity", value=2**63 - 1)
    assert tr.get_pass_options(sch.mod) == {"tirx.vtcm_capacity": 2**63 - 1}


def test_a_pass_option_that_takes_neither_bool_nor_int_is_refused():
    sch, _ = start()
    with refuses(sch, r"'tirx.UnrollLoop' takes a tirx.*Config, and is given 1; give such options"):
        tr.set_pass_option(sch, name="tirx.UnrollLoop", value=1)


@pytest.mark.parametrize("inner", [np.int64(4), np.int32(4), np.uint8(4), np.array(4)])
def test_integers_of_numpy_are_taken(inner):
    """TVM gets Python's own: the trace replays, and the loops are as for 4."""
    sch, block = start()
    tr.split_loop(sch, sch.get_loops(block)[0], inner=inner)
    tr.tile_block(sch, block, threads=(inner, inner), fuse_threads=np.bool_(True))
    plain, same = start()
    tr.split_loop(plain, plain.get_loops(same)[0], inner=4)
    tr.tile_block(plain, same, threads=(4, 4), fuse_threads=True)
    assert sch.mod.script() == plain.mod.script()
    fresh = Schedule(MATMUL)
    sch.trace.apply_to_schedule(fresh, remove_postproc=False)
    assert fresh.mod.script() == sch.mod.script()


def test_the_schedule_may_be_given_by_name():
    sch, block = start()
    tr.split_loop(sch=sch, loop=sch.get_loops(block)[0], inner=4)
    assert len(sch.get_loops(block)) == 4


def test_options_of_a_block():
    sch, block = start()
    with refuses(sch, r"tile_block: threads\[1\]=True is not an integer; pass an integer"):
        tr.tile_block(sch, block, threads=(4, True))
    with refuses(sch, r"tile_block: fuse_threads=1 is not a bool; pass a bool"):
        tr.tile_block(sch, block, threads=(4, 4), fuse_threads=1)
    root = sch.get_sblock("root")
    with refuses(sch, "find_epilogue: TVM refuses: The primitive does not operate on the root blo"):
        tr.find_epilogue(sch, root)


def test_queries_refuse_handles_of_another_schedule():
    sch, _ = start(SOFTMAX)
    _, block = start()
    for find in (tr.find_epilogue, tr.get_spatial_loops, tr.get_reduction_loops):
        with refuses(sch, rf"{find.__name__}: the block handle belongs to another schedule; pass"):
            find(sch, block)


def somebody_s(
    sch: Schedule,
    loop: "LoopRV | None",
    *more: SBlockRV,
    share: float = 0.5,
    level: Literal[1, 2] = 1,
    limit: Int64 = 0,
    note: Annotated[str, "any"] = "",
    unknown: "NotImported" = None,  # noqa: F821
    untyped=None,
    **flags: bool,
) -> None:
    """A transform of another project, with all that annotations may say."""


def read(**options):
    sch, block = start()
    return read_arguments(somebody_s, (sch, sch.get_loops(block)[0], block), options).arguments


def test_annotations_of_other_projects():
    assert read(share=1, level=2, limit=2**40, unknown=3, untyped="x", fast=True)["limit"] == 2**40
    for options, problem in (
        ({"share": "x"}, "share='x' is not a number"),
        ({"share": True}, "share=True is not a number"),
        ({"level": 3}, "level=3 is unknown"),
        ({"level": True}, "level=True is unknown"),
        ({"limit": 2**63}, "limit=9223372036854775808 does not fit into 64 bits"),
        ({"note": 3}, "note=3 is not a string"),
        ({"fast": 1}, "fast=1 is not a bool"),
    ):
        with pytest.raises(TransformError) as caught:
            read(**options)
        assert caught.value.problem == problem
    sch, block = start()
    assert read_arguments(somebody_s, (sch, None), {}).arguments["loop"] is None
    with pytest.raises(TransformError) as caught:
        read_arguments(somebody_s, (sch, block), {})
    assert caught.value.problem == "loop is a block handle, not a loop handle"
    with pytest.raises(TransformError) as caught:
        read_arguments(somebody_s, (sch, None, 4), {})
    assert caught.value.problem == "more is 4, not a block handle"
