"""What the corpus draws: nothing that takes the interpreter for minutes."""

import re

import bad_jobs
import pytest
from tvm.ir import assert_structural_equal

from tirstep.experiments import corpus
from tirstep.strategies.building import build_program
from tirstep.strategies.drawn_programs import FORMS, Writer, parse_program
from tirstep.strategies.problems import Dice
from tirstep.transforms.recipes import RECIPES


@pytest.fixture
def wgmma_alone(monkeypatch):
    """A corpus of the steps of one recipe, most of which have six million statements."""
    monkeypatch.setattr(corpus, "RECIPES", {"matmul_wgmma": RECIPES["matmul_wgmma"]})
    return corpus.Corpus(0, (corpus.STEP,))


def test_no_step_takes_the_interpreter_for_minutes(wgmma_alone):
    labels = []
    for trial in range(4):
        subject = wgmma_alone.draw(trial)
        assert corpus.count_steps(subject.module) <= corpus.LONGEST
        labels.append(subject.label)
    assert all("matmul_wgmma" in label for label in labels)


def test_a_recipe_of_long_steps_alone_is_not_drawn(wgmma_alone, monkeypatch):
    monkeypatch.setattr(corpus, "LONGEST", 0)
    with pytest.raises(corpus.UndrawnError, match="every step of the recipes takes"):
        wgmma_alone.draw(0)


DRAWN = {
    "no iteration": r"in range\(0\):",
    "extent of an index": r"for i\d+ in range\(T.min\(i\d+, \d\)\):",
    "extent of a parameter": r"for i\d+ in range\(T.max\(T.min\(n \+",
    "extent of data": r"for i\d+ in range\(T.max\(T.min\(T.Cast\('int32', [A-E]\d*\[",
    "guard of a load": r"if T.And\(i\d+ \+ \d+ < \d+, [A-E]\d*\[.*i\d+ \+ \d+\] ",
    "branch that stores what it asks": r"if (\w+\[[^]]*\]) [<>]=? .*:\n(?: +.*\n)? +\1 = ",
    "stores around a read": r"(\w+\[[^]]*\]) = .*\n(?: +.*\n)? +.* = \1\n(?: +.*\n)? +\1 = ",
    "store in a branch between reads": r" = .*(\w+\[[^]]*\]).*\n +if .*:\n(?: +.*\n)? +\1 = ",
    "an extent below 0": r"for i\d+ in range\(i\d+ - \d\):",
    "numbers at the ends": r"if T.Cast\(\"int32\", U\w+\[|if [FIU]\w+\[.*\] [<>]=? [GJV]\w+\[.*\]:",
    "neighbours": r"for (i\d+) in range\(\d\):\n +(\w+)\[(?:.*, )?\1\] = .*\n"
    r" +for i\d+ in range\(\d\):\n +\w+\[.* = .*\2\[",
    "recurrence": r"(\w+\[[^]]*\]) = T.max\(T.min\(\(.* - \1\), ",
    "fraction": r"T.Cast\('int32', .* \* T.float32\(0.5\)\)",
    "product beyond 32 bits": r"T.Cast\('int64', T.bitwise_xor\(.*, 70001\)\) \* T.Cast\('int64'",
    "remainder of a negative number": r"T.truncmod\((T.Cast\('\w+', )?[A-E]\d*\[",
    "Horner's rule": r"(\w+\[[^]]*\]) = \1 \* 2 \+ ",
    "sweeps that nothing counts": r"for i\d+ in range\(\d\):\n +for (i\d+) in range\(\d\):\n"
    r" +(\w+)\[(?:.*, )?\1\] = (?:.*\n){2} +\w+\[.*\] = \2\[",
    "comparison beyond 32 bits": r"if T.Cast\(\"int64\", .* \* .*2147483647\)",
    "unsigned difference": r"if T.Cast\(\"uint32\", I.* - T.uint32",
    "branch alone in one with an else": r"( +)if .*:\n +if .*:\n(?:\1 {8}.*\n)+\1else:",
    "vector of three": r"T.vectorized\(3\)",
    "quotient of lanes": r"for (i\d+) in T.vectorized\((\d)\):\n.*\(\1 \+ \d\) // \2\]",
    "statements that load what was just stored": r"for i\d+ in .*:\n( +)(\w+\[.*\]) = .*\n"
    r"\1(\w+\[.*\]) = .*\2.*\n\1\w+\[.*\] = .*\3",
    "quotient of floats": r"if T.Cast\(\"float32\", M.*\) / T.Cast\(\"float32\", M",
    "sum of unsigned numbers": r"T.Cast\(\"int64\", T.Cast\(\"uint32\", I.*\) [-+*] T.Cast",
    "atomic addition": r"T.cuda.atomic_add\(T.address_of\(H",
    "causal load": r"T.if_then_else\((\S+) - (\S+) >= 0, \w+\[.*\1 - \2\]",
    "window": r"if (?:.* )?i\d+ [<>]=? \w+ \+ \d",
    "gather by data that may be negative": r"T.And\((.*) >= 0, \1 < \d+\), \w+\[(.*, )?\1\]",
    "leaky rectifier": r"T.m\w\w\(T.Cast\(\"float32\", M.* \* T.float32\(0",
    "four bits of a word": r"bitwise_and\(T.shift_right\(I.*\d\), ",
    "swap through a register": r"(L\w+\[.*\]) = (\w+\[.*\])\n +\2 = .*\n +.* = \1\n",
    "sum that is rounded": r"T.float32\(33554432\) - T.float32",
    "swizzle": r"\[.*bitwise_xor",
}
"""What passes forget, as it stands in a program."""


