"""Events: names from the table, hysteresis, reporters, and events that end by themselves."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import drlib
from drlib.mirror.status.event_kinds import HOLD_S, KINDS, kind_of
from drlib.mirror.status.event_log import KEPT, SETTLE_S, EventLog
from drlib.mirror.sync import acls as sync_acls
from drlib.mirror.sync import configs as sync_configs
from drlib.mirror.sync import create_topics as mirror_topics
from drlib.mirror.sync import group_offsets as sync_groups
from drlib.mirror.sync import source_groups as groups
from drlib.mirror.sync.acls import AclSync
from drlib.mirror.sync.configs import ConfigSync
from drlib.mirror.sync.group_offsets import GroupSync
from drlib.mirror.sync.rules.group_offsets import FINDINGS


class Clock:
    def __init__(self) -> None:
        self.at = 1_700_000_000.0

    def __call__(self) -> float:
        return self.at


def log() -> tuple[EventLog, Clock]:
    clock = Clock()
    return EventLog("A->B", clock), clock


EVENT_CONSTANTS = ("REFUSED", "DELETED", "FORBIDDEN", "OFF", "DRIFT", "UNREADABLE", "UNLISTED")


def test_kinds_has_every_event_the_package_opens() -> None:
    """An event is a promise of a meaning and a remedy: add the name to `KINDS` in drlib/mirror/status/event_kinds.py."""
    root = Path(drlib.__file__).parent
    found: dict[str, str] = {}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "open"
                and ast.unparse(node.func.value).endswith(("events", "logs[flows[at].flow]"))
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                found[str(node.args[0].value)] = path.name
    for task in (AclSync, ConfigSync, GroupSync):
        found[task.name] = task.__name__
    for module in (groups, mirror_topics, sync_acls, sync_configs, sync_groups):
        found |= {getattr(module, name): module.__name__ for name in EVENT_CONSTANTS if hasattr(module, name)}
    found |= dict.fromkeys(FINDINGS, "group_sync")
    assert {"SourceUnreachable", "TimestampsRewritten", "SourceLoss", "TopicConfigDrift", "AclSyncOff"} <= set(found)
    assert {name: where for name, where in found.items() if name not in KINDS} == {}


def test_kinds_every_kind_has_meaning_and_remedy() -> None:
    for name, kind in KINDS.items():
        assert kind.meaning, name
        assert kind.remedy[0].isupper(), name
        assert kind.remedy.endswith("."), name


def test_kind_of_unlisted_name_has_a_remedy_only() -> None:
    assert kind_of("Nonsense").meaning == ""
    assert "output" in kind_of("Nonsense").remedy


def test_open_again_for_another_reason_has_the_remedy_of_that_reason() -> None:
    events, _ = log()
    events.open("LaneFault", "A->B", "the broker is too old", remedy="Upgrade it.")
    events.open("LaneFault", "A->B", "the connection was lost")
    (event,) = events.snapshot()
    assert (event.detail, event.remedy) == ("the connection was lost", KINDS["LaneFault"].remedy)


def test_open_event_has_remedy_flow_and_times() -> None:
    events, clock = log()
    assert events.open("Parked", "t-0", "too large")
    (event,) = events.snapshot()
    assert (event.remedy, event.flow, event.times) == (KINDS["Parked"].remedy, "A->B", 1)
    events.open("Parked", "t-1", "x", remedy="Do this.")
    assert events.snapshot()[1].remedy == "Do this."
    clock.at += 3
    assert events.resolve("Parked", "t-0")
    gone_at = int(clock.at * 1000)
    clock.at += HOLD_S
    resolved = events.snapshot()[-1]
    assert (resolved.entity, resolved.resolved_ms) == ("t-0", gone_at)


def test_open_flapping_for_a_minute_is_one_alert() -> None:
    events, clock = log()
    news = 0
    for _ in range(60):
        news += events.open("SourceUnreachable", "A->B", "refused")
        clock.at += 1
        events.resolve("SourceUnreachable", "A->B")
        clock.at += 1
        events.snapshot()
    assert news == 1
    clock.at += HOLD_S
    (event,) = events.snapshot()
    assert event.resolved_ms is not None
    assert event.times == 60


@given(st.lists(st.tuples(st.floats(0, 60), st.floats(0, HOLD_S - 0.01)), min_size=1, max_size=40))
def test_open_flapping_within_hold_is_one_alert_resolved_at_its_last_end(
    flaps: list[tuple[float, float]],
) -> None:
    events, clock = log()
    news = 0
    gone = 0.0
    for lasted, pause in flaps:
        news += events.open("Parked", "t-0", "x")
        clock.at += lasted
        events.resolve("Parked", "t-0")
        gone = clock.at
        clock.at += pause
        assert sum(e.resolved_ms is None for e in events.snapshot()) == 1
    clock.at += HOLD_S + 0.01
    (event,) = events.snapshot()
    assert news == 1
    assert event.resolved_ms == int(gone * 1000)


def test_open_after_hold_is_another_alert() -> None:
    events, clock = log()
    assert events.open("Parked", "t-0", "one")
    events.resolve("Parked", "t-0")
    clock.at += HOLD_S
    assert events.open("Parked", "t-0", "two")
    assert [(e.detail, e.resolved_ms is None) for e in events.snapshot()] == [("two", True), ("one", False)]


def test_open_per_flow_event_stays_until_its_last_lane_resolves() -> None:
    events, clock = log()
    events.register_lane("lane", "A->B")
    events.register_lane("lane.1", "A->B")
    assert events.open("SourceUnreachable", "lane.0", "refused")
    assert not events.open("SourceUnreachable", "lane.1", "refused")
    assert not events.open("SourceUnreachable", "A->B", "refused", by="groups")
    assert [e.entity for e in events.snapshot()] == ["A->B"]
    assert not events.resolve("SourceUnreachable", "lane.0")
    assert not events.resolve("SourceUnreachable", "A->B", by="groups")
    clock.at += HOLD_S
    assert events.snapshot()[0].resolved_ms is None
    assert events.is_open("SourceUnreachable", "A->B")
    assert events.resolve("SourceUnreachable", "lane.1")
    assert not events.is_open("SourceUnreachable", "A->B")
    clock.at += HOLD_S
    assert events.snapshot()[0].resolved_ms is not None


def test_open_lane_events_are_separate() -> None:
    events, _ = log()
    events.register_lane("lane.0", "A->B")
    events.open("LaneLost", "lane.0", "taken over")
    assert events.snapshot()[0].entity == "lane.0"


def test_open_event_with_lasts_s_ends_by_itself_after_its_last_report() -> None:
    events, clock = log()
    events.open("SourceLoss", "t-0", "offsets 0 to 9")
    clock.at += 80_000
    assert not events.open("SourceLoss", "t-0", "offsets 20 to 29")
    (event,) = events.snapshot()
    assert (event.detail, event.times) == ("offsets 20 to 29", 2)
    clock.at += 80_000
    assert events.snapshot()[0].resolved_ms is None
    clock.at += 7_000
    assert events.snapshot()[0].resolved_ms is not None


def test_resolve_by_next_lane_generation() -> None:
    events, _ = log()
    events.register_lane("lane.7", "A->B")
    events.open("SourceUnreachable", "lane.7.0", "refused")
    assert events.resolve("SourceUnreachable", "lane.7.1")


def test_retract_ends_events_without_other_reporters() -> None:
    events, clock = log()
    events.register_lane("lane", "A->B")
    events.open("SourceUnreachable", "lane.0", "refused")
    events.open("SourceUnreachable", "A->B", "refused", by="groups")
    events.open("LaneFault", "lane", "lost")
    events.open("MirrorContradiction", "A.t-0", "x", by="lane")
    events.open("LaneLost", "lane", "taken over", by="lane")
    events.open("SourceLoss", "t-0", "offsets 0 to 9", by="lane")
    events.retract("lane")
    assert events.is_open("SourceUnreachable", "A->B"), "another one still sees it"
    assert not events.is_open("LaneFault", "A->B")
    assert not events.is_open("MirrorContradiction", "A.t-0")
    assert not events.is_open("LaneLost", "lane")
    assert events.is_open("SourceLoss", "t-0"), "a fact stays for its time"
    assert events.resolve("SourceUnreachable", "A->B", by="groups")
    clock.at += HOLD_S
    assert [e.name for e in events.snapshot() if e.resolved_ms is None] == ["SourceLoss"]


def test_open_by_next_owner_within_hold_is_the_same_alert() -> None:
    events, clock = log()
    duty = events.reporter("GroupSyncFailed")
    assert duty.open("GroupLive", "g", "has members")
    duty.retract(duty.by)
    clock.at += HOLD_S - 1
    assert not duty.open("GroupLive", "g", "has members")
    (event,) = events.snapshot()
    assert (event.resolved_ms, event.times) == (None, 2)


def test_retract_others_keeps_reports_of_the_worker() -> None:
    events, clock = log()
    events.open("DiscoveryFailed", "A->B", "refused")
    events.open("Parked", "t-0", "too large")
    events.open("SourceLoss", "t-0", "offsets 0 to 9")
    events.open("FlowUnreachable", "A->B", "refused", by="worker")
    events.retract_others("worker")
    clock.at += HOLD_S
    assert [e.name for e in events.snapshot() if e.resolved_ms is None] == ["SourceLoss", "FlowUnreachable"]


def test_reporter_shares_the_log() -> None:
    events, clock = log()
    one, other = events.reporter("one"), events.reporter("other")
    for number in range(KEPT + 50):
        one.open("Parked", f"t-{number}", "x")
        one.resolve("Parked", f"t-{number}")
        clock.at += HOLD_S
    one.open("GroupLive", "g", "x")
    other.open("GroupLive", "g", "x")
    assert not one.resolve("GroupLive", "g")
    assert events.is_open("GroupLive", "g")
    assert one.snapshot() == other.snapshot() == events.snapshot()
    assert len(events.snapshot()) == 1 + KEPT


def test_event_that_ends_within_a_second_is_never_settled_and_is_counted() -> None:
    events, clock = log()
    events.open("LaneFault", "A->B", "NOT_LEADER_OR_FOLLOWER")
    clock.at += SETTLE_S - 0.01
    assert [e.settled for e in events.snapshot()] == [False]
    events.resolve("LaneFault", "A->B")
    clock.at += HOLD_S
    (event,) = events.snapshot()
    assert (event.settled, event.resolved_ms is not None) == (False, True)
    assert events.brief == {"LaneFault": 1}


def test_event_that_stays_a_second_is_settled_with_its_real_start() -> None:
    events, clock = log()
    began = clock.at
    events.open("LaneFault", "A->B", "refused")
    clock.at += SETTLE_S
    (event,) = events.snapshot()
    assert (event.settled, event.opened_ms) == (True, int(began * 1000))
    events.resolve("LaneFault", "A->B")
    clock.at += HOLD_S
    assert [e.settled for e in events.snapshot()] == [True]
    assert not events.brief["LaneFault"]


def test_event_that_lasted_is_settled_although_nobody_looked_meanwhile() -> None:
    events, clock = log()
    events.open("LaneFault", "A->B", "refused")
    clock.at += SETTLE_S
    events.resolve("LaneFault", "A->B")
    clock.at += HOLD_S
    assert [e.settled for e in events.snapshot()] == [True]


def test_event_that_flaps_for_more_than_a_second_is_settled() -> None:
    events, clock = log()
    for _ in range(4):
        events.open("SourceUnreachable", "A->B", "refused")
        clock.at += 0.1
        events.resolve("SourceUnreachable", "A->B")
        clock.at += 0.4
    assert [e.settled for e in events.snapshot()] == [True]


def test_event_that_cannot_be_undone_is_settled_after_a_second() -> None:
    events, clock = log()
    events.open("SourceLoss", "t-0", "offsets 0 to 9 expired")
    assert not events.snapshot()[0].settled
    clock.at += SETTLE_S
    assert events.snapshot()[0].settled


def test_event_log_is_read_and_reported_to_by_several_threads_at_once() -> None:
    events, _ = log()

    def report() -> None:
        for number in range(3000):
            events.open("GroupSyncRefused", f"group-{number}", "GROUP_AUTHORIZATION_FAILED", by="groups")

    reporting = threading.Thread(target=report)
    reporting.start()
    while reporting.is_alive():
        events.snapshot()
        events.retract("lane")
    reporting.join()
    assert len(events.snapshot()) == 3000
