"""Expressions of TIR as NumPy functions of all threads at once.

A value is a Python number where all threads agree, otherwise an array of shape (lanes, vector),
either of which may be 1; that of a pointer is an `Address`. Expressions are translated once into
closures; a closure takes the simulated GPU and the mask of active lanes (None: all), so that both
arms of an if_then_else are evaluated, each for its own lanes only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.sym import Analyzer
from tvm.tirx import Cast, FloatImm, IntImm, Var, truncdiv, truncmod
from tvm_ffi import structural_equal

from tirstep.transforms.tir import constant, find_all
from tirstep.tvm_compat import get_op_name

from ...device import Array
from .async_copies import ASYNC_COPIES
from .atomics import ATOMICS, FENCES, WAIT, access_strongly, report_endless
from .bulk_copies import BULK_COPIES, encode_image
from .clusters import CLUSTERS, VECTOR_ACCESSES, tell_address
from .function_semantics import (
    ALONE,
    Pointer,
    Semantics,
    Threads,
    get_semantics,
    name_call,
    read_call,
)
from .mbarriers import MBARRIERS
from .memory import BufferKey, Memory, count_lanes, get_numpy_dtype
from .named_barriers import NAMED_BARRIERS
from .operators import (
    ARITHMETIC,
    COMPARISONS,
    DIVISIONS,
    FUNCTIONS,
    HAZARDS,
    as_stored,
    convert,
    count_leading_zeros,
    get_operator,
    invert,
    is_integer,
    is_narrow,
    wrap,
)
from .ptx_arithmetic import PTX_ARITHMETIC
from .ptx_calls import PREFIX, read_ptx_call
from .run_state import UnsupportedError, get_location
from .tcgen05 import TCGEN05
from .tensor_cores import TENSOR_CORES, TYPED
from .warp_shuffles import BLOCK_REDUCTIONS, WARP_SHUFFLES
from .warpgroups import WARPGROUPS

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

Evaluate = Callable[["SimulatedGpu", "Array | None"], Any]
BUILT_IN: dict[str, Semantics] = {
    **ALONE,
    **ASYNC_COPIES,
    **ATOMICS,
    **BLOCK_REDUCTIONS,
    **BULK_COPIES,
    **CLUSTERS,
    **FENCES,
    **MBARRIERS,
    **NAMED_BARRIERS,
    **PTX_ARITHMETIC,
    **TCGEN05,
    **TENSOR_CORES,
    **VECTOR_ACCESSES,
    **WARP_SHUFFLES,
    **WARPGROUPS,
}
_ENCODE, _ENCODE_PACKED = "tensormap_encode_tiled", "runtime.cuTensorMapEncodeTiled"
_MODES = ("interleave", "swizzle", "l2_promotion", "oob_fill", "force_cu_dtype")
_OF_EQUALS = ("Sub", "EQ", "NE")
_OF_ZEROS = ("Add", "Mul", "Div")
_ROUNDING_DOWN = {"FloorDiv": truncdiv, "FloorMod": truncmod}


def translate(expression: Any) -> Evaluate:
    """The function of an expression. Raises `UnsupportedError` for an unknown kind of node."""
    kind = type(expression).__name__
    if kind in ARITHMETIC or kind in COMPARISONS:
        folded = _fold(kind, expression)
        if folded is not expression:
            return translate(folded)
        return _binary(kind, expression.a, expression.b)
    maker = _MAKERS.get(kind)
    if maker is None:
        raise UnsupportedError(
            f"the simulator does not support the expression {kind}: {expression}"
        )
    return maker(expression)


def _fold(kind: str, node: Any) -> Any:
    """What TVM's simplifier makes of an operator, in passes behind the last one that is simulated.

    It takes floats for numbers that are neither infinite nor NaN, and what was unsigned for
    positive.
    """
    if kind in _ROUNDING_DOWN:
        # To zero, where TVM takes the dividend for positive by its type before a cast.
        casts = [] if isinstance(node.a, (IntImm, FloatImm)) else find_all(node.a, Cast)
        if (
            isinstance(node.b, IntImm)
            and any(str(cast.value.ty.dtype).startswith("uint") for cast in casts)
            and str(node.a.ty.dtype).startswith("int")
            and Analyzer().can_prove(node.a >= 0)
        ):
            return _ROUNDING_DOWN[kind](node.a, node.b)
        return node
    if "float" not in str(node.a.ty.dtype):
        return node
    may_fold = (kind in _OF_EQUALS and structural_equal(node.a, node.b)) or (
        kind in _OF_ZEROS and (_is_zero(node.a) or (kind != "Div" and _is_zero(node.b)))
    )
    if not may_fold or (isinstance(node.a, FloatImm) and isinstance(node.b, FloatImm)):
        return node
    return Analyzer().simplify(node)


def _is_zero(node: Any) -> bool:
    return isinstance(node, FloatImm) and float(node.value) == 0


def restrict(mask: Array | None, condition: Any, wanted: bool = True) -> Any:
    """The lanes of a mask for which a condition is as wanted: a mask, or False for none of them."""
    if isinstance(condition, (bool, int, np.bool_)):
        return mask if bool(condition) == wanted else False
    holds = condition if condition.dtype == bool else condition != 0  # elect_sync's is a number
    kept = holds if wanted else ~holds
    kept = kept if mask is None else mask & kept
    count = np.count_nonzero(kept)
    if not count:
        return False
    return None if count == kept.size else kept


# ---- Operators


def _binary(kind: str, first: Any, second: Any) -> Evaluate:
    """Where C++ does not define a result for the operands, these are a finding, and it goes on."""
    dtype = str(first.ty.dtype)
    operate, wraps = get_operator(kind, dtype)
    left, right = (
        # That of a tensor map, which TVM takes for a number.
        _tell_address(it) if _calls(it, "address_of") else translate(it)
        for it in (first, second)
    )
    hazards = HAZARDS.get(kind, ()) if is_integer(dtype) and not constant(second) else ()
    if wraps is None and not hazards:
        return lambda gpu, mask: operate(left(gpu, mask), right(gpu, mask))
    is_short = wraps is not None and is_narrow(dtype)
    limits = None if wraps is None else (int(np.iinfo(wraps).min), int(np.iinfo(wraps).max))

    def run(gpu: SimulatedGpu, mask: Array | None) -> Any:
        one, other = left(gpu, mask), right(gpu, mask)
        for finding, text, find in hazards:
            wrong = find(one, other, dtype)
            if np.any(wrong):
                lanes = 1 if gpu.state.running is None else gpu.state.batch.lanes
                shape = np.broadcast_shapes(np.shape(wrong), (lanes, 1))
                places = np.broadcast_to(wrong if mask is None else wrong & mask, shape)
                operands = [np.broadcast_to(operand, shape) for operand in (one, other)]

                def tell(at: tuple[int, ...], text: str = text, each: Any = operands) -> str:
                    state = gpu.state
                    who = "the host" if state.running is None else state.describe_lane(at[0])
                    return f"{who} {text.format(*(operand[at] for operand in each))}"

                gpu.state.log.add(finding, "", gpu.location, places, tell)
        if hazards and kind in DIVISIONS:
            is_array = isinstance(other, np.ndarray)
            other = np.where(other == 0, 1, other) if is_array else other or 1
        result = operate(one, other)
        if is_short and (gpu.state.running is None or not gpu.promotes):  # LLVM promotes nothing
            return as_stored(result, dtype)
        if wraps is None or limits is None or result.__class__ is not int:
            return result
        return result if limits[0] <= result <= limits[1] else wrap(result, wraps)

    return run


def _logical(node: Any, operate: Callable[..., Any], decides: bool) -> Evaluate:
    """Evaluate both sides for vectors; for scalars the right side only where it decides."""
    if count_lanes(node.ty.dtype) > 1:
        return _apply(operate, [node.a, node.b])
    left, right, known = translate(node.a), translate(node.b), _constant(decides)
    return _choose(left, known, right) if decides else _choose(left, right, known)


def _apply(operate: Callable[..., Any], operands: Any) -> Evaluate:
    """A function of values only."""
    values = [translate(operand) for operand in operands]
    if len(values) == 1:
        (value,) = values
        return lambda gpu, mask: operate(value(gpu, mask))
    return lambda gpu, mask: operate(*(value(gpu, mask) for value in values))


# ---- Constants, variables, vectors and loads


def _constant(value: Any) -> Evaluate:
    return lambda gpu, mask: value


def _variable(node: Any) -> Evaluate:
    key = hash(node)

    def read(gpu: SimulatedGpu, mask: Array | None) -> Any:
        try:
            return gpu.values[key]
        except KeyError:
            memory = gpu.memories.get(BufferKey(node))
            if memory is not None:  # the variable of a buffer's data
                return Address(memory, 0)
            raise UnsupportedError(
                f"the variable {node.name} is not defined where it is used"
            ) from None

    return read


def _ramp(node: Any) -> Evaluate:
    base, stride = translate(node.base), translate(node.stride)
    steps = np.arange(int(node.lanes), dtype=get_numpy_dtype(node.base.ty.dtype))[None, :]
    return lambda gpu, mask: base(gpu, mask) + stride(gpu, mask) * steps


def _load(node: Any) -> Evaluate:
    index, key = translate_index(node.source, node.indices), BufferKey(node.source)
    location = get_location(node)
    return lambda gpu, mask: gpu.memories[key].load(
        index(gpu, mask), mask, location or gpu.location
    )


def translate_index(buffer: Any, indices: Any) -> Evaluate:
    """Where an access lies, in scalars: element i of a buffer of vectors is a row of neighbours."""
    if len(indices) != 1:
        raise UnsupportedError(f"the simulator needs flat buffers, and has {buffer.name}{indices}")
    index, lanes = translate(indices[0]), count_lanes(buffer.dtype)
    if lanes == 1:
        return index

    def spread(gpu: SimulatedGpu, mask: Array | None) -> Array:
        first: Array = np.atleast_2d(index(gpu, mask))
        return (first[:, :, None] * lanes + np.arange(lanes)).reshape(len(first), -1)

    return spread


def _let(node: Any) -> Evaluate:
    value, body, dtype = translate(node.value), translate(node.body), str(node.var.ty.dtype)
    key = hash(node.var)

    def run(gpu: SimulatedGpu, mask: Array | None) -> Any:
        bound = value(gpu, mask)
        gpu.values[key] = as_stored(bound, dtype) if is_narrow(dtype) else bound
        return body(gpu, mask)

    return run


def _shuffle(node: Any) -> Evaluate:
    """Elements of vectors that stand side by side."""
    vectors, places = [translate(it) for it in node.vectors], [int(it) for it in node.indices]
    counts, dtype = (
        [count_lanes(it.ty.dtype) for it in node.vectors],
        get_numpy_dtype(node.ty.dtype),
    )

    def pick(gpu: SimulatedGpu, mask: Array | None) -> Any:
        parts = [np.atleast_2d(np.asarray(it(gpu, mask), dtype)) for it in vectors]
        shapes = [(max(map(len, parts)), count) for count in counts]
        return np.hstack([*map(np.broadcast_to, parts, shapes)])[:, places]

    return pick


# ---- Choices


def _choose(condition: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
    def choose(gpu: SimulatedGpu, mask: Array | None) -> Any:
        holds = condition(gpu, mask)
        then, otherwise = restrict(mask, holds), restrict(mask, holds, wanted=False)
        if otherwise is False:
            return yes(gpu, mask)
        if then is False:
            return no(gpu, mask)
        return np.where(holds, yes(gpu, then), no(gpu, otherwise))

    return choose


def _select(node: Any) -> Evaluate:
    """For vectors the generated source computes both arms, for all elements."""
    arms = (node.condition, node.true_value, node.false_value)
    if count_lanes(node.ty.dtype) > 1:
        return _apply(np.where, arms)
    return _choose(*map(translate, arms))


# ---- Pointers and calls


@dataclass(frozen=True)
class Address:
    """The value of a pointer: an offset into a memory, in elements of its type."""

    memory: Memory
    offset: Any


class Window(Memory):
    """A buffer at an address that is a number: in another block's shared memory, as a rule."""

    def __init__(self, address: Any, name: str, dtype: np.dtype[Any], state: Any) -> None:
        super().__init__(name, 0, dtype, state)
        self.address = address


