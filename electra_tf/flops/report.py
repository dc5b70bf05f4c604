"""Output of `flops_computation.py`: tables of the paper's models and of the user's runs.

Speed-ups are relative to BERT-Base, as in the paper's Table 1; the large models are relative
to ELECTRA-400K, as in its Tables 2 and 4. No TensorFlow is imported here.
"""

import dataclasses
import json
from collections.abc import Sequence

from electra_tf.config.encoder import EncoderConfig
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.flops import counting
from electra_tf.flops.published import (
    INFERENCE_LENGTH,
    PublishedModel,
    inference_flops,
    large_models,
    small_models,
)
from electra_tf.util.console import markdown_table

SMALL_REFERENCE, LARGE_REFERENCE = "BERT-Base", "ELECTRA-400K"
_NOTE = (
    "FLOPs are counted as in the paper (a backward pass costs as much as a forward pass, "
    f"embeddings are dense products); inference is one sequence of {INFERENCE_LENGTH} tokens. "
    "The paper's speed-ups of ELECTRA-Small correspond to 1.4e18 FLOPs; the authors' script "
    "and this one count 1.29e18."
)
_RUN_NOTE = (
    "Model FLOPs count matrix products only, and the backward pass as two forward passes. "
    "Divided by the step time and the hardware's peak FLOP/s, they give the model FLOPs "
    "utilization (MFU)."
)


@dataclasses.dataclass(frozen=True)
class RunFlops:
    """FLOPs of one of the user's runs.

    Attributes:
        name: name of the recipe or model.
        train_flops_by_part: FLOPs of one step over the global batch, as the paper counts
            them, by part of the model.
        num_train_steps: None if it depends on the data (fine-tuning).
        inference_flops: FLOPs of one sequence of 128 tokens, as the paper counts them.
        model_flops_per_step: see `electra_tf.flops.counting.model_flops_per_step`.
    """

    name: str
    train_flops_by_part: dict[str, float]
    num_train_steps: int | None
    inference_flops: float
    model_flops_per_step: int

    @property
    def train_flops_per_step(self) -> float:
        """FLOPs of one step over the global batch, as the paper counts them."""
        return sum(self.train_flops_by_part.values())

    @property
    def train_flops(self) -> float | None:
        """FLOPs of all steps, or None if their number is unknown."""
        if self.num_train_steps is None:
            return None
        return self.num_train_steps * self.train_flops_per_step


def count_pretraining(name: str, config: PretrainingConfig) -> RunFlops:
    """Returns the FLOPs of a pre-training run."""
    return RunFlops(
        name,
        counting.train_flops_by_part(config),
        config.num_train_steps,
        _encoder_inference(discriminator_config(config)),
        counting.model_flops_per_step(config),
    )


def count_finetuning(
    name: str,
    encoder: EncoderConfig,
    *,
    batch_size: int,
    seq_length: int,
    num_frozen_layers: int | None,
) -> RunFlops:
    """Returns the FLOPs of fine-tuning, all batches padded to `seq_length`.

    The arguments are those of `electra_tf.flops.counting.finetuning_flops_per_step`.
    """
    shape = {
        "batch_size": batch_size,
        "seq_length": seq_length,
        "num_frozen_layers": num_frozen_layers,
    }
    return RunFlops(
        name,
        {"encoder and head": counting.finetuning_flops_per_step(encoder, **shape)},
        None,
        _encoder_inference(encoder),
        counting.finetuning_model_flops_per_step(encoder, **shape),
    )


def format_report(runs: Sequence[RunFlops]) -> str:
    """Returns all tables as Markdown; those of `runs` are last."""
    parts = [
        _NOTE,
        f"## Small models (paper, Table 1); speed-up over {SMALL_REFERENCE}",
        _small_table(),
        f"## Large models (paper, Tables 2 to 4), relative to {LARGE_REFERENCE}",
        _large_table(),
    ]
    if runs:
        parts += ["## Your runs", _RUN_NOTE, _runs_table(runs), _parts_table(runs)]
    return "\n\n".join(parts) + "\n"


