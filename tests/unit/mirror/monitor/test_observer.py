"""What an observer of flows keeps between surveys, and which workers it asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drlib.kafka.admin.descriptions import GroupMember
from drlib.mirror.journal.entries import Claim
from drlib.mirror.journal.fields import ClaimId
from drlib.mirror.monitor import observer
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.survey import Survey
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

    async def survey(self, *, groups: bool, source_error: str) -> Survey:
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


def test_views_without_a_survey_is_empty() -> None:
    assert FlowObserver().views() == ()
