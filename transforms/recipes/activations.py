"""Recipes of the elementwise functions relu and gelu."""

from __future__ import annotations

from .flat_rungs import batch_per_thread, element_per_thread, grid_in_rounds, vector_per_thread

relu_bound = element_per_thread("relu", block="B")
relu_vectors = vector_per_thread("relu", block="B")
relu_batches = batch_per_thread("relu", block="B")
relu_persistent = grid_in_rounds("relu", block="B")

gelu_bound = element_per_thread("gelu", block="B")
gelu_vectors = vector_per_thread("gelu", block="B")
gelu_batches = batch_per_thread("gelu", block="B")
gelu_persistent = grid_in_rounds("gelu", block="B")
