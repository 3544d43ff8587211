"""How a kernel is changed: small composable functions on a TVM schedule.

Every transform is ``verb_object(sch, handle, *, sizes) -> handles``. It checks what it needs
first; a `TransformError` means that the schedule is as it was.
"""

if __name__ != "tirstep.transforms":
    raise ImportError("this folder is a part of tirstep: import it as tirstep.transforms")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

from . import pipeline as pipeline  # which it registers
from .binding import Tile as Tile
from .binding import bind_batch as bind_batch
from .binding import bind_loop as bind_loop
from .binding import tile_block as tile_block
from .caching import accumulate_in_registers as accumulate_in_registers
from .caching import cache_read_at as cache_read_at
from .caching import cache_write_at as cache_write_at
from .caching import fetch_cooperatively as fetch_cooperatively
from .caching import stage_operand_at as stage_operand_at
from .exponentials import fuse_exponents as fuse_exponents
from .exponentials import use_powers_of_two as use_powers_of_two
from .fusion.factors import factor_out_of_sum as factor_out_of_sum
from .fusion.fuse import FusedReductions as FusedReductions
from .fusion.fuse import SplitReductions as SplitReductions
from .fusion.fuse import fuse_reductions as fuse_reductions
from .fusion.fuse import split_reductions as split_reductions
from .hopper.cluster_launch import fuse_kernels_in_clusters as fuse_kernels_in_clusters
from .hopper.product_overlap import overlap_products as overlap_products
from .hopper.tma_loads import copy_once_by_tma as copy_once_by_tma
from .hopper.tma_loads import prefetch_by_tma as prefetch_by_tma
from .hopper.tma_loads import specialize_warps as specialize_warps
from .hopper.tma_stores import store_by_tma as store_by_tma
from .hopper.tma_stores import store_through_tiles as store_through_tiles
from .hopper.warp_roles import make_persistent as make_persistent
from .hopper.warpgroup_tiles import WarpgroupTile as WarpgroupTile
from .hopper.warpgroup_tiles import stage_swizzled_at as stage_swizzled_at
from .hopper.warpgroup_tiles import tensorize_warpgroups as tensorize_warpgroups
from .hopper.warpgroup_tiles import tile_in_warpgroups as tile_in_warpgroups
from .hopper.wgmma_rows import ProductLoops as ProductLoops
from .hopper.wgmma_rows import order_product as order_product
from .hopper.wgmma_rows import tensorize_warp_rows as tensorize_warp_rows
from .inlining import inline_epilogue as inline_epilogue
from .inlining import inline_producers as inline_producers
from .layout import Padding as Padding
from .layout import fold_tile as fold_tile
from .layout import pad_block as pad_block
from .layout import pad_shared_rows as pad_shared_rows
from .layout import transpose_tile as transpose_tile
from .loops import Split as Split
from .loops import fuse_loops as fuse_loops
from .loops import merge_loops as merge_loops
from .loops import reorder_loops as reorder_loops
from .loops import split_loop as split_loop
from .loops import suggest_unrolling as suggest_unrolling
from .loops import unroll_loop as unroll_loop
from .masked_loops import end_loop_at_mask as end_loop_at_mask
from .masked_loops import launch_longest_first as launch_longest_first
from .masked_loops import mask_operand as mask_operand
from .masked_loops import split_loop_at_mask as split_loop_at_mask
from .padding import pad_axis as pad_axis
from .pass_options import get_pass_options as get_pass_options
from .pass_options import get_pipeline as get_pipeline
from .pass_options import set_pass_option as set_pass_option
from .pass_options import set_pipeline as set_pipeline
from .pipelining import prefetch_asynchronously as prefetch_asynchronously
from .pipelining import prefetch_fragments as prefetch_fragments
from .pipelining import prefetch_through_registers as prefetch_through_registers
from .placement import compute_block_at as compute_block_at
from .placement import fuse_epilogue_at as fuse_epilogue_at
from .placement import reverse_compute_block_at as reverse_compute_block_at
from .queries import find_epilogue as find_epilogue
from .queries import get_reduction_loops as get_reduction_loops
from .queries import get_spatial_loops as get_spatial_loops
from .reduction import PartialSums as PartialSums
from .reduction import decompose_reduction_at as decompose_reduction_at
from .reduction import rfactor_reduction as rfactor_reduction
from .reduction import split_reduction as split_reduction
from .reduction import widen_sums as widen_sums
from .schedule import TransformError as TransformError
from .schedule import one_change as one_change
from .schedule import unguarded as unguarded
from .tensor_cores.mma_tiles import FragmentTile as FragmentTile
from .tensor_cores.mma_tiles import SharedStore as SharedStore
from .tensor_cores.mma_tiles import stage_fragments_at as stage_fragments_at
from .tensor_cores.mma_tiles import store_through_shared as store_through_shared
from .tensor_cores.mma_tiles import tensorize_fragments as tensorize_fragments
from .tensor_cores.mma_tiles import tile_in_fragments as tile_in_fragments
from .tensor_cores.quads import FragmentProduct as FragmentProduct
from .tensor_cores.quads import lay_in_quads as lay_in_quads
from .tensor_cores.quads import round_operand as round_operand
from .tensor_cores.quads import spread_over_quads as spread_over_quads
from .tensor_cores.quads import tensorize_in_quads as tensorize_in_quads
from .tensor_cores.quads import tile_product as tile_product
from .thread_rows import Spread as Spread
from .thread_rows import cache_row_at as cache_row_at
from .thread_rows import keep_in_registers as keep_in_registers
from .thread_rows import spread_over_threads as spread_over_threads
from .vectorize import align_vectors as align_vectors
from .vectorize import vectorize_copy as vectorize_copy
from .vectorize import vectorize_loop as vectorize_loop
from .warp_tiling import WarpTile as WarpTile
from .warp_tiling import tile_in_warps as tile_in_warps
from .windows import tile_windows as tile_windows

__all__ = sorted(
    name
    for name, it in globals().items()
    if getattr(it, "__module__", "").startswith("tirstep.transforms.")
    if it not in (one_change, unguarded)  # which are no transforms
)
