"""Facts of a module as TVM lowers it, and what the simulator counts when it runs. Needs no GPU.

Copies, tensor cores and barriers are calls in the lowered TIR: TVM calls them by name, and the
generated helpers of ``T.cuda.func_call`` by their source.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tvm
from tvm.ir import Call, TensorLoad
from tvm.tirx import AllocBuffer, BufferStore, For, ForKind, IfThenElse, Ramp

from tirstep.modules import AnyProblem
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.tir import constant, find_all, get_children, is_choice
from tirstep.tvm_compat import get_op_name

from ..compile.compiling import TARGET
from ..compile.passes import (
    DYNAMIC_SHARED,
    SPLIT_PASS,
    Lowering,
    find_kernels,
    find_launches,
    lower_through_passes,
)
from ..device import DeviceError, blank, convert_tvm_errors, require_arguments
from ..devices.simulator import SimulatorDevice, UnsupportedError, lower, simulate_lowered
from ..devices.simulator.access_counts import Counts
from ..devices.simulator.periodic_loops import is_decided_by_memory
from ..devices.simulator.statements import is_barrier
from ..steps import CheckError
from .model import SCOPES, Accesses, Fact, Facts, KernelFacts, add_up, multiply

UNROLL_PASS = "tirx.UnrollLoop"
COUNTED = "first thread block, simulated"
"""The group of facts that the simulator counted."""
COPY_BYTES = (4, 8, 16)
HELPER = "tirx.cuda.func_call"
IN_HELPERS = {"ldmatrix": "ldmatrix.", "mma": " mma.", "wgmma": "wgmma.mma_async"}
_MATRIX_LOADS = ("ldmatrix", "tvm_load_matrix_sync")
_MATRIX_PRODUCTS = ("tvm_mma_sync", "tvm_bmma_sync", "mma")
_NO_PRODUCTS = ("mma_store", "mma_fill")
_GROUP_PRODUCTS = ("_ss", "_rs")
"""What TVM's names of wgmma.mma_async end in, by where A lies; those of its fences do not."""
_COPIES = ("cp_async_raw", "cp_async_ca", "cp_async_cg")
Loops = tuple[For, ...]


def get_facts(
    module: tvm.IRModule, target: str = TARGET, *, problem: AnyProblem | None = None
) -> Facts:
    """The facts of a module for a GPU; see `facts_of_lowering`. Raises `CheckError` for llvm."""
    return facts_of_lowering(lower_through_passes(module, target, is_run=False), problem=problem)


def facts_of_lowering(lowering: Lowering, *, problem: AnyProblem | None = None) -> Facts:
    """The facts of a module that was lowered already.

    `problem` says how much is to be computed and moved. A module that TVM refuses, or that is not
    bound to a GPU, has no kernels and a `refusal`. Raises `CheckError` for a target that is no GPU.
    """
    if lowering.language == "llvm":
        raise CheckError(
            f"facts are of GPU kernels, and {lowering.target} makes none; choose cuda or opencl"
        )
    refusal, lowered, unrolled = None, None, 0
    kernels: tuple[KernelFacts, ...] = ()
    if lowering.failed is not None:
        refusal = str(lowering.failed)
    else:
        lowered = lowering.get_pass(SPLIT_PASS).module
        kernels, absent = _read_kernels(lowered)
        unrolls = [each for each in lowering.passes if each.name == UNROLL_PASS]
        unrolled = sum(count_unrolled_loops(each.before, each.module) for each in unrolls)
        if absent:
            refusal = (
                f"it launches {', '.join(absent)}, which the module does not have: it is the "
                "host part of a module that has been split; give the module before that"
            )
        elif not kernels:
            refusal = "the module launches no kernel: no loop is bound to a GPU"
    return Facts(
        target=lowering.target,
        language=lowering.language,
        kernels=kernels,
        unrolled_loops=unrolled,
        flops=None if problem is None else problem.flops,
        bytes=None if problem is None else problem.bytes,
        lowered=lowered,
        source=lowering.source,
        refusal=refusal,
    )


