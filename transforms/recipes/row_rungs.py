"""The rungs that every ladder over rows has: examples, choices and expectations, for `recipe`."""

from __future__ import annotations

from functools import partial

from .recipe import Example, recipe

SEED = Example({"m": 4096, "n": 4096})
SHAPE = {"m": 6, "n": 64}
THREADS = (32, 64, 128, 256, 512, 1024)
VECTORS = {"threads": THREADS, "vector": (2, 4, 8)}
ROWS = {**VECTORS, "threads": (None, *THREADS), "rows": (None, 1, 2, 4, 8)}
SEVERAL = {"threads": 8, "vector": 4, "rows": 2}
IN_VECTORS = {"unrolled": ("scalar_loads == 0",)}

row_per_thread = partial(
    recipe,
    default_example=SEED,
    golden=Example(SHAPE, config={"threads": 2}),
    choices={"threads": THREADS[:4]},
    expects={"bound": ("barriers == 0",)},
)
row_per_block = partial(
    recipe,
    default_example=SEED,
    golden=Example(SHAPE, config={"threads": 8}),
    choices={"threads": THREADS},
    expects={"spread_over_threads": ("barriers >= 2",)},
)
row_in_registers = partial(
    recipe,
    default_example=SEED,
    golden=Example(SHAPE, config={"threads": 8, "vector": 4}),
    choices=VECTORS,
    expects=IN_VECTORS,
)
rows_per_block = partial(
    recipe,
    default_example=SEED,
    golden=Example(SHAPE, config=SEVERAL),
    choices=ROWS,
    expects=IN_VECTORS,
)
