"""Whoever imports this has programs in the words of TVM 0.27, and is skipped under an older one."""

import pytest

from tirstep.tvm_compat import TVM

if TVM < (0, 27):
    pytest.skip("since TVM 0.27: its programs are in its words", allow_module_level=True)
