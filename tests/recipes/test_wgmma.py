"""Matmul by wgmma: types, shapes and configs on the simulator, and on a GPU where there is one."""

import pytest
from compilers import needs_compiler
from golden_runs import DEVICES, require_right
from tvm.s_tir import Schedule

from tirstep.lowering_checks import check_numbers, get_device, run_golden, run_recipe
from tirstep.lowering_checks.facts import compile_facts, get_facts
from tirstep.lowering_checks.facts.lowered import count_accesses
from tirstep.modules import matmul
from tirstep.transforms import TransformError
from tirstep.transforms.recipes import LADDERS, RECIPES

SIMULATOR = get_device("simulator")
LAST = RECIPES["matmul_wgmma_block_swizzle"]
SMALL = {**LAST.golden.config, "tile": (64, 32)}


def sums_of(dtype: str) -> str | None:
    """What wgmma keeps of the sums of a type, where it is not all of a float32."""
    return "fp22" if dtype.startswith("float8") else None


FLOAT8 = {"transpose_b": True, "dtype": "float8_e4m3fn", "acc": "fp22"}
EIGHT = {"dtype": "int8", "out": "int32"}
BOTH = {"dtype": "bfloat16", "out": "bfloat16"}
TMA = {"copies": "tma"}
KERNEL = {"tile_k": 32, "transpose": "kernel"}
BY_TMA = [
    ((128, 64, 640), {}, {"tile": (128, 64), "stages": 4}),
    ((64, 64, 384), {"transpose_b": True}, {"tile": (64, 64), "warpgroups": (1, 2)}),
    ((65, 40, 328), BOTH, {"tail": "pad"}),
    ((65, 39, 133), BOTH, {"tail": "pad", "split_k": 2, "tile_k": 16}),
    ((128, 64, 640), {**EIGHT, "transpose_b": True}, {"tile": (128, 32), "tile_k": 128}),
    ((64, 40, 656), {**FLOAT8, "out": "float32"}, {"tail": "pad"}),
    ((65, 40, 136), {"dtype": "tf32", "transpose_b": True}, {"tail": "pad"}),
    ((64, 32, 256), {}, {"row_bytes": 16, "in_flight": 0, "stages": 2}),
]
CASES = [
    *(
        ((64, 64, 256), {"dtype": dtype, "out": out, "transpose_b": turned, **more}, {})
        for dtype, out, more in (
            ("float16", "float32", {}),
            ("float16", "float16", {}),
            ("bfloat16", "bfloat16", {}),
            ("int8", "int32", {}),
            ("float8_e4m3fn", "float32", {"acc": "fp22"}),
            ("float8_e5m2", "bfloat16", {"acc": "fp22"}),
            ("tf32", "float32", {}),
        )
        for turned in (False, True)
    ),
    *(
        (shape, BOTH, {"tail": tail})
        for shape in ((62, 97, 41), (1, 1, 1), (65, 40, 133))
        for tail in ("pad", "copy")
    ),
    *(
        ((128, 64, 512), {}, config)
        for config in (
            {"split_k": 2},
            {"split_k": 2, "tail": "copy"},
            {"store": "shared"},
            {"stages": 2},
            {"in_flight": 0},
            {"stages": 4, "tile_k": 32},
            {"tile_k": 128, "stages": 2},
            *({"row_bytes": row_bytes} for row_bytes in (16, 32, 64)),
            {"tile": (128, 64), "warpgroups": (2, 1)},
            {"tile": (128, 64), "warpgroups": (1, 1)},
            {"tile": (64, 64), "warpgroups": (2, 1)},
            {"tile": (64, 64), "warpgroups": (1, 2)},
            {"tile": (128, 32), "warpgroups": (2, 1), "store": "shared", "swizzle": 1},
        )
    ),
    # By kernels before: neither TVM's ThreadSync nor CUDA takes vectors of float8 under a guard.
    *(
        ((24, 16, 72), FLOAT8, {"tile_k": 64, "stages": stages, "tail": "pad", "in_flight": 0})
        for stages in (2, 3)
    ),
    ((65, 40, 67), {"dtype": "tf32"}, {"tile_k": 32, "tail": "pad"}),
    ((65, 40, 67), {"dtype": "tf32", "transpose_b": True}, {"tile_k": 32, "tail": "copy"}),
    *((*case, {**config, **TMA, "roles": r}) for *case, config in BY_TMA for r in (False, True)),
    # Slabs of 64 columns, the last of which are not full.
    *(
        ((128, 2 * columns, 192), BOTH, {"tile": (64, columns), "tail": tail, **more})
        for columns in (72, 96, 144)
        for tail, more in (("refuse", {}), ("pad", {**TMA, "roles": True}))
    ),
    # The TMA copies rows as rows, and wgmma reads 8 and 32 bits along k alone: a kernel of its own
    # transposes, or threads copy.
    ((64, 32, 128), {"dtype": "tf32"}, {**KERNEL, **TMA, "roles": True}),
    ((60, 32, 64), {"dtype": "float8_e4m3fn", "acc": "fp22"}, {**KERNEL, "tail": "pad"}),
    ((61, 37, 75), EIGHT, {**KERNEL, **TMA, "tail": "pad"}),
    ((64, 32, 192), EIGHT, {**TMA, "roles": True}),
]


