"""Flags of `run_pretraining.py`."""

import sys
from collections.abc import Mapping

from absl import flags

from electra_tf.config import PretrainingConfig
from flags import hyperparameters

# Hyperparameters of the authors' configure_pretraining.py that this program does not
# have; harmless values are accepted so that their files of hyperparameters load.
RETIRED: Mapping[str, str] = {
    "use_tpu": "TPUs are not supported; the strategy is chosen with --strategy",
    "tpu_name": "TPUs are not supported",
    "tpu_job_name": "TPUs are not supported",
    "tpu_zone": "TPUs are not supported",
    "gcp_project": "TPUs are not supported",
    "num_tpu_cores": "TPUs are not supported",
    "electric_objective": "the Electric objective is not supported",
    "two_tower_generator": "two-tower generators are not supported",
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag for each hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(PretrainingConfig, flag_values)
    flags.DEFINE_string(
        "hparams",
        None,
        "JSON object of hyperparameters, or the path of a .json file; flags win over it.",
        flag_values=flag_values,
        module_name=sys.argv[0],
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> PretrainingConfig:
    """Returns the configuration that the parsed flags ask for.

    Raises:
        UserError: for values that cannot be, naming the flag.
    """
    given = hyperparameters.given_values(
        PretrainingConfig, flag_values.hparams, RETIRED, flag_values
    )
    return PretrainingConfig.create(**given)
