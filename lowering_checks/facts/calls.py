"""Calls in a kernel that stand for instructions: copies, tensor cores, barriers.

TVM calls them by name, and the generated helpers of ``T.cuda.func_call`` by their source.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tvm.ir import Call

from tirstep.transforms.queries import constant, find_all

BLOCK_BARRIERS = ("shared", "shared.dyn")
"""What a storage_sync of the whole GPU block names; a warp's is no barrier of the block."""
COPY_BYTES = (4, 8, 16)
HELPER = "tirx.cuda.func_call"
IN_HELPERS = {"ldmatrix": "ldmatrix.", "mma": " mma.", "wgmma": "wgmma.mma_async"}
_MATRIX_LOADS = ("ldmatrix", "tvm_load_matrix_sync")
_MATRIX_PRODUCTS = ("tvm_mma_sync", "tvm_bmma_sync", "mma")
_NO_PRODUCTS = ("mma_store", "mma_fill")
_GROUP_PRODUCTS = ("wgmma_f", "wgmma_b", "wgmma_int", "wgmma_tf32")
_COPIES = ("cp_async_raw", "cp_async_ca", "cp_async_cg")


def find_calls(body: Any) -> Counter[str]:
    """The calls of ``"ldmatrix"``, ``"mma"`` and ``"wgmma"``, how many of each."""
    found: Counter[str] = Counter()
    for call in find_all(body, Call):
        name = _name(call)
        if name == HELPER:
            text = _helper_text(call).replace('"', " ")
            found.update(key for key, word in IN_HELPERS.items() if word in text)
        else:
            found.update(_classify(name.rpartition(".")[2]))
    return found


def find_copies(body: Any) -> dict[int, int]:
    """The asynchronous copies from global to shared memory: how many, by bytes."""
    copies = (call for call in find_all(body, Call) if _is_copy(call))
    return dict(Counter(_copied_bytes(call) for call in copies))


def count_barriers(statement: Any) -> int:
    """The barriers of the GPU block that a statement runs into."""
    total = 0
    for call in find_all(statement, Call):
        if _name(call) == "tirx.tvm_storage_sync":
            total += str(getattr(call.args[0], "value", call.args[0])) in BLOCK_BARRIERS
        elif _name(call) == HELPER:
            total += _helper_text(call).count("__syncthreads()")
    return total


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", ""))


def _classify(name: str) -> list[str]:
    if name.startswith(_MATRIX_LOADS):
        return ["ldmatrix"]
    if name.startswith(_GROUP_PRODUCTS):
        return ["wgmma"]
    is_product = name.startswith(_MATRIX_PRODUCTS) and not name.startswith(_NO_PRODUCTS)
    return ["mma"] if is_product else []


def _is_copy(call: Any) -> bool:
    return _name(call).rpartition(".")[2].startswith(_COPIES)


def _copied_bytes(call: Any) -> int:
    """The last argument that can be a copy's size: sizes stand behind the places."""
    sizes = [constant(argument) for argument in call.args]
    return next((size for size in reversed(sizes) if size in COPY_BYTES), 0)


def _helper_text(call: Any) -> str:
    """The source that a call brings along: its last argument."""
    return str(getattr(call.args[-1], "value", ""))
