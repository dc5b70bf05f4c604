"""Hyperparameters that say on which devices and processes a program runs.

Pre-training and fine-tuning share them. No TensorFlow is imported here.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.hyperparameters import hyperparameter
from electra_tf.util.errors import UserError

ONE_DEVICE, MIRRORED, MULTI_WORKER, TPU = "one_device", "mirrored", "multi_worker", "tpu"
STRATEGIES = (ONE_DEVICE, MIRRORED, MULTI_WORKER, TPU)
BY_RECORD, BY_FILE = "record", "file"
SHARDINGS = (BY_RECORD, BY_FILE)
DEVICES = ("auto", "cpu", "gpu")
_TPU_ONLY = ("tpu_name", "tpu_zone", "gcp_project", "tpu_job_name")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistributionConfig:
    """Where the work is done; the TPU's fields have the authors' names."""

    strategy: str = hyperparameter(
        ONE_DEVICE,
        "Where the work is done: one_device; mirrored, the GPUs of this host; multi_worker, "
        "several processes or hosts; tpu.",
        STRATEGIES,
    )
    device: str = hyperparameter(
        "auto", "gpu fails where TensorFlow finds none; auto then takes the CPU.", DEVICES
    )
    num_gpus: int | None = hyperparameter(
        None, "GPUs that this process uses; all it has if unset."
    )
    num_virtual_cpus: int | None = hyperparameter(
        None, "Split the CPU into this many devices, to try --strategy=mirrored without GPUs."
    )
    workers: Sequence[str] = hyperparameter(
        None, "multi_worker: host:port of every worker, the chief first; TF_CONFIG if unset."
    )
    task_index: int | None = hyperparameter(
        None, "multi_worker: which of --workers this process is, from 0."
    )
    worker_timeout: int = hyperparameter(
        600, "multi_worker: seconds that the start waits for the other workers."
    )
    shard_by: str = hyperparameter(
        "record",
        "multi_worker: record reads all files on every worker and keeps its rows of each "
        "batch, so that any number of workers trains alike; file reads only its own.",
        SHARDINGS,
    )
    gradient_accumulation_steps: int = hyperparameter(
        1, "Parts that a device computes its share of a batch in, one by one, to save memory."
    )
    use_tpu: bool = hyperparameter(False, "The authors' name of --strategy=tpu.")
    tpu_name: str | None = hyperparameter(
        None, "tpu: name or grpc:// address of the TPU; the TPU of this machine if unset."
    )
    tpu_zone: str | None = hyperparameter(None, "tpu: its zone; that of this machine if unset.")
    gcp_project: str | None = hyperparameter(
        None, "tpu: its project; that of this machine if unset."
    )
    tpu_job_name: str | None = hyperparameter(None, "tpu: name of the TPU workers' job.")
    num_tpu_cores: int | None = hyperparameter(
        None, "tpu: cores that must be there; any if unset."
    )

    def check_distribution(self) -> None:
        """Raises UserError for a combination that cannot be, naming the flag."""
        for name, choices in (
            ("strategy", STRATEGIES),
            ("device", DEVICES),
            ("shard_by", SHARDINGS),
        ):
            if getattr(self, name) not in choices:
                raise UserError(
                    f"--{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        for name in ("num_gpus", "num_virtual_cpus", "num_tpu_cores", "worker_timeout"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name} must be positive, not {value}")
        self._check_devices()
        self._check_workers()
        self._check_tpu()

    def _check_devices(self) -> None:
        if self.num_gpus is not None and self.device == "cpu":
            raise UserError(f"--num_gpus={self.num_gpus} and --device=cpu exclude each other")
        if self.strategy == ONE_DEVICE and (self.num_gpus or 1) > 1:
            raise UserError(
                f"--num_gpus={self.num_gpus} needs --strategy=mirrored; --strategy=one_device "
                "uses one"
            )
        if self.num_virtual_cpus is None:
            return
        if self.strategy != MIRRORED:
            raise UserError("--num_virtual_cpus needs --strategy=mirrored")
        if self.num_gpus is not None or self.device == "gpu":
            raise UserError("--num_virtual_cpus takes the place of GPUs: leave one of them out")

    def _check_workers(self) -> None:
        if self.strategy != MULTI_WORKER:
            for name in ("workers", "task_index"):
                if getattr(self, name) is not None:
                    raise UserError(f"--{name} needs --strategy=multi_worker")
            return
        if bool(self.workers) != (self.task_index is not None):
            raise UserError("--workers and --task_index belong together: pass both or neither")
        if not self.workers:
            return
        for address in self.workers:
            check_address(address, "--workers")
        if not 0 <= self.task_index < len(self.workers):
            raise UserError(
                f"--task_index must lie between 0 and {len(self.workers) - 1} for the "
                f"{len(self.workers)} --workers, it is {self.task_index}"
            )
        if len(set(self.workers)) < len(self.workers):
            raise UserError("--workers names an address twice: " + ",".join(self.workers))

    def _check_tpu(self) -> None:
        if self.strategy == TPU:
            if self.device != "auto" or self.num_gpus is not None:
                raise UserError("--strategy=tpu takes neither --device nor --num_gpus")
            return
        for name in _TPU_ONLY:
            if getattr(self, name) is not None:
                raise UserError(f"--{name} needs --strategy=tpu")
        if (self.num_tpu_cores or 1) > 1:  # the authors' default, without a TPU, is 1
            raise UserError(f"--num_tpu_cores={self.num_tpu_cores} needs --strategy=tpu")


def distribution_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults that follow from the strategy that is asked for.

    A TPU multiplies in bfloat16, so that is the precision there if none is given.

    Raises:
        UserError: `use_tpu` stands beside another strategy.
    """
    strategy = given.get("strategy")
    if given.get("use_tpu"):
        if strategy not in (None, TPU):
            raise UserError(f"--use_tpu and --strategy={strategy} exclude each other")
        strategy = TPU
    return {"strategy": TPU, "precision": "mixed_bfloat16"} if strategy == TPU else {}


