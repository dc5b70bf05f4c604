r"""Checks Triton's kernels on a GPU against float64, and times their tiles.

    python -m benchmarks.gpu_kernels

Needs a GPU, and a Python with torch for CUDA, which has Triton; no TensorFlow. Kernels run as
`electra_tf/model/gpu/` calls them, on random bfloat16 arrays. Results may differ from float64
by rounding: 1 % of their norm. The tiles that are in use come first in a table, then the
fastest of others; memory is what a kernel reads and writes, once, a second.

Without a GPU, Triton's interpreter tries it out, in float32:

    TRITON_INTERPRET=1 python -m benchmarks.gpu_kernels --device cpu --shapes 2:40:2 \
        --num_tiles 0
"""

import argparse
from collections.abc import Sequence

import torch
import triton

from benchmarks.gpu_kernel_cases import Case, cases
from electra_tf.util.console import markdown_table
from electra_tf.util.errors import UserError

TOLERANCE = 0.01
MILLISECONDS = 20


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table.

    Raises:
        UserError: a result is wrong.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", default="cuda", help="Of PyTorch.")
    parser.add_argument(
        "--shapes",
        default="128:128:4,256:128:12,64:512:12",
        help="Shapes as rows:length:heads; heads have 64 units.",
    )
    parser.add_argument(
        "--num_tiles",
        type=int,
        default=24,
        help="Tiles to time for each kernel; 0 checks only.",
    )
    options = parser.parse_args(arguments)
    rows, wrong = [], []
    for shape in options.shapes.split(","):
        for case in cases(*map(int, shape.split(":")), options.device):
            error = largest_error(case)
            if not error <= TOLERANCE:
                wrong.append(f"{case.label}: {error:.1e}")
            print(f"{case.label}: differs from float64 by {error:.1e} of the norm", flush=True)
            rows += timed(case, options.num_tiles) if options.num_tiles else []
    if rows:
        print("\n" + markdown_table(["kernel", "tiles", "ms", "GB/s"], rows, text_columns=2))
    if wrong:
        raise UserError("wrong results: " + "; ".join(wrong))


def largest_error(case: Case) -> float:
    """Returns the largest difference of a result from float64, over the norm of the latter."""
    results = case.allocate(case.used)
    case.run(case.used, results)
    errors = []
    for name, expected in case.expected().items():
        found = results[name].double()
        found = found.sum(0) if name in ("d_bias", "sums") else found
        errors.append(float((found - expected).norm() / expected.double().norm()))
    # Unlike max, this is NaN if one is.
    return float(torch.tensor(errors).max())


def timed(case: Case, num_tiles: int) -> list[list[str]]:
    """Returns rows of the table: the tiles in use and the three fastest others."""
    times = {}
    step = max(1, len(case.others) // num_tiles)
    for chosen in (case.used, *case.others[::step]):
        results = case.allocate(chosen)
        try:
            times[chosen] = triton.testing.do_bench(
                lambda chosen=chosen, results=results: case.run(chosen, results),
                rep=MILLISECONDS,
                return_mode="median",
            )
        except triton.runtime.errors.OutOfResources:
            continue  # too large for the GPU's registers or shared memory
    arrays = [*case.operands.values(), *case.allocate(case.used).values()]
    size = sum(x.numel() * x.element_size() for x in arrays)
    used = times.pop(case.used)
    fastest = sorted(times.items(), key=lambda item: item[1])[:3]
    rows = [("in use", used), *((tuple(each), ms) for each, ms in fastest)]
    return [
        [case.label, str(each), f"{ms:.4f}", f"{size / ms / 1e6:,.0f}"] for each, ms in rows
    ]


if __name__ == "__main__":
    try:
        main()
    except UserError as refused:
        raise SystemExit(f"Error: {refused}") from refused