def _calls(node: Any, name: str) -> bool:
    """Whether a node is a call of an operator of TVM's."""
    return type(node).__name__ == "Call" and get_op_name(node).endswith(name)


def _tell_address(pointer: Any) -> Evaluate:
    """The number that a pointer into shared memory is."""
    point = translate(pointer)

    def tell(gpu: SimulatedGpu, mask: Array | None) -> Any:
        it = point(gpu, mask)
        return tell_address(gpu, it.memory, it.offset) if isinstance(it, Address) else it

    return tell


def _translate_argument(node: Any) -> Evaluate:
    """An argument of a function, which takes a pointer where CUDA's takes its number."""
    return translate(node.args[0] if _calls(node, "cuda.cvta_generic_to_shared") else node)


def _point_to(buffer: Any) -> Evaluate:
    key = BufferKey(buffer)

    return lambda gpu, mask: Address(gpu.memories[key], 0)


def _access_ptr(node: Any) -> Evaluate:
    base, shift = node.args[1], translate(node.args[2])
    dtype, lanes = get_numpy_dtype(node.args[0].ty.dtype), count_lanes(node.args[0].ty.dtype)
    begin = _point_to(base) if isinstance(base, Var) else translate(base)

    def point(gpu: SimulatedGpu, mask: Array | None) -> Address:
        address = begin(gpu, mask)
        memory, offset = address.memory.reinterpret(dtype), address.offset
        if memory is not address.memory and not (isinstance(offset, int) and offset == 0):
            raise UnsupportedError(f"the simulator does not support the pointer {node}")
        return Address(memory, offset + shift(gpu, mask) * lanes)

    return point


