"""The machine for real: one GPU through PyTorch, whose stream, tensors and clock all share.

TVM's kernels read and write PyTorch's tensors (DLPack) on PyTorch's stream, so that all candidates
are launched, recorded and timed in one way.
"""

from __future__ import annotations

import contextlib
import math
import platform
import subprocess
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
import tvm_ffi

from tirstep.lowering_checks import DeviceError
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.device import convert_tvm_errors
from tirstep.lowering_checks.devices import find_unbound_sblocks
from tirstep.modules import Problem, kernels
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.error_bounds import bound_exact, bound_storing
from tirstep.modules.inputs import Array
from tirstep.processes import count_cores

from .compile_pool import Workspaces, lift_workspaces, prepare_compiler, read_workspaces
from .peers import PEERS, Peer
from .peers.torch_functions import FUNCTIONS
from .results import Ceilings
from .session import Expectation, Launch, Reference, Replay, order_turns, take_results


def to_torch(array: Array) -> Any:
    """A tensor of the CPU; PyTorch takes no types of ml_dtypes, but their bits."""
    array = np.asarray(array, order="C")  # of no dimension too, which stays one
    if array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = torch.from_numpy(array.view(f"u{array.itemsize}"))
        return bits.view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


FLUSH_OVER_L2 = 2
"""Each of the two buffers that clear the caches is this often the L2 cache."""
WARM_UP_SECONDS = 0.2
"""How long candidates run before the clock counts: an idle GPU has slower clocks."""


