"""Holds the lowering of a step against what its recipe expects of it."""

from __future__ import annotations

import importlib.util
import io
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tirstep.transforms.recipes import Step
from tirstep.transforms.recipes.recipe import Expectation, SourcePattern

from .facts import Facts, compile_facts, get_facts
from .facts.compiled import BY_WIDTH, COUNTED, MISSING_NVDISASM
from .facts.cuda_compilers import CompilerMissing
from .steps import CheckError, Finding, Run, suggest

ARCHITECTURE = "sm_90a"
"""What facts of the compiled kernel are of, where an expectation does not say."""
CHECK = "expectations"
COMPILED_FACTS = (
    "registers",
    "spills",
    "spill_stores",
    "spill_loads",
    "stack_bytes",
    "compiled_shared_bytes",
    "occupancy",
    "resident_blocks",
)
COLOURS = re.compile("\x1b\\[[0-9;]*m")
MISSING_FILECHECK = "the package filecheck is not installed; pip install filecheck"


def check_expectations(run: Run, step: Step) -> list[Finding]:
    """What of a recipe's expectations of a step does not hold at the run's sizes."""
    return [it for it in judge_expectations(run, step) if isinstance(it, Finding)]


def find_unmade_steps(run: Run) -> list[Finding]:
    """What a recipe expects of steps that it does not make: nothing would ever be checked."""
    made = [step.name for step in run.steps]
    listed = f"it has {', '.join(made)}"
    return [
        Finding(
            CHECK,
            run.recipe.name,
            f"the recipe has an expectation for step '{name}', which it does not yield; "
            f"{suggest(name, made, listed)}",
        )
        for name in run.recipe.expects
        if name not in made
    ]


def judge_expectations(run: Run, step: Step) -> list[Finding | str | None]:
    """Whether each of a recipe's expectations of a step holds, in their order: None where it does,
    and a sentence where it could not be checked.

    An expectation that needs a compiler for CUDA, or the package filecheck, is not checked where
    there is none. Raises `CheckError` for a fact that there is not, with the nearest names.
    """
    expected = run.recipe.expects.get(step.name, ())
    if not expected:
        return []
    facts = get_facts(step.module, problem=run.problem)
    if facts.refusal is not None:
        return [Finding(CHECK, run.label(step), facts.refusal) for _ in expected]
    return [_judge(expectation, facts, run.label(step)) for expectation in expected]


def _judge(expectation: Expectation, facts: Facts, where: str) -> Finding | str | None:
    if isinstance(expectation, SourcePattern):
        return _judge_pattern(expectation, facts.source, where)
    values: Mapping[str, float | None] = facts.values()
    place = ""
    if expectation.fact not in values:
        is_instruction = expectation.fact.partition(".")[0] in (*COUNTED, *BY_WIDTH)
        if expectation.fact not in COMPILED_FACTS and not is_instruction:
            hint = suggest(expectation.fact, [*values, *COMPILED_FACTS], "see tirstep facts")
            raise CheckError(f"{expectation} is expected, but there is no such fact; {hint}")
        architecture = expectation.architecture or ARCHITECTURE
        try:
            compiled = compile_facts(facts.source, architecture, facts.kernels)
        except CompilerMissing as error:
            return str(error)
        if compiled.refusal is not None:
            return Finding(CHECK, where, compiled.refusal)
        is_counted = expectation.fact not in COMPILED_FACTS  # 0 of those that are not there
        if is_counted and any(kernel.instructions is None for kernel in compiled.kernels):
            return MISSING_NVDISASM
        values, place = compiled.values(), f" on {architecture}"
    value = values.get(expectation.fact, 0)
    if value is not None and expectation.is_met_by(value):
        return None
    got = "not known" if value is None else f"{value:g}"
    message = f"{expectation} is expected, and {expectation.fact} is {got}{place}"
    return Finding(CHECK, where, message)


def _judge_pattern(pattern: SourcePattern, source: str, where: str) -> Finding | str | None:
    """Whether FileCheck takes a source."""
    if importlib.util.find_spec("filecheck") is None:
        return MISSING_FILECHECK
    from filecheck.matcher import Matcher
    from filecheck.options import Options

    with tempfile.TemporaryDirectory() as folder:
        wanted, given = Path(folder) / "pattern", Path(folder) / "source"
        wanted.write_text(pattern.pattern, encoding="utf-8")
        given.write_text(source, encoding="utf-8")
        matcher = Matcher.from_opts(Options(str(wanted), input_file=str(given)))
        matcher.stderr = io.StringIO()
        if matcher.run() == 0:
            return None
        error = COLOURS.sub("", matcher.stderr.getvalue()).replace(f"{folder}/", "").strip()
    return Finding(CHECK, where, f"the source does not match the pattern '{pattern}'", error)
