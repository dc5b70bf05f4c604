"""Every hyperparameter of pre-training, as a frozen dataclass.

No TensorFlow is imported here: flags are checked against these classes before
anything slow happens. Each field carries its own help text, and `flags/` makes
one command-line flag of each.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from electra_tf.distribution import DistributionConfig, distribution_defaults
from electra_tf.encoder_config import (
    MODEL_SIZES,
    EncoderConfig,
    default_embedding_size,
    encoder_config,
    encoder_shape,
)
from electra_tf.errors import UserError
from electra_tf.options import option

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
OPTIMIZERS = ("adam", "lamb")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingConfig(DistributionConfig):
    """Every hyperparameter of a pre-training run, under the authors' names.

    Build instances with `PretrainingConfig.create`: it fills the fields that follow
    from others (paths, `embedding_size`, `debug`) and checks all values.
    """

    model_name: str = option(
        "electra", "Name of the run; its files go to DATA_DIR/models/NAME."
    )
    data_dir: str = option("", "Folder of the records, the vocabulary and the models.")
    debug: bool = option(False, "Tiny batches and 20 steps, to see whether a command works.")
    do_train: bool = option(True, "Pre-train.")
    do_eval: bool = option(False, "Evaluate the newest checkpoint instead of training.")

    electra_objective: bool = option(
        True, "Replaced-token detection; false trains a plain masked language model."
    )
    gen_weight: float = option(1.0, "Weight of the generator's loss.")
    disc_weight: float = option(50.0, "Weight of the discriminator's loss.")
    mask_prob: float = option(0.15, "Share of the tokens that is masked; 0.25 for large.")
    max_predictions_per_seq: int | None = option(
        None, "Masked positions a sequence at most; int((mask_prob + 0.005) * length) if unset."
    )
    masking_with_replacement: bool = option(
        False, "Draw masked positions with replacement, as the authors' code does."
    )

    learning_rate: float = option(5e-4, "Peak learning rate; 2e-4 for base and large.")
    optimizer: str = option("adam", "The authors' Adam, or LAMB for large batches.", OPTIMIZERS)
    lr_decay_power: float = option(1.0, "Power of the polynomial decay; 1 is linear.")
    weight_decay_rate: float = option(0.01, "Decoupled decay of all but LayerNorm and biases.")
    num_warmup_steps: int = option(10_000, "Steps over which the rate rises from 0.")
    clip_norm: float = option(1.0, "Gradients are scaled down to this global norm.")

    num_train_steps: int = option(1_000_000, "Updates in all; the rate has decayed to 0 there.")
    iterations_per_loop: int = option(200, "Steps run on the device between two looks at it.")
    log_steps: int | None = option(
        None, "Steps between two lines of the log; iterations_per_loop if unset."
    )
    save_checkpoints_steps: int = option(1000, "Steps between two checkpoints.")
    keep_checkpoint_max: int = option(5, "Newest checkpoints that are kept; 0 keeps all.")

    model_size: str = option("small", "Size of the discriminator.", tuple(MODEL_SIZES))
    model_hparam_overrides: Mapping[str, Any] = option(
        None, 'JSON object that overrides the size, such as {"num_hidden_layers": 6}.'
    )
    embedding_size: int | None = option(
        None, "Width of the embeddings; 128 for small, else the hidden size."
    )
    vocab_size: int = option(30522, "Entries of the vocabulary.")
    do_lower_case: bool = option(True, "The records hold lower-cased text.")
    strip_accents: bool = option(True, "The records hold text without accents.")

    uniform_generator: bool = option(False, "Replace tokens uniformly at random.")
    untied_generator: bool = option(True, "False ties all weights of the two models.")
    untied_generator_embeddings: bool = option(
        False, "Give the generator token, position and segment embeddings of its own."
    )
    generator_layers: float = option(1.0, "The generator's layers, as a share.")
    generator_hidden_size: float = option(0.25, "The generator's hidden size, as a share.")
    disallow_correct: bool = option(False, "Never sample the original token.")
    temperature: float = option(1.0, "Temperature of the generator's samples.")

    max_seq_length: int = option(128, "Tokens a sequence; that of the records.")
    train_batch_size: int = option(128, "Sequences a step, over all devices.")
    eval_batch_size: int = option(128, "Sequences a step of evaluation.")
    num_eval_steps: int = option(100, "Batches of one evaluation, at most.")

    pretrain_tfrecords: str | None = option(
        None, "Records to train on: files or wildcards, separated by commas."
    )
    eval_tfrecords: str | None = option(
        None, "Held-out records: evaluated at every checkpoint, and by --do_eval."
    )
    vocab_file: str | None = option(None, "WordPiece vocabulary; DATA_DIR/vocab.txt if unset.")
    shuffle_buffer_size: int = option(10_000, "Examples among which the next is drawn.")
    deterministic_reading: bool = option(
        True, "Same order of examples in every run; false reads faster and resumes inexactly."
    )
    skip_bad_records: bool = option(False, "Pass over corrupt records and count them.")

    init_checkpoint: str | None = option(
        None,
        "Weights to start from: a checkpoint of this project (folder, prefix or name in "
        "DATA_DIR/models) or of the authors' code, a Hugging Face or KerasHub folder. Sizes, "
        "vocabulary and casing are the checkpoint's if unset. A run that has begun goes on.",
    )
    model_dir: str | None = option(None, "Checkpoints and logs; DATA_DIR/models/NAME if unset.")
    results_txt: str | None = option(None, "Metrics of --do_eval as text.")
    results_json: str | None = option(None, "Metrics of --do_eval as JSON.")
    results_pkl: str | None = option(None, "Metrics of --do_eval as a pickle, if set.")

    seed: int = option(42, "Seed of weights, masks, samples, dropout and shuffling.")
    precision: str = option("float32", "Arithmetic of the matrix products.", PRECISIONS)
    jit_compile: bool = option(False, "Compile the whole step with XLA; pays on a GPU.")
    rematerialize: bool = option(
        False, "Compute encoder layers anew in the backward pass: slower, in less memory."
    )

    @classmethod
    def create(cls, **given: Any) -> "PretrainingConfig":
        """Fills in what follows from `given` (None means not given) and checks the whole.

        Raises:
            UserError: for a value that cannot be, naming the flag.
        """
        given = {name: value for name, value in given.items() if value is not None}
        for name in ("data_dir", "model_name"):
            if not given.get(name):
                raise UserError(f"--{name} is required")
        derived: dict[str, Any] = {
            "model_hparam_overrides": {},
            **distribution_defaults(given),
        }
        if given.get("debug"):
            derived.update(
                train_batch_size=8,
                num_train_steps=20,
                eval_batch_size=4,
                iterations_per_loop=1,
                num_eval_steps=2,
            )
        model_dir = given.get("model_dir") or os.path.join(
            given["data_dir"], "models", given["model_name"]
        )
        derived.update(
            pretrain_tfrecords=os.path.join(
                given["data_dir"], "pretrain_tfrecords", "pretrain_data.tfrecord*"
            ),
            vocab_file=os.path.join(given["data_dir"], "vocab.txt"),
            model_dir=model_dir,
            results_txt=os.path.join(model_dir, "results", "unsup_results.txt"),
            results_json=os.path.join(model_dir, "results", "unsup_results.json"),
        )
        if given.get("init_checkpoint"):
            # Imported here: checkpoints describe encoders in this module's terms.
            from electra_tf.interop.settings import initial_settings

            given |= initial_settings(given, model_dir)
        merged = {**derived, **given}
        size = merged.get("model_size", "small")
        if size not in MODEL_SIZES:
            raise UserError(
                f"--model_size must be one of {', '.join(MODEL_SIZES)}, not {size!r}"
            )
        merged.setdefault(
            "embedding_size", default_embedding_size(size, merged["model_hparam_overrides"])
        )
        if "max_predictions_per_seq" not in merged:
            # The authors' rule: 19 positions at 128 tokens and 15 %.
            share = merged.get("mask_prob", 0.15) + 0.005
            length = merged.get("max_seq_length", 128)
            merged["max_predictions_per_seq"] = max(1, int(share * length))
        merged.setdefault("log_steps", merged.get("iterations_per_loop", 200))
        config = cls(**merged)
        config._check()
        return config

    def _check(self) -> None:
        for name in (
            "max_predictions_per_seq",
            "iterations_per_loop",
            "log_steps",
            "save_checkpoints_steps",
            "num_train_steps",
            "num_eval_steps",
            "max_seq_length",
            "train_batch_size",
            "gradient_accumulation_steps",
            "eval_batch_size",
            "temperature",
            "generator_layers",
            "generator_hidden_size",
            "clip_norm",
            "shuffle_buffer_size",
        ):
            if not getattr(self, name) > 0:
                raise UserError(f"--{name} must be positive, not {getattr(self, name)}")
        for name in (
            "num_warmup_steps",
            "learning_rate",
            "weight_decay_rate",
            "keep_checkpoint_max",
            "seed",
        ):
            if not getattr(self, name) >= 0:
                raise UserError(f"--{name} must not be negative, it is {getattr(self, name)}")
        if not 0 < self.mask_prob < 1:
            raise UserError(f"--mask_prob must lie between 0 and 1, not {self.mask_prob}")
        for name, choices in (("precision", PRECISIONS), ("optimizer", OPTIMIZERS)):
            if getattr(self, name) not in choices:
                raise UserError(
                    f"--{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        check_accumulation(self.train_batch_size, self.gradient_accumulation_steps)
        self.check_distribution()
        if self.do_train == self.do_eval:
            raise UserError(
                "Exactly one of --do_train and --do_eval must be true; "
                f"both are {str(self.do_train).lower()}"
            )
        if self.uniform_generator and not (self.electra_objective and self.untied_generator):
            raise UserError(
                "--uniform_generator has no weights to train or tie: it needs "
                "--electra_objective=true and --untied_generator=true"
            )
        longest = discriminator_config(self).max_position_embeddings
        if self.max_seq_length > longest:
            raise UserError(
                f"--max_seq_length={self.max_seq_length} exceeds the model's {longest} "
                "position embeddings: raise max_position_embeddings in "
                "--model_hparam_overrides"
            )
        generator_config(self)

    def to_json(self) -> str:
        """Returns all hyperparameters as indented JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"


