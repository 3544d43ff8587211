"""The device `rpc://HOST:PORT/KEY`: modules are compiled here and run on a server of TVM's RPC."""

from __future__ import annotations

import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import tvm
from tvm import rpc
from tvm.rpc.base import RPC_TRACKER_MAGIC

from ..compile.compiling import MAIN, compile_module, name_main
from ..device import Device, DeviceError, Program, Timing, convert_tvm_errors, require_launchable
from .cpu import CpuDevice
from .cuda import download, measure, upload

SCHEME, SPELLING = "rpc://", "rpc://HOST:PORT/KEY"
SERVER = "python -m tvm.exec.rpc_server"
ANSWER_SECONDS = 5.0  # what takes longer is called busy


class RpcDevice(Device):
    """A GPU or a CPU of a server: ``rpc://HOST:PORT/KEY?kind=cpu&target=llvm&seconds=120``.

    PORT may be a tracker's. `kind` is ``cuda`` or ``cpu``, and `target` is TVM's target for the
    server's CPU. Each run has its own session, which the server ends after `seconds`. Stores
    outside of a tensor are not noticed. Raises `DeviceError` for a malformed address, and within 5
    seconds if nothing listens, if the server is busy, or if it does not have the key.
    """

    description = ""

    def __init__(self, text: str) -> None:
        parts = urlsplit(text)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not text.startswith(SCHEME) or not host or not port:
            raise DeviceError(f"{text} is not an address of an RPC server; give it as {SPELLING}")
        options = dict(parse_qsl(parts.query))
        kind, seconds = options.pop("kind", None), options.pop("seconds", "120")
        self._target: Any = options.pop("target", "llvm")
        if options:
            unknown = f"there is no option '{min(options)}'; the options are kind, target, seconds"
            raise DeviceError(f"{text}: {unknown}")
        if kind not in (None, "cuda", "cpu"):
            raise DeviceError(f"{text}: kind={kind} is unknown; use cuda or cpu")
        if not seconds.isdecimal() or int(seconds) < 1:
            raise DeviceError(f"{text}: seconds={seconds} must be an integer >= 1")
        self._at, self._key, self._seconds = (host, port), parts.path.strip("/"), int(seconds)
        self.name = f"{SCHEME}{host}:{port}/{self._key}"
        gpu = self._connect().cuda(0)
        self.has_clock = kind != "cpu" and bool(gpu.exist)
        if kind == "cuda" and not self.has_clock:
            raise DeviceError(f"{self.name} has no CUDA device; use ?kind=cpu, or another key")
        self.description = f"CPU of {self.name} (LLVM, thread bindings made serial)"
        if self.has_clock:
            self._target = tvm.target.Target.from_device(gpu).with_host(self._target)
            self.description = f"{gpu.device_name} ({self._target.attrs['arch']}) of {self.name}"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """What the devices cpu and cuda say of a module."""
        if self.has_clock:
            return super().find_obstacle(module)
        return CpuDevice().find_obstacle(module)

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile here, into a library that each run uploads."""

        def use(loaded: Any, device: Any, tensors: Sequence[Any]) -> Any:
            loaded[MAIN](*tensors)
            device.sync()
            return download(tensors), ()

        return Program(self._compile(module, use), name_main(module)[MAIN].params)

    def time(self, module: tvm.IRModule, arguments: Sequence[Any]) -> Timing:
        """Time the function there, with the clock of its GPU; inputs as they are given."""
        if not self.has_clock:
            return super().time(module, arguments)
        return cast(Timing, self._compile(module, measure)(arguments))

    def _compile(self, module: tvm.IRModule, use: Callable[[Any, Any, list[Any]], Any]) -> Any:
        """A function of arguments: what `use` makes of library, device and tensors there."""
        module = name_main(module)
        if self.has_clock:
            require_launchable(self, module)
        else:
            module = CpuDevice().make_serial(module)
        sentence = f"TVM does not compile the module for {self.name}"
        with convert_tvm_errors(sentence, module), tempfile.TemporaryDirectory() as folder:
            compile_module(module, self._target).export_library(f"{folder}/kernel.tar")
            library = bytearray(Path(folder, "kernel.tar").read_bytes())

        def run(arguments: Sequence[Any]) -> Any:
            session = self._connect()
            with convert_tvm_errors(f"{self.name} does not run the kernel"):
                session.upload(library, "kernel.tar")
                device = session.cuda(0) if self.has_clock else session.cpu(0)
                tensors = upload(arguments, module[MAIN].params, device)
                return use(session.load_module("kernel.tar"), device, tensors)

        return run

    def _connect(self) -> Any:
        """A session; TVM's client would wait for ever for what is gone or busy."""
        # A tracker answers its own number, and a server ends a connection that begins with one.
        where, magic = "{}:{}".format(*self._at), struct.pack("<i", RPC_TRACKER_MAGIC)
        try:
            with socket.create_connection(self._at, ANSWER_SECONDS) as connection:
                connection.settimeout(ANSWER_SECONDS)
                connection.sendall(magic)
                is_tracker = connection.recv(4) == magic
        except ConnectionResetError:
            is_tracker = False
        except OSError as error:
            sentence = f"nothing is listening at {where} ({error.strerror}); start a server there"
            if isinstance(error, TimeoutError):
                sentence = f"{self.name} does not answer within {ANSWER_SECONDS:g} s: unreachable, "
                sentence += "another session has it, or a kernel ended it; wait, or start another"
            raise DeviceError(f"{sentence}: {SERVER}") from error
        connect: Callable[..., Any] = partial(rpc.connect, *self._at)
        begin, tracker = time.monotonic(), rpc.connect_tracker(*self._at) if is_tracker else None
        while tracker is not None:  # until a server of the key is free: TVM would wait forever
            summary = tracker.summary()
            keys = sorted({each["key"].partition(":")[2] for each in summary["server_info"]})
            if self._key in keys and summary["queue_info"].get(self._key, {}).get("free", 0):
                connect = partial(tracker.request, max_retry=1)
                break
            # A server that ends a session is away for a moment, until it is registered again.
            if time.monotonic() - begin > (ANSWER_SECONDS if self._key in keys else 1):
                raise DeviceError(
                    f"the tracker at {where} has no {'free ' * (self._key in keys)}server of the "
                    f"key '{self._key}' (it has {', '.join(keys) or 'none'}); start one there: "
                    f"{SERVER} --tracker"
                )
            time.sleep(0.1)
        with convert_tvm_errors(f"no session with {self.name}; is its key '{self._key}'?"):
            return connect(self._key, session_timeout=self._seconds)
