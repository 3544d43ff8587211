"""Times of models' functions on a GPU: tirstep's rules, dlight's default, and torch.compile.

python benchmarks/model_functions.py [--seconds 480] [PIECE...]

The pieces are those of examples/model_functions, at the sizes of a model of 8 billion parameters
and of a U-Net. Each function is compiled by a pool of processes, checked against dlight's, and
timed as `tirstep bench` does: a CUDA graph of one call, cold caches, in turns. The whole piece
runs through Relax's virtual machine, tirstep's with attention fused by `rules.FuseAttention`;
PyTorch computes the same through torch.compile. A table comes last.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pebble
import tvm
from tvm import relax
from tvm.s_tir import dlight
from tvm.tirx import PrimFunc

from tirstep.files import write_file

ROOT = Path(__file__).resolve().parents[1]
OURS, THEIRS, LEFT = "tirstep", "dlight", "left"
JOB_SECONDS = 300
"""That one function, or a whole piece, may take to be scheduled and compiled."""
ROUNDS = 15


def load_models() -> Any:
    """The example that makes the pieces."""
    place = ROOT / "examples" / "model_functions" / "models.py"
    spec = importlib.util.spec_from_file_location("model_functions", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


PIECES: Mapping[str, Callable[..., tvm.IRModule]] = {
    "llama-q4-decode": lambda it, **more: it.make_decoder(
        it.LARGE, 1, 1023, is_packed=True, **more
    ),
    "llama-f16-decode": lambda it, **more: it.make_decoder(
        it.LARGE, 1, 1023, is_packed=False, **more
    ),
    "llama-f16-prefill": lambda it, **more: it.make_decoder(
        it.LARGE, 512, 512, is_packed=False, **more
    ),
    "diffusion": lambda it, **more: it.make_diffusion(320, 64, text=768, groups=32, **more),
    "llama-q4-prefill": lambda it, **more: it.make_decoder(
        it.LARGE, 512, 512, is_packed=True, **more
    ),
}
"""In the order in which they are timed."""


def schedule_alone(function: PrimFunc, who: str, gpu: str, target: Any) -> tuple[Any, str]:
    """A function as the "main" of a module, scheduled by one of the two, and by which rule.

    What tirstep's rules leave goes to dlight's, as they are used together; the rule is "left" then.
    """
    if who == THEIRS:
        return schedule_by_dlight(tvm.IRModule({"main": function}), target), ""
    from tirstep import rules

    ours = rules.cuda(device=gpu, tensor_cores=True)
    for rule in ours:
        made = rule.apply(function, target, False)
        if made is not None:
            return made.mod, str(rule.name)
    return schedule_by_dlight(tvm.IRModule({"main": function}), target), LEFT


def schedule_by_dlight(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """By dlight's default; where one of its rules breaks, by its fallback alone."""
    from tirstep.bench.peers import get_plain_target, schedule_by_default

    try:
        return schedule_by_default(module, target)
    except (AssertionError, RuntimeError, ValueError):
        with get_plain_target(target):
            return dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(module.clone())


def build_alone(text: str, who: str, gpu: str, spelled: dict[str, object], file: str) -> str:
    """Compile one function into a library; the rule that took it. Runs in a process of the pool."""
    from tirstep.bench.compile_pool import lift_workspaces, write_workspaces
    from tirstep.lowering_checks.compile.compiling import compile_module, name_main

    target = tvm.target.Target(spelled)
    function = tvm.ir.load_json(text)
    scheduled, rule = schedule_alone(function, who, gpu, target)
    module, workspaces = lift_workspaces(name_main(scheduled))
    executable = compile_module(module, target)
    write_workspaces(workspaces, Path(file))
    executable.export_library(file)
    return rule


