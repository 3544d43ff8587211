"""Every public transform, with reasonable arguments, on every block and loop of a schedule.

Handles are read from a transform's signature; sizes are those of `OPTIONS`.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV

from tirstep import transforms
from tirstep.transforms.tir import find_all

Options = Mapping[str, Any]
_TILE = {"tile": (16, 16), "tile_k": 16}
OPTIONS: dict[str, Sequence[Options]] = {
    "align_vectors": ({"vector": 4, "offset": 1},),
    "bind_batch": ({}, {"kept": 1}),
    "bind_loop": ({"axis": "blockIdx.x"}, {"axis": "threadIdx.x"}),
    "cache_read_at": tuple(
        {"operand": operand, "scope": scope} for operand in (0, 1) for scope in ("shared", "local")
    ),
    "cache_row_at": ({"operand": 0}, {"operand": 1}),
    "cache_write_at": ({"scope": "local"}, {"scope": "shared"}),
    "fetch_cooperatively": (
        {"threads": 8, "tail": "guard"},
        {"threads": (4, 4), "vector": 2, "tail": "guard"},
    ),
    "fold_tile": ({"row": 4, "padding": 1},),
    "fuse_reductions": ({}, {"accumulate": "apart"}),
    "lay_in_quads": ({"rows": 0, "columns": 1},),
    "make_persistent": ({"blocks": 2},),
    "pad_axis": ({"multiple": 4}, {"multiple": 5}),
    "pad_shared_rows": ({"elements": 4},),
    "prefetch_asynchronously": ({"stages": 2},),
    "prefetch_by_tma": ({"stages": 2},),
    "rfactor_reduction": ({"parts": 2}, {"parts": 3}),
    "round_operand": ({"operand": 0},),
    "set_pass_option": ({"name": "tirx.disable_vectorize", "value": True},),
    "split_loop": ({"inner": 4}, {"inner": 3, "tail": "guard"}),
    "split_reduction": ({"inner": 4}, {"inner": 3, "tail": "guard"}),
    "split_reductions": ({"parts": 2},),
    "spread_over_threads": (
        {"threads": 8, "tail": "guard"},
        {"threads": 4, "vector": 2, "tail": "guard"},
    ),
    "stage_fragments_at": ({"operand": 0, "warps": 1, "vector": 4},),
    "stage_operand_at": (
        {"operand": 0, "threads": 8},
        {"operand": 1, "threads": (4, 4), "vector": 2},
    ),
    "stage_swizzled_at": ({"operand": 0, "warpgroups": 1, "vector": 8},),
    "store_through_shared": ({"columns": 16, "warps": 1, "vector": 4},),
    "store_through_tiles": ({"warps": 1, "vector": 4},),
    "tile_block": (
        {"threads": (4, 8)},
        {"threads": (8,), "tail": "guard"},
        {"threads": (4, 4), "per_thread": (2, 3), "tail": "guard"},
    ),
    "tile_in_fragments": ({**_TILE, "warp": (16, 16)},),
    "tile_in_warpgroups": ({"tile": (64, 16), "warpgroup": (64, 16), "tile_k": 16},),
    "tile_in_warps": (
        {"threads": (4, 8), "per_thread": (2, 2)},
        {"threads": (4, 8), "per_thread": (2, 2), "warp": (4, 8), "tail": "guard"},
    ),
    "vectorize_copy": ({"vector": 4},),
}
"""What a transform is called with besides its handles; nothing where it has no entry."""
_MOST_PLACES = 3
"""Loops of a block that a transform of two blocks is tried at, from the outermost."""


class Loop(NamedTuple):
    """A loop of a schedule: that of a block at a place, from the outermost."""

    block: str
    place: int

    def __str__(self) -> str:
        return f"{self.block}/{self.place}"


class Call(NamedTuple):
    """A call of a transform, by names of blocks and `Loop`s, or tuples of these, and options."""

    transform: str
    handles: tuple[Any, ...]
    options: Options = MappingProxyType({})

    def __str__(self) -> str:
        given = [f"[{', '.join(map(str, it))}]" if type(it) is tuple else f"{it}" for it in self[1]]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.transform}({', '.join(given)})"

    def run(self, sch: Schedule) -> Any:
        """Call it; raises what the transform raises."""

        def find(handle: Any) -> Any:
            if isinstance(handle, Loop):
                return sch.get_loops(sch.get_sblock(handle.block))[handle.place]
            return list(map(find, handle)) if type(handle) is tuple else sch.get_sblock(handle)

        handles = map(find, self.handles)
        return getattr(transforms, self.transform)(sch, *handles, **self.options)


def list_transforms() -> list[str]:
    """The public functions that change a schedule."""
    return [
        name
        for name in transforms.__all__
        if inspect.isfunction(getattr(transforms, name))
        and not name.startswith(("find_", "get_", "is_"))
    ]


def list_calls(sch: Schedule) -> Iterator[Call]:
    """The calls of all transforms on all blocks and loops of a schedule."""
    nodes = find_all(sch.mod["main"].body, SBlock)
    hidden = {  # TVM's schedules know no block of an initialization
        str(inner.name_hint) for node in nodes for inner in find_all(node.init, SBlock)
    }
    names = [str(node.name_hint) for node in nodes[1:]]
    names = [name for name in dict.fromkeys(names) if names.count(name) == 1 and name not in hidden]
    loops = {name: len(sch.get_loops(sch.get_sblock(name))) for name in names}
    for transform in list_transforms():
        handles = list(inspect.signature(getattr(transforms, transform)).parameters.values())[1:]
        kinds = [it for it in handles if it.kind == it.POSITIONAL_OR_KEYWORD]
        for places in _list_places(transform, [(it.name, it.annotation) for it in kinds], loops):
            for options in _list_options(sch, transform, places):
                yield Call(transform, places, options)


def _list_options(sch: Schedule, transform: str, places: tuple[Any, ...]) -> Sequence[Options]:
    if transform == "pad_block":
        block: SBlockRV = sch.get_sblock(places[0])
        return ({"multiples": [4] * len(sch.get(block).iter_vars)},)
    return OPTIONS.get(transform, ({},))


def _list_places(
    transform: str, handles: list[tuple[str, str]], loops: Mapping[str, int]
) -> Iterator[tuple[Any, ...]]:
    """The handles of a call, of each block and each of its loops."""
    every = [Loop(name, place) for name, count in loops.items() for place in range(count)]
    shape = [annotation for _, annotation in handles]
    if not shape:
        yield ()
    elif shape == ["SBlockRV"]:
        yield from ((name,) for name in loops)
    elif shape == ["LoopRV"]:
        yield from ((loop,) for loop in every)
    elif shape == ["SBlockRV", "LoopRV"]:
        elsewhere = transform.endswith("compute_block_at")
        for name, loop in itertools.product(loops, every):
            if (loop.block != name) == elsewhere:
                yield (name, loop)
    elif transform == "merge_loops":
        for one, other in itertools.pairwise(loops):
            for place in range(min(loops[one], loops[other])):
                yield ((Loop(one, place), Loop(other, place)),)
    elif shape == ["Sequence[LoopRV]"]:
        for name, count in loops.items():
            for place in range(count - 1):
                pair = (Loop(name, place), Loop(name, place + 1))
                yield (pair if transform == "fuse_loops" else pair[::-1],)
    elif shape == ["LoopRV", "Sequence[SBlockRV]"]:
        copies = tuple(name for name in loops if "shared" in name)
        yield from ((loop, copies) for loop in every)
    else:
        yield from _list_several(shape, loops)


def _list_several(shape: list[str], loops: Mapping[str, int]) -> Iterator[tuple[Any, ...]]:
    """The handles of transforms that take two blocks and more."""
    for first, *others in itertools.permutations(loops, min(len(loops), 2)):
        second = others[0] if others else first
        for place in range(min(loops[first], _MOST_PLACES)):
            found: list[Any] = []
            names = itertools.cycle((first, second))
            for kind in shape:
                if kind == "LoopRV":
                    found.append(Loop(first, min(place + len(found) // 3, loops[first] - 1)))
                else:
                    name = next(names)
                    found.append((name,) if kind.startswith("Sequence") else name)
            yield tuple(found)