def on_one_device(config: Any) -> Any:
    """Returns a `DistributionConfig` for one device of this machine, otherwise the same."""
    defaults = {f.name: f.default for f in dataclasses.fields(DistributionConfig)}
    return dataclasses.replace(config, **defaults)


def check_batch_size(
    flag: str, batch_size: int, num_replicas: int, accumulation_steps: int = 1
) -> None:
    """Raises UserError where a global batch cannot be shared evenly among the replicas.

    Args:
        flag: of the batch size.
        batch_size: examples over all replicas.
        num_replicas: among which they are shared.
        accumulation_steps: equal parts that each replica splits its share into.
    """
    unit = num_replicas * accumulation_steps
    if batch_size % unit:
        below = batch_size // unit * unit
        choices = [str(size) for size in (below, below + unit) if size]
        each = ""
        if accumulation_steps > 1:
            each = f" with --gradient_accumulation_steps={accumulation_steps} each"
        raise UserError(
            f"{flag}={batch_size} counts the examples over all devices and cannot be shared "
            f"evenly among {num_replicas} replicas{each}: pass {' or '.join(choices)}"
        )


def check_accumulation(batch_size: int, gradient_accumulation_steps: int) -> None:
    """Raises UserError unless a batch can be split into the parts that are asked for."""
    if batch_size % gradient_accumulation_steps:
        raise UserError(
            f"--train_batch_size={batch_size} is not a multiple of "
            f"--gradient_accumulation_steps={gradient_accumulation_steps}: a batch is computed "
            "in that many equal parts"
        )


def check_address(address: Any, source: str) -> None:
    """Raises UserError unless `address` has the form host:port."""
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"{source}: {address!r} must be host:port, such as node1:2222")
