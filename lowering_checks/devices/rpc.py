"""The device `rpc://HOST:PORT/KEY`: modules are compiled here, and run where TVM's RPC serves.

`tirstep serve` starts such a server, and so does ``python -m tvm.exec.rpc_server``; PORT may be a
tracker's, which then chooses among the servers of a key. Each run has a session of its own: a
kernel that hangs or ends its process costs one run. Stores outside of a tensor are not seen here,
unless the kernel dies of them: TVM shows no memory of another machine but a tensor's.
"""

from __future__ import annotations

import functools
import socket
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import tvm
from tvm import rpc
from tvm.rpc.base import RPC_TRACKER_MAGIC

from tirstep.transforms.passes.serial import make_threads_serial

from ..compile.compiling import MAIN, compile_module, name_main
from .cpu import CpuDevice
from .cuda import download, measure, upload
from .device import (
    Array,
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    Timing,
    convert_tvm_errors,
    require_launchable,
)

SCHEME = "rpc://"
SPELLING = "rpc://HOST:PORT/KEY"
ANSWER_SECONDS = 5.0
"""So long a server or tracker may take to answer before it is called unreachable or busy."""
RUN_SECONDS = 120
"""So long a session may take: the server ends it then."""
KINDS = ("cuda", "cpu")
_SERVER, _TRACKER = "server", "tracker"


@dataclass(frozen=True)
class RpcAddress:
    """Where a server or a tracker is, which of its servers, and what to use there.

    Attributes
    ----------
    kind : ``"cuda"`` or ``"cpu"``; empty for CUDA where the server has a GPU
    target : TVM's target of the server's CPU, for one of another architecture than this machine's
    seconds : that a run may take, connecting and loading included
    """

    host: str
    port: int
    key: str
    kind: str = ""
    target: str = "llvm"
    seconds: int = RUN_SECONDS

    def __str__(self) -> str:
        return f"{SCHEME}{self.host}:{self.port}/{self.key}"


def read_address(text: str) -> RpcAddress:
    """The address in ``rpc://HOST:PORT/KEY``; raises `DeviceError` for what is none.

    Options follow as in a URL: ``?kind=cpu&target=llvm -mtriple=aarch64-linux-gnu&seconds=300``.
    """
    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not text.startswith(SCHEME) or not host or not port:
        raise DeviceError(f"{text} is no address of an RPC server; give it as {SPELLING}")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if unknown := options.keys() - {"kind", "target", "seconds"}:
        raise DeviceError(
            f"{text}: there is no option '{min(unknown)}'; the options are kind, target, seconds"
        )
    if options.get("kind", "cpu") not in KINDS:
        raise DeviceError(f"{text}: kind={options['kind']} is unknown; use {' or '.join(KINDS)}")
    seconds = options.pop("seconds", str(RUN_SECONDS))
    if not seconds.isdecimal() or int(seconds) < 1:
        raise DeviceError(f"{text}: seconds={seconds} must be an integer >= 1")
    return RpcAddress(host, port, parts.path.strip("/"), seconds=int(seconds), **options)


