"""A consumer group that is used on the target, or is further ahead there, holds up no other: it is left, and named."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position
from deadline import Deadline
from fix_engine import Engine, create_topic, produce, wait_for

from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.groups.rehearsal import ShadowGroups
from drlib.drill.actions.groups.rules import CHECK
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.plan.progress import Reach
from drlib.drill.run.registry import make_action
from drlib.drill.step import step_output as details
from drlib.drill.step.action import DrillAction, Evidence
from drlib.drill.step.context import DrillContext
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.admin.group_offsets import commit_all, committed
from drlib.kafka.share_groups import admin
from drlib.lab.lab import Lab
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict

PARTITIONS = 2
PLACED = [6, 8]  # where the positions 5 and 7 are on the target: a marker comes before the first record


@dataclass
class Place:
    """A mirrored topic of two partitions with 20 records each, and groups of this test alone."""

    engine: Engine
    tag: str
    context: DrillContext

    @property
    def topic(self) -> str:
        return f"left.{self.tag}"

    @property
    def mirror(self) -> str:
        return f"{self.engine.source}.{self.topic}"

    def commit(self, cluster: str, group: str, *offsets: int) -> None:
        topic = self.topic if cluster == self.engine.source else self.mirror
        wanted = {TopicPartition(topic, p): CommittedOffset(offset) for p, offset in enumerate(offsets)}
        assert commit_all(self.context.clusters[cluster], {group: wanted}, 30) == {group: None}

    def there(self, group: str) -> list[int | None]:
        """What is committed on the target."""
        answer = committed(self.context.clusters[self.engine.target], [group], 30)[group]
        assert not isinstance(answer, DrlibError)
        found: Mapping[TopicPartition, CommittedOffset] = answer
        at = [found.get(TopicPartition(self.mirror, p)) for p in range(PARTITIONS)]
        return [None if position is None else position.offset for position in at]

    def step(self, action: str, *groups: str, leave: tuple[str, ...] = (), run: str = ".") -> DrillAction:
        arguments = (Argument("groups", groups), Argument("leave", leave), Argument("positions_from", "source"))
        step = make_action(
            Call(action, arguments), replace(self.context, run_dir=self.context.run_dir / run), "translate"
        )
        assert isinstance(step, DrillAction)
        return step

    def act(self, action: str, *groups: str, leave: tuple[str, ...] = (), run: str = ".") -> Evidence:
        step = self.step(action, *groups, leave=leave, run=run)
        return step.act(step.changes(step.observe()), Abort(self.context.run_dir))

    def left(self) -> dict[str, str]:
        """By group of the step's table: why its first partition is left."""
        rows = details.read_rows(self.context.run_dir, "translate")
        return {str(row["group"]): str(row["left because"]) for row in reversed(rows)}


@pytest.fixture
def place(lab: Lab, tmp_path: Path) -> Iterator[Place]:
    tag = uuid.uuid4().hex[:6]
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    engine = Engine(tmp_path, left, right, f"SRC{tag}", f"DST{tag}", f"left.{tag}")
    try:
        create_topic(left, f"left.{tag}", PARTITIONS)
        produce(left, f"left.{tag}", 20 * PARTITIONS, partitions=PARTITIONS)
        engine.start()
        engine.wait_caught_up(f"left.{tag}", PARTITIONS)
        settings = load_mirror_settings(engine.properties)
        flow = Flow(engine.source, engine.target)
        context = DrillContext(clusters=settings.clusters, flow=flow, run_dir=tmp_path, properties=engine.properties)
        yield Place(engine, tag, context)
    finally:
        engine.close()


def test_group_with_a_member_on_the_target_is_left_and_named_and_the_others_move(place: Place) -> None:
    """As after a restart by hand, before anything else was moved."""
    moves, busy = (f"{name}-{place.tag}" for name in ("moves", "busy"))
    for group in (moves, busy):
        place.commit(place.engine.source, group, 5, 7)
    member = Consumer({"bootstrap.servers": place.engine.right, "group.id": busy, "enable.auto.commit": False})
    try:
        member.subscribe([place.mirror])
        deadline = Deadline(60)
        while not member.assignment():
            assert not deadline.passed, "the consumer was never assigned anything"
            member.poll(0.1)
        evidence = place.act("groups.translate", moves, busy)
        checks = details.read_part(place.context.run_dir, "translate").checks
        place.act("groups.translate", busy, run="alone")
        (alone,) = details.read_part(place.context.run_dir / "alone", "translate").checks
    finally:
        member.close()
    assert place.left() == {moves: "", busy: "its group is left: it has members there, which own its positions"}
    assert (place.there(moves), place.there(busy)) == (PLACED, [None, None])
    assert (evidence["groups"], evidence["left"], evidence["re_reads_at_most"]) == (2, 2, None)
    ((name, verdict, words),) = [(check.name, check.verdict, check.evidence) for check in checks]
    assert (name, verdict) == (CHECK, Verdict.CONDITIONS)
    assert f"1 groups were moved, 1 were left: {busy}: it has members there" in words
    assert alone.verdict is Verdict.FAIL


