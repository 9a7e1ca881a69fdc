"""The kernel in C: one source for CPUs and GPUs, and what calls it. `selection` decides when."""
