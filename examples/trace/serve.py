"""An app that knows nothing of tirstep: scores of the rows that a page table names.

`tirstep trace traced -- python serve.py` records what it compiles.
"""

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op

PAGES, WIDTH, WORDS = 32, 16, 10


class Scores(nn.Module):
    def __init__(self) -> None:
        self.out = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, cache: nn.Tensor, pages: nn.Tensor) -> nn.Tensor:
        """The scores of words for the rows of a cache that a table has."""
        return op.softmax(self.out(op.take(cache, pages, axis=0)), axis=-1)


def main() -> None:
    cache = nn.spec.Tensor((PAGES, WIDTH), "float32")
    pages = nn.spec.Tensor(("n",), "int32")
    module, _ = Scores().export_tvm({"forward": {"cache": cache, "pages": pages}})
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    random = np.random.default_rng(0)
    given = (random.random((PAGES, WIDTH)), np.array([3, 17, 17, 31]), np.ones((WORDS, WIDTH)))
    types = ("float32", "int32", "float32")
    tensors = [tvm.runtime.tensor(it.astype(to)) for it, to in zip(given, types, strict=True)]
    print("shape", machine["forward"](*tensors).shape)


if __name__ == "__main__":
    main()
