"""Transforms on other people's kernels: names, numbers of loops, types, shapes and functions."""

import tvm
from kernels import OpenMatmul, parse_kernel
from pairs import find_block_names, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr

# A batched product with a transposed operand and names of its own.
Attention = parse_kernel("""
    heads (3, 20, 12), keys (3, 28, 12), scores (3, 20, 28)
    for head, query, key, depth in T.grid(3, 20, 28, 12):
        with T.sblock("attention_scores"):
            vh, vq, vk, vd = T.axis.remap("SSSR", [head, query, key, depth])
            scores[vh, vq, vk] += heads[vh, vq, vd] * keys[vh, vk, vd]
""")


def schedule_product(sch, block, tail="refuse", vector=1):
    """Tile, registers and shared memory for the last two spatial loops of a product."""
    tile = tr.tile_block(sch, block, threads=(2, 4), per_thread=(2, 1), tail=tail)
    tr.accumulate_in_registers(sch, block, tile.threads[1])
    steps = tr.split_reduction(sch, block, inner=4, tail=tail)
    for operand in (0, 1):
        tr.stage_operand_at(sch, block, steps.outer, operand=operand, threads=(2, 4), vector=vector)
    tr.decompose_reduction_at(sch, block, steps.outer)
    return tile


def test_a_symbolic_product_is_refused_with_what_to_do():
    sch = Schedule(OpenMatmul, debug_mask="all")
    block = sch.get_sblock("C")
    with refuses(
        sch,
        r"tile_block: loop 'i' has the symbolic extent m, which threads=2 \* per_thread=1 may not"
        r" divide; pass tail=\"guard\", or pad the block first with pad_block",
    ):
        tr.tile_block(sch, block, threads=(2, 4))
    with refuses(sch, "split_reduction: loop 'x' has the symbolic extent k, which inner=4 may not"):
        tr.split_reduction(sch, block, inner=4)


def make_functions():
    """Two functions with blocks of the same names."""
    texts = [
        Attention.script().replace("def main(", f"def {name}(") for name in ("first", "second")
    ]
    functions = [tvm.script.from_source(text).functions_items()[0] for text in texts]
    return tvm.IRModule(dict(functions))


def test_the_function_that_is_worked_on():
    sch = Schedule(make_functions(), debug_mask="all")
    sch.work_on("second")
    block = sch.get_sblock("attention_scores")
    tr.pad_block(sch, block, multiples=(1, 8, 4, 4))
    schedule_product(sch, block)
    names = find_block_names(sch.mod)
    assert names["first"] == ["root", "attention_scores"]
    assert names["second"][1:] == [
        "attention_scores_init",
        "heads_pad_shared",
        "keys_shared",
        "attention_scores_update",
        "scores_pad",
    ]


def test_handles_of_a_function_that_is_not_worked_on():
    sch = Schedule(make_functions(), debug_mask="all")
    sch.work_on("first")
    block = sch.get_sblock("attention_scores", func_name="second")
    padding = tr.pad_block(sch, block, multiples=(1, 8, 4, 4))
    assert [sch.get(copy).name_hint for copy in padding.operands] == ["heads_pad"]
    tile = tr.tile_block(sch, block, threads=(4, 4))
    copy = tr.cache_read_at(sch, block, tile.threads[1], operand=1)
    tr.pad_shared_rows(sch, copy, elements=1)
    with refuses(sch, "rows of 'keys_shared' are padded to 13 elements, so that vectors of 4"):
        tr.fetch_cooperatively(sch, copy, threads=(4, 4), vector=4, tail="guard")
    with refuses(sch, "accumulate_in_registers: .*'scores_pad_local'"):
        tr.accumulate_in_registers(sch, block, tile.threads[0])
    assert find_block_names(sch.mod)["first"] == ["root", "attention_scores"]
