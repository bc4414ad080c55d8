"""`groups.verify` with plain clients of both group protocols: who is served, who is not, and who was not observed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from fix_engine import create_topic, produce, wait_for

from drlib import clock
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.plan.plan import Argument, Call, Value
from drlib.drill.run.registry import make_action
from drlib.drill.step import rto_clock as moments
from drlib.drill.step import step_output as details
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.lab.lab import Lab
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict


@contextmanager
def reading(bootstrap: str, group: str, *topics: str, protocol: str = "classic") -> Iterator[None]:
    """A member of `group` that reads and commits every 200 ms."""
    stop = threading.Event()

    def run() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe(list(topics))
        while not stop.is_set():
            consumer.poll(0.1)
        consumer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)


class Moved:
    """Two topics with 20 records each on RIGHT, and groups whose positions a run has moved there."""

    def __init__(self, lab: Lab, run_dir: Path, name: Callable[[str], str]) -> None:
        self.lab, self.run_dir, self.name = lab, run_dir, name
        self.bootstrap = lab.clusters["RIGHT"].bootstrap
        self.mirror, self.local = name("west.orders"), name("orders")
        for topic in (self.mirror, self.local):
            create_topic(self.bootstrap, topic, 1)
            produce(self.bootstrap, topic, 20, partitions=1)
        self.moves: list[PositionMove] = []

    def move(self, group: str, *positions: tuple[str, int]) -> str:
        """Commit `positions` of a group of this test, as decided."""
        name = self.name(group)
        with Cluster(self.lab.clusters["RIGHT"].settings()) as cluster:
            cluster.alter_group_offsets(name, {TopicPartition(t, 0): CommittedOffset(at) for t, at in positions})
        self.moves += [
            PositionMove(
                group=name,
                source=TopicPartition(topic.removeprefix("west."), 0),
                source_offset=at,
                target=TopicPartition(topic, 0),
                offset=at,
                kind=TranslationKind.EXACT,
                records=0,
                as_of_ms=clock.now_ms(),
            )
            for topic, at in positions
        ]
        return name

    def verify(self, **arguments: Value | tuple[str, ...]) -> dict[str, object]:
        decided.write(self.run_dir, "RIGHT", self.moves)
        clusters = {alias: cluster.settings() for alias, cluster in self.lab.clusters.items()}
        context = DrillContext(clusters=clusters, flow=Flow("LEFT", "RIGHT"), run_dir=self.run_dir)
        call = Call("groups.verify", tuple(Argument(k, v) for k, v in arguments.items()))  # type: ignore[arg-type]
        action = make_action(call, context, "verify")
        return dict(action.act((), Abort(self.run_dir)))

    def rows(self) -> dict[str, dict[str, object]]:
        return {str(row["name"]): dict(row) for row in details.read_rows(self.run_dir, "verify")}


@pytest.fixture
def moved(lab: Lab, tmp_path: Path, fresh_topic: Callable[[str], str]) -> Moved:
    return Moved(lab, tmp_path, fresh_topic)


@pytest.mark.timeout(120)
def test_verify_observes_those_that_read_and_waits_for_no_other(moved: Moved) -> None:
    """One stopped group failed the whole run after 60 s; a group with nothing to read counted as served at once."""
    reads = moved.move("reads", (moved.mirror, 5), (moved.local, 20))
    new = moved.move("new-protocol", (moved.mirror, 8))
    idle = moved.move("idle", (moved.mirror, 20))
    stopped = moved.move("stopped", (moved.mirror, 20))
    by_hand = moved.move("by-hand", (moved.mirror, 3))
    foreign = moved.name("foreign")
    moments.mark(moved.run_dir, "fault", fault_ms := clock.now_ms() - 66_000)
    moments.mark(moved.run_dir, "act")
    with (
        reading(moved.bootstrap, foreign, moved.local),
        reading(moved.bootstrap, idle, moved.mirror),
    ):
        with Cluster(moved.lab.clusters["RIGHT"].settings()) as cluster:
            wait_for("the other group has members", lambda: bool(cluster.group_members(foreign)))
        timer = threading.Timer(1.0, produce, (moved.bootstrap, moved.local, 10), {"partitions": 1})
        timer.start()
        with (
            reading(moved.bootstrap, reads, moved.mirror, moved.local),
            reading(moved.bootstrap, new, moved.mirror, protocol="consumer"),
        ):
            began = time.monotonic()
            evidence = moved.verify(written=(moved.local,), members_s=0, not_read=(moved.local,))
            took_s = time.monotonic() - began
    timer.join()
    rows = moved.rows()
    assert took_s < 30
    assert {name: rows[name]["seen"] for name in (reads, new, idle, stopped, by_hand)} == {
        reads: "served",
        new: "served",
        idle: "not observed: nothing to read",
        stopped: "not observed: stopped",
        by_hand: "not observed: no members",
    }
    assert rows[foreign]["seen"] == "in use"
    assert {rows[topic]["kind"] for topic in (moved.mirror, moved.local)} == {"topic"}
    assert rows[f"producers of {moved.local}"]["seen"] == "served"
    assert foreign in str(evidence["other_groups"])
    assert evidence["served"] == 3
    part = details.read_part(moved.run_dir, "verify")
    assert [(c.name, c.verdict) for c in part.checks] == [("applications are served", Verdict.CONDITIONS)]
    rto = evidence["rto_seconds"]
    assert isinstance(rto, float)
    assert 66 < rto < 66 + took_s + 1  # from the fault, not from the step
    assert part.rto_seconds is not None
    assert part.rto_seconds.total == rto
    assert moments.at(moved.run_dir, "fault") == fault_ms


@pytest.mark.timeout(120)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_verify_group_that_does_not_subscribe_to_a_topic_fails_and_names_it(moved: Moved, protocol: str) -> None:
    """An application that subscribed to `orders` alone left the records of `west.orders` unread, and the run passed."""
    partial = moved.move("partial", (moved.mirror, 5), (moved.local, 5))
    with (
        reading(moved.bootstrap, partial, moved.local, protocol=protocol),
        pytest.raises(Unreachable, match="assigned no partition of") as failed,
    ):
        moved.verify()
    assert f"{moved.mirror} (15 unread)" in failed.value.why
    assert moved.rows()[moved.mirror]["seen"] == "misses topics"
    (check,) = details.read_part(moved.run_dir, "verify").checks
    assert check.verdict is Verdict.FAIL
    assert moments.at(moved.run_dir, "verify") is None


@pytest.mark.timeout(120)
def test_verify_position_in_a_topic_that_was_not_moved_has_no_part(moved: Moved) -> None:
    """A group had once read another topic on the target: the records left there failed the step each time it was given."""
    group = moved.move("billing", (moved.mirror, 5))
    with Cluster(moved.lab.clusters["RIGHT"].settings()) as cluster:
        other = moved.name("refunds")
        create_topic(moved.bootstrap, other, 1)
        produce(moved.bootstrap, other, 20, partitions=1)
        cluster.alter_group_offsets(group, {TopicPartition(other, 0): CommittedOffset(1)})
    with reading(moved.bootstrap, group, moved.mirror):
        assert moved.verify()["served"] == 1


@pytest.mark.timeout(120)
def test_verify_with_nothing_to_observe_measures_nothing_and_fails_nothing(moved: Moved) -> None:
    moved.move("stopped", (moved.mirror, 20))
    moments.mark(moved.run_dir, "fault", clock.now_ms() - 1000)
    evidence = moved.verify(members_s=0)
    assert "rto_seconds" not in evidence
    assert evidence["rto_why"] == moments.NOT_SERVED
    (check,) = details.read_part(moved.run_dir, "verify").checks
    assert check.verdict is Verdict.CONDITIONS
    assert check.evidence.startswith("not checked")


@pytest.mark.timeout(120)
def test_verify_written_topic_that_does_not_exist_is_named_at_once(moved: Moved) -> None:
    moved.move("stopped", (moved.mirror, 20))
    began = time.monotonic()
    with pytest.raises(UsageError, match="no producer can write to absent") as refused:
        moved.verify(written=("absent", moved.local))
    assert refused.value.why == "absent: it does not exist"
    assert time.monotonic() - began < 20
