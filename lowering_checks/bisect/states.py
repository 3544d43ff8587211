"""States between passes: where a row of them goes from right to wrong, and a script that shows it.

The script has the states before and after, which it runs on the interpreter: for what TVM alone
does not show on this machine, a pass that is none of its own, and what only a GPU runs.
"""

from __future__ import annotations

import base64
import textwrap
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import tvm

from tirstep.modules.numeric import Array

from ..devices.simulator.interpreter import Interpreter


@dataclass(frozen=True)
class State:
    """A module between two passes, of one function, and how the interpreter is to read it.

    Attributes
    ----------
    in_order, is_compact : as `Interpreter` takes them
    """

    module: tvm.IRModule
    in_order: bool = True
    is_compact: bool = False

    def write(self, name: str) -> str:
        """The statement that gives it a name in a script, as TVM's JSON, packed.

        TVM does not read all of the text that it prints of lowered modules.
        """
        packed = base64.b85encode(zlib.compress(tvm.ir.save_json(self.module).encode(), 9)).decode()
        lines = "".join(f"    {line!r}\n" for line in textwrap.wrap(packed, 90))
        flags = f"in_order={self.in_order}, is_compact={self.is_compact}"
        return f"{name} = dict({flags}, packed=(\n{lines}))\n"

    @classmethod
    def read(cls, *, packed: str, in_order: bool, is_compact: bool) -> State:
        """What a script holds."""
        text = zlib.decompress(base64.b85decode(packed)).decode()
        return cls(tvm.ir.load_json(text), in_order, is_compact)

    def run(self, arguments: Sequence[Array]) -> tuple[list[Array], list[str]]:
        """What the arguments are afterwards, and the faults; raises `DeviceError`.

        What is found where iterations run at once is found again one after the other, or is none.
        """
        after, faults, is_certain = self._run(arguments, at_once=True)
        if faults and not is_certain:
            after, faults, _ = self._run(arguments, at_once=False)
        return after, faults

    def _run(
        self, arguments: Sequence[Array], *, at_once: bool
    ) -> tuple[list[Array], list[str], bool]:
        device = Interpreter(
            in_order=self.in_order, is_compact=self.is_compact, at_once=at_once, widens=at_once
        )
        program = device.compile(self.module)
        after = program(list(arguments))
        is_certain = not (device.has_spread or device.has_wide_loops)
        return list(after), [str(fault) for fault in program.findings], is_certain


# The part of the script: it needs tirstep, and ends with 1 where only the state after is wrong.

STATES = """

BOUNDS = {bounds}  # of the errors of each output, in absolute numbers


def is_right(got):
    found = []
    for name, true, each, bound in zip(NAMES, right, got, BOUNDS):
        found.append(np.isclose(each, true, rtol=0, atol=bound, equal_nan=True).ravel())
        print(f"right {{name}}:", true.ravel()[:16])
        print(f"found {{name}}:", each.ravel()[:16])
    is_close = np.concatenate(found)
    print(f"{{np.count_nonzero(~is_close)}} of {{is_close.size}} elements are wrong")
    return is_close.all()


if wrong is not None and not is_right(wrong):
    sys.exit(1)
try:
    from tirstep.lowering_checks.bisect import State
except ImportError:
    print("TVM alone does not show it here; with tirstep, this script runs its interpreter.")
    sys.exit(2)

# The modules before and after what is wrong, as TVM's JSON; above is what differs.
{before}{after}

def interpret(state):
    given = zip(kernel["main"].params, make_arguments(kernel))
    arrays = [np.asarray(each, getattr(each, "dtype", str(one.ty))) for one, each in given]
    arrays, faults = State.read(**state).run(arrays)
    return [arrays[place].astype("float64") for place in OUTPUTS], faults


print("Before, by tirstep's interpreter:")
got, faults = interpret(BEFORE)
if faults or not is_right(got):
    print("What stands before it is wrong on these numbers as well.")
    sys.exit(2)
print("After:")
got, faults = interpret(AFTER)
is_wrong = not is_right(got)
if faults:
    print("the interpreter finds:", faults[0])
sys.exit(1 if is_wrong or faults else 2)
"""


IsRight = Callable[[int], "bool | None"]
SECONDS = 3.0
"""How long the states behind a transition are confirmed to be wrong, too."""


def bisect(count: int, is_right: IsRight, *, seconds: float = SECONDS) -> tuple[int, int]:
    """Two places with a right state, a wrong one, and none between that can be judged.

    The places are 0 to ``count - 1``, and the last of them is wrong. `is_right` is None for a state
    that cannot be judged, and is called once for each place. The first of the two returned is -1
    where no right state was found.

    A wrong state that a right one follows is not what made the last one wrong: the judging device
    may as well have erred. So the states behind the transition are judged, too, near ones first,
    and bisected again behind the last right one. All of them, unless that takes too long.
    """
    known: dict[int, bool | None] = {count - 1: False}

    def judge(place: int) -> bool | None:
        if place not in known:
            known[place] = is_right(place)
        return known[place]

    low = -1
    while True:
        low, high = _narrow(low, count - 1, judge)
        later = _find_right(high, count, judge, time.monotonic() + seconds)
        if later is None:
            return low, high
        low = later


def _narrow(low: int, high: int, judge: IsRight) -> tuple[int, int]:
    """A right place, or -1, and a wrong one, between which no place can be judged."""
    unknown: set[int] = set()
    while places := [place for place in range(low + 1, high) if place not in unknown]:
        middle = places[len(places) // 2]
        verdict = judge(middle)
        if verdict is None:
            unknown.add(middle)
        elif verdict:
            low = middle
        else:
            high = middle
    return low, high


def _find_right(high: int, count: int, judge: IsRight, deadline: float) -> int | None:
    """The last place behind `high` that is found right; None where all are wrong or unknown."""
    found = None
    for place in _gallop(high, count - 1):
        if time.monotonic() > deadline:
            break
        if (found is None or place > found) and judge(place):
            found = place
    return found


def _gallop(low: int, high: int) -> Iterator[int]:
    """The places between two: those at distances of 1, 2, 4, ... first, then the others."""
    first = []
    step = 1
    while low + step < high:
        first.append(low + step)
        step *= 2
    yield from first
    yield from (place for place in range(low + 1, high) if place not in first)
