"""Sharding of the examples among workers and replicas."""

import dataclasses

import numpy as np

from electra_tf.config.distribution import BY_FILE, BY_RECORD


@dataclasses.dataclass(frozen=True)
class DataShard:
    """One worker's share of the examples.

    Attributes:
        worker, num_workers: index of this worker, and number of workers.
        replicas: number of replicas of this worker.
        by: BY_RECORD keeps the worker's rows of every global batch, so the batches of all
            workers together equal those of a single one. BY_FILE reads a share of the files,
            splitting files at the boundaries of a share.
    """

    worker: int = 0
    num_workers: int = 1
    replicas: int = 1
    by: str = BY_RECORD

    @property
    def by_file(self) -> bool:
        """Whether several workers each read their own files."""
        return self.by == BY_FILE and self.num_workers > 1

    def rows(self, batch_size: int) -> tuple[int, int]:
        """Returns the worker's first row in a global batch, and its number of rows."""
        count = batch_size // self.num_workers
        return self.worker * count, count

    def split(self, rows: np.ndarray) -> np.ndarray:
        """Returns the batches of the worker's replicas, [batches * replicas, rows].

        Args:
            rows: [batches, batch_size], global batches.
        """
        first, count = self.rows(rows.shape[1])
        return rows[:, first : first + count].reshape(-1, count // self.replicas)

    def range(self, num_records: int) -> tuple[int, int]:
        """Returns the range of the worker's records in an epoch, for BY_FILE."""
        bounds = [(self.worker + i) * num_records // self.num_workers for i in range(2)]
        return bounds[0], bounds[1]


UNSHARDED = DataShard()
