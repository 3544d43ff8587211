"""Products with more around them, on the schedules of matmul: batches of them, and a bias and a
function of the sums, which become part of the store.

A kernel has ladders of the schedules of `mma` and `wgmma`, and of `gemm` for all types. What each
knob adds, the ladders of matmul show; here are configs of their upper rungs, and what `best`
chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from . import gemm, mma, wgmma
from .ladder import Expects, Family, Ladder, Rung
from .matmul_best import make_best
from .recipe import Example, Recipe

HALF: Mapping[str, object] = {"dtype": "bfloat16", "out": "bfloat16"}
HALVES = ("float16", "bfloat16")
BATCH = Example({"batch": 64, "m": 1024, "n": 1024, "k": 128}, options=HALF)
LINEAR = Example({"m": 4096, "n": 4096, "k": 4096}, options=HALF)


def get_whole_types(family: Family) -> tuple[str, ...]:
    """The types that a family multiplies without losing bits of operands or sums."""
    lost = ("tf32", "float8") if family.arch == wgmma.WGMMA.arch else ("tf32",)
    return tuple(dtype for dtype in family.dtypes if not dtype.startswith(lost))


def _make_family(family: Family, kernel: str, **shape: int) -> Family:
    """The family of a kernel on a schedule of matmul; `shape` is that of its goldens."""
    is_batched = kernel == "batched_matmul"
    options = HALF if family.dtypes else {}
    # gelu is float32's, and so are its sums; only matmul allows tensor cores to keep fewer bits.
    taken = HALVES if kernel == "matmul_bias_gelu" else get_whole_types(family)
    dtypes = taken if family.dtypes else ()
    return replace(
        family,
        kernel=kernel,
        blocks=("C", "C C_cast") if is_batched else ("C D",),
        default_example=replace(BATCH if is_batched else LINEAR, options=options),
        small=replace(family.small, shape=shape, options=options),
        dtypes=dtypes,
    )


def _make_ladder(family: Family, name: str, title: str, *recipes: Recipe) -> Ladder:
    """A ladder ``<kernel>_<name>``, or of the kernel's own name."""
    ladder = f"{family.kernel}_{name}" if name else family.kernel
    return Ladder(ladder, family.kernel, title, recipes, family.default_example.shape)


def _make_rung(family: Family, name: str, rung: Rung, why: str, expects: Expects) -> Rung:
    """The root ``<kernel>_<name>`` with the config of a rung of matmul, and its golden's."""
    golden = rung.golden.config
    return family.root(name, why=why, expects=expects, golden=golden, **rung.config)


_BATCH = {"batch": 2}
_SCALAR = _make_family(gemm.GEMM, "batched_matmul", **_BATCH, m=64, n=48, k=32)
_MMA = _make_family(mma.MMA, "batched_matmul", **_BATCH, m=32, n=64, k=96)
_WGMMA = _make_family(wgmma.WGMMA, "batched_matmul", **_BATCH, m=64, n=128, k=192)
_BY_MMA: Expects = {"next_tiles_asynchronously": mma.ON_TENSOR_CORES}
_BY_WGMMA: Expects = {"tensorized": wgmma.ON_TENSOR_CORES}
_AS_PREFETCHED: Expects = {"barriers_dropped": ("barriers_per_step == 1", "spills == 0 on sm_90a")}

BATCHED_MATMUL = (
    _make_ladder(
        _MMA,
        "mma",
        "tensor cores by mma.sync, a product on each plane of the grid",
        _make_rung(_MMA, "mma", mma.rows, "A product on each plane of blockIdx.z", _BY_MMA),
        make_best(_MMA, "mma", _BY_MMA),
    ),
    _make_ladder(
        _WGMMA,
        "wgmma",
        "Hopper's tensor cores by wgmma, a product on each plane of the grid",
        _make_rung(
            _WGMMA,
            "wgmma",
            wgmma.roles,
            "A product on each plane of blockIdx.z, and tiles of tensors of three dimensions by "
            "the TMA",
            {"warps_specialized": wgmma.BY_TMA},
        ),
        make_best(_WGMMA, "wgmma", _BY_WGMMA),
    ),
    _make_ladder(
        _SCALAR,
        "",
        "tiles in registers, a product on each plane of the grid",
        _make_rung(
            _SCALAR,
            "prefetched",
            gemm.prefetched,
            "A product on each plane of blockIdx.z, as matmul_prefetched computes one",
            _AS_PREFETCHED,
        ),
    ),
)


def _make_fused(kernel: str) -> tuple[Ladder, Ladder]:
    """The ladders of a product with a bias and a function of it."""
    of_mma = _make_family(mma.MMA, kernel, m=32, n=64, k=96)
    of_wgmma = _make_family(wgmma.WGMMA, kernel, m=64, n=128, k=192)
    title = "with the bias and the function in the store"
    return (
        _make_ladder(of_mma, "mma", f"mma.sync, {title}", make_best(of_mma, "mma", _BY_MMA)),
        _make_ladder(of_wgmma, "wgmma", f"wgmma, {title}", make_best(of_wgmma, "wgmma", _BY_WGMMA)),
    )


_GELU = _make_family(gemm.GEMM, "matmul_bias_gelu", m=64, n=48, k=32)
MATMUL_BIAS_RELU = _make_fused("matmul_bias_relu")
MATMUL_BIAS_GELU = (
    *_make_fused("matmul_bias_gelu"),
    _make_ladder(
        _GELU,
        "",
        "tiles in registers, with the bias and gelu in the store",
        _make_rung(
            _GELU,
            "prefetched",
            gemm.prefetched,
            "The bias and gelu come before the store, of sums that matmul_prefetched computes",
            _AS_PREFETCHED,
        ),
    ),
)
PRODUCTS = (*BATCHED_MATMUL, *MATMUL_BIAS_RELU, *MATMUL_BIAS_GELU)
"""Whose schedules are those of matmul's ladders."""
