"""The bench's cases of a user's programs: their recipes, and who computes the same.

A file may have a dict ``TORCH`` of functions of tensors, by the name of the kernel or module: from
its inputs, in their order, to its output, or to a tuple of several. Without one there is no PyTorch
beside it, but for a kernel of tirstep's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tirstep.bench.cases import PlannedCase
from tirstep.bench.peers import PEERS, Peer, wrap_function
from tirstep.bench.session import require_timeable
from tirstep.modules import KernelError, get_kernel, kernels
from tirstep.transforms.recipes import Recipe

from .loading import load_place
from .naming import ProgramError, read_spelling
from .picking import pick_programs

FUNCTIONS = "TORCH"


def plan_program(
    text: str,
    shapes: Sequence[tuple[int, ...]] = (),
    dtype: str | None = None,
    function: str | None = None,
) -> tuple[list[PlannedCase], list[str]]:
    """A case for each kernel or module that a text names, at each of some shapes, and why others
    of them cannot be timed.

    By default at that of its first recipe's example. The peers are the file's function of tensors
    and dlight. Raises `ProgramError`, and `KernelError` where none can be timed.
    """
    by_kernel: dict[str, list[Recipe]] = {}
    for recipe in pick_programs(text, function):
        by_kernel.setdefault(recipe.kernel_name, []).append(recipe)
    cases: list[PlannedCase] = []
    refused: list[KernelError] = []
    for name, recipes in by_kernel.items():
        example, kernel = recipes[0].default_example, get_kernel(recipes[0].kernel)
        options = dict(example.options) if dtype is None else {**example.options, "dtype": dtype}
        if dtype is not None and "dtype" not in kernel.options:
            raise ProgramError(f"{name} has no option dtype; leave --dtype out")
        for sizes in shapes or [tuple(example.shape.values())]:
            if len(sizes) != len(kernel.size_names):
                raise KernelError(
                    f"{name}: {len(sizes)} sizes are given, and it has {len(kernel.size_names)}: "
                    f"{', '.join(kernel.size_names) or 'none'}"
                )
            try:
                problem = kernel.problem(*sizes, **options)
                require_timeable(problem)
            except KernelError as error:
                refused.append(error)
                continue
            peers = _list_peers(text, name, kernel)
            cases.append(PlannedCase(text, problem, tuple(recipes), peers))
    if refused and not cases:
        raise refused[0]
    return cases, [*map(str, refused)]


def find_peer(recipe: Recipe) -> Peer:
    """The peer of a search's winner: PyTorch, or for a user's program what its file gives.

    Where that gives no function of its kernel, dlight.
    """
    if not recipe.spelling:
        return PEERS["torch"]
    return _list_peers(recipe.spelling, recipe.kernel_name, get_kernel(recipe.kernel))[0]


def _list_peers(text: str, name: str, kernel: Any) -> tuple[Peer, ...]:
    """The file's function for a kernel, or without one that of the table for a kernel of tirstep's;
    and dlight.
    """
    loaded = load_place(read_spelling(text).place)
    functions = loaded.values.get(FUNCTIONS, {})
    if not (isinstance(functions, Mapping) and all(map(callable, functions.values()))):
        raise ProgramError(
            f"{loaded.locate(FUNCTIONS)}: {FUNCTIONS} is not a dict of functions; give "
            f"{FUNCTIONS} = {{'NAME': function of tensors}} with the name of a kernel or module"
        )
    torch = [PEERS["torch"]] if kernels().get(name) is kernel else []
    if name in functions:
        own = wrap_function(functions[name])
        torch = [Peer("torch", "PyTorch", package="torch", functions=own)]
    return (*torch, PEERS["dlight"])
