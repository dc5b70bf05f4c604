"""Flags of `run_finetuning.py`."""

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from absl import flags

from electra_tf.config.hyperparameters import EVALUATION, TRAINING
from electra_tf.util.errors import UserError, nearest_name_hint
from electra_tf.util.files import parse_json
from finetune.config.finetuning import FinetuningConfig
from flags import hyperparameters
from flags.remote.paths import Role

# Hyperparameters of the authors' code that this project does not support. Values without
# effect are accepted, so the authors' hyperparameter files load.
RETIRED: Mapping[str, str] = {
    "write_distill_outputs": "outputs for distillation are not supported",
}
SEARCH = "hparam_search"
# Hyperparameters that, like the --own_task_... flags, change what is scored.
_SCORED = ("task_names", "task_spec", "num_folds")
# Flags that accept remote paths (gs://…); `flags.remote.finetuning_folders` copies folders.
REMOTE = {
    "data_dir": Role.ITSELF,
    "init_checkpoint": Role.ITSELF,
    "model_dir": Role.ITSELF,
    "results_dir": Role.ITSELF,
    "vocab_file": Role.VOCABULARY,
    "task_spec": Role.ITSELF,
    "predict_file": Role.FILE,
    "predict_output": Role.OUTPUT_FILE,
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines one flag per hyperparameter, and `--hparams`."""
    hyperparameters.define_flags(FinetuningConfig, flag_values)
    flags.DEFINE_string(
        SEARCH,
        None,
        "Grid search: a JSON object with the values to try for each hyperparameter, such as "
        '{"learning_rate": [1e-4, 3e-4]}. Trains every combination and ranks them by their '
        "dev scores; needs the extra `search`.",
        flag_values=flag_values,
        module_name=sys.argv[0],
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> FinetuningConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid; the message names the flag.
    """
    return FinetuningConfig.create(**explicit_settings(flag_values))


def explicit_settings(flag_values: flags.FlagValues = flags.FLAGS) -> dict[str, Any]:
    """Returns the explicitly given hyperparameters.

    Raises:
        UserError: as `config_from_flags`.
    """
    return hyperparameters.explicit_values(FinetuningConfig, flag_values, RETIRED)


def search_grid(flag_values: flags.FlagValues = flags.FLAGS) -> dict[str, list[Any]] | None:
    """Returns the values of `--hparam_search` by hyperparameter; None if it is not given.

    Raises:
        UserError: it is not valid JSON, a name is unknown, does not change scores or changes
            what is scored, or a value is invalid.
    """
    text = flag_values[SEARCH].value
    if text is None:
        return None
    given = parse_json(text, f"--{SEARCH}")
    if not isinstance(given, dict) or not given:
        raise UserError(
            f'--{SEARCH} must be a JSON object such as {{"learning_rate": [1e-4, 3e-4]}}, not '
            f"{text}"
        )
    searchable = {
        field.name: field
        for field in dataclasses.fields(FinetuningConfig)
        if field.metadata["influence"] in (TRAINING, EVALUATION)
    }
    grid = {}
    for name, values in given.items():
        if name not in searchable:
            hint = nearest_name_hint(name, searchable)
            raise UserError(
                f"{name!r} in --{SEARCH} is not a hyperparameter that changes scores.{hint}"
            )
        where = f"{name} in --{SEARCH}"
        if name in _SCORED or name.startswith("own_task_"):
            raise UserError(
                f"{where} changes what is scored, so scores could not be compared: pass "
                f"--{name} by itself, and search once for each value"
            )
        if not isinstance(values, list) or not values:
            raise UserError(f"{where} must be a list of values, not {values!r}")
        field = searchable[name]
        grid[name] = [hyperparameters.convert_scalar(field, v, where) for v in values]
        if len(set(grid[name])) < len(values):
            raise UserError(f"{where} lists a value twice: {values!r}")
    return grid
