"""What simulator, host, a GPU and NVIDIA's compute-sanitizer say of the programs."""
