"""The rungs that every ladder of an elementwise kernel has: what `recipe` takes for them."""

from __future__ import annotations

from functools import partial

from .recipe import Example, recipe

SEED = Example({"n": 4096 * 4096})
THREADS = (64, 128, 256, 512)
SIZES = {"threads": THREADS, "vector": (2, 4, 8)}
BATCHED = {**SIZES, "each": (1, 2, 4, 8)}
IN_VECTORS = {"bound": ("scalar_loads == 0", "scalar_stores == 0")}

element_per_thread = partial(
    recipe,
    seed=SEED,
    golden=Example({"n": 96}, sizes={"threads": 32}),
    choices={"threads": THREADS},
    symbolic=("n",),
    expects={"bound": ("barriers == 0",)},
)
vector_per_thread = partial(
    recipe,
    seed=SEED,
    golden=Example({"n": 256}, sizes={"threads": 32, "vector": 4}),
    choices=SIZES,
    expects=IN_VECTORS,
)
batch_per_thread = partial(
    recipe,
    seed=SEED,
    golden=Example({"n": 512}, sizes={"threads": 32, "vector": 4, "each": 2}),
    choices=BATCHED,
    expects=IN_VECTORS,
)
grid_in_rounds = partial(
    recipe,
    # As many blocks as 132 multiprocessors run: they do not divide.
    seed=Example(SEED.shape, sizes={"tail": "guard"}),
    golden=Example({"n": 1536}, sizes={"threads": 32, "vector": 4, "each": 2, "blocks": 3}),
    choices={**BATCHED, "blocks": (264, 528, 1056, 2112)},
    expects=IN_VECTORS,
)
