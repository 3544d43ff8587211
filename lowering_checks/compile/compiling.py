"""How a module is compiled: for which target, with which options, and within which limits.

What a compilation may cost are the copies and vectors that TVM would make, counted beforehand. TVM
unrolls without a bound, and nothing stops it from Python. Measured on one core: 2048 copies of a
multiply-add take 1.5 s to become CUDA source, 13 s with LLVM and 54 s with NVRTC; 4096 take 105 s
with LLVM and more than 100 s with NVRTC. A vector of 256 lanes takes LLVM 3 s, one of 1024 three
minutes. Loops that are left to NVIDIA's compiler (``pragma_unroll_explicit=0``) cost TVM nothing,
and NVRTC 3.5 s for 65536 copies.

TVM is C++ and cannot be interrupted, but it calls instruments between its passes: there an error
ends a compilation that takes too long.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, NamedTuple

import tvm
from tvm.ir import TensorLoad
from tvm.ir.instrument import pass_instrument
from tvm.tirx import BufferStore, Evaluate, For, ForKind, IfThenElse, PrimFunc

from tirstep.transforms import get_pass_options, get_pipeline
from tirstep.transforms.hopper.tma_tiles import TMA_STAGES
from tirstep.transforms.pass_options import is_tirx
from tirstep.transforms.tir import LARGEST_INDEX, constant, find_all, get_axis, get_children

from ..device import DeviceError, NotRunError
from ..steps import CheckError, suggest

TARGET = "nvidia/nvidia-h100"
"""What is compiled for by default; its source compiles for older GPUs, too."""
UNOPTIMIZED = '{"kind": "llvm", "opt-level": 0}'
"""LLVM for what runs shortly or not at all: its own passes take most of a compilation's time."""
KINDS = ("cuda", "opencl", "metal", "webgpu", "llvm")
"""The kinds of targets whose source tirstep reads."""
MAIN = "main"
COMPILER = "tvm_callback_cuda_compile"
"""The function that TVM's registry has for CUDA source; where there is a GPU it is called."""
UNCOMPILED = b"not compiled"
_chosen_pipeline: ContextVar[str | None] = ContextVar("pipeline", default=None)
_keeps_source: ContextVar[bool] = ContextVar("keeps_source", default=False)
_registered: Any = None  # the function that register_compiler made


TRAITS = re.compile(
    r"^ *#include <cuda/std/type_traits>\n *namespace std \{\n(?: *using cuda::std::\w+;\n)+ *\}\n",
    re.MULTILINE,
)
"""As TVM 0.27 writes it, for NVRTC alone."""
STANDARD = re.compile(r"(?<!/)\bstd\b(?!\s*::\s*u?int\d+_t\b)")
"""The namespace for anything but integers; in a header's path it is no namespace."""


@contextmanager
def using_pipeline(name: str | None) -> Iterator[None]:
    """While this lasts, modules are compiled with this pipeline, whatever they ask for."""
    token = _chosen_pipeline.set(name)
    try:
        yield
    finally:
        _chosen_pipeline.reset(token)


def compile_module(
    module: tvm.IRModule,
    target: Any,
    *,
    instruments: Sequence[Any] = (),
    pipeline: str | None = None,
) -> Any:
    """Compile a module in `pass_context`; returns TVM's executable.

    `pipeline` is the name of one registered with TVM; without it, that of `using_pipeline`, or the
    one that the module asks for (`tirstep.transforms.set_pipeline`).

    Raises `DeviceError` for a module that would be copied too often (`require_compilable`) or that
    takes too long (`SECONDS`), and what TVM raises where it refuses.
    """
    require_compilable(module)
    seconds, start = read_limit(SECONDS_VARIABLE, SECONDS), time.monotonic()
    begun: list[float] = []  # passes run others
    longest, sentence = (0.0, ""), ""

    def require_time() -> None:
        nonlocal sentence
        if time.monotonic() - start > seconds:
            where = f", {longest[0]:.1f} s of them in TVM's {longest[1]}" if longest[1] else ""
            sentence = f"compiling took more than {seconds:g} s{where}; {_ADVICE}"
            raise TimeoutError(sentence)

    def begin(_name: str, _module: tvm.IRModule) -> None:
        require_time()
        begun.append(time.monotonic())

    def end(name: str, _module: tvm.IRModule) -> None:
        nonlocal longest
        spent = time.monotonic() - begun.pop()
        if "." in name:  # others only run passes, as "sequential" does
            longest = max(longest, (spent, name))
        require_time()

    try:
        with pass_context(module, [watch_passes(before=begin, after=end), *instruments]):
            chosen = pipeline or _chosen_pipeline.get() or get_pipeline(module)
            return tvm.compile(module, target=target, tir_pipeline=chosen)
    except Exception as error:
        if sentence:
            raise NotRunError(sentence) from error
        raise


