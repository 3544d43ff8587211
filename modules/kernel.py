"""A kernel: a factory of TVMScript with its meaning in NumPy and its counts.

To add one, write a function of sizes (positional) and options (keyword-only, mostly `dtype` among
them) that returns a hand-written ``@I.ir_module`` with one function `main`, its outputs last, and
say what it means; elementwise.py is a whole example::

    @kernel(
        reference=lambda a, b, **_: a * b,
        flops=lambda n, **_: n,
        elements=lambda n, **_: n,
        accumulators={"float32": ("float32",)},
    )
    def vector_multiply(n: int, *, dtype: str = "float32") -> tvm.IRModule: ...

Habits of TVM's parser shape them. It takes a size and a loop of one name for the same thing, so
sizes are in capitals, as in textbooks: ``for i, j, k in T.grid(M, N, K)``. It does not find a class
in a function whose signature ends in a line of its own, ``) -> tvm.IRModule:``, so that a function
with a program in it has its signature on one line. And a buffer that gets another name is renamed,
unless `T.meta_var` is around it.

Options called `acc` and `out` may default to None: the factory is called with what they stand for.
A kernel of several outputs says how many (``outputs=2``), and its reference returns a tuple
(`row_argmax` in rows.py). One without a `dtype` needs no `accumulators`. What a kernel's functions
do not take or do not return is a `KernelError`, when it is first met.
"""

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.script import tirx as T
from tvm.tirx import BufferStore
from tvm.tirx.buffer import BufferType
from tvm_ffi import structural_walk

from tirstep.modules import corners
from tirstep.modules.dtypes import dtype_facts, get_storage
from tirstep.modules.error_bounds import bound_computing, bound_storing, round_end
from tirstep.modules.inputs import Array, InputMaker, Measured, arrange
from tirstep.modules.validation import KernelError, check_symbolic, list_names, nearest

MOST_ELEMENTS = 2**31
"""Most elements of a tensor: TVM computes indices in int32."""
_T = TypeVar("_T")
"""An array, or what stands for one on a device."""


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """A kernel's meaning and costs; its functions get sizes and options by name.

    Used as a decorator, under the name `kernel`: it makes a factory a `Kernel`.
    """

    # Of the inputs in float64, by place; of several outputs a tuple. It is asked for how far off
    # each element may be as well, with arrays that carry that (error_bounds.py). If it and `error`
    # have a parameter `xp`, the module that the arrays belong to, a bench asks them on the GPU.
    reference: Callable[..., Array | tuple[Array, ...]]
    flops: Callable[..., int]  # operations
    elements: Callable[..., int]  # of the largest tensor, intermediate ones too
    # What each dtype may be summed in, the default first; nothing for a kernel without `dtype`.
    accumulators: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outputs: int = 1  # how many of the last arguments are outputs
    choices: Mapping[str, Sequence[object]] = field(default_factory=dict)  # of other options
    refuse: Callable[..., str | None] = lambda **_: None  # why these sizes cannot be, and advice
    # Of the inputs in float64, by place, the unit roundoff u, and tiny, what underflow may cost:
    # how far off each element of the output may be before it is stored. For kernels of which their
    # reference does not tell.
    error: Callable[..., Array | tuple[Array, ...]] | None = None
    # Inputs worth having besides random ones, by name, what is told most first (corners.py).
    corners: Sequence[str] = ()
    # Of all inputs, by place: what they are beside corner cases, which are of the first.
    beside: Callable[..., Sequence[Array]] = lambda *inputs, **_: inputs
    # Of integer inputs that are no numbers to sum, such as lengths: by place, the least and the
    # largest value.
    ranges: Callable[..., Mapping[int, tuple[int, int]]] = lambda **_: {}
    # Whether its tensors may be larger than indices of 32 bits: loops and indices are int64 then.
    may_be_large: bool = False
    has_matrices: bool = False  # whether a first input of several dimensions is one of matrices
    is_bitwise: bool = False  # whether the output is its inputs' elements, moved, to the bit
    has_signed_zeros: bool = False  # whether an output that is 0 has the reference's sign

    def __post_init__(self) -> None:
        for name, sums in self.accumulators.items():
            if isinstance(sums, str) or not sums:
                raise KernelError(
                    f"kernel: accumulators={{{name!r}: {sums!r}}} is not a tuple of data types; "
                    'give {"float32": ("float32",)}'
                )
            for each in (name, *sums):
                dtype_facts(each)
        if type(self.outputs) is not int or self.outputs < 1:
            raise KernelError(f"kernel: outputs={self.outputs!r}: must be an integer >= 1")

    @property
    def takes_tensors(self) -> bool:
        """Whether reference and error take tensors of PyTorch, with `xp`, as well as arrays."""
        rules = (self.reference, self.error)
        return all(rule and "xp" in inspect.signature(rule).parameters for rule in rules)

    def __call__(self, factory: Callable[..., tvm.IRModule]) -> "Kernel":
        return Kernel(factory, self)


