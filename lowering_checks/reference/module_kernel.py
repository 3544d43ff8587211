"""A module as a kernel, and as a problem whose right answer it computes itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm.ir import Call, TensorLoad
from tvm.tirx import Div, For, Var
from tvm_ffi import structural_map

from tirstep.modules import AnyProblem, KernelError, Tensor
from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.inputs import SMALL, Array, InputMaker
from tirstep.modules.kernel import Meaning, chooses_by_data
from tirstep.modules.validation import UnjudgedError, check_symbolic
from tirstep.transforms.tir import find_all, find_axes, get_axis
from tirstep.tvm_compat import with_parameters

from ..compile.compiling import MAIN, launch_tirx, make_main
from ..device import blank, get_open_sizes
from ..devices.simulator.merged_memory import find_written_buffers
from ..numeric import make_cases
from .conditions import compares_data, get_call_name
from .drawing import ROUNDS, Indices, ProgramInputs, draw_index, draw_rounds, fit_uses
from .evaluation import Answer, Evaluation
from .functions import (
    close_sizes,
    count_operations,
    find_float_types,
    find_unrelated_sizes,
    get_function,
    list_literal_sizes,
    read_arguments,
    replace_literals,
)
from .index_ranges import IndexUse, find_accesses, find_compared, find_factors, find_index_uses

SCALED_WORK = 2**28
"""Statements up to which the indices of a kernel at other sizes are tried."""

UNSTABLE = 16
"""What a stable algorithm stays below, in units of its reference's largest error bound: Winograd's
F(6, 3) comes to 5, the variance of 1,024 numbers in one pass to more than 30."""

LONG = 1 << 21
"""Statements of a run in float64, from which on index arrays are drawn less often."""


NOTHING = Meaning(
    reference=lambda *inputs, **_: inputs, flops=lambda **_: 0, elements=lambda **_: 0
)
"""The meaning of a module's function, which declares nothing, and whose problems know the rest."""


