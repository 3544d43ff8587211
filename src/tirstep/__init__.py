"""A TVMScript-first workbench for compiler pass experiments on Apache TVM.

``tirstep.modules`` says what is computed, ``tirstep.transforms`` how it is changed and
``tirstep.lowering_checks`` what must hold at every step. Importing this root is cheap: neither
TVM nor NumPy is loaded before one of the three is imported.
"""

__version__ = "0.2.0"
GUARD = "tirstep.lowering_checks.legality.guard"
"""What judges each change of a schedule; imported with the first one."""