def _read_kernels(lowered: tvm.IRModule) -> tuple[tuple[KernelFacts, ...], list[str]]:
    """The facts of each kernel, in the order of their first launches; the names of those that are
    launched and are no function of the module.
    """
    extents: dict[str, dict[str, int | None]] = {}
    kernels = find_kernels(lowered)
    for function in lowered.functions.values():
        for kernel, _, launched in find_launches(function.body, kernels):
            sizes = {tag: constant(size) for tag, size in launched.items()}
            extents.setdefault(kernel, sizes)
    there = {str(variable.name_hint) for variable, _ in lowered.functions_items()}
    absent = [name for name in extents if name not in there]
    found = {name: sizes for name, sizes in extents.items() if name in there}
    facts: list[KernelFacts] = []
    for name, sizes in found.items():
        body = lowered[name].body
        calls = count_matrix_calls(body)
        barriers: Counter[Loops] = Counter()
        for statement, loops in _visit(body, ()):
            barriers[loops] += count_barriers(statement)
        barriers = +barriers
        times = {loops: multiply(constant(loop.extent) for loop in loops) for loops in barriers}
        each = {loops: (times[loops] or math.inf) * barriers[loops] for loops in barriers if loops}
        static = [
            multiply([node.buffer.dtype.itemsize, *map(constant, node.buffer.shape)])
            for node in find_all(body, AllocBuffer)
            if str(node.buffer.scope()) == "shared"
        ]
        accesses: list[Accesses] = []
        nodes = {"load": find_all(body, TensorLoad), "store": find_all(body, BufferStore)}
        for scope, (kind, touched) in itertools.product(SCOPES, nodes.items()):
            places = [_read_access(node) for node in touched if _get_scope(node) == scope]
            widths = Counter(size * lanes for size, lanes in places)
            vectors = sum(lanes > 1 for _, lanes in places)
            if places:
                scalars = len(places) - vectors
                accesses.append(Accesses(scope, kind, dict(widths), vectors, scalars))
        # Conditions that decide over an access to memory that is not the thread's own.
        decided = [node.then_case for node in find_all(body, IfThenElse)]
        decided += [call.args[1] for call in find_all(body, Call) if is_choice(call)]
        guards = sum(
            bool(count_async_copies(node))
            or any(
                _get_scope(it) in SCOPES
                for it in (*find_all(node, TensorLoad), *find_all(node, BufferStore))
            )
            for node in decided
        )
        facts.append(
            KernelFacts(
                name=name,
                grid=_pick_axes(sizes, "blockIdx"),
                block=_pick_axes(sizes, "threadIdx"),
                static_shared_bytes=add_up(static),
                dynamic_shared_bytes=sizes.get(DYNAMIC_SHARED, 0),
                barriers=barriers.total(),
                barriers_per_step=barriers[max(each, key=each.__getitem__)] if each else 0,
                barriers_executed=add_up(
                    multiply((times[loops], count)) for loops, count in barriers.items()
                ),
                accesses=tuple(accesses),
                copies=count_async_copies(body),
                ldmatrix=calls["ldmatrix"],
                mma=calls["mma"],
                wgmma=calls["wgmma"],
                guards=guards,
            )
        )
    return tuple(facts), absent


def count_unrolled_loops(before: tvm.IRModule, after: tvm.IRModule) -> int:
    """Loops that TVM's pass unrolled, or left to the device's compiler to unroll.

    A loop that it unrolled is one whose variable is gone; a loop of one iteration is not counted.
    """
    left = [loop for function in after.functions.values() for loop in find_all(function, For)]
    kept = {loop.loop_var for loop in left if ForKind(loop.kind) != ForKind.UNROLLED}
    loops = [loop for function in before.functions.values() for loop in find_all(function, For)]
    return sum(loop.loop_var not in kept and constant(loop.extent) != 1 for loop in loops)


def _visit(statement: Any, loops: Loops) -> Iterator[tuple[Any, Loops]]:
    """Every innermost statement, with the loops around it, outermost first."""
    if isinstance(statement, For):
        loops = (*loops, statement)
    inner = get_children(statement)
    for child in inner:
        yield from _visit(child, loops)
    if not inner:
        yield statement, loops


def _get_scope(node: Any) -> str:
    """The scope of an access; static and dynamic shared memory are one."""
    buffer = node.source if isinstance(node, TensorLoad) else node.buffer
    return str(buffer.scope()).partition(".")[0] or "global"


def _read_access(node: Any) -> tuple[int, int]:
    """The bytes of an element, and the neighbouring elements that one access takes.

    Where they are no neighbours, the code generator takes them one by one.
    """
    dtype = (node.source if isinstance(node, TensorLoad) else node.buffer).dtype
    index, count = node.indices[-1], 1
    if isinstance(index, Ramp) and constant(index.stride) == 1:
        count = constant(index.lanes) or 1
    return dtype.itemsize // dtype.lanes, dtype.lanes * count


def _pick_axes(extents: Mapping[str, int | None], kind: str) -> dict[str, int | None]:
    """The axes of one kind, x first."""
    return {axis: extents[f"{kind}.{axis}"] for axis in "xyz" if f"{kind}.{axis}" in extents}


