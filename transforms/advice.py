"""What to do where TVM refuses a primitive, by the words of its refusal."""

from __future__ import annotations

LOOK = "see the schedule with sch.show()"
"""Where the words are not known."""
_ADVICE = {
    # loops
    "not in a chain": (
        "a block between these loops keeps them apart: tile before blocks are cached or placed "
        "there, or decompose the reduction afterwards"
    ),
    "there are some statements in between": (
        "reorder before blocks are placed between these loops, or move the block first "
        "(compute_block_at)"
    ),
    "is not a data parallel block iter": (
        "take a loop over the block's results: one of get_spatial_loops, or split the reduction "
        "into parts (rfactor_reduction)"
    ),
    "should not appear under a reduction loop": (
        "a loop of one iteration or one that feeds nothing stands there: keep the reduction loops "
        "innermost (reorder_loops)"
    ),
    "shouldn't appear under a reduction loop": (
        "a loop that feeds nothing stands there: keep the reduction loops innermost (reorder_loops)"
    ),
    "partial affine binding": (
        "its loops were fused or split so that TVM cannot tell the iterators apart: do this before "
        "that, or choose sizes that divide"
    ),
    "affine binding": (
        "its iterators are no sums of loops that TVM can take apart: do this before the loops are "
        "fused with others or split with a guard"
    ),
    "contains more than one type of original iter vars": (
        "its loops over results and over the reduction were fused: fuse loops of one kind only"
    ),
    "touched by both some data parallel": (
        "its loops over results and over the reduction were fused: do this before, or fuse loops "
        "of one kind only"
    ),
    "block iter type other than data-parallel or reduction": (
        "a block that scans or sorts keeps the order of its loops: reorder and bind the others"
    ),
    "`extent` is dependent on another loop": (
        "how often it runs depends on a loop around it: bind that loop, or pad the inner one to a "
        "length of its own with a condition in the block"
    ),
    "does not start with 0": (
        "write the loop from 0 and add where it begins to its index, and then do this"
    ),
    "cannot be fulfilled with regard to block": (
        "bind a loop over the block's results (get_spatial_loops), or one of its reduction to "
        "threads with spread_over_threads"
    ),
    # placement and inlining
    "is an output block": (
        "it writes a tensor of the function's, and nothing reads it there: move what follows it "
        "(reverse_compute_block_at), or cache its result (cache_write_at)"
    ),
    "loop not to be the ancestor of block": (
        "that loop is the block's own, or inside of another block: choose a loop of what it reads, "
        "or is read by"
    ),
    "List of the producer(s)": (
        "place all producers under that loop first, with compute_block_at, outermost first"
    ),
    "List of the consumer(s)": (
        "place all consumers under that loop first, with reverse_compute_block_at, or choose a "
        "loop around all of them"
    ),
    "does not have compact dataflow": (
        "a block there reads what is not complete, or writes a buffer together with another one: "
        "do this before the reduction is decomposed, or at an outer loop"
    ),
    "Cannot inline": (
        "leave it a kernel of its own (tile_block), or place it with compute_block_at"
    ),
    "not a complete block": (
        "it reads what it writes, or others write that, too: do this before the reduction is "
        "decomposed, or place it with compute_block_at"
    ),
    "single point": (
        "it uses several elements of that buffer in one iteration: leave it as it is, or compute "
        "it at a loop of its consumer (compute_block_at)"
    ),
    "read only a single buffer region": "inline or cache its other operands first",
    "write only a single buffer region": (
        "a block of several results stays as it is: bind its spatial loops with tile_block"
    ),
    "not allocated by a block": (
        "it is a tensor of the function's: compute it in a buffer of its own with cache_write_at"
    ),
    "region cover": (
        "it would read more than is computed there: choose a loop further out, or sizes that divide"
    ),
    "stage pipeline": (
        "blocks there depend on each other in both directions: do this before a block is "
        "decomposed or added to in another place"
    ),
    # reductions
    "is not the reduction block": (
        "pass a block with T.init, and a loop that feeds its reduction: get_reduction_loops"
    ),
    "not a reduction block": (
        "pass a block that adds up, with T.init and before it is decomposed: it may store to one "
        "element of each of its results"
    ),
    "No matched reducer": (
        "TVM knows sums, products, maxima, minima and argmax by their T.init: write the first "
        "value as a constant, T.float32(0), say"
    ),
    "not a computation of Einsum": (
        'pad what is a sum of products, or split with tail="guard" instead'
    ),
    # buffers
    "expected to be written by single block": (
        "cache it before its reduction is decomposed, or fill it in one block alone"
    ),
    "intset.HasLowerBound() && intset.HasUpperBound()": (
        "its index comes from data, so that the copy has no bounds: leave it in global memory"
    ),
    "previous index for the same buffer access used index type": (
        "give all loops and sizes of the function one integer type"
    ),
    "pattern match failed": (
        "the indices are no single iterators: give the block iterators for what it indexes by, or "
        "tile without moving this block"
    ),
    "Transformation would introduce padding": (
        "choose a layout whose sizes divide the tensor's, or pad the block first with pad_block"
    ),
    "operate on the root blo": "pass a block of the function's, as sch.get_sblock(name) gives it",
    "error_render_level": (
        'make the schedule with Schedule(module, error_render_level="detail") to see the reason'
    ),
}


def advise(reason: str) -> str:
    """What to do about a reason of TVM's; to look at the schedule where that is not known."""
    return next((advice for words, advice in _ADVICE.items() if words in reason), LOOK)