def _point_to_element(load: Any) -> Evaluate:
    """Where an element lies that is loaded; of one as other bits, where those lie."""
    while _calls(load, "reinterpret"):
        load = load.args[0]
    key, index = BufferKey(load.source), translate_index(load.source, load.indices)

    def point(gpu: SimulatedGpu, mask: Array | None) -> Any:
        place, memory = index(gpu, mask), gpu.memories[key]
        if isinstance(memory, Window):
            return memory.address + place * memory.dtype.itemsize
        return Address(memory, place[:, :1] if np.ndim(place) else int(place))

    return point


def _call(node: Any) -> Evaluate:
    full_name = (get_op_name(node) or str(node.op)).removeprefix("tirx.")
    name = full_name.rsplit(".", 1)[-1]
    if (called := name_call(node)) in _POINTERS:
        return _POINTERS[called](node)
    if full_name.startswith(PREFIX):
        return _call_function(node)
    if name == "if_then_else":
        # The generated source has a variable for the result, which cuts off what is promoted.
        chosen, dtype = _choose(*map(translate, node.args)), str(node.ty.dtype)
        is_short = is_narrow(dtype)
        return (lambda gpu, mask: as_stored(chosen(gpu, mask), dtype)) if is_short else chosen
    if name == "reinterpret":
        if not hasattr(node.ty, "dtype"):
            return translate(node.args[0])  # a pointer, as one to anything
        if not hasattr(node.args[0].ty, "dtype"):
            return _tell_address(node.args[0])
        source, target = (get_numpy_dtype(value.ty.dtype) for value in (node.args[0], node))
        at_least = np.atleast_2d if source.itemsize != target.itemsize else np.atleast_1d
        return _apply(lambda it: np.asarray(at_least(it), source, "C").view(target), node.args)
    if name == "clz":
        return _apply(count_leading_zeros(str(node.args[0].ty.dtype)), node.args)
    if name in FUNCTIONS:
        return _apply(FUNCTIONS[name], node.args)
    return _call_function(node)


