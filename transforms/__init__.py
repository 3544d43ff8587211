"""How a kernel is changed: small composable functions on a TVM schedule.

Every transform is ``verb_object(sch, handle, *, sizes) -> handles``. It checks what it needs
first; a `TransformError` means that the schedule is as it was.
"""

if __name__ != "tirstep.transforms":
    raise ImportError("this folder is a part of tirstep: import it as tirstep.transforms")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

from .binding import Tile, bind_batch, bind_loop, tile_block
from .bulk_copies import prefetch_by_tma, specialize_warps
from .bulk_stores import store_by_tma, store_through_tiles
from .caching import (
    accumulate_in_registers,
    cache_read_at,
    cache_write_at,
)
from .exponentials import fuse_exponents, use_powers_of_two
from .fetching import fetch_cooperatively, stage_operand_at
from .fusion.factoring import factor_out_of_sum
from .fusion.fuse import FusedReductions, fuse_reductions
from .fusion.split import SplitReductions, split_reductions
from .inlining import inline_epilogue, inline_producers
from .layout import (
    Padding,
    fold_tile,
    lay_in_panels,
    pad_block,
    pad_shared_rows,
    transpose_tile,
)
from .loops import (
    Split,
    fuse_loops,
    merge_loops,
    reorder_loops,
    split_loop,
    suggest_unrolling,
    unroll_loop,
)
from .masks import end_loop_at_mask, launch_longest_first, split_loop_at_mask
from .overlapping import alternate_tiles, alternate_warpgroups, overlap_products
from .pass_options import set_pass_option, set_pipeline
from .passes.pipeline import get_pass_options, get_pipeline
from .persistent import make_persistent
from .pipelining import (
    prefetch_asynchronously,
    prefetch_fragments,
    prefetch_through_registers,
)
from .placement import (
    compute_block_at,
    fuse_epilogue_at,
    reverse_compute_block_at,
)
from .quads import (
    FragmentProduct,
    lay_in_quads,
    round_operand,
    spread_over_quads,
    tensorize_in_quads,
    tile_product,
)
from .queries import find_epilogue, get_reduction_loops, get_spatial_loops
from .reduction import (
    PartialSums,
    decompose_reduction_at,
    rfactor_reduction,
    split_reduction,
)
from .rows import (
    Spread,
    cache_row_at,
    keep_in_registers,
    spread_over_threads,
)
from .schedule import TransformError
from .schedule import one_change as one_change
from .schedule import unguarded as unguarded
from .streaming import stream_steps
from .tensorize import (
    FragmentTile,
    SharedStore,
    stage_fragments_at,
    store_through_shared,
    tensorize_fragments,
    tile_in_fragments,
)
from .vectorize import align_vectors, vectorize_copy, vectorize_loop
from .warp_rows import ProductLoops, order_product, tensorize_warp_rows
from .warp_tiling import WarpTile, tile_in_warps
from .warpgroups import (
    WarpgroupTile,
    stage_swizzled_at,
    tensorize_warpgroups,
    tile_in_warpgroups,
)
from .wide_sums import widen_sums

__all__ = [
    "FragmentProduct",
    "FragmentTile",
    "FusedReductions",
    "Padding",
    "PartialSums",
    "ProductLoops",
    "SharedStore",
    "Split",
    "SplitReductions",
    "Spread",
    "Tile",
    "TransformError",
    "WarpTile",
    "WarpgroupTile",
    "accumulate_in_registers",
    "align_vectors",
    "alternate_tiles",
    "alternate_warpgroups",
    "bind_batch",
    "bind_loop",
    "cache_read_at",
    "cache_row_at",
    "cache_write_at",
    "compute_block_at",
    "decompose_reduction_at",
    "end_loop_at_mask",
    "factor_out_of_sum",
    "fetch_cooperatively",
    "find_epilogue",
    "fold_tile",
    "fuse_epilogue_at",
    "fuse_exponents",
    "fuse_loops",
    "fuse_reductions",
    "get_pass_options",
    "get_pipeline",
    "get_reduction_loops",
    "get_spatial_loops",
    "inline_epilogue",
    "inline_producers",
    "keep_in_registers",
    "launch_longest_first",
    "lay_in_panels",
    "lay_in_quads",
    "make_persistent",
    "merge_loops",
    "order_product",
    "overlap_products",
    "pad_block",
    "pad_shared_rows",
    "prefetch_asynchronously",
    "prefetch_by_tma",
    "prefetch_fragments",
    "prefetch_through_registers",
    "reorder_loops",
    "reverse_compute_block_at",
    "rfactor_reduction",
    "round_operand",
    "set_pass_option",
    "set_pipeline",
    "specialize_warps",
    "split_loop",
    "split_loop_at_mask",
    "split_reduction",
    "split_reductions",
    "spread_over_quads",
    "spread_over_threads",
    "stage_fragments_at",
    "stage_operand_at",
    "stage_swizzled_at",
    "store_by_tma",
    "store_through_shared",
    "store_through_tiles",
    "stream_steps",
    "suggest_unrolling",
    "tensorize_fragments",
    "tensorize_in_quads",
    "tensorize_warp_rows",
    "tensorize_warpgroups",
    "tile_block",
    "tile_in_fragments",
    "tile_in_warpgroups",
    "tile_in_warps",
    "tile_product",
    "transpose_tile",
    "unroll_loop",
    "use_powers_of_two",
    "vectorize_copy",
    "vectorize_loop",
    "widen_sums",
]
