"""Pictures of how the cost of a step grows, as PNG files."""

import io
import os
from collections.abc import Sequence

from electra_tf.util.files import write_atomically

_DPI = 120


def plot_growth(
    path: str | os.PathLike,
    name: str,
    sizes: Sequence[int],
    seconds: Sequence[float],
    peak_bytes: Sequence[int],
    model_flops: Sequence[int],
) -> None:
    """Draws seconds and memory of a step against one setting; only memory's axis is linear.

    Args:
        path: PNG file to write.
        name: of the setting.
        sizes: its values, ascending.
        seconds, peak_bytes, model_flops: of one step, one for each value.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    time, memory = figure.subplots(1, 2)
    expected = [seconds[0] * flops / model_flops[0] for flops in model_flops]
    time.plot(sizes, seconds, "o-", label="measured")
    time.plot(sizes, expected, "k--", linewidth=1, label="at the first point's FLOP/s")
    time.legend()
    time.set_ylabel("seconds a step")
    time.set_yscale("log")
    memory.plot(sizes, [count / 1e6 for count in peak_bytes], "o-", color="tab:red")
    memory.set_ylabel("peak memory, MB")
    memory.set_ylim(0, 1.1 * max(peak_bytes) / 1e6)
    for axes in (time, memory):
        axes.set_xlabel(name)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)
        axes.grid(visible=True, alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    write_atomically(path, buffer.getvalue())
