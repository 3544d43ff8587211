"""The states before and after what is wrong, in a script that runs them on the interpreter.

For what TVM alone does not show on this machine: a pass that is none of its own, and what only a
GPU runs.
"""

from __future__ import annotations

import base64
import textwrap
import zlib
from collections.abc import Sequence
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
