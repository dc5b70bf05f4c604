"""Converts a checkpoint from one format to another."""

import collections
import dataclasses
import gc
import json
import os
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn

import numpy as np

from electra_tf.interop.completeness import without_unknown_arrays
from electra_tf.interop.formats import ConversionConfig, find_format, make_format, named_format
from electra_tf.interop.huggingface.format import (
    DISCRIMINATOR_FOLDER,
    ENCODER_FOLDER,
    GENERATOR_FOLDER,
)
from electra_tf.interop.huggingface.head_converter import default_labels
from electra_tf.interop.model_checkpoint import (
    TASK_SCOPE,
    CheckpointFormat,
    ModelCheckpoint,
    ModelDescription,
    ModelFamily,
    TaskDescription,
    containing_folder,
)
from electra_tf.text.tokenizer_description import (
    TOKENIZER_SETTINGS,
    tokenizer_settings,
    warn_of_kept_accents,
)
from electra_tf.text.vocabulary import (
    UNUSED_TOKEN,
    VOCAB_FILE,
    describe_other_tokens,
    load_vocabulary,
    parse_vocabulary,
)
from electra_tf.training.checkpoints.checkpoint_files import checkpoint_names
from electra_tf.training.checkpoints.checkpoint_writing import remove_checkpoint
from electra_tf.training.checkpoints.folder_lock import kept_from_training
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError, not_utf8
from electra_tf.util.files import whole_folder
from electra_tf.util.output_checks import check_output_folder

FROM_FLAG = "--from"
# Describes a task by its name and the shapes of its arrays, named such as "dense/kernel"; also
# returns a message on each assumption.
DescribeTask = Callable[
    [str, Mapping[str, Sequence[int]]], tuple[TaskDescription, Sequence[str]]
]
# Kinds of tasks with a label for each output.
LABELED_KINDS = ("classification", "multilabel", "tagging")


def convert(
    config: ConversionConfig,
    families: Sequence[ModelFamily],
    describe_task: DescribeTask,
    print_fn: Callable[[str], None] = print,
) -> None:
    """Reads a checkpoint, writes it in another format, and reports what is lost.

    Args:
        config: settings of the conversion.
        families: families of this project's models.
        describe_task: describes a task whose kind the format does not record.
        print_fn: prints a message.

    Raises:
        UserError: the input is invalid; nothing has been written.
    """
    output = pathlib.Path(config.output_dir)
    if output.exists() and not output.is_dir():
        raise UserError(f"--output={output} is a file: pass a folder")
    if _has_content(output) and not config.overwrite:
        raise UserError(f"--output={output} is not empty: pass another folder, or --overwrite")
    if os.path.realpath(output) == os.path.realpath(containing_folder(config.source)):
        raise UserError(
            f"--output={output} is the folder of {FROM_FLAG}, whose files would be replaced: "
            "pass another folder"
        )
    check_output_folder(os.path.realpath(output), f"--output={output}")
    source_format = (
        named_format(config.source_format, config.source, "--from_format", families)
        if config.source_format
        else find_format(config.source, FROM_FLAG, families)
    )
    checkpoint = with_kinds(source_format.read(config.source), describe_task)
    print_fn(f"From:   {checkpoint.path or config.source} ({source_format.name})")
    notes = list(checkpoint.notes)
    if config.num_attention_heads:
        checkpoint = _with_heads(checkpoint, config.num_attention_heads, source_format.name)
    checkpoint = _with_tokenizer(checkpoint, config, source_format)
    checkpoint = _with_vocabulary(checkpoint, config, notes)
    _check_heads(checkpoint, config)
    checkpoint, unknown = without_unknown_arrays(checkpoint, config.source)
    notes += unknown
    gc.collect()  # models that have read and checked it, each as large as it
    _warn_of_content(checkpoint, config.source)
    weights = checkpoint.weights
    print_fn(
        f"Model:  {_describe(checkpoint)}; {len(weights)} arrays, "
        f"{sum(value.size for value in weights.values()):,} weights, "
        f"{len(checkpoint.slots)} moments"
    )
    print_fn(f"Text:   {_describe_tokenizer(checkpoint.description)}")
    target_format = make_format(config.target_format, families)
    with (
        kept_from_training(config.output_dir, "--output"),
        whole_folder(config.output_dir) as folder,
    ):
        notes += target_format.write(checkpoint, folder)
        _check_nesting(checkpoint, config.source, output, folder)
        written = _files_below(folder)
        _check_shadowing(target_format.shadowing, folder, config.output_dir)
        if not config.overwrite and _has_content(output, besides=os.path.basename(folder)):
            raise UserError(
                f"Another program has written to --output={output} meanwhile: pass another "
                "folder, or --overwrite"
            )
        if checkpoint_names(folder):  # those of the output folder may be of later steps
            for name in checkpoint_names(config.output_dir):
                remove_checkpoint(os.path.join(config.output_dir, name))
    earlier = _earlier_files(output, written)
    if earlier:
        warn_once(
            f"--output={output} still has earlier files, which are not part of the new "
            f"model: {', '.join(earlier)}"
        )
    for note in dict.fromkeys(notes):  # both folders of a pair can have it
        print_fn(f"No counterpart: {note}")
    print_fn(f"Output: {config.output_dir} ({config.target_format})")


