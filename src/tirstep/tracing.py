"""Records what anybody's code compiles with TVM, and what it calls that with: `trace`.

The folder has ``index.jsonl``, a row of JSON for each build and each first call; ``functions``,
TVM's JSON of TIR functions and the script of Relax functions, a file a state; and ``arguments``,
those that are kept. Rows are appended, and files renamed into place: an app that is killed leaves
what was recorded before, and several processes may record into one folder.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.abc
import importlib.util
import inspect
import io
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from .files import append_line, write_file
from .printing import print_error

INDEX, FUNCTIONS, ARGUMENTS = "index.jsonl", "functions", "arguments"
HEAD = {"tirstep trace": 1}
"""How the first row begins; the number is that of the format."""
MOST_BYTES = 256 << 20
"""Most bytes of arguments that a folder keeps in full."""
VARIABLE = "TIRSTEP_TRACE"
"""The environment variable that tells an app's Python the folder, and whether values are kept."""
_BUILD = "_tirstep_build"
"""The attribute that compiled modules have of the build that made them."""
_CONTAINERS = ("sequential", "_pipeline")
"""Passes that only run others."""


@contextlib.contextmanager
def trace(folder: str | os.PathLike[str], *, values: bool = False) -> Iterator[None]:
    """While this lasts, record what TVM compiles, and what each function is first called with.

    Builds are those by `tvm.compile`, `tvm.tirx.build` and `relax.build`, with their passes and
    what each changed; instruments of the code's own stay. Calls are those by Relax's virtual
    machine and of the functions of a compiled module. Integers are kept whole; floats as shape,
    type, range and a seed, or with `values` whole, too; 256 MB of both at most. What could not be
    recorded is told on standard error, and the code goes on.

    Commands take the folder, and ``FOLDER/:NAME`` for a function. An earlier trace in it is
    replaced. A `PassContext` entered before this is entered once more for each build, with its
    instruments. Raises `OSError` for a folder that has something else or cannot be written.
    """
    prepare_folder(Path(folder))
    recorder = Recorder(Path(os.path.abspath(folder)), values)
    recorder.start()
    try:
        yield
    finally:
        recorder.stop()


def prepare_folder(folder: Path) -> None:
    """Make the folder of a trace, without what an earlier one left; raises `OSError`."""
    if folder.exists() and not is_trace(folder) and (folder.is_file() or any(folder.iterdir())):
        told = "it is not a trace of tirstep's, and stays as it is; give another folder"
        raise FileExistsError(errno.EEXIST, told, str(folder))
    folder.mkdir(exist_ok=True)
    write_file(folder / INDEX, json.dumps(HEAD) + "\n")
    for part in (FUNCTIONS, ARGUMENTS):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir()


def is_trace(folder: Path) -> bool:
    """Whether a folder has a trace."""
    if not (folder / INDEX).is_file():
        return False
    with open(folder / INDEX, encoding="utf-8", errors="replace") as file:
        return file.readline().startswith(json.dumps(HEAD))


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a trace but for the first; one that a killed process left unfinished is none."""
    rows = []
    for line in (folder / INDEX).read_text(encoding="utf-8").splitlines()[1:]:
        with contextlib.suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def begin_in_app() -> None:
    """Record what this process does, as `VARIABLE` says, once it has imported TVM."""
    if VARIABLE in os.environ:
        sys.meta_path.insert(0, _AfterTVM())


class _AfterTVM(importlib.abc.MetaPathFinder):
    """Starts the recorder right after the import of TVM; an app without TVM pays nothing."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "tvm":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("tvm")
        if spec is None or spec.loader is None:
            return None
        load, asked = spec.loader.exec_module, json.loads(os.environ[VARIABLE])

        def load_and_start(module: Any) -> None:
            load(module)
            Recorder(Path(asked["folder"]), asked["values"]).start()

        spec.loader.exec_module = load_and_start  # type: ignore[method-assign]
        return spec


@dataclass(eq=False)
class Build:
    """A build, as it is noted while it runs.

    Attributes
    ----------
    made_by, place : the function that was called, ``"relax.build"``, and ``FILE:LINE`` of that
    states : modules as they were given to such functions, or as passes left them: by name, with
        the seconds that a pass took, and whether it lowers TIR
    functions : the TIR functions that are lowered, by name
    called : those whose first call was recorded
    began : when the passes that run began
    """

    made_by: str
    place: str
    target: str
    states: list[tuple[str, Any, float | None, bool]] = field(default_factory=list)
    functions: dict[str, Any] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    began: list[float] = field(default_factory=list)
    start: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    error: str = ""