def compile_unrun(module: tvm.IRModule, target: Any, *, instruments: Sequence[Any] = ()) -> Any:
    """The same for a module that is looked at and not run: its host's part becomes C.

    Nobody compiles that C, and it takes a third of the time of LLVM's code: of a small kernel 11 ms
    instead of 28. Passes and the source for the GPU are the same, and the source stays one
    (`keeping_source`). What TVM refuses so is compiled as `compile_module` does, so that the reason
    is the usual one.
    """
    with_c = write_host_in_c(tvm.target.Target(target), module)
    with keeping_source():
        try:
            return compile_module(module, with_c, instruments=instruments)
        except DeviceError:
            raise  # it would take too long in any case
        except Exception:
            return compile_module(module, target, instruments=instruments)


def launch_tirx(module: tvm.IRModule) -> tvm.IRModule:
    """A TIRx kernel with launches in the place of the thread numbers that it names, and plain code
    in that of its tile primitives; another module as it is.
    """
    if not is_tirx(module):
        return module
    bound = tvm.tirx.transform.BindTarget(tvm.target.Target(TARGET).with_host("llvm"))(module)
    return tvm.tirx.transform.LowerTIRx()(bound)


@contextmanager
def keeping_source() -> Iterator[None]:
    """While this lasts, CUDA source is made and not compiled, as on a machine without a GPU.

    With one, TVM has NVIDIA's compiler make machine code of it, which takes a second or more, and
    refuses what no GPU holds, of a module that nobody runs there.
    """
    register_compiler()
    token = _keeps_source.set(True)
    try:
        yield
    finally:
        _keeps_source.reset(token)


def drop_unused_traits(source: str) -> str:
    """CUDA source without the header of type traits, where nothing asks for one.

    NVRTC needs half a second of a core for that header, and a quarter of a second for the kernel
    of a matmul; the machine code is the same. Where the source has anything else of a namespace
    ``std``, or its head is written in another way, it stays as it is.
    """
    short = TRAITS.sub("", source, count=1)
    return source if STANDARD.search(short) else short


def register_compiler() -> None:
    """Let the compiler of CUDA source, whichever TVM has now, ask `keeping_source` first.

    It gets the source by `drop_unused_traits`.
    """
    global _registered
    compile_source = tvm.get_global_func(COMPILER, allow_missing=True)
    if compile_source is None or compile_source == _registered:
        return

    def compile_unless_kept(source: str, *arguments: Any) -> Any:
        if _keeps_source.get():
            return UNCOMPILED
        return compile_source(drop_unused_traits(source), *arguments)

    tvm.register_global_func(COMPILER, compile_unless_kept, override=True)
    _registered = tvm.get_global_func(COMPILER)


def write_host_in_c(target: Any, module: tvm.IRModule) -> Any:
    """A target of GPUs whose host's part becomes C; other targets as they are.

    So is one for a module whose host makes tensor maps for the TMA: TVM does not write these in C.
    """
    makes_maps = any(
        TMA_STAGES in loop.annotations
        for function in name_functions(module).values()
        for loop in find_all(function.body, For)
    )
    if target.host is not None or target.kind.name == "llvm" or makes_maps:
        return target
    return target.with_host(tvm.target.Target("c"))


def pass_context(module: tvm.IRModule, instruments: Sequence[Any] = ()) -> Any:
    """The current `PassContext`, with the options that a module asks for and with instruments.

    The options are those of `tirstep.transforms.set_pass_option`; where the current context has
    another value for one, the module's counts.
    """
    current = tvm.transform.PassContext.current()
    return tvm.transform.PassContext(
        opt_level=current.opt_level,
        required_pass=list(current.required_pass),
        disabled_pass=list(current.disabled_pass),
        config={**dict(current.config), **get_pass_options(module)},
        instruments=list(instruments),
    )


def get_target(name: str) -> Any:
    """TVM's target of a name.

    ``cuda`` is that of `TARGET`, ``sm_80`` the same with another architecture; others of `KINDS`
    and TVM's tags (``nvidia/nvidia-a100``) are what TVM makes of them. Raises
    `CheckError` with the nearest names.
    """
    if name == "cuda":
        return tvm.target.Target(TARGET)
    if re.fullmatch(r"sm_\d+[af]?", name):
        attributes = dict(tvm.target.Target(TARGET).attrs)
        return tvm.target.Target({"kind": "cuda", **attributes, "arch": name})
    try:
        target = tvm.target.Target(name)
    except (ValueError, TypeError, tvm.error.InternalError):
        known = [*KINDS, "sm_80", "sm_90a", *sorted(str(tag) for tag in tvm.target.list_tags())]
        kinds = f"there are {', '.join(KINDS)}, sm_80 and the like, and TVM's tags such as {TARGET}"
        hint = suggest(name, known, kinds)
        raise CheckError(f"there is no target '{name}'; {hint}") from None
    if target.kind.name not in KINDS:
        raise CheckError(
            f"the target '{name}' has the kind {target.kind.name}, whose source tirstep does "
            f"not read; choose one of {', '.join(KINDS)}"
        )
    return target


