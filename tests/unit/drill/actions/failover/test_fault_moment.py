"""When the source failed: what the operator gives, the mirror's clock and its skew, the first failed probe."""

import socket

import pytest

from drlib.drill.actions.failover.fault_moment import (
    NO_SKEW,
    MirrorFetches,
    fault_and_detection,
    measure,
    parse,
)
from drlib.errors import UsageError
from drlib.kafka.net.authorized_operations import Skew
from drlib.mirror.status.worker_status import WorkerStatus

HOUR = 3_600_000


def test_fault_moment_of_a_mirror_an_hour_ahead_is_corrected_with_bounds() -> None:
    silence = MirrorFetches(10_000 + HOUR, 10_400 + HOUR, Skew(HOUR - 200, HOUR + 100))
    fault, detect = fault_and_detection(None, silence, 30_000)
    assert (fault.earliest_ms, fault.latest_ms) == (9_900, 10_600)  # between the last fetch and the first that failed
    assert (detect.earliest_ms, detect.latest_ms) == (10_300, 10_600)


def test_fault_moment_of_an_uncompared_clock_is_the_first_failed_probe() -> None:
    fault, detect = fault_and_detection(None, MirrorFetches(10_000 + HOUR, 10_400 + HOUR, None), 30_000)
    assert fault == detect
    assert (fault.earliest_ms, fault.latest_ms) == (30_000, 30_000)
    assert "could not be compared" in fault.basis


def test_fault_moment_that_the_mirror_has_not_noticed_yet_is_between_its_last_fetch_and_the_probe() -> None:
    fault, detect = fault_and_detection(None, MirrorFetches(10_000 + HOUR, None, Skew(HOUR - 200, HOUR + 100)), 12_000)
    assert (fault.earliest_ms, fault.latest_ms) == (9_900, 12_000)
    assert "last successful fetch and the first failed probe" in fault.basis
    assert (detect.earliest_ms, detect.basis) == (12_000, "the first failed probe")


def test_fault_moment_that_the_mirror_notices_after_the_probe_is_before_the_probe() -> None:
    fault, detect = fault_and_detection(None, MirrorFetches(10_000, 25_000, NO_SKEW), 12_000)
    assert (fault.earliest_ms, fault.latest_ms, detect.latest_ms) == (10_000, 12_000, 12_000)


def test_fault_moment_without_a_known_fetch_is_the_first_failed_probe() -> None:
    for fetches in (None, MirrorFetches(0, None, NO_SKEW)):
        fault, detect = fault_and_detection(None, fetches, 12_000)
        assert (fault.earliest_ms, fault.latest_ms, detect.latest_ms) == (12_000, 12_000, 12_000)


def test_fault_moment_given_by_the_operator_comes_first() -> None:
    fault, detect = fault_and_detection(5_000, MirrorFetches(10_000, 10_400, NO_SKEW), 30_000)
    assert (fault.earliest_ms, fault.basis) == (5_000, "given by the operator")
    assert detect.earliest_ms == 10_400


def test_fault_at_is_iso_utc_and_not_in_the_future() -> None:
    assert parse("") is None
    assert parse("2026-01-02T03:04:05Z") == parse("2026-01-02T04:04:05+01:00") == 1767323045000
    for wrong in ("yesterday", "2026-01-02T03:04:05", "2926-01-02T03:04:05Z"):
        with pytest.raises(UsageError, match="fault_at"):
            parse(wrong)


class FakeWorker:
    """A worker whose clock is `ahead_ms`, and which builds a status at most every 200 ms."""

    def __init__(self, host: str, ahead_ms: int, frozen: bool = False) -> None:
        self.now, self.ahead, self.host, self.frozen = 1_000_000, ahead_ms, host, frozen
        self.built = -(10**9)
        self.at = 0

    def time(self) -> int:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += int(seconds * 1000)

    def fetch(self, _: str) -> WorkerStatus:
        self.now += 3
        if self.now - self.built >= 200 and not (self.frozen and self.at):
            self.built, self.at = self.now, self.now + self.ahead
        self.now += 4
        return WorkerStatus(1, self.at, "running", (), worker=f"{self.host}-4711")


@pytest.mark.parametrize("ahead", [-HOUR, -1, 0, 25, HOUR])
@pytest.mark.parametrize("host", ["elsewhere", socket.gethostname()])
def test_skew_of_a_worker_is_bounded_by_two_of_its_statuses(ahead: int, host: str) -> None:
    worker = FakeWorker(host, ahead)
    skew = measure("worker:1", worker.fetch, worker.time, worker.pause)
    assert skew is not None
    if host == socket.gethostname() and ahead in (-1, 0):
        assert skew == NO_SKEW
    else:
        assert skew.low <= ahead <= skew.high
        assert skew.high - skew.low < 400


def test_skew_of_a_worker_whose_status_does_not_change_is_not_measured() -> None:
    worker = FakeWorker("elsewhere", HOUR, frozen=True)
    assert measure("worker:1", worker.fetch, worker.time, worker.pause) is None
    assert measure("worker:1", lambda _: None, worker.time, worker.pause) is None
