"""Profile the recipes of ladders with NVIDIA's ncu, for their pages in docs/ladders.

One launch of the last step of each recipe, at the shape and type of the ladder's page, or at one
that is given. The counters go into results/profile-<kernel>-<gpu>.json, of which `tirstep readme`
writes the page, with the times of `tirstep bench`. Shape, type and recipes that are given are part
of the name: profile-<kernel>-<gpu>-<shape>-<type>-<recipe>.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tirstep.bench.compile_cache import find_cache_folder
from tirstep.bench.errors import BenchError
from tirstep.bench.machine import Machine
from tirstep.bench.profile.results import ProfileRun, write_profile
from tirstep.bench.profile.session import find_ncu, profile_recipes
from tirstep.bench.results import Case
from tirstep.bench.works import Choice, find_works
from tirstep.cli.bench import Wanted, make_machine, parse_sizes, slug
from tirstep.cli.ladder_pages.find import find_ladders
from tirstep.cli.refusals import UseError
from tirstep.modules import KernelError
from tirstep.transforms.recipes import LADDERS

RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: list[str]) -> int:
    """Profile, write the files and say what is in them; 2 where it cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("kernel", nargs="*", help="ladders [default: all that have a page]")
    parser.add_argument("--shape", help="1024x512x2048 [default: that of the page]")
    parser.add_argument("--dtype", help="[default: that of the page, or float32]")
    parser.add_argument("--recipe", action="append", help="only this one; may be repeated")
    parser.add_argument("--save", type=Path, default=RESULTS, metavar="DIR")
    wanted = parser.parse_args(arguments)
    if unknown := [name for name in wanted.kernel if name not in LADDERS]:
        parser.error(f"there is no ladder of {', '.join(unknown)}; there are {', '.join(LADDERS)}")
    try:
        pages = {one.ladder.name: one.case for one in find_ladders(RESULTS)}
        kernels = find_kernels(wanted, [*pages])
        find_ncu()
        machine = make_machine("profile_ladder")
        for kernel in kernels:
            run = profile(kernel, wanted, pages.get(kernel), machine)
            show(run, wanted.save / name_file(kernel, run, wanted))
    except (BenchError, UseError, KernelError) as error:
        print(f"profile_ladder: {error}", file=sys.stderr)
        return 2
    return 0


def find_kernels(wanted: argparse.Namespace, pages: Sequence[str]) -> Sequence[str]:
    """The ladders that are wanted; raises `UseError` where there are none, or too many."""
    given = [name for name in ("shape", "dtype", "recipe") if getattr(wanted, name)]
    if given and len(wanted.kernel) != 1:
        options = " and ".join(f"--{name}" for name in given)
        raise UseError(f"{options} must come with one ladder, not with {len(wanted.kernel)}")
    if not (wanted.kernel or pages):
        raise UseError(
            f"no run in {RESULTS} has measured a ladder, so none has a page; name a ladder, or "
            "measure them before with tirstep bench --save"
        )
    return wanted.kernel or pages


def name_file(ladder: str, run: ProfileRun, wanted: argparse.Namespace) -> str:
    """A file's name: what was chosen is in it, as in those of `tirstep bench --save`."""
    shapes, recipes = [wanted.shape] if wanted.shape else [], wanted.recipe or []
    chosen = Wanted([], shapes, wanted.dtype, recipes, quick=False, seed=0).suffix
    return f"profile-{ladder}-{slug(str(run.device['name']))}{chosen}.json"


def profile(
    kernel: str, wanted: argparse.Namespace, page: Case | None, machine: Machine
) -> ProfileRun:
    """The recipes that are wanted, at the shape that is wanted."""
    names = wanted.recipe or [recipe.name for recipe in LADDERS[kernel]]
    if wanted.shape:
        shape = parse_sizes(wanted.shape)
    else:
        shape = tuple((page.shape if page else LADDERS[kernel].shape).values())
    dtype = wanted.dtype or (page.dtype if page else "float32")
    works, _ = find_works(Choice([LADDERS[kernel].kernel], [shape], dtype, names, quick=True))
    return profile_recipes(
        works[0].problem,
        works[0].recipes,
        machine,
        cache=find_cache_folder(),
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )


def show(run: ProfileRun, file: Path) -> None:
    """Write a profile and say what is in it."""
    write_profile(run, file)
    for one in run.recipes:
        times = ", ".join(f"{kernel.duration_us:,.1f} us" for kernel in one.kernels)
        print(f"{one.recipe}: {times or 'no kernel'}{f'; {one.note}' if one.note else ''}")
    print(f"wrote {file}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
