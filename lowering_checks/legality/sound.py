"""Modules in which no net found anything, known by what they are made of.

Recipes of a ladder begin with the same steps, and one schedule is made again and again where sizes
are tried, tests run, or a file is watched. What is found depends on a module's functions and on the
names of its buffers alone, so that a module with the same of both need not be asked about again.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from tvm.ir import IRModule
from tvm.tirx import AllocBuffer, DeclBuffer, PrimFunc
from tvm_ffi import structural_equal, structural_hash

from tirstep.transforms.tir import find_all, get_places

_MOST = 256
"""Modules that are kept: some ten megabytes."""


@dataclass
class Asked:
    """What has been asked about modules that are alike.

    Attributes
    ----------
    is_sound : whether nothing was found of what is asked after every transform
    has_all_reads : whether, moreover, no lost read was found
    """

    is_sound: bool = False
    has_all_reads: bool = False


class _Alike:
    """The functions of a module, as a key; names of loops and blocks may be other ones."""

    def __init__(self, functions: list[PrimFunc]) -> None:
        self._functions, self._names = tuple(functions), list[str]()
        for function in functions:
            self._names += map(_get_name, function.params)
            for place in get_places(function.body):
                self._names += map(_get_name, place.block.alloc_buffers)
            for kind in (AllocBuffer, DeclBuffer):
                self._names += (_get_name(made.buffer) for made in find_all(function.body, kind))
        self._hash = hash(structural_hash(self._functions))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Alike)
            and self._names == other._names
            and bool(structural_equal(self._functions, other._functions))
        )


def _get_name(variable: Any) -> str:
    return str(variable.name)


def recall(module: IRModule) -> Asked:
    """What has been asked about modules like this one, to be read and to be noted in.

    A module that has functions beside those of TIR is like none.
    """
    functions = [function for _, function in module.functions_items()]
    if not all(isinstance(function, PrimFunc) for function in functions):
        return Asked()
    return _recall(_Alike(functions))


@functools.lru_cache(maxsize=_MOST)
def _recall(_alike: _Alike) -> Asked:
    return Asked()


forget = _recall.cache_clear
"""Forget all of it, where what is asked, or TVM's pipeline, has become something else."""
