"""The table of mutants and layers, as docs/mutants.md has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import elsewhere
from .layers import GOLDEN_FILE, LAYERS, SANITIZER, TVM, judge
from .plant import GOLDEN, LEVELS, Mutant

KILLS, SILENT, LUCK, TEXT = "x", "·", "?", "text"
Cells = Mapping[str, str]
"""A mutant's cells: a layer that was asked, and one of the marks above."""


def find_cells(mutant: Mutant, record: elsewhere.Record) -> dict[str, str]:
    """The marks of a mutant, of the layers asked now and of those recorded."""
    cells = {}
    for layer, sentence in judge(mutant).items():
        if layer.split()[0] in mutant.chance and not layer.endswith("faults"):
            cells[layer] = LUCK
        elif layer == GOLDEN_FILE and sentence and mutant.level != GOLDEN:
            cells[layer] = TEXT
        else:
            cells[layer] = KILLS if sentence else SILENT
    for layer, said in record.items():
        if mutant.name in said:
            cells[layer] = KILLS if said[mutant.name] else SILENT
    return cells


def is_killed(mutant: Mutant, cells: Cells, *, with_text: bool = False) -> bool:
    """Whether a layer kills it without a GPU; a golden that only tells of a change on request."""
    marks = {mark for layer, mark in cells.items() if _device(layer) != SANITIZER}
    return KILLS in marks or (with_text and TEXT in marks)


def render(mutants: Sequence[Mutant]) -> str:
    """The whole document."""
    record = elsewhere.read()
    cells = {mutant.name: find_cells(mutant, record) for mutant in mutants}
    asked = {layer for said in cells.values() for layer in said}
    layers = [layer for layer in LAYERS if layer in asked or _device(layer) == SANITIZER]
    parts = [INTRODUCTION + _say_where(), _summary(mutants, cells), _totals(mutants, cells, layers)]
    parts += [_notes(mutants, cells), NOT_PLANTED]
    for level in LEVELS:
        rows = [mutant for mutant in mutants if mutant.level == level]
        parts.append(f"## Planted in a {level} ({len(rows)})\n\n" + _table(rows, cells, layers))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Mutant], cells: Mapping[str, Cells], layers: Sequence[str]) -> str:
    used = [layer for layer in layers if any(cells[row.name].get(layer) for row in rows)]
    lines = [_line("mutant", "kind", "planted in", *used)]
    lines.append("|---|---|---|" + ":-:|" * len(used))
    for row in rows:
        note = " (equivalent)" if row.equivalent else " (survives)" if row.survives else ""
        first = f"**{row.name}**{note}: {row.text}"
        marks = [cells[row.name].get(layer, "") for layer in used]
        lines.append(_line(first, row.kind, row.original, *marks))
    return "\n".join(lines)


def _summary(mutants: Sequence[Mutant], cells: Mapping[str, Cells]) -> str:
    counted = [mutant for mutant in mutants if not mutant.equivalent]
    programs = [mutant for mutant in counted if mutant.level != GOLDEN]
    anything = sum(is_killed(mutant, cells[mutant.name], with_text=True) for mutant in counted)
    other = [
        program for program in programs if is_killed(program, _without_golden(cells[program.name]))
    ]
    rows = [
        ("mutants planted", str(len(mutants))),
        ("equivalent to their original, not counted", str(len(mutants) - len(counted))),
        ("counted", str(len(counted))),
        ("killed without a GPU by anything", _share(anything, len(counted))),
        ("programs among them (not a fault of the goldens' folder)", str(len(programs))),
        ("programs killed by another layer than golden", _share(len(other), len(programs))),
    ]
    lines = [_line("", "number"), "|---|--:|", *(_line(*row) for row in rows)]
    return "## How much is caught\n\n" + "\n".join(lines)


def _say_where() -> str:
    places = elsewhere.read_places()
    return "\n" + "".join(f"\n- {name}: {place}" for name, place in sorted(places.items()))


