"""What a GPU refuses to launch for its memory: the same for all devices that run on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tirstep.transforms.gpu_limits import MAX_SHARED_BYTES

MAX_LOCAL_BYTES = 512 << 10
"""Of a thread, its registers and its local memory (CUDA C++ Programming Guide, "Compute
Capabilities")."""


def find_excess(used: Mapping[str, int]) -> Iterator[str]:
    """A sentence for each limit that a kernel exceeds.

    `used` are bytes by scope, "shared" and "shared.dyn" of a block, "local" of a thread. Static and
    dynamic shared memory together are limited as dynamic memory alone is.
    """
    for scope, limit in MAX_SHARED_BYTES.items():
        if used.get(scope, 0) > limit:
            yield (
                f"a block needs {used[scope]} bytes of scope '{scope}', and a GPU has {limit} at "
                "most"
            )
    static, dynamic = used.get("shared", 0), used.get("shared.dyn", 0)
    most = max(MAX_SHARED_BYTES.values())
    if static and dynamic and static + dynamic > most:
        yield (
            f"a block needs {static} bytes of static and {dynamic} of dynamic shared memory, "
            f"{static + dynamic} together, and a GPU has {most} at most"
        )
    if used.get("local", 0) > MAX_LOCAL_BYTES:
        yield (
            f"a thread needs {used['local']} bytes of scope 'local', and a GPU has "
            f"{MAX_LOCAL_BYTES} at most"
        )
