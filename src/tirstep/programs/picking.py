"""Recipes of the user's programs: what a text names, as recipes that every command takes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Instruction, Trace
from tvm.tirx import PrimFunc, Var

from tirstep.lowering_checks.compile.compiling import make_main
from tirstep.lowering_checks.device import is_scalar
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.lowering_checks.reference.functions import close_sizes
from tirstep.lowering_checks.steps import suggest
from tirstep.modules import Kernel, kernels
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import Example, Ladder, Recipe, Step
from tirstep.transforms.tir import constant

from .databases import Record
from .found import Found, find_programs, list_functions
from .loading import Loaded, load_place
from .naming import NoProgramError, ProgramError, Spelling, explain_spelling, read_spelling
from .traces import Capture

SAMPLE_SIZES = (64, 48, 32, 24, 20, 12)
"""Sizes of a kernel without recipes, where no shape is given: small, and pairwise different."""


@dataclass(frozen=True)
class ProgramRecipe(Recipe):
    """A recipe of what is no `Recipe`: of a module as it is, or with a function that schedules it.

    Attributes
    ----------
    location : ``FILE:LINE`` of the module or of the function
    whole : the module that is scheduled, where only one of its functions is looked at
    function : the name of that one
    states : of a traced function, what passes made of it, in place of a schedule
    """

    location: str = field(kw_only=True)
    whole: tvm.IRModule | None = field(default=None, kw_only=True, repr=False, compare=False)
    function: str | None = field(default=None, kw_only=True)
    states: tuple[tuple[str, PrimFunc], ...] = field(
        default=(), kw_only=True, repr=False, compare=False
    )

    def steps(self, module: tvm.IRModule, **config: object) -> list[Step]:
        """The module, and what was made of it; nothing where there is no schedule."""
        scheduled = module
        if self.whole is not None:
            changed = module["main"].with_attr("global_symbol", self.function)
            functions = dict(self.whole.functions_items())
            functions[self.whole.get_global_var(self.function)] = changed
            scheduled = tvm.IRModule(functions)
        sch = Schedule(scheduled)
        sch.work_on("main" if self.whole is None else self.function)
        file, _, line = self.location.rpartition(":")
        is_here = line.isdecimal() and self.body is _do_nothing and not self.states
        path = file if is_here else ""
        first = Step(0, "input", module, Trace([], {}), self.location, path)
        return [first, *(self._list_states(module) or self.run(sch, **config))]

    def _list_states(self, module: tvm.IRModule) -> list[Step]:
        """The states of a traced function after the first, at the sizes of the module."""
        steps, names = list[Step](), ["input"]
        for label, function in self.states[1:]:
            extents = [
                (own, given)
                for parameter, other in zip(function.params, module["main"].params, strict=True)
                if not is_scalar(parameter)
                for own, given in zip(parameter.shape, other.shape, strict=True)
            ]
            if any(constant(own) not in (None, constant(given)) for own, given in extents):
                told = "passes made it for the sizes in its text"
                raise TransformError(self.name, told, "leave --shape out")
            sizes = {str(own.name): constant(it) for own, it in extents if isinstance(own, Var)}
            left = [name for name, size in sizes.items() if size is None]
            closed = close_sizes(
                function, {name: size or 1 for name, size in sizes.items()}, self.name, left=left
            )
            name, count = _make_name(label), sum(it.startswith(label) for it in names)
            names.append(name)
            name = f"{name}_{count + 1}" if count else name
            trace = Trace([], {})
            steps.append(Step(len(names) - 1, name, make_main(closed), trace, self.location))
        return steps

    def run(self, sch: Schedule, **config: object) -> Iterator[Step]:
        """Run step by step; a function that yields nothing is one step of its own name."""
        if self.body is _do_nothing:
            self.require_config(config)
            return
        for step in super().run(sch, **config):
            changes: dict[str, Any] = {}
            if self.whole is not None:
                changes["module"] = make_main(step.module[str(self.function)])
                # A trace looks blocks up by their names and that of their function.
                renamed, decisions = [], {}
                for item in step.trace.insts:
                    new, name = item, str(item.kind.name)
                    if name == "GetSBlock" and str(item.attrs[1]) == self.function:
                        attributes = [item.attrs[0], "main"]
                        new = Instruction(item.kind, item.inputs, attributes, item.outputs)
                    renamed.append(new)
                    if item in step.trace.decisions:
                        decisions[new] = step.trace.decisions[item]
                changes["trace"] = Trace(renamed, decisions)
            if not inspect.isgeneratorfunction(self.body):
                is_of_file = self.location.rpartition(":")[2].isdecimal()  # and of no record
                path = inspect.getfile(self.body) if is_of_file else ""
                changes.update(location=self.location, path=path)
            yield dataclasses.replace(step, **changes)

    def _start(self, sch: Schedule, config: Mapping[str, object]) -> Iterator[str]:
        if inspect.isgeneratorfunction(self.body):
            yield from self.body(sch, **config)
        else:
            self.body(sch, **config)
            yield self.body.__name__

    def _require_blocks(self, sch: Schedule) -> None:
        """What it is of was given with it."""


def _do_nothing(sch: Schedule) -> Iterator[str]:
    yield from ()


def pick_programs(
    text: str, function: str | None = None, reference: str | None = None
) -> list[Recipe]:
    """The recipes of what a text names; raises `ProgramError` where there are none.

    All of a place are its recipes, its schedules, and of what has none of these the kernel or the
    module itself. A kernel's name stands for its recipes. `function` is the only one that is meant
    of modules that have several. `reference` names the module or function whose answers they must
    have.
    """
    spelling = read_spelling(text)
    picker = Picker(load_place(spelling.place), spelling, function)
    recipes = picker.pick()
    if not recipes:
        raise NoProgramError(
            f"{spelling.place} has nothing to check: a kernel, a recipe, an IRModule, a PrimFunc, "
            "or a function whose first parameter is a Schedule"
        )
    found = list({recipe.name: recipe for recipe in recipes}.values())
    if reference is None:
        return found
    known = list({id(it.kernel): it.kernel for it in pick_programs(reference)}.values())
    if len(known) != 1 or not isinstance(known[0], ModuleKernel):
        several = f"has {len(known)} programs" if len(known) > 1 else "is a kernel"
        raise ProgramError(
            f"--reference {reference} {several}, and a reference is one function of TIR; give "
            "FILE:NAME"
        )
    for recipe in found:
        if not isinstance(recipe.kernel, ModuleKernel):
            raise ProgramError(
                f"{recipe.name} schedules the kernel {recipe.kernel_name}, which has a "
                "reference; leave --reference out"
            )
    return [dataclasses.replace(it, kernel=it.kernel.with_reference(known[0])) for it in found]


def pick_program_ladder(text: str, function: str | None = None) -> Ladder:
    """The recipes of what a text names, as a ladder: all of one kernel, or of one module."""
    recipes = pick_programs(text, function)
    names = list(dict.fromkeys(str(recipe.kernel_name) for recipe in recipes))
    if len(names) > 1:
        raise ProgramError(
            f"{text} has recipes of {', '.join(names)}, and a ladder is of one: give "
            f"{recipes[0].spelling}, say"
        )
    shape = recipes[-1].default_example.shape
    return Ladder(text, names[0], "", tuple(recipes), shape)


@dataclass(frozen=True)
class Picker:
    """Makes recipes of the programs of one place."""

    loaded: Loaded
    spelling: Spelling
    function: str | None

    @functools.cached_property
    def programs(self) -> list[Found]:
        return find_programs(self.loaded)

    def pick(self) -> list[Recipe]:
        """The recipes that the text and the function name."""
        place, names = self.spelling.place, self.spelling.names
        if len(names) > 2:
            raise ProgramError(
                f"{self.spelling.text} has {len(names)} names; give {place}:NAME, or "
                f"{place}:MODULE:SCHEDULE"
            )
        if not names:
            return [it for found in self._list_meant() for it in self._make(found, self.function)]
        name, _, part = names[0].partition(".")
        found, function = self.get_program(name), part or self.function
        if len(names) == 1:
            return self._make(found, function, is_named=True)
        schedule = self.get_program(names[1])
        if schedule.kind == "helper":
            return self._make(schedule, function, is_named=True)
        if schedule.kind != "schedule":
            raise ProgramError(
                f"{schedule.location}: '{names[1]}' is a {schedule.kind}, not a function that "
                f"takes a schedule; give {place}:{names[1]}"
            )
        return self._make_scheduled(schedule, found, function)

    def _list_meant(self) -> list[Found]:
        """The programs that a place stands for: with `function`, those that have one of that name.

        A function of a schedule beside recipes, and of no module, is what these are written with.
        """
        # A module of Relax alone stands beside what LegalizeOps made of it.
        programs = [
            it for it in self.programs if it.kind != "module" or list_functions(it.value)
        ] or self.programs
        if self.function is None:
            if any(it.kind in ("recipe", "ladder") for it in programs) and not self.targets:
                programs = [it for it in programs if it.kind != "schedule"]
            return programs

        def list_parts(found: Found) -> tuple[str, ...]:
            """The functions that `--function` may name, of a program or of a schedule's module."""
            if found.kind == "schedule":
                return list_parts(self.targets[0]) if len(self.targets) == 1 else ()
            if found.kind == "record":
                return list_functions(found.value.module)
            return (found.name,) if found.kind in ("function", "capture") else found.functions

        if having := [it for it in programs if self.function in list_parts(it)]:
            return having
        parts = list(dict.fromkeys(part for it in programs for part in list_parts(it)))
        known = f"it has {', '.join(parts)}" if parts else "it has no modules"
        hint = suggest(self.function, parts, known)
        raise ProgramError(f"{self.spelling.place} has no PrimFunc '{self.function}'; {hint}")

    def get_program(self, name: str) -> Found:
        """A program by its name: one of the place's own, a rung of a ladder, or what it imports."""
        programs = {found.name: found for found in self.programs}
        if name in programs:
            return programs[name]
        for ladder in (it for it in self.programs if it.kind == "ladder"):
            for recipe in ladder.value:
                if recipe.name == name:
                    return dataclasses.replace(ladder, kind="recipe", value=recipe)
        values = {key: value for key, value in self.loaded.values.items() if key == name}
        if found := find_programs(dataclasses.replace(self.loaded, values=values, module="")):
            return found[0]
        within = [f"{it.name}.{name}" for it in programs.values() if name in it.functions]
        known = f"it has {', '.join(programs)}" if programs else "it has no programs"
        hint = suggest(name, programs, known)
        if within:
            hint = f"did you mean {' or '.join(within)}?"
        problem = f"{self.spelling.place} has no '{name}'"
        if name in self.loaded.values:
            problem = f"'{name}' in {self.spelling.place} is not a program"
        raise ProgramError(f"{problem}; {hint}")

    def _make(self, found: Found, function: str | None, *, is_named: bool = False) -> list[Recipe]:
        """The recipes of a program; of one that is not named none, if it is there for another."""
        match found.kind:
            case "pass" if is_named:
                raise ProgramError(
                    f"{found.location}: '{found.name}' is a pass, and this command takes programs; "
                    "give a kernel, a recipe, a module or a function that takes a schedule"
                )
            case "helper" if is_named:
                raise ProgramError(f"{found.location}: '{found.name}': {found.doc}")
            case "pass" | "helper":
                return []
            case "recipe":
                return [self._adopt(found.value, found.location)]
            case "ladder":
                return [self._adopt(recipe, found.location) for recipe in found.value]
            case "schedule":
                return self._make_scheduled(found, self._find_target(found), function)
            case "record":
                return self._make_of_record(found) if is_named or found.value.is_best else []
            case "capture":
                capture: Capture = found.value
                first, name = make_main(capture.states[0][1]), _make_name(found.name)
                # Of a call that is not known, too, the sizes stay as they are.
                unknown = (None,) * len(capture.states[0][1].params)
                kernel = ModuleKernel(first, name, recorded=capture.arguments or unknown)
                shared: dict[str, Any] = {"sizes": capture.sizes, "states": capture.states}
                return [self._make_recipe(found, kernel, **shared)]
            case "kernel":
                of_it = [
                    it
                    for other in self.programs
                    if other.kind in ("recipe", "ladder")
                    for it in self._make(other, None)
                    if it.kernel is found.value or it.kernel == found.value.name
                ]
                if of_it:
                    return of_it if is_named else []
        if not is_named and self._is_scheduled(found):
            return []
        if found.kind == "kernel":
            return [self._make_recipe(found, found.value)]
        return [
            self._make_recipe(found, kernel, name=name, spelling=self.spelling.of(name))
            for kernel, name, _, _ in self._list_kernels(found, function)
        ]

    def _adopt(self, recipe: Recipe, location: str) -> Recipe:
        """A recipe of the user's, with the kernel that it names."""
        own = (name for name, value in self.loaded.values.items() if value is recipe)
        spelling = self.spelling.of(next(own, recipe.name))
        if not isinstance(recipe.kernel, str):
            return dataclasses.replace(recipe, spelling=spelling)
        here = {it.name: it for it in self.loaded.values.values() if isinstance(it, Kernel)}
        known: dict[str, Any] = {**kernels(), **here}
        if recipe.kernel not in known:
            hint = suggest(recipe.kernel, known, "define it with @kernel")
            raise ProgramError(
                f"{location}: the recipe '{recipe.name}' schedules a kernel '{recipe.kernel}', "
                f"which is neither here nor tirstep's; {hint}"
            )
        kernel = here.get(recipe.kernel, recipe.kernel)
        return dataclasses.replace(recipe, kernel=kernel, spelling=spelling)

    def _make_of_record(self, found: Found) -> list[Recipe]:
        record: Record = found.value

        def tuned(sch: Schedule) -> None:
            record.trace.apply_to_schedule(sch, remove_postproc=False)

        names = list_functions(record.module)
        function = next(iter(names), None) if "main" not in names else "main"
        kernel = ModuleKernel(record.module, _make_name(record.workload), function)
        # Its trace looks blocks up by the name of their function.
        whole = None if function == "main" else record.module
        return [self._make_recipe(found, kernel, whole=whole, function=function, body=tuned)]

    def _make_scheduled(self, schedule: Found, target: Found, function: str | None) -> list[Recipe]:
        """A function of a schedule over a module, for each function of that; or over a kernel."""
        parameters = list(inspect.signature(schedule.value).parameters.values())[1:]
        knobs = {it.name: it.default for it in parameters if it.default is not it.empty}
        shared: dict[str, Any] = {"body": schedule.value, "config": knobs}
        if target.kind == "kernel":
            text = self.spelling.of(target.name, schedule.name)
            return [self._make_recipe(schedule, target.value, spelling=text, **shared)]
        several = len(target.functions) > 1
        return [
            self._make_recipe(
                schedule,
                kernel,
                name=_make_name(schedule.name, part if several else ""),
                spelling=self.spelling.of(name, schedule.name),
                whole=whole,
                function=part,
                **shared,
            )
            for kernel, name, part, whole in self._list_kernels(target, function)
        ]

    def _list_kernels(
        self, found: Found, function: str | None
    ) -> Iterator[tuple[ModuleKernel, str, str, tvm.IRModule | None]]:
        """Each function of a module: its kernel, the name of both, its own, and the module if it
        has others."""
        names = (found.name,) if found.kind == "function" else list_functions(found.value)
        if not names:
            raise ProgramError(
                f"{found.location}: the module '{found.name}' has no PrimFunc; if it is one of "
                "Relax, apply relax.transform.LegalizeOps() first"
            )
        if function is not None and function not in names:
            hint = suggest(function, names, f"it has {', '.join(names)}")
            raise ProgramError(
                f"{found.location}: the module '{found.name}' has no PrimFunc '{function}'; {hint}"
            )
        for part in names if function is None else (function,):
            value = found.value if found.kind == "function" else found.value[part]
            if isinstance((value.attrs or {}).get("tirx.noalias"), tvm.tirx.IntImm):
                raise ProgramError(
                    f"{found.location}: '{part}' has \"tirx.noalias\": T.bool(...), which TVM does "
                    f"not lower; write True{explain_spelling(self.spelling.place)}"
                )
            if found.kind == "function":
                kernel = ModuleKernel(make_main(value), _make_name(found.name))
                yield kernel, found.name, "main", None
                continue
            own = part if len(names) > 1 else ""
            kernel = ModuleKernel(found.value, _make_name(found.name, own), part)
            # A schedule may look up blocks of it by its name.
            is_alone = [it.name_hint for it in found.value.get_global_vars()] == ["main"]
            name = f"{found.name}.{own}" if own else found.name
            yield kernel, name, part, None if is_alone else found.value

    def _make_recipe(
        self,
        found: Found,
        kernel: Any,
        *,
        name: str | None = None,
        spelling: str | None = None,
        body: Any = None,
        config: Mapping[str, object] | None = None,
        sizes: Mapping[str, int] | None = None,
        **changes: Any,
    ) -> Recipe:
        # None was written; of a module it has the sizes that it leaves open.
        own = dict(zip(kernel.size_names, itertools.cycle(SAMPLE_SIZES), strict=False))
        example = Example({**own, **(sizes or {})})
        return ProgramRecipe(
            name=_make_name(name or found.name),
            doc=found.doc,
            kernel=kernel,
            config=config or {},
            blocks=(),
            default_example=example,
            golden=example,
            choices={},
            symbolic=kernel.size_names if isinstance(kernel, ModuleKernel) else (),
            expects={},
            body=body or _do_nothing,
            spelling=spelling or self.spelling.of(found.name),
            location=found.location,
            **changes,
        )

    @functools.cached_property
    def targets(self) -> list[Found]:
        """The candidates for a function of a schedule: modules, kernels, or imported ones."""
        modules = [it for it in self.programs if it.kind in ("module", "function")]
        if found := modules or [it for it in self.programs if it.kind == "kernel"]:
            return found
        everything = find_programs(dataclasses.replace(self.loaded, module=""))
        return [it for it in everything if it.kind in ("module", "function")]

    def _find_target(self, schedule: Found) -> Found:
        if len(self.targets) == 1:
            return self.targets[0]
        place = self.spelling.place
        if not self.targets:
            raise ProgramError(
                f"{schedule.location}: '{schedule.name}' takes a schedule, and {place} has no "
                "module for it; define one, or import one"
            )
        names = [it.name for it in self.targets]
        raise ProgramError(
            f"{schedule.location}: '{schedule.name}' fits {' and '.join(names)}; name one: "
            f"{place}:{names[0]}:{schedule.name}"
        )

    def _is_scheduled(self, found: Found) -> bool:
        """Whether a file has schedules, or records, of a module that it has."""
        if any(it.kind == "record" and it.value.workload == found.name for it in self.programs):
            return True
        has_schedules = any(it.kind == "schedule" for it in self.programs)
        return has_schedules and [found.name] == [it.name for it in self.targets]


def _make_name(*parts: str) -> str:
    """A name that can be a folder's and a file's."""
    return re.sub(r"\W", "_", "_".join(part for part in parts if part))