def _call_function(node: Any) -> Evaluate:
    """A call of a function with semantics, built in or registered."""
    name, arguments = read_call(node)
    semantics, location = get_semantics(name, BUILT_IN), get_location(node)
    if name in TYPED:
        semantics = functools.partial(semantics, result=str(node.ty))
    registers, guard = frozenset[int](), None
    if (ptx := read_ptx_call(name, arguments)) is not None:
        operands, words, registers, predicate = ptx
        arguments = [*operands, *words.values()]
        guard = None if predicate is None else translate(predicate)
    values = [
        (_point_to_element if place in registers and it is not None else _translate_argument)(it)
        for place, it in enumerate(arguments)
    ]

    def run(gpu: SimulatedGpu, mask: Array | None) -> Any:
        if guard is not None:
            mask = restrict(mask, guard(gpu, mask) != 0)
            if mask is False:
                return 0
        threads = Threads(gpu, mask, name, location or gpu.location)
        given = (value(gpu, mask) for value in values)
        return semantics(
            threads,
            *(
                Pointer(threads, it.memory, it.offset) if isinstance(it, Address) else it
                for it in given
            ),
        )

    return run


def _encode_tensor_map(node: Any) -> Evaluate:
    """TVM's operator, or a packed call of what it is on a host that is not CUDA's."""
    arguments, attributes = list(node.args), node.attrs
    if attributes is not None and get_op_name(node).endswith(_ENCODE):
        described, modes = (
            str(attributes.descriptor_dtype),
            [_constant(int(getattr(attributes, it))) for it in _MODES],
        )
    elif str(arguments.pop(0).value) == _ENCODE_PACKED:
        described, rank = str(arguments.pop(1).value), int(arguments.pop(1))
        modes = [translate(arguments.pop(2 + 4 * rank - 1)) for _ in arguments[4 * rank + 1 :]]
    else:
        raise UnsupportedError(f"the simulator does not support {node}")
    tensor_map, data, *sizes = [translate(each) for each in arguments]

    def encode(gpu: SimulatedGpu, mask: Array | None) -> int:
        to, address = tensor_map(gpu, mask), data(gpu, mask)
        values, others = ([int(it(gpu, mask)) for it in each] for each in (sizes, modes))
        begin = tell_address(gpu, address.memory, int(address.offset))
        image, first = encode_image(begin, described, values, *others), to.memory.dtype.itemsize
        places = int(to.offset) * first + np.arange(image.size)
        to.memory.reinterpret(image.dtype).store(places, image, None, gpu.location)
        return 0

    return encode


