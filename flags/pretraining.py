"""Flags of `run_pretraining.py`."""

from collections.abc import Mapping
from typing import Any

from absl import flags

from electra_tf.config.phases import LENGTH_PLACEHOLDER
from electra_tf.config.pretraining import PretrainingConfig, default_records
from electra_tf.interop.initial_settings import pretraining_config
from electra_tf.text.tokenizer_description import TokenizerDescription
from flags import hyperparameters
from flags.remote.paths import Role
from pretrain_data.records.manifest import find_tokenizer

# Flags that accept remote paths (gs://…).
REMOTE = {
    "data_dir": Role.ITSELF,
    "model_dir": Role.ITSELF,
    "pretrain_tfrecords": Role.ITSELF,
    "eval_tfrecords": Role.ITSELF,
    "vocab_file": Role.ITSELF,
    "init_checkpoint": Role.MODEL,
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag per hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(PretrainingConfig, flag_values)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> PretrainingConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid; the message names the flag.
    """
    return config_from_values(hyperparameters.explicit_values(PretrainingConfig, flag_values))


def config_from_values(given: Mapping[str, Any]) -> PretrainingConfig:
    """Returns the configuration; by default, tokenizer settings are read from the records.

    In the authors' code, `--no-lower-case` builds cased records, and pre-training has no such
    flag.

    Raises:
        UserError: as `config_from_flags`.
    """
    return pretraining_config(records=_tokenizer_of_records(given), **given)


def _tokenizer_of_records(given: Mapping[str, Any]) -> TokenizerDescription | None:
    patterns = given.get("pretrain_tfrecords")
    if not patterns:
        if not given.get("data_dir"):
            return None
        patterns = default_records(given["data_dir"])
    length = given.get("max_seq_length", PretrainingConfig.max_seq_length)
    return find_tokenizer(patterns.replace(LENGTH_PLACEHOLDER, str(length)))
