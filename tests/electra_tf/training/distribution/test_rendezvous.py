"""Workers that meet, that do not, and that were started wrongly; threads stand for them."""

import concurrent.futures
import contextlib
import socket
import time
import unittest.mock

import pytest

from electra_tf.training.distribution import rendezvous
from electra_tf.training.distribution.cluster import Cluster
from electra_tf.training.distribution.rendezvous import AnotherChief, wait_for_workers
from electra_tf.training.distribution.worker_reports import Report, check_report, read_report
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


def test_a_name_that_is_not_resolved_is_told():
    (own,) = addresses(1)
    with pytest.raises(WorkerLostError, match=r"worker 0 \(none\.invalid:1: .+\): check"):
        wait_for_workers(Cluster(("none.invalid:1", own), 1), 1)


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
    ends = meet_all(Cluster((first, second), 0), Cluster((first, third), 1))
    for end in ends:
        assert isinstance(end, UserError)
        assert f"--workers={first},{third}, the chief with {first},{second}" in str(end)


def test_settings_that_differ_are_refused_by_all():
    workers = addresses(3)
    settings = {"version": "1", "train_batch_size": 8, "buckets": (1, 2)}
    other = settings | {"version": "2", "train_batch_size": 16}
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        ends = [
            threads.submit(wait_for_workers, Cluster(workers, i), 30, given)
            for i, given in enumerate((settings, settings, other))
        ]
        problems = [end.exception() for end in ends]
    for problem in problems:
        assert isinstance(problem, UserError)
        assert "train_batch_size: 8 on worker 0, 16 on worker 2" in str(problem)
        assert "version: '1' on worker 0, '2' on worker 2" in str(problem)
        assert "buckets" not in str(problem)


def test_a_worker_that_starts_after_a_refusal_is_told_too():
    workers = addresses(3)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        ends = [
            threads.submit(wait_for_workers, Cluster(workers, i), 30, {"seed": i})
            for i in (0, 2)
        ]
        time.sleep(1.5)  # the chief has refused worker 2
        ends.append(threads.submit(wait_for_workers, Cluster(workers, 1), 30, {"seed": 0}))
        problems = [end.exception() for end in ends]
    for problem in problems:
        assert isinstance(problem, UserError)
        assert "seed: 0 on worker 0, 2 on worker 2" in str(problem)
    assert time.monotonic() - start < 15


def test_a_silent_stranger_does_not_stretch_a_refusal(monkeypatch):
    monkeypatch.setattr(rendezvous, "_REFUSAL_SECONDS", 1.0)
    workers = addresses(3)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        ends = [
            threads.submit(wait_for_workers, Cluster(workers, i), 30, {"seed": i})
            for i in (0, 2)
        ]
        assert "seed: 0 on worker 0" in str(ends[1].exception())
        with connect(workers[0]):  # and worker 1 never comes
            assert isinstance(ends[0].exception(), UserError)
    assert time.monotonic() - start < 4


@pytest.fixture
def impatient(monkeypatch):
    """The chief does not wait long for workers that it could refuse."""
    monkeypatch.setattr(rendezvous, "_REFUSAL_SECONDS", 0.1)


def connect(address: str) -> socket.socket:
    host, port = address.split(":")
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except OSError:
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (1, "Two workers have --task_index=1: it must be unique"),
        (0, "Two workers have --task_index=0: it must be unique"),
        (3, "--task_index=3, but there are 3 workers, from 0 to 2"),
        (-1, "--task_index=-1, but there are 3 workers"),
    ],
)
def test_an_index_that_is_taken_or_out_of_range_is_refused_by_all(impatient, index, message):
    """The other one is on another host, so that its port is free."""
    workers = addresses(3)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(wait_for_workers, Cluster(workers, i), 30) for i in (0, 1)]
        time.sleep(1)  # both have met
        with connect(workers[0]) as stranger:
            stranger.sendall(Report(index, list(workers), {}, "another").line().encode())
            answer = stranger.makefile().readline()
        problems = [end.exception() for end in ends]
    assert answer.startswith("stop ")
    assert message in answer
    for problem in problems:
        assert isinstance(problem, UserError)
        assert message in str(problem)


def test_a_chief_finds_another_one_at_its_address(impatient):
    """Index 0 was passed on two hosts: the second one learns it from the first."""
    first, second = addresses(2)
    ours = Report(0, [first, second], {}, "ours")
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        chief = threads.submit(wait_for_workers, Cluster((first, second), 0), 30)
        with AnotherChief(ours) as another:
            assert isinstance(chief.exception(), UserError)
            time.sleep(0.2)
            with pytest.raises(UserError, match="Two workers have --task_index=0"):
                another.check()


def test_another_version_is_refused(impatient):
    workers = addresses(2)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        chief = threads.submit(wait_for_workers, Cluster(workers, 0), 30)
        with connect(workers[0]) as old:
            old.sendall(f"electra worker 1 of {','.join(workers)}\n".encode())
            assert "another version" in str(chief.exception())


def test_slow_and_endless_strangers_do_not_stretch_the_timeout():
    workers = addresses(2)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        chief = threads.submit(wait_for_workers, Cluster(workers, 0), 2)
        with connect(workers[0]) as stranger, contextlib.suppress(OSError):
            while not chief.done():
                stranger.sendall(b"x")
                time.sleep(0.1)
        assert isinstance(chief.exception(), WorkerLostError)
    assert time.monotonic() - start < 4


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=f"Worker 0 cannot serve at {address}"):
            wait_for_workers(Cluster((address,), 0), 1)


def test_who_is_missing_is_printed_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(rendezvous, "_SECONDS_BETWEEN_MESSAGES", -1.0)
    deadline = rendezvous.Deadline(Cluster(("a:1", "b:2"), 1), 30)
    deadline.check("worker 0 (a:1)")
    assert capsys.readouterr().err == "Worker 1 is waiting for worker 0 (a:1) …\n"


def test_many_differences_are_counted():
    settings = {f"setting_{i:02d}": i for i in range(13)}
    ours = Report(0, ["a:1", "b:2"], settings, "x")
    theirs = Report(1, ours.workers, dict.fromkeys(settings, -1), "y")
    with pytest.raises(UserError) as caught:
        check_report(theirs, ours, ())
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 + 10 + 1
    assert lines[-1].strip() == "… and 3 more"


@pytest.mark.parametrize("sent", [b"", b"half a line", b"\xff\n", b"GET /\n"])
def test_what_is_no_report_is_none(sent):
    here, there = socket.socketpair()
    with here, there:
        there.sendall(sent)
        assert read_report(here, 0.0) is None  # the time is over
        there.close()
        assert read_report(here, 5.0) is None


def test_a_port_of_a_host_without_ipv6_is_listened_at(monkeypatch):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    assert meet_all(Cluster(addresses(1), 0)) == [None]


def test_a_broken_connection_has_closed():
    here, there = socket.socketpair()
    with here, there:
        assert not rendezvous._has_closed(here)
        there.close()
        assert rendezvous._has_closed(here)
    reset = unittest.mock.Mock()
    reset.recv.side_effect = ConnectionResetError
    assert rendezvous._has_closed(reset)


def test_a_worker_that_gives_up_is_not_released(monkeypatch):
    monkeypatch.setattr(rendezvous, "_SECONDS_BETWEEN_TRIES", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        ours = Report(1, [address, "b:2"], {}, "x")
        assert rendezvous._greet(ours, lambda: True) is False
