"""Peak rates of NVIDIA's GPUs, for the model FLOPs utilization.

Dense bfloat16 products on tensor cores with float32 sums, boost clock, without sparsity:
where NVIDIA prints a rate with sparsity, half of it. From the data sheets of the data
centre's GPUs and, for GeForce, from the appendices of the white papers of GA102 and AD102.
"""

# TFLOPS by the driver's name of the GPU. Names must match exactly, because variants (laptops,
# other boards) have other clocks.
BFLOAT16_TFLOPS = {
    "NVIDIA A10": 125.0,
    "NVIDIA A30": 165.0,
    "NVIDIA A100-PCIE-40GB": 312.0,
    "NVIDIA A100 80GB PCIe": 312.0,
    "NVIDIA A100-SXM4-40GB": 312.0,
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA GeForce RTX 3090": 71.0,
    "NVIDIA GeForce RTX 4090": 165.2,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H200": 989.4,
    "NVIDIA L4": 121.0,
    "NVIDIA L40S": 362.0,
}


def peak_bfloat16_flops(gpu_name: str) -> float | None:
    """Returns FLOPs a second, or None for a GPU that is not in the table."""
    tflops = BFLOAT16_TFLOPS.get(gpu_name.strip())
    return None if tflops is None else tflops * 1e12
