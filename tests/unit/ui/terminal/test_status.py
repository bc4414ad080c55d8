"""The view of a flow, from a survey and worker statuses, and how it is rendered."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from drlib.kafka.admin.descriptions import GroupMember
from drlib.mirror.journal.entries import Claim
from drlib.mirror.journal.fields import ClaimId
from drlib.mirror.monitor.flow_view import INCOMPLETE, MIRRORING, NO_WORKER, STARTING, UNKNOWN, FlowView, overview
from drlib.mirror.monitor.survey import GroupStatus, Survey
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.worker_status import Event, FlowStatus, LaneStatus, PartitionStatus, WorkerStatus
from drlib.model import TopicPartition
from drlib.ui import words
from drlib.ui.terminal.status import render_status

NOW = 1_700_000_000_000
FLOW = "LEFT->RIGHT"
JOURNAL = "journal"


def partition(number: int, mirrored: int, end: int, **more: object) -> PartitionStatus:
    plain = PartitionStatus("orders", number, "LEFT.orders", number % 2, mirrored, mirrored, end, mirrored)
    return replace(plain, **more)  # type: ignore[arg-type]


def claims() -> dict[int, Claim]:
    return {n: Claim(ClaimId(10 + n, 3), 0, NOW - 60_000, "host-7 127.0.0.1:9464") for n in (0, 1)}


def member(*lanes: int) -> GroupMember:
    return GroupMember("m", "/127.0.0.1", tuple(TopicPartition(JOURNAL, lane) for lane in lanes))


def survey(**more: object) -> Survey:
    plain = Survey(FLOW, NOW, 2, (member(0, 1),), claims(), (partition(0, 90, 100), partition(1, 5, 5)))
    return replace(plain, **more)  # type: ignore[arg-type]


def worker(*events: Event, state: str = "running", lane_state: str = "running", at_ms: int = NOW) -> WorkerStatus:
    flow = FlowStatus(
        FLOW,
        (LaneStatus(0, lane_state, 10, 4), LaneStatus(1, "running", 11, 4)),
        (partition(0, 95, 100, outlook=Outlook(lag_s=2.5, lag_bytes=5000, in_per_s=1, out_per_s=2, eta_s=5.0)),),
        95,
        9500,
        2.0,
        2000.0,
    )
    return WorkerStatus(7, at_ms, state, (flow,), events, "host-7", "127.0.0.1:9464")


def shown(*views: FlowView, width: int = 110, rows: int = 12) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render_status(views, rows=rows))
    return out.getvalue()


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
    text = shown(view)
    assert "NO WORKER" in text
    assert "Start one: drlib mirror FILE" in text
    assert "10 records" in text


def test_overview_flow_that_never_ran_says_so() -> None:
    view = overview(survey(members=(), claims={}, partitions=()), [], NOW)
    assert "has never run" in view.open_events[0].detail
    assert "nothing to mirror" in shown(view)


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
    assert "lag   unknown" in shown(view)


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


def test_render_status_open_events_come_first_with_cause_and_remedy() -> None:
    done = Event("LaneFault", FLOW, "gone", NOW - 90_000, NOW - 60_000, flow=FLOW)
    still = Event("Parked", "orders-0", "too large [bold]", NOW - 61_000, remedy="Do this.", times=3, flow=FLOW)
    text = shown(overview(survey(), [worker(done, still)], NOW))
    assert "open     Parked orders-0 since 2023-11-14 22:12:19 UTC (61 s), 3 times" in text
    assert "too large [bold]" in text
    assert "Do this." in text
    assert text.index("open     Parked") < text.index("resolved LaneFault")


def test_render_status_long_list_is_cut_after_the_greatest_lag() -> None:
    many = tuple(partition(n, 0, 1000 if n == 77 else 0) for n in range(100))
    text = shown(overview(survey(partitions=many), [], NOW), rows=5)
    assert "and 95 more partitions, none of them with lag" in text
    assert text.index("orders-77") < text.index("orders-0 ")


def test_render_status_counts_guarded_partitions() -> None:
    guarded = tuple(partition(n, 0, 0, guarded=n > 0) for n in range(3))
    assert "guarded  2 partitions" in shown(overview(survey(partitions=guarded), [], NOW))


def test_overview_stale_log_end_of_worker_is_replaced_by_survey() -> None:
    old, young = partition(0, 5, 5, as_of_ms=NOW - 30_000), partition(0, 5, 900, as_of_ms=NOW)
    word = replace(worker(), flows=(replace(worker().flows[0], partitions=(old,)),))
    assert overview(survey(partitions=(young,)), [word], NOW).lag == 895
    silent = overview(survey(partitions=(), source_error="refused"), [word], NOW)
    assert silent.as_of_ms == NOW - 30_000
    assert "0 records, as of 30 s ago" in shown(silent)


def test_render_status_groups() -> None:
    groups = (GroupStatus("arrivals", 6, 12, 5, 1, 0, 7),)
    assert "arrivals" in shown(overview(survey(groups=groups), [], NOW))
    assert "no group has a committed offset" in shown(overview(survey(groups=()), [], NOW))


def test_render_status_fits_eighty_columns() -> None:
    long = replace(partition(0, 0, 10**9), topic="a-topic-with-quite-a-long-name-as-they-are-in-real-life")
    text = shown(overview(survey(partitions=(long,)), [], NOW), width=80)
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "unknown"), (0.42, "0.4 s"), (9.96, "10 s"), (99, "99 s"), (125, "2 min 05 s"), (12_000, "3 h 20 min")],
)
def test_duration_texts(seconds: float | None, expected: str) -> None:
    assert words.duration(seconds) == expected
    assert words.duration(6.2 * 86_400) == "6 d 4 h"


def test_size_texts() -> None:
    assert [words.size(n) for n in (None, 512, 12_345, 999_960, 10**13)] == [
        "unknown",
        "512 B",
        "12.3 KB",
        "1.0 MB",
        "10.0 TB",
    ]
