"""Flags of `run_pretraining.py`."""

from absl import flags

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.interop.formats import pretraining_config
from flags import hyperparameters


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag for each hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(PretrainingConfig, flag_values)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> PretrainingConfig:
    """Returns the configuration that the parsed flags ask for.

    Raises:
        UserError: for values that cannot be, naming the flag.
    """
    given = hyperparameters.given_values(
        PretrainingConfig, flag_values.hparams, flag_values=flag_values
    )
    return pretraining_config(**given)
