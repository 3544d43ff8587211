"""How a kernel is changed: small composable functions on a TVM schedule.

Every transform is ``verb_object(sch, handle, *, sizes) -> handles``. It checks what it needs
first; a `TransformError` means that the schedule is as it was.
"""

if __name__ != "tirstep.transforms":
    raise ImportError("this folder is a part of tirstep: import it as tirstep.transforms")

from tirstep.versions import require_supported_tvm

require_supported_tvm()

from .binding import Tile, bind_loop, tile_block  # noqa: E402
from .caching import (  # noqa: E402
    accumulate_in_registers,
    cache_read_at,
    cache_write_at,
)
from .errors import TransformError  # noqa: E402
from .fetching import fetch_cooperatively, stage_operand_at  # noqa: E402
from .layout import Padding, pad_block, pad_shared_rows  # noqa: E402
from .loops import Split, fuse_loops, reorder_loops, split_loop, unroll_loop  # noqa: E402
from .placement import (  # noqa: E402
    compute_block_at,
    fuse_epilogue_at,
    inline_producers,
    reverse_compute_block_at,
)
from .queries import find_epilogue, find_reduction_loops, find_spatial_loops  # noqa: E402
from .reduction import decompose_reduction_at, split_reduction  # noqa: E402
from .vectorize import vectorize_loop  # noqa: E402

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
    "find_reduction_loops",
    "find_spatial_loops",
    "fuse_epilogue_at",
    "fuse_loops",
    "inline_producers",
    "pad_block",
    "pad_shared_rows",
    "reorder_loops",
    "reverse_compute_block_at",
    "split_loop",
    "split_reduction",
    "stage_operand_at",
    "tile_block",
    "unroll_loop",
    "vectorize_loop",
]
