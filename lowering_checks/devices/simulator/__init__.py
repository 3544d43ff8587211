"""The device `simulator`: a GPU's semantics on the CPU.

It runs what TVM hands to its CUDA code generator: threads in batches, in step, with barriers,
registers, shared memory that buffers may share, shuffles, atomics, asynchronous copies whose data
arrives at the wait (cp.async, the TMA), mbarriers, clusters, and the matrices that one warp or four
hold together (ldmatrix, mma, wgmma) or that lie in tensor memory (tcgen05). A function of one's
own, as ``T.cuda.func_call`` calls it, is defined with `register_semantics`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.tirx import BufferStore

from tirstep.transforms.hopper.cluster_launch import get_capability
from tirstep.transforms.pass_options import is_tirx
from tirstep.transforms.tir import find_all

from ...compile.compiling import TARGET, compile_unrun, name_main, watch_passes
from ...device import (
    Array,
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    NotRunError,
    Program,
    convert_tvm_errors,
    require_launchable,
)
from .access_counts import Counts as Counts
from .function_semantics import Pointer as Pointer
from .function_semantics import Threads as Threads
from .function_semantics import register_semantics as register_semantics
from .memory import differ
from .merged_memory import find_shapes, get_origins
from .run_state import Shapes, get_location
from .run_state import UnknownFunctionError as UnknownFunctionError
from .run_state import UnsupportedError as UnsupportedError
from .sampling import BlockSample, estimate_seconds, require_separate_blocks
from .simulated_gpu import SimulatedGpu, TranslatedKernel

NEXT_PASS = "s_tir.MergeSharedMemoryAllocations"
END_OF_SHAPES = "tirx.LowerTIRx", "tirx.FlattenBuffer"
"""Passes that flatten buffers, which have the program's shapes before them."""
LAST_OF_TIRX = "tirx.VerifyMemory"
"""In TVM's pipeline of TIRx kernels, in front of the passes that split a module."""

ADDRESSES = "tirstep.addresses"
"""Of a function: where its arguments lie, if others hold these numbers (pointers, tensor maps)."""
GARBAGE = 0x7B, 0xFB, 0xFF
"""Bytes of large numbers of either sign, of float32 1.3e36, of float16 61,280; and of NaN."""


@dataclass(frozen=True)
class Simulation:
    """The result of a run: the arguments afterwards, findings, counts of the first thread block of
    each launch, and which elements of arguments were stored to, by their places."""

    arguments: Arrays
    findings: list[DeviceFinding]
    counts: Counts
    stored: Mapping[int, Array]


class SimulatorDevice(Device):
    """A GPU's threads, barriers, registers and shared memory, in NumPy; it needs no GPU.

    Attributes
    ----------
    counts : of the last run of any program that it compiled; None before
    """

    name = "simulator"
    description = "simulator of a GPU (NumPy)"

    def __init__(self) -> None:
        self.counts: Counts | None = None
        self._prepared: tuple[tuple[Any, ...], _Prepared] | None = None

    def estimate(self, module: tvm.IRModule, *, most_blocks: int | None = None) -> float:
        """About how many seconds a run of a module, or of about so many thread blocks of a launch,
        takes; 0 of one that TVM does not lower.
        """
        try:
            prepared = self._prepare(name_main(module))
        except DeviceError:
            return 0.0
        return estimate_seconds(prepared.function.body, most_blocks)

    def _prepare(self, module: tvm.IRModule) -> _Prepared:
        """A module as it runs, which is lowered once until another one comes."""
        functions = tuple(module.functions.values())
        if self._prepared is None or self._prepared[0] != functions:
            with convert_tvm_errors("TVM does not lower the module", module):
                self._prepared = functions, _Prepared(*_lower(module), is_tirx(module))
        return self._prepared[1]

    def compile(self, module: tvm.IRModule, *, most_blocks: int | None = None) -> Program:
        """Lower a module with TVM's own passes; the program's `findings` are those of its run.

        With `most_blocks` only about that many thread blocks of a launch run, as `Program.part`
        says; programs whose thread blocks may exchange values are then refused.
        """
        require_launchable(self, module)
        module = name_main(module)
        from ...facts.architectures import ARCHITECTURES  # which counts by the simulator

        known = {it.capability for it in ARCHITECTURES.values()}
        for function in module.functions.values():
            target = (function.attrs or {}).get("target")
            arch = "" if target is None else str(target.attrs.get("arch", ""))
            if (number := get_capability(arch)) > 90 and number not in known:
                raise NotRunError(f"the simulator does not know the limits of a GPU of {arch}")
        prepared = self._prepare(module)
        prepared.forget_runs()
        if most_blocks:
            require_separate_blocks(prepared.function.body)

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            with convert_tvm_errors("the simulator does not run the module"):
                try:
                    sample = BlockSample(most_blocks) if most_blocks else None
                    simulation = prepared.run(arguments, in_out=program.in_out, choose=sample)
                except UnknownFunctionError as error:
                    raise NotRunError(str(error)) from error
                except UnsupportedError as error:
                    raise NotRunError(f"{error}; choose another device") from error
            self.counts, program.stored = simulation.counts, simulation.stored
            program.part = "" if sample is None else str(sample)
            return simulation.arguments, simulation.findings

        program = Program(run, module["main"].params)
        program.find_unrun = prepared.find_unrun
        return program