def build_whole(text: str, who: str, gpu: str, spelled: dict[str, object], file: str) -> str:
    """Compile a piece for the virtual machine into a library. Runs in a process of the pool."""
    target = tvm.target.Target(spelled)
    module = tvm.ir.load_json(text)
    for variable, function in module.functions_items():
        if isinstance(function, PrimFunc):
            made, _ = schedule_alone(function, who, gpu, target)
            symbol = function.attrs.get("global_symbol") if function.attrs else None
            main = made["main"].with_attr("tirx.is_scheduled", True)
            main = (
                main.with_attr("global_symbol", symbol)
                if symbol
                else main.without_attr("global_symbol")
            )
            module.update_func(variable, main)
    pipeline = {"tir_pipeline": "tirstep"} if who == OURS else {}
    relax.build(module, target, **pipeline).export_library(file)
    return ""


@dataclass
class TimedFunction:
    """A function, or a piece as a whole.

    Attributes
    ----------
    calls : how often the piece calls it
    rule : the rule of tirstep's that took it
    seconds : medians, by who computes
    failed : why somebody has no time
    differs : how far tirstep's results are from dlight's, as a share of the largest one
    """

    name: str
    calls: int = 1
    rule: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    differs: float = math.nan

    @property
    def ratio(self) -> float:
        """How many times as fast as dlight tirstep is."""
        return self.seconds.get(THEIRS, math.nan) / self.seconds.get(OURS, math.nan)


class Bench:
    """The pool, the GPU and the clock of a run."""

    def __init__(self, pool: Any, machine: Any, folder: Path, end: float) -> None:
        self.pool, self.machine, self.folder, self.end = pool, machine, folder, end
        self.gpu = self._name_gpu(str(machine.device["name"]))
        from tirstep.bench.compile_pool import spell_target

        self.spelled = spell_target(machine.target)
        if self.spelled.get("arch") == "sm_90":  # as a device says, whose code may have wgmma
            self.spelled["arch"] = "sm_90a"
        self.number = 0

    @staticmethod
    def _name_gpu(name: str) -> str:
        from tirstep.transforms.plans.roles import DEVICE
        from tirstep.transforms.recipes.time_model import GPUS

        return name if name in GPUS else DEVICE

    def submit(self, build: Any, node: Any, who: str) -> tuple[Any, str]:
        """A job of the pool, and the library that it writes."""
        self.number += 1
        file = str(self.folder / f"{self.number}.so")
        arguments = (tvm.ir.save_json(node), who, self.gpu, self.spelled, file)
        return self.pool.schedule(build, args=arguments, timeout=JOB_SECONDS), file

    def wait(self, job: Any) -> tuple[str, str]:
        """What a job returns, and why it failed."""
        try:
            return str(job.result(timeout=max(0.1, self.end - time.monotonic()))), ""
        except TimeoutError:
            return "", "no time left, or too long to compile"
        except Exception as error:  # of TVM's and the compilers' many kinds
            return "", f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"

    def time(
        self, launches: Mapping[str, Any], timed: TimedFunction, outputs: Sequence[Any]
    ) -> None:
        """Record and time launches, in turns, and compare what the first two wrote."""
        import torch

        replays, results = {}, {}
        for who, launch in launches.items():
            for output in outputs:
                output.zero_()
            try:
                replays[who] = self.machine.record(launch, outputs)
            except Exception as error:  # a kernel that does not run
                timed.failed[who] = f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"
                continue
            torch.cuda.synchronize()
            results[who] = [output.double() for output in outputs]
        if not replays:
            return
        seconds = self.machine.time([*replays.values()], [ROUNDS] * len(replays))
        for who, each in zip(replays, seconds, strict=True):
            timed.seconds[who] = statistics.median(each)
        if OURS in results and THEIRS in results:
            pairs = zip(results[OURS], results[THEIRS], strict=True)
            shares = [float((a - b).abs().max() / b.abs().max().clamp(min=1e-9)) for a, b in pairs]
            timed.differs = max(shares, default=math.nan)


def draw(torch: Any, shape: Sequence[int], dtype: str, scale: float = 0.05) -> Any:
    """A tensor of random numbers on the GPU."""
    if dtype == "uint32":  # PyTorch's shifts are of signed words
        return torch.randint(-(2**31), 2**31 - 1, tuple(shape), device="cuda", dtype=torch.int32)
    numbers = torch.randn(tuple(shape), device="cuda", dtype=torch.float32) * scale
    return numbers.to(getattr(torch, dtype))


