"""Distribution hyperparameters: devices and processes, for pre-training and fine-tuning.

No TensorFlow is imported here.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.hyperparameters import NOTHING, SYNONYM, hyperparameter
from electra_tf.util.console import warn_once
from electra_tf.util.errors import UserError

ONE_DEVICE, MIRRORED, MULTI_WORKER, TPU = "one_device", "mirrored", "multi_worker", "tpu"
STRATEGIES = (ONE_DEVICE, MIRRORED, MULTI_WORKER, TPU)
BY_RECORD, BY_FILE = "record", "file"
SHARDINGS = (BY_RECORD, BY_FILE)
DEVICES = ("auto", "cpu", "gpu")
# A host name or address without a scheme such as http://; IPv6 addresses are in brackets.
_HOST = re.compile(r"[^\s/:\[\]]+|\[[^\s/\[\]]+\]")
_TPU_ONLY = ("tpu_name", "tpu_zone", "gcp_project", "tpu_job_name")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistributionConfig:
    """Distribution of the computation; the TPU fields have the authors' names."""

    strategy: str = hyperparameter(
        ONE_DEVICE,
        "Distribution strategy: one_device; mirrored (the GPUs of this host); multi_worker "
        "(several processes or hosts); tpu.",
        STRATEGIES,
        influence=NOTHING,
    )
    device: str = hyperparameter(
        "auto",
        "Device type; auto uses a GPU if there is one, gpu requires one.",
        DEVICES,
        influence=NOTHING,
    )
    num_gpus: int | None = hyperparameter(
        None, "Number of GPUs this process uses; all if unset.", influence=NOTHING
    )
    num_virtual_cpus: int | None = hyperparameter(
        None,
        "Logical CPU devices, to test --strategy=mirrored without GPUs.",
        influence=NOTHING,
    )
    workers: Sequence[str] = hyperparameter(
        None,
        "multi_worker: host:port of every worker, chief first; TF_CONFIG if unset.",
        influence=NOTHING,
    )
    task_index: int | None = hyperparameter(
        None, "multi_worker: index of this process in --workers, from 0.", influence=NOTHING
    )
    worker_timeout: int = hyperparameter(
        600, "multi_worker: cluster start-up timeout, in seconds.", influence=NOTHING
    )
    max_starts_without_progress: int | None = hyperparameter(
        None,
        "Training: refuse to start after this many starts without a new checkpoint, so that a "
        "cluster manager does not restart a failing run forever; unlimited if unset.",
        influence=NOTHING,
    )
    shard_by: str = hyperparameter(
        "record",
        "multi_worker: auto-shard policy. record: every worker reads all files and keeps its "
        "rows of each batch, so results do not depend on the number of workers. file: every "
        "worker reads only its own files.",
        SHARDINGS,
    )
    gradient_accumulation_steps: int = hyperparameter(
        1, "Micro-batches per update on each replica.", influence=NOTHING
    )
    use_tpu: bool = hyperparameter(
        False,
        "The authors' name for --strategy=tpu. If explicitly false, the other TPU settings are "
        "ignored.",
        influence=SYNONYM,
    )
    tpu_name: str | None = hyperparameter(
        None,
        "tpu: name or grpc:// address of the TPU; the local TPU if unset.",
        influence=NOTHING,
    )
    tpu_zone: str | None = hyperparameter(
        None, "tpu: Compute Engine zone of the TPU; this machine's if unset.", influence=NOTHING
    )
    gcp_project: str | None = hyperparameter(
        None,
        "tpu: Google Cloud project of the TPU; this machine's if unset.",
        influence=NOTHING,
    )
    tpu_job_name: str | None = hyperparameter(
        None, "tpu: job name of the TPU workers.", influence=NOTHING
    )
    num_tpu_cores: int | None = hyperparameter(
        None, "tpu: expected number of TPU cores; not checked if unset.", influence=NOTHING
    )

    def check_distribution(self) -> None:
        """Raises UserError for an invalid combination, naming the flag."""
        for name in (
            "num_gpus",
            "num_virtual_cpus",
            "num_tpu_cores",
            "worker_timeout",
            "max_starts_without_progress",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name} must be positive, not {value}")
        self._check_devices()
        self._check_workers()
        self._check_tpu()

    def _check_devices(self) -> None:
        if self.num_gpus is not None and self.device == "cpu":
            raise UserError(
                f"--num_gpus={self.num_gpus} and --device=cpu are mutually exclusive"
            )
        if self.strategy == ONE_DEVICE and (self.num_gpus or 1) > 1:
            raise UserError(
                f"--num_gpus={self.num_gpus} needs --strategy=mirrored; --strategy=one_device "
                "uses one GPU"
            )
        if self.num_virtual_cpus is None:
            return
        if self.strategy != MIRRORED:
            raise UserError("--num_virtual_cpus needs --strategy=mirrored")
        if self.num_gpus is not None or self.device == "gpu":
            raise UserError(
                "--num_virtual_cpus cannot be combined with --num_gpus or --device=gpu"
            )

    def warn_of_unused_workers(self) -> None:
        """Warns of settings for several workers that have no effect on a single one."""
        if self.strategy == MULTI_WORKER:
            return
        for name in ("shard_by", "worker_timeout"):
            if getattr(self, name) != getattr(DistributionConfig, name):
                warn_once(
                    f"--{name}={getattr(self, name)} has no effect without "
                    f"--strategy={MULTI_WORKER}"
                )

    def _check_workers(self) -> None:
        if self.strategy != MULTI_WORKER:
            for name in ("workers", "task_index"):
                if getattr(self, name) is not None:
                    raise UserError(f"--{name} needs --strategy=multi_worker")
            return
        if bool(self.workers) != (self.task_index is not None):
            raise UserError("--workers and --task_index must be passed together")
        if not self.workers:
            return
        for address in self.workers:
            check_address(address, "--workers")
        if not 0 <= self.task_index < len(self.workers):
            raise UserError(
                f"--task_index must be between 0 and {len(self.workers) - 1} for "
                f"{len(self.workers)} --workers, not {self.task_index}"
            )
        if len(set(self.workers)) < len(self.workers):
            raise UserError("--workers lists an address twice: " + ",".join(self.workers))

    def _check_tpu(self) -> None:
        if self.strategy == TPU:
            if self.device != "auto" or self.num_gpus is not None:
                raise UserError("--strategy=tpu cannot be combined with --device or --num_gpus")
            return
        for name in _TPU_ONLY:
            if getattr(self, name) is not None:
                raise UserError(f"--{name} needs --strategy=tpu")
        if (self.num_tpu_cores or 1) > 1:  # the authors' default, without a TPU, is 1
            raise UserError(f"--num_tpu_cores={self.num_tpu_cores} needs --strategy=tpu")


