"""Scores the texts or n-best lists of a file with the latest checkpoint of a run."""

import json
import math
import pathlib
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import model_builder
from electra_tf.config.resumption import check_recorded_replacements
from electra_tf.inference.scoring.config import ELECTRA, WORD_ERRORS, ScoringConfig
from electra_tf.inference.scoring.nbest import (
    NBestList,
    error_rates,
    rank,
    read_nbest_lists,
    require_reference,
    tune_weight,
    warn_of_undivided_words,
)
from electra_tf.inference.scoring.pseudo_likelihood import create_scorer
from electra_tf.inference.scoring.scorer import Scorer, TextScore, compiles_all
from electra_tf.text.framing import NUM_SPECIAL, frame
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.tokenizer_description import warn_of_unknown_words
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training.distribution.bfloat16 import warn_of_emulated_bfloat16
from electra_tf.training.distribution.cores import cores_of, limit_operation_threads
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.util.console import SECONDS_BETWEEN_LOG_LINES, format_seconds, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from electra_tf.util.files import read_given_lines, write_atomically
from electra_tf.util.output_checks import check_not_input, check_output_file

_TOKENIZED_AT_ONCE = 1000
# Tokens that are computed before more texts are laid out, which limits memory.
_COMPUTED_AT_ONCE = 1 << 23
HEADER = ("line", "pll", "tokens", "pll_per_token", "text")
# Before the last column, with predictions: how many tokens are predicted right.
CORRECT = "correct"


def run(config: ScoringConfig, print_fn: Callable[[str], None] = print) -> None:
    """Scores the input file and writes `output_file`.

    Raises:
        UserError: the input is invalid, the output file cannot be written, or the model's
            probabilities are not finite; nothing has been written.
    """
    _check_output(config)
    vocabulary = model_builder.load_checked_vocabulary(config.model)
    texts = _read_texts(config.text_file) if config.text_file else []
    lists, tuning = _read_lists(config)
    if config.method == ELECTRA:
        check_recorded_replacements(
            config.model,
            f"--method={ELECTRA}",
            model_builder.model_class(config.model).key_defaults(config.model),
        )
    scorer, step, checkpoint = _load_scorer(config, vocabulary)
    tokenizer = Tokenizer(vocabulary, config.model.do_lower_case, config.model.strip_accents)
    encoder = _TextEncoder(tokenizer, config.model.max_seq_length, config.truncate)
    # All of them first: a text that is too long is refused before any is scored.
    text_rows = encoder.encode(
        "--text_file", [text for _, text in texts], [f"line {n}" for n, _ in texts]
    )
    tuning_rows = _encode_lists("--tune_nbest_file", tuning, encoder)
    list_rows = _encode_lists("--nbest_file", lists, encoder)
    print_fn(f"Scoring with {type(scorer).__name__} of {checkpoint}, step {step}.")
    if config.text_file:
        scores = _score(scorer, text_rows, checkpoint, print_fn)
        correct = _count_correct(text_rows, scores)
        _write_texts(config, texts, scores, correct)
        _print_perplexity(scores, print_fn)
        _print_accuracies(scores, correct, print_fn)
    else:
        weight = config.nbest_weight
        if tuning:
            plls = _by_list(tuning, _score(scorer, tuning_rows, checkpoint, print_fn))
            weight = tune_weight(tuning, plls, config.nbest_metric)
            print_fn(
                f"Weight {weight:g} has the lowest {config.nbest_metric} on --tune_nbest_file."
            )
        plls = _by_list(lists, _score(scorer, list_rows, checkpoint, print_fn))
        _write_lists(config, lists, plls, weight)
        _print_error_rates(config, lists, plls, weight, print_fn)
    if encoder.num_truncated:
        length = config.model.max_seq_length
        print_fn(f"Texts truncated to {length} tokens: {encoder.num_truncated}")
    print_fn(f"Scores: {config.output_file}")


def _check_output(config: ScoringConfig) -> None:
    """Raises UserError if the scores cannot be written, or would replace a file."""
    check_output_file(config.output_file, "--output_file")
    if config.output_file.exists() and not config.overwrite:
        raise UserError(
            f"--output_file={config.output_file} exists: pass another path, or --overwrite"
        )
    inputs = ("text_file", "nbest_file", "tune_nbest_file")
    given = {f"--{name}": getattr(config, name) for name in inputs}
    given["--vocab_file"] = config.model.vocab_file
    check_not_input(config.output_file, "--output_file", given)


