"""Two passes with one idea: a short loop over elements side by side becomes vectors.

The first asks whether iterations depend on one another, and proves where a vector begins: it wins.
The second checks only what is loaded, and is wrong:

    tirstep pass examples/passes/vectorize_maps.py:vectorize_maps examples/passes/kernels.py:axpy
    tirstep pass examples/passes/vectorize_maps.py:vectorize_any_map --corpus 400
"""

import tvm_ffi
from tvm.ir import Call, Range, TensorLoad
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import AttrStmt, BufferStore, For, ForKind, IntImm
from tvm.tirx.transform import prim_func_pass

from tirstep.experiments import pass_experiment

LENGTHS = (2, 4)


def make_vector(loop):
    """The loop with all its iterations at once."""
    return For(loop.loop_var, loop.min, loop.extent, ForKind.VECTORIZED, loop.body)


def read_map(loop):
    """Where the elements of a loop begin that lie side by side, in each buffer that it accesses.

    None for a loop that is not a map: with several statements, with calls, or over other elements.
    """
    store = loop.body
    is_short = isinstance(loop.extent, IntImm) and int(loop.extent) in LENGTHS
    if loop.kind != ForKind.SERIAL or not is_short or not isinstance(store, BufferStore):
        return None
    loads, calls = [], []
    tvm_ffi.structural_walk(
        store.value, [(TensorLoad, loads.append), (Call, calls.append)], order="pre"
    )
    if calls or not loads:
        return None
    begins = []
    for indices in (store.indices, *(load.indices for load in loads)):
        parts = detect_linear_equation(indices[0], [loop.loop_var]) if len(indices) == 1 else []
        if not parts or not isinstance(parts[0], IntImm) or int(parts[0]) not in (0, 1):
            return None
        if int(parts[0]) == 1:
            begins.append(parts[1])
    return begins


def is_independent(loop):
    """Whether no iteration stores what another one stores or loads."""
    store, loads = loop.body, []
    tvm_ffi.structural_walk(store.value, [(TensorLoad, loads.append)], order="pre")
    step = detect_linear_equation(store.indices[0], [loop.loop_var])[0]
    return int(step) == 1 and not any(load.source.same_as(store.buffer) for load in loads)


def bind_variables(function):
    """An analyzer that knows how far loops and thread axes run."""
    analyzer = Analyzer()

    def bind_loop(loop):
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))

    def bind_axis(node):
        if node.attr_key == "thread_extent":
            analyzer.bind(node.node.var, Range.from_min_extent(0, node.value))

    tvm_ffi.structural_walk(function.body, [(For, bind_loop), (AttrStmt, bind_axis)], order="pre")
    return analyzer


@pass_experiment(before="tirx.VectorizeLoop", promises=["changes no bits", "adds no barriers"])
@prim_func_pass(opt_level=0, name="example.VectorizeMaps")
def vectorize_maps(function, _module, _context):
    """Vectorize a map whose elements begin where a vector of them does: that much is proven."""
    analyzer = bind_variables(function)

    def widen(loop):
        begins = read_map(loop)
        if begins is None or not is_independent(loop):
            return loop
        is_aligned = all(analyzer.can_prove(begin % loop.extent == 0) for begin in begins)
        return make_vector(loop) if is_aligned else loop

    return function.with_body(tvm_ffi.structural_map(function.body, (For, widen)))


@pass_experiment(before="tirx.VectorizeLoop")
@prim_func_pass(opt_level=0, name="example.VectorizeAnyMap")
def vectorize_any_map(function, _module, _context):
    """Vectorize every map: side by side is enough, it seems. It is not, where a sum is formed."""

    def widen(loop):
        return loop if read_map(loop) is None else make_vector(loop)

    return function.with_body(tvm_ffi.structural_map(function.body, (For, widen)))
