"""N-best lists of speech recognition or translation, and re-ranking."""

import dataclasses
import pathlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from electra_tf.config.hyperparameters import FLOAT_LIMIT
from electra_tf.inference.scoring.config import CHARACTER_ERRORS, WORD_ERRORS
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from electra_tf.util.files import loads_json, read_given_lines
from electra_tf.util.text_checks import valid_text

# Weights to try when tuning: 0 to 2.
WEIGHTS = tuple(i / 20 for i in range(41))
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, ideographs.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A text, and the score of the system that produced it (0 if there is none)."""

    text: str
    score: float = 0.0


@dataclasses.dataclass(frozen=True)
class NBestList:
    """The hypotheses for one input, best first, and the reference, if known.

    `name` is its id in the file, else the number of its line; `line` is that number, from 1.
    """

    name: str | int
    hypotheses: tuple[Hypothesis, ...]
    reference: str | None = None
    line: int = dataclasses.field(default=0, compare=False)


def read_nbest_lists(path: pathlib.Path, flag: str) -> list[NBestList]:
    """Reads one JSON object per line: `hypotheses`, optionally `id` and `reference`.

    Each hypothesis is a text, or an object with `text` and optionally `score`, such as a
    log-probability; higher is better.

    Raises:
        UserError: the file cannot be read, or a line is malformed.
    """
    lists, half_scored = [], []
    for number, line in enumerate(read_given_lines(path, flag), start=1):
        if not line.strip():
            continue
        try:
            value = loads_json(line)
            lists.append(_parse(value, number))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{flag}={path}, line {number}: expected an n-best list, such as "
                '{"id": "a", "hypotheses": [{"text": "good day", "score": -3.2}]}: '
                f"{error}"
            ) from error
        if len({_has_score(item) for item in value["hypotheses"]}) > 1:
            half_scored.append(number)
    if not lists:
        raise UserError(f"{flag}={path} contains no n-best list")
    if half_scored:
        warn_once(
            f"{flag}={path}: {len(half_scored):,} of {len(lists):,} lists have hypotheses with "
            f'and without a "score", first line {half_scored[0]}; those without one get 0, '
            "which is better than any log-probability"
        )
    return lists


def _parse(value: Any, number: int) -> NBestList:
    if not isinstance(value, dict):
        raise TypeError("it is not an object")
    if not isinstance(value.get("hypotheses"), list):
        raise TypeError('"hypotheses" must be a list')
    hypotheses = tuple(map(_hypothesis, value["hypotheses"]))
    if not hypotheses:
        raise ValueError("there are no hypotheses")
    reference = value.get("reference")
    name = value.get("id")
    if name is None:
        name = str(number)
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise TypeError('"id" must be a string or an integer')
    name = _text(name) if isinstance(name, str) else name
    reference = None if reference is None else _text(reference)
    return NBestList(name, hypotheses, reference, number)


def _has_score(item: Any) -> bool:
    return isinstance(item, dict) and "score" in item


def _hypothesis(item: Any) -> Hypothesis:
    if not isinstance(item, dict):
        return Hypothesis(_text(item))
    if "text" not in item:
        raise ValueError('a hypothesis has no "text"')
    return Hypothesis(_text(item["text"]), _score(item.get("score", 0.0)))


def _score(value: Any) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) < FLOAT_LIMIT
    ):
        raise ValueError(f"{value!r:.40} is not a score")
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return valid_text(value)


def rank(nbest: NBestList, scores: Sequence[float], weight: float) -> list[int]:
    """Returns the indices of the hypotheses, best first; ties keep their order.

    Args:
        nbest: the n-best list.
        scores: pseudo-log-likelihood of each hypothesis.
        weight: weight of `scores`, relative to the hypotheses' own scores.
    """
    totals = [h.score + weight * s for h, s in zip(nbest.hypotheses, scores, strict=True)]
    return sorted(range(len(totals)), key=lambda i: -totals[i])


def error_rate(references: Sequence[str], texts: Sequence[str], metric: str) -> float:
    """Returns the word or character error rate of texts, computed by jiwer.

    Texts are compared in NFC. Any white space separates words, and is one character.

    Raises:
        UserError: jiwer is not installed.
    """
    jiwer = import_extra("jiwer", "scoring", "An error rate")
    measure = jiwer.wer if metric == WORD_ERRORS else jiwer.cer
    # jiwer divides words only at U+0020, not at the ideographic space of Japanese.
    return float(
        measure(*([" ".join(_words(x)) for x in side] for side in (references, texts)))
    )


def _words(text: str) -> list[str]:
    return unicodedata.normalize("NFC", text).split()


def warn_of_undivided_words(lists: Sequence[NBestList], flag: str) -> None:
    """Warns if references have no spaces, so a word error rate counts whole sentences.

    Args:
        lists: lists whose error rate is computed.
        flag: flag that names their file.
    """
    references = [nbest.reference for nbest in lists if nbest.reference is not None]
    whole = [x for x in references if len(_words(x)) == 1 and _UNSPACED.search(x)]
    if len(whole) > len(references) / 2:
        warn_once(
            f"{flag}: {len(whole):,} of {len(references):,} references have no spaces, so "
            f"--nbest_metric={WORD_ERRORS} counts each of them as a single word: pass "
            f"--nbest_metric={CHARACTER_ERRORS}, or put spaces between words"
        )


def error_rates(
    lists: Sequence[NBestList], scores: Sequence[Sequence[float]], weight: float, metric: str
) -> dict[str, float]:
    """Returns the error rates over the lists with a reference.

    Args:
        lists: n-best lists.
        scores: pseudo-log-likelihood of each hypothesis of each list, in nats.
        weight: factor of these scores.
        metric: "wer" or "cer".

    Returns:
        `first`: of the hypotheses with the best own score; `reranked`; `oracle`: of the
        hypotheses with the fewest errors.
    """

    def fewest_errors(nbest: NBestList) -> str:
        texts = [hypothesis.text for hypothesis in nbest.hypotheses]
        return min(texts, key=lambda text: error_rate([nbest.reference], [text], metric))

    known = [nbest for nbest in lists if nbest.reference is not None]
    oracle = [fewest_errors(nbest) for nbest in known]
    return {
        "first": reranked_error_rate(lists, scores, 0.0, metric),
        "reranked": reranked_error_rate(lists, scores, weight, metric),
        "oracle": error_rate([nbest.reference for nbest in known], oracle, metric),
    }


def reranked_error_rate(
    lists: Sequence[NBestList], scores: Sequence[Sequence[float]], weight: float, metric: str
) -> float:
    """Returns the error rate of the best hypothesis of each list with a reference.

    The arguments are those of `error_rates`.
    """
    known = [(n, s) for n, s in zip(lists, scores, strict=True) if n.reference is not None]
    texts = [n.hypotheses[rank(n, s, weight)[0]].text for n, s in known]
    return error_rate([nbest.reference for nbest, _ in known], texts, metric)


def require_reference(lists: Sequence[NBestList]) -> None:
    """Raises UserError if no list of `--tune_nbest_file` has a reference."""
    if all(nbest.reference is None for nbest in lists):
        raise UserError("--tune_nbest_file contains no reference to tune the weight on")


def tune_weight(
    lists: Sequence[NBestList], scores: Sequence[Sequence[float]], metric: str
) -> float:
    """Returns the smallest of the `WEIGHTS` with the lowest error rate.

    Raises:
        UserError: no list has a reference.
    """
    require_reference(lists)
    rates = {w: reranked_error_rate(lists, scores, w, metric) for w in WEIGHTS}
    return min(WEIGHTS, key=lambda w: (rates[w], w))
