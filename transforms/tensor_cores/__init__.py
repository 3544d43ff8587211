"""Tensor cores by mma.sync: fragments, tiles of them, and chains of products in quads."""