class ModuleKernel:
    """A function of a module as a kernel, so that a `Recipe` can name it.

    `function` is its name; without one it is ``main``, or the only function. Its sizes are the
    symbolic sizes of its arguments' shapes. `reference` is a function with the same arguments whose
    results it must have; the module itself is then not evaluated. `recorded` are the arguments of a
    call, None for unknown ones: if all shapes are the problem's, the recorded integers are tried
    first, and if all floats are known, they are one more case.
    Raises `KernelError` for a function that is not there, and for a reference of other arguments;
    `problem` for one that cannot be judged.
    """

    options: Mapping[str, object] = MappingProxyType({})

    def __init__(
        self,
        module: tvm.IRModule,
        name: str,
        function: str | None = None,
        reference: ModuleKernel | None = None,
        recorded: Sequence[Array | None] = (),
    ) -> None:
        self.name, self.recorded = name, tuple(recorded)
        self.function_name, self.function = get_function(module, function, name)
        self.size_names = tuple(get_open_sizes(self.function))
        self.meaning = NOTHING
        self.dtypes: tuple[str, ...] = ()
        self._problems: dict[Any, ModuleProblem] = {}
        self.scaled_to: Mapping[str, int] = MappingProxyType({})
        self.__doc__ = f"The function '{self.function_name}' of a module."
        self.reference = None if reference is None else _fit_reference(self, reference)

    def __call__(self, *sizes: int, **named: Any) -> tvm.IRModule:
        """The module at these sizes; raises `KernelError`."""
        return self.problem(*sizes, **named).module

    def problem(self, *sizes: int, symbolic: Sequence[str] = (), **named: Any) -> ModuleProblem:
        """The function at these sizes, by place or by name; raises `KernelError`.

        `symbolic` names the sizes that the module leaves open all the same; what it must compute is
        known at these sizes alone.
        """
        check_symbolic(self.name, self.size_names, symbolic)
        if len(sizes) > len(self.size_names):
            raise KernelError(
                f"{self.name}: {len(sizes)} sizes are given; it has {len(self.size_names)}"
            )
        taken = {**dict(zip(self.size_names, sizes, strict=False)), **named}
        key = (tuple(sorted(taken.items())), tuple(symbolic))
        if key not in self._problems:  # it is compiled, which takes a second
            meant = self.function if self.reference is None else self.reference
            closed = close_sizes(meant, taken, self.name)
            shape = {name: taken[name] for name in self.size_names}
            problem = ModuleProblem(self, MappingProxyType(shape), closed)
            self._problems[key] = replace(problem, symbolic=tuple(symbolic))
        return self._problems[key]

    def with_reference(self, reference: ModuleKernel) -> ModuleKernel:
        """The same function, judged by the answers of another one; raises `KernelError`."""
        return ModuleKernel(self.module, self.name, self.function_name, reference, self.recorded)

    @property
    def unknown_sizes(self) -> list[str]:
        """The sizes of a call of which nothing is known that nothing relates to one another."""
        is_unknown = bool(self.recorded) and all(it is None for it in self.recorded)
        return find_unrelated_sizes(self.function) if is_unknown else []

    @property
    def module(self) -> tvm.IRModule:
        """A module of the function alone, with its sizes open."""
        return tvm.IRModule({self.function_name: self.function})

    @property
    def literal_sizes(self) -> dict[str, int]:
        """The sizes in the text of a function that leaves none open, by made-up names."""
        return {} if self.size_names else list_literal_sizes(self.function)

    def at_literals(self, sizes: Mapping[str, int]) -> ModuleKernel:
        """The kernel with other numbers for `literal_sizes` (`replace_literals`), in its reference
        too; raises `KernelError` where its indices leave its buffers then.
        """
        if find_axes(self.function.body) or any(map(get_axis, find_all(self.function.body, For))):
            raise KernelError(
                f"{self.name}: it launches constant numbers of threads, which other sizes "
                "would change; leave its sizes symbolic"
            )
        function = replace_literals(self.function, sizes, self.name)
        scaled = ModuleKernel(tvm.IRModule({self.function_name: function}), self.name)
        if self.reference is not None:
            meant = replace_literals(self.reference, sizes, self.name)
            module = tvm.IRModule({self.function_name: meant})
            scaled = scaled.with_reference(ModuleKernel(module, self.name))
        scaled.scaled_to = MappingProxyType(dict(sizes))
        problem = scaled.problem()
        is_known = problem.find_refusal() is None and problem.work <= SCALED_WORK
        if is_known and problem.answer(problem._maker.probe()).is_outside:
            raise KernelError(
                f"{self.name}: with {dict(sizes)} in its text, its indices leave its buffers: "
                "how its constants depend on the sizes is not known; leave its sizes symbolic"
            )
        return scaled

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.size_names)})>"


