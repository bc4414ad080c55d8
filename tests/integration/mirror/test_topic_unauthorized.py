"""An ACL change removes our rights on a live mirror topic: that topic alone waits, is named, and later continues.

With `allow.everyone.if.no.acl.found` the first ACL for another principal suffices: it removes all our rights on the topic,
Describe included, so that records of former claims can be neither looked up nor counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from fix_authorizer import ME, acl, add_acls, drop_acls
from fix_engine import Engine, create_topic, wait_for
from testbed_lane import append, connected, headers, journal_of, running, send, until
from testbed_sync import move, position

from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.lab.lab import Lab
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.produce_loop import ProduceLoop
from drlib.mirror.journal.entries import Entry, Sealed, Unsure
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.model import TopicPartition

ELSE = "User:else"
LANE_WIDE = (
    "LaneUnauthorized",
    "LaneFault",
    "LaneFailed",
    "LaneLost",
    "DiscoveryFailed",
    "MirrorTopicRefused",
    "GroupSyncFailed",
)


def shut(bootstrap: str, topic: str, who: str = ELSE, operation: AclOperation = AclOperation.WRITE) -> None:
    """Add the first ACL of a topic: `who` may do this, and no other right exists."""
    add_acls(bootstrap, acl(ResourceType.TOPIC, topic, operation, who=who))


def reopen(bootstrap: str, topic: str) -> None:
    """Remove all ACLs of the topic."""
    drop_acls(bootstrap, ResourceType.TOPIC, topic)


@contextmanager
def shut_for_now(
    bootstrap: str, topic: str, who: str = ELSE, operation: AclOperation = AclOperation.WRITE
) -> Iterator[None]:
    shut(bootstrap, topic, who, operation)
    try:
        yield
    finally:
        reopen(bootstrap, topic)


def of(entries: list[Entry], kind: type[Sealed] | type[Unsure], maps: Maps, topic: str) -> list[Entry]:
    ids = {topic_id for topic_id, names in maps.names.items() if names.source_topic == topic}
    return [e for e in entries if isinstance(e, kind) and e.partition.topic_id in ids]


async def offsets(client: ClusterClient, partition: TopicPartition) -> list[int]:
    """The offsets of all records in a partition."""
    batches = [header for header in await headers(client, partition) if not header.is_control]
    return [offset for header in batches for offset in range(header.base_offset, header.next_offset)]


@pytest.mark.parametrize(
    ("who", "operation"),
    [(ELSE, AclOperation.WRITE), pytest.param(ME, AclOperation.DESCRIBE, marks=pytest.mark.long)],
    ids=["not seen", "seen, not written"],
)
async def test_mirror_topic_losing_rights_waits_alone_and_continues(
    engine: Engine,
    authorizer_lab: Lab,
    fresh_topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    operation: AclOperation,
) -> None:
    engine.right = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    engine.extra |= {
        "drlib.lanes": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    closed, open_ = fresh_topic("closed"), fresh_topic("open")
    engine.topics = f"{closed}, {open_}"
    mirror, group = f"{engine.source}.{closed}", f"group-of-{open_}"

    async def written(first: int) -> None:
        for topic in (closed, open_):
            await asyncio.to_thread(send, engine.left, topic, [f"{n}" for n in range(first, first + 50)])

    tries: list[int] = []
    resume = ProduceLoop.resume

    async def counted(self: ProduceLoop, streams: Sequence[PartitionStream]) -> None:
        tries.append(len(streams))
        await resume(self, streams)

    monkeypatch.setattr(ProduceLoop, "resume", counted)
    for topic in (closed, open_):
        await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await written(0)
    async with running(engine) as owner, connected(engine.right) as client:
        for topic in (closed, open_):
            await owner.mirrored(topic, {0: 50})
            await asyncio.to_thread(move, engine.left, group, topic, 20)
        journal = owner.flow.setup.journal_topic
        with shut_for_now(engine.right, mirror, who, operation):
            await written(50)
            await until("it is reported", lambda: owner.events.is_open("TargetUnauthorized", mirror))
            await owner.mirrored(open_, {0: 100})
            first = owner.claim()
            await until("it was tried again", lambda: sum(tries) >= 3)
            assert owner.claim() == first, "the other topic was claimed again for it"
            await written(100)
            await owner.mirrored(open_, {0: 150})
            assert owner.events.is_open("TargetUnauthorized", mirror)
            waiting = owner.partition(closed)
            assert waiting is not None
            assert "kafka-acls.sh" in waiting.parked
            assert waiting.mirrored == 50
            maps = await read_maps(client, journal)
            why = maps.refusal(closed, 0)  # not known, which is not the same as nothing
            assert isinstance(why, DrlibError)
            assert "TOPIC_AUTHORIZATION_FAILED" in why.why
            there = maps.source(open_, 0)
            assert there is not None
            assert there.forward(150).exact
            await asyncio.to_thread(move, engine.left, group, open_, 70)
            place = there.forward(70).offset
            over_there = partial(position, engine.right, group, f"{engine.source}.{open_}")
            await asyncio.to_thread(wait_for, "the group is moved", lambda: over_there() == place, 30)
        await owner.mirrored(closed, {0: 150})
        await until("it is over", lambda: not owner.events.is_open("TargetUnauthorized", mirror))
        assert not [e for e in owner.events.snapshot() if e.name in LANE_WIDE]
    for topic in (closed, open_):
        engine.assert_same(topic, 1)
    async with connected(engine.right) as client:
        maps = await read_maps(client, journal)
        known = maps.source(closed, 0)
        stands = await offsets(client, TopicPartition(mirror, 0))
        assert not of(await journal_of(client, engine), Unsure, maps, closed)
    assert known is not None
    assert [known.forward(n).offset for n in range(150)] == stands


async def test_late_append_in_unfenced_partition_is_counted_by_the_fencing_claim(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    """A topic was left out of a claim while batches of the former owner were still in flight to it."""
    left_out, other = engine.topics, fresh_topic("other")
    engine.extra["drlib.lanes"] = "1"
    engine.topics = f"{left_out}, {other}"
    for topic in (left_out, other):
        await asyncio.to_thread(create_topic, engine.left, topic, 1)
        await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
    mirror = TopicPartition(f"{engine.source}.{left_out}", 0)
    async with connected(engine.right) as client:
        async with running(engine, abrupt=True) as owner:
            for topic in (left_out, other):
                await owner.mirrored(topic, {0: 50})
            former = owner.claim()
        engine.topics = other
        await asyncio.to_thread(send, engine.left, other, [f"b{n}" for n in range(50)])
        async with running(engine) as heir:
            await heir.mirrored(other, {0: 100})
            journal = heir.flow.setup.journal_topic
        values, when = [f"b{n}" for n in range(50)], int(time.time() * 1000)
        await asyncio.to_thread(send, engine.left, left_out, values, timestamp=when)
        # The first ten come late. Nothing was fenced there: they are taken.
        error, _ = await append(client, mirror, former, 50, timestamp=when, sent=values[:10])
        assert error == 0
        engine.topics = f"{left_out}, {other}"
        async with running(engine) as last:
            await last.mirrored(left_out, {0: 100})
        stands = await offsets(client, mirror)
        maps = await read_maps(client, journal)
        (sealed,) = [
            e.q
            for e in of(await journal_of(client, engine), Sealed, maps, left_out)
            if isinstance(e, Sealed) and e.claim == former
        ]
    known = maps.source(left_out, 0)
    assert known is not None
    assert len(stands) == 100
    assert sealed == 60
    assert [known.forward(n).offset for n in range(100)] == stands
    engine.assert_same(other, 1)


async def test_membership_right_revoked_is_reported_and_waited_for(engine: Engine, authorizer_lab: Lab) -> None:
    """The right on the workers' group is gone for longer than a session: the flow neither ends nor claims in between."""
    engine.right = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    topic, flow = engine.topics, f"{engine.source}->{engine.target}"
    group = f"drlib-{engine.source}-{engine.target}"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    async with running(engine) as owner:
        await asyncio.to_thread(send, engine.left, topic, [f"{n}" for n in range(20)])
        await owner.mirrored(topic, {0: 20})
        add_acls(engine.right, acl(ResourceType.GROUP, group, AclOperation.READ, who=ELSE))
        try:
            await until("it is reported", lambda: owner.events.is_open("MembershipRefused", flow))
            (event,) = [e for e in owner.events.snapshot() if e.name == "MembershipRefused"]
            assert event.remedy.startswith("kafka-acls.sh")
            assert group in event.remedy
            await until("its session has ended", lambda: not owner.running_flow.membership.may_send())
            await asyncio.to_thread(send, engine.left, topic, [f"{n}" for n in range(20, 40)])
            assert not owner.task.done()
        finally:
            drop_acls(engine.right, ResourceType.GROUP, group)
        await owner.mirrored(topic, {0: 40})
        await until("it is over", lambda: not owner.events.is_open("MembershipRefused", flow))
    engine.assert_same(topic, 1)
