"""How the view of a flow is rendered."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from sample_flow import FLOW, NOW, partition, survey, worker

from drlib.drill.readiness.score import Finding, Readiness, Severity
from drlib.mirror.monitor.flow_view import FlowView, overview
from drlib.mirror.monitor.survey import GroupStatus
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow
from drlib.mirror.status.worker_status import Event
from drlib.ui.terminal.status import gate_of, loss, render_status


def shown(*views: FlowView, width: int = 110, rows: int = 12) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(render_status(views, rows=rows))
    return out.getvalue()


def test_render_status_without_worker_shows_state_remedy_and_lag() -> None:
    text = shown(overview(survey(members=()), [], NOW))
    assert "NO WORKER" in text
    assert "Start one: drlib mirror FILE" in text
    assert "10 records" in text


def test_render_status_without_an_answering_worker_does_not_say_that_there_is_no_problem() -> None:
    """A mirror that was parked was shown with no problem, because its worker had no address to be asked at."""
    silent, answering = shown(overview(survey(), [], NOW)), shown(overview(survey(), [worker()], NOW))
    assert "Problems are not known: no worker answers. Start workers with --metrics HOST:PORT." in silent
    assert "No problem" not in silent
    assert "Problems are not known" not in answering


def test_render_status_flow_without_partitions_has_nothing_to_mirror() -> None:
    assert "nothing to mirror" in shown(overview(survey(members=(), claims={}, partitions=()), [], NOW))


def test_render_status_unreachable_source_shows_lag_as_unknown() -> None:
    assert "lag   unknown" in shown(
        overview(survey(partitions=(partition(0, 90, -1),), source_error="refused"), [], NOW)
    )


LOST = Readiness(FLOW, NOW, (Finding("source-answers", "A", Severity.CRITICAL, "A is down", "Start it.", NOW + 1),))


def test_render_status_dead_source_and_no_worker_is_never_nothing_to_mirror() -> None:
    view = overview(survey(members=(), claims={}, partitions=(), source_error="refused"), [], NOW)
    text = shown(view)
    assert "nothing to mirror" not in text
    assert view.lag is None
    assert "loses at most  unknown:" in text
    assert "no worker that answers knows" in text


def test_render_status_lost_source_says_what_a_failover_loses_and_that_its_gate_is_open() -> None:
    old = partition(0, 5, 9, as_of_ms=NOW - 30_000)
    status = replace(worker(), flows=(replace(worker().flows[0], partitions=(old,)),))
    view = overview(survey(partitions=(), source_error="refused"), [status], NOW)
    assert loss(view).startswith("4 records known at ")
    assert "UTC (30 s ago), and what " in loss(view)
    assert gate_of(view, LOST)[0] == "open"
    assert gate_of(view, LOST)[1].endswith(f"drlib failover FILE '{view.flow}'"), (
        "also where the file has several flows"
    )
    assert gate_of(view, None)[0] == "unknown"
    text = " ".join(shown(view).split())
    assert "lost side" in text


def test_render_status_of_a_missing_right_names_it_and_is_no_lost_side() -> None:
    why = "this user may not READ on topic A.journal; reading A.journal failed: the broker answered TOPIC_AUTHORIZATION_FAILED"
    view = overview(survey(target_error=why), [], NOW)
    assert gate_of(view, None)[0] == "unknown"
    text = " ".join(shown(view).split())
    assert "refused by RIGHT: this user may not READ on topic A.journal" in text
    assert "lost side" not in text


def test_loss_while_the_target_cannot_be_read_and_no_worker_answers_is_unknown_for_that_reason() -> None:
    view = overview(survey(partitions=(partition(0, 5, -1),), target_error="RIGHT throttles this user"), [], NOW)
    assert loss(view) == "unknown: RIGHT does not say what it has, and no worker that answers knows"


def test_gate_of_a_target_that_cannot_take_over_is_closed_with_reason_and_fix() -> None:
    closed = replace(
        LOST,
        findings=(
            *LOST.findings,
            Finding("durability", "t", Severity.CRITICAL, "no leader", "Start brokers.", NOW + 1),
        ),
    )
    view = overview(survey(source_error="refused"), [], NOW)
    state, why = gate_of(view, closed)
    assert state == "closed"
    assert "no leader. Start brokers." in why
    assert gate_of(overview(survey(target_error="refused"), [], NOW), None)[0] == "closed"


def test_render_status_old_log_end_is_shown_with_its_age() -> None:
    old = partition(0, 5, 5, as_of_ms=NOW - 30_000)
    status = replace(worker(), flows=(replace(worker().flows[0], partitions=(old,)),))
    view = overview(survey(partitions=(), source_error="refused"), [status], NOW)
    assert "0 records, as of 30 s ago" in shown(view)


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


def test_render_status_says_how_much_of_a_takeover_is_still_to_be_compared() -> None:
    compared = tuple(partition(n, 0, 0, to_compare=1500 * n) for n in range(3))
    text = shown(overview(survey(partitions=compared), [], NOW))
    assert "comparing  4,500 offsets of 2 partitions that MirrorMaker 2 copied are still to be compared" in text
    assert "comparing" not in shown(overview(survey(partitions=compared[:1]), [], NOW))


def test_render_status_counts_guarded_partitions() -> None:
    guarded = tuple(partition(n, 0, 0, guarded=n > 0) for n in range(3))
    assert "guarded  2 partitions" in shown(overview(survey(partitions=guarded), [], NOW))


def test_render_status_groups() -> None:
    groups = (GroupStatus("arrivals", 6, 12, 5, 1, 0, 7),)
    assert "arrivals" in shown(overview(survey(groups=groups), [], NOW))
    assert "no group has a committed offset" in shown(overview(survey(groups=()), [], NOW))


def test_render_status_fits_eighty_columns() -> None:
    long = replace(partition(0, 0, 10**9), topic="a-topic-with-quite-a-long-name-as-they-are-in-real-life")
    text = shown(overview(survey(partitions=(long,)), [], NOW), width=80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "1,000,000,000" in text
    assert "…" not in text


def test_render_status_names_the_lane_that_keeps_most_in_memory() -> None:
    text = shown(overview(survey(), [worker(kept_bytes=7_000_000)], NOW))
    assert "7.0 MB of records read ahead, 7.0 MB of it by lane 0" in text
    assert "read ahead" not in shown(overview(survey(), [worker()], NOW))


MM2 = MirrorMakerFlow(
    ("checkpoints (2)", "heartbeats"),
    NOW - 1000,
    1,
    True,
    NOW - 4000,
    2,
    ("mm2-offset-syncs.RIGHT.internal is on LEFT",),
)


def test_render_status_of_a_flow_that_mirror_maker_mirrors_has_bounds_and_what_a_takeover_makes_exact() -> None:
    partitions = (partition(0, 90, 100, position=97),)
    text = " ".join(
        shown(overview(survey(members=(), claims={}, partitions=partitions, mirror_maker=MM2), [], NOW)).split()
    )
    assert (
        "MIRRORED BY MIRRORMAKER 2 LEFT->RIGHT its last heartbeat is 1.0 s old, its Connect group has members" in text
    )
    assert "lag at least 3, at most 10 records" in text
    assert "known by checkpoints (2), heartbeats" in text
    assert "not read mm2-offset-syncs.RIGHT.internal is on LEFT" in text
    assert "exact with taken over by drlib mirror" in text
    assert "lane" not in text


def test_render_status_of_mirror_maker_without_its_source_says_what_is_lost_and_since_when() -> None:
    seen = survey(members=(), claims={}, partitions=(partition(0, 90, -1),), source_error="refused", mirror_maker=MM2)
    said = loss(overview(seen, [], NOW))
    assert said.startswith("unknown number of records: what LEFT took after the last mirrored record of each partition")
    assert said.endswith("UTC (4.0 s ago)")
