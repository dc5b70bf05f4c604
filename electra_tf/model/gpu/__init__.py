"""Kernels that Triton compiles for NVIDIA GPUs, in steps that XLA compiles as a whole."""