@dataclass(frozen=True, eq=False)
class ModuleProblem(AnyProblem):
    """A function of a module at one shape; made by `ModuleKernel.problem`.

    Its expected results are its own in float64; the error bound follows from its operations, for
    any order of its sums (tracked.py). `wanted` has masks of the elements that are needed, by the
    places of outputs; for others the expected result is 0.
    """

    kernel: ModuleKernel
    shape: Mapping[str, int]
    function: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    symbolic: tuple[str, ...] = ()
    wanted: Mapping[int, Array] = field(default_factory=dict)

    @property
    def reference_name(self) -> str:
        what = "program" if self.kernel.reference is None else "reference"
        return f"the {what} in float64"

    def __str__(self) -> str:
        sizes = ", ".join(f"{name}={size}" for name, size in self.shape.items())
        return f"{self.kernel.name}({sizes})" if sizes else self.kernel.name

    @functools.cached_property
    def module(self) -> tvm.IRModule:
        """A module of the function alone, under the name ``main``, with open sizes if any."""
        kernel, left = self.kernel, self.symbolic
        return make_main(close_sizes(kernel.function, self.shape, kernel.name, left=left))

    @functools.cached_property
    def arguments(self) -> tuple[Tensor, ...]:
        """All arguments, in the function's order."""
        return read_arguments(self.function, self.kernel.name)

    @functools.cached_property
    def _evaluation(self) -> Evaluation:
        name = self.kernel.name
        name = name if self.kernel.reference is None else f"the reference of {name}"
        return Evaluation(self.function, self.arguments, name, self.wanted)

    @functools.cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """The arguments that are written, in their order; one also read is an input too."""
        stored = self._evaluation.stored
        return tuple(each for place, each in enumerate(self.arguments) if place in stored)

    @functools.cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments that are read, in their order: all that are not written, and those whose
        content before the run changes an output, or stays in it.
        """
        changing = self._find_loaded_first() if self.wanted else []
        given = {} if self.wanted else {**self._given, **self._draw_indices(0)[0]}
        for tensor in self.outputs if given else ():
            low, high = (
                self._evaluation.run(
                    [
                        _fill(each, sign * (each == tensor))
                        if each in self.outputs
                        else given[each.name]
                        for each in self.arguments
                    ]
                )
                for sign in (-1, 1)
            )
            changing += [] if low.equals(high) else [tensor]
        return tuple(
            each for each in self.arguments if each not in self.outputs or each in changing
        )

    def _find_loaded_first(self) -> list[Tensor]:
        """The outputs that the text loads before it stores to them."""
        first: dict[Any, bool] = {}
        for each in find_accesses(self._own.body):
            first.setdefault(each.buffer, each.is_store)
        written = find_written_buffers(self._own.body)
        pairs = zip(self.arguments, self._own.params, strict=True)
        return [each for each, it in pairs if it in written and not first.get(it, True)]

    @functools.cached_property
    def _maker(self) -> ProgramInputs:
        bodies = {function.body for function in (self.function, self.kernel.function)}
        compared = [item for body in bodies for item in find_compared(body).items()]
        return ProgramInputs(
            self.inputs,
            dict.fromkeys(self._uses, (0, 0)),
            self.answer,
            self._draw_indices,
            any(map(chooses_by_data, bodies)),
            self._evaluation.tracked.is_deciding,
            any(map(compares_data, bodies)),
            {
                name: {it for own, values in compared if own == name for it in values}
                for name, _ in compared
            },
            {get_call_name(call) for body in bodies for call in find_all(body, Call)}
            | {"/" for body in bodies for _ in find_all(body, Div)},
            {name for body in bodies for name in find_factors(body)},
            self.kernel.reference is not None,
        )

    @functools.cached_property
    def _given(self) -> dict[str, Array]:
        """Some values for all arguments, by name; zeros for those that are written."""
        maker, rng = InputMaker(self.arguments, {}, self.answer), np.random.default_rng(1)
        return {
            each.name: _fill(each, 0)
            if each in self.outputs
            else maker.draw_float(rng, each, SMALL)
            for each in self.arguments
        }

    def _run_on(self, indices: Mapping[str, Array]) -> Answer:
        """What the program comes to on index arrays, by name, and some values for the others."""
        arrays = {**self._given, **indices}
        return self._evaluation.run([arrays[each.name] for each in self.arguments])

    @functools.cached_property
    def _uses(self) -> dict[str, IndexUse]:
        sizes = {
            each.name: IndexUse(self.shape[each.name], self.shape[each.name], is_bounded=True)
            for each in self.arguments
            if each.is_scalar and each.name in self.shape
        }
        found = {**find_index_uses(self.function), **sizes}
        own = {} if self.kernel.reference is None else find_index_uses(self.kernel.function)
        for name in found.keys() & own.keys():  # what the program asks for is worth a try as well
            asked = {*found[name].asked, *own[name].asked}
            found[name] = replace(found[name], asked=tuple(sorted(asked)))
        return fit_uses(found, self.arguments, self._run_on) if found else {}

    @functools.cached_property
    def _draw_indices(self) -> Callable[[int], list[Indices]]:
        count = ROUNDS if self.work < LONG else 2
        use = (self._uses, self.arguments, self._run_on, count)
        return functools.cache(functools.partial(draw_rounds, *use, first=self.recorded_integers))

    @functools.cached_property
    def _recorded(self) -> dict[str, Array]:
        """The kernel's recorded arguments by name; none at other sizes than theirs."""
        pairs = [*zip(self.arguments, self.kernel.recorded, strict=False)]
        known = {tensor.name: array for tensor, array in pairs if array is not None}
        shapes = {tensor.name: tensor.shape for tensor in self.arguments}
        return known if all(it.shape == shapes[name] for name, it in known.items()) else {}

    @property
    def unrelated_sizes(self) -> dict[str, int]:
        """The sizes of a recorded call that nothing relates to others."""
        names = find_unrelated_sizes(self.kernel.function) if self.kernel.recorded else []
        return {name: self.shape[name] for name in names}

    @property
    def recorded_integers(self) -> dict[str, Array]:
        """Those that are no floats, by name: they are indices and lengths, or may be."""
        found = self._recorded.items()
        return {name: it for name, it in found if not dtype_facts(str(it.dtype)).is_float}

    @functools.cached_property
    def _watched(self) -> Evaluation | None:
        """What tells which statements of the program itself run; None where nothing does."""
        try:
            if self.kernel.reference is None:
                return self._evaluation
            return Evaluation(self._own, self.arguments, self.kernel.name, self.wanted)
        except UnjudgedError:
            return None

    def find_own_errors(self, inputs: Sequence[Array]) -> list[Array]:
        """What a program rounds that is no schedule of its reference, where that is known, and the
        program computes in no other types: no more than `UNSTABLE` times what its reference may be
        off on such inputs, at any element, if no number is exact in its type.
        """
        others = find_float_types(self._own) - find_float_types(self.function)
        if self.kernel.reference is None or self._watched is None or others:
            return []
        blanks = [blank(tensor) for tensor in self.outputs]
        own = self._watched.run(self.make_arguments(inputs, blanks)).errors
        inexact = [it if it.dtype.kind in "biu" else it.astype(float) * 1.1 for it in inputs]
        meant = self.answer(inexact).errors
        return [
            np.minimum(
                np.nan_to_num(own.get(place, 0.0), posinf=0.0),
                UNSTABLE * meant[place].max(initial=0.0, where=np.isfinite(meant[place])),
            )
            for place in self.stored_places
        ]

    def find_unrun(self, seed: int) -> list[str]:
        """The statements of the program that ran in none of a seed's rounds, a sentence for each.

        ``lines 14 to 17 never ran: the loop over `start` had no iteration``: of loops and of cases
        of conditions, the outermost that did not run; not those of which TVM's analyzer proves that
        they never do. Empty as well where nothing is known of that, since threads exchange values.
        """
        if self._watched is None:
            return []
        blanks = [blank(tensor) for tensor in self.outputs]
        cases = make_cases(self, seed, False)
        ran = [self._watched.run(self.make_arguments(it.inputs, blanks)).ran for it in cases]
        return self._watched.describe_unrun(np.any(ran, axis=0))

    @property
    def accumulator(self) -> str:
        """The data type of the first output."""
        return self.outputs[0].dtype

    @functools.cached_property
    def is_exact(self) -> bool:
        """Whether any legal schedule gives the same bits on `integer_inputs`."""
        return all(self.answer(inputs).is_exact for inputs in self.integer_rounds(0))

    @functools.cached_property
    def flops(self) -> int:
        """The operations on floats, as the program has them; without any, those on integers that
        are stored. Loops whose extent depends on data count once.
        """
        return count_operations(launch_tirx(make_main(self.function))[MAIN].body)

    @property
    def bytes(self) -> int:
        """The least bytes to move, by the text: every argument once, and once more what is stored
        to after it was loaded.
        """
        twice = {each.name for each in self._find_loaded_first()}
        return sum(
            (2 if each.name in twice else 1) * math.prod(each.shape) * dtype_facts(each.dtype).bytes
            for each in self.arguments
        )

    def find_refusal(self) -> str | None:
        """Why it cannot be judged; None where it can be."""
        try:
            _ = self._evaluation
        except UnjudgedError as error:
            return str(error)
        return None

    @property
    def indexed_by_data(self) -> set[str]:
        """The names of the buffers at an index of which something loaded stands."""
        return {
            str(each.buffer.name)
            for each in find_accesses(self._own.body)
            if each.buffer is not None
            and any(find_all(index, TensorLoad) for index in each.indices)
        }

    @property
    def shape_text(self) -> str:
        """The sizes; of a kernel with other literals those."""
        return "x".join(map(str, (self.shape or self.kernel.scaled_to).values()))

    @property
    def work(self) -> float:
        """About how many statements of float64 the answer takes."""
        return self._evaluation.work

    @property
    def stored_places(self) -> tuple[int, ...]:
        """The places of the outputs among the arguments."""
        return tuple(sorted(self._evaluation.stored))

    @property
    def loaded_outputs(self) -> tuple[int, ...]:
        """The places of the arguments that the program itself both stores to and loads."""
        loaded = {load.source for load in find_all(self._own.body, TensorLoad)}
        both = loaded & find_written_buffers(self._own.body)
        return tuple(place for place, each in enumerate(self._own.params) if each in both)

    def draw_unmeasured(self, seed: int) -> Iterator[list[Array]]:
        """All arguments, for runs whose numbers nobody compares: random ones, then half of them
        constants that the program compares with, and equal ones; integers as recorded. What is
        stored to and not loaded is as before any run (`blank`).
        """
        written = find_written_buffers(self._own.body)
        kept = self.loaded_outputs
        uses, compared = find_index_uses(self._own), find_compared(self._own.body)
        maker = ProgramInputs(self.arguments, dict.fromkeys(uses, (0, 0)), self.answer)
        for number in range(3):
            rng = np.random.default_rng([seed, number])
            indices = {
                each.name: draw_index(uses[each.name], rng, each)
                for each in self.arguments
                if each.name in uses
            }
            indices |= self.recorded_integers
            drawn = replace(maker, indices=indices).probe(seed + number)
            for place, (tensor, each) in enumerate(
                zip(self.arguments, self._own.params, strict=True)
            ):
                if tensor.is_scalar and tensor.name in self.shape:
                    drawn[place] = np.full_like(drawn[place], self.shape[tensor.name])
                elif each in written and place not in kept:
                    drawn[place] = blank(tensor)
                elif tensor.name in indices:
                    continue
                elif number == 1 and (constants := [*compared.get(tensor.name, ())]):
                    half, met = rng.random(tensor.shape) < 0.5, rng.choice(constants, tensor.shape)
                    drawn[place] = np.where(half, met, drawn[place]).astype(drawn[place].dtype)
                elif number == 2 and (maker.is_data(tensor) or "float" in tensor.dtype):
                    drawn[place] = np.ones_like(drawn[place])
            yield drawn

    @functools.cached_property
    def _own(self) -> Any:
        """The function itself, whatever its reference, at these sizes."""
        return close_sizes(self.kernel.function, self.shape, self.kernel.name)

    def integer_rounds(self, seed: int) -> list[list[Array]]:
        """Integers as large as possible while all their sums are exact, measured; see `InputMaker`.

        Where nothing of the kind exists, since the program divides, say, whole numbers from -4 to
        4, within `error_bound`; these as well where some elements are asked for alone. Thirds of
        whole numbers where threads that exchange values divide, and may round what is exact in the
        reference.
        """
        if self.wanted:
            return self._judged([self._maker.draw_small(seed)])
        rounds = list(self._maker.draw_exact(seed))
        divides = any("float" in str(it.ty) for it in find_all(self._own.body, Div))
        if divides and self._watched is None:
            rounds = [
                [it if it.dtype.kind in "biu" else it / it.dtype.type(3) for it in inputs]
                for inputs in rounds
            ]
        return self._judged(rounds)

    def float_inputs(self, seed: int) -> list[Array]:
        """Random floats in [-1, 1), positive where the program needs that."""
        return self._judged([self._maker.draw_random(seed)])[0]

    def planted_inputs(self, seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
        """Those of a recorded call, if something is known of what they come to; `float_inputs`, and
        the same with special values among them (`ProgramInputs.plant`).
        """
        drawn, known = self.float_inputs(seed), self._recorded
        rounds: list[tuple[tuple[str, ...], list[Array]]] = [
            (("",), inputs) for inputs in (drawn, *self._maker.plant(drawn, seed))
        ]
        called = [known[it.name] for it in self.inputs if it.name in known]
        if called and len(called) == len(self.inputs) and self.answer(called).known:
            rounds.insert(0, (("the recorded call",), called))
        return rounds

    def _judged(self, rounds: list[list[Array]]) -> list[list[Array]]:
        """The inputs; raises `UnjudgedError` where nothing can be said of what they come to, and
        `KernelError` where an index leaves its buffer whatever they are, or as it was called.
        """
        if not self.outputs:
            raise UnjudgedError(
                f"{self}: it stores to none of its arguments, so there is nothing to judge; store "
                "what it computes"
            )
        for inputs in rounds:
            answer = self.answer(inputs)
            if answer.outside:
                access, place = answer.outside
                raise KernelError(
                    f"{self}: the index of {access} leaves its buffer; guard it with a condition, "
                    "or make the buffer larger" + (f" [{place}]" if place else "")
                )
            if answer.is_outside and self._recorded:
                names = ", ".join(self.recorded_integers)
                raise KernelError(
                    f"{self}: with {names} as recorded, an index leaves its buffer; guard it with "
                    "a condition, or mend what calls it"
                )
            if answer.is_outside:
                names = ", ".join(self._uses) or "its integers"
                raise UnjudgedError(
                    f"{self}: its numbers cannot be judged: an index that depends on data "
                    f"leaves its buffer for all random values of {names} that were tried; "
                    "guard it with a condition"
                )
            if answer.known == 0:
                raise UnjudgedError(
                    f"{self}: its numbers cannot be judged: for one output no element can be "
                    "judged, since rounding errors may grow without bound"
                )
        return rounds

    def answer(self, inputs: Sequence[Array]) -> Answer:
        """What the program comes to, with errors; raises `KernelError` for misshapen inputs."""
        shapes = [array.shape for array in inputs]
        wanted = [tensor.shape for tensor in self.inputs]
        if shapes != wanted:
            raise KernelError(f"{self}: the inputs have shapes {shapes}; give {wanted}")
        blanks = [blank(tensor) for tensor in self.outputs]
        return self._evaluation.run(self.make_arguments(inputs, blanks))

    def compute(self, inputs: Sequence[Array]) -> list[tuple[Array, Array]]:
        """Each output in float64, and how far off its elements may be before they are stored."""
        answer = self.answer(inputs)
        pairs = [(answer.values[place], answer.errors[place]) for place in sorted(answer.values)]
        # What is no number in float64 may be infinite in a type that overflows before.
        return [(np.where(np.isinf(off) & np.isnan(it), 0.0, it), off) for it, off in pairs]

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, computed and left in float64; NaN where nothing can be said.

        Raises `KernelError` for misshapen inputs.
        """
        return [
            np.where(np.isinf(errors), np.nan, values) for values, errors in self.compute(inputs)
        ]


def _fit_reference(kernel: ModuleKernel, reference: ModuleKernel) -> Any:
    """The reference's function with the program's parameters, in their order and by their names:
    those of the same names, if all are, or else those in the same places. Raises `KernelError` for
    one that does not take what the program takes.
    """
    if kernel.size_names != reference.size_names:
        sizes = (", ".join(it.size_names) or "none" for it in (kernel, reference))
        raise KernelError(
            f"{kernel.name}: its symbolic sizes are {next(sizes)}, and those of its reference "
            f"{reference.name} are {next(sizes)}; give one with the same symbolic sizes"
        )
    some = {name: 3 + place for place, name in enumerate(kernel.size_names)}
    ours, theirs = (
        read_arguments(close_sizes(it.function, some, it.name), it.name)
        for it in (kernel, reference)
    )
    named = {each.name: place for place, each in enumerate(theirs)}
    orders = [list(range(len(theirs)))]
    if named.keys() == {each.name for each in ours}:
        orders.insert(0, [named[each.name] for each in ours])
    for order in orders if len(ours) == len(theirs) else ():
        pairs = zip(ours, (theirs[place] for place in order), strict=True)
        if all((one.shape, one.dtype) == (other.shape, other.dtype) for one, other in pairs):
            break
    else:
        spelt = (
            ", ".join(f"{it.name} {it.dtype}{list(it.shape)}" for it in each)
            for each in (ours, theirs)
        )
        raise KernelError(
            f"{kernel.name}: it takes {next(spelt)}, and its reference {reference.name} takes "
            f"{next(spelt)}; give one with the same arguments in the same order, or by the same "
            "names"
        )
    taken = [reference.function.params[place] for place in order]
    names = {
        own: Var(str(each.name), own.ty)
        for own, each in zip(taken, kernel.function.params, strict=True)
        if str(own.name) != str(each.name)
    }
    function = with_parameters(reference.function, taken)
    return structural_map(function, (Var, lambda variable: names.get(variable, variable)))


def _fill(tensor: Tensor, sign: int) -> Array:
    """An output as it may be before a run: large, of a sign, or 0."""
    facts = dtype_facts(tensor.dtype)
    if tensor.dtype == "bool":
        return np.full(tensor.shape, sign > 0)
    large = min(facts.largest, 1e30) / 2 if facts.is_float else facts.largest // 2
    low = -large if facts.smallest < 0 else 0
    return np.full(tensor.shape, {1: large, 0: 0, -1: low}[sign], facts.numpy)
