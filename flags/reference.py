"""Writes `docs/hyperparameters.md`: every hyperparameter, from the configuration classes.

python -m flags.reference docs/hyperparameters.md
"""

import dataclasses
import inspect
import pathlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from electra_tf.config.choices import MASKING, OBJECTIVES, load
from electra_tf.config.distribution import DistributionConfig
from electra_tf.config.encoder import (
    MODEL_SIZES,
    OVERRIDABLE,
    EncoderConfig,
    default_embedding_size,
    encoder_config,
)
from electra_tf.config.hyperparameters import EVALUATION, NOTHING, SYNONYM, TRAINING
from electra_tf.config.pretraining_fields import PretrainingFields
from electra_tf.util.console import markdown_table
from electra_tf.util.files import write_atomically
from electra_tf.util.tensorflow_import import import_tensorflow
from finetune.config.classification_fields import ClassificationFields
from finetune.config.custom_task_fields import CustomTaskFields
from finetune.config.finetuning_fields import FinetuningFields
from flags.command_line.program_names import print_line
from flags.hyperparameters import spell_default

_INFLUENCES = {TRAINING: "training", EVALUATION: "evaluation", NOTHING: "–", SYNONYM: "synonym"}
_INTRODUCTION = """\
# Hyperparameters

<!-- Written by `make docs` from the configuration classes. Change the help texts there. -->

Every hyperparameter is a flag (`--learning_rate=1e-3`) and a key of `--hparams`
(`{"learning_rate": 1e-3}`, or the path of a `.json` file). Flags take precedence over
`--hparams`, and a later flag over an earlier one, so a flag after `--flagfile` changes the
recipe. A boolean flag is turned on by `--name` or `--name=true`, and off by `--noname` or
`--name=false`. Dashes and underscores in names of flags are equivalent: `--data-dir` is
`--data_dir`.

Every program has `--verbose`, which also prints TensorFlow's messages and the traceback of an
error; programs that print progress have `--quiet`, which prints only errors and warnings.

"Unset" means that the default depends on other settings; the description names it. The column
"influences" says what a change affects:

- *training*: the trained weights. A resumed run refuses the change, unless
  `--allow_changed_settings` names it; fine-tuning starts over.
- *evaluation*: the reported values, but not the weights, unless the scores choose them
  (`--keep_best`).
- *synonym*: another hyperparameter, which is compared instead.
- –: neither.

Records, vocabulary and word list are compared by content, not by path: a resumed run refuses
different ones, unless `--allow_changed_settings` names `data`, `vocabulary` or `words`."""


def reference() -> str:
    """Returns the page in Markdown."""
    distribution = _names(DistributionConfig)
    custom, classification = _names(CustomTaskFields), _names(ClassificationFields)
    sections = [
        _INTRODUCTION,
        "## Pre-training",
        "Flags of `run_pretraining.py`, and of the programs that load its models.",
        _table(_fields(PretrainingFields, excluded=distribution)),
        "## Objectives",
        "Keys of `--objective_hparams`, by `--objective`. Those not listed have none.",
        _choice_table(OBJECTIVES),
        "## Masking strategies",
        "Keys of `--masking_hparams`, by `--masking`. Those not listed have none.",
        _choice_table(MASKING),
        "## Fine-tuning",
        "Flags of `run_finetuning.py`. Where the meaning begins with a kind of task, a flag "
        "affects only tasks of that kind.",
        _table(_fields(FinetuningFields, excluded=distribution | custom | classification)),
        "## Classification",
        "Flags of `run_finetuning.py` for `classification` tasks and, where stated, "
        "`multiple_choice`.",
        _table(_fields(ClassificationFields)),
        "## Tasks of your own",
        "Flags of `run_finetuning.py`; see [Your own task](own_task.md).",
        _table(_fields(CustomTaskFields)),
        "## Devices and processes",
        "Flags of `run_pretraining.py` and `run_finetuning.py`; see [Several "
        "devices](several_devices.md).",
        _table(_fields(DistributionConfig)),
        "## Shape of the encoder",
        "Keys of `--model_hparam_overrides`, and their defaults by `--model_size`.",
        _encoder_table(),
    ]
    return "\n\n".join(sections) + "\n"


def _names(config_class: type) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(config_class))


def _fields(
    config_class: type, excluded: frozenset[str] = frozenset()
) -> list[dataclasses.Field]:
    return [f for f in dataclasses.fields(config_class) if f.name not in excluded]


def _table(fields: Iterable[dataclasses.Field]) -> str:
    rows = []
    for field in fields:
        default = "unset" if field.default in (None, "", ()) else _code(field.default)
        choices = field.metadata["choices"]
        values = ", ".join(map(_code, choices)) if choices else _type_name(field.type)
        influence = _INFLUENCES[field.metadata["influence"]]
        meaning = field.metadata["help"].replace("<", "&lt;")
        rows.append((f"`{field.name}`", default, values, influence, meaning))
    return _text_table(("name", "default", "values", "influences", "meaning"), rows)


def _choice_table(choices: Mapping[str, str]) -> str:
    rows = []
    for choice in choices:
        hparams = load(choices, choice).Hparams
        keys = [f"`{f.name}` ({_code(f.default)})" for f in dataclasses.fields(hparams)]
        if keys:
            meaning = re.sub(r"\s+", " ", inspect.getdoc(hparams))
            rows.append((f"`{choice}`", ", ".join(keys), meaning))
    return _text_table(("choice", "keys and defaults", "meaning"), rows)


def _encoder_table() -> str:
    sizes = {
        size: encoder_config(
            size,
            {},
            embedding_size=default_embedding_size(size, {}),
            vocab_size=PretrainingFields.vocab_size,
        )
        for size in MODEL_SIZES
    }
    rows = [
        (f"`{field.name}`", *(_code(getattr(config, field.name)) for config in sizes.values()))
        for field in dataclasses.fields(EncoderConfig)
        if field.name in OVERRIDABLE
    ]
    return _text_table(("key", *sizes), rows)


def _type_name(kind: object) -> str:
    """Returns the type of a flag's value, in words."""
    if kind in (Sequence[str], Sequence[int]):
        return "list"
    for known, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "text")):
        if kind in (known, known | None):
            return name
    return "JSON object"


def _code(value: object) -> str:
    return f"`{spell_default(value)}`"


def _text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(header, rows, text_columns=len(header))


def main() -> None:
    """Writes the page to the file that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m flags.reference docs/hyperparameters.md")
    import_tensorflow()
    path = pathlib.Path(sys.argv[1])
    write_atomically(str(path), reference())
    print_line(f"Wrote:   {path}")


if __name__ == "__main__":
    main()
