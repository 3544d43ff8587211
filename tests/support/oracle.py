"""The frozen oracle: what an earlier tirstep, installed in an environment of its own, makes of the
recipes and of programs in files, against what this one makes.

    python tests/support/oracle.py ORACLE/bin/python [RECIPE ...] [--programs FILE ...] [--jobs N]

Of each recipe at its golden, at odd and at guarded shapes: each step's text, the last step's CUDA
source, or the sentence of the refusal. Of each program: what ``tirstep check --json`` says of it.
Prints what differs; exit code 1 if anything does. What the oracle says is kept beside its Python.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FORGET = ("seconds", "version", "time")
"""Keys of a verdict that differ from run to run, or from tirstep to tirstep."""
PLACE = re.compile(r"[\w./-]*\.py:\d+")
"""File and line, which move."""


def list_recipe_cases(name: str) -> Iterator[tuple[str, dict, dict]]:
    """Label, shape and config of the runs at which a recipe is compared."""
    from tirstep.transforms.recipes import RECIPES

    recipe = RECIPES[name]
    shape, config = dict(recipe.golden.shape), dict(recipe.golden.config)
    yield "golden", shape, config
    for tail in ("", *recipe.tails):
        chosen = {**config, "tail": tail} if tail else config
        for more in (1, 3):
            odd = {key: size + more + 2 * at for at, (key, size) in enumerate(shape.items())}
            yield f"+{more} {tail}".strip(), odd, chosen


def run_recipe_cases(name: str) -> dict[str, str]:
    """What a recipe makes, by case and step."""
    import tvm

    from tirstep.lowering_checks import print_module, run_recipe
    from tirstep.lowering_checks.compile.compiling import compile_unrun
    from tirstep.transforms.recipes import RECIPES

    recipe, made = RECIPES[name], {}
    target = tvm.target.Target("nvidia/nvidia-h100")
    for label, shape, config in list_recipe_cases(name):
        key = f"{name} [{label}]"
        try:
            run = run_recipe(recipe, shape, options=recipe.golden.options, config=config)
        except Exception as error:  # a refusal of whatever kind is what is compared
            made[key] = f"{type(error).__name__}: {PLACE.sub('LINE', str(error))}"
            continue
        for step in run.steps:
            text = print_module(step.module)
            made[f"{key} {step.index:02d}_{step.name}"] = hashlib.sha1(text.encode()).hexdigest()
        try:
            source = compile_unrun(run.steps[-1].module, target).mod.imports[0].inspect_source()
        except Exception as error:
            made[f"{key} cuda"] = f"{type(error).__name__}: {error}"
        else:
            made[f"{key} cuda"] = hashlib.sha1(source.encode()).hexdigest()
    return made


def judge_program(path: str) -> dict[str, str]:
    """The exit code and the document of ``tirstep check --json`` of a file."""
    command = [sys.executable, "-m", "tirstep", "check", path, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    with contextlib.suppress(ValueError):
        said = json.loads(done.stdout)
        return {path: json.dumps([done.returncode, _forget(said)], sort_keys=True)}
    return {path: json.dumps([done.returncode, done.stdout, done.stderr[-2000:]])}


def _forget(value: object) -> object:
    if isinstance(value, dict):
        return {key: _forget(it) for key, it in value.items() if not key.endswith(FORGET)}
    return [_forget(it) for it in value] if isinstance(value, list) else value


def ask(python: str, kind: str, item: str, kept: Path | None) -> dict[str, str]:
    """What the tirstep of an interpreter says of one recipe or program, in a process of its own."""
    text = Path(item).read_text() if kind == "program" else item
    digest = hashlib.sha1(f"{kind} {text} {Path(__file__).read_text()}".encode()).hexdigest()
    file = kept / f"{digest}.json" if kept else None
    if file and file.is_file():
        return json.loads(file.read_text())
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
    command = [python, __file__, python, "--answer", kind, item]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        return {item: f"{python} gave no answer: {done.stderr[-1000:]}"}  # differs on both sides
    said = json.loads(done.stdout)
    if file:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(said))
    return said


def main() -> int:
    from concurrent.futures import ThreadPoolExecutor

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("oracle", help="the Python of the environment with the earlier tirstep")
    parser.add_argument("recipes", nargs="*", help="names; without, all recipes that remain")
    parser.add_argument("--programs", nargs="*", default=[], help="files that check takes")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--answer", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.answer:
        kind, item = given.answer
        said = run_recipe_cases(item) if kind == "recipe" else judge_program(item)
        print(json.dumps(said))
        return 0
    items = [("recipe", name) for name in given.recipes]
    if not items and not given.programs:
        from tirstep.transforms.recipes import RECIPES

        items = [("recipe", name) for name in RECIPES]
    items += [("program", path) for path in given.programs]
    kept = Path(given.oracle).parents[1] / "answers"
    different = compared = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        before = pool.map(lambda item: ask(given.oracle, *item, kept), items)
        now = pool.map(lambda item: ask(sys.executable, *item, None), items)
        for (_, item), old, new in zip(items, before, now, strict=True):
            keys = sorted(old.keys() | new.keys())
            wrong = [key for key in keys if old.get(key) != new.get(key)]
            different, compared = different + len(wrong), compared + len(keys)
            for key in wrong:
                print(f"{key}\n  oracle: {old.get(key)}\n  now:    {new.get(key)}", flush=True)
            print(f"{item}: {len(keys)} compared, {len(wrong)} differ", flush=True)
    print(f"{compared} compared, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