kernel = Meaning
"""The decorator: `Meaning`, called with what a kernel means."""


class Kernel:
    """A kernel; call it with sizes and options for the module."""

    def __init__(self, factory: Callable[..., tvm.IRModule], meaning: Meaning) -> None:
        parameters = inspect.signature(factory).parameters.values()
        functools.update_wrapper(self, factory)
        self.factory = factory
        self.meaning = meaning
        self.name: str = factory.__name__
        self.size_names = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self.options: Mapping[str, object] = MappingProxyType(
            {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        )
        self.dtypes = tuple(meaning.accumulators)
        if "dtype" in self.size_names:
            raise KernelError(
                f"{self.name}: dtype is not a size; write {self.name}(n, *, dtype), with a "
                "star before the options"
            )
        if ("dtype" in self.options) != bool(meaning.accumulators):
            raise KernelError(
                f"{self.name}: give both an option dtype and accumulators, or neither"
            )

    def __call__(self, *sizes: int, **options: Any) -> tvm.IRModule:
        """The module at these sizes, by place or by name; raises `KernelError`."""
        return self.problem(*sizes, **options).module

    def problem(self, *sizes: int, symbolic: Sequence[str] = (), **options: Any) -> "Problem":
        """The kernel at these sizes, by place or by name, and options; raises `KernelError`.

        `symbolic` names the sizes that the module leaves open: it takes them from its arguments,
        as int64, and the given ones are those of the problem's inputs alone.
        """
        names, rules = self.size_names, self.meaning
        check_symbolic(self.name, names, symbolic)

        def refuse(reason: str) -> KernelError:
            return KernelError(f"{self.name}: {reason}")

        if len(sizes) > len(names):
            raise refuse(
                f"got {len(sizes)} sizes for {list_names(names)}; "
                f"leave out the last {len(sizes) - len(names)}"
            )
        given = dict(zip(names, sizes, strict=False))
        for name in names:
            if name in given and name in options:
                raise refuse(f"size {name} is given twice; give it by place or by name")
            if name not in given and name not in options:
                raise refuse(f"size {name} is missing; give {list_names(names)}")
            size = given.setdefault(name, options.pop(name, None))
            # bool is an int to Python; a size it is not.
            if not isinstance(size, int) or isinstance(size, bool):
                raise refuse(f"size {name}={size!r} is of type {type(size).__name__}; give an int")
            if size < 1:
                raise refuse(f"size {name}={size} is below 1; give 1 or more")
        shape = {name: given[name] for name in names}
        for name in options:
            if name not in self.options:
                raise refuse(f"there is no option {name!r}; {nearest(name, self.options)}")
        chosen: dict[str, Any] = {**self.options, **options}

        def check(name: str, allowed: Sequence[object], about: str = "") -> None:
            # By type too: True equals 1, yet is no width.
            value = chosen[name]
            if any(type(value) is type(choice) and value == choice for choice in allowed):
                return
            advice = f"choose {list_names([repr(choice) for choice in allowed], 'or')}"
            if isinstance(allowed, range):
                advice = f"give an int from {allowed[0]} to {allowed[-1]}"
            raise refuse(f"{name}={value!r} is not possible{about}; {advice}")

        for name, allowed in rules.choices.items():
            check(name, allowed)
        if "dtype" in chosen:
            check("dtype", list(rules.accumulators))
            dtype, sums = chosen["dtype"], rules.accumulators[chosen["dtype"]]
            # By default acc is the first accumulator of dtype, and out acc, as it lies in memory.
            if "acc" in chosen:
                chosen["acc"] = sums[0] if chosen["acc"] is None else chosen["acc"]
                check("acc", sums, f" with dtype={dtype!r}")
            if "out" in chosen:
                acc, own, outs = chosen["acc"], get_storage(dtype), [get_storage(chosen["acc"])]
                # Back into int8 a sum would wrap round: that takes a scale, and is another kernel.
                if own not in outs and not own.startswith("int"):
                    outs.append(own)
                    # float8 has few results of a sum; networks go on in a half type.
                    outs += ("bfloat16", "float16") if own.startswith("float8") else ()
                chosen["out"] = outs[0] if chosen["out"] is None else chosen["out"]
                check("out", outs, f" with dtype={dtype!r} and acc={acc!r}")
        if sentence := self.ask("refuse", **shape, **chosen):
            raise refuse(sentence)
        elements = self.count("elements", **shape, **chosen)
        if elements >= MOST_ELEMENTS and not rules.may_be_large:
            listed = ", ".join(f"{name}={size}" for name, size in shape.items())
            raise refuse(
                f"{listed} make a tensor of {elements} elements, and indices of 32 bits end "
                f"at {MOST_ELEMENTS - 1}; choose smaller sizes"
            )
        return Problem(self, MappingProxyType(shape), MappingProxyType(chosen), tuple(symbolic))

    def ask(self, rule: str, *arrays: Array, **constants: Any) -> Any:
        """The value of a function of the meaning, by its name; raises `KernelError` for one that
        does not take what it is given.
        """
        function = getattr(self.meaning, rule)
        try:
            inspect.signature(function).bind(*arrays, **constants)
        except TypeError as error:
            inputs = "input" if len(arrays) == 1 else "inputs"
            given = f"{len(arrays)} {inputs} and " if arrays else ""
            raise KernelError(
                f"{self.name}: its {rule} does not take {given}{', '.join(constants)} ({error}); "
                "let it end with **_, as lambda a, **_: a"
            ) from None
        except ValueError:  # a function of C has no signature
            pass
        return function(*arrays, **constants)

    def count(self, rule: str, **constants: Any) -> int:
        """The count by a function of the meaning; raises `KernelError` if it is not a count."""
        number = self.ask(rule, **constants)
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
            raise KernelError(f"{self.name}: its {rule} are {number!r}; return an integer >= 0")
        return int(number)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.size_names)})>"