def _without_golden(cells: Cells) -> Cells:
    return {layer: mark for layer, mark in cells.items() if layer != GOLDEN_FILE}


def _totals(mutants: Sequence[Mutant], cells: Mapping[str, Cells], layers: Sequence[str]) -> str:
    counted = [mutant for mutant in mutants if not mutant.equivalent]
    lines = [_line("layer", "asked", "kills", "alone"), "|---|--:|--:|--:|"]
    for layer in layers:
        asked = [mutant for mutant in counted if layer in cells[mutant.name]]
        if not asked:
            lines.append(
                _line(layer, "needs a GPU" if _device(layer) == SANITIZER else "0", "", "")
            )
            continue
        killed = [mutant for mutant in asked if cells[mutant.name][layer] in (KILLS, TEXT)]
        alone = [mutant for mutant in killed if _family(cells[mutant.name]) == {_device(layer)}]
        lines.append(_line(layer, str(len(asked)), str(len(killed)), str(len(alone))))
    return (
        "## Layers\n\n" + "\n".join(lines) + "\n\nAlone: no layer of another kind kills it (the "
        "three of one device are of one kind; the golden's `text` does not count)."
    )


def _device(layer: str) -> str:
    return layer.split()[0]


def _family(cells: Cells) -> set[str]:
    return {_device(layer) for layer, mark in cells.items() if mark == KILLS}


def _notes(mutants: Sequence[Mutant], cells: Mapping[str, Cells]) -> str:
    survivors = [
        f"- **{mutant.name}**: {mutant.survives}." for mutant in mutants if mutant.survives
    ]
    equal = [
        f"- **{mutant.name}**: {mutant.equivalent}." for mutant in mutants if mutant.equivalent
    ]
    asked = [cells[mutant.name][TVM] for mutant in mutants if TVM in cells[mutant.name]]
    return (
        "## Survivors\n\n"
        + "\n".join(survivors or ["None."])
        + "\n\n## Equivalent mutants\n\n"
        + "\n".join(equal or ["None."])
        + f"\n\nOf {len(asked)} mutants that TVM was asked to lower it accepts "
        + f"{asked.count(SILENT)} without a word."
    )


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)"


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


INTRODUCTION = """# The checks, checked

Generated by `make mutants`; do not edit.

Bugs of the kinds that people and compilers make are planted one by one, and each layer of the
checks is asked by itself whether it notices. tests/mutants/ holds the plants and what each must be
killed by; `make test` fails when a layer stops noticing, and when an original is accused.

| mark | meaning |
|:-:|---|
| x | the layer kills the mutant |
| · | the layer was asked and is silent |
| ? | the result is luck there: the mutant reads memory that nobody wrote |
| text | the golden differs, which says that something changed and not that it is wrong |
| (empty) | the layer does not apply: goldens have no lowered modules, LLVM runs no barriers |

- **refusal**: the transform refuses, before anything changes. Where it does, the other columns
  judge the same mistake made with TVM's own primitives.
- **TVM**: TVM itself refuses to schedule or to lower it.
- **golden**: the golden file of the recipe's last step.
- **cpu**, **simulator**, **host**: *faults* are what the device sees (races, what nobody wrote,
  bounds, barriers, alignment, launch; on the CPU stores beside a tensor), *exact* are whole numbers
  compared bit for bit, *random* are floats within the bound, the kernel's corner cases among them.
  host runs no kernel with asynchronous copies or tensor cores.
- **sanitizer**: the tools of NVIDIA's compute-sanitizer, which look for wrong accesses and not at
  results.

The columns host and sanitizer are recorded in tests/mutants/elsewhere.json: `make mutants` asks
host where there is a C++ compiler, and tests/mutants/ask_sanitizer.py the sanitizer on a GPU."""

NOT_PLANTED = """## Not planted

What shows at other shapes than the one here is a matter of the drawn shapes
(tests/recipes/test_numbers.py), which are no column of this table."""
