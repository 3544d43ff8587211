"""Runs what TVM's passes make of a program, with NumPy: one thread up to a barrier, then the next.

That is an order in which a GPU may run them, and `order` -1 is another: where a barrier is missing,
one of the two computes something else. Counterexamples carry this file's text along.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Mod": np.fmod,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "LShift": np.left_shift,
    "RShift": np.right_shift,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("fabs", "exp", "exp2", "sqrt", "tanh", "sin", "cos")},
    **{name: getattr(np, name) for name in ("floor", "ceil", "trunc", "log", "log2", "isnan")},
    "abs": np.abs,
    "nearbyint": np.rint,
    "likely": lambda value: value,
    "rsqrt": lambda value: 1 / np.sqrt(value),
    "pow": np.power,
    "bitwise_not": np.invert,
}


def get_type(name: str) -> Any:
    """NumPy's type of one of TVM's names; of a vector that of its elements."""
    name = name.partition("x")[0]
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def count_lanes(name: str) -> int:
    """The elements of a type, as "int8x2"."""
    return int(name.partition("x")[2] or 1)


def emulate(function: Any, arrays: Any, order: int = 1) -> None:
    """Run a function on arrays, in place; raises IndexError where it leaves a buffer."""
    pairs = zip(function.params, arrays, strict=True)
    memory: dict[Any, Any] = {parameter: array.reshape(-1) for parameter, array in pairs}
    scalars = {each: array[0] for each, array in memory.items() if array.size == 1}
    memory["shared"] = {}
    with np.errstate(all="ignore"):
        run_on_host(function.body, scalars, memory, order)


def run_on_host(statement: Any, names: Any, memory: Any, order: int) -> None:
    """Statements of the host; a kernel runs all its threads."""
    kind = type(statement).__name__
    if kind == "SeqStmt":
        for each in statement.seq:
            run_on_host(each, names, memory, order)
    elif kind == "AttrStmt" and statement.attr_key == "thread_extent":
        launch(statement, names, memory, order)
    elif kind == "AttrStmt":
        run_on_host(statement.body, names, memory, order)
    else:
        for _ in run(statement, names, memory, {}):
            pass


def launch(kernel: Any, names: Any, memory: Any, order: int) -> None:
    """All blocks of a kernel, one after the other, the threads of each between two barriers."""
    extents: dict[str, int] = {}
    statement = kernel
    while type(statement).__name__ in ("AttrStmt", "SeqStmt"):
        if type(statement).__name__ == "AttrStmt":
            if statement.attr_key == "thread_extent":
                extents[str(statement.node.thread_tag)] = int(statement.value)
            statement = statement.body
        else:
            inner = [s for s in statement.seq if type(s).__name__ in ("AttrStmt", "SeqStmt")]
            if not inner:
                break
            statement = inner[-1]
    axes = sorted(extents)
    blocks = [axis for axis in axes if axis.startswith("blockIdx")]
    threads = [axis for axis in axes if not axis.startswith("blockIdx")]
    for block in itertools.product(*(range(extents[axis]) for axis in blocks)):
        shared: dict[Any, Any] = {}
        running = []
        for thread in itertools.product(*(range(extents[axis]) for axis in threads)):
            place = dict(zip(blocks + threads, block + thread, strict=True))
            own = {**memory, "shared": shared}
            running.append(run(kernel, dict(names), own, place))
        running = running[::order]
        while running:
            running = [each for each in running if next(each, "end") != "end"]


def run(statement: Any, names: Any, memory: Any, place: dict[str, int]) -> Iterator[str]:
    """One thread; it yields at each barrier."""
    kind = type(statement).__name__
    if kind == "SeqStmt":
        for each in statement.seq:
            yield from run(each, names, memory, place)
    elif kind == "For":
        first = int(value_of(statement.min, names, memory))
        for number in range(int(value_of(statement.extent, names, memory))):
            names[statement.loop_var] = first + number
            yield from run(statement.body, names, memory, place)
    elif kind == "While":
        while value_of(statement.condition, names, memory):
            yield from run(statement.body, names, memory, place)
    elif kind == "IfThenElse":
        if value_of(statement.condition, names, memory):
            yield from run(statement.then_case, names, memory, place)
        elif statement.else_case is not None:
            yield from run(statement.else_case, names, memory, place)
    elif kind == "AttrStmt":
        if statement.attr_key == "thread_extent":
            names[statement.node.var] = place.get(str(statement.node.thread_tag), 0)
        yield from run(statement.body, names, memory, place)
    elif kind == "AllocBuffer":
        allocate(statement.buffer, memory)
    elif kind == "DeclBuffer":  # another name: its data is tvm.buffer_data(buffer)
        data = statement.data
        memory[statement.buffer] = memory[data.args[0] if hasattr(data, "args") else data]
    elif kind == "Bind":
        names[statement.var] = value_of(statement.value, names, memory)
    elif kind == "BufferStore":
        store(statement, names, memory)
    elif kind == "Evaluate":
        if "storage_sync" in str(getattr(statement.value, "op", "")):
            if str(statement.value.args[0].value) != "warp":  # of which TVM makes no code
                yield "barrier"
        elif type(statement.value).__name__ == "Call":
            value_of(statement.value, names, memory)
    else:
        raise NotImplementedError(f"a statement {kind}")


def allocate(buffer: Any, memory: Any) -> None:
    """Memory that holds no number yet; all threads of a block have one of a shared buffer."""
    count = math.prod(int(extent) for extent in buffer.shape) * count_lanes(str(buffer.dtype))
    made = get_type(str(buffer.dtype))
    nothing = 77 if made.kind in "biu" else math.nan
    fresh = np.full(count, nothing, made)
    is_shared = str(buffer.scope()).startswith("shared")
    memory[buffer] = memory["shared"].setdefault(buffer, fresh) if is_shared else fresh


def element_of(buffer: Any, indices: Any, names: Any, memory: Any) -> Any:
    """The number of an element; raises IndexError for one outside of the buffer."""
    at: Any = 0
    for extent, index in zip(buffer.shape, indices, strict=True):
        at = at * int(extent) + value_of(index, names, memory)
    lanes = count_lanes(str(buffer.dtype))
    if lanes > 1:
        at = at * lanes + np.arange(lanes)
    size = memory[buffer].size
    if np.any(np.less(at, 0)) or np.any(np.greater_equal(at, size)):
        raise IndexError(f"{buffer.name}[{at}] is accessed, which has {size} elements")
    return at


def store(statement: Any, names: Any, memory: Any) -> None:
    """A store, in the type of the buffer."""
    at = element_of(statement.buffer, statement.indices, names, memory)
    value = value_of(statement.value, names, memory)
    array = memory[statement.buffer]
    array[at] = np.asarray(value).astype(array.dtype)


def value_of(node: Any, names: Any, memory: Any) -> Any:
    """The value of an expression, in its type."""
    kind = type(node).__name__
    value = functools.partial(value_of, names=names, memory=memory)
    if kind in ("IntImm", "FloatImm"):
        return get_type(str(node.ty.dtype)).type(node.value)
    if kind == "Var":
        return names[node]
    if kind in ("TensorLoad", "BufferLoad"):
        tensor = node.source if hasattr(node, "source") else node.buffer  # TVM 0.27, and older
        return memory[tensor][element_of(tensor, node.indices, names, memory)]
    if kind == "Ramp":
        return value(node.base) + value(node.stride) * np.arange(int(node.lanes))
    if kind == "Broadcast":
        return np.full(int(node.lanes), value(node.value))
    if kind == "Cast":
        return np.asarray(value(node.value)).astype(get_type(str(node.ty.dtype)))[()]
    if kind == "Not":
        return np.logical_not(value(node.a))
    if kind == "Select":
        parts = value(node.condition), value(node.true_value), value(node.false_value)
        return np.where(*parts)[()]
    if kind == "Let":
        names[node.var] = value(node.value)
        return value(node.body)
    if kind == "Div":
        left, right = value(node.a), value(node.b)
        return (
            left / right if "float" in str(node.ty.dtype) else np.fix(left / right).astype("int64")
        )
    if kind in OPERATORS:
        return OPERATORS[kind](value(node.a), value(node.b))
    if kind == "Call":
        return call(node, value)
    raise NotImplementedError(f"an expression {kind}")


def call(node: Any, value: Callable[[Any], Any]) -> Any:
    """A call of a function of TVM."""
    name = str(getattr(node.op, "name", node.op)).rpartition(".")[2]
    if name == "if_then_else":
        condition = value(node.args[0])
        if np.ndim(condition):
            return np.where(condition, value(node.args[1]), value(node.args[2]))
        return value(node.args[1] if condition else node.args[2])
    if name == "reinterpret":
        return np.asarray(value(node.args[0])).view(get_type(str(node.ty.dtype)))[()]
    if name in OPERATORS:
        return OPERATORS[name](value(node.args[0]), value(node.args[1]))
    if name in FUNCTIONS:
        return FUNCTIONS[name](*map(value, node.args))
    raise NotImplementedError(f"a call of {name}")
