"""The parts of a reproducer: it ends with 1 where the fault shows, with 2 where it cannot show."""

FIRST_LINE = "# Written by `tirstep why`: it may be overwritten."

HEAD = (
    FIRST_LINE
    + '''
"""{about}

Run it with Python, NumPy and apache-tvm 0.27. It ends with 1 where the fault shows, and with 2
where this machine cannot show it.
"""

import sys

import numpy as np
{half_types}import tvm
from tvm.script import from_source

# What is to be computed.
'''
)

ARGUMENTS = '''

def make_arguments(module):
    """Whole numbers, so that every sum is exact; the last argument is the output."""
    random = np.random.default_rng(0)
    arrays = []
    for buffer in module["main"].params:
        shape = [int(extent) for extent in buffer.shape]
        arrays.append(random.integers(-3, 4, shape).astype(str(buffer.dtype)))
    arrays[-1] = np.zeros_like(arrays[-1])
    return arrays


def run(module, target, device, options):
    tensors = [tvm.runtime.tensor(array, device) for array in make_arguments(module)]
    with tvm.transform.PassContext(config=options):
        tvm.compile(module, target=target)["main"](*tensors)
    return tensors[-1].numpy().astype("float64")


'''

RUN_ON_CPU = (
    ARGUMENTS
    + """TARGET = "llvm"
kernel, module = from_source(KERNEL), from_source(MODULE)
right = run(kernel, "llvm", tvm.cpu(), {})
wrong = run(module, "llvm", tvm.cpu(), OPTIONS)
"""
)

RUN_ON_GPU = (
    ARGUMENTS
    + """TARGET = {target!r}
kernel, module = from_source(KERNEL), from_source(MODULE)
right = run(kernel, "llvm", tvm.cpu(), {{}})
wrong = run(module, TARGET, tvm.cuda(), OPTIONS) if tvm.cuda().exist else None
"""
)

RUN_AGAINST_VALUES = (
    ARGUMENTS
    + """# By NumPy, in float64.
right = np.array({values}, dtype="float64")
wrong = run(from_source(MODULE), "llvm", tvm.cpu(), {{}}).ravel()[:{count}]
"""
)

WATCH_PASS = '''

NUMBER, NAME = {number}, {name!r}


@tvm.ir.instrument.pass_instrument
class Watch:
    """Prints the module around one pass of the compilation."""

    count, running = 0, []

    def run_before_pass(self, module, info):
        if info.name not in ("sequential", "_pipeline"):
            self.count += 1
            self.running.append(self.count)
            self.show("before", module, info)

    def run_after_pass(self, module, info):
        if info.name not in ("sequential", "_pipeline"):
            self.show("after", module, info)
            self.running.pop()

    def show(self, when, module, info):
        if (info.name, self.running[-1]) == (NAME, NUMBER):
            print(f"# {{when}} {{info.name}}\\n{{module.script()}}\\n")


with tvm.transform.PassContext(config=OPTIONS, instruments=[Watch()]):
    tvm.compile(module, target={target!r})
'''

SHOW_SOURCE = """
# The module is right after the last pass that could be run, and the source is wrong.
with tvm.transform.PassContext(config=OPTIONS):
    print(tvm.compile(module, target={target!r}).mod.imports[0].inspect_source())
"""

SHOW_CHANGE = """
print(DIFF)
"""

CUSTOM_PASS = """
print(DIFF)
print({reason!r} + ", so this script cannot run it: above is what changed.")
sys.exit(2)
"""

REFUSED = """
TARGET = {target!r}
print(DIFF)
try:
    with tvm.transform.PassContext(config=OPTIONS):
        tvm.compile(from_source(MODULE), target=TARGET)
except Exception as error:
    print("TVM refuses the module:", str(error).strip().splitlines()[-1])
    sys.exit(1)
print("This TVM does not refuse the module.")
"""

COMPARE = """
BOUND = {bound!r}  # of the error in absolute numbers
if wrong is None:
    print("There is no GPU here that TVM can use, and a CPU does not show the fault.")
    sys.exit(2)
is_right = np.isclose(wrong, right, rtol=0, atol=BOUND, equal_nan=True)
print(f"{{np.count_nonzero(~is_right)}} of {{right.size}} elements are wrong")
print("right:", right.ravel()[:16])
print("wrong:", wrong.ravel()[:16])
"""

END_OF_NUMBERS = """assert is_right.all()
print("The fault does not show here.")
"""

END_OF_FAULT = """assert is_right.all()
print("The numbers are right in this run, which they may be in spite of the fault named on top.")
sys.exit(2)
"""