@dataclass(frozen=True)
class Tensor:
    """One argument of a function; a scalar parameter is one of shape ()."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_scalar: bool = False


class AnyProblem(ABC):
    """A module with its inputs and what it must compute of them.

    Attributes
    ----------
    kernel : what it is a problem of: its `name`, its `meaning`
    shape, options : the sizes and options that were settled, by name
    """

    kernel: Any
    shape: Mapping[str, int]
    options: Mapping[str, Any]
    symbolic: tuple[str, ...] = ()  # the sizes that the module takes from its arguments

    @property
    def reference_name(self) -> str:
        """Whose numbers `reference` has, for sentences."""
        return "NumPy"

    @property
    @abstractmethod
    def module(self) -> tvm.IRModule:
        """The module, whose function is called ``main``."""

    @property
    @abstractmethod
    def arguments(self) -> tuple[Tensor, ...]:
        """All arguments, in the function's order."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments that are read, in their order."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Tensor, ...]:
        """The arguments that are written, in their order; one also read is an input too."""

    @property
    @abstractmethod
    def accumulator(self) -> str:
        """The data type that sums are formed in."""

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether any legal schedule gives the same bits on `integer_inputs`."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """The operations."""

    @property
    def bytes(self) -> int:
        """The least bytes to move: every input read once, every output written once."""
        moved = (*self.inputs, *self.outputs)
        return sum(math.prod(each.shape) * dtype_facts(each.dtype).bytes for each in moved)

    @abstractmethod
    def integer_rounds(self, seed: int) -> list[list[Array]]:
        """Integers, in as few lists of inputs as show every term."""

    @abstractmethod
    def float_inputs(self, seed: int) -> list[Array]:
        """Random floats; for an integer type integers that overflow nothing."""

    @abstractmethod
    def planted_inputs(self, seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
        """`float_inputs` with corner cases in them, and what the rows of the first input are: ""
        random ones.
        """

    @abstractmethod
    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, computed and left in float64; raises `KernelError` for misshapen inputs."""

    @abstractmethod
    def compute(self, inputs: Sequence[Array]) -> list[tuple[Array, Array]]:
        """Each output in float64, and how far off its elements may be before they are stored."""

    def error_bound(self, inputs: Sequence[Array]) -> list[Array]:
        """How far from `reference` each element of an output may be, as an absolute error."""
        return [
            bound_storing(exact, error, tensor.dtype)
            for tensor, (exact, error) in zip(self.outputs, self.compute(inputs), strict=True)
        ]

    def error_interval(
        self, inputs: Sequence[Array], added: Sequence[Array] = ()
    ) -> list[tuple[Array, Array]]:
        """The least and largest value of an output's elements, in float64; errors may be `added`.

        Rounding keeps an order, so that what is stored lies between the two ends of what may have
        been computed, each rounded to the output's type: in a narrow type they mostly are one
        number, and an error far below half a unit in its last place shows where they are not.
        """
        intervals = []
        for place, (exact, error) in enumerate(self.compute(inputs)):
            total, dtype = error + added[place] if added else error, self.outputs[place].dtype
            with np.errstate(invalid="ignore"):  # an infinity less an infinite bound
                low, high = (
                    round_end(np.where(np.isinf(exact), exact, exact + sign * total), dtype, sign)
                    for sign in (-1, 1)
                )
            intervals.append((low, high))
        return intervals

    def find_own_errors(self, inputs: Sequence[Array]) -> list[Array]:
        """What a program rounds beside its reference; empty for a schedule, or where not known."""
        return []

    @property
    def in_out(self) -> tuple[int, ...]:
        """The places of the arguments that are inputs and outputs."""
        both = [each for each in self.inputs if each in self.outputs]
        return tuple(map(self.arguments.index, both))

    def find_refusal(self) -> str | None:
        """Why it cannot be judged, as a sentence; None where it can be."""
        return None

    @property
    def shape_text(self) -> str:
        """The sizes, ``64x48x32``; "" of what has none."""
        return "x".join(map(str, self.shape.values()))

    def integer_inputs(self, seed: int) -> list[Array]:
        """The first of `integer_rounds`."""
        return self.integer_rounds(seed)[0]

    def make_arguments(self, inputs: Sequence[_T], outputs: Sequence[_T]) -> list[_T]:
        """All arguments, in the function's order; of one that is both, the input."""
        found = _by_name(self.outputs, outputs) | _by_name(self.inputs, inputs)
        return [found[tensor.name] for tensor in self.arguments]

    def take_inputs(self, arguments: Sequence[_T]) -> list[_T]:
        """The inputs among all arguments."""
        return [arguments[self.arguments.index(tensor)] for tensor in self.inputs]

    def take_outputs(self, arguments: Sequence[_T]) -> list[_T]:
        """The outputs among all arguments."""
        return [arguments[self.arguments.index(tensor)] for tensor in self.outputs]


