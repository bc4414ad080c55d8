"""Topics mirrored again from the source's start: by command, by policy, and because nothing of them was ever copied."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from command_line import drlib
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, commit, create_topic, delete_topic, produce, read_all, wait_for
from testbed_lane import connected, journal_of, running, until

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.fencing.claim import claim as take
from drlib.mirror.engine.fencing.target_clock import TargetClock
from drlib.mirror.engine.lane import lane
from drlib.mirror.journal.entries import ClaimId, Remirrored, TopicNames


def exists(bootstrap: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=5).topics


def delete(bootstrap: str, topic: str) -> None:
    delete_topic(bootstrap, topic)
    wait_for(f"{topic} is gone", lambda: not exists(bootstrap, topic))


def remirror(engine: Engine, *arguments: str) -> str:
    result = drlib("remirror", str(engine.properties), *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refusal(engine: Engine, *arguments: str) -> str:
    result = drlib("remirror", str(engine.properties), *arguments)
    assert result.returncode == 2, result.stdout
    return result.stderr


def is_open(engine: Engine, name: str) -> bool:
    return any(event.name == name and event.resolved_ms is None for event in engine.events())


async def times_remirrored(engine: Engine) -> int:
    async with connected(engine.right) as client:
        entries = [*await journal_of(client, engine, 0), *await journal_of(client, engine, 1)]
    return sum(isinstance(entry, Remirrored) for entry in entries)


async def journaled_mirrors(engine: Engine) -> set[str]:
    async with connected(engine.right) as client:
        return {entry.target_topic for entry in await journal_of(client, engine, 0) if isinstance(entry, TopicNames)}


def test_remirror_command_is_obeyed_by_the_running_worker_once(engine: Engine, fresh_topic: Callable[..., str]) -> None:
    """Topics are listed every ten minutes only, as by default: the lane itself asks for the missing mirror topic."""
    topic, other = engine.topics, fresh_topic("other")
    mirror = f"{engine.source}.{topic}"
    engine.topics = f"{topic}, {other}"
    engine.extra["refresh.topics.interval.seconds"] = "600"
    for name in (topic, other):
        create_topic(engine.left, name, 2)
        produce(engine.left, name, 100, partitions=2)
    commit(engine.left, "billing", topic, 30)
    worker = engine.start()
    for name in (topic, other):
        engine.wait_caught_up(name, 2)
    assert "no reason" in refusal(engine, topic)
    delete(engine.right, mirror)
    event = engine.wait_reported("MirrorTopicRecreated", f"{mirror}-0")
    assert f"drlib remirror FILE {topic}" in event.remedy

    shown = remirror(engine, topic)
    assert f"{mirror} was deleted" in shown
    assert "at most 100 records" in shown
    assert "group billing" in shown
    assert "Nothing was changed" in shown
    assert not exists(engine.right, mirror)
    remirror(engine, topic, "--yes")
    produce(engine.left, topic, 10, partitions=2, first=100)
    for number in (0, 1):
        engine.wait_reported("MirrorTopicRecreated", f"{mirror}-{number}", resolved=True)
    engine.wait_caught_up(topic, 2)
    engine.assert_same(topic, 2)
    before = asyncio.run(times_remirrored(engine))

    delete(engine.right, mirror)  # the request was for the topic that was gone then
    wait_for("it is parked again", lambda: is_open(engine, "MirrorTopicRecreated"))
    produce(engine.left, other, 10, partitions=2, first=100)
    engine.wait_caught_up(other, 2)
    assert engine.stop(worker) == 0, engine.log()
    assert asyncio.run(times_remirrored(engine)) == before
    assert len(engine.processes) == 1
    engine.assert_same(other, 2)


def test_remirror_policy_fills_a_deleted_mirror_and_no_topic_of_another_producer(engine: Engine) -> None:
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    engine.extra |= {"drlib.target.loss.policy": "remirror", "refresh.topics.interval.seconds": "600"}
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    delete(engine.right, mirror)
    engine.wait_reported("MirrorTopicRecreated", f"{mirror}-0", resolved=True)
    engine.wait_caught_up(topic, 1)
    engine.assert_same(topic, 1)
    assert engine.stop(worker) == 0, engine.log()

    delete(engine.right, mirror)
    create_topic(engine.right, mirror, 1)
    produce(engine.right, mirror, 5, partitions=1)
    foreign = read_all(engine.right, mirror, 1)
    worker = engine.start()
    engine.wait_reported("MirrorTopicRecreated", f"{mirror}-0")
    assert "did not write" in refusal(engine, topic, "--yes")
    assert engine.stop(worker) == 0, engine.log()
    assert read_all(engine.right, mirror, 1) == foreign


@pytest.mark.parametrize("runs", [True, False])
def test_source_and_mirror_recreated_is_mirrored_from_the_new_start(engine: Engine, runs: bool) -> None:
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    if not runs:
        assert engine.stop(worker) == 0, engine.log()
    delete(engine.left, topic)
    if runs:
        engine.wait_reported("SourceTopicDeleted", topic)
    delete(engine.right, mirror)
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 20, partitions=1, first=1000)
    if not runs:
        worker = engine.start()
    wait_for("the new topic is mirrored", lambda: engine.caught_up(topic, 1) and exists(engine.right, mirror))
    wait_for("all of it", lambda: len(read_all(engine.right, mirror, 1)[0]) == 20)
    engine.assert_same(topic, 1)
    engine.wait_all_resolved()
    assert engine.stop(worker) == 0, engine.log()


def test_source_recreated_after_the_lane_forgot_it_is_mirrored(engine: Engine) -> None:
    """What a claim deleted from the journal, because neither cluster had it, does not count for topics that join the claim."""
    topic, other, mirror = engine.topics, f"{engine.topics}.other", f"{engine.source}.{engine.topics}"
    engine.topics = f"{topic}, {other}"
    engine.extra |= {"drlib.lanes": "1", "refresh.topics.interval.seconds": "4"}
    for name in (topic, other):
        create_topic(engine.left, name, 1)
        produce(engine.left, name, 50, partitions=1)
    worker = engine.start()
    for name in (topic, other):
        engine.wait_caught_up(name, 1)
    delete(engine.left, topic)
    delete(engine.right, mirror)
    engine.wait_reported("SourceTopicDeleted", topic)
    wait_for("the journal has nothing of it", lambda: mirror not in asyncio.run(journaled_mirrors(engine)))
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 20, partitions=1, first=1000)
    wait_for("the new topic is mirrored", lambda: engine.caught_up(topic, 1) and exists(engine.right, mirror))
    engine.assert_same(topic, 1)
    assert mirror in asyncio.run(journaled_mirrors(engine))
    engine.wait_all_resolved()
    assert engine.stop(worker) == 0, engine.log()


def test_source_recreated_behind_a_claim_that_is_counted_late_is_no_foreign_writer(engine: Engine) -> None:
    """While the topic is gone its lane is claimed without it; what it copied is counted when later claims have written more."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    engine.extra["drlib.lanes"] = "1"
    worker: subprocess.Popen[bytes] | None = None
    for times in range(4):
        create_topic(engine.left, topic, 1)
        produce(engine.left, topic, 10, partitions=1, first=10 * times)
        worker = worker or engine.start()
        wait_for("it is copied", lambda n=10 * times + 10: exists(engine.right, mirror) and copied(engine, mirror) == n)
        delete(engine.left, topic)
        engine.wait_reported("SourceTopicDeleted", topic)
    assert worker is not None
    assert [event.name for event in engine.events() if event.name == "ForeignWriter"] == []
    assert engine.stop(worker) == 0, engine.log()


