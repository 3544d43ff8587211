"""Programs of real sizes have a verdict, by parts where the whole takes too long.

Each says its verdict first in its docstring. Which took how long is in docs/own-programs.md.
"""

from pathlib import Path

import pytest

from tirstep.lowering_checks import get_device, judge_run, run_golden
from tirstep.lowering_checks.judgement import Status
from tirstep.programs.picking import pick_programs

FOLDER = Path(__file__).parent / "real_sizes"
RIGHT, CLEAN, WRONG = Status.RIGHT, Status.CLEAN, Status.WRONG
VERDICTS = {
    "rows.py:softmax": RIGHT,
    "rows.py:row_sums": CLEAN,
    "rows.py:row_sums_without_a_barrier": WRONG,
    "rows.py:normalized": RIGHT,
    "rows.py:scaled": RIGHT,
    "rows.py:transposed": CLEAN,
    "rows.py:past_the_end": WRONG,
    "rows.py:a_race_behind_a_guard": WRONG,
    "rows.py:guarded": RIGHT,
    "rows.py:matvec": RIGHT,
    "rows.py:neighbours_of_blocks": WRONG,
    "gemms.py:scheduled": RIGHT,
    "products.py:convolved": RIGHT,
    "products.py:scores": RIGHT,
    "products.py:added": RIGHT,
    "products.py:quantized:rows_on_blocks": RIGHT,
    "products.py:tiled_wrongly": WRONG,
    "products.py:two_launches": RIGHT,
    "products.py:largest": RIGHT,
    "products.py:gathered": RIGHT,
    "products.py:padded": RIGHT,
}


@pytest.mark.share(30)
@pytest.mark.parametrize("name", VERDICTS)
def test_a_program_of_real_size_has_its_verdict(name: str) -> None:
    (recipe,) = pick_programs(f"{FOLDER}/{name}")
    *_, last = judge_run(run_golden(recipe), get_device("simulator"), timed=False)
    assert last.status is VERDICTS[name], (last.reason, last.findings)


def test_a_part_is_said_to_be_one() -> None:
    (recipe,) = pick_programs(f"{FOLDER}/products.py:tiled_wrongly")
    *_, last = judge_run(run_golden(recipe), get_device("simulator"), timed=False)
    assert last.part == "8 of 4,096 thread blocks"


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["products.py:gathered", "products.py:padded"])
def test_what_is_judged_in_place_of_the_whole_is_told(name: str) -> None:
    """A table of 131 million elements at smaller sizes, and elements through a border of zeros."""
    (recipe,) = pick_programs(f"{FOLDER}/{name}")
    *_, last = judge_run(run_golden(recipe), get_device("simulator"), timed=False)
    wanted = "smaller sizes" if name.endswith("gathered") else "of 100,352 elements"
    assert last.part.endswith(wanted)
