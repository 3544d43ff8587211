"""NVIDIA's compute-sanitizer over every recipe: `make sanitize`, on a machine with a GPU.

Each of its four tools runs all recipes at their golden examples in one process; any report fails.
"""

import argparse
import shutil
import subprocess
import sys

from tirstep.lowering_checks import DeviceError, check_numbers, run_golden
from tirstep.lowering_checks.devices import CudaDevice
from tirstep.transforms.recipes import RECIPES

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
REPORTED = 86  # the exit code that we ask of the sanitizer where it has something to report


def run_all() -> int:
    """Run each recipe's last step once on CUDA; what the sanitizer then watches."""
    device = CudaDevice(has_guard_zones=False)
    for recipe in RECIPES.values():
        golden = run_golden(recipe)
        last = golden.steps[-1]
        findings = check_numbers(golden.problem, last.module, device, where=golden.label(last))
        print(f"{recipe.name}: {'; '.join(map(str, findings)) or 'right'}", flush=True)
        if findings:
            return 1
    return 0


def sanitize() -> int:
    """Run the four tools and say what each of them found."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        print("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
        return 2
    worst = 0
    for tool in TOOLS:
        command = [program, "--tool", tool, f"--error-exitcode={REPORTED}"]
        done = subprocess.run(
            [*command, sys.executable, __file__, "--run"], capture_output=True, text=True
        )
        right = done.stdout.count(": right")
        print(f"{tool}: exit code {done.returncode}, {right} of {len(RECIPES)} recipes ran right")
        if done.returncode or right != len(RECIPES):
            print(done.stdout[-4000:], done.stderr[-2000:])
            worst = 1
    return worst


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true", help="run the recipes; used by the tools")
    try:
        sys.exit(run_all() if parser.parse_args().run else sanitize())
    except DeviceError as error:
        sys.exit(str(error))
