"""Five passes that are wrong, one of each kind that a compiler engineer writes some day.

Each looks right on most modules. `tirstep pass` finds one on which it is not, and makes it small:

    tirstep pass examples/passes/wrong_passes.py:drop_last_barrier --corpus 40
"""

import tvm
from tvm.tirx import BufferStore, Evaluate, FloatImm, For, ForKind, IfThenElse, IntImm, Sub
from tvm_ffi import structural_map

from tirstep.experiments import pass_experiment

NOTHING = Evaluate(tvm.tirx.const(0, "int32"))


def change_nodes(module, kind, change):
    """A module with all nodes of one kind changed."""
    functions = {
        name.name_hint: structural_map(function, (kind, change))
        for name, function in module.functions_items()
    }
    return tvm.IRModule(functions)


@pass_experiment(after="s_tir.ThreadSync", promises=["drops barriers only"])
def drop_last_barrier(module):
    """Leave out the last barrier of each module: what comes after it looks like the end."""
    barriers = []

    def find(node):
        if "storage_sync" in str(node.value):
            barriers.append(node)
        return node

    change_nodes(module, Evaluate, find)
    return change_nodes(
        module, Evaluate, lambda node: NOTHING if barriers and node.same_as(barriers[-1]) else node
    )


@pass_experiment(before="tirx.VectorizeLoop")
def sort_operands(module):
    """Bring operands into one order, so that equal expressions look equal: differences, too."""

    def swap(node):
        return Sub(node.b, node.a) if "float" in str(node.ty.dtype) else node

    return change_nodes(module, Sub, swap)


@pass_experiment(before="tirx.VectorizeLoop")
def hoist_store(module):
    """Hoist a store out of a branch that has nothing else: most branches are taken."""

    def hoist(node):
        is_alone = node.else_case is None and isinstance(node.then_case, BufferStore)
        return node.then_case if is_alone else node

    return change_nodes(module, IfThenElse, hoist)


@pass_experiment(before="tirx.StorageRewrite")
def drop_resets(module):
    """Leave out stores of 0 to a thread's own memory, as if that were 0 from the beginning."""

    def drop(node):
        is_zero = isinstance(node.value, IntImm | FloatImm) and node.value.value == 0
        return NOTHING if is_zero and str(node.buffer.scope()) == "local" else node

    return change_nodes(module, BufferStore, drop)


@pass_experiment(before="tirx.VectorizeLoop")
def widen_vectors(module):
    """Make each vector of two or three elements one of four, which the hardware likes better."""

    def widen(loop):
        if loop.kind != ForKind.VECTORIZED or int(loop.extent) not in (2, 3):
            return loop
        return For(loop.loop_var, loop.min, IntImm("int32", 4), loop.kind, loop.body)

    return change_nodes(module, For, widen)
