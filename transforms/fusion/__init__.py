"""Fusion of dependent reductions: what runs, what is repaired, and the blocks that do it."""
