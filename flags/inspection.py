"""Flags of `inspect_dataset.py`, in addition to those of pre-training."""

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any

from absl import flags

from electra_tf.config.phases import records_of_length
from electra_tf.config.pretraining import (
    TRAIN_FLAG,
    PretrainingConfig,
    default_model_dir,
    default_records,
)
from electra_tf.config.saved_config import load_saved_config
from electra_tf.text.vocabulary import VOCAB_FILE, load_model_vocabulary, load_vocabulary
from electra_tf.util.console import use_color
from electra_tf.util.errors import UserError
from electra_tf.util.file_patterns import split_patterns
from electra_tf.util.output_checks import check_distinct, check_not_input, check_output_file
from electra_tf.util.path_checks import check_not_empty
from electra_tf.util.paths import RemotePath, is_remote
from flags import hyperparameters, pretraining
from flags.remote.paths import Role

# Settings of data and masking that are read from the `config.json` of a run.
_RECORDED = (
    "length_curriculum",
    "mask_prob",
    "mask_prob_end",
    "masking",
    "masking_hparams",
    "masking_with_replacement",
    "max_predictions_per_seq",
    "max_seq_length",
    "pretrain_tfrecords",
    "seed",
    "vocab_size",
    "word_list",
)
_UNNAMED = "records"
STANDARD_OUTPUT = "-"

# Flags that accept remote paths (gs://…).
REMOTE = {**pretraining.REMOTE, "model_dir": Role.DESCRIPTION}


@dataclasses.dataclass(frozen=True)
class InspectionConfig:
    """What to inspect, and what to write.

    Attributes:
        settings: hyperparameters of the run; without `max_seq_length`, that of the records.
        examples: number of examples to show.
        top_tokens: number of most frequent tokens to show.
        max_records: number of records to read; None reads all.
        verify: verify the records, instead of describing them.
        json: JSON file to write, "-" for standard output, or None.
        html: HTML file to write, or None.
        color: whether to use terminal colors.
    """

    settings: Mapping[str, Any]
    examples: int
    top_tokens: int
    max_records: int | None
    verify: bool
    json: str | None
    html: str | None
    color: bool

    def model(self, seq_length: int) -> PretrainingConfig:
        """Returns the configuration of the run, whose length is `seq_length` if unknown."""
        return pretraining.config_from_values({"max_seq_length": seq_length, **self.settings})

    @property
    def patterns(self) -> str:
        """The record files of all lengths, or wildcards, comma-separated."""
        model = pretraining.config_from_values(self.settings)
        lengths = (*model.length_curriculum, model.max_seq_length)
        return ",".join(records_of_length(model, length) for length in lengths)


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of pre-training, and those of the inspection."""
    pretraining.define_flags(flag_values)
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_integer(
        "examples",
        0,
        "Number of examples to show, decoded and masked as in training.",
        lower_bound=0,
        **options,
    )
    flags.DEFINE_integer(
        "top_tokens",
        20,
        "Number of most frequent tokens to show.",
        lower_bound=1,
        upper_bound=1000,
        **options,
    )
    flags.DEFINE_integer(
        "max_records",
        None,
        "Sample: read about this many records, from the start of every file. Default: all.",
        lower_bound=1,
        **options,
    )
    flags.DEFINE_boolean(
        "verify",
        False,
        "Verify every record and file against the manifest, instead of describing them.",
        **options,
    )
    flags.DEFINE_string(
        "json",
        None,
        "Also write all numbers to this JSON file; - prints nothing but the JSON.",
        **options,
    )
    flags.DEFINE_string("html", None, "Also write an HTML page to this file.", **options)
    flags.DEFINE_boolean(
        "color", None, "Use colors; if unset, only on a terminal without NO_COLOR.", **options
    )


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> InspectionConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid, or there is no vocabulary; the message names the flag.
    """
    settings = _settings(hyperparameters.explicit_values(PretrainingConfig, flag_values))
    describing = ("examples", "html", "max_records", "top_tokens")
    unused = [f"--{name}" for name in describing if flag_values[name].present]
    if settings.get("skip_bad_records"):
        unused.append("--skip_bad_records")
    if flag_values.verify and unused:
        raise UserError(
            "--verify does not describe the records, but reads all of them: remove "
            f"{', '.join(unused)}"
        )
    for name in ("json", "html"):
        path = flag_values[name].value
        check_not_empty(path, f"--{name}")
        if path is None or path == STANDARD_OUTPUT:
            continue
        folder = os.path.dirname(path)
        if folder and not os.path.isdir(folder):
            raise UserError(f"--{name}={path}: no such folder: {folder}")
        check_output_file(path, f"--{name}")
        check_not_input(path, f"--{name}", {"--vocab_file": settings["vocab_file"]})
    check_distinct({"--json": flag_values.json, "--html": flag_values.html})
    config = InspectionConfig(
        settings=settings,
        examples=flag_values.examples,
        top_tokens=flag_values.top_tokens,
        max_records=flag_values.max_records,
        verify=flag_values.verify,
        json=flag_values.json,
        html=flag_values.html,
        color=use_color(flag_values.color),
    )
    pretraining.config_from_values(settings)  # checks all values
    return config


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the hyperparameters: as given, or as recorded by the run, or from files."""
    records = given.get("pretrain_tfrecords")
    if not given.get("data_dir") and not records:
        raise UserError(
            f"Pass --data_dir, with --model_name for the settings of a run, or {TRAIN_FLAG}"
        )
    place = {"data_dir": given.get("data_dir") or _data_dir(records)}
    place["model_name"] = given.get("model_name") or _UNNAMED
    settings = {**given, **place}
    if given.get("model_name") or given.get("model_dir"):
        model_dir = default_model_dir(settings)
        saved = load_saved_config(model_dir)
        recorded = dict(saved.hyperparameters) if saved else {}
        built_in = recorded.get("data_dir")
        if built_in and recorded.get("pretrain_tfrecords") == default_records(built_in):
            del recorded["pretrain_tfrecords"]  # follows --data_dir
        if "masking" in given:
            recorded.pop("word_list", None)  # another masking may have no use for it
        settings = {
            **{name: recorded[name] for name in _RECORDED if recorded.get(name) is not None},
            **settings,
        }
        own = os.path.join(model_dir, VOCAB_FILE)
        if "vocab_file" not in settings and os.path.exists(own):
            settings["vocab_file"] = own
    settings.setdefault("vocab_file", os.path.join(settings["data_dir"], VOCAB_FILE))
    path = settings["vocab_file"]
    settings.setdefault("vocab_size", load_vocabulary(path, "--vocab_file").size)
    load_model_vocabulary(path, settings["vocab_size"], "--vocab_file")
    return settings


def _data_dir(patterns: str) -> str:
    """Returns the parent of the first record file's folder, which may be a data folder."""
    first = split_patterns(patterns)[0]
    if is_remote(first):
        return str(RemotePath(first).parent.parent)
    return os.path.dirname(os.path.dirname(os.path.abspath(first)))
