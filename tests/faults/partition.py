"""One of two or three workers is cut off from the network, for good or for some seconds.

`python -m tests.faults.partition FIGURES --seed 1` gives each worker a network namespace, which
a bridge connects, and takes the port of one out of the bridge: what is sent is lost, and nobody
is told. All workers must end with the status of a lost worker, and a restart must train what
unhindered workers do. Needs root.
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
from typing import Any

from tests.faults.workers import LOST_STATUS, PROGRAM, Trials, wait_for
from tests.processes import Program, start_workers

FAULTS = ("cut", "cut for some seconds")
_SUBNET = "10.77.0"


class Network:
    """Network namespaces of workers and a bridge between them; end it by `close`.

    Raises:
        OSError, subprocess.CalledProcessError: this process may not make them, or the system
            has no such devices.
    """

    def __init__(self, count: int) -> None:
        self._holders: list[subprocess.Popen] = []
        try:
            self._switch = self._namespace()
            self._in(self._switch, "ip link add bridge type bridge")
            self._in(self._switch, "ip link set bridge up")
            self.paths = {f"{_SUBNET}.{i + 1}": self._add(i) for i in range(count)}
        except BaseException:
            self.close()
            raise

    def cut(self, worker: int) -> None:
        """Loses whatever is sent from and to a worker."""
        self._in(self._switch, f"ip link set port{worker} nomaster")

    def heal(self, worker: int) -> None:
        """Connects a worker again."""
        self._in(self._switch, f"ip link set port{worker} master bridge")

    def close(self) -> None:
        """Removes all."""
        for holder in self._holders:
            holder.kill()
            holder.wait()

    def _add(self, worker: int) -> str:
        process, port = self._namespace(), f"port{worker}"
        add = f"ip link add {port} type veth peer name eth0 netns {process}"
        for command in (add, f"ip link set {port} up"):
            self._in(self._switch, command)
        self.heal(worker)
        address = f"ip addr add {_SUBNET}.{worker + 1}/24 dev eth0"
        for command in (address, "ip link set eth0 up", "ip link set lo up"):
            self._in(process, command)
        return f"/proc/{process}/ns/net"

    def _namespace(self) -> int:
        """Returns a process in a network namespace of its own."""
        own = os.readlink("/proc/self/ns/net")
        # Ends with this process, whose end of the pipe it reads.
        holder = subprocess.Popen(
            ["unshare", "--net", "cat"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._holders.append(holder)
        while os.readlink(f"/proc/{holder.pid}/ns/net") == own:
            if holder.poll() is not None:
                raise OSError(holder.stderr.read().strip())
            time.sleep(0.01)
        return holder.pid

    def _in(self, process: int, command: str) -> None:
        enter = ["nsenter", f"--target={process}", "--net"]
        subprocess.run([*enter, *command.split()], check=True, capture_output=True)


class PartitionTrials(Trials):
    """Trials in which the workers have networks of their own."""

    def __init__(self, folder: pathlib.Path, seed: int, count: int) -> None:
        """Makes the networks; `network` must be closed."""
        super().__init__(folder, seed)
        self.network = Network(count)

    def start(self, settings: dict[str, Any], count: int) -> list[Program]:
        """See `Trials.start`."""
        return start_workers(PROGRAM, settings, count, networks=self.network.paths)

    def strike(
        self, fault: str, workers: list[Program], victim: int, generator: random.Random
    ) -> list[str]:
        """See `Trials.strike`; the worker that is cut off has lost the others, too."""
        self.network.cut(victim)
        if fault == "cut":
            problems = wait_for(workers, workers, LOST_STATUS)
            self.network.heal(victim)
            return problems
        time.sleep(generator.uniform(1, 3))
        self.network.heal(victim)
        return wait_for(workers, workers, 0)


def why_not() -> str | None:
    """Returns why this machine has no networks for workers; None if it has."""
    if os.geteuid():
        return "needs root"
    try:
        Network(1).close()
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", b"") or str(error).encode()
        return reason.decode(errors="replace").strip()
    return None


def main() -> None:
    """Reads the flags; exits with 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("figures", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, action="append")
    parser.add_argument("--fault", choices=FAULTS, action="append")
    options = parser.parse_args()
    found: dict[str, Any] = {"trials": [], "violations": []}
    reason = why_not()
    if reason:
        found["left_out"] = reason
    for count in () if reason else options.workers or (2, 3):
        with tempfile.TemporaryDirectory() as folder:
            trials = PartitionTrials(pathlib.Path(folder).resolve(), options.seed, count)
            try:
                for fault in options.fault or FAULTS:
                    trials.run(fault, count)
            finally:
                trials.network.close()
        for name in found:
            found[name] += trials.figures[name]
        options.figures.write_text(json.dumps(found, indent=2) + "\n")
    options.figures.write_text(json.dumps(found, indent=2) + "\n")
    sys.exit(bool(found["violations"]))


if __name__ == "__main__":
    main()