def make_main(function: PrimFunc) -> tvm.IRModule:
    """A module of one function, under the name ``main``, whatever its own name is."""
    return tvm.IRModule({MAIN: function.with_attr("global_symbol", MAIN)})


def name_functions(module: tvm.IRModule) -> dict[str, PrimFunc]:
    """The functions of TIR in a module, by their names."""
    found = {str(variable.name_hint): it for variable, it in module.functions_items()}
    return {name: it for name, it in found.items() if isinstance(it, PrimFunc)}


def name_main(module: tvm.IRModule) -> tvm.IRModule:
    """The module with its one function called ``main``; itself where it is called so already.

    A function without a name of its own, as all that Relax makes are, is private: it gets one.

    Raises `DeviceError` for a module of no function, or of several of which none is ``main``.
    """
    functions = name_functions(module)
    if MAIN in functions:
        main = functions[MAIN]
        if main.attrs is not None and main.attrs.get("global_symbol") is not None:
            return module
        named = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
        named[MAIN] = main.with_attr("global_symbol", MAIN)
        return named
    if len(functions) != 1:
        names = ", ".join(f"'{name}'" for name in functions) or "no function"
        raise DeviceError(
            f"the module has {names}, and none of them is 'main'; give a module of one function, "
            "or call the one to be run 'main'"
        )
    (function,) = functions.values()
    renamed = make_main(function)
    return renamed.with_attrs(module.attrs) if module.attrs else renamed


MAX_STATEMENTS = 2048
"""Most statements of a function, after TVM has copied unrolled loops and virtual threads."""
STATEMENTS_VARIABLE = "TIRSTEP_COMPILE_STATEMENTS"
"""The environment variable that sets another limit than `MAX_STATEMENTS`."""
MAX_LANES = 256
"""Most lanes of a vector; no machine has one that long."""

_MAX_AUTO_DEPTH = 8  # of TVM's own configuration of tirx.UnrollLoop
_LARGEST_COPIED_VTHREAD = 15  # of longer ones InjectVirtualThread makes loops
_PRAGMAS = ("pragma_auto_unroll_max_step", "pragma_unroll_explicit")


def require_compilable(module: tvm.IRModule) -> None:
    """Raise `NotRunError` for a module whose compilation would take minutes, or never end."""
    limit = read_limit(STATEMENTS_VARIABLE, MAX_STATEMENTS)
    for variable, function in module.functions_items():
        body, where = function.body, f"function '{variable.name_hint}'"
        _require_short_vectors(body, where, ())
        copies = count_copies(body)
        if copies.statements > limit and copies.loops:
            advice = (
                "unroll smaller loops, leave them to NVIDIA's compiler with suggest_unrolling, or "
                f"raise the limit with the environment variable {STATEMENTS_VARIABLE}"
            )
            if copies.statements > LARGEST_INDEX:
                advice = "split the longest, whose statements TVM counts in 32 bits"
            raise NotRunError(
                f"{where} would have {copies.statements} statements once TVM has copied them, "
                f"one of them {copies.largest} times by the loops {_name(copies.loops)}, and more "
                f"than {limit:g} take minutes to compile; {advice}"
            )


MASKED = 1 / 64
"""Cost of testing the mask of a statement that it skips, relative to the statement."""


def count_iterations(
    statement: Any,
    *,
    open_extent: float = math.inf,
    shares: Mapping[Any, float] = MappingProxyType({}),
) -> float:
    """How often the innermost statements run, all together, where an extent that is no constant is
    `open_extent`, and a condition that loads a buffer of `shares` holds so often.
    """

    def count(node: Any) -> float:
        if isinstance(node, For):
            extent = constant(node.extent)
            return (open_extent if extent is None else extent) * count(node.body)
        work = sum(map(count, get_children(node))) or 1.0
        if isinstance(node, IfThenElse) and shares:
            for load in find_all(node.condition, TensorLoad):
                if load.source in shares:
                    return shares[load.source] * work + MASKED
        return work

    return count(statement)


def read_limit(variable: str, default: float) -> float:
    """A limit from the environment; raises `DeviceError` where it is no number above zero."""
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not limit > 0:
        raise DeviceError(
            f"the environment variable {variable} is {text!r}; give a number above zero"
        )
    return limit