def to_json(runs: Sequence[RunFlops]) -> str:
    """Returns all numbers, unrounded, as a JSON object of `published` and `runs`."""
    small = _named(SMALL_REFERENCE, small_models())
    large = _named(LARGE_REFERENCE, large_models())
    published = [
        {
            **dataclasses.asdict(model),
            "train_speed_up": small.train_flops / model.train_flops,
            "inference_speed_up": small.inference_flops / model.inference_flops,
            "train_relative_to_electra_400k": model.train_flops / large.train_flops,
        }
        for model in (*small_models(), *large_models())
    ]
    own = [
        {
            **dataclasses.asdict(run),
            "train_flops_per_step": run.train_flops_per_step,
            "train_flops": run.train_flops,
            "train_speed_up": run.train_flops and small.train_flops / run.train_flops,
            "inference_speed_up": small.inference_flops / run.inference_flops,
        }
        for run in runs
    ]
    return json.dumps({"published": published, "runs": own}, indent=2) + "\n"


def _small_table() -> str:
    models = small_models()
    reference = _named(SMALL_REFERENCE, models)
    rows = [
        [
            model.name,
            model.source,
            _format_count(model.train_flops),
            _format_count(model.inference_flops),
            _format_ratio(reference.train_flops / model.train_flops),
            _format_ratio(reference.inference_flops / model.inference_flops),
            model.printed or "-",
        ]
        for model in models
    ]
    header = ["", "source of train FLOPs", "train FLOPs", "inference FLOPs"]
    header += ["speed-up: train", "inference", "in the paper"]
    return markdown_table(header, rows, text_columns=2)


def _large_table() -> str:
    models = large_models()
    reference = _named(LARGE_REFERENCE, models)
    rows = [
        [
            model.name,
            model.source,
            _format_count(model.train_flops),
            _format_count(model.inference_flops),
            _format_ratio(model.train_flops / reference.train_flops),
            model.printed or "-",
        ]
        for model in models
    ]
    header = ["", "source of train FLOPs", "train FLOPs", "inference FLOPs", "train, relative"]
    return markdown_table([*header, "in the paper"], rows, text_columns=2)


def _runs_table(runs: Sequence[RunFlops]) -> str:
    reference = _named(SMALL_REFERENCE, small_models())
    rows = []
    for run in runs:
        steps, total = run.num_train_steps, run.train_flops
        rows.append(
            [
                run.name,
                _format_count(run.train_flops_per_step),
                "-" if steps is None else f"{steps:,}",
                "-" if total is None else _format_count(total),
                _format_count(run.inference_flops),
                "-" if total is None else _format_ratio(reference.train_flops / total),
                _format_ratio(reference.inference_flops / run.inference_flops),
                _format_count(run.model_flops_per_step),
            ]
        )
    header = ["", "FLOPs per step", "steps", "train FLOPs", "inference FLOPs"]
    header += [f"speed-up over {SMALL_REFERENCE}: train", "inference", "model FLOPs per step"]
    return markdown_table(header, rows, text_columns=1)


def _parts_table(runs: Sequence[RunFlops]) -> str:
    rows = [
        [
            run.name,
            part,
            _format_count(value),
            f"{100 * value / run.train_flops_per_step:.2f} %",
        ]
        for run in runs
        for part, value in run.train_flops_by_part.items()
    ]
    return markdown_table(["", "part of a step", "FLOPs", "share"], rows, text_columns=2)


def _encoder_inference(encoder: EncoderConfig) -> int:
    return inference_flops(counting.Transformer.of(encoder, INFERENCE_LENGTH))


def _named(name: str, models: Sequence[PublishedModel]) -> PublishedModel:
    return next(model for model in models if model.name == name)


def _format_count(value: float) -> str:
    return f"{value:.2e}".replace("e+", "e")


def _format_ratio(ratio: float) -> str:
    """Formats a ratio with three significant digits, or all integer digits."""
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:#.3g}x"
