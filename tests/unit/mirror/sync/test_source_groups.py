"""Which checkpoints are written as the mirror advances: the last one is about the current position."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from drlib import clock
from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.kafka.admin.descriptions import Record
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net.connection import ConnectionLost
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.journal.entries import Placement, Run
from drlib.mirror.journal.fields import ClaimId, SourcePartition
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import Lost
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.shared_followed import SharedTopic
from drlib.mirror.offsets.translation.shared_logs import SharedAnswer
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC, UNLISTED, GroupPositions, Polled, Position
from drlib.model import Flow, TopicPartition, Translation, TranslationKind

SOURCE, TARGET = TopicPartition("t", 0), TopicPartition("A.t", 0)
KEY, CLAIM = SourcePartition(uuid.UUID(int=1), 0), ClaimId(7, 0)


class Written:
    """Collects the checkpoints instead of producing them."""

    def __init__(self) -> None:
        self.checkpoints: list[tuple[int, int, int]] = []
        self.transactions: list[tuple[int, int] | None] = []
        self.ended: list[tuple[Checkpoint, int]] = []

    def checkpoint(
        self,
        checkpoint: Checkpoint,
        position: int,
        as_of_ms: int,
        transaction: tuple[int, int] | None = None,
        *,
        lost: Lost,
    ) -> None:
        self.checkpoints.append((checkpoint.upstream_offset, checkpoint.offset, position))
        self.transactions.append(transaction)

    def gone(self, checkpoint: Checkpoint, position: int, as_of_ms: int, topic_ids: str = "", *, lost: Lost) -> None:
        self.ended.append((checkpoint, position))


@pytest.mark.parametrize("emits_first", [0, 1, 2])  # how often before anything is mirrored
def test_emit_group_known_before_first_mirrored_record_gets_its_position(emits_first: int) -> None:
    stream = PartitionStream(KEY, SOURCE, TARGET, CLAIM, PartitionMap(), position=0, target_next=1)
    written: Any = Written()
    settings: Any = SimpleNamespace(mirrors_group=lambda group: True)
    unused: Any = None
    groups = GroupPositions(settings, unused, unused, written, EventLog(), lambda partition: stream)
    groups._learn("g", SOURCE, Position(500, "", 1))
    stream.map.apply(Placement(KEY, CLAIM, 0, 1))
    for _ in range(emits_first):
        groups.emit()
    stream.map.apply(Run(KEY, CLAIM, 0, 0))
    for acked in (100, 3000):
        stream.map.ack(CLAIM, acked)
        stream.map.cover(acked)
        groups.progressed(SOURCE)
        groups.emit()
    assert written.checkpoints[-1] == (500, 501, 500)


def test_checkpoint_says_which_transaction_committed_also_where_a_poll_found_the_position_first() -> None:
    stream = PartitionStream(KEY, SOURCE, TARGET, CLAIM, PartitionMap(), position=0, target_next=1)
    for entry in (Placement(KEY, CLAIM, 0, 1), Run(KEY, CLAIM, 0, 0)):
        stream.map.apply(entry)
    stream.map.ack(CLAIM, 100)
    written: Any = Written()
    settings: Any = SimpleNamespace(mirrors_group=lambda group: True)
    unused: Any = None
    groups = GroupPositions(settings, unused, unused, written, EventLog(), lambda partition: stream)
    steps = [
        (Position(10, "", 1, (4, 7)), (4, 7)),
        (Position(10, "", 2), None),  # a poll that finds the same changes nothing
        (Position(20, "", 5), None),
        (Position(20, "", 4, (4, 8)), (4, 8)),  # the commit, read after the poll
        (Position(15, "", 3, (4, 9)), None),  # an older one
    ]
    for position, of in steps:
        before = len(written.checkpoints)
        groups._learn("g", SOURCE, position)
        groups.emit()
        groups.emit()
        assert written.transactions[before:] == ([of] if of is not None or position.as_of_ms == 5 else [])
    assert [offset for _, _, offset in written.checkpoints] == [10, 20, 20]


def test_checkpoint_of_a_shared_topic_that_was_exact_by_an_old_map_back_follows_the_newer_one() -> None:
    known = {"end": 20}  # where the map back ends, and with it the position

    class Back:
        def reached(self, topic: SharedTopic) -> int:
            return known["end"]

        def there(self, there: PartitionMap, topic: SharedTopic, position: int) -> SharedAnswer:
            return SharedAnswer(Translation(known["end"], TranslationKind.EXACT), True)

    stream = PartitionStream(KEY, SOURCE, SOURCE, CLAIM, PartitionMap(), position=0, target_next=1)
    stream.shared, stream.target_id = True, uuid.UUID(int=9)
    written: list[int] = []
    writer: Any = SimpleNamespace(checkpoint=lambda checkpoint, *_, lost: written.append(checkpoint.offset))
    settings: Any = SimpleNamespace(mirrors_group=lambda group: True)
    unused: Any = None
    back: Any = Back()
    groups = GroupPositions(settings, unused, unused, writer, EventLog(), lambda _: stream, back)
    groups._learn("g", SOURCE, Position(50, "", 1))
    for end in (20, 20, 50, 50):
        known["end"] = end
        groups._look_again()
        groups.emit()
    assert written == [20, 50]


async def test_poll_without_a_word_on_the_right_to_list_groups_changes_no_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings: Any = SimpleNamespace(flow="A->B")
    unused: Any = None
    events = EventLog()
    groups = GroupPositions(settings, unused, unused, unused, events, unused)
    monkeypatch.setattr(groups, "_poll", lambda _: Polled((), {}, complete=None))
    await groups._poll_once()
    assert not events.is_open(UNLISTED, "A->B")
    events.open(UNLISTED, "A->B", "a right is missing")
    await groups._poll_once()
    assert events.is_open(UNLISTED, "A->B")


@pytest.mark.parametrize(
    ("code", "asks_for_a_right"), [("CLUSTER_AUTHORIZATION_FAILED", True), ("INVALID_REQUEST", False)]
)
async def test_poll_that_is_refused_names_a_right_only_where_one_is_missing(
    monkeypatch: pytest.MonkeyPatch, code: str, asks_for_a_right: bool
) -> None:
    def refuse(_: object) -> Polled:
        raise ClusterRefused("listing groups was refused", code, "Read the log.", code=code)

    settings: Any = SimpleNamespace(flow="A->B")
    unused: Any = None
    events = EventLog()
    groups = GroupPositions(settings, ClusterSettings("A", ("h:1",)), unused, unused, events, unused)
    monkeypatch.setattr(groups, "_poll", refuse)
    await groups._poll_once()
    (event,) = events.snapshot()
    assert event.name == UNLISTED
    assert ("--operation Describe --cluster" in event.detail) == asks_for_a_right
    assert code in event.detail


def following(written: Written) -> GroupPositions:
    """Of a flow whose mirror has offsets 0 to 99 of `SOURCE`."""
    stream = PartitionStream(KEY, SOURCE, TARGET, CLAIM, PartitionMap(), position=0, target_next=1)
    for entry in (Placement(KEY, CLAIM, 0, 1), Run(KEY, CLAIM, 0, 0)):
        stream.map.apply(entry)
    stream.map.ack(CLAIM, 100)
    settings: Any = SimpleNamespace(
        mirrors_group=lambda group: True,
        flow=Flow("A", "B"),
        policy=DefaultReplicationPolicy(aliases=("A",)),
        emit_checkpoints=True,
    )
    unused: Any = None
    writer: Any = written
    return GroupPositions(settings, unused, unused, writer, EventLog(), lambda partition: stream)


async def test_group_that_was_deleted_is_marked_once_a_poll_confirms_it_and_comes_back_with_its_next_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, asked = Written(), []
    groups = following(written)

    def poll(doubtful: frozenset[tuple[str, TopicPartition]]) -> Polled:
        asked.append(doubtful)
        return Polled((), {}, complete=True, answered={group for group, _ in doubtful}, topics={"t"})

    monkeypatch.setattr(groups, "_poll", poll)
    groups._learn("g", SOURCE, Position(50, "", 1))
    groups.emit()
    await groups._poll_once()
    groups._learn("g", SOURCE, None)
    assert not written.ended
    await groups._poll_once()
    await groups._poll_once()
    assert asked == [frozenset(), {("g", SOURCE)}, frozenset()]
    assert written.ended == [(Checkpoint("g", TARGET, 50, 51), 50)]
    assert written.checkpoints == [(50, 51, 50)]
    groups._learn("g", SOURCE, Position(50, "", 2))
    groups.emit()
    assert written.checkpoints == [(50, 51, 50), (50, 51, 50)]


async def test_group_of_the_log_that_went_long_before_the_worker_started_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = Written()
    groups = following(written)
    last = Checkpoint("g", TARGET, 50, 51)
    log = TopicPartition("A.checkpoints.internal", 0)
    monkeypatch.setattr(groups, "_kept", lambda: [Record(log, 0, 1000, last.key(), last.value())])
    there = (("other", SOURCE, Position(9, "", 1)),)
    monkeypatch.setattr(groups, "_poll", lambda _: Polled(there, {}, complete=True, answered={"g"}, topics={"t"}))
    await groups._look_back()
    await groups._poll_once()
    assert written.ended == [(last, 50)]


async def test_group_that_commits_between_a_poll_and_the_mark_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Written()
    groups = following(written)
    groups._learn("g", SOURCE, Position(50, "", 1))
    groups.emit()
    groups._learn("g", SOURCE, None)

    def poll(doubtful: object) -> Polled:
        groups._learn("g", SOURCE, Position(60, "", 2))  # followed while the poll runs
        return Polled((), {}, complete=True, answered={"g"}, topics={"t"})

    monkeypatch.setattr(groups, "_poll", poll)
    await groups._poll_once()
    groups.emit()
    assert not written.ended
    assert written.checkpoints[-1] == (60, 61, 60)


async def test_poll_from_before_a_deletion_does_not_bring_the_position_back(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = following(Written())
    groups._learn("g", SOURCE, Position(50, "", 1))
    asked_ms = clock.now_ms()

    def poll(doubtful: object) -> Polled:
        groups._learn("g", SOURCE, None)
        return Polled([("g", SOURCE, Position(50, "", asked_ms))], {}, complete=True, answered={"g"})

    monkeypatch.setattr(groups, "_poll", poll)
    await groups._poll_once()
    assert groups.positions() == {}


async def test_end_that_meets_an_error_of_the_source_ends_the_following(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task group that has errors forgets that its task was cancelled."""
    follows, lost = asyncio.Event(), asyncio.Event()

    async def follow_node(*_: object) -> None:
        follows.set()
        await lost.wait()
        lost.clear()
        raise ConnectionLost("broker 1", "it was reset")

    async def nothing(*_: object) -> None:
        pass

    async def metadata(names: list[str]) -> Any:
        topic = SimpleNamespace(topic_id=uuid.UUID(int=2), partitions={0: SimpleNamespace(leader=1)}, error_code=0)
        return SimpleNamespace(topics={OFFSETS_TOPIC: topic}, brokers={})

    settings: Any = SimpleNamespace(flow="A->B")
    source: Any = SimpleNamespace(metadata=metadata)
    unused: Any = None
    groups = GroupPositions(settings, unused, source, unused, EventLog(), unused)
    monkeypatch.setattr(groups, "_follow_node", follow_node)
    monkeypatch.setattr(groups, "_check_answers", nothing)
    following = asyncio.create_task(groups._follow())
    await follows.wait()
    follows.clear()
    lost.set()
    await asyncio.sleep(0)
    following.cancel()
    done, _ = await asyncio.wait([following], timeout=1.0)
    following.cancel()
    assert done, "it follows on"
    assert following.cancelled()
