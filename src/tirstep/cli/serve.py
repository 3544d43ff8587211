"""``tirstep serve``: this machine's GPU for others, or its CPU."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from .streams import print_error
from .wrong_use import UseError

Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Where to listen. Whoever can connect can run any code here as you.",
    ),
]
Port = Annotated[int, typer.Option("--port", metavar="PORT", min=1, max=65535, help="The port.")]
Key = Annotated[str, typer.Option("--key", metavar="KEY", help="The name that clients give.")]
Tracker = Annotated[
    str | None,
    typer.Option(
        "--tracker",
        metavar="HOST:PORT",
        help="A tracker (python -m tvm.exec.rpc_tracker) that hands this server out.",
    ),
]
Address = Annotated[
    str,
    typer.Option(
        "--address", metavar="ADDRESS", help="How the tracker's clients reach this machine."
    ),
]


def command(
    host: Host = "127.0.0.1",
    port: Port = 9090,
    key: Key = "tirstep",
    tracker: Tracker = None,
    address: Address = "",
) -> int:
    """Serve this machine's GPU, or its CPU, to other machines.

    There, --device rpc://HOST:PORT/KEY compiles modules, and they run here, through TVM's RPC,
    until Ctrl-C. A kernel that ends its process ends its session, and the next one is served.

    By default this machine alone can connect; an ssh tunnel lets others in safely: ssh -N -L
    9090:127.0.0.1:9090 MACHINE.
    """
    from tirstep.remote import FEWEST_SECONDS, ServeError, Service, start_server

    service = Service(host, port, _read_key(key), _read_tracker(tracker), address)
    try:
        if service.is_open():
            print_error(
                f"warning: whoever can reach {host}:{port} can run any code here as you; TVM's RPC "
                "asks for no password, and a key is none"
            )
        while True:
            began = time.monotonic()
            with start_server(service) as process:
                print(f"serving at rpc://{host}:{port}/{key}; Ctrl-C ends it", flush=True)
                process.wait()
            if time.monotonic() - began < FEWEST_SECONDS:
                raise ServeError("the server ends as soon as it has begun; is the tracker there?")
            print_error("a session ended its process; serving again")
    except ServeError as error:
        raise UseError(str(error)) from error
    except KeyboardInterrupt:
        return 0


def _read_key(key: str) -> str:
    if not key or any(letter.isspace() or letter in ":/?" for letter in key):
        raise UseError(f"--key {key!r} is no key; give letters and digits without blanks, : / or ?")
    return key


def _read_tracker(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise UseError(f"--tracker {text} is no address; give it as HOST:PORT")
    return host, int(port)