def without_unused_tpu(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given settings, without those of a TPU if `use_tpu` is explicitly false.

    As in the authors' code, a file of hyperparameters then works with and without a TPU.
    """
    is_unused = given.get("use_tpu") is False and given.get("strategy") != TPU
    unused = (*_TPU_ONLY, "num_tpu_cores") if is_unused else ()
    return {name: value for name, value in given.items() if name not in unused}


def distribution_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults that depend on the strategy.

    On a TPU the default precision is mixed_bfloat16, its native matmul type.

    Raises:
        UserError: `use_tpu` is given together with another strategy.
    """
    strategy = given.get("strategy")
    if given.get("use_tpu"):
        if strategy not in (None, TPU):
            raise UserError(f"--use_tpu and --strategy={strategy} are mutually exclusive")
        strategy = TPU
    return {"strategy": TPU, "precision": "mixed_bfloat16"} if strategy == TPU else {}


def on_one_device(config: Any) -> Any:
    """Returns a copy of `config` that runs on one device of this machine."""
    defaults = {f.name: f.default for f in dataclasses.fields(DistributionConfig)}
    return dataclasses.replace(config, **defaults)


def refuse_several_hosts(config: DistributionConfig, program: str) -> None:
    """Raises UserError for settings of workers in a program that runs on one host.

    Args:
        config: settings of training, whose flags such programs also have.
        program: name of the program, for the message.
    """
    if config.strategy == MULTI_WORKER:
        raise UserError(
            f"{program} runs on one host: remove --strategy={MULTI_WORKER}, --workers and "
            "--task_index"
        )


def check_batch_size(
    flag: str, batch_size: int, num_replicas: int, accumulation_steps: int = 1
) -> None:
    """Raises UserError unless the replicas can split the global batch evenly.

    Args:
        flag: name of the batch size's flag.
        batch_size: global batch size.
        num_replicas: number of replicas.
        accumulation_steps: micro-batches per replica.
    """
    unit = num_replicas * accumulation_steps
    if batch_size % unit:
        below = batch_size // unit * unit
        choices = [str(size) for size in (below, below + unit) if size]
        each = ""
        if accumulation_steps > 1:
            each = f" with --gradient_accumulation_steps={accumulation_steps} each"
        raise UserError(
            f"{flag}={batch_size} is the global batch size and cannot be split evenly over "
            f"{num_replicas} replicas{each}: pass {' or '.join(choices)}"
        )


def warn_of_repeated_examples(batch_size: int, num_examples: int) -> None:
    """Warns of a training batch that is larger than the data."""
    if num_examples < batch_size:
        warn_once(
            f"--train_batch_size={batch_size} is more than the {num_examples:,} training "
            "examples, so every batch repeats some of them"
        )


def check_accumulation(batch_size: int, gradient_accumulation_steps: int) -> None:
    """Raises UserError unless a batch splits into equal micro-batches."""
    if batch_size % gradient_accumulation_steps:
        raise UserError(
            f"--train_batch_size={batch_size} is not a multiple of "
            f"--gradient_accumulation_steps={gradient_accumulation_steps}, the number of "
            "micro-batches per update"
        )


def check_address(address: Any, source: str) -> None:
    """Raises UserError unless `address` has the form host:port, or [host]:port for IPv6."""
    host, _, port = str(address).rpartition(":")
    is_host = _HOST.fullmatch(host) is not None and _is_encodable(host)
    if not is_host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(
            f"{source}: {address!r} must be host:port, such as node1:2222 or [::1]:2222"
        )


def _is_encodable(host: str) -> bool:
    """Whether a resolver accepts a host name, unlike one with an empty label (`a..b`)."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
