"""Flags of `run_finetuning.py`."""

from collections.abc import Mapping

from absl import flags

from finetune.config.finetuning import FinetuningConfig
from flags import hyperparameters

# Hyperparameters of the authors that ours do not have; harmless values are accepted so
# that their files of hyperparameters load.
RETIRED: Mapping[str, str] = {
    "write_distill_outputs": "outputs for distillation are not supported",
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag for each hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(FinetuningConfig, flag_values)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> FinetuningConfig:
    """Returns the configuration that the parsed flags ask for.

    Raises:
        UserError: for values that cannot be, naming the flag.
    """
    given = hyperparameters.given_values(
        FinetuningConfig, flag_values.hparams, RETIRED, flag_values
    )
    return FinetuningConfig.create(**given)
