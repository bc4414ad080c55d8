"""The view of a flow, from a survey and worker statuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_flow import FLOW, NOW, member, partition, survey, worker

from drlib.mirror.monitor.flow_view import (
    INCOMPLETE,
    MIRROR_MAKER,
    MIRRORING,
    NO_WORKER,
    STARTING,
    UNKNOWN,
    WAITING,
    overview,
)
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.status.worker_status import Event, FlowStatus, WorkerStatus


def test_overview_worker_status_replaces_surveyed_partitions() -> None:
    view = overview(survey(), [worker()], NOW)
    assert (view.state, view.workers, view.members) == (MIRRORING, ("host-7",), 1)
    assert [(p.partition, p.mirrored) for p in view.partitions] == [(0, 95), (1, 5)]
    assert (view.lag, view.lag_bytes, view.lag_s, view.eta_s) == (5, 5000, 2.5, 5.0)
    assert [(lane.lane, lane.state, lane.epoch) for lane in view.lanes] == [(0, "running", 4), (1, "running", 4)]
    assert view.events == ()


def test_overview_of_a_source_that_went_back_has_the_surveyed_lag_and_not_the_workers() -> None:
    """The worker had mirrored more than the log has now; what was written in its place is not on the target."""
    event = Event("SourceTruncated", "orders-0", "it went back to offset 80", NOW, flow=FLOW)
    seen = survey()
    first = replace(seen.partitions[0], mirrored=80, high_watermark=90)
    seen = replace(seen, partitions=(first, *seen.partitions[1:]), events=(*seen.events, event))
    view = overview(seen, [worker()], NOW)
    assert next((p.mirrored, p.high_watermark, p.lag) for p in view.partitions) == (80, 90, 10)
    assert view.partitions[1].mirrored == 5


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


@pytest.mark.parametrize("target_error", ["", "refused"])
def test_overview_of_a_worker_that_waits_for_a_cluster_says_so_and_since_when(target_error: str) -> None:
    waits = Event("FlowUnreachable", FLOW, "LEFT: no broker can be reached", NOW - 90_000, flow=FLOW)
    waiting = replace(worker(waits), flows=(FlowStatus(FLOW, (), (), 0, 0),), state="starting")
    seen = survey(members=(), claims={}, partitions=(), source_error="refused", target_error=target_error)
    view = overview(seen, [waiting], NOW)
    assert view.state == WAITING
    assert view.workers == ("host-7",)
    assert view.open_events == (waits,)
    other = replace(waits, flow="RIGHT->LEFT", entity="RIGHT->LEFT")
    for event in (other, replace(waits, resolved_ms=NOW), replace(waits, settled=False)):
        assert overview(seen, [replace(waiting, events=(event,))], NOW).state == STARTING
    assert overview(replace(seen, members=(member(0, 1),)), [waiting], NOW).state != WAITING  # another worker mirrors


def test_overview_without_worker_says_that_one_that_waits_for_the_source_is_not_seen() -> None:
    (event,) = overview(survey(members=(), source_error="refused"), [], NOW).open_events
    assert "waits for the source" in event.detail
    assert "--at" in event.detail
    (event,) = overview(survey(members=()), [], NOW).open_events
    assert "waits" not in event.detail


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


def test_overview_topic_deleted_before_the_source_was_lost_leaves_the_lag_known() -> None:
    deleted = partition(0, 90, -1, topic="retired")
    lost = survey(partitions=(partition(0, 90, -1), deleted), source_error="refused")
    view = overview(lost, [worker()], NOW)
    assert ([p.topic for p in view.partitions], view.lag) == (["orders"], 5)


@pytest.mark.parametrize(
    "unsure",
    [
        worker(lane_state="recovering"),
        worker(Event("SourceTopicForbidden", "retired", "Describe is missing", NOW - 5000, flow=FLOW)),
    ],
)
def test_overview_topic_that_may_be_on_the_lost_source_keeps_the_lag_unknown(unsure: WorkerStatus) -> None:
    lost = survey(partitions=(partition(0, 90, -1), partition(0, 90, -1, topic="retired")), source_error="refused")
    assert overview(lost, [unsure], NOW).lag is None


def test_overview_partition_that_its_source_lists_without_an_end_keeps_the_lag_unknown() -> None:
    listed = (partition(0, 90, 95), partition(0, 0, -1, topic="offline"))
    view = overview(survey(partitions=listed, source_partly="no leader"), [worker()], NOW)
    assert ([p.topic for p in view.partitions], view.lag) == (["offline", "orders"], None)


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


@pytest.mark.parametrize("ahead_ms", [0, 10_000, 3_600_000])
def test_overview_stale_log_end_of_worker_is_replaced_by_survey_whatever_its_clock_says(ahead_ms: int) -> None:
    reported, young = partition(0, 5, 5, as_of_ms=NOW - 30_000 + ahead_ms), partition(0, 5, 900, as_of_ms=NOW)
    ahead = replace(worker(), flows=(replace(worker().flows[0], partitions=(reported,)),))
    assert overview(survey(partitions=(young,)), [ahead], NOW).lag == 895


def test_overview_log_end_that_the_survey_does_not_have_is_the_workers() -> None:
    old, young = partition(0, 5, 5, as_of_ms=NOW - 30_000), partition(0, 5, -1, as_of_ms=NOW)
    status = replace(worker(), flows=(replace(worker().flows[0], partitions=(old,)),))
    assert overview(survey(partitions=(young,)), [status], NOW).lag == 0
    silent = overview(survey(partitions=(), source_error="refused"), [status], NOW)
    assert silent.as_of_ms == NOW - 30_000


def test_overview_of_a_flow_that_mirror_maker_mirrors_has_no_lanes_and_its_lag_has_bounds() -> None:
    found = MirrorMakerFlow(("checkpoints (1)",), NOW - 1000)
    partitions = (partition(0, 90, 100, position=97), partition(1, 5, 9, position=9))
    seen = survey(members=(), claims={}, partitions=partitions, mirror_maker=found)
    view = overview(seen, [], NOW)
    assert (view.state, view.lanes, view.mirror_maker) == (MIRROR_MAKER, (), found)
    assert (view.lag, view.lag_at_least) == (14, 3)
    assert view.open_events == ()
    late = overview(replace(seen, mirror_maker=replace(found, heartbeat_ms=NOW - 40_000)), [], NOW)
    (event,) = late.open_events
    assert event.name == "MirrorMakerSilent"
    assert "40 s old" in event.detail
    assert overview(replace(seen, target_error="refused"), [], NOW).state == UNKNOWN


def test_lag_of_a_worker_has_no_bounds_of_its_own() -> None:
    view = overview(survey(partitions=(partition(0, 90, 100, position=97),)), [], NOW)
    assert (view.lag, view.lag_at_least) == (10, 10)
