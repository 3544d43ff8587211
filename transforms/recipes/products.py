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
from .matmul_best import make_best
from .matmul_tutorials import matmul_bias_relu_shared_blocking
from .recipe import Example, Recipe
from .rungs import Expects, Family, Ladder, Rung, order

HALF: Mapping[str, object] = {"dtype": "bfloat16", "out": "bfloat16"}
HALVES = ("float16", "bfloat16")
BATCH = Example({"batch": 64, "m": 1024, "n": 1024, "k": 128}, options=HALF)
LINEAR = Example({"m": 4096, "n": 4096, "k": 4096}, options=HALF)


def get_whole_types(family: Family) -> tuple[str, ...]:
    """The types that a family multiplies without losing bits of operands or sums."""
    lost = ("tf32", "float8") if family.arch == wgmma.WGMMA.arch else ("tf32",)
    return tuple(dtype for dtype in family.dtypes if not dtype.startswith(lost))


_KINDS: Mapping[str, tuple[Family, tuple[int, ...], Expects]] = {
    "mma": (mma.MMA, (32, 64, 96), {"next_tiles_asynchronously": mma.ON_TENSOR_CORES}),
    "wgmma": (wgmma.WGMMA, (64, 128, 192), {"tensorized": wgmma.ON_TENSOR_CORES}),
    "": (
        gemm.GEMM,
        (64, 48, 32),
        {"barriers_dropped": ("barriers_per_step == 1", "spills == 0 on sm_90a")},
    ),
}
"""Schedules of matmul, the shapes of their goldens, and what is expected."""


def _make_ladder(
    kernel: str,
    kind: str,
    title: str,
    rung: Rung | None = None,
    why: str = "",
    expects: Expects | None = None,
) -> Ladder:
    """The ladder ``<kernel>_<kind>`` of a schedule of matmul, or of the kernel's own name: a root
    with the config of a rung of matmul, and on tensor cores the recipe that chooses.
    """
    (of, small, expected), is_batched = _KINDS[kind], kernel == "batched_matmul"
    example = replace(BATCH if is_batched else LINEAR, options=HALF if kind else {})
    shape = {**({"batch": 2} if is_batched else {}), **dict(zip("mnk", small, strict=True))}
    # gelu is float32's, and so are its sums; only matmul allows tensor cores to keep fewer bits.
    dtypes = HALVES if kernel == "matmul_bias_gelu" else get_whole_types(of)
    family = replace(
        of,
        kernel=kernel,
        blocks=("C", "C C_cast") if is_batched else ("C D",),
        default_example=example,
        small=replace(of.small, shape=shape, options=example.options),
        dtypes=dtypes if kind else (),
    )
    recipes: list[Recipe] = []
    if rung is not None:
        told = {"expects": expects or expected, "golden": rung.golden.config, **rung.config}
        recipes.append(family.root(kind or "prefetched", why=why, **told))
    if kind:
        recipes.append(make_best(family, kind, expected))
    return order(title, *recipes, name=f"{kernel}_{kind}" if kind else "")


BATCHED_MATMUL = (
    _make_ladder(
        "batched_matmul",
        "mma",
        "tensor cores by mma.sync, one matmul per plane of the grid",
        mma.rows,
        "One matmul per plane of blockIdx.z",
    ),
    _make_ladder(
        "batched_matmul",
        "wgmma",
        "Hopper's tensor cores by wgmma, one matmul per plane of the grid",
        wgmma.roles,
        "One matmul per plane of blockIdx.z, and tiles of three-dimensional tensors by the TMA",
        {"warps_specialized": wgmma.BY_TMA},
    ),
    _make_ladder(
        "batched_matmul",
        "",
        "tiles in registers, one matmul per plane of the grid",
        gemm.prefetched,
        "One matmul per plane of blockIdx.z, as matmul_prefetched computes one",
    ),
)
_TITLE = "with the bias and the function in the store"
MATMUL_BIAS_RELU, _GELU = (
    (
        _make_ladder(kernel, "mma", f"mma.sync, {_TITLE}"),
        _make_ladder(kernel, "wgmma", f"wgmma, {_TITLE}"),
    )
    for kernel in ("matmul_bias_relu", "matmul_bias_gelu")
)
MATMUL_BIAS_GELU = (
    *_GELU,
    _make_ladder(
        "matmul_bias_gelu",
        "",
        "tiles in registers, with the bias and gelu in the store",
        gemm.prefetched,
        "The schedule of matmul_prefetched, with bias and gelu before the store",
    ),
)
PRODUCTS = (*BATCHED_MATMUL, *MATMUL_BIAS_RELU, *MATMUL_BIAS_GELU)
"""Kernels with the schedules of matmul's ladders."""
LADDERS = (
    *MATMUL_BIAS_RELU,
    order(
        'the blocking of "TVM Learning (8)-GPU and Hardware Acceleration, Part 1"',
        matmul_bias_relu_shared_blocking,
    ),
    *MATMUL_BIAS_GELU,
    *BATCHED_MATMUL,
)
