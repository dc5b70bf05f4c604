"""The models of the study: ELECTRA, BERT, and what differs from ELECTRA in one thing.

All get the model FLOPs of matrix products of ELECTRA's run, which
`electra_tf/flops/counting.py:model_flops_per_step` counts.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Mapping
from typing import Any

from benchmarks.study.sizes import Size
from electra_tf.config.pretraining import PretrainingConfig
from electra_tf.flops.counting import model_flops_per_step, train_flops_per_step

WARMUP_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Model:
    """A pre-trained model.

    Attributes:
        name: in the report.
        settings: hyperparameters that differ from those of ELECTRA.
        question: of the paper that it answers; "" for ELECTRA and both kinds of BERT.
        continues: model that has the first half of the budget, whose weights this one starts
            from; None for initial weights.
    """

    name: str
    settings: Mapping[str, Any]
    question: str = ""
    continues: "Model | None" = None

    @property
    def slug(self) -> str:
        """The name as part of a file name."""
        letters = "".join(c if c.isalnum() else "_" for c in self.name.lower())
        return "_".join(part for part in letters.split("_") if part)


def _generator(size: float, sharing: str = "embeddings") -> dict[str, Any]:
    """A generator of a share of the width; by default it shares the embeddings alone."""
    return {"embedding_sharing": sharing, "generator_hidden_size": size}


def _constant(kind: str) -> dict[str, Any]:
    """A generator without weights."""
    return {"generator_type": kind, **_generator(1.0, "none")}


ELECTRA = Model("ELECTRA", {})
BERT = Model("BERT", {"objective": "mlm", "embedding_sharing": None})
# Of the rates tried, that with the lower loss on held-out text (`Size.rates`). `BERT` has the
# other one, that of ELECTRA: it fine-tunes better from it.
BERT_LOWEST_LOSS = Model("BERT, rate 2e-3", BERT.settings)
# What both are compared with: the same encoder, not pre-trained.
RANDOM = Model("random weights", {})
EFFICIENCY, TRAINING = "efficiency (Table 5)", "training algorithm (Figure 3, right)"
GENERATOR = "generator size (Figure 3, left)"
SHARING = "weight sharing (section 3.2)"
BEYOND = "beyond the paper's tables"
QUESTIONS = (EFFICIENCY, TRAINING, GENERATOR, SHARING, BEYOND)

# What the follow-up compares with BERT.
QUARTER = Model("generator 1/4", _generator(0.25), GENERATOR)
_FULL_SIZE = Model("generator 1", _generator(1.0), GENERATOR)
# Both models of two stages have the same shape.
_TWO_STAGE = {"objective": "two_stage", "embedding_size": 0, **_generator(1.0, "none")}
_ADVERSARIAL = {"objective": "adversarial", **_generator(1.0)}
_SLOW_GENERATOR = {"learning_rate": 5e-4, "generator_learning_rate": 1e-5}
ABLATIONS = (
    Model("ELECTRA 15 %", {"objective": "electra_15"}, EFFICIENCY),
    Model("Replace MLM", {"objective": "replace_mlm"}, EFFICIENCY),
    Model("All-Tokens MLM", {"objective": "all_tokens_mlm"}, EFFICIENCY),
    Model("two-stage", _TWO_STAGE, TRAINING),
    # From initial weights, and at the rate of the discriminator, its generator learns nothing
    # (RESULTS.md, "Adversarial training").
    Model("adversarial, from scratch", _ADVERSARIAL, TRAINING),
    Model("adversarial", {**_ADVERSARIAL, **_SLOW_GENERATOR}, TRAINING, _FULL_SIZE),
    Model("generator 1/8", _generator(0.125), GENERATOR),
    QUARTER,
    Model("generator 1/2", _generator(0.5), GENERATOR),
    _FULL_SIZE,
    Model("share nothing", _generator(1.0, "none"), SHARING),
    Model("share tokens", _generator(1.0, "token"), SHARING),
    Model("share embeddings", _generator(1.0), SHARING),
    Model("share all", _generator(1.0, "all"), SHARING),
    Model("share by GDES", _generator(1.0, "gdes"), SHARING),
    Model("unigram generator", _constant("unigram"), BEYOND),
    Model("uniform generator", _constant("uniform"), BEYOND),
    Model("Electric", {"objective": "electric", "embedding_sharing": None}, BEYOND),
    Model("strategic masking", {"masking": "strategic"}, BEYOND),
    Model("temperature 2", {"temperature": 2.0}, BEYOND),
)
MODELS = (ELECTRA, BERT, BERT_LOWEST_LOSS, *ABLATIONS)


def settings_of(model: Model, size: Size, budget: float, seed: int) -> dict[str, Any]:
    """Returns all hyperparameters of a pre-training run, with the steps of its budget.

    Those of a model that continues another are of its own half.

    Args:
        model: of `MODELS`.
        size: of the encoder, its text and its budgets.
        budget: model FLOPs, times those of `size.unit_steps` steps of ELECTRA.
        seed: of the pre-training.
    """
    given = {**size.settings, **model.settings, "seed": seed}
    given = {name: value for name, value in given.items() if value is not None}
    if given.get("objective") == "two_stage":
        # Heads of generators follow from their width, and both must have the same.
        overrides = dict(given.get("model_hparam_overrides", {}))
        overrides.pop("num_attention_heads", None)
        given["model_hparam_overrides"] = overrides
    if rate := size.rates.get(model.name):
        given["learning_rate"] = rate
    share = 0.5 if model.continues else 1.0
    flops = share * budget * size.unit_steps * model_flops_of(dict(size.settings))
    # A curriculum or two stages need the steps to be known, so these are of a long run.
    steps = max(2, math.floor(flops / model_flops_of(given)))
    return {
        **given,
        "num_train_steps": steps,
        "num_warmup_steps": round(WARMUP_SHARE * steps),
    }


def model_flops_of(settings: Mapping[str, Any]) -> int:
    """Returns the model FLOPs of matrix products of a mean step."""
    return _flops(json.dumps(settings, sort_keys=True))[0]


def paper_flops_of(settings: Mapping[str, Any]) -> float:
    """Returns the FLOPs of a mean step in the paper's counting."""
    return _flops(json.dumps(settings, sort_keys=True))[1]


@functools.cache
def _flops(settings: str) -> tuple[int, float]:
    config = PretrainingConfig.create(data_dir="-", model_name="-", **json.loads(settings))
    return model_flops_per_step(config), train_flops_per_step(config)
