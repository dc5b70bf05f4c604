"""Cores of the CPU that a process may use, within the CPU limit of its container.

Such a limit, as set by `docker run --cpus=2` or Kubernetes, restricts CPU time, not cores.
TensorFlow starts a thread for each of the host's cores; they use up the time, and then wait.
With a limit of one core, training is 1.2 to 1.6 times as fast with one thread as with 16
(benchmarks/RESULTS.md, "CPU limits of containers").
"""

import math
import os
from collections.abc import Iterator

# Environment variables of TensorFlow: threads per operation, and operations in parallel.
INTRAOP_THREADS, INTEROP_THREADS = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"

# Where Linux mounts control groups, and the file that lists the groups of a process.
_GROUPS = "/sys/fs/cgroup"
_OWN_GROUPS = "/proc/self/cgroup"


def num_cores() -> int:
    """Returns how many cores the process may use, by its affinity and CPU limit."""
    return limited_cores() or _scheduled_cores()


def limited_cores() -> int | None:
    """Returns the CPU limit in cores, rounded up; None unless it is below the affinity."""
    limit = cpu_limit()
    return math.ceil(limit) if limit <= _scheduled_cores() - 1 else None


def cpu_limit(groups: str = _GROUPS, own_groups: str = _OWN_GROUPS) -> float:
    """Returns the CPU limit in cores, the lowest of all control groups of the process.

    Args:
        groups: where control groups are mounted.
        own_groups: file that lists the process's groups.

    Returns:
        A positive number; infinite without a limit, or without control groups.
    """
    limits = [_read_limit(folder) for folder in _group_folders(groups, own_groups)]
    return min(limits, default=math.inf)


def _scheduled_cores() -> int:
    """Returns how many cores the process may run on, which is what TensorFlow counts."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _group_folders(groups: str, own_groups: str) -> Iterator[str]:
    """Yields the folders of the process's CPU groups and of their parents.

    In a container, the path is often the host's, and only its topmost parent, the mount itself,
    exists: it is the group of the container.
    """
    try:
        with open(own_groups, encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return
    for _, controllers, path in lines:
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = [name for name in path.split("/") if name]
        # Version 1 mounts each set of controllers under its name, with links for each of them.
        for mount in {controllers, "cpu"} if controllers else {""}:
            for depth in range(len(names) + 1):
                yield os.path.join(groups, mount, *names[:depth])


def _read_limit(folder: str) -> float:
    """Returns the limit of a control group, in cores."""
    # Version 2 has both numbers in one file. No limit is "max" there, and -1 in version 1.
    v2, v1 = ["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    for names in (v2, v1):
        values = []
        for name in names:
            try:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    values += file.read().split()
            except OSError:
                break
        if len(values) == 2 and all(value.isdecimal() for value in values):
            quota, period = map(int, values)
            if quota and period:
                return quota / period
    return math.inf
