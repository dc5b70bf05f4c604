"""Flags of `run_finetuning.py`."""

import sys
from collections.abc import Mapping

from absl import flags

from finetune.config import FinetuningConfig
from flags import hyperparameters

# Hyperparameters of the authors' configure_finetuning.py that this program does not
# have; harmless values are accepted so that their files of hyperparameters load.
RETIRED: Mapping[str, str] = {
    "use_tpu": "TPUs are not supported; the strategy is chosen with --strategy",
    "tpu_name": "TPUs are not supported",
    "tpu_job_name": "TPUs are not supported",
    "tpu_zone": "TPUs are not supported",
    "gcp_project": "TPUs are not supported",
    "num_tpu_cores": "TPUs are not supported",
    "write_distill_outputs": "outputs for distillation are not supported",
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag for each hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(FinetuningConfig, flag_values)
    flags.DEFINE_string(
        "hparams",
        None,
        "JSON object of hyperparameters, or the path of a .json file; flags win over it.",
        flag_values=flag_values,
        module_name=sys.argv[0],
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> FinetuningConfig:
    """Returns the configuration that the parsed flags ask for.

    Raises:
        UserError: for values that cannot be, naming the flag.
    """
    given = hyperparameters.given_values(
        FinetuningConfig, flag_values.hparams, RETIRED, flag_values
    )
    return FinetuningConfig.create(**given)
