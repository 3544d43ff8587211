"""Compiling: the one room that calls TVM's compiler, within limits, and looks at its passes."""