def _by_name(tensors: Sequence[Tensor], arrays: Sequence[_T]) -> dict[str, _T]:
    return {tensor.name: array for tensor, array in zip(tensors, arrays, strict=True)}


@dataclass(frozen=True)
class Problem(AnyProblem):
    """A kernel at one shape and with every option settled; made by `Kernel.problem`."""

    kernel: Kernel
    shape: Mapping[str, int]
    options: Mapping[str, Any]  # acc and out resolved: no None in them
    symbolic: tuple[str, ...] = ()  # the sizes that the module takes from its arguments

    def __hash__(self) -> int:
        return hash((self.kernel, *self.shape.items(), *self.options.items(), self.symbolic))

    def __str__(self) -> str:
        named = {**self.shape, **self.options}
        if self.symbolic:
            named["symbolic"] = " ".join(self.symbolic)
        return f"{self.kernel.name}({', '.join(f'{key}={value}' for key, value in named.items())})"

    @property
    def is_large(self) -> bool:
        """Whether a tensor has more elements than indices of 32 bits reach."""
        counted = self.kernel.count("elements", **self.shape, **self.options)
        return self.kernel.meaning.may_be_large and counted >= MOST_ELEMENTS

    @functools.cached_property
    def module(self) -> tvm.IRModule:
        """The module, made at the first question."""
        made = _make_module(self, self.kernel.factory)
        # One of its own for each problem: its user may change it in place.
        return tvm.IRModule(dict(made.functions_items()), made.attrs)

    @functools.cached_property
    def arguments(self) -> tuple[Tensor, ...]:
        """All arguments, in the function's order."""
        if self.symbolic:
            return replace(self, symbolic=()).arguments
        function = self.module["main"]
        # Other arguments must not be stored to than those that are outputs.
        stored = [node.buffer for node in _list_nodes(function.body, BufferStore)]
        names = [str(parameter.name) for parameter in function.params]
        written = [
            str(parameter.name)
            for parameter in function.params
            if any(parameter.same_as(buffer) for buffer in stored)
        ]
        count = self.kernel.meaning.outputs
        # A store through a region of a buffer shows nothing here.
        if count >= len(names):
            raise KernelError(
                f"{self.kernel.name}: it has outputs={count}, and main takes {', '.join(names)}; "
                "say how many of the last are outputs"
            )
        if written and written != names[-count:]:
            raise KernelError(
                f"{self.kernel.name}: it stores to {', '.join(written)}, and its outputs are "
                f"{', '.join(names[-count:])}; put outputs last, and say outputs={len(written)}"
            )
        return tuple(
            Tensor(str(it.name), tuple(map(int, it.shape)), str(it.dtype))
            if isinstance(it.ty, BufferType)
            else Tensor(str(it.name), (), str(it.ty), is_scalar=True)
            for it in function.params
        )

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments that are read, in their order."""
        return self.arguments[: -self.kernel.meaning.outputs]

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The arguments that are written: the last ones."""
        return self.arguments[-self.kernel.meaning.outputs :]

    @property
    def accumulator(self) -> str:
        """The data type that sums are formed in."""
        if "dtype" not in self.options:
            return self.outputs[0].dtype
        own = self.kernel.meaning.accumulators[self.options["dtype"]][0]
        return str(self.options.get("acc", own))

    @functools.cached_property
    def is_exact(self) -> bool:
        """Whether any legal schedule gives the same bits on `integer_inputs`: where the program
        neither divides nor subtracts floats, and calls no functions of them: their magnitudes are
        the reference of the inputs' then.
        """
        return self.kernel.meaning.error is None and not _finds_floats(
            self, tirx.Div, tirx.Sub, Call
        )

    @functools.cached_property
    def multiplies(self) -> bool:
        """Whether the program multiplies floats."""
        return _finds_floats(self, tirx.Mul)

    @functools.cached_property
    def terms(self) -> float:
        """How much an output is at most where all inputs are ones: of sums of products, the terms
        of one.
        """
        ones = [np.ones(tensor.shape) for tensor in self.inputs]
        return max(float(np.max(values)) for values in self.reference(ones))

    @property
    def ranges(self) -> Mapping[int, tuple[int, int]]:
        """The least and the largest value of inputs that have a range, by place."""
        return dict(self.kernel.ask("ranges", **self.shape, **self.options))

    @property
    def flops(self) -> int:
        """The operations, as the kernel's docstring counts them."""
        return self.kernel.count("flops", **self.shape, **self.options)

    @functools.cached_property
    def _maker(self) -> InputMaker:
        # Of a float32 what tf32 has, where products are formed of what that keeps.
        is_cut = self.options.get("dtype") == "tf32"
        tensors = [
            replace(each, dtype="tf32") if is_cut and each.dtype == "float32" else each
            for each in self.inputs
        ]
        ranges = {self.inputs[place].name: ends for place, ends in self.ranges.items()}
        return InputMaker(tensors, ranges, self.measure_sums)

    def measure_sums(self, inputs: Sequence[Array]) -> Measured:
        """How close sums of integers come to the limits of the accumulator's exact range and of the
        outputs' range: the sum of the absolute values of all terms bounds every partial sum.
        """
        exact = dtype_facts(self.accumulator).exact_integers
        # In float64 before the absolute value: that of the least int8 is no int8.
        sums = self.reference([np.abs(array.astype(np.float64)) for array in inputs])
        limits = [min(exact, dtype_facts(output.dtype).largest) for output in self.outputs]
        overflow = max(total.max() / limit for total, limit in zip(sums, limits, strict=True))
        return Measured(self.is_exact and overflow <= 1, float(overflow))

    def integer_rounds(self, seed: int) -> list[list[Array]]:
        """Integers for which any legal order of summation gives the same bits.

        The sum of the absolute terms of every output is measured to be at most 2 to the power of
        the accumulator's mantissa bits (for integers, its largest value), so that every partial sum
        is exact, and within the output's range. They are as large as that allows, so that sums,
        products or inputs that pass through a narrower type are not exact; so many ones are not
        summed exactly in float16: there are several rounds then, each with some of them.

        Where the kernel is no sum of products (not `is_exact`), they are whole numbers from -4 to
        4, and results are within `error_bound`. Raises `KernelError` where even few overflow.
        """
        if not self.is_exact:
            return [self._maker.draw_small(seed)]
        rounds = list(self._maker.draw_exact(seed))
        self._refuse_overflow(rounds[0])
        return rounds

    def float_inputs(self, seed: int) -> list[Array]:
        """Random floats in [-1, 1); for an integer type integers of its full range, or of as many
        bits as cannot overflow the accumulator or the output.
        """
        drawn = self._maker.draw_random(seed)
        if not dtype_facts(self.accumulator).is_float:
            self._refuse_overflow(drawn)
        return drawn

    def _refuse_overflow(self, inputs: Sequence[Array]) -> None:
        if self.measure_sums(inputs).overflow > 1:
            raise KernelError(
                f"{self}: the smallest inputs overflow {self.accumulator}; choose a wider type"
            )

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, computed and left in float64; raises `KernelError` for misshapen inputs."""
        shapes = [array.shape for array in inputs]
        wanted = [tensor.shape for tensor in self.inputs]
        if shapes != wanted:
            raise KernelError(f"{self}: the inputs have shapes {shapes}; give {wanted}")
        doubles = [array.astype(np.float64) for array in inputs]
        with np.errstate(invalid="ignore", over="ignore"):  # corner cases have infinities
            result = self.kernel.ask("reference", *doubles, **self.shape, **self.options)
        return self.take_results("reference", result)

    def take_results(self, rule: str, result: Any) -> list[Array]:
        """An array for each output; raises `KernelError` for others than the module's."""
        results = [result] if len(self.outputs) == 1 and not isinstance(result, tuple) else result
        if not isinstance(results, (tuple, list)) or len(results) != len(self.outputs):
            count = len(results) if isinstance(results, (tuple, list)) else 1
            arrays = "1 array" if count == 1 else f"{count} arrays"
            has = len(self.outputs)
            outputs = "1 output" if has == 1 else f"{has} outputs"
            raise KernelError(
                f"{self}: its {rule} returns {arrays}, and it has {outputs}; return "
                + ("the array alone" if has == 1 else "a tuple of one for each")
            )
        for tensor, array in zip(self.outputs, results, strict=True):
            if (kind := np.asarray(array).dtype).kind in "cmMOSU":
                what = "None" if array is None else f"an array of {kind}"
                raise KernelError(
                    f"{self}: its {rule} of {tensor.name} is {what}; return real numbers"
                )
            if np.shape(array) != tensor.shape:
                raise KernelError(
                    f"{self}: its {rule} of {tensor.name} has the shape {np.shape(array)}, and the "
                    f"module's has {tensor.shape}; make them the same"
                )
        return [np.asarray(array) for array in results]

    def compute(self, inputs: Sequence[Array]) -> list[tuple[Array, Array]]:
        """Each output in float64, and how far off its elements may be before they are stored.

        The bound follows from the reference's operations (error_bounds.py), for any order of its
        sums and any fusing of multiplications and additions, in the type of the accumulator; or it
        is the kernel's own `error`. Where a sum has so many terms that nothing can be promised, it
        is infinite: a float16 sum of 2048 terms may stop growing. Such a problem is checked by
        `integer_inputs` alone. Rounding is taken to be to nearest; an integer type has the bound 0.
        Raises `KernelError` for a reference of which nothing is known.
        """
        return list(zip(self.reference(inputs), bound_computing(self, inputs), strict=True))

    def planted_inputs(self, seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
        """`float_inputs` with the kernel's corner cases in them, as one input, or as several where
        its rows are too few for all, and what the rows of the first input are (corners.py). Of a
        kernel without corner cases that takes maxima or compares, the same in rising and in falling
        order, too; of one that only moves elements, random bits.
        """
        if self.kernel.meaning.is_bitwise:
            return [(("random bits",), corners.draw_bits(self, seed))]
        planted = corners.draw_corners(self, seed)
        if self.kernel.meaning.corners or not chooses_by_data(self.module["main"].body):
            return planted
        free = [place for place in range(len(self.inputs)) if place not in self.ranges]
        return [*planted, *((("",), it) for it in arrange(self.float_inputs(seed), free))]


def chooses_by_data(body: Any) -> bool:
    """Whether a program takes the larger or smaller of two values, or compares what it loads."""
    kinds = (tirx.Max, tirx.Min, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
    return any(
        _is_float(node.a) or _list_nodes(node, TensorLoad) for node in _list_nodes(body, *kinds)
    )


def _finds_floats(problem: Problem, *kinds: Any) -> bool:
    """Whether a program has nodes of some kinds that are floats, choices apart."""
    found = filter(_is_float, _list_nodes(problem.module["main"].body, *kinds))
    return not all(isinstance(node, Call) and "if_then_else" in str(node.op) for node in found)


def _is_float(expression: Any) -> bool:
    return "float" in str(expression.ty)


def _list_nodes(body: Any, *kinds: Any) -> list[Any]:
    found: list[Any] = []
    structural_walk(body, [(kind, found.append) for kind in kinds], order="pre")
    return found


@functools.lru_cache(maxsize=256)
def _make_module(problem: Problem, factory: Callable[..., tvm.IRModule]) -> tvm.IRModule:
    """The factory's module, kept, since parsing takes ten milliseconds and more."""
    sizes: list[Any] = list(problem.shape.values())
    if problem.symbolic or problem.is_large:
        # All int64: TVM 0.27 does not lower every module whose indices have both types.
        sizes = [
            tvm.tirx.Var(name, "int64")
            if name in problem.symbolic
            else tvm.tirx.IntImm("int64", size)
            for name, size in problem.shape.items()
        ]
    # The parser reads the source around every frame below it: in a thread there are few.
    with ThreadPoolExecutor(max_workers=1) as parser:
        made = parser.submit(factory, *sizes, **problem.options).result()
    name = problem.kernel.name
    if not isinstance(made, tvm.IRModule):
        kind = "a PrimFunc" if isinstance(made, tvm.tirx.PrimFunc) else type(made).__name__
        raise KernelError(f"{name}: it returns {kind}; return the class under @I.ir_module")
    found = [str(var.name_hint) for var in made.get_global_vars()]
    if "main" in found:
        return made
    if len(found) != 1 or not isinstance(made[found[0]], tvm.tirx.PrimFunc):
        listed = ", ".join(found) or "nothing"
        raise KernelError(f"{name}: its module has {listed}; call the function main")
    return tvm.IRModule({"main": made[found[0]].with_attr("global_symbol", "main")})


# ---- What the factories put into their TVMScript besides the text itself.

# Of the inputs, of the sums, of the output. A factory's signature has None for a default; @kernel
# has put a name in its place when the factory runs.
DTypes: TypeAlias = tuple[str, str | None, str | None]


def zero_of(dtype: str | None) -> Any:
    """The literal 0 of a type, such as T.float16(0): `rfactor` and `tensorize` match no casts."""
    return tvm.tirx.const(0, dtype)


def cast_between(source: str | None, target: str | None) -> Callable[[Any], Any]:
    """A function that casts from one type to the other; the identity if they are equal."""
    if source == target:
        return lambda value: value
    return lambda value: T.Cast(target, value)


def swapped_if(swap: bool) -> Callable[[Any, Any], tuple[Any, Any]]:
    """A function that orders two indices, or extents, of a matrix that may be transposed."""
    return lambda row, column: (column, row) if swap else (row, column)