@pytest.mark.share(20)
@DEVICES
@pytest.mark.parametrize(("shape", "options", "config"), CASES, ids=str)
def test_types_shapes_and_configs(shape, options: dict, config: dict, device: str) -> None:
    sizes, options = dict(zip("mnk", shape, strict=True)), {"dtype": "float16", **options}
    run = run_recipe(LAST, sizes, options=options, config={**SMALL, **config})
    names = [step.name for step in run.steps]
    by_threads = options["dtype"] == "int8" and "transpose_b" not in options
    assert ("B_transposed" in names) == ("transpose" in config)
    is_tma = "copies" in config and ("transpose" in config or not by_threads)
    assert ("next_tiles_by_tma" in names) == is_tma
    require_right(run, device)


def test_the_kernel_that_transposes_reads_and_writes_side_by_side() -> None:
    """What it moves is B twice: no sector of 32 bytes is touched for a part of it alone."""
    sizes = {"m": 64, "n": 64, "k": 128}
    config = {**SMALL, "tile_k": 32, "transpose": "kernel"}

    def measure(transposed: bool) -> int:
        options = {"dtype": "tf32", "transpose_b": transposed}
        run = run_recipe(LAST, sizes, options=options, config=config)
        return count_accesses(run.problem, run.steps[-1].module).traffic

    assert measure(False) - measure(True) == 2 * 4 * sizes["n"] * sizes["k"]


@pytest.mark.gpu
@pytest.mark.parametrize("recipe", LADDERS["matmul_wgmma"], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize(
    ("dtype", "out", "transpose_b"),
    [
        ("bfloat16", "bfloat16", False),
        ("float16", "float32", True),
        ("float8_e4m3fn", "float32", True),
        ("int8", "int32", True),
        ("tf32", "float32", False),
    ],
)
def test_rungs_are_right_at_a_real_shape(recipe, dtype: str, out: str, transpose_b: bool) -> None:
    options = {"dtype": dtype, "acc": sums_of(dtype), "out": out, "transpose_b": transpose_b}
    config = {"tile_k": 32} if dtype == "tf32" and "tile_k" in recipe.config else {}
    run = run_recipe(recipe, {"m": 1024, "n": 512, "k": 2048}, options=options, config=config)
    require_right(run, "cuda")


@pytest.mark.share(9)
@needs_compiler
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("matmul_wgmma_rows", {"dtype": "bfloat16", "out": "bfloat16"}),
        ("matmul_wgmma_best", {"dtype": "int8", "out": "int32", "transpose_b": True}),
        ("matmul_wgmma_tma", FLOAT8),
        ("matmul_wgmma_roles", {"dtype": "bfloat16", "out": "bfloat16"}),
        ("matmul_wgmma_persistent", {"dtype": "bfloat16", "out": "bfloat16"}),
        ("matmul_wgmma_best", {"dtype": "tf32"}),
    ],
)
def test_nothing_is_spilled_and_no_instruction_serialized(name: str, options: dict) -> None:
    """ptxas serializes wgmma where it cannot tell what registers hold, and says so."""
    run = run_recipe(RECIPES[name], {"m": 4096, "n": 4096, "k": 4096}, options=options)
    facts = get_facts(run.steps[-1].module, "cuda", problem=run.problem)
    compiled = compile_facts(facts.source, "sm_90a", facts.kernels)
    assert (facts.refusal, compiled.refusal) == (None, None)
    assert compiled.values()["spills"] == 0
    assert "Used " in compiled.log
    assert (
        " 0 bytes stack frame" in compiled.log
    )  # sums under the condition of a role stay in registers
    assert "serializ" not in compiled.log.lower()


