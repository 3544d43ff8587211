"""Write docs/passports.json and .md (`make passports`), or try some recipes and print.

python tests/passports/make_table.py [RECIPE...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / it) for it in ("tests/passports", "tests/foreign", "docs/build")]
from passport.page import make_page  # noqa: E402
from passport.recipes import make_passport  # noqa: E402
from passport.transforms import make_passports  # noqa: E402

from tirstep.files import write_file  # noqa: E402
from tirstep.transforms.recipes import RECIPES, find_recipe  # noqa: E402

DATA = ROOT / "docs" / "passports.json"
PAGE = ROOT / "docs" / "passports.md"
_LONG = 12
"""Sentences of more characters than this are written once, and referred to by number."""


def main() -> None:
    """Try what is named, or everything, and write it."""
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            print(
                json.dumps({name: make_passport(find_recipe(name))}, indent=2, ensure_ascii=False)
            )
        return
    data = pack({name: make_passport(recipe) for name, recipe in RECIPES.items()}, make_passports())
    write_file(DATA, spell(data))
    write_file(PAGE, make_page(data))


def pack(recipes: dict[str, Any], transforms: dict[str, Any]) -> dict[str, Any]:
    """The table, with each sentence once."""
    sentences: dict[str, int] = {}

    def shorten(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shorten(it) for key, it in value.items()}
        is_long = isinstance(value, str) and len(value) > _LONG
        return sentences.setdefault(value, len(sentences)) if is_long else value

    made = {"recipes": shorten(recipes), "transforms": shorten(transforms)}
    return {**made, "sentences": list(sentences)}


def spell(data: dict[str, Any]) -> str:
    """JSON with a line for each recipe, transform and sentence, so that changes are readable."""
    dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    parts = []
    for part in ("recipes", "transforms"):
        rows = ",\n".join(f"{dump(name)}:{dump(it)}" for name, it in data[part].items())
        parts.append(f'"{part}":{{\n{rows}\n}}')
    rows = ",\n".join(map(dump, data["sentences"]))
    parts.append(f'"sentences":[\n{rows}\n]')
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    main()
