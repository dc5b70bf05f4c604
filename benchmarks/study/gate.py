"""The gate: tries of settings, chosen among by held-out text alone, never by a score.

A setting passes if the discriminator learns from context: if its AUC within a token id reaches
`PASSING`. The study takes the settings of the try that is `CHOSEN`.
"""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

PASSING = 0.65
# The highest AUC within a token id of those evaluated at temperature 1.
CHOSEN = "electra_embeddings_half_disc_50"
_STEPS = 4000
# Steps of a masked language model of the same model FLOPs.
_BERT_STEPS = 7667
# Steps of ELECTRA of the same model FLOPs, with a generator of half the width.
_HALF_STEPS = 6020
_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_NO_DROPOUT = dict.fromkeys(_DROPOUT, 0.0)
_FIRST: Mapping[str, Any] = {
    "model_size": "small",
    "model_hparam_overrides": {
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "max_position_embeddings": 128,
        "initializer_range": 0.08,
        **_DROPOUT,
    },
    "embedding_size": 128,
    "generator_hidden_size": 1.0,
    "embedding_sharing": "all",
    "temperature": 1.0,
    "mask_prob": 0.15,
    "disc_weight": 10.0,
    "vocab_size": 4096,
    "max_seq_length": 64,
    "train_batch_size": 64,
    "eval_batch_size": 64,
    "learning_rate": 1e-3,
    "precision": "mixed_bfloat16",
    "seed": 42,
}


@dataclasses.dataclass(frozen=True)
class Try:
    """One pre-training run of the gate.

    Attributes:
        name: of its files.
        model: "ELECTRA" or "BERT".
        settings: all hyperparameters.
        note: what differs from the first try.
    """

    name: str
    model: str
    settings: Mapping[str, Any]
    note: str


def _try(name: str, note: str, *, dropout: bool = False, **given: Any) -> Try:
    settings = copy.deepcopy({**_FIRST, "num_train_steps": _STEPS, **given})
    if not dropout:
        settings["model_hparam_overrides"].update(_NO_DROPOUT)
    steps = settings["num_train_steps"]
    settings.setdefault("num_warmup_steps", round(0.1 * steps))
    return Try(name, "ELECTRA", settings, note)


def _bert(name: str, note: str, **given: Any) -> Try:
    attempt = _try(name, note, objective="mlm", num_train_steps=_BERT_STEPS, **given)
    settings = {k: v for k, v in attempt.settings.items() if k != "embedding_sharing"}
    return dataclasses.replace(attempt, model="BERT", settings=settings)


def _half(name: str, note: str, **given: Any) -> Try:
    shape = {"embedding_sharing": "embeddings", "generator_hidden_size": 0.5}
    return _try(name, note, num_train_steps=_HALF_STEPS, **shape, **given)


TRIES = (
    _try(
        "electra_base",
        "first: generator of full size with all shared, disc_weight 10, dropout 0.1, rate 1e-3",
        dropout=True,
    ),
    _try("electra_disc_50", "disc_weight 50", dropout=True, disc_weight=50.0),
    _try("electra_no_dropout", "no dropout"),
    _try("electra_rate_2e-3", "no dropout, rate 2e-3", learning_rate=2e-3),
    _bert("bert_no_dropout", "no dropout"),
    _try("electra_disc_50_no_dropout", "no dropout, disc_weight 50", disc_weight=50.0),
    _bert("bert_rate_2e-3", "no dropout, rate 2e-3", learning_rate=2e-3),
    _try(
        "electra_curriculum",
        "no dropout, rate 2e-3, half of the steps at 32 tokens",
        learning_rate=2e-3,
        length_curriculum=[32],
        length_curriculum_share=0.5,
        num_train_steps=5409,
    ),
    _try(
        "electra_disc_50_rate_2e-3",
        "no dropout, disc_weight 50, rate 2e-3",
        disc_weight=50.0,
        learning_rate=2e-3,
    ),
    _try(
        "electra_temperature",
        "no dropout, temperature 2 to 1 (evaluated at 2)",
        temperature=2.0,
        temperature_end=1.0,
    ),
    _half(
        "electra_embeddings_half",
        "no dropout, generator of half the width that shares the embeddings alone",
    ),
    _half("electra_embeddings_half_disc_50", "the same, disc_weight 50", disc_weight=50.0),
    _half("electra_embeddings_half_rate_2e-3", "the same, rate 2e-3", learning_rate=2e-3),
    _try("electra_no_dropout_seed_2", "no dropout, another seed", seed=43),
    _bert("bert_no_dropout_seed_2", "no dropout, another seed", seed=43),
)


def chosen_settings() -> dict[str, Any]:
    """Returns the settings of the try that is chosen, but for its length and seed."""
    (attempt,) = (attempt for attempt in TRIES if attempt.name == CHOSEN)
    of_a_run = ("num_train_steps", "num_warmup_steps", "seed")
    return {k: v for k, v in attempt.settings.items() if k not in of_a_run}