def hand_over(tensor: Any) -> Any:
    """The same memory as a tensor of TVM's, whose words have no sign."""
    given = tvm.runtime.from_dlpack(tensor)
    if str(given.dtype) != "int32":
        return given
    return given._create_view(tuple(given.shape), "uint32")


def count_calls(module: tvm.IRModule) -> Counter[str]:
    """How often a piece calls each of its functions."""
    calls: Counter[str] = Counter()

    def visit(node: Any) -> None:
        if isinstance(node, relax.Call) and isinstance(
            node.args[0] if node.args else None, tvm.ir.GlobalVar
        ):
            calls[str(node.args[0].name_hint)] += 1

    relax.analysis.post_order_visit(module["forward"], visit)
    return calls


def time_functions(bench: Bench, module: tvm.IRModule, jobs: dict[Any, Any]) -> list[TimedFunction]:
    """Each function of a piece, by both."""
    import torch

    calls, found = count_calls(module), []
    for variable, function in module.functions_items():
        name = str(variable.name_hint)
        if not isinstance(function, PrimFunc):
            continue
        timed = TimedFunction(name, calls[name])
        found.append(timed)
        if time.monotonic() > bench.end:
            timed.failed[OURS] = "no time left"
            continue
        arguments = [
            draw(torch, [int(size) for size in it.shape], str(it.dtype)) for it in function.params
        ]
        given = [hand_over(tensor) for tensor in arguments]
        launches = {}
        for who in (OURS, THEIRS):
            job, file = jobs[name, who]
            rule, reason = bench.wait(job)
            timed.rule = timed.rule or rule
            try:
                if reason:
                    raise RuntimeError(reason)
                launches[who] = bench.machine.load(Path(file), given)
            except Exception as error:
                timed.failed[who] = str(error)
        bench.time(launches, timed, arguments[-1:])
        del arguments, given, launches
        torch.cuda.empty_cache()
        tell(timed)
    return found


def time_whole(
    bench: Bench, piece: str, module: tvm.IRModule, jobs: dict[Any, Any]
) -> TimedFunction:
    """The piece through the virtual machine, by both, and through torch.compile."""
    import torch
    import tvm_ffi

    timed = TimedFunction(piece)
    if time.monotonic() > bench.end:
        return timed
    named = {}
    for parameter in module["forward"].params:
        shape = [int(size) for size in parameter.ty.shape]
        scale = 1 / math.sqrt(math.prod(shape[1:]) or 1) if "weight" in parameter.name else 0.05
        named[str(parameter.name)] = draw(torch, shape, str(parameter.ty.dtype), scale)
    given = [hand_over(tensor) for tensor in named.values()]
    launches: dict[str, Any] = {}
    for who in (OURS, THEIRS):
        job, file = jobs["", who]
        _, reason = bench.wait(job)
        if reason:
            timed.failed[who] = reason
            continue
        machine = relax.VirtualMachine(tvm.runtime.load_module(file), tvm.cuda(0))
        function = machine["forward"]

        def launch(function: Any = function, kept: Any = machine) -> None:
            with tvm_ffi.use_torch_stream():
                function(*given)

        launches[who] = launch
    try:
        compute = torch.compile(make_torch(piece, named))
        compute()
        torch.cuda.synchronize()
        launches["torch.compile"] = compute
    except Exception as error:
        timed.failed["torch.compile"] = f"{type(error).__name__}: {str(error)[-300:]}"
    bench.time(launches, timed, [])
    tell(timed)
    return timed


def make_torch(piece: str, p: Mapping[str, Any]) -> Callable[[], Any]:
    """The computation of a piece in PyTorch, on its parameters by their names."""
    return (lambda: compute_diffusion(p)) if piece == "diffusion" else (lambda: compute_decoder(p))


