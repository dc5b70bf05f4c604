"""A case: commands of the project that write into one folder."""

import dataclasses
import json
import signal
from collections.abc import Mapping
from typing import Any

# Placeholders in flag values: the folder of the shared inputs, and that of the case.
INPUTS, CASE = "@inputs", "@case"
CHECKPOINT_STATE = "checkpoint"
KILLED_STATUS, PREEMPTED_STATUS = -signal.SIGKILL, 42


@dataclasses.dataclass(frozen=True)
class Interruption:
    """A signal to a running command.

    Attributes:
        number: of the signal.
        file: file in the case's folder that the signal waits for.
        content: text that this file must contain.
        delay: seconds from the file to the signal.
        status: exit status of the command.
        checkpoint: the newest one that the command must leave, such as `model/ckpt-10`.
    """

    number: signal.Signals
    file: str
    content: str
    delay: float
    status: int
    checkpoint: str


def killed_at(checkpoint: str) -> Interruption:
    """Returns a SIGKILL right after a checkpoint, such as `model/ckpt-10`, was saved."""
    folder, _, name = checkpoint.rpartition("/")
    # TensorFlow writes the state of the folder after the files of the checkpoint.
    state = f"{folder}/{CHECKPOINT_STATE}"
    return Interruption(signal.SIGKILL, state, f'"{name}"', 0.0, KILLED_STATUS, checkpoint)


def preempted_in_first_loop(checkpoint: str) -> Interruption:
    """Returns a SIGTERM while the first step compiles: the run saves after its first loop.

    Args:
        checkpoint: of the last step of the first loop.
    """
    # The log is created just before the first step is compiled.
    log = f"{checkpoint.rpartition('/')[0]}/train_log.jsonl"
    return Interruption(signal.SIGTERM, log, "", 0.5, PREEMPTED_STATUS, checkpoint)


@dataclasses.dataclass(frozen=True)
class Command:
    """A program of the project with its flags.

    Attributes:
        program: its file.
        flags: by name; mappings are passed as JSON, sequences separated by commas.
        output: file in the case's folder for standard output, if that is to be compared.
        interruption: signal that ends the command.
    """

    program: str
    flags: Mapping[str, Any]
    output: str | None = None
    interruption: Interruption | None = None

    def arguments(self, inputs: str, case: str) -> list[str]:
        """Returns the command line without the interpreter."""
        values = {name: _format(value) for name, value in self.flags.items()}
        return [self.program] + [
            f"--{name}={value.replace(INPUTS, inputs).replace(CASE, case)}"
            for name, value in values.items()
        ]


@dataclasses.dataclass(frozen=True)
class Case:
    """Commands that run one after another; all files they write are compared.

    Attributes:
        name: of the case and its folder.
        commands: in their order.
        same_as: case whose last checkpoints must have the same weights, on each side.
        with_model: whether the case's folder starts with a copy of the pre-trained model.
    """

    name: str
    commands: tuple[Command, ...]
    same_as: str | None = None
    with_model: bool = False


def _format(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)