def test_the_order_in_the_source_is_that_of_the_manual() -> None:
    """Copies have arrived and are fenced before the barrier, registers before the first product."""
    run = run_golden(RECIPES["matmul_wgmma_in_flight"])
    source = get_facts(run.steps[-1].module, "cuda", problem=run.problem).source
    body = source[source.rindex("{\n  extern __shared__") :]
    words = {
        "cp_async_wait_group": "arrived",
        "fence_proxy": "proxy fence",
        "__syncthreads": "barrier",
        "wgmma_fence": "fence",
        "mma_async": "product",
        "wgmma_commit": "commit",
        "wgmma_wait_group_wait_group_sync_aligned_1": "wait 1",
        "wgmma_wait_group_wait_group_sync_aligned_0": "wait 0",
        "cp_async_legacy": "copy",
        "C_ptr +": "store",
    }
    seen: list[str] = []
    for line in body.splitlines():
        found = [word for key, word in words.items() if key in line]
        seen += [word for word in found if seen[-1:] != [word]]
    tile = ["arrived", "proxy fence", "barrier", "fence", "product", "commit", "wait 1"]
    assert seen == ["copy", *tile, "barrier", "copy", *tile, *tile, "wait 0", "store"]


def test_sums_of_float8_in_float32_are_refused() -> None:
    message = 'wgmma keeps 14 bits in sums of float8_e5m2, .* use acc="fp22", which allows that, or'
    with pytest.raises(TransformError, match=message):
        LAST(Schedule(matmul(128, 256, 128, dtype="float8_e5m2")), **LAST.config)


def test_what_sums_of_float8_lose_shows_where_it_is_not_allowed() -> None:
    """Held against a kernel that asks for all bits of a float32."""
    options = {"dtype": "float8_e4m3fn", "transpose_b": True}
    shape = {"m": 64, "n": 32, "k": 512}
    run = run_recipe(LAST, shape, options={**options, "acc": "fp22"}, config=SMALL)
    wide = matmul.problem(**shape, **options)
    found = check_numbers(wide, run.steps[-1].module, SIMULATOR, where="")
    assert found
    assert "C[" in str(found[0])


def test_sums_in_float16_are_refused() -> None:
    with pytest.raises(TransformError, match="wgmma sums in float16 are not here; sum in float32"):
        LAST(Schedule(matmul(128, 256, 128, dtype="float16", acc="float16")), **LAST.config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"stages": 5}, "5 stages of tiles of .128, 256. by tile_k=64 take 240 KiB of shared me"),
        ({"tile": (256, 256)}, "keeps 256 sums in the registers of each thread, which hold 192"),
        ({"tile": (128, 256), "warpgroups": (2, 3)}, r"warpgroups=\(2, 3\) do not divide tile="),
        ({"tile": (96, 256)}, r"warpgroup=\(96, 256\) must be a multiple of 64 rows and 8 columns"),
        ({"in_flight": 2}, "in_flight=2 of block .* would leave a group in flight that reads"),
    ],
)
def test_what_does_not_fit_is_refused(config: dict, message: str) -> None:
    with pytest.raises(TransformError, match=message):
        LAST(Schedule(matmul(768, 512, 512, dtype="float16")), **{**LAST.config, **config})


def test_operands_that_kernels_of_their_own_pad_stay_there() -> None:
    """Otherwise rows that are no multiples of 16 bytes are fetched element by element."""
    shape = {"m": 900, "n": 901, "k": 499}
    for name, config in (("matmul_wgmma_rows", {"tail": "copy"}), ("matmul_mma_best", {})):
        run = run_recipe(RECIPES[name], shape, options={"dtype": "float16"}, config=config)
        values = get_facts(run.steps[-1].module, "cuda", problem=run.problem).values()
        assert (values["cp_async_bytes"], values["kernels"] >= 3) == (16, True)


def test_a_result_of_one_row_is_no_tile_of_the_tma() -> None:
    recipe = RECIPES["matmul_wgmma_tma_store"]
    config = {**recipe.golden.config, "tail": "pad"}
    run = run_recipe(
        recipe, {"m": 1, "n": 72, "k": 128}, options=recipe.golden.options, config=config
    )
    assert "stored_by_tma" not in [step.name for step in run.steps]


def test_blocks_stay_where_two_warpgroups_share_the_columns() -> None:
    """Neither of them stores whole slabs: the result has no room beside the stages."""
    config = {"tile": (128, 256), "stages": 4, "warpgroups": (1, 2), "persistent": 3}
    options, sizes = {"dtype": "float16", "out": "float16"}, {"m": 128, "n": 256, "k": 256}
    run = run_recipe(RECIPES["matmul_wgmma_persistent"], sizes, options=options, config=config)
    assert "stored_by_tma" not in [step.name for step in run.steps]
    require_right(run, "simulator")
