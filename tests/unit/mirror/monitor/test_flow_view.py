"""The view of a flow, from a survey and worker statuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_flow import FLOW, NOW, member, partition, survey, worker

from drlib.mirror.monitor.flow_view import INCOMPLETE, MIRRORING, NO_WORKER, STARTING, UNKNOWN, overview
from drlib.mirror.status.worker_status import Event


def test_overview_worker_status_replaces_surveyed_partitions() -> None:
    view = overview(survey(), [worker()], NOW)
    assert (view.state, view.workers, view.members) == (MIRRORING, ("host-7",), 1)
    assert [(p.partition, p.mirrored) for p in view.partitions] == [(0, 95), (1, 5)]
    assert (view.lag, view.lag_bytes, view.lag_s, view.eta_s) == (5, 5000, 2.5, 5.0)
    assert [(lane.lane, lane.state, lane.epoch) for lane in view.lanes] == [(0, "running", 4), (1, "running", 4)]
    assert view.events == ()


@pytest.mark.parametrize("old", [{"at_ms": NOW - 60_000}, {"state": "stopped"}, {"state": "failed"}])
def test_overview_stale_or_ended_worker_status_is_ignored(old: dict[str, object]) -> None:
    view = overview(survey(), [worker(**old)], NOW)  # type: ignore[arg-type]
    assert view.workers == ()
    assert view.partitions[0].mirrored == 90


def test_overview_without_worker_is_no_worker_with_remedy() -> None:
    view = overview(survey(members=()), [], NOW)
    assert view.state == NO_WORKER
    (event,) = view.open_events
    assert event.name == "NoWorker"
    assert "drlib mirror" in event.remedy
    assert [lane.owner for lane in view.lanes] == ["was host-7", "was host-7"]


def test_overview_flow_that_never_ran_says_so() -> None:
    view = overview(survey(members=(), claims={}, partitions=()), [], NOW)
    assert "has never run" in view.open_events[0].detail


def test_overview_unowned_lane_is_an_event() -> None:
    view = overview(survey(members=(member(1),)), [], NOW)
    assert view.state == INCOMPLETE
    assert [(e.name, e.detail) for e in view.open_events] == [("LaneUnowned", "lane 0")]


def test_overview_claiming_lane_is_starting() -> None:
    assert overview(survey(), [worker(lane_state="claiming")], NOW).state == STARTING


def test_overview_unreachable_target_uses_the_worker_status() -> None:
    silent = survey(members=(), claims={}, partitions=(), target_error="refused")
    assert overview(silent, [], NOW).state == UNKNOWN
    assert overview(silent, [], NOW).members is None
    assert overview(silent, [worker()], NOW).state == MIRRORING


def test_overview_unreachable_source_makes_lag_unknown() -> None:
    view = overview(survey(partitions=(partition(0, 90, -1),), source_error="refused"), [], NOW)
    assert (view.lag, view.lag_bytes, view.lag_s, view.eta_s) == (None, None, None, None)


def test_overview_silent_worker_is_an_event() -> None:
    view = overview(survey(), [], NOW, ["host-7"])
    assert [(e.name, e.entity) for e in view.open_events] == [("WorkerSilent", "host-7")]
    assert view.state == UNKNOWN


def test_overview_event_of_worker_replaces_surveyed_event() -> None:
    loss = Event("SourceLoss", "orders-0", "offsets 1 to 2", NOW - 5000, flow=FLOW)
    parked = Event("Parked", "orders-0", "old news", NOW - 5000, flow=FLOW)
    other = Event("Parked", "orders-1", "stands", NOW - 5000, flow=FLOW)
    view = overview(survey(events=(loss, parked, other)), [worker(replace(loss, detail="offsets 1 to 3"))], NOW)
    assert [(e.name, e.entity, e.detail) for e in view.events] == [
        ("SourceLoss", "orders-0", "offsets 1 to 3"),
        ("Parked", "orders-1", "stands"),
    ]


def test_overview_stale_log_end_of_worker_is_replaced_by_survey() -> None:
    old, young = partition(0, 5, 5, as_of_ms=NOW - 30_000), partition(0, 5, 900, as_of_ms=NOW)
    status = replace(worker(), flows=(replace(worker().flows[0], partitions=(old,)),))
    assert overview(survey(partitions=(young,)), [status], NOW).lag == 895
    silent = overview(survey(partitions=(), source_error="refused"), [status], NOW)
    assert silent.as_of_ms == NOW - 30_000
