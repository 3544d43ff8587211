"""How a kernel is changed: small composable functions on a TVM schedule.

Every transform is ``verb_object(sch, handle, *, sizes) -> handles``. It checks what it needs
first; a `TransformError` means that the schedule is as it was.
"""

if __name__ != "tirstep.transforms":
    raise ImportError("this folder is a part of tirstep: import it as tirstep.transforms")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

from .binding import Tile, bind_loop, tile_block
from .caching import (
    accumulate_in_registers,
    cache_read_at,
    cache_write_at,
)
from .errors import TransformError
from .fetching import fetch_cooperatively, stage_operand_at
from .layout import Padding, pad_block, pad_shared_rows
from .loops import Split, fuse_loops, reorder_loops, split_loop, unroll_loop
from .pass_options import find_pass_options, set_pass_option
from .placement import (
    compute_block_at,
    fuse_epilogue_at,
    inline_producers,
    reverse_compute_block_at,
)
from .queries import find_epilogue, find_reduction_loops, find_spatial_loops
from .reduction import decompose_reduction_at, split_reduction
from .vectorize import vectorize_loop

__all__ = [
    "Padding",
    "Split",
    "Tile",
    "TransformError",
    "accumulate_in_registers",
    "bind_loop",
    "cache_read_at",
    "cache_write_at",
    "compute_block_at",
    "decompose_reduction_at",
    "fetch_cooperatively",
    "find_epilogue",
    "find_pass_options",
    "find_reduction_loops",
    "find_spatial_loops",
    "fuse_epilogue_at",
    "fuse_loops",
    "inline_producers",
    "pad_block",
    "pad_shared_rows",
    "reorder_loops",
    "reverse_compute_block_at",
    "set_pass_option",
    "split_loop",
    "split_reduction",
    "stage_operand_at",
    "tile_block",
    "unroll_loop",
    "vectorize_loop",
]
