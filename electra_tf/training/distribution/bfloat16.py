"""Whether the processor has instructions for bfloat16, which a run would otherwise emulate."""

import pathlib

import tensorflow as tf

from electra_tf.util.console import warn_once

# Linux's names of the instructions: x86-64 lists them as "flags", ARM as "Features".
_INSTRUCTIONS = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
_CPU_INFO = pathlib.Path("/proc/cpuinfo")


def warn_of_emulated_bfloat16(precision: str) -> None:
    """Warns of bfloat16 on a CPU without instructions for it, if there is no other device.

    Args:
        precision: Keras dtype policy of the run.
    """
    devices = {device.device_type for device in tf.config.list_logical_devices()}
    if precision == "mixed_bfloat16" and devices == {"CPU"} and _is_emulated(_CPU_INFO):
        warn_once(
            "--precision=mixed_bfloat16 is slow here: this processor has no instructions for "
            "bfloat16. With --precision=float32, training can be twice as fast, and inference "
            "four times"
        )


def _is_emulated(cpu_info: pathlib.Path) -> bool:
    """Whether Linux lists the processor's instructions, but none for bfloat16."""
    if not cpu_info.exists():  # on other systems
        return False
    instructions: set[str] = set()
    for line in cpu_info.read_text().splitlines():
        name, _, values = line.partition(":")
        if name.strip() in ("flags", "Features"):
            instructions.update(values.split())
    return bool(instructions) and not instructions & _INSTRUCTIONS