def _make_tensor_map(node: Any) -> Evaluate:
    if str(node.args[0].value) != "tensormap":
        raise UnsupportedError(f"the simulator does not support {node}")
    name, count = "tensor map", 128 * int(node.args[1])
    return lambda gpu, mask: Address(
        gpu.add_global(name, np.zeros(count, np.uint8), is_input=True), 0
    )


def _wait_until(node: Any) -> Evaluate:
    """T.cuda.wait_until: loads a word until a condition holds, and acquires it then."""
    register, place, asked, scope = node.args[:4]
    target, source, condition = _point_to_element(register), translate(place), translate(asked)
    dtype = get_numpy_dtype(register.ty.dtype)
    name, location, words = name_call(node), get_location(node), {"scope": str(scope.value)}

    def load(gpu: SimulatedGpu, mask: Any, semantics: str) -> tuple[Threads, Array]:
        threads, address = Threads(gpu, mask, name, location or gpu.location), source(gpu, mask)
        word = Pointer(threads, address.memory.reinterpret(dtype), address.offset)
        return threads, access_strongly(threads, word, np.arange(1), {**words, "sem": semantics})

    def wait(gpu: SimulatedGpu, mask: Any) -> int:
        waiting = mask
        while waiting is not False:
            threads, found = load(gpu, waiting, "relaxed")
            own = target(gpu, waiting)
            Pointer(threads, own.memory, own.offset).store(0, found)
            waiting = restrict(waiting, condition(gpu, waiting), wanted=False)
            if waiting is not False and not gpu.let_others_run():
                report_endless(threads, waiting, source(gpu, waiting).memory.name)
                mask = False if waiting is None else restrict(mask, ~waiting)
                break
        if mask is not False:
            load(gpu, mask, "acquire")
        return 0

    return wait


