r"""Sums up the GPU kernels of traces that `benchmarks.stablehlo_step --profile DIR` wrote.

    python -m benchmarks.kernel_times DIR/small-128-128-step DIR/base-16-512-step

Needs jax, which reads the traces, and no GPU. XLA names a kernel after the kind of its fusion
and its last operations, so the names tell roughly what it computes.
"""

import argparse
import collections
import pathlib
from collections.abc import Iterable, Sequence

from benchmarks.stablehlo_step import PROFILED_STEPS
from electra_tf.util.console import markdown_table

# The first whose parts of a name occur in that of a kernel; the rest is element-wise.
KINDS = {
    "Triton's attention": ("attention_",),
    "Triton's normalizations": ("add_norm_", "norm_dropout_"),
    "Triton's GELU": ("bias_gelu_",),
    "Triton's vocabulary": ("cross_entropy_", "sample_tokens"),
    "matrix products": ("nvjet", "gemm", "cutlass", "cublas"),
    "layer norm and softmax": ("softmax", "triton"),
    "reductions": ("input_",),
    "Adam": ("add_subtract",),
    "transposes": ("transpose", "concat", "slice"),
    "dropout masks": ("compare",),
}
REST = "other element-wise"


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table of milliseconds and kernels a step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_times")
    parser.add_argument("traces", nargs="+", type=pathlib.Path, help="Folders of traces.")
    rows = []
    for folder in parser.parse_args(arguments).traces:
        times = sum_by_kind(read_kernels(folder))
        for kind, (nanoseconds, count) in times.items():
            milliseconds = nanoseconds / 1e6 / PROFILED_STEPS
            kernels = f"{count / PROFILED_STEPS:,.0f}"
            rows.append([folder.name, kind, f"{milliseconds:.2f}", kernels])
    print(markdown_table(["trace", "", "ms/step", "kernels/step"], rows, text_columns=2))


def read_kernels(folder: pathlib.Path) -> list[tuple[str, float]]:
    """Returns name and nanoseconds of each kernel in the traces below a folder."""
    from jax.profiler import ProfileData

    return [
        (event.name, event.duration_ns)
        for path in folder.glob("**/*.xplane.pb")
        for plane in ProfileData.from_file(str(path)).planes
        if "GPU" in plane.name
        for line in plane.lines
        if "Stream" in line.name
        for event in line.events
    ]


def sum_by_kind(kernels: Iterable[tuple[str, float]]) -> dict[str, tuple[float, int]]:
    """Returns nanoseconds and number of the kernels of each kind, and of all."""
    times: collections.Counter[str] = collections.Counter()
    counts: collections.Counter[str] = collections.Counter()
    for name, nanoseconds in kernels:
        for kind in (kind_of(name), "all"):
            times[kind] += nanoseconds
            counts[kind] += 1
    return {kind: (times[kind], counts[kind]) for kind, _ in times.most_common()}


def kind_of(name: str) -> str:
    """Returns the kind of a kernel, by its name."""
    # Fusions that Triton compiles have no other name: they contain reductions over rows.
    if name.startswith("fusion"):
        return "layer norm and softmax"
    return next((kind for kind, parts in KINDS.items() if any(p in name for p in parts)), REST)


if __name__ == "__main__":
    main()
