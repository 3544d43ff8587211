"""NVIDIA's compute-sanitizer over every recipe: `tests/sanitize.py`, on a machine with a GPU.

Each of its four tools runs all recipes, or those that are named, at their golden examples, in
``--jobs`` processes; any report fails.
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
    code = 0
    for name in names:
        golden = run_golden(RECIPES[name])
        last = golden.steps[-1]
        try:
            findings = check_numbers(golden.problem, last.module, device, where=golden.label(last))
            said = "; ".join(map(str, findings)) or "right"
        except DeviceError as error:
            said = str(error)
        print(f"{name}: {said}", flush=True)
        code = max(code, int(said != "right"))
    return code


def sanitize(names: Sequence[str], jobs: int) -> int:
    """Run the four tools and say what each of them found."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        print("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
        return 2
    # Neighbours in the list are of one family and take about as long: they are dealt out.
    parts = [part for start in range(jobs) if (part := names[start::jobs])]
    code = 0
    for tool in TOOLS:
        begin = [program, "--tool", tool, f"--error-exitcode={REPORTED}", sys.executable, __file__]
        calls = [[*begin, "--run", *part] for part in parts]
        with ThreadPoolExecutor(jobs) as pool:
            said = pool.map(
                lambda call: subprocess.run(call, capture_output=True, text=True), calls
            )
        right, codes = 0, set()
        for done in said:
            right += done.stdout.count(": right\n")
            codes.add(done.returncode)
            if done.returncode:
                print(done.stdout[-20_000:], done.stderr[-2000:], sep="\n")
        told = ", ".join(map(str, sorted(codes)))
        print(f"{tool}: exit code {told}; {right} of {len(names)} recipes ran right", flush=True)
        code = max(code, int(codes != {0} or right != len(names)))
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the recipes; used by the tools")
    parser.add_argument("--jobs", type=int, default=1, help="processes for each of the four tools")
    parser.add_argument("names", nargs="*", metavar="RECIPE", help="all by default")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in RECIPES]:
        sys.exit(f"there is no recipe {unknown[0]}; see tirstep list")
    try:
        chosen = given.names or list(RECIPES)
        sys.exit(run_recipes(chosen) if given.run else sanitize(chosen, given.jobs))
    except DeviceError as error:
        sys.exit(str(error))
