"""Scheduled modules with an epilogue, a padding or a filter wrong."""

from .in_schedules import plant_scheduled
from .plant import Edit, Mutant

EPILOGUE = "matmul_bias_relu_shared_blocking"
DEPTHWISE = "depthwise_conv2d_threads_2d"

IN_SCHEDULES_EPILOGUE: tuple[Mutant, ...] = (
    plant_scheduled(
        "relu lost",
        "epilogue",
        "the bias is added, and nothing is cut off at zero",
        EPILOGUE,
        Edit("T.max(C_local[vi, vj] + bias[vj], T.float32(0.0))", "C_local[vi, vj] + bias[vj]"),
    ),
    plant_scheduled(
        "relu before the bias",
        "epilogue",
        "max(C, 0) + bias",
        EPILOGUE,
        Edit(
            "T.max(C_local[vi, vj] + bias[vj], T.float32(0.0))",
            "T.max(C_local[vi, vj], T.float32(0.0)) + bias[vj]",
        ),
    ),
    plant_scheduled(
        "minimum for maximum",
        "epilogue",
        "T.min where T.max belongs",
        EPILOGUE,
        Edit("T.max(C_local", "T.min(C_local"),
    ),
    plant_scheduled(
        "bias of the row",
        "index swapped",
        "bias[vi] for bias[vj]",
        EPILOGUE,
        Edit("T.reads(C_local[vi, vj], bias[vj])", "T.reads(C_local[vi, vj], bias[vi])"),
        Edit("+ bias[vj]", "+ bias[vi]"),
    ),
    plant_scheduled(
        "bias within the tile",
        "index swapped",
        "the bias is taken from the column within the block's tile",
        EPILOGUE,
        Edit("T.reads(C_local[vi, vj], bias[vj])", "T.reads(C_local[vi, vj], bias[vj % 16])"),
        Edit("+ bias[vj]", "+ bias[vj % 16]"),
    ),
    plant_scheduled(
        "padding of ones",
        "padding",
        "what lies outside of the image counts as 1",
        DEPTHWISE,
        Edit("vw + vx - 1], T.float32(0.0))", "vw + vx - 1], T.float32(1.0))"),
    ),
    plant_scheduled(
        "last row taken for padding",
        "padding",
        "the image ends one row early",
        DEPTHWISE,
        Edit("vh + vy < 17", "vh + vy < 16"),
    ),
    plant_scheduled(
        "row above the image",
        "padding",
        "the guard lets the row above the image through",
        DEPTHWISE,
        Edit("vh + vy >= 1", "vh + vy >= 0"),
    ),
    plant_scheduled(
        "filter mirrored",
        "index swapped",
        "F[vc, 0, vx, vy]: rows and columns of the filter swapped",
        DEPTHWISE,
        Edit(
            "T.reads(X[vb, vc, vh + vy - 1, vw + vx - 1], F[vc, 0, vy, vx])",
            "T.reads(X[vb, vc, vh + vy - 1, vw + vx - 1], F[vc, 0, vx, vy])",
        ),
        Edit("* F[vc, 0, vy, vx]", "* F[vc, 0, vx, vy]"),
    ),
    plant_scheduled(
        "image and channel swapped",
        "index swapped",
        "b_c_fused % 2 is the image and b_c_fused // 2 the channel",
        DEPTHWISE,
        Edit("vb = T.axis.spatial(5, b_c_fused // 2)", "vb = T.axis.spatial(5, b_c_fused % 2)"),
        Edit("vc = T.axis.spatial(2, b_c_fused % 2)", "vc = T.axis.spatial(2, b_c_fused // 2)"),
    ),
)