def _refuse_source(output: pathlib.Path, source: str) -> NoReturn:
    raise UserError(
        f"--output={output}: files of {FROM_FLAG}={source} would be replaced; pass another "
        "folder"
    )


def _check_nesting(
    checkpoint: ModelCheckpoint, source: str, output: pathlib.Path, written: str
) -> None:
    """Refuses an output above or below the source, if files of the source would be replaced."""
    read, target = (os.path.realpath(p) for p in (containing_folder(source), output))
    if os.path.commonpath([read, target]) == target:
        if os.path.exists(os.path.join(written, os.path.relpath(read, target))):
            _refuse_source(output, source)
    elif os.path.commonpath([read, target]) == read and _has_content(output):
        part, *_ = pathlib.PurePath(os.path.relpath(target, read)).parts
        tasks = (task.name for task in checkpoint.description.tasks)
        if part in (DISCRIMINATOR_FOLDER, GENERATOR_FOLDER, ENCODER_FOLDER, *tasks):
            _refuse_source(output, source)


def _has_content(folder: pathlib.Path, besides: str | None = None) -> bool:
    return folder.exists() and any(path.name != besides for path in folder.iterdir())


def _files_below(folder: str | os.PathLike) -> set[str]:
    """Returns the paths of all files below a folder, relative to it."""
    return {
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
    }


def _earlier_files(output: str | os.PathLike, written: Collection[str]) -> list[str]:
    """Returns the earlier files of an output folder, also in the folders just written."""
    parts = {pathlib.PurePath(path).parts[0] for path in written}
    earlier = set(os.listdir(output)) - parts
    for part in parts:
        below = _files_below(os.path.join(output, part))
        earlier |= {os.path.join(part, path) for path in below}.difference(written)
    return sorted(earlier)


def _check_shadowing(names: Sequence[str], written: str, output: str) -> None:
    """Raises UserError if files in the output folder would be read instead of the new ones."""
    left = [
        os.path.join(output, name)
        for name in names
        if os.path.exists(os.path.join(output, name))
        and not os.path.exists(os.path.join(written, name))
    ]
    if left:
        raise UserError(
            f"--output={output} has files of another model, which would be read instead of the "
            f"new ones: {', '.join(left)}. Delete them, or pass another folder"
        )


