"""Pieces of models as TVM's projects compile them: the rules take all functions.

`python examples/model_functions/models.py --compute` holds what they compute against the models.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from relax_functions import find_difference, list_functions

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "model_functions" / "models.py"


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_a_quantized_decoder_is_taken_and_unpacks_in_its_products(models: dict[str, Any]) -> None:
    module = models["MODELS"]["Llama, 4 bits, one row"]()
    scheduled, taken, left = models["schedule"](module)
    assert (dict(taken), left) == ({"rows": 9, "matmul": 1, "flat": 7}, {})
    unpacked = {name for name in list_functions(module) if "unpack" in name}
    assert len(unpacked) == 5  # each within the product that reads it
    name = next(name for name in unpacked if "add" in name)
    alone = list_functions(scheduled)[name]
    function = list_functions(module)[name]
    assert find_difference(models["tvm"].IRModule({"main": alone}), function) == ""


def test_a_piece_of_a_diffusion_model_is_taken(models: dict[str, Any]) -> None:
    _, taken, left = models["schedule"](models["MODELS"]["diffusion, float16"]())
    assert (dict(taken), left) == ({"matmul": 10, "rows": 8, "flat": 9}, {})