def check_accumulation(batch_size: int, gradient_accumulation_steps: int) -> None:
    """Raises UserError unless a batch can be split into the parts that are asked for."""
    if batch_size % gradient_accumulation_steps:
        raise UserError(
            f"--train_batch_size={batch_size} is not a multiple of "
            f"--gradient_accumulation_steps={gradient_accumulation_steps}: a batch is computed "
            "in that many equal parts"
        )


def discriminator_config(config: PretrainingConfig) -> EncoderConfig:
    """Returns the shape of the full-size encoder: the model size under the overrides.

    Raises:
        UserError: for an override that is no field of the encoder.
    """
    return encoder_config(
        config.model_size,
        config.model_hparam_overrides,
        embedding_size=config.embedding_size,
        vocab_size=config.vocab_size,
    )


def generator_config(config: PretrainingConfig) -> EncoderConfig:
    """Returns the generator's shape: shares of the discriminator's width and depth.

    Heads and intermediate size follow from the generator's own width, whatever the
    overrides say of the discriminator's (as in the authors' code). With
    `untied_generator_embeddings` its embeddings are as wide as its hidden layers.
    """
    discriminator = discriminator_config(config)
    if not config.untied_generator:
        return discriminator
    hidden_size = round(config.generator_hidden_size * discriminator.hidden_size)
    layers = round(config.generator_layers * discriminator.num_hidden_layers)
    if layers < 1 or hidden_size < 1:
        raise UserError(
            f"--generator_layers={config.generator_layers} and --generator_hidden_size="
            f"{config.generator_hidden_size} give a generator of {layers} layers and "
            f"{hidden_size} units"
        )
    return dataclasses.replace(
        discriminator,
        embedding_size=(
            hidden_size if config.untied_generator_embeddings else discriminator.embedding_size
        ),
        **encoder_shape(hidden_size, layers),
    )
