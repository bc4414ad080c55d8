"""What an observer of flows keeps between surveys, and which workers it asks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sample_flow import worker
from testbed_http import HttpServer, http_server

from drlib import decoding
from drlib.kafka.admin.descriptions import GroupMember
from drlib.mirror.journal.entries import Claim
from drlib.mirror.journal.fields import ClaimId
from drlib.mirror.monitor import observer
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status import worker_status
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.model import Flow, TopicPartition

FLOW = Flow("LEFT", "RIGHT")
OWNS_LANE_0 = GroupMember("m", "/10.0.0.1", (TopicPartition("journal", 0),))


def flow(address: str | None = None) -> Any:
    return SimpleNamespace(flow=FLOW, metrics_address=address)


class FakeSurveyor:
    """Counts how often it was made; its surveys name what they were asked."""

    made = 0

    def __init__(self, settings: object, flow: object) -> None:
        FakeSurveyor.made += 1

    async def survey(self, *, groups: bool, ages: bool, source_error: str, answer_s: float) -> Survey:
        claims = {
            0: Claim(ClaimId(1, 1), 0, 0, "host-7 10.0.0.1:9464"),
            1: Claim(ClaimId(2, 1), 0, 0, "old 10.0.0.2:1"),
        }
        return Survey(str(FLOW), int(groups), 2, (OWNS_LANE_0,), claims, source_error=source_error)


@pytest.fixture(autouse=True)
def surveyor(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeSurveyor.made = 0
    monkeypatch.setattr(observer, "Surveyor", FakeSurveyor)


def test_survey_keeps_the_surveyor_until_the_flow_settings_change() -> None:
    observed = FlowObserver(groups=True)
    settings: Any = object()
    first, same, other = flow(), flow(), flow("10.0.0.9:1")
    (survey,) = observed.survey_blocking([(settings, first)], {"LEFT": "it was killed"})
    assert (survey.at_ms, survey.source_error) == (1, "it was killed")
    observed.survey_blocking([(settings, same)])
    assert FakeSurveyor.made == 1
    observed.survey_blocking([(settings, other)])
    assert FakeSurveyor.made == 2


def test_views_asks_claimed_configured_and_given_workers_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(address: str) -> WorkerStatus | None:
        asked.append(address)
        return None

    monkeypatch.setattr(observer, "fetch_status", fetch)
    observed = FlowObserver(addresses=["10.0.0.5:9464", "10.0.0.1:9464"])
    observed.survey_blocking([(object(), flow("10.0.0.9:9464"))])  # type: ignore[list-item]
    (view,) = observed.views()
    assert sorted(asked) == ["10.0.0.1:9464", "10.0.0.5:9464", "10.0.0.9:9464"]  # 10.0.0.2 owns no lane now
    assert [(e.name, e.entity) for e in view.open_events if e.name == "WorkerSilent"] == [("WorkerSilent", "host-7")]


def test_views_worker_that_answers_is_current_whatever_its_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = worker(at_ms=5)
    monkeypatch.setattr(observer, "fetch_status", lambda _: slow)
    observed = FlowObserver(addresses=["10.0.0.1:9464"])
    observed.survey_blocking([(object(), flow())])  # type: ignore[list-item]
    assert [view.workers for view in observed.views()] == [("host-7",)]
    monkeypatch.setattr(observer, "fetch_status", lambda _: None)
    assert [view.workers for view in observed.views([slow])] == [()]  # a file may be an old one


def test_views_without_a_survey_is_empty() -> None:
    assert FlowObserver().views() == ()


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as running:
        yield running


STATUS = worker_status.encode(worker_status.WorkerStatus(pid=1, at_ms=5, state="running", flows=()))


def test_fetch_status_requests_one_path_without_a_redirect(server: HttpServer) -> None:
    address = server.url("").removeprefix("http://")
    server.answers["/status"] = (200, {}, STATUS)
    status = observer.fetch_status(address)
    assert status is not None
    assert status.at_ms == 5
    for code in (301, 302, 307, 308):
        server.answers["/status"] = (code, {"Location": server.url("/elsewhere")}, STATUS)
        assert observer.fetch_status(address) is None
    assert {each.path for each in server.received} == {"/status"}


@pytest.mark.parametrize(
    "suffix", ["/admin?x=", "/..", "?x=", "#", "/", "/shutdown?", "\\@other", " x", "\r\nHost: x", "@127.0.0.1:1"]
)
def test_fetch_status_of_what_is_more_than_host_and_port_asks_nobody(server: HttpServer, suffix: str) -> None:
    """The journal's writers choose the address in a claim, not what is requested there."""
    assert observer.fetch_status(server.url(suffix).removeprefix("http://")) is None
    assert server.received == []


@pytest.mark.parametrize(
    "address", ["", ":", "h", "127.0.0.1", "[::1", "a..b:1", "h:0", "h:x", "u:p@h:1", "\0", "a" * 64 + ":1"]
)
def test_fetch_status_of_no_address_is_none(address: str) -> None:
    assert observer.fetch_status(address) is None


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[" * 100, STATUS[:-5], b"\xff", STATUS.replace(b'"at_ms":5', b'"at_ms":1e999')]
)
def test_fetch_status_of_what_is_no_status_is_none(server: HttpServer, body: bytes) -> None:
    server.answers["/status"] = (200, {}, body)
    assert observer.fetch_status(server.url("").removeprefix("http://")) is None


def test_fetch_status_without_an_end_is_cut_off(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", 1 << 20)
    server.answers["/flood"] = (200, {}, None)
    monkeypatch.setattr(observer, "_PATH", "/flood")
    assert observer.fetch_status(server.url("").removeprefix("http://")) is None


@pytest.mark.parametrize("address", ["127.0.0.1:9464", "127.9.9.9:1", "localhost:1", "LOCALHOST:1", "[::1]:9464"])
def test_address_of_this_machine_in_another_hosts_claim_is_not_asked(address: str) -> None:
    claims = {0: Claim(ClaimId(1, 1), 0, 0, f"elsewhere-7 {address}")}
    assert observer.claimed_addresses(Survey(str(FLOW), 0, 1, (OWNS_LANE_0,), claims)) == {}
    claims = {0: Claim(ClaimId(1, 1), 0, 0, f"{socket.gethostname()}-7 {address}")}
    assert list(observer.claimed_addresses(Survey(str(FLOW), 0, 1, (OWNS_LANE_0,), claims)).values()) == [address]
