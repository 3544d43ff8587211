"""A TVMScript-first workbench for compiler pass experiments on Apache TVM.

``modules`` says what is computed, ``transforms`` how it is changed, ``lowering_checks`` what must
hold at every step; `trace` records other code. To import this root loads neither TVM nor NumPy.
"""

TYPE_CHECKING = False  # as type checkers read it, without the import of `typing`
if TYPE_CHECKING:
    from .tracing import trace as trace

__version__ = "0.2.0"
GUARD = "tirstep.lowering_checks.legality.guard"
"""The module that judges each change of a schedule, imported with the first one."""


def __getattr__(name: str) -> object:
    """`trace`, when it is asked for: a command begins without it, and ends quietly on Ctrl-C."""
    if name == "trace":
        from .tracing import trace

        return trace
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
