"""A machine for benchmarks that needs no GPU: NumPy computes, and the clock shows what is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tirstep.bench import PeerMissing
from tirstep.bench.peers import PEERS, Peer
from tirstep.bench.results import Ceilings
from tirstep.bench.session import Expectation, Launch, Reference, Replay, order_turns, take_results
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.modules import Problem


class FakeMachine:
    """The CPU computes. `peers` are functions of the inputs; `slowness` is seconds by candidate.

    What a candidate is called is the order in which it was recorded, unless it is a peer.
    """

    def __init__(self) -> None:
        self.device: dict[str, object] = {"name": "Test GPU", "architecture": "sm_90"}
        self.versions = {"tirstep": "0", "apache-tvm": "0.27"}
        self.method: dict[str, object] = {"clock": "told"}
        self.target = tvm.target.Target("nvidia/nvidia-h100")
        self.free = 1 << 40
        self.peers: dict[str, Callable[..., Any]] = {"torch": lambda a, b: a @ b}
        self.seconds: list[float] = []
        self.recorded: list[Replay] = []
        self.runs: list[int] = []
        self.is_gone = False

    def free_bytes(self) -> int:
        return self.free

    def upload(self, array: Any) -> Any:
        return np.array(array)

    def poison(self, tensor: Any) -> None:
        tensor[...] = np.nan if tensor.dtype.kind == "f" else np.iinfo(tensor.dtype).min

    def compile(self, module: tvm.IRModule, arguments: Sequence[Any]) -> Launch:
        program = CpuDevice().compile(module)

        def launch() -> None:
            arrays = [
                np.asarray(it, None if isinstance(it, np.ndarray) else str(parameter.ty))
                for it, parameter in zip(arguments, module["main"].params, strict=True)
            ]
            for tensor, computed in zip(arguments, program(arrays), strict=True):
                if isinstance(tensor, np.ndarray):
                    tensor[...] = computed

        return launch

    def load(self, library: Path, arguments: Sequence[Any]) -> Launch:
        raise RuntimeError("no loader of that name is registered")

    def prepare_peer(self, peer: Peer, problem: Problem, arguments: Sequence[Any]) -> Launch:
        """Peers of the table are what a test put into `peers`; others compute themselves."""
        if PEERS.get(peer.name) is not peer:
            return peer.get_function(problem.kernel.name)(
                problem.take_inputs(arguments), None, problem
            )
        if peer.name not in self.peers:
            raise PeerMissing(f"{peer.name} is not installed")
        return lambda: self.peers[peer.name](*problem.take_inputs(arguments))

    def record(self, launch: Launch, outputs: Sequence[Any]) -> Replay:
        result = launch()
        replay = Replay(launch, take_results(result, outputs), "graph")
        self.recorded.append(replay)
        return replay

    def expect(self, reference: Reference) -> tuple[Expectation, ...]:
        outputs = zip(reference.problem.outputs, reference.right, reference.bound, strict=True)
        return tuple(Expectation(it.name, it.dtype, *arrays, np) for it, *arrays in outputs)

    def find_error(self, expectation: Expectation, output: Any) -> str | None:
        return expectation.find_error(np.asarray(output).astype(np.float64))

    def time(self, replays: Sequence[Replay], repeats: Sequence[int]) -> list[list[float]]:
        """The n-th replay that was ever recorded takes `seconds[n]`, or a millisecond."""
        times: list[list[float]] = [[] for _ in replays]
        for turn in order_turns(repeats):
            place = next(n for n, graph in enumerate(self.recorded) if graph is replays[turn])
            self.runs.append(place)
            times[turn].append(self.seconds[place] if place < len(self.seconds) else 1e-3)
        return times

    def measure_ceilings(self, dtypes: Sequence[str], moved: Sequence[int]) -> Ceilings:
        copies = {str(size): 2 + size / 4e6 for size in moved}
        return Ceilings(4e12, dict.fromkeys(dtypes, 6e13), 2.0, {"copy": "told"}, copies)

    def clear(self) -> None:
        if self.is_gone:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