@pytest.fixture(scope="module")
def programs() -> list[str]:
    kinds = ("loops", "kernel")
    return [Writer(Dice(f"{kind} {seed}"), kind).write() for seed in range(200) for kind in kinds]


@pytest.mark.share(2)
@pytest.mark.parametrize("what", DRAWN)
def test_what_passes_forget_is_drawn(programs: list[str], what: str):
    assert sum(re.search(DRAWN[what], text) is not None for text in programs) > 5


@pytest.mark.share(3)
def test_several_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch):
    """One that TVM ends has its trial made here again."""
    monkeypatch.setattr(corpus, "count_cores", lambda: 2)

    def find(fewest: int) -> list[corpus.TrialRecord]:
        monkeypatch.setattr(corpus, "FEWEST", fewest)
        programs = corpus.Corpus(0, (corpus.PROGRAM,))
        return [*corpus.hunt(programs, range(6), bad_jobs.attempt_or_crash)]

    assert find(1) == find(100)


@pytest.mark.parametrize("form", FORMS)
def test_a_program_is_the_one_that_tvm_parses(form: str):
    for trial in range(8):
        text = Writer(Dice(f"parsed:{trial}"), form).write()
        assert_structural_equal(build_program(text), parse_program(text))


def test_a_trial_goes_on_until_a_program_is_changed():
    """At most so often; a step of a recipe takes longer, and is drawn once."""
    tried: list[str] = []

    def attempt(subject: corpus.Subject) -> dict[str, object]:
        tried.append(subject.label)
        return {
            "status": "unchanged",
            "is_changed": subject.label.startswith("program 0.2 "),
            "raised": "",
        }

    drawn = corpus.Corpus(0)
    record = corpus.make_record(drawn, attempt, 0)
    assert tried == [f"program {number} of seed 0" for number in ("0", "0.1", "0.2")]
    assert (record.redraw, record.label) == (2, tried[-1])
    assert corpus.make_record(drawn, attempt, 2).redraw == corpus.REDRAWS - 1
    tried.clear()
    corpus.make_record(drawn, attempt, 1)
    assert len(tried) == 1
