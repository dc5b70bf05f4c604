"""Flags of `score_text.py`, in addition to those of pre-training."""

import math
import pathlib
import sys

from absl import flags

from electra_tf.config.distribution import refuse_several_hosts
from electra_tf.inference.scoring.config import (
    AUTO,
    ELECTRA,
    METHODS,
    METRICS,
    WORD_ERRORS,
    ScoringConfig,
)
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.path_checks import check_not_empty
from flags import pretraining
from flags.remote.paths import Role

# Flags that accept remote paths (gs://…).
REMOTE = {
    **pretraining.REMOTE,
    "model_dir": Role.MODEL,
    "text_file": Role.FILE,
    "nbest_file": Role.FILE,
    "tune_nbest_file": Role.FILE,
    "output_file": Role.OUTPUT_FILE,
}


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags of pre-training, and those of scoring."""
    pretraining.define_flags(flag_values)
    options = {"flag_values": flag_values, "module_name": sys.argv[0]}
    flags.DEFINE_string("text_file", None, "Texts to score, one per line.", **options)
    flags.DEFINE_string(
        "nbest_file", None, "N-best lists to re-rank, one JSON object per line.", **options
    )
    flags.DEFINE_string(
        "tune_nbest_file",
        None,
        "N-best lists with references, to tune --nbest_weight on.",
        **options,
    )
    flags.DEFINE_string("output_file", None, "Output file of the scores.", **options)
    flags.DEFINE_enum(
        "method",
        AUTO,
        list(METHODS),
        "Scoring method: mlm masks one token at a time; electra combines that with the "
        "discriminator; two_tower and electric take one pass per text. auto selects two_tower "
        "or electric if the model's objective trains it, else mlm.",
        **options,
    )
    flags.DEFINE_boolean(
        "predict_tokens",
        False,
        "Also predict every token of --text_file from all others, and report the accuracy; for "
        "--method=mlm and electra.",
        **options,
    )
    flags.DEFINE_integer(
        "num_candidates",
        100,
        "--method=electra: number of candidates of the generator among which the discriminator "
        "predicts a token; it takes one pass per candidate.",
        lower_bound=1,
        **options,
    )
    flags.DEFINE_integer(
        "score_batch_size",
        64,
        "Rows per batch; a row holds several texts, with --method=mlm a copy for each token.",
        lower_bound=1,
        **options,
    )
    flags.DEFINE_float(
        "nbest_weight",
        1.0,
        "Weight of the pseudo-log-likelihood, relative to the hypothesis score.",
        **options,
    )
    flags.DEFINE_enum(
        "nbest_metric",
        WORD_ERRORS,
        list(METRICS),
        "Error rate to tune and report: words (WER) or characters (CER).",
        **options,
    )
    flags.DEFINE_boolean(
        "truncate_texts", False, "Truncate texts that exceed --max_seq_length.", **options
    )
    flags.DEFINE_boolean("overwrite", False, "Replace --output_file.", **options)


def config_from_flags(flag_values: flags.FlagValues = flags.FLAGS) -> ScoringConfig:
    """Returns the configuration of the parsed flags.

    Raises:
        UserError: a value is invalid; the message names the flag.
    """
    if not flag_values.output_file:
        raise UserError("--output_file is required")
    if bool(flag_values.text_file) == bool(flag_values.nbest_file):
        raise UserError("Pass exactly one of --text_file and --nbest_file")
    check_not_empty(flag_values.tune_nbest_file, "--tune_nbest_file")
    if flag_values.tune_nbest_file and not flag_values.nbest_file:
        raise UserError("--tune_nbest_file requires --nbest_file")
    # A negative weight would prefer unlikely texts.
    if not 0 <= flag_values.nbest_weight < math.inf:
        raise UserError(
            "--nbest_weight must be a finite number of at least 0, not "
            f"{flag_values.nbest_weight}"
        )
    if flag_values.predict_tokens and not flag_values.text_file:
        raise UserError("--predict_tokens needs --text_file")
    predicts_by_candidates = flag_values.predict_tokens and flag_values.method == ELECTRA
    if flag_values["num_candidates"].present and not predicts_by_candidates:
        warn_once(
            f"--num_candidates={flag_values.num_candidates} has no effect without "
            "--method=electra and --predict_tokens"
        )
    for name in ("nbest_metric", "nbest_weight"):
        if flag_values.text_file and flag_values[name].present:
            value = flag_values[name].value
            warn_once(f"--{name}={value} has no effect without --nbest_file")
    if flag_values.tune_nbest_file and flag_values["nbest_weight"].present:
        warn_once(
            f"--nbest_weight={flag_values.nbest_weight:g} has no effect with "
            "--tune_nbest_file, which chooses the weight"
        )

    def path(name: str) -> pathlib.Path | None:
        value = flag_values[name].value
        return pathlib.Path(value) if value else None

    model = pretraining.config_from_flags(flag_values)
    refuse_several_hosts(model, "score_text.py")
    return ScoringConfig(
        model=model,
        method=flag_values.method,
        num_candidates=flag_values.num_candidates if flag_values.predict_tokens else 0,
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