def with_kinds(checkpoint: ModelCheckpoint, describe_task: DescribeTask) -> ModelCheckpoint:
    """Adds kinds and labels of tasks to a checkpoint whose format does not record them.

    Unknown labels get the names that transformers gives them. There is a note on each
    assumption.
    """
    tasks, notes = [], []
    for task in checkpoint.description.tasks:
        scope = f"{TASK_SCOPE}{task.name}/"
        head = checkpoint.part(scope)
        shapes = {name.removeprefix(scope): value.shape for name, value in head.items()}
        described, assumptions = (task, ()) if task.kind else describe_task(task.name, shapes)
        if task.kind is None and task.labels:
            described = dataclasses.replace(described, labels=task.labels)
        notes += [f"{TASK_SCOPE}{task.name}: {assumption}" for assumption in assumptions]
        bias = checkpoint.arrays.get(f"{scope}dense/bias")
        is_labeled = described.kind in LABELED_KINDS and bias is not None
        if is_labeled and len(described.labels) != bias.size:
            labels = default_labels(bias.size)
            described = dataclasses.replace(described, labels=labels)
            notes.append(
                f"{TASK_SCOPE}{task.name}: its labels are not recorded: named {labels[0]} to "
                f"{labels[-1]}"
            )
        tasks.append(described)
    description = dataclasses.replace(checkpoint.description, tasks=tuple(tasks))
    return dataclasses.replace(
        checkpoint, description=description, notes=(*checkpoint.notes, *notes)
    )


def _warn_of_content(checkpoint: ModelCheckpoint, source: str) -> None:
    """Warns of values that are converted unchanged, but make a model useless."""
    broken = [name for name, value in checkpoint.arrays.items() if not _is_finite(value)]
    if broken:
        warn_once(
            f"{source} has numbers that are not finite (NaN or infinity) in {len(broken)} of "
            f"{len(checkpoint.arrays)} arrays, such as {broken[0]}: they are converted "
            "unchanged"
        )
    for task in checkpoint.description.tasks:
        repeated = [label for label, n in collections.Counter(task.labels).items() if n > 1]
        if repeated:
            warn_once(
                f"{source}: {TASK_SCOPE}{task.name} has several outputs of the label "
                f"{repeated[0]!r}, which predictions cannot tell apart"
            )


def _is_finite(value: np.ndarray) -> bool:
    # Not `kind == "f"`: the floats of ml_dtypes have other kinds. Some arrays are strings.
    is_not_float = value.dtype.kind in "biuOSU"
    return is_not_float or bool(np.all(np.isfinite(value)))


def _with_heads(
    checkpoint: ModelCheckpoint, num_attention_heads: int, format_name: str
) -> ModelCheckpoint:
    description = checkpoint.description
    if format_name != "tf1" or description.hyperparameters:
        raise UserError(
            "--num_attention_heads is for checkpoints of the authors' code, which do not "
            f"record it; this one has {description.encoder.num_attention_heads}"
        )
    hidden_size = description.encoder.hidden_size
    if hidden_size % num_attention_heads:
        raise UserError(
            f"--num_attention_heads={num_attention_heads} does not divide the hidden size of "
            f"the checkpoint, {hidden_size}"
        )
    encoder = dataclasses.replace(description.encoder, num_attention_heads=num_attention_heads)
    description = dataclasses.replace(description, encoder=encoder, heads_recorded=True)
    return dataclasses.replace(checkpoint, description=description)


def _check_heads(checkpoint: ModelCheckpoint, config: ConversionConfig) -> None:
    description = checkpoint.description
    if not description.heads_recorded:
        raise UserError(
            f"{config.source} does not record its number of attention heads, and its size is "
            "not one of the published sizes: pass --num_attention_heads. The authors' default "
            f"is one head per 64 units, here {description.encoder.num_attention_heads}"
        )


def _with_tokenizer(
    checkpoint: ModelCheckpoint, config: ConversionConfig, source_format: CheckpointFormat
) -> ModelCheckpoint:
    """Returns the checkpoint with its tokenizer settings.

    If it does not record them, they are those of the flags, or those described beside the
    vocabulary.

    Raises:
        UserError: they contradict each other.
    """
    description = checkpoint.description
    found = source_format.settings(config.source, needs_vocabulary=False) or {}
    own_vocabulary = os.path.join(containing_folder(config.source), VOCAB_FILE)
    vocab_file = config.vocab_file or found.get("vocab_file", own_vocabulary)
    given = {name: getattr(config, name) for name in TOKENIZER_SETTINGS}
    if config.strip_accents and config.do_lower_case is False:
        warn_of_kept_accents("--strip_accents")
    if not description.tokenizer_recorded:
        settings = tokenizer_settings(given, vocab_file)
        hyperparameters = dict(description.hyperparameters)
        if hyperparameters:
            hyperparameters |= settings
        described = dataclasses.replace(
            description, **settings, hyperparameters=hyperparameters
        )
        return dataclasses.replace(checkpoint, description=described)
    recorded = {name: getattr(description, name) for name in TOKENIZER_SETTINGS}
    for name, value in given.items():
        if value not in (None, recorded[name]):
            raise UserError(
                f"--{name} is {json.dumps(value)}, but {config.source} records that it is "
                f"{json.dumps(recorded[name])}: omit the flag"
            )
    tokenizer_settings(
        recorded,
        vocab_file,
        flags={name: f"{name} of {FROM_FLAG}" for name in TOKENIZER_SETTINGS},
    )
    return checkpoint