def _quietly(hook: Callable[..., None]) -> Callable[..., None]:
    """A method whose errors must not reach the app: the first one is reported."""

    @functools.wraps(hook)
    def run(self: Recorder, *arguments: Any) -> None:
        try:
            hook(self, *arguments)
        except Exception as error:
            if not self.failure:
                self.failure = f"{type(error).__name__}: {error}".splitlines()[0]
                print_error(f"{self.folder}: something could not be recorded: {self.failure}")

    return run


class Recorder:
    """Hooks in TVM, from `start` to `stop`.

    A build is written by a thread, while the next pass or the app runs: TVM releases Python's lock.

    Attributes
    ----------
    failure : the first reason why something could not be recorded
    """

    def __init__(self, folder: Path, values: bool) -> None:
        self.folder, self.values, self.failure = folder, values, ""
        self._builds, self._local, self._undo = list[Build](), threading.local(), list[Any]()
        self._is_on = True
        self._start_writer()
        os.register_at_fork(after_in_child=self._start_writer)  # where no thread goes on

    def _start_writer(self) -> None:
        self._writer, self._written = ThreadPoolExecutor(1), Future[None]()
        self._written.set_result(None)

    def start(self) -> None:
        """Put the hooks in place of what they call."""
        import tvm
        from tvm import relax
        from tvm.ir.instrument import pass_instrument
        from tvm_ffi import Function, Module

        recorder = self

        @pass_instrument
        class Passes:
            def run_before_pass(self, module: Any, info: Any) -> None:
                recorder._begin_pass(str(info.name))

            def run_after_pass(self, module: Any, info: Any) -> None:
                recorder._end_pass(str(info.name), module)

        class Watched(Function):
            """To Python a function that notes its calls, and to TVM the one that it stands for."""

            build: Build | None
            name: str

            def __call__(self, *arguments: Any) -> Any:
                recorder._note_call(self.build, self.name, arguments)
                return super().__call__(*arguments)

        instrument = Passes()
        signature = inspect.signature(tvm.transform.PassContext.__init__)

        def make_context(original: Any, *arguments: Any, **named: Any) -> None:
            given = signature.bind(*arguments, **named)
            if recorder._is_on:
                own = list(given.arguments.get("instruments") or ())
                given.arguments["instruments"] = [*own, instrument]
            original(*given.args, **given.kwargs)

        def get_function(original: Any, module: Any, name: str, query_imports: bool = False) -> Any:
            function, build = original(module, name, query_imports), vars(module).get(_BUILD)
            builds = recorder._builds if build is None else [build]
            # A virtual machine has an instrument of its own.
            is_ours = recorder._is_on and module.kind != "relax.VirtualMachine"
            if not is_ours or not any(name in each.functions for each in builds):
                return function
            watched = Watched.__new__(Watched)
            watched.__move_handle_from__(function)
            watched.build, watched.name = build, name
            return watched

        def time_evaluator(original: Any, module: Any, name: str, *rest: Any, **named: Any) -> Any:
            measure = original(module, name, *rest, **named)

            @functools.wraps(measure)
            def run(*arguments: Any) -> Any:
                recorder._note_call(vars(module).get(_BUILD), name, arguments)
                return measure(*arguments)

            return run

        def make_machine(original: Any, machine: Any, made: Any, *rest: Any, **named: Any) -> None:
            original(machine, made, *rest, **named)
            build = vars(getattr(made, "mod", made)).get(_BUILD)
            machine._tirstep_theirs = theirs = list[Any]()

            def note(function: Any, name: str, before: bool, result: Any, *given: Any) -> Any:
                if before:
                    recorder._note_call(build, str(name), given)
                return theirs[0](function, name, before, result, *given) if theirs else 0

            machine._set_instrument(note)

        def set_instrument(original: Any, machine: Any, instrument: Any) -> None:
            if not hasattr(machine, "_tirstep_theirs"):
                original(machine, instrument)
                return
            machine._tirstep_theirs[:] = [] if instrument is None else [instrument]

        methods = {
            (tvm.transform.PassContext, "__init__"): make_context,
            (Module, "get_function"): get_function,
            (tvm.runtime.Module, "time_evaluator"): time_evaluator,
            (relax.VirtualMachine, "__init__"): make_machine,
            (relax.VirtualMachine, "set_instrument"): set_instrument,
        }
        for (owner, name), hook in methods.items():
            self._put(owner, name, getattr(owner, name), hook)
        builders = {"relax.build": relax.build, "tvm.compile": tvm.compile}
        for made_by, function in {**builders, "tirx.build": tvm.tirx.build}.items():
            watch = functools.partial(self._watch_build, made_by, instrument)
            for module in list(sys.modules.values()):  # whatever has imported it, too
                for name in [it for it, value in list(vars(module).items()) if value is function]:
                    self._put(module, name, function, watch)

    def stop(self) -> None:
        """Take the hooks away, and wait until all is written."""
        self._is_on = False
        for owner, name, function in reversed(self._undo):
            setattr(owner, name, function)
        self._writer.shutdown()

    def _put(self, owner: Any, name: str, original: Any, hook: Any) -> None:
        @functools.wraps(original)
        def run(*arguments: Any, **named: Any) -> Any:
            return hook(original, *arguments, **named)

        setattr(owner, name, run)
        self._undo.append((owner, name, original))

    def _watch_build(
        self, made_by: str, instrument: Any, function: Any, *arguments: Any, **named: Any
    ) -> Any:
        """A build; one within another is a part of it."""
        from tvm.ir.transform import PassContext
        from tvm.target import Target

        build = getattr(self._local, "build", None)
        given = (*arguments[:1], named.get("mod"))[0]
        if build is not None or not self._is_on:
            if build is not None:
                self._note_given(build, made_by, given)
            return function(*arguments, **named)
        target = (*arguments[1:2], named.get("target"))[0]
        target = Target.current() if target is None else target
        self._local.build = build = Build(made_by, _find_caller(), str(target or "llvm"))
        self._note_given(build, made_by, given)
        current = PassContext.current()
        context: Any = contextlib.nullcontext()
        if not any(it.same_as(instrument) for it in current.instruments):  # from before the trace
            names = ("opt_level", "required_pass", "disabled_pass", "instruments", "config")
            context = PassContext(**{name: getattr(current, name) for name in names})
        try:
            with context:
                made = function(*arguments, **named)
            setattr(getattr(made, "mod", made), _BUILD, build)
            return made
        except BaseException as error:
            lines = [it for line in str(error).splitlines() if (it := line.strip("\0 "))]
            faults = [line for line in lines if " error" in line or line.startswith("error")]
            build.error = ": ".join([type(error).__name__, *(faults[:1] or lines[-1:])])
            raise
        finally:
            self._local.build = None
            build.seconds = time.perf_counter() - build.start
            self._builds.append(build)
            try:
                self._written = self._writer.submit(self._write_build, build)
            except RuntimeError:  # the process is about to end
                self._write_build(build)

    @_quietly
    def _note_given(self, build: Build, made_by: str, module: Any) -> None:
        import tvm
        from tvm.tirx import PrimFunc

        if isinstance(module, PrimFunc):
            module = tvm.IRModule.from_expr(module)
        build.states.append((made_by, module.clone(), None, False))
        if made_by == "tirx.build":
            for variable, function in module.functions_items():
                # One that computes sizes for the virtual machine is TVM's own.
                is_tir = isinstance(function, PrimFunc)
                if is_tir and not function.attrs.get("tirx.is_host_func", False):
                    build.functions[str(variable.name_hint)] = function

    @_quietly
    def _begin_pass(self, name: str) -> None:
        if (build := getattr(self._local, "build", None)) is not None:
            build.began.append(time.perf_counter())

    @_quietly
    def _end_pass(self, name: str, module: Any) -> None:
        if (build := getattr(self._local, "build", None)) is not None:
            seconds = time.perf_counter() - build.began.pop()
            if name not in _CONTAINERS:
                # Some passes change a module in place, and none a function.
                build.states.append((name, module.clone(), seconds, bool(build.functions)))

    @_quietly
    def _write_build(self, build: Build) -> None:
        import tvm_ffi
        from tvm.tirx import PrimFunc

        known, histories = dict[str, Any](), dict[str, list[tuple[str, Any]]]()
        passes = list[dict[str, Any]]()
        for label, module, seconds, is_lowering in build.states:
            changed = []
            for variable, function in module.functions_items():
                name = str(variable.name_hint)
                before, known[name] = known.get(name), function
                if function.same_as(before) or tvm_ffi.structural_equal(before, function):
                    continue
                changed.append(name)
                states = histories.setdefault(name, [])
                if is_lowering:
                    continue
                # Not where attributes alone differ, in which passes note names and targets.
                if not states or name_state(name, states[-1][1]) != name_state(name, function):
                    states.append((label, function))
            if seconds is not None:
                passes.append({"name": label, "ms": round(seconds * 1e3, 3), "changed": changed})

        def write(name: str) -> list[tuple[str, str]]:
            """The states of a function: what it was given to or left by, and its file."""
            states = [it for it in histories[name] if isinstance(it[1], PrimFunc)]
            # Printing a model takes long: as it was given, and as it was compiled.
            states = states or [*histories[name][:1], *histories[name][1:][-1:]]
            return [(label, self._write_function(name, it)) for label, it in states]

        def spell(name: str) -> str:
            """The author's name of a function that was put into a module as its ``main``."""
            own = histories[name][0][1].attrs.get("global_symbol", name)
            return str(own) if name == "main" else name

        is_tir = {name: isinstance(it[-1][1], PrimFunc) for name, it in histories.items() if it}
        tir = build.functions or [name for name, it in is_tir.items() if it]
        row = {
            "build": build.made_by,
            "place": build.place,
            "target": build.target,
            "seconds": round(build.seconds, 3),
            "error": build.error,
            "functions": {spell(name): write(name) for name in tir},
            "relax": {name: write(name) for name, it in is_tir.items() if not it},
            "passes": passes,
        }
        build.states.clear()
        append_line(self.folder / INDEX, json.dumps(row), durable=False)

    def _write_function(self, name: str, function: Any) -> str:
        import tvm

        file = name_state(name, function)
        if not (self.folder / FUNCTIONS / file).exists():
            text = tvm.ir.save_json(function) if file.endswith("json") else function.script()
            write_file(self.folder / FUNCTIONS / file, text, durable=False)
        return file

    @_quietly
    def _note_call(self, build: Build | None, name: str, arguments: Sequence[Any]) -> None:
        """Write the arguments of a function's first call; without a build, of the newest that has
        a function that takes them.
        """
        candidates = reversed(self._builds) if build is None else [build]
        for each in candidates if self._is_on else ():
            function = each.functions.get(name)
            if function is None or not (name in each.called or _fits(function, arguments)):
                continue
            if name not in each.called:
                each.called.add(name)
                self._written.result()  # of what is called, the build is there
                self._write_call(name_state(name, function), function, arguments)
            return

    def _write_call(self, state: str, function: Any, arguments: Sequence[Any]) -> None:
        import numpy as np
        import tvm

        rows, kept, file = list[dict[str, Any]](), dict[str, Any](), state.replace("json", "npz")
        folder = self.folder / ARGUMENTS
        left = MOST_BYTES - sum(it.stat().st_size for it in folder.iterdir())
        for place, (parameter, given) in enumerate(zip(function.params, arguments, strict=True)):
            if not isinstance(given, bool | int | float | np.ndarray | tvm.runtime.Tensor):
                given = tvm.runtime.from_dlpack(given)
            array = given.numpy() if isinstance(given, tvm.runtime.Tensor) else np.asarray(given)
            is_buffer, is_whole = hasattr(parameter, "shape"), array.dtype.kind in "biu"
            row: dict[str, Any] = {
                "name": str(parameter.name),
                "shape": list(array.shape),
                "dtype": str(parameter.dtype if is_buffer else parameter.ty),
                "seed": place,
            }
            if (is_whole or self.values) and array.nbytes <= left:
                left -= array.nbytes
                row["kept"] = True
                # NumPy saves no bfloat16.
                bits = array if array.dtype.kind in "biuf" else array.view(f"u{array.itemsize}")
                kept[str(place)] = bits
            numbers = array if array.dtype.kind in "biuf" else array.astype(np.float32)
            if not np.isfinite([numbers.min(initial=0), numbers.max(initial=0)]).all():
                numbers = numbers[np.isfinite(numbers)]
            row["range"] = [numbers.min().item(), numbers.max().item()] if numbers.size else [0, 0]
            rows.append(row)
        if kept:
            np.savez(stream := io.BytesIO(), **kept)
            write_file(folder / file, stream.getvalue(), durable=False)
        append_line(
            self.folder / INDEX, json.dumps({"call": state, "arguments": rows}), durable=False
        )