def _read_lists(config: ScoringConfig) -> tuple[list[NBestList], list[NBestList]]:
    """Returns the n-best lists to score, and those to tune the weight on.

    Raises:
        UserError: a list is malformed, has no reference to tune on, or needs a package.
    """
    lists = read_nbest_lists(config.nbest_file, "--nbest_file") if config.nbest_file else []
    tuning = (
        read_nbest_lists(config.tune_nbest_file, "--tune_nbest_file")
        if config.tune_nbest_file
        else []
    )
    if tuning:
        require_reference(tuning)
    if _has_reference([*lists, *tuning]):
        import_extra("jiwer", "scoring", "The error rate of lists with references")
        if config.nbest_metric == WORD_ERRORS:
            warn_of_undivided_words(tuning, "--tune_nbest_file")
            warn_of_undivided_words(lists, "--nbest_file")
    elif lists and config.nbest_metric != WORD_ERRORS:
        warn_once(
            f"--nbest_metric={config.nbest_metric} has no effect: no list of --nbest_file has "
            "a reference"
        )
    return lists, tuning


def _has_reference(lists: Sequence[NBestList]) -> bool:
    return any(nbest.reference is not None for nbest in lists)


def _load_scorer(config: ScoringConfig, vocabulary: Vocabulary) -> tuple[Scorer, int, str]:
    """Returns the scorer of the latest checkpoint, the checkpoint's step, and its path."""
    if not compiles_all(keras.DTypePolicy(config.model.precision).compute_dtype):
        limit_operation_threads()
    strategy = create_strategy(config.model)  # before TensorFlow computes anything
    warn_of_emulated_bfloat16(config.model.precision)
    model, step, checkpoint = model_builder.load_model(config.model, vocabulary, strategy)
    scorer = create_scorer(
        model,
        config.method,
        config.batch_size,
        cores_of(strategy),
        num_candidates=config.num_candidates,
    )
    return scorer, step, checkpoint


class _TextEncoder:
    """Converts texts to ids with [CLS] and [SEP]; rejects or truncates long texts."""

    def __init__(self, tokenizer: Tokenizer, max_seq_length: int, truncate: bool) -> None:
        self._tokenizer = tokenizer
        self._max_seq_length = max_seq_length
        self._truncate = truncate
        self.num_truncated = 0

    def encode(self, flag: str, texts: Sequence[str], names: Sequence[str]) -> list[array]:
        """Returns the ids of texts of the file of a flag; `names` are for its errors.

        Raises:
            UserError: a text is too long.
        """
        vocabulary, room = self._tokenizer.vocabulary, self._max_seq_length - NUM_SPECIAL[1]
        rows: list[array] = []
        for start in range(0, len(texts), _TOKENIZED_AT_ONCE):
            part = tf.constant(list(texts[start : start + _TOKENIZED_AT_ONCE]))
            for row in self._tokenizer.tokenize(part).to_list():
                if len(row) > room and not self._truncate:
                    raise UserError(
                        f"{flag}: {names[len(rows)]} has {len(row)} tokens, but the model "
                        f"takes at most {room}: split it, or pass --truncate_texts"
                    )
                self.num_truncated += len(row) > room
                rows.append(frame(vocabulary, row[:room]).input_ids)
        num_words = sum(vocabulary.count_words(row) for row in rows)
        num_unknown = sum(row.count(vocabulary.unk_id) for row in rows)
        warn_of_unknown_words(flag, num_unknown, num_words, vocabulary.path)
        return rows


def _read_texts(path: pathlib.Path) -> list[tuple[int, str]]:
    """Returns line number and text of each non-blank line."""
    lines = read_given_lines(path, "--text_file")
    texts = [(n, line.strip()) for n, line in enumerate(lines, start=1) if line.strip()]
    if not texts:
        raise UserError(f"--text_file={path} contains no text")
    return texts


def _encode_lists(flag: str, lists: Sequence[NBestList], encoder: _TextEncoder) -> list[array]:
    """Returns the ids of all hypotheses."""
    texts = [h.text for nbest in lists for h in nbest.hypotheses]
    names = [f"a hypothesis in line {n.line}" for n in lists for _ in n.hypotheses]
    rows = encoder.encode(flag, texts, names)
    if num_empty := _count_empty(rows):
        warn_once(
            f"hypotheses without tokens in {flag}: {num_empty:,} of {len(texts):,}; their "
            "pseudo-log-likelihood is 0, above that of any text"
        )
    return rows


def _count_empty(rows: Sequence[Sequence[int]]) -> int:
    """Returns how many rows have no token, such as blank text and control characters."""
    return sum(len(row) <= NUM_SPECIAL[1] for row in rows)


