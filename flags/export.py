"""Flags of `export_saved_model.py`."""

import os
import pathlib
import sys

from absl import flags

from electra_tf.config.hyperparameters import PRECISIONS
from electra_tf.inference.export.config import FORMATS, SAVED_MODEL, ExportConfig
from electra_tf.util.errors import UserError
from flags.remote.paths import Role

# Flags that accept remote paths (gs://…).
REMOTE = {"model_dir": Role.MODEL, "export_dir": Role.OUTPUT_FOLDER}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `export_saved_model.py`."""
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string(
        "model_dir",
        None,
        "Folder of a pre-trained model (DATA_DIR/models/NAME) or a fine-tuned one "
        "(DATA_DIR/models/NAME/finetuning_models/TASK_model_1).",
        required=True,
        **options,
    )
    flags.DEFINE_string(
        "export_dir",
        None,
        "Output folder, with a subfolder per version; its name is the model name in "
        "TensorFlow Serving.",
        required=True,
        **options,
    )
    flags.DEFINE_string(
        "component",
        None,
        "Component to export: discriminator, generator or embeddings of a pre-trained model; "
        "a task or embeddings of a fine-tuned one. The discriminator or the first task if "
        "unset.",
        **options,
    )
    flags.DEFINE_enum("format", SAVED_MODEL, list(FORMATS), "Export format.", **options)
    flags.DEFINE_integer(
        "version", None, "Version number; the next free one if unset.", **options
    )
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Maximum sequence length, in tokens; as in training if unset.",
        **options,
    )
    flags.DEFINE_enum(
        "precision",
        None,
        list(PRECISIONS),
        "Mixed precision (Keras dtype policy) of a SavedModel; as in training if unset. Other "
        "formats are always float32.",
        **options,
    )
    flags.DEFINE_integer(
        "top_k",
        ExportConfig.top_k,
        "Predictions per [MASK] of --component=generator.",
        **options,
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ExportConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid.
    """
    for name in ("model_dir", "export_dir"):
        if not getattr(flag_values, name):  # such as an unset shell variable
            raise UserError(f"--{name} is empty: pass a folder (. is the current one)")
    given = {
        name: getattr(flag_values, name)
        for name in (
            "component",
            "format",
            "version",
            "max_seq_length",
            "precision",
            "top_k",
        )
    }
    return ExportConfig(
        model_dir=str(pathlib.Path(os.path.expanduser(flag_values.model_dir))),
        export_dir=pathlib.Path(os.path.expanduser(flag_values.export_dir)).resolve(),
        **given,
    )
