"""Flags of `score_text.py`, beside those of pre-training."""

import pathlib
import sys

from absl import flags

from electra_tf.inference.scoring.config import (
    AUTO,
    METHODS,
    METRICS,
    WORD_ERRORS,
    ScoringConfig,
)
from electra_tf.util.errors import UserError
from flags import pretraining


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of pre-training, and those of scoring."""
    pretraining.define_flags(flag_values)
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string("text_file", None, "Texts to score, one a line.", **options)
    flags.DEFINE_string(
        "nbest_file", None, "N-best lists to re-rank, a JSON object a line.", **options
    )
    flags.DEFINE_string(
        "tune_nbest_file",
        None,
        "N-best lists with references, on which --nbest_weight is chosen.",
        **options,
    )
    flags.DEFINE_string("output_file", None, "Gets the scores.", **options)
    flags.DEFINE_enum(
        "method",
        AUTO,
        list(METHODS),
        "Where probabilities come from; auto takes what the objective was trained for.",
        **options,
    )
    flags.DEFINE_integer(
        "score_batch_size", 64, "Sequences scored at once.", lower_bound=1, **options
    )
    flags.DEFINE_float(
        "nbest_weight",
        1.0,
        "Of the pseudo-log-likelihood beside a hypothesis's score.",
        **options,
    )
    flags.DEFINE_enum(
        "nbest_metric",
        WORD_ERRORS,
        list(METRICS),
        "Error rate by words or characters.",
        **options,
    )
    flags.DEFINE_boolean(
        "truncate_texts", False, "Cut texts that are too long for the model.", **options
    )
    flags.DEFINE_boolean("overwrite", False, "Replace --output_file.", **options)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ScoringConfig:
    """Returns what the parsed flags ask for.

    Raises:
        UserError: for values that cannot be, naming the flag.
    """
    if not flag_values.output_file:
        raise UserError("--output_file is required")
    if bool(flag_values.text_file) == bool(flag_values.nbest_file):
        raise UserError("Give one of --text_file and --nbest_file")
    if flag_values.tune_nbest_file and not flag_values.nbest_file:
        raise UserError("--tune_nbest_file is for --nbest_file, which is not given")

    def path(name: str) -> pathlib.Path | None:
        value = flag_values[name].value
        return pathlib.Path(value) if value else None

    return ScoringConfig(
        model=pretraining.config_from_flags(flag_values),
        method=flag_values.method,
        batch_size=flag_values.score_batch_size,
        output_file=path("output_file"),
        text_file=path("text_file"),
        nbest_file=path("nbest_file"),
        tune_nbest_file=path("tune_nbest_file"),
        nbest_weight=flag_values.nbest_weight,
        nbest_metric=flag_values.nbest_metric,
        truncate=flag_values.truncate_texts,
        overwrite=flag_values.overwrite,
    )