def _with_vocabulary(
    checkpoint: ModelCheckpoint, config: ConversionConfig, notes: list[str]
) -> ModelCheckpoint:
    """Returns the checkpoint with a vocabulary of one token per embedding."""
    description = checkpoint.description
    vocabulary, where = description.vocabulary, f"The vocabulary of {config.source}"
    if config.vocab_file:
        given = load_vocabulary(config.vocab_file, "--vocab_file").path.read_bytes()
        if vocabulary and (other := describe_other_tokens(given, vocabulary)):
            warn_once(
                f"--vocab_file={config.vocab_file} is not the vocabulary of {config.source}: "
                f"{other}; these tokens get the embeddings of other tokens"
            )
        vocabulary = given
    if vocabulary is None:
        raise UserError(f"No vocabulary in {config.source}: pass --vocab_file")
    vocabulary = _fit_vocabulary(vocabulary, description.encoder.vocab_size, where, notes)
    try:
        parse_vocabulary(vocabulary, where, pathlib.Path(config.source))
    except UserError as error:
        raise UserError(f"{error}. Pass the model's vocabulary with --vocab_file") from error
    return dataclasses.replace(
        checkpoint, description=dataclasses.replace(description, vocabulary=vocabulary)
    )


def _describe_tokenizer(description: ModelDescription) -> str:
    if not description.do_lower_case:
        return "case and accents are kept"
    return f"lowercased, accents are {'stripped' if description.strip_accents else 'kept'}"


def _fit_vocabulary(vocabulary: bytes, size: int, where: str, notes: list[str]) -> bytes:
    """Returns a vocabulary of `size` distinct tokens, and adds notes on unused ones.

    Unused tokens replace empty lines and all but the last of equal lines, which transformers
    and the authors' code use. They also fill the vocabulary up to `size`.
    """
    try:
        given = vocabulary.decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{where}: {not_utf8(error)}. Pass another file with --vocab_file"
        ) from error
    lines = list(given)
    while len(lines) > size and not lines[-1].strip():
        lines.pop()
    if len(lines) > size:
        raise UserError(
            f"The vocabulary has {len(lines)} tokens, but the model has {size} embeddings: "
            "pass the model's vocabulary with --vocab_file"
        )
    last = {line.strip(): i for i, line in enumerate(lines)}
    unusable = [
        i for i, line in enumerate(lines) if not line.strip() or last[line.strip()] != i
    ]
    missing = range(len(lines), size)
    if unusable:
        notes.append(
            f"{len(unusable)} lines of the vocabulary are empty or repeated later: they become "
            "unused tokens"
        )
    if missing:
        notes.append(
            f"{len(missing)} embeddings have no token: unused tokens are added for them"
        )
    lines += [""] * len(missing)
    for i in (*unusable, *missing):
        lines[i] = UNUSED_TOKEN.format(i)
    if lines == given:
        return vocabulary
    return "".join(f"{line}\n" for line in lines).encode()


def _describe(checkpoint: ModelCheckpoint) -> str:
    encoder = checkpoint.description.encoder
    parts = [
        f"{encoder.num_hidden_layers} layers, {encoder.hidden_size} hidden, "
        f"{encoder.num_attention_heads} heads"
    ]
    parts += ["discriminator"] if checkpoint.has_discriminator else []
    parts += ["generator"] if checkpoint.has_masked_lm else []
    parts += [f"{task.kind} {task.name}" for task in checkpoint.description.tasks]
    return ", ".join(parts)
