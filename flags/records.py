"""The records that the flags of pre-training name."""

from collections.abc import Callable

from electra_tf.config.phases import records_of_length
from electra_tf.config.pretraining import EVAL_FLAG, TRAIN_FLAG, PretrainingConfig
from electra_tf.util.console import discard
from pretrain_data.records.source import RecordFiles


def training_records(
    config: PretrainingConfig, print_fn: Callable[[str], None] = print
) -> RecordFiles:
    """Returns the records to train on, of every length of the curriculum.

    Args:
        config: of the run.
        print_fn: gets a message about every skipped record.

    Raises:
        UserError: `--pretrain_tfrecords` does not say where the records of a length are.
    """
    lengths = (*config.length_curriculum, config.max_seq_length)
    return RecordFiles(
        patterns={length: records_of_length(config, length) for length in lengths},
        flag=TRAIN_FLAG,
        seed=config.seed,
        shuffle_buffer_size=config.shuffle_buffer_size,
        deterministic=config.deterministic_reading,
        skip_bad_records=config.skip_bad_records,
        print_fn=print_fn,
    )


def held_out_records(config: PretrainingConfig) -> RecordFiles | None:
    """Returns the records of `--eval_tfrecords`, if it is given."""
    if not config.eval_tfrecords:
        return None
    return _read_once(config, config.eval_tfrecords, EVAL_FLAG)


def evaluated_records(config: PretrainingConfig) -> RecordFiles:
    """Returns what `--do_eval` evaluates: held-out records, else some to train on."""
    patterns = records_of_length(config, config.max_seq_length)
    return held_out_records(config) or _read_once(config, patterns, TRAIN_FLAG)


def _read_once(config: PretrainingConfig, patterns: str, flag: str) -> RecordFiles:
    return RecordFiles(
        patterns={config.max_seq_length: patterns},
        flag=flag,
        skip_bad_records=config.skip_bad_records,
        repeat=False,
        print_fn=discard,
    )
