"""Settings of scoring; no TensorFlow is imported here."""

import dataclasses
import pathlib

from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.util.paths import convert_paths

AUTO, MASKED, ELECTRA, TWO_TOWER, ELECTRIC = "auto", "mlm", "electra", "two_tower", "electric"
METHODS = (AUTO, MASKED, ELECTRA, TWO_TOWER, ELECTRIC)
WORD_ERRORS, CHARACTER_ERRORS = "wer", "cer"
METRICS = (WORD_ERRORS, CHARACTER_ERRORS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoringConfig:
    """One run of `score_text.py`; files may be given as strings or paths.

    Attributes:
        model: the run whose latest checkpoint is used.
        method: scoring method; `AUTO` selects the one that the objective trains.
        num_candidates: also predict every token of a text, with `ELECTRA` among this many
            candidates of the generator; 0 predicts none.
        batch_size: rows per batch, of one or several texts each.
        output_file: output, with one line per text or n-best list.
        text_file: one text per line; or None.
        nbest_file: JSON lines, one list of hypotheses per line; or None.
        tune_nbest_file: n-best lists with references, to tune the weight on.
        nbest_weight: weight of the pseudo-log-likelihood, relative to a hypothesis's score.
        nbest_metric: error rate to report if references are given.
        truncate: truncate texts that are too long for the model, instead of failing.
        overwrite: replace `output_file`.
    """

    model: PretrainingConfig
    method: str
    num_candidates: int
    batch_size: int
    output_file: pathlib.Path
    text_file: pathlib.Path | None
    nbest_file: pathlib.Path | None
    tune_nbest_file: pathlib.Path | None
    nbest_weight: float
    nbest_metric: str
    truncate: bool
    overwrite: bool

    def __post_init__(self) -> None:
        convert_paths(self, "output_file", "text_file", "nbest_file", "tune_nbest_file")
