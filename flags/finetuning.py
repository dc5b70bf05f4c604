"""Flags of `run_finetuning.py`."""

from collections.abc import Mapping

from absl import flags

from finetune.config.finetuning import FinetuningConfig
from flags import hyperparameters

# Hyperparameters of the authors' code that this project does not support. Values without
# effect are accepted, so the authors' hyperparameter files load.
RETIRED: Mapping[str, str] = {
    "write_distill_outputs": "outputs for distillation are not supported",
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag per hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(FinetuningConfig, flag_values)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> FinetuningConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid; the message names the flag.
    """
    given = hyperparameters.explicit_values(
        FinetuningConfig, flag_values.hparams, RETIRED, flag_values
    )
    return FinetuningConfig.create(**given)
