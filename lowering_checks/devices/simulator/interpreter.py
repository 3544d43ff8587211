"""Runs modules of any stage: as a schedule leaves them, and after each of TVM's passes.

A slow and neutral reading of TIR, for finding the first step or pass that is wrong. What stands
outside of thread-bound loops runs as plain loops; within them, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm.tirx import AttrStmt, BufferStore, For, IfThenElse

from tirstep.transforms.pass_options import is_tirx
from tirstep.transforms.tir import THREAD_EXTENT, constant, get_children

from ...compile.compiling import MAIN, launch_tirx, name_main
from ...device import (
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    NotRunError,
    Program,
    close_for,
    convert_tvm_errors,
    get_open_sizes,
    get_reason,
)
from .flatten import flatten
from .merged_memory import find_shapes
from .run_state import Shapes, UnsupportedError
from .sampling import BlockSample, estimate_seconds, require_separate_blocks
from .simulated_gpu import SimulatedGpu

MAX_STORES, MAX_SECONDS = 2_000_000, 30.0
"""Stores on the host, and about how long launches take, before the interpreter declines."""
MAX_REGISTERS = 1 << 27


@contextmanager
def _converting_errors() -> Iterator[None]:
    """Any error becomes a `DeviceError`: a module that a pass has spoiled may be anything."""
    try:
        yield
    except DeviceError:
        raise
    except UnsupportedError as error:
        raise DeviceError(str(error)) from error
    except Exception as error:
        told = f"the interpreter fails: {type(error).__name__}: {get_reason(error)}"
        raise DeviceError(told) from error


class Interpreter(Device):
    """A device for modules of any stage.

    `in_order`: the module stands before TVM's pass that inserts barriers, and threads wait for one
    another after every store. `is_compact`: it stands behind the pass that makes buffers as small
    as a thread block needs, so that shared memory can be counted; by default where it is not
    `in_order`. `at_once`: iterations of data-parallel blocks run at once where there are few
    threads (see `flatten.bind_parallel_loops`). `shapes` are those that buffers had before TVM
    flattened them (`find_shapes`), in which findings name elements.

    Attributes
    ----------
    has_spread : whether it did that in the module that was compiled last
    deadline : by `time.monotonic`, when a run gives up; None for never
    """

    name = "interpreter"
    description = "interpreter of TIR (NumPy)"

    def __init__(
        self,
        *,
        in_order: bool = True,
        is_compact: bool | None = None,
        at_once: bool = True,
        shapes: Shapes | None = None,
    ) -> None:
        self.in_order, self.at_once, self.shapes = in_order, at_once, shapes or {}
        self.is_compact = not in_order if is_compact is None else is_compact
        self.has_spread = False
        self.deadline: float | None = None

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """None: what cannot be run raises when it is compiled or run."""
        return None

    def estimate(self, module: tvm.IRModule) -> float:
        """About how many seconds its launches take; 0 of what is refused, or leaves sizes open."""
        function = next(iter(module.functions.values()))
        if get_open_sizes(function):
            return 0.0
        try:
            return estimate_seconds(self._flatten(function)[0])
        except DeviceError:
            return 0.0

    @_converting_errors()
    def compile(self, module: tvm.IRModule, *, most_blocks: int | None = None) -> Program:
        """Take in a module; raises `DeviceError` for one that cannot be run as it stands.

        Sizes that it leaves open are known, and what depends on them is refused, when it is run.
        `most_blocks` is that of `SimulatorDevice.compile`.
        """
        module = name_main(module)
        if len(module.functions) != 1:
            raise DeviceError("the interpreter runs modules of one function")
        if is_tirx(module):  # whose threads wait for one another where it says so
            self.in_order = False
            with convert_tvm_errors("TVM does not lower the kernel", module):
                module = launch_tirx(module)
        function, shapes = module[MAIN], {**self.shapes, **find_shapes(module)}
        flat = None if get_open_sizes(function) else self._flatten(function)
        if flat and most_blocks:
            require_separate_blocks(flat[0])

        @_converting_errors()
        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            body, parameters, has_threads = flat or self._flatten(close_for(function, arguments))
            if (seconds := estimate_seconds(body, most_blocks)) > MAX_SECONDS:
                raise NotRunError(
                    f"its launches take about {seconds:,.0f} s, which is too much to interpret; "
                    "choose a smaller shape"
                )
            sample = BlockSample(most_blocks) if most_blocks else None
            modes: Any = {"in_order": self.in_order, "is_compact": self.is_compact}
            gpu = SimulatedGpu(**modes, choose=sample, shapes=shapes)
            gpu.deadline, gpu.most_registers = self.deadline, MAX_REGISTERS
            gpu.promotes = has_threads
            results = gpu.run(parameters, body, arguments, program.in_out)
            program.stored, program.part = gpu.stored, "" if sample is None else str(sample)
            return results, gpu.state.log.get_findings()

        program = Program(run)
        return program

    @_converting_errors()
    def _flatten(self, function: Any) -> tuple[Any, tuple[Any, ...], bool]:
        """A function as it runs: its body, its parameters, and whether it has threads."""
        modes = {"in_order": self.in_order, "at_once": self.at_once}
        body, parameters, self.has_spread, has_threads = flatten(function, **modes)
        if (stores := _count_stores(body)) > MAX_STORES:  # it would take minutes
            raise DeviceError(
                f"the module stores {stores} times, which is too much to interpret; "
                "choose a smaller shape"
            )
        return body, parameters, has_threads


def _count_stores(node: Any) -> int:
    """How often the host stores."""
    if isinstance(node, BufferStore):
        return 1
    if isinstance(node, AttrStmt) and node.attr_key == THREAD_EXTENT:
        return 0
    times = constant(node.extent) or 1 if isinstance(node, For) else 1
    children = get_children(node)[: 1 if isinstance(node, IfThenElse) else None]
    return times * sum(map(_count_stores, children))
