"""What has no right answer that could be computed: random numbers, foreign code, bits of floats."""

from __future__ import annotations

from typing import Any, NoReturn

from tirstep.transforms.tir import LARGEST_INDEX


class RefusedError(Exception):
    """Why a program cannot be judged, in words that follow its name."""


_FOREIGN = (
    "call_packed",
    "call_cpacked",
    "call_extern",
    "call_pure_extern",
    "call_llvm",
    "func_call",
)
GIVE_REFERENCE = "name the program before it was scheduled: --reference FILE:NAME"
_SYNCHRONIZES = ("storage_sync", "barrier", "sync", "shuffle", "shfl", "allreduce")


def get_call_name(call: Any) -> str:
    """The name of what is called, without TVM's prefix: ``exp``, ``if_then_else``."""
    name = str(getattr(call.op, "name", getattr(call.op, "name_hint", call.op)))
    return name.removeprefix("tirx.").removeprefix("prim.")


def refuse_call(call: Any) -> NoReturn:
    """Raise `RefusedError` for a call."""
    name = get_call_name(call)
    shown = name
    if any(name.startswith(each) or name.endswith(each) for each in _FOREIGN):
        texts = [str(arg.value) for arg in call.args if type(arg).__name__ == "StringImm"]
        shown = texts[0] if texts else name
        raise RefusedError(f"it calls '{shown}', of which only the device knows what it computes")
    if type(call.op).__name__ == "GlobalVar":
        raise RefusedError(f"it calls the function '{name}' of its module; inline that first")
    if "rand" in name:
        raise RefusedError(f"'{name}' draws random numbers, so that no answer is the right one")
    if any(word in name for word in _SYNCHRONIZES):
        raise RefusedError(
            f"'{shown}' has threads of a GPU wait or exchange values; {GIVE_REFERENCE}"
        )
    if name == "reinterpret":
        raise RefusedError("'reinterpret' takes the bits of a number, which float64 has others of")
    raise RefusedError(f"'{shown}' has no meaning in float64 here; {GIVE_REFERENCE}")


def require_countable(name: str, elements: int) -> None:
    """Raise `RefusedError` for a parameter of more elements than an index of 32 bits counts."""
    if elements > LARGEST_INDEX:
        raise RefusedError(
            f"its parameter {name} has {elements:,} elements, which are counted in 32 bits, up to "
            f"{LARGEST_INDEX:,}; give a smaller shape"
        )