def count_matrix_calls(body: Any) -> Counter[str]:
    """How many calls of ``"ldmatrix"``, ``"mma"`` and ``"wgmma"``."""
    found: Counter[str] = Counter()
    for call in find_all(body, Call):
        name = get_op_name(call)
        if name == HELPER:
            text = _helper_text(call).replace('"', " ")
            found.update(key for key, word in IN_HELPERS.items() if word in text)
        else:
            name = name.rpartition(".")[2]
            is_product = name.startswith(_MATRIX_PRODUCTS) and not name.startswith(_NO_PRODUCTS)
            found["ldmatrix"] += name.startswith(_MATRIX_LOADS)
            found["wgmma"] += name.startswith("wgmma_") and name.endswith(_GROUP_PRODUCTS)
            found["mma"] += is_product
    return found


def count_async_copies(body: Any) -> dict[int, int]:
    """How many asynchronous copies from global to shared memory, by bytes."""
    found: Counter[int] = Counter()
    for call in find_all(body, Call):
        if get_op_name(call).rpartition(".")[2].startswith(_COPIES):
            # The last argument that can be a copy's size: sizes stand behind the places.
            sizes = [constant(argument) for argument in call.args]
            found[next((size for size in reversed(sizes) if size in COPY_BYTES), 0)] += 1
    return dict(found)


def count_barriers(statement: Any) -> int:
    """The barriers of the thread block that a statement runs into."""
    return sum(
        _helper_text(call).count("__syncthreads()")
        if get_op_name(call) == HELPER
        else is_barrier(call)
        for call in find_all(statement, Call)
    )


def _helper_text(call: Any) -> str:
    """The source that a call brings along: its last argument."""
    return str(getattr(call.args[-1], "value", ""))


def count_accesses(problem: AnyProblem, module: tvm.IRModule) -> Counts:
    """Count barriers, requests, bytes, sectors and bank conflicts of the first thread block.

    `module` is a step of the problem's kernel. No other thread block runs, so that large shapes
    take only as long as one block. It reads the problem's own inputs. Raises `DeviceError` for a
    module that cannot be launched, or that the simulator does not support.
    """
    obstacle = SimulatorDevice().find_obstacle(module)
    if obstacle is not None:
        raise DeviceError(f"there is no launch to count: {obstacle}; bind its loops first")
    with convert_tvm_errors("TVM does not lower the module", module):
        lowered = lower(module)
    if is_decided_by_memory(lowered["main"].body):
        blanks = [blank(tensor) for tensor in problem.outputs]
        arguments = problem.make_arguments(problem.integer_inputs(0), blanks)
    else:  # large inputs take longer to draw than to count
        arguments = [
            np.zeros(each.shape, dtype_facts(each.dtype).numpy) for each in problem.arguments
        ]
    require_arguments(module["main"].params, arguments)
    try:
        return simulate_lowered(lowered, arguments, first_only=True).counts
    except UnsupportedError as error:
        raise DeviceError(f"{error}; it cannot be counted") from error


def counted_rows(counts: Counts, least: int | None) -> Iterator[Fact]:
    """The counts as rows; a scope that the block does not access has none.

    `least` are the bytes that the kernel must move at least; None where they are not known.
    """
    yield Fact(COUNTED, "counted_barriers", "barriers passed", counts.barriers)
    by_warp = {
        "cp.async": counts.async_copies,
        "ldmatrix": counts.matrix_loads,
        "mma": counts.matrix_multiplies,
    }
    for name, count in by_warp.items():
        yield Fact(COUNTED, f"counted_{name.replace('.', '_')}", f"{name}, by warp", count)
    for scope in SCOPES:
        if scope not in counts.scopes:
            continue
        access = counts.scopes[scope]
        yield Fact(COUNTED, f"{scope}_requests", f"{scope} requests, by warp", access.requests)
        yield Fact(COUNTED, f"{scope}_traffic", f"{scope} traffic", access.bytes, "bytes")
        if scope == "global":
            yield Fact(COUNTED, "sectors", "32-byte sectors", access.sectors)
            times = round(counts.traffic / least, 2) if least else None
            name = "traffic of all thread blocks, as a multiple of the minimum"
            yield Fact(COUNTED, "traffic_over_least", name, times)
        else:
            per_request = round(access.wavefronts_per_request, 2)
            yield Fact(COUNTED, "wavefronts", "wavefronts", access.wavefronts)
            yield Fact(COUNTED, "wavefronts_per_request", "wavefronts per request", per_request)
            yield Fact(COUNTED, "bank_conflicts", "bank conflicts", access.bank_conflicts)