def test_group_that_is_not_moved_and_has_positions_in_an_open_transaction_holds_up_no_other(place: Place) -> None:
    moves, open_ = (f"{name}-{place.tag}" for name in ("moves", "open"))
    for group in (moves, open_):
        place.commit(place.engine.source, group, 5, 7)
    producer = Producer({"bootstrap.servers": place.engine.left, "transactional.id": open_, "log_level": 0})
    member = Consumer({"bootstrap.servers": place.engine.left, "group.id": open_, "log_level": 0})
    try:
        producer.init_transactions(30)
        producer.begin_transaction()
        position = Position(place.topic, 0, 3)
        producer.send_offsets_to_transaction([position], member.consumer_group_metadata(), 30)
        began = time.monotonic()
        evidence = place.act("groups.translate", moves)
        assert time.monotonic() - began < 10  # an unstable position is waited for longer
    finally:
        producer.abort_transaction(30)
        member.close()
    assert (evidence["groups"], place.there(moves)) == (1, PLACED)


def test_group_that_is_further_ahead_on_the_target_is_left_unless_it_may_be_moved_in_part(place: Place) -> None:
    """As a batch job of the same name had read there: it has no members now, and its position is still there."""
    moves, ahead = (f"{name}-{place.tag}" for name in ("moves", "ahead"))
    for group in (moves, ahead):
        place.commit(place.engine.source, group, 5, 7)
    place.commit(place.engine.target, ahead, 9, 2)
    evidence = place.act("groups.translate", moves, ahead)
    assert (place.there(moves), place.there(ahead)) == (PLACED, [9, 2])
    why = f"{place.mirror}-0, it is at 9 there, further ahead: the group was used there"
    assert place.left() == {moves: "", ahead: f"its group is left: {why}"}
    (check,) = details.read_part(place.context.run_dir, "translate").checks
    assert (evidence["left"], check.name, check.verdict) == (2, CHECK, Verdict.CONDITIONS)
    assert f"1 groups were moved, 1 were left: {ahead}: {why}" in check.evidence
    place.act("groups.translate", moves, ahead, leave=(ahead,), run="in-part")
    assert (place.there(moves), place.there(ahead)) == (PLACED, [9, 8])
    assert details.read_part(place.context.run_dir / "in-part", "translate").checks == ()


def test_group_whose_position_would_be_guessed_refuses_a_rehearsal(place: Place) -> None:
    group = f"ahead-{place.tag}"
    place.commit(place.engine.source, group, 5, 7)
    shadow = place.step("groups.shadow", group)
    assert isinstance(shadow, ShadowGroups)
    place.commit(place.engine.target, shadow.named(group), 9, 2)
    with pytest.raises(UsageError, match=f"{group}: {place.mirror}-0, it is at 9 there, further ahead"):
        shadow.act(shadow.changes(shadow.observe()), Abort(place.context.run_dir))
    assert place.there(shadow.named(group)) == [9, 2]


def test_group_that_is_ahead_by_markers_alone_is_kept_and_counts_as_moved(place: Place) -> None:
    """As a consumer at the end of an idle partition commits: behind the marker of a later claim. One record more is a step."""
    engine, (kept, used) = place.engine, (f"{name}-{place.tag}" for name in ("kept", "used"))
    with Cluster(place.context.clusters[engine.target]) as cluster:
        mirrors = [TopicPartition(place.mirror, p) for p in range(PARTITIONS)]
        before = cluster.log_ends(mirrors)
        engine.stop(engine.processes[-1])
        engine.start()
        wait_for("markers of another claim", lambda: all(e > before[p] for p, e in cluster.log_ends(mirrors).items()))
        ends = [cluster.log_ends(mirrors)[p] for p in mirrors]
    for group, at in ((kept, 20), (used, 19)):
        place.commit(engine.source, group, at, at)
        place.commit(engine.target, group, *ends)
    evidence = place.act("groups.translate", kept, used)
    assert place.there(kept) == place.there(used) == ends
    assert (place.left()[kept], evidence["exact"]) == ("", 4)
    assert f"it is at {ends[0]} there, further ahead" in place.left()[used]
    (check,) = details.read_part(place.context.run_dir, "translate").checks
    assert f"1 groups were moved, 1 were left: {used}" in check.evidence


def test_group_that_the_target_refuses_is_left_unless_it_refuses_all(place: Place) -> None:
    """A share group of the same name: Kafka describes no such consumer group there, and refuses its positions."""
    moves, shares = (f"{name}-{place.tag}" for name in ("moves", "shares"))
    for group in (moves, shares):
        place.commit(place.engine.source, group, 5, 7)
    target = place.context.clusters[place.engine.target]
    admin.set_starts(target, shares, {TopicPartition(place.mirror, 0): 3}, 30)
    with pytest.raises(ClusterRefused):
        place.act("groups.translate", shares, run="alone")
    evidence = place.act("groups.translate", moves, shares)
    assert (evidence["groups"], evidence["left"]) == (2, 2)
    assert place.there(moves) == PLACED
    assert "GROUP_ID_NOT_FOUND" in place.left()[shares]


def test_group_that_others_moved_while_the_step_was_interrupted_is_left_and_the_others_complete(place: Place) -> None:
    first, second = f"first-{place.tag}", f"second-{place.tag}"
    for group in (first, second):
        place.commit(place.engine.source, group, 5, 7)
    place.act("groups.translate", first, second)
    place.commit(place.engine.target, first, 7, 8)  # its application has read on
    assert place.step("groups.translate", first, second).probe(()) is Reach.PARTLY
    evidence = place.act("groups.translate", first, second)  # as a process that resumes the run does
    assert evidence["left"] == 2
    assert "another client changed it" in place.left()[first]
    assert place.left()[second] == ""
    assert (place.there(first), place.there(second)) == ([7, 8], PLACED)
    (check,) = details.read_part(place.context.run_dir, "translate").checks
    assert check.verdict is Verdict.CONDITIONS
    place.step("groups.translate", first, second).undo(())
    assert (place.there(first), place.there(second)) == ([7, 8], [None, None])
