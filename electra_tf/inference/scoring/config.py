"""What to score and how; no TensorFlow is imported here."""

import dataclasses
import pathlib

from electra_tf.config.pretraining import PretrainingConfig

AUTO, MASKED, TWO_TOWER, ELECTRIC = "auto", "mlm", "two_tower", "electric"
METHODS = (AUTO, MASKED, TWO_TOWER, ELECTRIC)
WORD_ERRORS, CHARACTER_ERRORS = "wer", "cer"
METRICS = (WORD_ERRORS, CHARACTER_ERRORS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringConfig:
    """One run of `score_text.py`.

    Attributes:
        model: the run whose newest checkpoint scores.
        method: `AUTO` takes the one that the objective was trained for.
        batch_size: sequences scored at once; the masked method scores one a token.
        output_file: gets a line for each text, or for each n-best list.
        text_file: one text a line; or None.
        nbest_file: JSON lines, each a list of hypotheses; or None.
        tune_nbest_file: such a file with references, on which the weight is chosen.
        nbest_weight: of a hypothesis's pseudo-log-likelihood beside its own score.
        nbest_metric: of error rates, where references are given.
        truncate: cut texts that are too long for the model, instead of refusing them.
        overwrite: replace `output_file`.
    """

    model: PretrainingConfig
    method: str
    batch_size: int
    output_file: pathlib.Path
    text_file: pathlib.Path | None
    nbest_file: pathlib.Path | None
    tune_nbest_file: pathlib.Path | None
    nbest_weight: float
    nbest_metric: str
    truncate: bool
    overwrite: bool