def simulate(module: tvm.IRModule, arguments: Sequence[Array]) -> Simulation:
    """Run a scheduled module's ``main`` on copies of its arguments, with all checks."""
    return _Prepared(*_lower(module)).run(arguments)


def simulate_lowered(
    lowered: tvm.IRModule,
    arguments: Sequence[Array],
    *,
    first_only: bool = False,
) -> Simulation:
    """The same for a module that `lower` made, or that was changed after that.

    What runs is `merge_shared_memory` of it, which is what the GPU gets. With `first_only`, each
    launch is its first thread block only, and loops end where their counts come again: enough for
    counts, at any shape.
    """
    return _Prepared(lowered).run(arguments, first_only=first_only)


class _Prepared:
    """A lowered module with what all its runs need; `shapes` as of `RunState`.

    A kernel of TIRx `may_drop` what it loads of registers or shared memory that nobody stored to:
    its author says which rows of a tile exist. In a schedule, TVM would know of no such loads.
    """

    def __init__(
        self, lowered: tvm.IRModule, shapes: Shapes | None = None, may_drop: bool = False
    ) -> None:
        self._may_drop, self._shapes = may_drop, shapes or {}
        self.function = merge_shared_memory(lowered)["main"]
        self._origins = get_origins(lowered["main"].body, self.function.body)
        self._kernels: dict[Any, TranslatedKernel] = {}
        self.forget_runs()

    def run(
        self,
        arguments: Sequence[Array],
        *,
        first_only: bool = False,
        in_out: Collection[int] = (),
        choose: BlockSample | None = None,
    ) -> Simulation:
        shared: Any = {"origins": self._origins, "kernels": self._kernels, "shapes": self._shapes}
        function = self.function.params, self.function.body
        addresses = (self.function.attrs or {}).get(ADDRESSES, ())
        gpu = SimulatedGpu(first_only=first_only, choose=choose, **shared)
        results = gpu.run(*function, arguments, in_out, addresses)
        for statement in gpu.ran:
            self._unrun.pop(statement, None)
        findings = gpu.state.log.get_findings()
        if self._may_drop and gpu.state.log.has_only_unstored and not first_only:
            # It is no finding if the same is stored whatever is there.
            for byte in GARBAGE:
                again = SimulatedGpu(choose=choose and BlockSample(choose.most), **shared)
                again.state.garbage = byte
                others = again.run(*function, arguments, in_out, addresses)
                is_same = not any(differ(*pair).any() for pair in zip(results, others, strict=True))
                if not is_same or not again.state.log.has_only_unstored:
                    break
            else:
                findings = []
        return Simulation(results, findings, gpu.state.counts, gpu.stored)

    def forget_runs(self) -> None:
        """No store has run so far."""
        self._unrun = {hash(each): each for each in find_all(self.function.body, BufferStore)}

    def find_unrun(self) -> list[str]:
        """The stores that ran in no run so far, a sentence for each line."""
        said = {}
        for store in self._unrun.values():
            place = get_location(store)
            said[place or str(store.buffer.name)] = (
                f"line {place.rpartition(':')[2]} never ran"
                if place
                else f"a store to '{store.buffer.name}' never ran"
            )
        return [*said.values()]


def lower(module: tvm.IRModule, target: str = TARGET) -> tvm.IRModule:
    """The module behind TVM's passes that order threads and make copies asynchronous; a TIRx
    kernel, which orders its threads itself, as it is split into host and device.
    """
    return _lower(module, target)[0]


def _lower(module: tvm.IRModule, target: str = TARGET) -> tuple[tvm.IRModule, Shapes]:
    """The same, and what shapes the buffers had before TVM flattened them."""
    seen: dict[str, tvm.IRModule] = {}
    shapes: Shapes = {}

    def note(name: str, given: tvm.IRModule) -> None:
        if name in (NEXT_PASS, LAST_OF_TIRX):
            seen[name] = given.clone()  # which later passes change in place
        elif name in END_OF_SHAPES:
            shapes.update(find_shapes(given))

    compile_unrun(module, target, instruments=[watch_passes(before=note)])
    return seen.get(NEXT_PASS) or seen[LAST_OF_TIRX], shapes


def merge_shared_memory(lowered: tvm.IRModule) -> tvm.IRModule:
    """The module after TVM's next pass: dynamic shared memory is one allocation of bytes.

    Buffers may share their place there. A module that is merged already stays as it is.
    """
    return tvm.s_tir.transform.MergeSharedMemoryAllocations()(lowered)