def _shift_pointer(node: Any, *, is_by_bytes: bool = False) -> Evaluate:
    """A pointer and a number of its elements, or of bytes, which are whole elements."""
    pointer, by = (translate(each) for each in read_call(node)[1][:2])

    def shift(gpu: SimulatedGpu, mask: Array | None) -> Address:
        address, distance = pointer(gpu, mask), by(gpu, mask)
        size = address.memory.dtype.itemsize if is_by_bytes else 1
        if np.any(distance % size):
            raise UnsupportedError(f"the simulator does not support {node}: no whole elements")
        return Address(address.memory, address.offset + distance // size)

    return shift


_POINTERS: dict[str, Callable[[Any], Evaluate]] = {
    "tvm_builtin_pointer_offset": _shift_pointer,
    **dict.fromkeys(
        ("ptx.addr", "handle_add_byte_offset", "ptr_byte_offset"),
        functools.partial(_shift_pointer, is_by_bytes=True),
    ),
    WAIT: _wait_until,
    "buffer_data": lambda node: _point_to(node.args[0]),
    "tvm_access_ptr": _access_ptr,
    "address_of": lambda node: (  # a variable is that of a tensor map, whose address is a number
        _tell_address if isinstance(node.args[0], Var) else _point_to_element
    )(node.args[0]),
    "tvm_stack_alloca": _make_tensor_map,
    **dict.fromkeys((_ENCODE, "tvm_call_packed"), _encode_tensor_map),
    "cuda.cvta_generic_to_shared": lambda node: _tell_address(node.args[0]),
    "isnullptr": lambda node: _constant(False),  # an argument's memory is there
}
_MAKERS: dict[str, Callable[[Any], Evaluate]] = {
    # A truth, whose inverse is no ``~`` of it, as one of Python's.
    "IntImm": lambda node: _constant(
        bool(node.value) if str(node.ty.dtype) == "bool" else int(node.value)
    ),
    "FloatImm": lambda node: _constant(get_numpy_dtype(node.ty.dtype).type(node.value)),
    "StringImm": lambda node: _constant(str(node.value)),
    "str": _constant,
    "NoneType": _constant,  # a register of PTX that is left out
    "Var": _variable,
    "Cast": lambda node: _apply(
        convert(str(node.value.ty.dtype), str(node.ty.dtype)), [node.value]
    ),
    "Ramp": _ramp,
    "Broadcast": lambda node: translate(node.value),
    "TensorLoad": _load,
    "Select": _select,
    "Shuffle": _shuffle,
    "And": lambda node: _logical(node, np.logical_and, False),
    "Or": lambda node: _logical(node, np.logical_or, True),
    "Not": lambda node: _apply(np.logical_not, [node.a]),
    "BitwiseNot": lambda node: _apply(invert(str(node.a.ty.dtype)), [node.a]),
    "Call": _call,
    "Let": _let,
}
