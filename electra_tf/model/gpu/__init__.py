"""Triton kernels for NVIDIA GPUs, called in training steps that XLA compiles as a whole."""
