"""Workers that meet, that do not, and that were started wrongly; threads stand for them."""

import concurrent.futures
import socket

import pytest

from electra_tf.training.distribution.cluster import Cluster
from electra_tf.training.distribution.rendezvous import wait_for_workers
from electra_tf.util.errors import UserError, WorkerLostError
from tests.processes import free_ports


def addresses(count: int) -> tuple[str, ...]:
    return tuple(f"127.0.0.1:{port}" for port in free_ports(count))


def meet_all(*clusters: Cluster, timeout: float = 30) -> list[BaseException | None]:
    """Returns how the meeting ended for each."""
    with concurrent.futures.ThreadPoolExecutor(len(clusters)) as threads:
        ends = [threads.submit(wait_for_workers, cluster, timeout) for cluster in clusters]
        return [end.exception() for end in ends]


def test_all_go_on_when_the_last_has_come():
    workers = addresses(3)
    assert meet_all(*(Cluster(workers, i) for i in (2, 0, 1))) == [None] * 3
    assert meet_all(*(Cluster(workers, i) for i in range(3))) == [None] * 3  # ports are free
    assert meet_all(Cluster(workers[:1], 0)) == [None]


def test_who_is_missing_is_named_after_the_timeout():
    workers = addresses(3)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        other = threads.submit(wait_for_workers, Cluster(workers, 1), 6)
        chief = threads.submit(wait_for_workers, Cluster(workers, 0), 3)
    for error in (chief.exception(), other.exception()):
        assert isinstance(error, WorkerLostError)
        assert "--worker_timeout" in str(error)
    assert f"s for worker 2 ({workers[2]}): check" in str(chief.exception())
    assert f"s for worker 0 ({workers[0]}): check" in str(other.exception())


def test_strangers_at_the_door_are_passed_over():
    workers = addresses(2)
    host, port = workers[0].split(":")
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        chief = threads.submit(wait_for_workers, Cluster(workers, 0), 30)
        while True:
            try:
                stranger = socket.create_connection((host, int(port)))
                break
            except OSError:
                continue
        with stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n")
            worker = threads.submit(wait_for_workers, Cluster(workers, 1), 30)
            assert chief.exception() is worker.exception() is None


def test_a_list_of_workers_that_differs_is_refused():
    first, second, third = addresses(3)
    chief, _ = meet_all(Cluster((first, second), 0), Cluster((first, third), 1), timeout=3)
    assert isinstance(chief, UserError)
    assert f"--workers={first},{third}, the chief with {first},{second}" in str(chief)


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=f"Worker 0 cannot serve at {address}"):
            wait_for_workers(Cluster((address,), 0), 1)
