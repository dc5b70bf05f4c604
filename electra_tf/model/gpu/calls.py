"""Calls of Triton kernels in steps that XLA compiles for a GPU.

Triton compiles a kernel to PTX while the step is traced, which needs no GPU, and XLA loads and
runs it. Sizes are constants of a kernel, so shapes must be known while tracing.
"""

import contextlib
import contextvars
import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

# The PTX version of CUDA 12.5, with which TensorFlow is built; later GPUs need later drivers.
_PTX_VERSION, _LAST_CAPABILITY = 85, 99
TRITON_TYPES = {
    tf.float32: "fp32",
    tf.bfloat16: "bf16",
    tf.float16: "fp16",
    tf.uint32: "u32",
    tf.int32: "i32",
}
_TARGET = "__gpu$xla.gpu.ptx"
_WARP = 32
_capability: contextvars.ContextVar[int | None] = contextvars.ContextVar(
    "compute_capability_of_kernels", default=None
)


class Launch(NamedTuple):
    """How a kernel is compiled and started.

    Attributes:
        grid: number of programs along three axes.
        num_warps: number of warps, of 32 threads, per program.
        num_stages: number of iterations of a loop whose loads are in flight.
    """

    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int = 1


class Kernel(NamedTuple):
    """A compiled kernel: its name, code, and the shared memory that it needs, in bytes."""

    name: str
    ptx: str
    shared_bytes: int


@contextlib.contextmanager
def gpu_kernels(capability: int | None) -> Iterator[None]:
    """Traces operations that have a kernel as calls of it, until the end of the `with`.

    Args:
        capability: 10 times the GPU's compute capability, such as 90; None traces no calls.
    """
    token = _capability.set(capability)
    try:
        yield
    finally:
        _capability.reset(token)


def has_kernels(*tensors: tf.Tensor, dtype: tf.DType | None = None) -> bool:
    """Returns whether kernels are enabled and support tensors: half precision, known shapes.

    Args:
        *tensors: inputs of a kernel.
        dtype: dtype of its results, if different from that of the inputs.
    """
    return _capability.get() is not None and all(
        (dtype or x.dtype) in (tf.bfloat16, tf.float16) and x.shape.is_fully_defined()
        for x in tensors
    )


def call_kernel(
    module: str,
    name: str,
    operands: Mapping[str, tf.Tensor],
    results: Mapping[str, tf.TensorSpec],
    constants: Mapping[str, int | float],
    launch: Launch,
) -> list[tf.Tensor]:
    """Calls a kernel.

    Args:
        module: module of the kernel, in this package.
        name: name of the kernel.
        operands: its first arguments, by name and in order.
        results: its next arguments.
        constants: its last arguments.
        launch: how it is compiled and started.

    Returns:
        The results.
    """
    pointers = {n: x.dtype for n, x in {**operands, **results}.items()}
    types = tuple((n, TRITON_TYPES[dtype]) for n, dtype in pointers.items())
    kernel = compile_kernel(
        module, name, types, tuple(constants.items()), launch[1:], _capability.get()
    )
    # Triton's own two pointers come last; they are for memory that these kernels do not use.
    unused = tf.zeros([1], tf.int32)
    config = {
        "name": kernel.name,
        "kernel_type": "ptx",
        "kernel_data": kernel.ptx,
        **dict(zip(("grid_x", "grid_y", "grid_z"), launch.grid, strict=True)),
        "block_x": _WARP * launch.num_warps,
        "block_y": 1,
        "block_z": 1,
        "shared_mem_bytes": kernel.shared_bytes,
        "output_indices": list(range(len(operands), len(pointers))),
    }
    arguments = [*operands.values(), unused, unused]
    return list(
        xla.custom_call_v2(_TARGET, arguments, list(results.values()), mlir_attribute(config))
    )


def mlir_attribute(value: Any) -> str:
    """Returns a value in MLIR's notation: dictionaries, sequences, strings and integers."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {mlir_attribute(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(mlir_attribute, value)) + "]"
    if isinstance(value, str):
        special = {c: f"\\{ord(c):02X}" for c in '"\\\n\t'}
        return '"' + "".join(special.get(c, c) for c in value) + '"'
    return f"{value} : i32"


@functools.cache
def compile_kernel(
    module: str,
    name: str,
    pointers: tuple[tuple[str, str], ...],
    constants: tuple[tuple[str, int | float], ...],
    options: tuple[int, int],
    capability: int,
) -> Kernel:
    """Compiles a kernel.

    Args:
        module, name: see `call_kernel`.
        pointers: names and Triton's dtypes of all operands and results.
        constants: names and values.
        options: warps and stages.
        capability: see `gpu_kernels`.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    names = function.arg_names
    given = [n for n, _ in (*pointers, *constants)]
    if given != names:
        raise ValueError(f"{name} takes {names}, not {given}")
    signature = {n: f"*{dtype}" for n, dtype in pointers}
    source = ASTSource(
        function,
        signature | {n: "constexpr" for n, _ in constants},
        constexprs={(names.index(n),): value for n, value in constants},
        # XLA's buffers start at multiples of at least 16 bytes.
        attrs={(i,): [["tt.divisibility", 16]] for i in range(len(pointers))},
    )
    choices = dict(zip(("num_warps", "num_stages"), options, strict=True))
    if capability <= _LAST_CAPABILITY:
        choices["ptx_version"] = _PTX_VERSION
    with triton.knobs.compilation.scope():
        # Otherwise the code has the paths of this machine, and is twice as long.
        triton.knobs.compilation.disable_line_info = True
        target = GPUTarget("cuda", capability, _WARP)
        compiled = triton.compile(source, target=target, options=choices)
    metadata = compiled.metadata
    if metadata.global_scratch_size or metadata.profile_scratch_size:
        raise RuntimeError(f"{name} needs memory that its call does not provide")
    return Kernel(metadata.name, compiled.asm["ptx"], metadata.shared)
