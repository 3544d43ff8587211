"""Fused kernels with one line of their text wrong: maxima, repairs, masks, factors and tiles."""

from .in_schedules import plant_scheduled
from .plant import Edit

CAUSAL = "attention_causal"
SCALE = "T.float32(0.35355339059327373)"
MOVED = f"T.exp((largest_previous_local[vb, vh, vi] - largest_local[vb, vh, vi]) * {SCALE})"
BACK = f"T.exp((largest_local[vb, vh, vi] - largest_previous_local[vb, vh, vi]) * {SCALE})"
SUMS, TOTAL = "weighted_local[vb, vh, vi, vd] * ", "total_local[vb, vh, vi] * "
NORMED = "rms_norm_matmul_shared"
GATED = "mlp_swiglu_shared"
NORM = " * T.rsqrt(squares_local[vi] / T.float32(24.0) + T.float32(1.0000000000000001e-05))"
SILU = "{0}_local[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - {0}_local[vi, vj]))"
HIGHER = "T.max(largest_local[vb, vh, vi], largest_tile_local[vb, vh, vi, vj_0])"

IN_FUSED = (
    plant_scheduled(
        "maximum not carried",
        "wrong operand",
        "the maximum of a row is that of the last tile of keys",
        CAUSAL,
        Edit(HIGHER, "largest_tile_local[vb, vh, vi, vj_0]"),
    ),
    plant_scheduled(
        "repair left out",
        "wrong operand",
        "what was summed stays as it is where the maximum moves",
        CAUSAL,
        Edit(f"{SUMS}{MOVED}", "weighted_local[vb, vh, vi, vd]"),
    ),
    plant_scheduled(
        "repair left out of the sum of a row",
        "wrong operand",
        "the sum of powers stays as it is, and what they weigh is repaired",
        CAUSAL,
        Edit(f"{TOTAL}{MOVED}", "total_local[vb, vh, vi]"),
    ),
    plant_scheduled(
        "repair inverted",
        "wrong operand",
        "sums are divided by the factor",
        CAUSAL,
        Edit(f"{SUMS}{MOVED}", f"{SUMS}{BACK}"),
    ),
    plant_scheduled(
        "repair twice",
        "wrong operand",
        "sums are multiplied by the factor twice",
        CAUSAL,
        Edit(f"{SUMS}{MOVED}", f"{SUMS}{MOVED} * {MOVED}"),
    ),
    plant_scheduled(
        "causal bound off by one",
        "predicate wrong",
        "a query sees the key behind its own",
        CAUSAL,
        Edit("T.if_then_else(vj <= vi + 4, T.exp", "T.if_then_else(vj <= vi + 5, T.exp"),
    ),
    plant_scheduled(
        "tile of keys read one early",
        "index swapped",
        "the tile of keys is fetched from the row before, the first row twice",
        CAUSAL,
        Edit("T.reads(K[v0, v1, v2, v3])", "T.reads(K[v0, v1, T.max(v2 - 1, 0), v3])"),
        Edit("= K[v0, v1, v2, v3]", "= K[v0, v1, T.max(v2 - 1, 0), v3]"),
    ),
    plant_scheduled(
        "norm left out",
        "wrong operand",
        "the sum is stored without the factor that came out of it",
        NORMED,
        Edit(NORM, ""),
    ),
    plant_scheduled(
        "norm twice",
        "wrong operand",
        "the factor that came out of the sum is applied twice",
        NORMED,
        Edit(NORM, NORM + NORM),
    ),
    plant_scheduled(
        "gate and up swapped",
        "wrong operand",
        "silu is applied to the product that it gates",
        GATED,
        Edit(f"{SILU.format('G')} * U_local[vi, vj]", f"{SILU.format('U')} * G_local[vi, vj]"),
    ),
    plant_scheduled(
        "tile of X one early",
        "index swapped",
        "the tile of X is that of the step before, the first one twice",
        GATED,
        Edit("T.reads(X[v0, v1])", "T.reads(X[v0, T.max(v1 - 4, v1 % 4)])"),
        Edit("= X[v0, v1]", "= X[v0, T.max(v1 - 4, v1 % 4)]"),
    ),
)
