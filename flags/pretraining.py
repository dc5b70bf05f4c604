"""Flags of `run_pretraining.py`."""

from absl import flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.interop.initial_settings import pretraining_config
from flags import hyperparameters
from flags.remote.paths import Role

# What may be remote.
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
    given = hyperparameters.explicit_values(
        PretrainingConfig, flag_values.hparams, flag_values=flag_values
    )
    return pretraining_config(**given)