def compute_decoder(p: Mapping[str, Any]) -> Any:
    """`Decoder` of the example, in PyTorch."""
    import torch
    from torch.nn import functional as F

    def multiply(x: Any, name: str) -> Any:
        if f"{name}.weight" in p:
            return F.linear(x, p[f"{name}.weight"])
        words, scales = p[f"{name}.words"], p[f"{name}.scales"]
        shifts = torch.arange(0, 32, 4, device=words.device, dtype=torch.int32)
        bits = (words[:, :, None] >> shifts) & 15
        groups = bits.reshape(words.shape[0], -1, 32).to(x.dtype) - 7
        return F.linear(x, (groups * scales[:, :, None]).reshape(words.shape[0], -1))

    def turn(x: Any) -> Any:
        first, second = x.chunk(2, -1)
        return x * p["cosines"] + torch.cat([-second, first], -1) * p["sines"]

    def norm(x: Any, name: str) -> Any:
        return F.rms_norm(x, (x.shape[-1],), p[f"{name}.weight"], 1e-5)

    x, (_, past, shared, size) = p["x"], p["keys"].shape
    batch, rows, width = x.shape
    heads = width // size
    each = multiply(norm(x, "first_norm"), "inputs").view(batch, rows, heads + 2 * shared, size)
    q, k, v = each.split([heads, shared, shared], 2)
    q, k = turn(q), turn(k)
    k, v = torch.cat([p["keys"], k], 1), torch.cat([p["values"], v], 1)
    k, v = (part.repeat_interleave(heads // shared, 2).transpose(1, 2) for part in (k, v))
    mask = torch.cat([torch.zeros(1, 1, rows, past, device=x.device, dtype=x.dtype), p["mask"]], -1)
    mixed = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=mask)
    x = x + multiply(mixed.transpose(1, 2).reshape(x.shape), "mix")
    gate, up = multiply(norm(x, "second_norm"), "gate_and_up").chunk(2, -1)
    x = x + multiply(F.silu(gate) * up, "down")
    return torch.softmax(multiply(norm(x, "last_norm"), "scores").float(), -1)


def compute_diffusion(p: Mapping[str, Any], heads: int = 4, groups: int = 32) -> Any:
    """`Diffusion` of the example, in PyTorch."""
    from torch.nn import functional as F

    def group_norm(x: Any, number: int) -> Any:
        return F.group_norm(x, groups, p[f"norms.{number}.weight"], p[f"norms.{number}.bias"])

    def row_norm(x: Any, number: int) -> Any:
        name = f"row_norms.{number}"
        return F.layer_norm(x, (x.shape[-1],), p[f"{name}.weight"], p[f"{name}.bias"])

    def convolve(x: Any, number: int) -> Any:
        name = f"convolutions.{number}"
        return F.conv2d(x, p[f"{name}.weight"], p[f"{name}.bias"], padding=1)

    def linear(x: Any, name: str) -> Any:
        return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))

    def attend(x: Any, other: Any, number: int) -> Any:
        parts = []
        for name, read in (("inputs", x), ("keys", other), ("values", other)):
            made = linear(read, f"{name}.{number}")
            parts.append(made.view(*made.shape[:2], heads, -1).transpose(1, 2))
        mixed = F.scaled_dot_product_attention(*parts)
        return linear(mixed.transpose(1, 2).reshape(x.shape), f"mixes.{number}")

    x = p["x"]
    batch, channels, height, width = x.shape
    inner = convolve(F.silu(group_norm(x, 0)), 0)
    inner = inner + linear(F.silu(p["time"]), "of_time").view(batch, channels, 1, 1)
    x = x + convolve(F.silu(group_norm(inner, 1)), 1)
    rows = group_norm(x, 2).permute(0, 2, 3, 1).reshape(batch, height * width, channels)
    normed = row_norm(rows, 0)
    rows = rows + attend(normed, normed, 0)
    rows = rows + attend(row_norm(rows, 1), p["text"], 1)
    plain, gate = linear(row_norm(rows, 2), "wide").chunk(2, -1)
    rows = rows + linear(plain * F.gelu(gate), "narrow")
    back = rows.view(batch, height, width, channels).permute(0, 3, 1, 2)
    return convolve(F.interpolate(x + back, scale_factor=2.0, mode="nearest"), 2)