def _find_caller() -> str:
    """``FILE:LINE`` of the code that called TVM."""
    frame, between = sys._getframe(1), ("tirstep", "tvm")
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in between:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def name_state(name: str, function: Any) -> str:
    """The name of the file of a function, which is the same in all processes."""
    import tvm_ffi
    from tvm.tirx import PrimFunc

    ending = "py"
    if isinstance(function, PrimFunc):  # without its attributes
        function, ending = PrimFunc(function.params, function.body, function.ret_type), "json"
    return f"{name}-{tvm_ffi.structural_hash(function) & (1 << 48) - 1:012x}.{ending}"


def _fits(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether a function takes the arguments; not if it takes an opaque pointer."""
    from tvm.tirx import IntImm

    if len(function.params) != len(arguments):
        return False
    for parameter, given in zip(function.params, arguments, strict=True):
        extents, sizes = getattr(parameter, "shape", None), getattr(given, "shape", None)
        if extents is None and isinstance(given, bool | int | float):
            continue
        if extents is None or sizes is None or len(extents) != len(sizes):
            return False
        pairs = zip(extents, sizes, strict=True)
        if any(isinstance(extent, IntImm) and int(extent) != int(size) for extent, size in pairs):
            return False
        if str(given.dtype).removeprefix("torch.") != str(parameter.dtype):
            return False
    return True
