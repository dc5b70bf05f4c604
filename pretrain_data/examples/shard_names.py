"""Names of the files that records are written to; no TensorFlow is imported here."""

SHARD_PREFIX = "pretrain_data.tfrecord"


def shard_name(index: int, num_shards: int) -> str:
    """File name of one shard: `pretrain_data.tfrecord-{index}-of-{num_shards}`."""
    return f"{SHARD_PREFIX}-{index}-of-{num_shards}"
