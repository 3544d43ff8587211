"""Pieces of models as TVM's projects compile them: the rules take all functions.

`python examples/model_functions/models.py --compute` holds what they compute against the models.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from relax_functions import find_difference, list_functions
from tvm.s_tir import Schedule

from tirstep.transforms.plans import MmaConfig, schedule_function

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "model_functions" / "models.py"


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_a_quantized_decoder_is_taken_and_unpacks_in_its_products(models: dict[str, Any]) -> None:
    module = models["MODELS"]["Llama, 4 bits, one row"]()
    _, taken, left = models["schedule"](module)
    assert (dict(taken), left) == ({"rows": 9, "matmul": 1, "flat": 7}, {})
    unpacked = {name for name in list_functions(module) if "unpack" in name}
    assert len(unpacked) == 5  # each within the product that reads it


def make_linear(models: dict[str, Any], rows: int, *, is_packed: bool = True) -> Any:
    """The function of a layer alone, with weights in four bits, or in halves and with a bias."""
    plain, packed = models["nn"].Linear, models["GroupedLinear"]
    layer = packed(64, 48, "float16") if is_packed else plain(64, 48, dtype="float16")
    spec = {"x": models["nn"].spec.Tensor([1, rows, 64], "float16")}
    module = models["fuse"](layer.export_tvm({"forward": spec})[0])
    (function,) = list_functions(module).values()
    return function


def test_tensor_cores_have_packed_weights_unpacked_by_a_kernel_before(
    models: dict[str, Any],
) -> None:
    function = make_linear(models, 40)
    sch = Schedule(function)
    assert isinstance(schedule_function(sch, tensor_cores=True)[1], MmaConfig)
    text = sch.mod.script()
    assert text.count('thread="blockIdx.x"') == 2
    assert "mma" in text
    assert find_difference(sch.mod, function) == ""


@pytest.mark.parametrize("is_packed", [False, True])
def test_one_row_is_read_by_vectors_once(models: dict[str, Any], *, is_packed: bool) -> None:
    function = make_linear(models, 1, is_packed=is_packed)
    sch = Schedule(function)
    name, config = schedule_function(sch)
    assert (name, config.in_registers) == ("rows", True)
    assert sch.mod.script().count("T.vectorized(T.int64(8))") == (1 if is_packed else 2)
    assert find_difference(sch.mod, function) == ""


@pytest.mark.share(9)
def test_a_piece_of_a_diffusion_model_is_taken_with_its_convolutions(
    models: dict[str, Any],
) -> None:
    _, taken, left = models["schedule"](models["MODELS"]["diffusion, float16"]())
    assert dict(taken) == {"matmul": 10, "convolution": 3, "rows": 5, "flat": 9}
    assert left == {}
