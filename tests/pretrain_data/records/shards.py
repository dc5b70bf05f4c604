"""Five shards of TFRecords, and the ids that are read from them."""

import itertools

import tensorflow as tf

from pretrain_data.records.reader import read_pretraining_records

LENGTH = 16
SHARDS = (11, 1, 0, 14, 9)
TOTAL = sum(SHARDS)
SHUFFLED = {"seed": 7, "shuffle_buffer_size": 8}


def write_shard(path, ids) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i in ids:
            writer.write(make_record(i))


def make_record(i: int, length: int = LENGTH, names=("ids", "mask", "segments")) -> bytes:
    values = {
        "ids": ("input_ids", i),
        "mask": ("input_mask", 1),
        "segments": ("segment_ids", 0),
    }
    example = tf.train.Example()
    for name in names:
        feature, value = values[name]
        example.features.feature[feature].int64_list.value.extend([value] * length)
    return example.SerializeToString()


RECORD_BYTES = len(make_record(10)) + 16


def truncate(path, size) -> None:
    path.write_bytes(path.read_bytes()[:size])


def read(patterns, num_batches=None, **settings) -> list[list[int]]:
    """Ids of the examples, batch by batch."""
    settings = {"max_seq_length": LENGTH, "batch_size": 4} | settings
    dataset = read_pretraining_records(patterns, **settings)
    batches = itertools.islice(dataset.as_numpy_iterator(), num_batches)
    return [batch["input_ids"][:, 0].tolist() for batch in batches]