def copied(engine: Engine, mirror: str) -> int:
    return len(read_all(engine.right, mirror, 1)[0])


async def test_mirror_topic_that_is_gone_before_it_was_mirrored_waits_alone(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    """The journal does not know it. Topics are listed every ten minutes only, and the lane has to be claimed meanwhile."""
    stray, lost, kept = engine.topics, fresh_topic("lost"), fresh_topic("kept")
    mirror = f"{engine.source}.{stray}"
    engine.topics = f"{stray}, {lost}, {kept}"
    engine.extra |= {"drlib.lanes": "1", "refresh.topics.interval.seconds": "600"}
    for name in (stray, lost, kept):
        create_topic(engine.left, name, 1)
        produce(engine.left, name, 50, partitions=1)
    create_topic(engine.right, mirror, 1)
    produce(engine.right, mirror, 5, partitions=1)
    async with running(engine) as owner:
        await owner.mirrored(kept, {0: 50})
        await owner.mirrored(lost, {0: 50})
        await until("it is parked", lambda: owner.events.is_open("JournalLost", mirror))
        claim = owner.claim()
        await asyncio.to_thread(delete, engine.right, mirror)  # as the event says
        await asyncio.to_thread(delete, engine.right, f"{engine.source}.{lost}")  # which ends the claim
        await until("it is missed", lambda: owner.events.is_open("MirrorUnavailable", f"{mirror}-0"), 20)
        await until(
            "so is the other", lambda: owner.events.is_open("MirrorTopicRecreated", f"{engine.source}.{lost}-0")
        )
        await asyncio.to_thread(produce, engine.left, kept, 50, partitions=1, first=50)
        await owner.mirrored(kept, {0: 100}, 20)
        assert owner.claim() != claim
        await owner.mirrored(stray, {0: 50})
        await until("it is over", lambda: not owner.events.is_open("MirrorUnavailable", f"{mirror}-0"))
        assert not owner.events.is_open("JournalLost", mirror)
        assert any("does not exist" in detail for detail in owner.reported("MirrorUnavailable"))
    for name in (stray, kept):
        engine.assert_same(name, 1)


async def test_remirror_topic_that_is_filled_while_it_is_claimed_stays_parked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A former owner may begin to fill it until the fence: whether it is empty counts behind the fence only."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    engine.extra |= {"drlib.target.loss.policy": "remirror", "drlib.lanes": "1"}
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    engine.mirror_now(topic)
    delete(engine.right, mirror)
    create_topic(engine.right, mirror, 1)
    claimed: list[str] = []

    async def late(
        target: ClusterClient, name: str, partitions: Mapping[str, Sequence[int]], *, clock: TargetClock
    ) -> ClaimId:
        if mirror in partitions and not claimed:
            claimed.append(name)
            await asyncio.to_thread(produce, engine.right, mirror, 1, partitions=1)
        return await take(target, name, partitions, clock=clock)

    monkeypatch.setattr(lane, "claim", late)
    async with running(engine) as owner:
        await until("it is reported", lambda: owner.events.is_open("MirrorTopicRecreated", f"{mirror}-0"))
        assert claimed
    assert len(read_all(engine.right, mirror, 1)[0]) == 1


def test_remirror_refuses_what_it_cannot_do(engine: Engine, tmp_path: Path) -> None:
    create_topic(engine.left, engine.topics, 1)
    assert "the journal" in refusal(engine, engine.topics)
    assert "no flow mirrors" in refusal(engine, "no-such-topic")
