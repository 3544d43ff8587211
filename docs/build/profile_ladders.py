"""Profile the recipes of ladders with NVIDIA's ncu, for their pages in docs/ladders.

One launch of the last step of each recipe, at the shape and type of the ladder's page, or at one
that is given. The counters go into benchmarks/results/profile-<kernel>-<gpu>.json, of which `make
readme` writes the page, with the times of `tirstep bench`. Shape, type and recipes that are given
are part of the name: profile-<kernel>-<gpu>-<shape>-<type>-<recipe>.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ladder_pages import find_ladders
from ncu_profile import ProfileRun, find_ncu, profile_recipes, write_profile

from tirstep.bench import BenchError
from tirstep.bench.cases import CaseChoice, plan_cases
from tirstep.bench.compile_pool import get_cache_folder
from tirstep.bench.machine import Machine
from tirstep.bench.results import Case
from tirstep.cli.bench import make_machine, make_suffix, parse_sizes, slug
from tirstep.cli.wrong_use import UseError
from tirstep.modules import KernelError
from tirstep.transforms.recipes import LADDERS

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks/results"


def main(arguments: list[str]) -> int:
    """Profile, write the files and say what is in them; 2 where it cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("kernel", nargs="*", help="ladders [default: all that have a page]")
    parser.add_argument("--shape", help="1024x512x2048 [default: that of the page]")
    parser.add_argument("--dtype", help="[default: that of the page, or float32]")
    parser.add_argument("--recipe", action="append", help="only this one; may be repeated")
    parser.add_argument("--save", type=Path, default=RESULTS, metavar="DIR")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.kernel if name not in LADDERS]:
        parser.error(f"there is no ladder of {', '.join(unknown)}; there are {', '.join(LADDERS)}")
    try:
        pages = {found.ladder.name: found.case for found in find_ladders(RESULTS)}
        kernels = find_kernels(options, [*pages])
        find_ncu()
        machine = make_machine("profile_ladders")
        for kernel in kernels:
            run = profile(kernel, options, pages.get(kernel), machine)
            show(run, options.save / name_file(kernel, run, options))
    except (BenchError, UseError, KernelError) as error:
        print(f"profile_ladders: {error}", file=sys.stderr)
        return 2
    return 0


def find_kernels(options: argparse.Namespace, pages: Sequence[str]) -> Sequence[str]:
    """The chosen ladders; raises `UseError` where there are none, or too many."""
    given = [name for name in ("shape", "dtype", "recipe") if getattr(options, name)]
    if given and len(options.kernel) != 1:
        names = " and ".join(f"--{name}" for name in given)
        raise UseError(f"{names} must come with one ladder, not with {len(options.kernel)}")
    if not (options.kernel or pages):
        raise UseError(
            f"no run in {RESULTS} has measured a ladder, so none has a page; name a ladder, or "
            "measure them before with tirstep bench --save"
        )
    return options.kernel or pages


def name_file(ladder: str, run: ProfileRun, options: argparse.Namespace) -> str:
    """A file's name: what was chosen is in it, as in those of `tirstep bench --save`."""
    shapes = [parse_sizes(options.shape)] if options.shape else []
    suffix = make_suffix(CaseChoice([], shapes, options.dtype, options.recipe or []))
    return f"profile-{ladder}-{slug(str(run.device['name']))}{suffix}.json"


def profile(
    kernel: str, options: argparse.Namespace, page: Case | None, machine: Machine
) -> ProfileRun:
    """The chosen recipes, at the chosen shape."""
    names = options.recipe or [recipe.name for recipe in LADDERS[kernel]]
    if options.shape:
        shape = parse_sizes(options.shape)
    else:
        shape = tuple((page.shape if page else LADDERS[kernel].shape).values())
    dtype = options.dtype or (page.dtype if page else "float32")
    cases, _ = plan_cases(CaseChoice([LADDERS[kernel].kernel], [shape], dtype, names, quick=True))
    return profile_recipes(
        cases[0].problem,
        cases[0].recipes,
        machine,
        cache=get_cache_folder(),
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )


def show(run: ProfileRun, file: Path) -> None:
    """Write a profile and say what is in it."""
    write_profile(run, file)
    for profiled in run.recipes:
        times = ", ".join(f"{kernel.duration_us:,.1f} us" for kernel in profiled.kernels)
        note = f"; {profiled.note}" if profiled.note else ""
        print(f"{profiled.recipe}: {times or 'no kernel'}{note}")
    print(f"wrote {file}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
