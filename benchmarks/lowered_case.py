"""The files of a lowered pre-training step: what they contain and how they are read.

`benchmarks.lowering` writes them where TensorFlow is, `benchmarks.stablehlo_step` runs them
where jax is. A folder per case:

    case.json        `LoweredCase`: configuration, arguments, FLOPs, TensorFlow's losses
    step.stablehlo.gz   the whole step, a portable artifact of StableHLO
    forward.stablehlo.gz   masking and both forward passes, with dropout
    batches.npz      `input_ids`, `input_mask`, `segment_ids` int32 [batches, rows, length]

Initial weights are not stored, they would take half a gigabyte a case: they are drawn by numpy
as `Argument` describes, here and there alike. Needs numpy alone.
"""

import dataclasses
import gzip
import json
import pathlib
from typing import Any

import numpy as np

from electra_tf.text.framing import ENCODER_INPUTS
from electra_tf.util.errors import UserError
from electra_tf.util.files import write_atomically

CASE_FILE, BATCHES_FILE = "case.json", "batches.npz"
STEP, FORWARD = "step", "forward"
NUM_BATCHES = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Argument:
    """A variable that a program takes, and its initial value.

    Attributes:
        name: the variable's.
        shape, dtype: of the variable.
        value: of every element; None if the elements are drawn.
        stddev, seed: the elements are normal noise of this standard deviation, by numpy's
            default generator with this seed.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    value: float | int | None = None
    stddev: float = 0.0
    seed: int = 0

    def initial_value(self) -> np.ndarray:
        """Returns the initial value, the same on every machine."""
        if self.value is not None:
            return np.full(self.shape, self.value, self.dtype)
        noise = np.random.default_rng(self.seed).standard_normal(self.shape, np.float32)
        return (noise * np.float32(self.stddev)).astype(self.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A lowered function of a batch and variables.

    Its first output is the loss. Updated variables are its last outputs.

    Attributes:
        file: portable artifact, in the folder of the case.
        arguments: the variables in order; they follow the `ENCODER_INPUTS`.
        num_results: outputs that are not variables.
        aliases: pairs of an output that is the new value of a variable, and the argument whose
            memory it takes.
        model_flops: matrix products of one call, see `electra_tf/flops/counting.py`.
    """

    file: str
    arguments: tuple[Argument, ...]
    num_results: int
    aliases: tuple[tuple[int, int], ...]
    model_flops: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoweredCase:
    """One model and batch shape, lowered.

    Attributes:
        name: "size:batch:length".
        config: fields of the `PretrainingConfig`.
        parameters: of all models.
        tensorflow: version that lowered the programs.
        programs: by `STEP` and `FORWARD`.
        losses: of TensorFlow's first steps; None if they were not computed.
    """

    name: str
    config: dict[str, Any]
    parameters: int
    tensorflow: str
    programs: dict[str, Program]
    losses: tuple[float, ...] | None

    def write(self, folder: pathlib.Path) -> None:
        """Writes `case.json`, last of all files, so that a folder with one is whole."""
        content = json.dumps(dataclasses.asdict(self), indent=1)
        write_atomically(folder / CASE_FILE, content + "\n")

    @classmethod
    def read(cls, folder: pathlib.Path) -> "LoweredCase":
        """Reads `case.json`.

        Raises:
            UserError: the file is damaged.
        """
        path = folder / CASE_FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            programs = {
                name: _read_program(program) for name, program in content["programs"].items()
            }
            losses = content["losses"]
            return cls(**{**content, "programs": programs, "losses": losses and tuple(losses)})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no lowered case: {error!r}") from error


def _read_program(content: dict[str, Any]) -> Program:
    arguments = [
        Argument(**{**argument, "shape": tuple(argument["shape"])})
        for argument in content["arguments"]
    ]
    aliases = tuple((output, argument) for output, argument in content["aliases"])
    return Program(**{**content, "arguments": tuple(arguments), "aliases": aliases})


def case_folder(directory: pathlib.Path, name: str) -> pathlib.Path:
    """Returns the folder of the case "size:batch:length" within `directory`."""
    return directory / name.replace(":", "-")


def find_cases(directory: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the folder of every case in `directory`, by name.

    Raises:
        UserError: there is none, or one is damaged.
    """
    folders = sorted(path.parent for path in directory.glob(f"*/{CASE_FILE}"))
    if not folders:
        raise UserError(
            f"{directory} has no lowered case: write some by "
            f"python -m benchmarks.gpu_training_step --lower {directory}, where TensorFlow is"
        )
    return {LoweredCase.read(folder).name: folder for folder in folders}


def read_program(folder: pathlib.Path, program: Program) -> bytes:
    """Returns the portable artifact of a program."""
    return gzip.decompress((folder / program.file).read_bytes())


def read_batches(folder: pathlib.Path) -> list[list[np.ndarray]]:
    """Returns the batches of a case, each as the arrays of `ENCODER_INPUTS`."""
    with np.load(folder / BATCHES_FILE) as arrays:
        features = [arrays[name] for name in ENCODER_INPUTS]
    return [list(batch) for batch in zip(*features, strict=True)]
