"""Kernels and their schedules."""
