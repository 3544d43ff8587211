"""What a module must compute where no kernel says it: the module itself, in float64.

`ModuleKernel` makes a kernel of any module, so that recipes, checks and searches for the first bad
step take it like one of `tirstep.modules`.
"""

from .module_kernel import ModuleKernel, ModuleProblem

__all__ = ["ModuleKernel", "ModuleProblem"]
