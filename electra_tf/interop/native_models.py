"""The hyperparameters under which this project would have made a model; no TensorFlow."""

import dataclasses
from typing import Any

from electra_tf.config.pretraining import PretrainingConfig, generator_config
from electra_tf.interop.model_checkpoint import (
    GENERATOR_EMBEDDINGS,
    LABELS,
    TASK_SCOPE,
    TASKS,
    TOWER_EMBEDDINGS,
    ModelCheckpoint,
    TaskDescription,
)
from electra_tf.util.errors import UserError

# What a generator's shape is compared in: the rest of it follows the discriminator's.
_SHAPE = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)


def own_hyperparameters(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    """Returns the hyperparameters that `config.json` holds beside our checkpoints.

    Two towers are Electric's. A discriminator alone is a model with a uniform generator,
    which has no weights; a generator alone a masked language model; an encoder alone a
    fine-tuned model of no tasks.

    Raises:
        UserError: a generator of a shape that no hyperparameters ask for.
    """
    description = checkpoint.description
    if description.hyperparameters:
        return dict(description.hyperparameters)
    model = description.model_settings()
    if description.tasks or not (checkpoint.has_discriminator or checkpoint.has_masked_lm):
        return {**model, **_finetuning(checkpoint)}
    longest = description.encoder.max_position_embeddings
    config = PretrainingConfig.create(
        data_dir=".",
        model_name="converted",
        max_seq_length=min(PretrainingConfig.max_seq_length, longest),
        **model,
        **_generator(checkpoint),
    )
    if checkpoint.has_generator_encoder or checkpoint.has_two_towers:
        ours, theirs = generator_config(config), description.generator
        differing = [
            f"{name} is {getattr(theirs, name)}, and would be {getattr(ours, name)}"
            for name in _SHAPE
            if getattr(ours, name) != getattr(theirs, name)
        ]
        if differing:
            raise UserError(
                "The generator has a shape that the hyperparameters of this project cannot "
                "ask for: heads of 64 units, four times as many intermediate as hidden ones, "
                "embeddings as wide as the discriminator's (or, of its own, as its hidden "
                f"layers). {'; '.join(differing)}. Convert the discriminator alone"
            )
    return dataclasses.asdict(config)


def _generator(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    if not checkpoint.has_discriminator:
        return {"electra_objective": False}
    if checkpoint.has_two_towers:
        embeddings, objective = TOWER_EMBEDDINGS, {"electric_objective": True}
    elif not checkpoint.has_masked_lm:
        return {"uniform_generator": True}
    elif not checkpoint.has_generator_encoder:
        return {"untied_generator": False}
    else:
        embeddings, objective = GENERATOR_EMBEDDINGS, {}
    encoder, generator = checkpoint.description.encoder, checkpoint.description.generator
    return {
        **objective,
        "generator_hidden_size": generator.hidden_size / encoder.hidden_size,
        "generator_layers": generator.num_hidden_layers / encoder.num_hidden_layers,
        "untied_generator_embeddings": bool(checkpoint.part(embeddings)),
    }


def _finetuning(checkpoint: ModelCheckpoint) -> dict[str, Any]:
    tasks = checkpoint.description.tasks
    values: dict[str, Any] = {
        "task_names": [task.name for task in tasks],
        TASKS: {task.name: _description(checkpoint, task) for task in tasks},
        LABELS: {task.name: list(task.labels) for task in tasks if task.labels},
    }
    answers = [task for task in tasks if task.kind == "qa"]
    return values | (_answers(checkpoint, answers[0]) if answers else {})


def _description(checkpoint: ModelCheckpoint, task: TaskDescription) -> dict[str, Any]:
    """Returns `finetune.task.Task.description`, as far as a checkpoint tells.

    Whether examples have one text or two it does not tell; one is taken. Labels are
    of a regression's scale, from 0 to 1.
    """
    if task.kind == "qa":
        return {"kind": "qa", "v2": _answers(checkpoint, task)["answerable_classifier"]}
    if task.kind == "tagging":
        spans = any(label.startswith("B-") for label in task.labels)
        level = "span" if spans else "token"
        return {"kind": "tagging", "labels": list(task.labels), "level": level}
    description = {"kind": task.kind, "has_pairs": False}
    if task.kind == "regression":
        return {**description, "min_label": 0.0, "max_label": 1.0}
    return {**description, "labels": list(task.labels)}


def _answers(checkpoint: ModelCheckpoint, task: TaskDescription) -> dict[str, bool]:
    """Returns the settings of question answering that a head's layers follow from."""
    layers = {name.split("/")[-2] for name in checkpoint.part(f"{TASK_SCOPE}{task.name}/")}
    return {
        "joint_prediction": "qa_hidden" in layers,
        "answerable_classifier": "dense_2" in layers,
        "answerable_uses_start_logits": "dense_3" in layers,
    }