class RpcDevice(Device):
    """A GPU or a CPU that a server of TVM's RPC has.

    Raises `DeviceError` within seconds where nothing listens, where the server is busy, and for a
    key that it does not have.
    """

    def __init__(self, address: RpcAddress) -> None:
        self.name, self.address = str(address), address
        with self._connect() as session:
            has_gpu = bool(session.cuda(0).exist)
            self._kind = address.kind or ("cuda" if has_gpu else "cpu")
            if self._kind == "cuda" and not has_gpu:
                raise DeviceError(f"{self.name} has no CUDA device; use ?kind=cpu, or another key")
            self._target, self._description = self._describe(session)
        self.has_clock = self._kind == "cuda"

    @property
    def description(self) -> str:
        return self._description

    def _describe(self, session: Any) -> tuple[Any, str]:
        """TVM's target of what the server has, and what it is, for people."""
        if self._kind == "cpu":
            return self.address.target, f"CPU of {self.name} (LLVM, thread bindings made serial)"
        device = session.cuda(0)
        target = tvm.target.Target.from_device(device).with_host(self.address.target)
        return target, f"{device.device_name} ({target.attrs['arch']}) of {self.name}"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """What the devices cpu and cuda say of a module."""
        if self._kind == "cpu":
            return CpuDevice().find_obstacle(module)
        return super().find_obstacle(module)

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile here, into a library that each run uploads."""
        module = name_main(module)
        library, parameters = self._compile(module), module[MAIN].params

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            with self._load(library) as (loaded, device):
                tensors = upload(arguments, parameters, device)
                loaded[MAIN](*tensors)
                device.sync()
                return download(tensors), ()

        return Program(run, parameters)

    def time(self, module: tvm.IRModule, arguments: Sequence[Array]) -> Timing:
        """Time the function there, with the clock of its GPU; inputs as they are given."""
        if not self.has_clock:
            return super().time(module, arguments)
        module = name_main(module)
        with self._load(self._compile(module)) as (loaded, device):
            return measure(loaded, device, upload(arguments, module[MAIN].params, device))

    def _compile(self, module: tvm.IRModule) -> bytes:
        """Object files that the server links."""
        if self._kind == "cpu":
            if (obstacle := self.find_obstacle(module)) is not None:
                raise DeviceError(f'{obstacle}; use the device "simulator" or "cuda"')
            module = make_threads_serial(module)
        else:
            require_launchable(self, module)
        with (
            convert_tvm_errors(f"TVM does not compile the module for {self.name}", module),
            tempfile.TemporaryDirectory() as folder,
        ):
            file = Path(folder) / "kernel.tar"
            compile_module(module, self._target).export_library(str(file))
            return file.read_bytes()

    @contextmanager
    def _load(self, library: bytes) -> Iterator[tuple[Any, Any]]:
        """A library on the server, and the server's device."""
        with self._connect() as session, convert_tvm_errors(f"{self.name} does not run the kernel"):
            session.upload(bytearray(library), "kernel.tar")
            yield session.load_module("kernel.tar"), session.device(self._kind, 0)

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        """A session, which ends with its last tensor."""
        address = self.address
        # TVM's client would wait for ever for what is gone or busy.
        if _find_peer(address) == _SERVER:
            connect = functools.partial(rpc.connect, address.host, address.port, address.key)
        else:
            tracker = _connect_tracker(address)
            connect = functools.partial(tracker.request, address.key, max_retry=1)
        with convert_tvm_errors(f"no session with {self.name}; is its key '{address.key}'?"):
            session = connect(session_timeout=address.seconds)
        yield session


def _find_peer(address: RpcAddress) -> str:
    """Whether a server or a tracker listens at an address.

    Both await a number from whoever connects: a tracker answers its own, and a server, once it is
    free, ends a connection that begins with a tracker's.
    """
    try:
        with socket.create_connection((address.host, address.port), ANSWER_SECONDS) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.sendall(struct.pack("<i", RPC_TRACKER_MAGIC))
            answer = connection.recv(4)
    except TimeoutError as error:
        raise DeviceError(
            f"{address} does not answer within {ANSWER_SECONDS:g} s: another session has the "
            "server, or it is unreachable; wait, or start another: tirstep serve"
        ) from error
    except ConnectionResetError:
        return _SERVER
    except OSError as error:
        raise DeviceError(
            f"nothing listens at {address.host}:{address.port} ({error.strerror or error}); start "
            "a server there: tirstep serve"
        ) from error
    return _TRACKER if answer == struct.pack("<i", RPC_TRACKER_MAGIC) else _SERVER


def _connect_tracker(address: RpcAddress) -> Any:
    """A tracker that has a free server of the key: for others a request would wait for ever."""
    tracker = rpc.connect_tracker(address.host, address.port)
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        summary = tracker.summary()
        keys = {each["key"].partition(":")[2] for each in summary["server_info"]}
        if address.key not in keys:
            known = f"it has {', '.join(sorted(keys))}" if keys else "it has none"
            raise DeviceError(
                f"the tracker at {address.host}:{address.port} has no server of the key "
                f"'{address.key}' ({known}); start one there: tirstep serve --tracker"
            )
        if summary["queue_info"].get(address.key, {}).get("free", 0):
            return tracker
        if time.monotonic() > end:
            raise DeviceError(
                f"all servers of {address} have been busy for {ANSWER_SECONDS:g} s; wait, or start "
                "another: tirstep serve --tracker"
            )
        time.sleep(0.1)
