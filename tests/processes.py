"""Runs programs of the repository as processes of their own, alone or as workers."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.fork_server import ROOT, ForkedProgram

Program = subprocess.Popen | ForkedProgram
# Long for what they do, since other tests may run beside.
TIMEOUT = 1500


def start(
    program: str,
    settings: Mapping[str, Any],
    *flags: str,
    fresh: bool = False,
    network: str | None = None,
    folder: os.PathLike | None = None,
) -> Program:
    """Starts a program with hyperparameters as flags; its output is captured.

    Args:
        program: file, relative to the root of the repository.
        settings: hyperparameters.
        *flags: further flags.
        fresh: start it as users do; otherwise as a fork, which takes seconds less.
        network: network namespace of a fork; see `ForkedProgram`.
        folder: working directory of a fresh program; None is the root of the repository.
    """
    arguments = [*(f"--{name}={_spell(value)}" for name, value in settings.items()), *flags]
    environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    if not fresh:
        return ForkedProgram(program, arguments, environment, network)
    return subprocess.Popen(
        [sys.executable, os.path.join(ROOT, program), *arguments],
        cwd=folder or ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_workers(
    program: str,
    settings: Mapping[str, Any],
    count: int = 2,
    changes: Mapping[int, Mapping[str, Any]] | None = None,
    *,
    fresh: bool = False,
    networks: Mapping[str, str] | None = None,
    folders: Sequence[os.PathLike] | None = None,
) -> list[Program]:
    """Starts workers that find each other on this machine; see `start`.

    Args:
        program: file, relative to the root of the repository.
        settings: hyperparameters.
        count: number of workers.
        changes: other hyperparameters of some workers, by index.
        fresh: start them as users do, not as forks.
        networks: network namespaces by address in them, one for each worker; without, all
            are on the loopback interface.
        folders: working directory of each of the fresh workers.
    """
    changes = changes or {}
    hosts = [*(networks or ())] or ["127.0.0.1"] * count
    ports = free_ports(count)
    addresses = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=True))
    cluster = ("--strategy=multi_worker", "--device=cpu", f"--workers={addresses}")
    given = [{**settings, **changes.get(i, {})} for i in range(count)]
    return [
        start(
            program,
            given[i],
            *cluster,
            f"--task_index={i}",
            fresh=fresh,
            network=(networks or {}).get(hosts[i]),
            folder=folders[i] if folders else None,
        )
        for i in range(count)
    ]


def finish(processes: Sequence[Program]) -> list[tuple[int, str, str]]:
    """Waits for the ends; returns exit status, standard output and error of each."""
    try:
        outputs = [process.communicate(timeout=TIMEOUT) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [
        (process.returncode, *output)
        for process, output in zip(processes, outputs, strict=True)
    ]


def wait_until(condition: Callable[[], bool], processes: Sequence[Program]) -> None:
    """Returns when `condition` holds; fails where a process ends before."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        ended = any(process.poll() is not None for process in processes)
        if ended or time.monotonic() > deadline:
            for process in processes:
                process.kill()
            outputs = [process.communicate() for process in processes]
            raise AssertionError(f"Too early or too late: {outputs}")
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Returns ports of the loopback interface that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _spell(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)
