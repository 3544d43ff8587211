"""Profile the recipes of a ladder with NVIDIA's ncu, for the ladder's page in docs/ladders.

One launch of the last step of each recipe, at one shape. The counters go into
results/profile-<kernel>-<gpu>.json, of which `tirstep readme` writes the page, with the times of
`tirstep bench`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tirstep.bench.compile_cache import find_cache_folder
from tirstep.bench.errors import BenchError
from tirstep.bench.profile.results import ProfileRun, write_profile
from tirstep.bench.profile.session import find_ncu, profile_recipes
from tirstep.bench.works import Choice, find_works
from tirstep.cli.bench import make_machine, parse_sizes, slug
from tirstep.cli.refusals import UseError
from tirstep.modules import KernelError
from tirstep.transforms.recipes import LADDERS

RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: list[str]) -> int:
    """Profile, write the file and say what is in it; 2 where it cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("kernel", choices=[*LADDERS])
    parser.add_argument("--shape", help="1024x512x2048 [default: the tutorial's]")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--recipe", action="append", help="only this one; may be repeated")
    parser.add_argument("--save", type=Path, default=RESULTS, metavar="DIR")
    wanted = parser.parse_args(arguments)
    try:
        run = profile(wanted)
    except (BenchError, UseError, KernelError) as error:
        print(f"profile_ladder: {error}", file=sys.stderr)
        return 2
    file = wanted.save / f"profile-{wanted.kernel}-{slug(str(run.device['name']))}.json"
    write_profile(run, file)
    for one in run.recipes:
        times = ", ".join(f"{kernel.duration_us:,.1f} us" for kernel in one.kernels)
        print(f"{one.recipe}: {times or 'no kernel'}{f'; {one.note}' if one.note else ''}")
    print(f"wrote {file}")
    return 0


def profile(wanted: argparse.Namespace) -> ProfileRun:
    """The recipes that are wanted, at the shape that is wanted."""
    find_ncu()
    names = wanted.recipe or [recipe.name for recipe in LADDERS[wanted.kernel]]
    seed = tuple(LADDERS[wanted.kernel][0].seed.shape.values())
    shape = parse_sizes(wanted.shape) if wanted.shape else seed
    works, _ = find_works(Choice([wanted.kernel], [shape], wanted.dtype, names, quick=True))
    machine = make_machine("profile_ladder")
    return profile_recipes(
        works[0].problem,
        works[0].recipes,
        machine,
        cache=find_cache_folder(),
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
