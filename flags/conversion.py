"""Flags of `convert_checkpoint.py`."""

import os
import sys

from absl import flags

from electra_tf.interop.formats import FORMAT_NAMES, ConversionConfig


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of `convert_checkpoint.py`."""
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string(
        "from",
        None,
        "What to convert: a folder, or the prefix of a TensorFlow checkpoint's files.",
        required=True,
        **options,
    )
    flags.DEFINE_enum(
        "to_format", None, FORMAT_NAMES, "Format to write.", required=True, **options
    )
    flags.DEFINE_string("output", None, "Folder to write.", required=True, **options)
    flags.DEFINE_enum(
        "from_format", None, FORMAT_NAMES, "Format of --from; found by its files.", **options
    )
    flags.DEFINE_string(
        "vocab_file", None, "Vocabulary, where none lies beside --from.", **options
    )
    flags.DEFINE_integer(
        "num_attention_heads",
        None,
        "Heads of the encoder of a checkpoint of the authors' code, where they are not "
        "hidden_size / 64 as in theirs: it does not tell.",
        lower_bound=1,
        **options,
    )
    flags.DEFINE_boolean("overwrite", False, "Write into a folder with content.", **options)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ConversionConfig:
    """Returns what the flags ask for."""
    return ConversionConfig(
        source=os.path.expanduser(flag_values["from"].value),
        source_format=flag_values.from_format,
        target_format=flag_values.to_format,
        output_dir=os.path.expanduser(flag_values.output),
        vocab_file=flag_values.vocab_file,
        num_attention_heads=flag_values.num_attention_heads,
        overwrite=flag_values.overwrite,
    )