def _require_short_vectors(statement: Any, where: str, outer: tuple[tuple[str, int], ...]) -> None:
    if isinstance(statement, For) and statement.kind == ForKind.VECTORIZED:
        outer = (*outer, (str(statement.loop_var.name), constant(statement.extent) or 1))
        lanes = math.prod(extent for _, extent in outer)
        if lanes > MAX_LANES:
            raise NotRunError(
                f"{where} would have vectors of {lanes} lanes, by the loops {_name(outer)}, and "
                f"more than {MAX_LANES} take minutes to compile; split the loops and vectorize an "
                "inner part of 2 to 16"
            )
    for child in get_children(statement):
        _require_short_vectors(child, where, outer)


def _name(loops: Sequence[tuple[str, int]]) -> str:
    return " * ".join(f"{name}={extent}" for name, extent in loops)


class Copies(NamedTuple):
    """What TVM makes of a statement by unrolling it and by spreading it over virtual threads.

    Attributes
    ----------
    steps, unrolled_depth, serial_depth : UnrollLoop's own counters, once it has visited it: steps
        grow with loops that it leaves to the next compiler, too
    statements : that there are afterwards
    largest : copies of the statement that is copied most
    loops : those that copy it, by name and extent
    """

    steps: int
    unrolled_depth: int
    serial_depth: int
    statements: int
    largest: int = 0
    loops: tuple[tuple[str, int], ...] = ()


def count_copies(
    statement: Any,
    max_step: int = 0,
    explicit: bool = True,
    vthreads: tuple[tuple[str, int], ...] = (),
) -> Copies:
    """Count as TVM's passes InjectVirtualThread and UnrollLoop do, within pragmas and threads."""
    step, is_explicit = (
        (getattr(statement, "annotations", None) or {}).get(pragma) for pragma in _PRAGMAS
    )
    max_step = max_step if step is None else constant(step) or 0
    explicit = explicit if is_explicit is None else bool(constant(is_explicit))
    if isinstance(statement, BufferStore | Evaluate):
        many = math.prod(extent for _, extent in vthreads)
        return Copies(many, 0, 0, many, many, vthreads)
    extent, name, kind = 0, "", None
    if isinstance(statement, For):
        kind, known = statement.kind, constant(statement.extent)
        extent, name = known or 1, str(statement.loop_var.name)
        if (get_axis(statement) or "").startswith("vthread") and extent <= _LARGEST_COPIED_VTHREAD:
            vthreads = (*vthreads, (name, extent))
    children = get_children(statement)
    parts = [count_copies(child, max_step, explicit, vthreads) for child in children]
    worst = max(parts, key=lambda part: part.largest, default=Copies(0, 0, 0, 0))
    part = Copies(
        sum(each.steps for each in parts),
        max((each.unrolled_depth for each in parts), default=0),
        max((each.serial_depth for each in parts), default=0),
        sum(each.statements for each in parts),
        worst.largest,
        worst.loops,
    )
    if kind in (None, ForKind.THREAD_BINDING, ForKind.VECTORIZED):
        return part
    is_unrolled = kind == ForKind.UNROLLED or (
        kind == ForKind.SERIAL
        and known is not None
        and part.serial_depth == 0
        and part.unrolled_depth <= _MAX_AUTO_DEPTH
        and known <= LARGEST_INDEX
        and not max_step < known * part.steps <= LARGEST_INDEX  # beyond, it may wrap around
    )
    if not is_unrolled:
        return part._replace(serial_depth=part.serial_depth + 1)
    part = part._replace(steps=part.steps * extent, unrolled_depth=part.unrolled_depth + 1)
    if not explicit:
        return part
    loops = ((name, extent), *part.loops) if extent > 1 else part.loops
    return part._replace(
        statements=part.statements * extent, largest=part.largest * extent, loops=loops
    )


SECONDS = 120.0
SECONDS_VARIABLE = "TIRSTEP_COMPILE_SECONDS"
"""The environment variable that sets another limit than `SECONDS`."""

_ADVICE = (
    "make its loops smaller, or raise the limit with the environment variable " + SECONDS_VARIABLE
)

Listener = Callable[[str, tvm.IRModule], None]
"""Takes the name of a pass, and the module before or behind it."""


@pass_instrument
class _Watch:
    """One class for all: of each class TVM asks all others whether they are its base."""

    def __init__(self, before: Listener | None, after: Listener | None) -> None:
        self._before, self._after = before, after

    def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
        if self._before is not None:
            self._before(str(info.name), module)

    def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
        if self._after is not None:
            self._after(str(info.name), module)


def watch_passes(*, before: Listener | None = None, after: Listener | None = None) -> Any:
    """A pass instrument that calls functions before and behind each pass of a compilation."""
    return _Watch(before, after)
