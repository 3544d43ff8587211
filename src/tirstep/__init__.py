"""A TVMScript-first workbench for compiler pass experiments on Apache TVM.

``tirstep.modules`` says what is computed, ``tirstep.transforms`` how it is changed and
``tirstep.lowering_checks`` what must hold at every step; `trace` records what other code compiles.
Importing this root is cheap: neither TVM nor NumPy is loaded before one of them is used.
"""

from .tracing import trace as trace

__version__ = "0.2.0"
GUARD = "tirstep.lowering_checks.legality.guard"
"""What judges each change of a schedule; imported with the first one."""
