"""Flags of `convert_checkpoint.py`."""

import os
import sys

from absl import flags

from electra_tf.interop.formats import ConversionConfig, format_names
from electra_tf.util.path_checks import check_not_empty
from flags.command_line.recipe_files import find_recipe
from flags.remote.paths import Role

# Flags that accept remote paths (gs://…).
REMOTE = {
    "from": Role.MODEL,
    "output": Role.OUTPUT_FOLDER,
    "vocab_file": Role.VOCABULARY,
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `convert_checkpoint.py`."""
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string(
        "from",
        None,
        "Checkpoint to convert: a folder, or the prefix of a TensorFlow checkpoint.",
        required=True,
        **options,
    )
    flags.DEFINE_enum(
        "to_format", None, format_names(), "Output format.", required=True, **options
    )
    flags.DEFINE_string("output", None, "Output folder.", required=True, **options)
    flags.DEFINE_enum(
        "from_format", None, format_names(), "Format of --from; detected if unset.", **options
    )
    flags.DEFINE_string(
        "vocab_file", None, "WordPiece vocabulary; the one in --from if unset.", **options
    )
    flags.DEFINE_integer(
        "num_attention_heads",
        None,
        "Attention heads of a TensorFlow 1 checkpoint, which does not record them; if unset, "
        "hidden_size / 64 for the published sizes.",
        lower_bound=1,
        **options,
    )
    flags.DEFINE_boolean(
        "do_lower_case",
        None,
        "Whether the model expects lowercased text, which a TensorFlow 1 checkpoint does not "
        "record. If unset, taken from the tokenizer description beside the vocabulary, else "
        "true.",
        **options,
    )
    flags.DEFINE_boolean(
        "strip_accents",
        None,
        "Whether accents are stripped when lowercasing. If unset, chosen like --do_lower_case.",
        **options,
    )
    flags.DEFINE_boolean("overwrite", False, "Write into a non-empty folder.", **options)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ConversionConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a path is empty.
    """
    for name in ("from", "output", "vocab_file"):
        check_not_empty(flag_values[name].value, f"--{name}")
    vocab_file = flag_values.vocab_file
    return ConversionConfig(
        source=os.path.expanduser(flag_values["from"].value),
        source_format=flag_values.from_format,
        target_format=flag_values.to_format,
        output_dir=os.path.expanduser(flag_values.output),
        vocab_file=vocab_file and find_recipe(vocab_file),
        num_attention_heads=flag_values.num_attention_heads,
        do_lower_case=flag_values.do_lower_case,
        strip_accents=flag_values.strip_accents,
        overwrite=flag_values.overwrite,
    )
