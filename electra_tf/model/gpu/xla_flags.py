"""XLA's flags for steps with kernels, without TensorFlow."""

import os

_TRITON_GEMM = "--xla_gpu_enable_triton_gemm"


def prefer_cublas() -> None:
    """Leaves matrix products to cuBLAS, unless the user's XLA_FLAGS choose.

    XLA would compile some of them with Triton itself. cuBLAS fuses additions into products,
    takes less memory (7.0 instead of 9.2 GB for ELECTRA-small, 512 x 128), and steps with
    kernels are faster by 1 to 2 % (benchmarks/RESULTS.md). XLA reads its flags when it first
    compiles, so call this before. XLA_FLAGS that name a file of flags are left unchanged.
    """
    flags = os.environ.get("XLA_FLAGS", "").strip()
    is_file = flags and not flags.startswith("-")
    if not is_file and _TRITON_GEMM not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_TRITON_GEMM}=false".lstrip()
