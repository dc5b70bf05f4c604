"""Flags of `run_pretraining.py`."""

from collections.abc import Mapping

from absl import flags

from electra_tf.config import PretrainingConfig
from flags import hyperparameters

# Hyperparameters of the authors that ours do not have; harmless values are accepted so
# that their files of hyperparameters load.
RETIRED: Mapping[str, str] = {
    "electric_objective": "the Electric objective is not supported",
    "two_tower_generator": "two-tower generators are not supported",
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag for each hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(PretrainingConfig, flag_values)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> PretrainingConfig:
    """Returns the configuration that the parsed flags ask for.

    Raises:
        UserError: for values that cannot be, naming the flag.
    """
    given = hyperparameters.given_values(
        PretrainingConfig, flag_values.hparams, RETIRED, flag_values
    )
    return PretrainingConfig.create(**given)
