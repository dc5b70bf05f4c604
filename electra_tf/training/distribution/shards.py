"""Which part of the examples a worker reads, and in which portions."""

import dataclasses

import numpy as np

from electra_tf.config.distribution import BY_FILE, BY_RECORD


@dataclasses.dataclass(frozen=True)
class DataShard:
    """One worker's part of the examples.

    Attributes:
        worker, num_workers: index of this worker, and how many there are.
        replicas: devices of this worker; each gets a batch of its own.
        by: BY_RECORD keeps the worker's rows of every global batch, so that the batches of
            all workers together are those of a single one. BY_FILE reads a share of the
            files, and shares the records of the files that do not come out even.
    """

    worker: int = 0
    num_workers: int = 1
    replicas: int = 1
    by: str = BY_RECORD

    @property
    def by_file(self) -> bool:
        """Whether several workers read files of their own."""
        return self.by == BY_FILE and self.num_workers > 1

    def rows(self, batch_size: int) -> tuple[int, int]:
        """Returns the first of the worker's rows in a global batch, and their number."""
        count = batch_size // self.num_workers
        return self.worker * count, count

    def split(self, rows: np.ndarray) -> np.ndarray:
        """Returns the worker's batches for its replicas, [batches * replicas, rows].

        Args:
            rows: [batches, batch_size], over all replicas.
        """
        first, count = self.rows(rows.shape[1])
        return rows[:, first : first + count].reshape(-1, count // self.replicas)

    def range(self, num_records: int) -> tuple[int, int]:
        """Returns which records of an epoch, from and until, are the worker's BY_FILE."""
        bounds = [(self.worker + i) * num_records // self.num_workers for i in range(2)]
        return bounds[0], bounds[1]


UNSHARDED = DataShard()
