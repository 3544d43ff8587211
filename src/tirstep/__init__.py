"""A TVMScript-first workbench for compiler pass experiments on Apache TVM.

``modules`` says what is computed, ``transforms`` how it is changed, ``lowering_checks`` what must
hold at every step; `trace` records other code. To import this root loads neither TVM nor NumPy.
"""

from .tracing import trace as trace

__version__ = "0.2.0"
GUARD = "tirstep.lowering_checks.legality.guard"
"""What judges each change of a schedule; imported with the first one."""
