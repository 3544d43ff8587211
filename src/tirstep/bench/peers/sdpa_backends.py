"""Attention by a backend of scaled_dot_product_attention that is named, not chosen by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tirstep.modules import Problem

from .. import PeerMissing

Prepared = Callable[[Sequence[Any], Any, Problem], Callable[[], Any]]


def use_backend(name: str) -> Prepared:
    """What prepares attention by a backend, by its name in `torch.nn.attention.SDPBackend`.

    Raises `PeerMissing` for another kernel, and where the backend does not take the problem.
    """

    def prepare(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        from .torch_functions import FUNCTIONS

        if problem.kernel.name != "attention":
            raise PeerMissing(f"{name} computes attention alone")
        attend = FUNCTIONS["attention"](inputs, out, problem)

        def launch() -> Any:
            with sdpa_kernel(SDPBackend.__members__[name]):
                return attend()

        try:
            launch()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise PeerMissing(f"{name} does not take this problem: {reason}") from None
        return launch

    return prepare
