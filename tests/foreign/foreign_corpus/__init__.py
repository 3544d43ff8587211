"""Functions as other projects write them, and every transform called on every part of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from tvm.tirx import PrimFunc

from . import elements, products, reductions, types

OPEN = {"n": 13, "m": 21}
"""What stands for the sizes that a function leaves open."""
ROUNDED = {
    "root_of_squares",
    "softmax",
    "centred_rows",
    "root_mean_square",
    "logarithm_of_sums",
    "bits_as_numbers",
}
"""Functions whose results are rounded: held to a bound. All others are exact in integers."""
BOUNDS = {"ids": (0, 6), "A of product_of_rows": (1, 3), "A of histogram": (0, 5)}
"""Of inputs, by their names: the lowest integer, and the one that they stay below."""


DISTINCT = {"place_of_the_largest"}
"""Functions whose inputs have no number twice: of equal ones threads keep any."""


@dataclass(frozen=True)
class Foreign:
    """A function of the corpus.

    Attributes
    ----------
    name : of the function
    family : "elements", "products", "reductions" or "types"
    function : the program, not scheduled
    is_exact : whether integers as inputs make every legal schedule give the same bits
    """

    name: str
    family: str
    function: PrimFunc
    is_exact: bool


def _collect(module: ModuleType) -> dict[str, Foreign]:
    family = module.__name__.rpartition(".")[2]
    return {
        name: Foreign(name, family, value, name not in ROUNDED)
        for name, value in (module.FUNCTIONS | vars(module)).items()
        if isinstance(value, PrimFunc)
    }


CORPUS = _collect(elements) | _collect(products) | _collect(reductions) | _collect(types)
