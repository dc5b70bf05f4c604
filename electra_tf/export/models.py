"""The folder of a trained model to what is exported; nothing else is read."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from electra_tf import model_builder
from electra_tf.config.distribution import on_one_device
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.config.saved_config import CONFIG_FILE, load_saved_config
from electra_tf.export import pretrained
from electra_tf.export.config import ExportConfig
from electra_tf.export.servable import Servable
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.training.checkpoints import VOCAB_FILE
from electra_tf.training.distribution.strategies import create_strategy
from electra_tf.util.errors import UserError, nearest_name_hint


def load_servable(config: ExportConfig, say: Callable[[str], None] = print) -> Servable:
    """Returns what `config.component` of the model in `config.model_dir` is.

    Raises:
        UserError: there is no model, or it has no such component.
    """
    description = load_saved_config(config.model_dir)
    if description is None:
        raise UserError(
            f"--model_dir={config.model_dir} holds no {CONFIG_FILE}: name the folder of a "
            "model of run_pretraining.py (DATA_DIR/models/NAME) or of run_finetuning.py "
            "(…/finetuning_models/TASK_model_1)"
        )
    saved = {
        **description.hyperparameters,
        "model_dir": config.model_dir,
        "vocab_file": os.path.join(config.model_dir, VOCAB_FILE),
    }
    if config.precision:
        saved["precision"] = config.precision
    if "task_names" in saved:
        # Imported here: fine-tuning builds on this package.
        from finetune.exported import load_finetuned

        return load_finetuned(config, saved, say)
    return _load_pretrained(config, saved, say)


def _load_pretrained(
    config: ExportConfig, saved: Mapping[str, Any], say: Callable[[str], None]
) -> Servable:
    component = choose_component(config.component, pretrained.COMPONENTS, config.model_dir)
    run = on_one_device(PretrainingConfig(**known_fields(PretrainingConfig, saved)))
    vocabulary = load_vocabulary(run.vocab_file, "--model_dir")
    model, step, _ = model_builder.load_model(run, vocabulary, create_strategy(run))
    say(f"Model:   {component} of {config.model_dir}, step {step}, {run.precision}")
    tokenizer = Tokenizer(vocabulary, run.do_lower_case, run.strip_accents)
    length = serving_length(
        config.max_seq_length,
        run.max_seq_length,
        discriminator_config(run).max_position_embeddings,
    )
    if component == pretrained.DISCRIMINATOR:
        return pretrained.DiscriminatorServable(model, tokenizer, length)
    if component == pretrained.GENERATOR:
        return pretrained.GeneratorServable(model, tokenizer, length, config.top_k)
    return pretrained.EmbeddingsServable(model.electra, tokenizer, length)


def known_fields(config_class: type, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of a `config.json` that are fields of a dataclass."""
    names = {field.name for field in dataclasses.fields(config_class)}
    return {name: value for name, value in saved.items() if name in names}


def choose_component(asked: str | None, known: tuple[str, ...], model_dir: str) -> str:
    """Returns `asked`, or the first of the known components where nothing was asked for.

    Raises:
        UserError: the model has no such component.
    """
    if asked is None:
        return known[0]
    if asked not in known:
        raise UserError(
            f"--component={asked}: the model in {model_dir} can be exported as "
            f"{', '.join(known)}.{nearest_name_hint(asked, known)}"
        )
    return asked


def serving_length(asked: int | None, trained: int, positions: int) -> int:
    """Returns the longest row to serve; by default it is that of training.

    Raises:
        UserError: the model has fewer position embeddings.
    """
    length = asked or trained
    if length > positions:
        raise UserError(
            f"--max_seq_length={length} exceeds the model's {positions} position embeddings"
        )
    return length