def tell(timed: TimedFunction) -> None:
    """One line on standard error."""
    times = ", ".join(f"{who} {1e6 * seconds:.1f} us" for who, seconds in timed.seconds.items())
    failed = "; ".join(f"{who}: {reason}" for who, reason in timed.failed.items())
    apart = "" if math.isnan(timed.differs) else f", differs by {timed.differs:.0e}"
    print(
        f"  {timed.name} ({timed.rule or '-'}, {timed.calls} calls): {times or 'no times'}"
        f"{apart}; {failed}",
        file=sys.stderr,
        flush=True,
    )


def describe(piece: str, functions: Sequence[TimedFunction], whole: TimedFunction) -> str:
    """The line of a piece in the table."""
    both = [each for each in functions if len(each.seconds) == 2]
    ratios = [each.ratio for each in both]
    mean = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan
    sums = [1e6 * sum(it.calls * it.seconds[who] for it in both) for who in (OURS, THEIRS)]
    wholes = [whole.seconds.get(who, math.nan) * 1e6 for who in (OURS, THEIRS, "torch.compile")]
    wrong = sum(not each.differs <= 0.05 for each in both)
    return (
        f"{piece:18} {len(both):3} of {len(functions):2} {mean:6.2f} {sums[0]:9.0f} {sums[1]:9.0f} "
        + " ".join(f"{each:9.0f}" for each in wholes)
        + f" {wrong:5}"
    )


def main() -> int:
    """Time the pieces, print their table, and write all numbers where `--save` says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=", ".join(PIECES))
    parser.add_argument("--seconds", type=float, default=480, help="that all may take")
    parser.add_argument("--save", type=Path, help="a file of JSON for all times")
    arguments = parser.parse_args()
    if unknown := {*arguments.pieces} - {*PIECES}:
        parser.error(f"there is no piece {', '.join(unknown)}; there are {', '.join(PIECES)}")
    from tirstep import rules
    from tirstep.bench.torch_machine import TorchMachine
    from tirstep.processes import count_cores

    models, end = load_models(), time.monotonic() + arguments.seconds - 15
    lines, document = [], {}
    with (
        tempfile.TemporaryDirectory() as folder,
        pebble.ProcessPool(
            max_workers=count_cores(), context=multiprocessing.get_context("spawn")
        ) as pool,
    ):
        bench = Bench(pool, TorchMachine(), Path(folder), end)
        pieces = {name: PIECES[name](models) for name in arguments.pieces or PIECES}
        every: dict[str, dict[Any, Any]] = {}
        for name, module in pieces.items():
            nodes = {str(it.name_hint): function for it, function in module.functions_items()}
            nodes = {each: it for each, it in nodes.items() if isinstance(it, PrimFunc)}
            every[name] = {
                (each, who): bench.submit(build_alone, node, who)
                for each, node in nodes.items()
                for who in (OURS, THEIRS)
            }
            fused = PIECES[name](models, first=[rules.FuseAttention()])
            for who, whole in ((OURS, fused), (THEIRS, module)):
                every[name]["", who] = bench.submit(build_whole, whole, who)
        for name, module in pieces.items():
            print(f"{name}:", file=sys.stderr)
            functions = time_functions(bench, module, every[name])
            whole = time_whole(bench, name, module, every[name])
            lines.append(describe(name, functions, whole))
            document[name] = [vars(each) for each in (*functions, whole)]
        pool.stop()
    if arguments.save:
        write_file(arguments.save, json.dumps(document, indent=1))
    print(f"{bench.machine.device['name']}; us; the middle of {ROUNDS} runs with cold caches")
    print(
        "piece             functions   mean sum: ours    dlight all: ours    dlight     torch wrong"
    )
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
