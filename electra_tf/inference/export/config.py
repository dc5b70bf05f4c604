"""Settings of an export; no TensorFlow is imported here."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf.config.trained_positions import trained_positions
from electra_tf.text.framing import MIN_INPUT_LENGTH
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.paths import convert_paths

SAVED_MODEL = "saved_model"
# Precision of all formats but SavedModel.
FLOAT32 = "float32"
# Format to the "module:function" (servable, directory, model_name) that writes it. A new format
# is a file and a line here.
FORMATS = {
    SAVED_MODEL: "electra_tf.inference.export.saved_model:write_saved_model",
    "litert": "electra_tf.inference.export.litert:write_litert",
    "onnx": "electra_tf.inference.export.onnx:write_onnx",
    "stablehlo": "electra_tf.inference.export.stablehlo:write_stablehlo",
}
# Packages that a format requires, and the extra that installs them; the warm-up requests of
# SavedModels need TensorFlow Serving's.
EXTRAS = {
    SAVED_MODEL: (("tensorflow_serving",), "serving"),
    "onnx": (("tf2onnx", "onnxruntime"), "onnx"),
}
# The component that `top_k` applies to.
GENERATOR = "generator"


def is_version(name: str) -> bool:
    """Returns whether a folder of this name is a version of an exported model."""
    return name.isascii() and name.isdigit()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """One export.

    The folders may be given as strings or paths.

    Attributes:
        model_dir: folder of a pre-trained or fine-tuned model.
        export_dir: folder with one subfolder per version; its name is that of the served
            model.
        component: "discriminator", "generator", "embeddings" or a fine-tuned task; None is
            the discriminator or the first task.
        format: one of `FORMATS`.
        version: version number; None is the one after the highest.
        max_seq_length: maximum sequence length, in tokens; None is that of training.
        precision: Keras dtype policy; None is that of training for a SavedModel. The other
            formats are always float32.
        top_k: predictions of a generator per [MASK].

    Raises:
        UserError: a value is invalid.
    """

    model_dir: str
    export_dir: pathlib.Path
    component: str | None = None
    format: str = SAVED_MODEL
    version: int | None = None
    max_seq_length: int | None = None
    precision: str | None = None
    top_k: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "model_dir", os.fspath(self.model_dir))
        convert_paths(self, "export_dir")
        if self.format not in FORMATS:
            raise UserError(f"--format must be one of {', '.join(FORMATS)}, not {self.format}")
        if self.max_seq_length is not None and self.max_seq_length < MIN_INPUT_LENGTH:
            raise UserError(
                f"--max_seq_length must be at least {MIN_INPUT_LENGTH}, not "
                f"{self.max_seq_length}"
            )
        for name in ("version", "top_k"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name} must be at least 1, not {value}")
        if self.format != SAVED_MODEL and self.precision not in (None, FLOAT32):
            raise UserError(f"--format={self.format} supports only --precision={FLOAT32}")


def select_fields(config_class: type, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of a `config.json` that are fields of a dataclass."""
    names = {field.name for field in dataclasses.fields(config_class)}
    return {name: value for name, value in saved.items() if name in names}


def choose_component(requested: str | None, known: tuple[str, ...], model_dir: str) -> str:
    """Returns `requested`, or the first known component if it is None.

    Raises:
        UserError: the model has no such component.
    """
    if requested is None:
        return known[0]
    if requested not in known:
        raise UserError(
            f"--component={requested}: the model in {model_dir} can be exported as "
            f"{', '.join(known)}.{nearest_name_hint(requested, known)}"
        )
    return requested


def serving_length(requested: int | None, trained: int, positions: int) -> int:
    """Returns the maximum sequence length to serve, by default that of training.

    Raises:
        UserError: the model has fewer position embeddings.
    """
    length = requested or trained
    if length > positions:
        raise UserError(
            f"--max_seq_length={length} exceeds the model's {positions} position embeddings"
        )
    return length


def warn_of_assumed_length(
    config: ExportConfig, saved: Mapping[str, Any], length: int, positions: int
) -> None:
    """Warns if texts are cut at a default, because a converted model records no length.

    Args:
        config: settings of the export.
        saved: hyperparameters of a model that was converted and has not been trained here.
        length: maximum sequence length to serve.
        positions: number of position embeddings.
    """
    is_assumed = config.max_seq_length is None and trained_positions(saved) is None
    if is_assumed and length < positions:
        warn_once(
            f"{config.model_dir} was converted, and does not record its sequence length in "
            f"training: texts are truncated to {length} tokens, the default. Pass "
            f"--max_seq_length, of at most {positions}"
        )
