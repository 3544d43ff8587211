"""What checks work on and what they give back: a recipe's run on its kernel with its steps, their
diffs, a finding about one of them, and the error of a check that cannot be made.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm.tirx import AllocBuffer, PrimFunc

from tirstep.modules import AnyProblem, get_kernel
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import Example, Recipe, Step
from tirstep.transforms.tir import find_all


@dataclass(frozen=True)
class Run:
    """A recipe's steps at one problem; the first of them is the kernel as it was written."""

    recipe: Recipe
    problem: AnyProblem
    config: Mapping[str, object]
    steps: tuple[Step, ...]

    def label(self, step: Step) -> str:
        """How a step is called in findings, and in the golden folder: ``01_bound``."""
        return f"{self.recipe.name} {step_label(step)}"

    def _repr_html_(self) -> str:
        """In a notebook: each step with what it changed."""
        from .notebook import render_run  # needs this class

        return render_run(self)


def step_label(step: Step) -> str:
    """A step's number and name, ``01_bound``: the stem of its golden file."""
    return f"{step.index:02d}_{step.name}"


def print_module(module: tvm.IRModule) -> str:
    """A module as TVMScript that parses back to it, ending with a newline.

    TVM prints each buffer of one element of a TIRx kernel as a variable, which reads back as a
    register: what is shared is printed as what it is.
    """
    text = str(module.script()).rstrip("\n") + "\n"
    bodies = [it.body for it in module.functions.values() if isinstance(it, PrimFunc)]
    for buffer in (it.buffer for body in bodies for it in find_all(body, AllocBuffer)):
        name, scope = str(buffer.name), buffer.scope()
        declared = re.search(rf"(?m)^( *){re.escape(name)}: T\.\w+$", text)
        if declared is not None and scope != "local":
            before, after = text[: declared.start()], text[declared.end() :]
            after = re.sub(rf"(?<![\w.\"]){re.escape(name)}(?![\w\"])", f"{name}[0]", after)
            made = f'{name} = T.alloc_buffer((1,), "{buffer.dtype}", scope="{scope}")'
            text = before + declared[1] + made + after
    return text


def run_recipe(
    recipe: Recipe,
    shape: Mapping[str, int],
    *,
    options: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
    symbolic: Sequence[str] = (),
) -> Run:
    """Run a recipe on its kernel at a shape.

    `options` are the kernel's (its dtype, say), over those of its default example; `config` the
    recipe's own; `symbolic` the kernel's sizes that the modules leave open (`Kernel.problem`), for
    which `Recipe.symbolic` says where that works. Raises `KernelError` for bad shapes and options,
    `TransformError` for a config that does not fit.
    """
    problem = _make_problem(recipe, shape, options or {}, symbolic)
    chosen = dict(config or {})
    steps = tuple(recipe.steps(problem.module, **chosen))
    # A type that the recipe does not take, and one of its `dtypes` that no kernel has: asked last,
    # since a transform that refuses it has said more.
    known, dtype = problem.kernel.dtypes, problem.options.get("dtype")
    for name in recipe.dtypes:
        if known and name not in known:
            wrong = f"dtypes has '{name}', which '{recipe.kernel_name}' does not take"
            raise TransformError(recipe.name, wrong, f"it takes {', '.join(known)}")
    if recipe.dtypes and dtype is not None and dtype not in recipe.dtypes:
        wrong, right = f"it takes no operands in {dtype}", " or ".join(recipe.dtypes)
        raise TransformError(recipe.name, wrong, f"choose {right}")
    return Run(recipe, problem, chosen, steps)


def run_golden(recipe: Recipe) -> Run:
    """Run a recipe at the small example of its golden files."""
    return _run_example(recipe, recipe.golden)


def make_golden_problem(recipe: Recipe) -> AnyProblem:
    """The problem of a recipe's golden files."""
    return _make_problem(recipe, recipe.golden.shape, recipe.golden.options)


def _make_problem(
    recipe: Recipe,
    shape: Mapping[str, int],
    options: Mapping[str, object],
    symbolic: Sequence[str] = (),
) -> AnyProblem:
    chosen = {**recipe.default_example.options, **options}
    return get_kernel(recipe.kernel).problem(**shape, symbolic=symbolic, **chosen)


def run_default_example(recipe: Recipe) -> Run:
    """Run a recipe at its own example: that of its tutorial, where it has one."""
    return _run_example(recipe, recipe.default_example)


def _run_example(recipe: Recipe, example: Example) -> Run:
    return run_recipe(recipe, example.shape, options=example.options, config=example.config)


class CheckError(ValueError):
    """A check cannot be made as requested: one sentence of what is wrong and what to do."""


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """``did you mean a or b?``; `otherwise` where no known name is near."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


@dataclass(frozen=True)
class Finding:
    """Something that a check found wrong. No findings: all is well.

    Attributes
    ----------
    check : ``"golden"``, ``"numbers"``, ``"threads"`` (`check_ownership`), ``"bounds"``,
        ``"expectations"``, ``"lowering"``, ``"recipe"`` (one that does not run), or the device that
        watched, ``"simulator"``
    where : the recipe and the step, as ``matmul_naive 01_bound``
    message : one sentence
    detail : what to look at, such as a unified diff; may be empty
    location : ``file:line`` of the recipe where the step ends; empty where no recipe ran
    """

    check: str
    where: str
    message: str
    detail: str = ""
    location: str = ""

    @property
    def place(self) -> str:
        """Where it is for people: the step with the recipe's line, where that is known."""
        return f"{self.where} [{self.location}]" if self.location else self.where

    def at(self, location: str) -> Finding:
        """The same, with the recipe's line."""
        return replace(self, location=location)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}"
        return f"{text}\n{self.detail}" if self.detail else text


CONTEXT = 3


@dataclass(frozen=True)
class Diff:
    """A unified diff, and how many lines it adds and removes."""

    before: str
    after: str
    lines: tuple[str, ...]
    added: int
    removed: int

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        """In a notebook: in colour."""
        from .notebook import render_diff  # needs this class

        return render_diff(self)


def diff_texts(before: str, after: str, *, names: tuple[str, str], context: int = CONTEXT) -> Diff:
    """The unified diff of two texts, empty where they are equal."""
    lines = tuple(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), *names, lineterm="", n=context
        )
    )
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    return Diff(*names, lines, added, removed)


def diff_modules(
    before: tvm.IRModule,
    after: tvm.IRModule,
    *,
    names: tuple[str, str] = ("before", "after"),
    context: int = CONTEXT,
) -> Diff:
    """The unified diff of two modules' TIR."""
    return diff_texts(print_module(before), print_module(after), names=names, context=context)


def diff_steps(before: Step, after: Step, *, context: int = CONTEXT) -> Diff:
    """The unified diff of the TIR of two steps, of one recipe or of two."""
    names = (step_label(before), step_label(after))
    return diff_modules(before.module, after.module, names=names, context=context)
