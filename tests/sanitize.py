"""NVIDIA's compute-sanitizer over every recipe: `make sanitize`, on a machine with a GPU.

Each of its four tools runs all recipes, or those that are named, at their golden examples in one
process, the four side by side; any report fails.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tirstep.lowering_checks import DeviceError, check_numbers, run_golden
from tirstep.lowering_checks.devices import CudaDevice
from tirstep.transforms.recipes import RECIPES

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
REPORTED = 86  # the exit code that we ask of the sanitizer where it has something to report


def run_recipes(names: Sequence[str]) -> int:
    """Run each recipe's last step once on CUDA; what the sanitizer then watches."""
    device = CudaDevice(has_guard_zones=False)
    for name in names:
        golden = run_golden(RECIPES[name])
        last = golden.steps[-1]
        findings = check_numbers(golden.problem, last.module, device, where=golden.label(last))
        print(f"{name}: {'; '.join(map(str, findings)) or 'right'}", flush=True)
        if findings:
            return 1
    return 0


def sanitize(names: Sequence[str]) -> int:
    """Run the four tools and say what each of them found."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        print("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
        return 2
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        results = list(pool.map(lambda tool: run_tool(program, tool, names), TOOLS))
    return max(results)


def run_tool(program: str, tool: str, names: Sequence[str]) -> int:
    """Run all recipes under one tool; 1 if it reports something or one of them is wrong."""
    command = [program, "--tool", tool, f"--error-exitcode={REPORTED}"]
    done = subprocess.run(
        [*command, sys.executable, __file__, "--run", *names], capture_output=True, text=True
    )
    right = done.stdout.count(": right")
    told = f"{tool}: exit code {done.returncode}, {right} of {len(names)} recipes ran right"
    is_good = not done.returncode and right == len(names)
    print(told if is_good else f"{told}\n{done.stdout[-4000:]}{done.stderr[-2000:]}", flush=True)
    return int(not is_good)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the recipes; used by the tools")
    parser.add_argument("names", nargs="*", metavar="RECIPE", help="all by default")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in RECIPES]:
        sys.exit(f"there is no recipe {unknown[0]}; see tirstep list")
    try:
        chosen = given.names or list(RECIPES)
        sys.exit(run_recipes(chosen) if given.run else sanitize(chosen))
    except DeviceError as error:
        sys.exit(str(error))
