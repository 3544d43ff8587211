"""Lowered kernels in a few lines of TVMScript."""

from __future__ import annotations

import textwrap

import numpy as np
import tvm
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.script import from_source
from tvm.tirx import transform
from tvm.tirx.compilation_pipeline import PIPELINE_MAP

from tirstep.lowering_checks.devices.simulator import Simulation, simulate_lowered

REST = "tirstep: what is after the simulator's last pass"
"""The name of a pipeline that compiles lowered kernels."""
_HEAD = """\
# from tvm.script import ir as I
# from tvm.script import tirx as T
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main({parameters}):
        T.func_attr({{"tirx.is_entry_func": True, "tirx.noalias": True}})
"""


def write_kernel(
    arrays: dict[str, np.ndarray],
    *bodies: str,
    blocks: int = 1,
    threads: int = 32,
    host: str = "",
) -> tvm.IRModule:
    """A module of one launch for each body, in which bx and tx are block and thread.

    Lines of a body before ``---`` stand around the threads: allocations of shared memory. Those of
    `host` stand before all launches.
    """
    parameters = ", ".join(
        f'{name}: T.Buffer(({array.size},), "{array.dtype}")' for name, array in arrays.items()
    )
    text = _HEAD.format(parameters=parameters) + textwrap.indent(textwrap.dedent(host), " " * 8)
    for body in bodies:
        before, _, inside = textwrap.dedent(body).rpartition("---\n")
        text += f'        with T.launch_thread("blockIdx.x", {blocks}) as bx:\n'
        text += textwrap.indent(before, " " * 12)
        text += f'            with T.launch_thread("threadIdx.x", {threads}) as tx:\n'
        text += textwrap.indent(inside.strip("\n"), " " * 16) + "\n"
    return from_source(text)


def run_kernel(
    arrays: dict[str, np.ndarray],
    *bodies: str,
    blocks: int = 1,
    threads: int = 32,
    host: str = "",
) -> Simulation:
    """What the simulator makes of such a module."""
    module = write_kernel(arrays, *bodies, blocks=blocks, threads=threads, host=host)
    return simulate_lowered(module, list(arrays.values()))


def find_kinds(simulation: Simulation) -> list[str]:
    """The kinds of a run's faults, each once."""
    return list(dict.fromkeys(fault.kind for fault in simulation.findings))


def _make_rest() -> tuple[object, object, object]:
    """TVM's default pipeline after the last pass of `tirstep...simulator.lower`."""
    _, host, device = default_s_tir_pipeline()
    passes = [
        tvm.s_tir.transform.MergeSharedMemoryAllocations(),
        transform.SplitHostDevice(),
        transform.MakePackedAPI(),
        transform.FP8StorageLegalize(),
        transform.BF16StorageLegalize(),
    ]
    return tvm.transform.Sequential(passes), host, device


PIPELINE_MAP[REST] = _make_rest
