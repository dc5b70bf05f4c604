"""The record files given by the flags of pre-training."""

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from electra_tf.config.phases import records_of_length
from electra_tf.config.pretraining import EVAL_FLAG, TRAIN_FLAG, PretrainingConfig
from electra_tf.config.resumption import DATA
from electra_tf.config.saved_config import load_saved_config
from electra_tf.masking.base import masking_class
from electra_tf.model_builder import model_class
from electra_tf.text.vocabulary import load_vocabulary
from electra_tf.util.console import discard, warn_once
from electra_tf.util.errors import UserError
from electra_tf.util.output_checks import check_not_input
from pretrain_data.records.files import content_identity, find_record_files, fingerprint
from pretrain_data.records.manifest import HELD_OUT_DIR, load_manifest
from pretrain_data.records.source import RecordFiles


def training_records(
    config: PretrainingConfig, print_fn: Callable[[str], None] = print
) -> RecordFiles:
    """Returns the training records, of every length of the curriculum.

    Args:
        config: configuration of the run.
        print_fn: prints a message about every skipped record.

    Raises:
        UserError: `--pretrain_tfrecords` gives no records of one of the lengths.
    """
    lengths = (*config.length_curriculum, config.max_seq_length)
    return RecordFiles(
        patterns={length: records_of_length(config, length) for length in lengths},
        vocab_size=_num_ids(config),
        flag=TRAIN_FLAG,
        seed=config.seed,
        shuffle_buffer_size=config.shuffle_buffer_size,
        deterministic=config.deterministic_reading,
        skip_bad_records=config.skip_bad_records,
        print_fn=print_fn,
    )


def count_trained_tokens(config: PretrainingConfig, vocab_size: int) -> np.ndarray:
    """Returns the token counts of the training records, int64 [vocab_size].

    Warns if the model in `model_dir` was trained on other records.

    Raises:
        UserError: they cannot be read, so a model that uses their counts cannot be evaluated.
    """
    try:
        records = training_records(config, discard)
        counts = records.token_counts(vocab_size)
        saved = load_saved_config(config.model_dir)
        trained_on = (saved.hyperparameters.get(DATA) or {}) if saved else {}
        length = max(records.patterns)
        if trained_on.get(str(length)) not in (None, records.fingerprint(length)):
            warn_once(
                f"the token frequencies of {TRAIN_FLAG} are used, but {config.model_dir} was "
                "trained on other records"
            )
        return counts
    except UserError as error:
        uses = [f"--masking={config.masking}"] if masking_class(config).needs_counts else []
        if model_class(config).generator_class(config).needs_counts:
            uses.append(f"--generator_type={config.generator_type}")
        raise UserError(
            f"{' and '.join(uses)}: evaluations need the token frequencies of the training "
            f"records, too. {error}"
        ) from error


def held_out_records(
    config: PretrainingConfig, print_fn: Callable[[str], None] = print
) -> RecordFiles | None:
    """Returns the records of `--eval_tfrecords`.

    If the flag is unset, returns the records held out beside the training records, or None if
    there are none; if it is empty, returns None.

    Args:
        config: configuration of the run.
        print_fn: prints a message about every skipped record.
    """
    patterns = config.eval_tfrecords
    if patterns is None:
        patterns = ",".join(_held_out_patterns(config))
    return _unrepeated_records(config, patterns, EVAL_FLAG, print_fn) if patterns else None


def warn_of_shared_files(training: RecordFiles, held_out: RecordFiles) -> None:
    """Warns of evaluated files that are also trained on, or are copies of trained ones."""
    trained = set(map(content_identity, training.files()))
    files = held_out.files()
    common = [path for path in files if content_identity(path) in trained]
    if common:
        warn_once(
            f"{len(common)} of {len(files)} evaluated files are trained on, such as "
            f"{common[0]}, so the metrics of {EVAL_FLAG} say little about new text"
        )


def warn_of_shared_shards(config: PretrainingConfig, evaluated: RecordFiles) -> None:
    """Warns of an evaluation on some of the training records, if these can be found.

    If it is on all of them, `electra_tf.pretraining.run_description.warn_of_training_records`
    warns.
    """
    try:
        training = training_records(config, discard)
        if fingerprint(training.files()) == fingerprint(evaluated.files()):
            return
        warn_of_shared_files(training, evaluated)
    except UserError:
        return  # an evaluation does not need them


def _held_out_patterns(config: PretrainingConfig) -> Iterator[str]:
    """Yields patterns of the records of --eval_fraction beside the training records."""
    try:
        files = find_record_files(records_of_length(config, config.max_seq_length), TRAIN_FLAG)
    except UserError:
        return  # reported where the training records are read
    yield from held_out_beside(files)


def held_out_beside(files: Sequence[str]) -> Iterator[str]:
    """Yields patterns of the records held out when these record files were built."""
    for folder in sorted(set(map(os.path.dirname, files))):
        held_out = os.path.join(folder, HELD_OUT_DIR)
        manifest = load_manifest(held_out)
        if manifest is not None and manifest.held_out:
            yield os.path.join(held_out, "pretrain_data.tfrecord*")


def evaluated_records(
    config: PretrainingConfig, print_fn: Callable[[str], None] = print
) -> RecordFiles:
    """Returns the records that `--do_eval` evaluates: held-out ones, else training records.

    Args:
        config: configuration of the run.
        print_fn: prints a message about every skipped record.

    Raises:
        UserError: there are none, or the results would overwrite one of their files.
    """
    patterns = records_of_length(config, config.max_seq_length)
    records = held_out_records(config, print_fn) or _unrepeated_records(
        config, patterns, TRAIN_FLAG, print_fn
    )
    for name in ("results_txt", "results_json", "results_pkl"):
        for path in records.files() if getattr(config, name) else ():
            check_not_input(getattr(config, name), f"--{name}", {records.flag: path})
    return records


def _unrepeated_records(
    config: PretrainingConfig, patterns: str, flag: str, print_fn: Callable[[str], None]
) -> RecordFiles:
    return RecordFiles(
        patterns={config.max_seq_length: patterns},
        vocab_size=_num_ids(config),
        flag=flag,
        skip_bad_records=config.skip_bad_records,
        repeat=False,
        print_fn=print_fn,
    )


def _num_ids(config: PretrainingConfig) -> int:
    """Returns the number of token ids; the embeddings may have more rows than tokens."""
    return min(config.vocab_size, load_vocabulary(config.vocab_file, "--vocab_file").size)
