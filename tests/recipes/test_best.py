"""What is compiled of what recipes choose."""

import pytest
from compilers import needs_compiler

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.facts import compile_facts, get_facts
from tirstep.transforms.recipes import RECIPES

HALF = {"dtype": "bfloat16", "out": "bfloat16"}
FLOAT8 = {"dtype": "float8_e4m3fn", "acc": "fp22", "out": "float32", "transpose_b": True}
FEW = {"threads": 32, "depth": 8, "steps": 4}


@pytest.mark.share(12)
@needs_compiler
@pytest.mark.parametrize(
    ("name", "shape", "options", "config", "architecture"),
    [
        # Where rows are odd, whole vectors or halves of them.
        ("matmul_best", (3000, 3001, 500), {}, {"device": "NVIDIA A100-SXM4-80GB"}, "sm_80"),
        ("matmul_best", (806, 7818, 398), {}, {}, "sm_90a"),
        ("matmul_best", (30, 558, 57), {}, {"device": "NVIDIA GeForce RTX 5090"}, "sm_120a"),
        ("matmul_skinny_split_k", (8, 4096, 4096), {"dtype": "float32"}, FEW, "sm_90"),
        ("matmul_skinny_split_k", (8, 4096, 4096), {"dtype": "bfloat16"}, FEW, "sm_90"),
        ("matmul_bias_gelu_wgmma_best", (4096, 4096, 512), HALF, {}, "sm_90a"),
        ("matmul_wgmma_best", (8192, 8192, 256), FLOAT8, {}, "sm_90a"),
        # Rows that fill most registers, that are read in rounds, and parts, where CUDA has no
        # vector of eight bytes for the zeros of a padded row.
        ("softmax_best", (300, 20000), {}, {}, "sm_80"),
        ("softmax_best", (300, 1 << 17), {}, {}, "sm_120a"),
        ("matvec_best", (40, 153099), {}, {}, "sm_90a"),
        ("row_sum_best", (1, 200104), {"dtype": "int8"}, {}, "sm_90a"),
    ],
)
def test_what_is_chosen_spills_nothing(
    name: str, shape: tuple[int, ...], options: dict, config: dict, architecture: str
):
    sizes = dict(zip(RECIPES[name].default_example.shape, shape, strict=True))
    run = run_recipe(RECIPES[name], sizes, options=options, config=config)
    assert ("wgmma" in name) == (run.steps[-1].name == "blocks_stay")
    facts = get_facts(run.steps[-1].module, "cuda", problem=run.problem)
    compiled = compile_facts(facts.source, architecture, facts.kernels)
    most = 32 if "wgmma" in name and "NVRTC" in compiled.compiler else 0  # none by nvcc 13.0
    assert (compiled.refusal, compiled.values()["spills"] <= most) == (None, True)
    assert "serializ" not in compiled.log.lower()
