"""The workers of a run, from flags or TF_CONFIG.

TF_CONFIG is TensorFlow's environment variable, usually set by a cluster manager:

    {"cluster": {"worker": ["host1:2222", "host2:2222"]},
     "task": {"type": "worker", "index": 0}}

No TensorFlow is imported here.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from electra_tf.config.distribution import check_address
from electra_tf.util.errors import UserError

VARIABLE = "TF_CONFIG"
_JOBS = ("chief", "worker")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Address (host:port) of each worker, chief first, and the index of this one."""

    workers: tuple[str, ...]
    task_index: int


def find_cluster(
    workers: Sequence[str] | None, task_index: int | None, environment: Mapping[str, str]
) -> Cluster:
    """Returns the cluster described by flags or TF_CONFIG.

    Raises:
        UserError: both are missing, they differ, or TF_CONFIG is malformed.
    """
    named = cluster_of_environment(environment)
    if not workers:
        if named is None:
            raise UserError(
                "--strategy=multi_worker needs the addresses of the workers: pass --workers "
                f"host:port,host:port and --task_index, or set {VARIABLE}"
            )
        return named
    given = Cluster(tuple(workers), task_index)
    if named is not None and named != given:
        raise UserError(
            f"--workers={','.join(workers)} --task_index={task_index} and {VARIABLE} "
            f"(workers {','.join(named.workers)}, index {named.task_index}) differ: unset one"
        )
    return given


def cluster_of_environment(environment: Mapping[str, str]) -> Cluster | None:
    """Returns the cluster of TF_CONFIG, or None if it has none.

    The job "chief" becomes worker 0.

    Raises:
        UserError: TF_CONFIG is malformed.
    """
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{VARIABLE} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{VARIABLE} must be a JSON object, not {text!r}")
    jobs = content.get("cluster")
    if not jobs:
        return None
    if not isinstance(jobs, dict) or not all(isinstance(v, list) for v in jobs.values()):
        raise UserError(f'{VARIABLE}: "cluster" must map each job to a list of addresses')
    unknown = sorted(set(jobs) - set(_JOBS))
    if unknown:
        raise UserError(
            f'{VARIABLE}: unsupported jobs {", ".join(unknown)}; "cluster" may have '
            f"{' and '.join(_JOBS)}"
        )
    workers = tuple(address for job in _JOBS for address in jobs.get(job, []))
    for address in workers:
        check_address(address, VARIABLE)
    if len(set(workers)) < len(workers):
        raise UserError(f"{VARIABLE} lists an address twice: {', '.join(workers)}")
    return Cluster(workers, _task_index(content.get("task"), jobs))


def _task_index(task: Any, jobs: Mapping[str, Sequence[str]]) -> int:
    wrong = UserError(
        f'{VARIABLE}: "task" must name one of the workers, such as '
        f'{{"type": "worker", "index": 0}}, not {json.dumps(task)}'
    )
    kind, index = (
        (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    )
    if not isinstance(kind, str) or kind not in jobs:
        raise wrong
    if isinstance(index, str) and index.strip().isdecimal():  # from a shell variable
        index = int(index)
    if type(index) is not int or not 0 <= index < len(jobs[kind]):
        raise wrong
    return index + (len(jobs.get("chief", [])) if kind == "worker" else 0)
