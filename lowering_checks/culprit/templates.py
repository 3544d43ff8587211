"""The parts of a reproducer."""

FIRST_LINE = "# Written by `tirstep why`: it may be overwritten."

HEAD = (
    FIRST_LINE
    + '''
"""{about}

Run it with Python, NumPy and apache-tvm 0.27.
"""

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
    + """TARGET = "{target}"
kernel, module = from_source(KERNEL), from_source(MODULE)
right = run(kernel, "llvm", tvm.cpu(), {{}})
wrong = run(module, TARGET, tvm.cuda(), OPTIONS) if tvm.cuda().exist else None
"""
)

RUN_AGAINST_VALUES = (
    ARGUMENTS
    + """# By NumPy, in float64.
right = np.array({values})
wrong = run(from_source(MODULE), "llvm", tvm.cpu(), {{}}).ravel()[:{count}]
"""
)

WATCH_PASS = '''

@tvm.ir.instrument.pass_instrument
class Watch:
    """Prints the module around pass {number} of the compilation, {name}."""

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
        if (info.name, self.running[-1]) == ("{name}", {number}):
            print(f"# {{when}} {{info.name}}\\n{{module.script()}}\\n")


with tvm.transform.PassContext(config=OPTIONS, instruments=[Watch()]):
    tvm.compile(module, target="{target}")
'''

SHOW_SOURCE = """
# No pass is at fault: the module is right after the last one, and the source is wrong.
with tvm.transform.PassContext(config=OPTIONS):
    print(tvm.compile(module, target="{target}").mod.imports[0].inspect_source())
"""

CUSTOM_PASS = """
# The pass {name} is none of TVM's own, so it is not run here: this is what it changed.
print(DIFF)
"""

COMPARE = """
if wrong is None:
    print("There is no GPU here, and a CPU does not show the fault: see above.")
else:
    print(f"{np.count_nonzero(right != wrong)} of {right.size} elements are wrong")
    print("right:", right.ravel()[:16])
    print("wrong:", wrong.ravel()[:16])
    assert np.array_equal(right, wrong)
"""