def _score(
    scorer: Scorer,
    rows: Sequence[Sequence[int]],
    checkpoint: str,
    print_fn: Callable[[str], None],
) -> list[TextScore]:
    """Returns the score of each row, and prints progress if that takes long.

    Raises:
        UserError: a score is not finite.
    """
    scores: list[TextScore] = []
    start = last_line = time.monotonic()
    total = sum(scorer.num_computed(len(ids)) for ids in rows)
    done = 0
    for part, num_computed in _parts(scorer, rows):
        found = scorer.score(part)
        if not all(math.isfinite(score.total) for score in found):
            raise UserError(
                f"The probabilities of {checkpoint} are not finite (NaN or infinity): score "
                "with another checkpoint"
            )
        scores += found
        done += num_computed
        now = time.monotonic()
        if done < total and now - last_line >= SECONDS_BETWEEN_LOG_LINES:
            last_line = now
            left = format_seconds((now - start) * (total - done) / done)
            print_fn(f"Scored {len(scores):,} of {len(rows):,} texts, {left} left")
    return scores


def _parts(
    scorer: Scorer, rows: Sequence[Sequence[int]]
) -> Iterator[tuple[list[Sequence[int]], int]]:
    """Yields consecutive rows, and how many tokens are computed for them."""
    part, num_computed = [], 0
    for ids in rows:
        part.append(ids)
        num_computed += scorer.num_computed(len(ids))
        if num_computed >= _COMPUTED_AT_ONCE:
            yield part, num_computed
            part, num_computed = [], 0
    if part:
        yield part, num_computed


def _by_list(lists: Sequence[NBestList], scores: Sequence[TextScore]) -> list[list[float]]:
    """Returns the pseudo-log-likelihood of each hypothesis of each list."""
    totals = iter(score.total for score in scores)
    return [[next(totals) for _ in nbest.hypotheses] for nbest in lists]


def _count_correct(
    rows: Sequence[Sequence[int]], scores: Sequence[TextScore]
) -> dict[str, list[int]]:
    """Returns the number of correctly predicted tokens of each text, by predictor."""
    return {
        name: [
            int(np.sum(score.predictions[name] == np.asarray(ids[1:-1], np.int32)))
            for ids, score in zip(rows, scores, strict=True)
        ]
        for name in scores[0].predictions
    }


def _write_texts(
    config: ScoringConfig,
    texts: Sequence[tuple[int, str]],
    scores: Sequence[TextScore],
    correct: Mapping[str, Sequence[int]],
) -> None:
    ours = next(iter(correct.values()), None)
    header = HEADER if ours is None else (*HEADER[:-1], CORRECT, HEADER[-1])
    lines = ["\t".join(header)]
    for i, ((number, text), score) in enumerate(zip(texts, scores, strict=True)):
        count = len(score.log_probs)
        mean = score.total / count if count else math.nan
        # Programs that read tables end a row at a carriage return, too.
        clean = text.replace("\t", " ").replace("\r", " ")
        values = [f"{number}", f"{score.total:.6f}", f"{count}", f"{mean:.6f}"]
        values += [] if ours is None else [f"{ours[i]}"]
        lines.append("\t".join([*values, clean]))
    write_atomically(str(config.output_file), "\n".join(lines) + "\n")


def _write_lists(
    config: ScoringConfig,
    lists: Sequence[NBestList],
    scores: Sequence[Sequence[float]],
    weight: float,
) -> None:
    lines = []
    for nbest, plls in zip(lists, scores, strict=True):
        hypotheses = [
            {
                "text": nbest.hypotheses[i].text,
                "score": nbest.hypotheses[i].score,
                "pll": plls[i],
                "total": nbest.hypotheses[i].score + weight * plls[i],
                "rank_before": i,
            }
            for i in rank(nbest, plls, weight)
        ]
        line = {"id": nbest.name, "hypotheses": hypotheses}
        if nbest.reference is not None:
            line["reference"] = nbest.reference
        lines.append(json.dumps(line, ensure_ascii=False))
    write_atomically(str(config.output_file), "\n".join(lines) + "\n")


def _print_perplexity(scores: Sequence[TextScore], print_fn: Callable[[str], None]) -> None:
    count = sum(len(score.log_probs) for score in scores)
    total = sum(score.total for score in scores)
    if count:
        print_fn(
            f"{len(scores)} texts, {count} tokens: {total / count:.4f} per token, "
            f"pseudo-perplexity {math.exp(-total / count):.2f}"
        )


def _print_accuracies(
    scores: Sequence[TextScore],
    correct: Mapping[str, Sequence[int]],
    print_fn: Callable[[str], None],
) -> None:
    count = sum(len(score.log_probs) for score in scores)
    if count and correct:
        rates = (f"{name} {sum(counts) / count:.2%}" for name, counts in correct.items())
        print_fn(f"Tokens predicted from all others: {', '.join(rates)}")


def _print_error_rates(
    config: ScoringConfig,
    lists: Sequence[NBestList],
    plls: Sequence[Sequence[float]],
    weight: float,
    print_fn: Callable[[str], None],
) -> None:
    if _has_reference(lists):
        rates = error_rates(lists, plls, weight, config.nbest_metric)
        named = ", ".join(f"{name} {rate:.2%}" for name, rate in rates.items())
        print_fn(f"{config.nbest_metric.upper()}: {named}")