class TorchMachine:
    """The first CUDA device of this process; float32 is computed in float32 (no TF32)."""

    def __init__(self) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        # Sums of half types in float32, as the kernels here have them.
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cudnn.benchmark = True  # cuDNN tries its algorithms, as a user would let it
        self._gpu = torch.device("cuda", 0)
        # Graphs can be recorded on a stream that is not the default one.
        torch.cuda.set_stream(torch.cuda.Stream(self._gpu))
        prepare_compiler()
        self._properties = torch.cuda.get_device_properties(self._gpu)
        self.target = tvm.target.Target.from_device(tvm.cuda(0))
        self._flushing = self._record_flush()

    @property
    def device(self) -> dict[str, object]:
        """Name, architecture, memory in bytes, and the like."""
        properties = self._properties
        return {
            "name": str(properties.name),
            "architecture": str(self.target.attrs["arch"]),
            "multiprocessors": int(properties.multi_processor_count),
            "memory_bytes": int(properties.total_memory),
            "l2_bytes": int(properties.L2_cache_size),
            "cpu": platform.processor() or platform.machine(),
            "cpu_cores": count_cores(),
        }

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the driver, CUDA and the packages, as far as they are installed."""
        import tirstep

        found = {"tirstep": tirstep.__version__, "python": platform.python_version()}
        packages = ("apache-tvm", "apache-tvm-ffi", *(peer.package for peer in PEERS.values()))
        for package in dict.fromkeys(filter(None, packages)):
            with contextlib.suppress(PackageNotFoundError):
                found[package] = version(package)
        found["cuda"] = str(torch.version.cuda)
        found["cudnn"] = str(torch.backends.cudnn.version())
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
            if driver := done.stdout.strip():
                found["driver"] = driver
        return found

    @property
    def method(self) -> dict[str, object]:
        """How times are taken."""
        return {
            "clock": "CUDA events around one replay of a CUDA graph of one call",
            "caches": "before each run a buffer is written and another one read, each "
            f"{FLUSH_OVER_L2} times the L2 cache",
            "flush_bytes": 2 * FLUSH_OVER_L2 * self._properties.L2_cache_size,
            "order": "candidates take turns, each round begins with another one",
            "checked": "against float64 before and after the timed runs, outputs filled with NaN",
        }

    def free_bytes(self) -> int:
        """Device memory that is not in use."""
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(self._gpu)[0])

    def upload(self, array: Array) -> Any:
        """A tensor on the GPU with what an array holds."""
        return to_torch(array).to(self._gpu)

    def poison(self, tensor: Any) -> None:
        """Fill with NaN, or with the smallest integer."""
        is_float = tensor.dtype.is_floating_point
        tensor.fill_(math.nan if is_float else torch.iinfo(tensor.dtype).min)

    def compile(self, module: tvm.IRModule, arguments: Sequence[Any]) -> Launch:
        """Compile for the GPU; raises `DeviceError` for a module that no loop binds to it."""
        if unbound := find_unbound_sblocks(module):
            raise DeviceError(f"not bound to the GPU: {', '.join(unbound)}; bind their loops")
        lifted, workspaces = lift_workspaces(module)
        with convert_tvm_errors("CUDA does not compile the module", module):
            function = compile_module(lifted, self.target)["main"]
        return _launch(function, [*arguments, *self._provide(workspaces)])

    def load(self, library: Path, arguments: Sequence[Any]) -> Launch:
        """The same for what another process compiled into a file."""
        function = tvm.runtime.load_module(str(library))["main"]
        return _launch(function, [*arguments, *self._provide(read_workspaces(library))])

    def _provide(self, workspaces: Workspaces) -> list[Any]:
        """Tensors that live as long as the launch; what nobody writes shows as NaN."""
        tensors = []
        for shape, dtype in workspaces:
            tensors.append(torch.empty(shape, dtype=getattr(torch, dtype), device=self._gpu))
            self.poison(tensors[-1])
        return tensors

    def prepare_peer(self, peer: Peer, problem: Problem, arguments: Sequence[Any]) -> Launch:
        """A peer's launch; raises `PeerMissing`."""
        if peer.schedule is not None:
            return self.compile(peer.schedule(problem.module, self.target), arguments)
        inputs, outputs = problem.take_inputs(arguments), problem.take_outputs(arguments)
        function = peer.get_function(problem.kernel.name)
        return function(inputs, outputs[0] if len(outputs) == 1 else tuple(outputs), problem)

    def record(self, launch: Launch, outputs: Sequence[Any]) -> Replay:
        """Run once and record a CUDA graph; where that fails, the launch itself is replayed."""
        result = launch()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            # By thread, since others may compile meanwhile.
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                result = launch()
            finally:
                graph.capture_end()
            graph.replay()
            torch.cuda.synchronize()
        except RuntimeError:
            torch.cuda.synchronize()  # raises if it was the kernel that failed
            result = launch()
            return Replay(launch, take_results(result, outputs), "call")
        kept = (launch, graph)
        return Replay(graph.replay, take_results(result, outputs), "graph", kept)

    def has_reference(self, problem: Problem) -> bool:
        """For our sums of products, and for meanings that take tensors: NumPy takes long."""
        if len(problem.outputs) > 1 or not isinstance(problem, Problem):
            return False
        if problem.kernel.meaning.takes_tensors:
            return True
        name = problem.kernel.name  # somebody else's kernel may have one of ours
        return problem.is_exact and name in FUNCTIONS and kernels().get(name) is problem.kernel

    def expect(self, reference: Reference) -> tuple[Expectation, ...]:
        """In float64, on the GPU where that `has_reference`."""
        if self.has_reference(reference.problem):
            return (self._expect_here(reference),)
        found = []
        arrays = zip(reference.problem.outputs, reference.right, reference.bound, strict=True)
        for output, *pair in arrays:
            doubles = (np.asarray(array, np.float64, order="C") for array in pair)
            expected, bound = (torch.from_numpy(array).to(self._gpu) for array in doubles)
            found.append(Expectation(output.name, output.dtype, expected, bound, torch))
        return tuple(found)

    def _expect_here(self, reference: Reference) -> Expectation:
        problem, inputs = reference.problem, reference.inputs
        name, dtype = problem.outputs[0].name, problem.outputs[0].dtype
        doubles = [self.upload(array).double() for array in inputs]
        if problem.kernel.meaning.takes_tensors:
            acc = dtype_facts(problem.accumulator)
            constants = {**problem.shape, **problem.options, "xp": torch}
            units = {"u": acc.unit_roundoff, "tiny": acc.underflow}
            with self._gpu:  # tensors that are made on the way belong there too
                expected = problem.kernel.ask("reference", *doubles, **constants)
                error = problem.kernel.ask("error", *doubles, **units, **constants)
            bound = bound_storing(expected, error, dtype, torch)
            return Expectation(name, dtype, expected, bound, torch)
        function = FUNCTIONS[problem.kernel.name]
        expected = function(doubles, None, problem)().clone()
        if reference.is_exact:
            expected = expected.to(getattr(torch, dtype)).double()
            return Expectation(name, dtype, expected, 0 * expected, torch)
        magnitudes = function([double.abs() for double in doubles], None, problem)().clone()
        terms = function([(double != 0).double() for double in doubles], None, problem)()
        error = bound_exact(problem, magnitudes, terms, torch)
        bound = bound_storing(expected, error, dtype, torch)
        return Expectation(name, dtype, expected, bound, torch)

    def find_error(self, expectation: Expectation, output: Any) -> str | None:
        """Hold an output, of the GPU or of the CPU, against what it must be."""
        torch.cuda.synchronize()
        tensor = output if isinstance(output, torch.Tensor) else to_torch(np.asarray(output))
        name = str(tensor.dtype).removeprefix("torch.")
        return expectation.stored_in(name).find_error(tensor.to(self._gpu).double())

    def time(self, replays: Sequence[Replay], repeats: Sequence[int]) -> list[list[float]]:
        """Seconds of each run of each replay, by events."""
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_UP_SECONDS:
            self._flushing.run()
            torch.cuda.synchronize()
        pairs: list[list[tuple[Any, Any]]] = [[] for _ in replays]
        for turn in order_turns(repeats):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._flushing.run()
            start.record()
            replays[turn].run()
            end.record()
            pairs[turn].append((start, end))
        torch.cuda.synchronize()
        return [[start.elapsed_time(end) / 1e3 for start, end in events] for events in pairs]

    def measure_ceilings(self, dtypes: Sequence[str], moved: Sequence[int]) -> Ceilings:
        """See `tirstep.bench.ceilings`."""
        from .ceilings import measure_ceilings

        return measure_ceilings(self, self._properties, dtypes, moved)

    def clear(self) -> None:
        """Give back memory that nobody uses any more."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def _record_flush(self) -> Replay:
        """What makes the caches cold: it writes one buffer, and reads another one.

        Lines that were only written would be written back while the next kernel is timed. The
        replay keeps the buffers alive, which a graph by itself does not.
        """
        words = FLUSH_OVER_L2 * self._properties.L2_cache_size // 4
        written, read = (torch.ones(words, device=self._gpu) for _ in range(2))
        largest = torch.zeros((), device=self._gpu)

        def flush() -> None:
            written.fill_(1)
            torch.amax(read, dim=0, out=largest)

        return self.record(flush, [largest])


def _launch(function: Any, arguments: Sequence[Any]) -> Launch:
    """A launch on PyTorch's stream."""

    def launch() -> None:
        with tvm_ffi.use_torch_stream():
            function(*arguments)

    return launch
