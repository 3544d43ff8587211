"""What all threads of a block exchange in one call: TVM's reduction of a block, CUDA's votes.

Each is made of the barriers, stores and loads of the code that TVM generates for it, so that two
calls that share their scratch memory race as they do there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .function_semantics import Pointer, Semantics, Threads
from .warp_shuffles import STEPS, reduce_in_warp


def _reduce(threads: Threads, value: Any, operation: str, warps: int, scratch: Pointer) -> Array:
    """The sum, largest or smallest value of a block: by warp, and then by the first warp."""
    warp, lane = threads.numbers // WARP, threads.numbers % WARP
    partial = reduce_in_warp(threads, value, operation, WARP)
    scratch.store(warp, partial, lane == 0)
    threads.gpu.pass_barrier(threads.mask)
    is_first = warp == 0
    found = scratch.load(np.minimum(lane, warps - 1), is_first & (lane < warps))
    found = np.where(lane < warps, found, found.dtype.type(STEPS[operation][1]))
    scratch.store(0, reduce_in_warp(threads, found, operation, WARP), is_first & (lane == 0))
    threads.gpu.pass_barrier(threads.mask)
    return scratch.load(0)


def _vote(
    threads: Threads, predicate: Any, *, decide: Callable[..., Array], otherwise: bool
) -> Array:
    """A barrier, and whether all threads of the block say so, or any."""
    batch = threads.state.batch
    threads.gpu.pass_barrier(threads.mask)
    held = np.where(threads.active, np.broadcast_to(predicate, (batch.lanes, 1)) != 0, otherwise)
    decided = decide(held.reshape(batch.blocks, batch.threads), axis=1)
    return np.repeat(decided, batch.threads).reshape(-1, 1).astype(np.int64)


_VOTES: dict[str, Semantics] = {
    "syncthreads_and": functools.partial(_vote, decide=np.all, otherwise=True),
    "syncthreads_or": functools.partial(_vote, decide=np.any, otherwise=False),
}
BLOCK_REDUCTIONS: dict[str, Semantics] = {
    "cuda.cta_reduce": _reduce,
    **{f"cuda.{name}": vote for name, vote in _VOTES.items()},
    **{f"__{name}": vote for name, vote in _VOTES.items()},
}
