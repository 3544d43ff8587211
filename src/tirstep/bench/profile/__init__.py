"""What NVIDIA's profiler (ncu, Nsight Compute) counts in the kernels of a ladder.

`session` runs ncu over a process of `launches`, which launches every recipe once; `counters` reads
what ncu prints; `results` are kept as JSON beside the runs of ``tirstep bench``.
"""
