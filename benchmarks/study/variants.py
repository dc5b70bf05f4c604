"""What the study compares: models that differ from ELECTRA in one thing, at equal FLOPs."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from electra_tf.config.encoder import HEAD_SIZE, INTERMEDIATE_RATIO, EncoderConfig
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.flops.counting import train_flops_per_step
from electra_tf.util.errors import UserError

# The questions, in the paper's order (sections 3.2 to 3.5).
SHARING = "sharing"
GENERATOR_SIZE = "generator size"
TRAINING = "training algorithm"
EFFICIENCY = "efficiency"
MODEL_SIZE = "model size"
# And what another seed of pre-training changes.
NOISE = "noise of pre-training"
QUESTIONS = (SHARING, GENERATOR_SIZE, TRAINING, EFFICIENCY, MODEL_SIZE, NOISE)

ELECTRA = "ELECTRA"
ELECTRA_AGAIN = "ELECTRA again"
BERT = "BERT"

# All variants: the shape of recipes/tiny.flags, but for what the question is about. There
# generator and discriminator share all weights; those that do not need smaller batches, a
# lower rate and a longer warm-up (see "The study" in benchmarks/RESULTS.md).
HIDDEN_SIZE = 128
COMMON: dict[str, Any] = {
    "model_size": "small",
    "generator_hidden_size": 0.5,
    "temperature": 1.5,
    "mask_prob": 0.2,
    "disc_weight": 10.0,
    "vocab_size": 8192,
    "max_seq_length": 32,
    "train_batch_size": 32,
    "eval_batch_size": 64,
    "learning_rate": 7.5e-4,
    "precision": "mixed_bfloat16",
}
# Updates of ELECTRA at scale 1, in each size; the others get what the same FLOPs buy them.
ELECTRA_STEPS = 8000
WARMUP_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Variant:
    """One model that is pre-trained.

    Attributes:
        name: in the report.
        questions: that it is part of.
        settings: hyperparameters that differ from `COMMON`.
        hidden_size: of its encoder.
    """

    name: str
    questions: tuple[str, ...]
    settings: dict[str, Any]
    hidden_size: int = HIDDEN_SIZE

    @property
    def folder(self) -> str:
        """The name, as one of a folder."""
        return "".join(c if c.isalnum() else "_" for c in self.name.lower()).strip("_")


VARIANTS = (
    Variant(ELECTRA, QUESTIONS, {}),
    Variant(ELECTRA_AGAIN, (NOISE,), {"seed": 43}),
    Variant("share nothing", (SHARING,), {"embedding_sharing": "none"}),
    Variant("share tokens", (SHARING,), {"embedding_sharing": "token"}),
    Variant("share all", (SHARING,), {"embedding_sharing": "all"}),
    Variant("share by GDES", (SHARING,), {"embedding_sharing": "gdes"}),
    Variant("generator 1/4", (GENERATOR_SIZE,), {"generator_hidden_size": 0.25}),
    Variant("generator 1", (GENERATOR_SIZE,), {"generator_hidden_size": 1.0}),
    Variant(
        "two-stage",
        (TRAINING,),
        {
            "objective": "two_stage",
            "embedding_sharing": "none",
            "generator_hidden_size": 1.0,
        },
    ),
    Variant("adversarial", (TRAINING,), {"objective": "adversarial"}),
    Variant("All-Tokens MLM", (EFFICIENCY,), {"objective": "all_tokens_mlm"}),
    Variant("Replace MLM", (EFFICIENCY,), {"objective": "replace_mlm"}),
    Variant("ELECTRA 15 %", (EFFICIENCY,), {"objective": "electra_15"}),
    Variant(BERT, (TRAINING, EFFICIENCY, MODEL_SIZE), {"objective": "mlm"}),
    Variant(f"{ELECTRA} 64", (MODEL_SIZE,), {}, hidden_size=64),
    Variant(f"{BERT} 64", (MODEL_SIZE,), {"objective": "mlm"}, hidden_size=64),
)


def settings_of(variant: Variant, scale: float) -> dict[str, Any]:
    """Returns all hyperparameters of a variant, with the steps that the FLOPs buy.

    Args:
        variant: of `VARIANTS`.
        scale: of the steps of ELECTRA of its size, and so of everybody's FLOPs.
    """
    electra = {**COMMON, **_shape(variant.hidden_size)}
    budget = scale * ELECTRA_STEPS * train_flops_per_step(_config(electra))
    settings = {**electra, **variant.settings}
    steps = math.floor(budget / train_flops_per_step(_config(settings)))
    return {
        **settings,
        "num_train_steps": steps,
        "num_warmup_steps": round(WARMUP_SHARE * steps),
    }


def encoder_of(settings: dict[str, Any]) -> EncoderConfig:
    """Returns the shape of what is fine-tuned."""
    return discriminator_config(_config(settings))


def _shape(hidden_size: int) -> dict[str, Any]:
    return {
        "model_hparam_overrides": {
            "hidden_size": hidden_size,
            "num_hidden_layers": 3,
            "num_attention_heads": hidden_size // HEAD_SIZE,
            "intermediate_size": INTERMEDIATE_RATIO * hidden_size,
            "max_position_embeddings": 128,
            "initializer_range": 0.08,
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        },
        "embedding_size": hidden_size,
    }


def checkpoint_steps(num_train_steps: int, shares: Sequence[float]) -> list[int]:
    """Returns the steps at which shares of the FLOPs are used up."""
    return [round(share * num_train_steps) for share in shares]


def flops_of(settings: dict[str, Any], step: int) -> float:
    """Returns the training FLOPs of the first steps of a run, in the paper's counting."""
    return step * train_flops_per_step(_config(settings))


def _config(settings: dict[str, Any]) -> PretrainingConfig:
    return PretrainingConfig.create(data_dir="-", model_name="study", **settings)


def choose_variants(names: Sequence[str] | None) -> list[Variant]:
    """Returns the variants of these names, all for None.

    Raises:
        UserError: there is none of a name.
    """
    by_name = {variant.name: variant for variant in VARIANTS}
    names = names or list(by_name)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise UserError(f"--variants: {unknown[0]!r} is none of {', '.join(by_name)}")
    return [by_name[name] for name in names]
