"""Rules that another rule usually backs up: each is tested with the other one disabled, or before it takes effect."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from fix_engine import Engine, create_topic, read_all, wait_for
from testbed_lane import REFUSED_EPOCH, append, connected, headers, running, send, take, until

from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.connection import Connection
from drlib.mirror.engine.fencing import claim as claiming
from drlib.mirror.engine.fencing.membership import Membership
from drlib.mirror.engine.lane.lane import Lane
from drlib.mirror.errors import LaneFault
from drlib.mirror.journal.entries import Entry, Run
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.offsets.map.load_maps import read_maps
from drlib.mirror.read_batches import log_ends
from drlib.model import TopicPartition


async def test_produce_waits_until_promise_is_acknowledged(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    gate = asyncio.Event()
    begin = LaneJournal.begin

    def held(self: LaneJournal, entries: Sequence[Entry]) -> asyncio.Future[None]:
        if gate.is_set() or not any(isinstance(e, Run) for e in entries):
            return begin(self, entries)

        async def later() -> None:
            await gate.wait()
            await begin(self, entries)

        return asyncio.create_task(later())

    monkeypatch.setattr(LaneJournal, "begin", held)
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(topic, {0: 0})

        def fetched(end: int) -> bool:
            found = owner.partition(topic)
            return found is not None and found.position == end

        for end in (50, 100):  # the second batch needs no promise, and wakes the sender
            await asyncio.to_thread(send, engine.left, topic, [f"{end}-{n}" for n in range(50)])
            await until("the records are fetched", lambda end=end: fetched(end))
        await asyncio.sleep(0.5)  # the absence of an event is what is tested
        assert not [h for h in await headers(client, mirror) if not h.is_control]
        gate.set()
        await owner.mirrored(topic, {0: 100})
    engine.assert_same(topic, 1)


async def test_recovery_finds_unjournaled_placement_in_the_log(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign writer shifts our records, and the worker dies before the new placement is journaled."""
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    dead = asyncio.Event()
    begin = LaneJournal._begin

    def unheard(self: LaneJournal, pairs: Sequence[tuple[bytes, bytes | None]]) -> asyncio.Future[None]:
        return asyncio.create_task(asyncio.sleep(3600)) if dead.is_set() else begin(self, pairs)

    monkeypatch.setattr(LaneJournal, "_begin", unheard)
    async with connected(engine.right) as client:
        async with running(engine, abrupt=True) as owner:
            await owner.mirrored(topic, {0: 50})
            dead.set()
            await asyncio.to_thread(send, engine.right, mirror.topic, ["foreign"])
            await asyncio.to_thread(send, engine.left, topic, [f"b{n}" for n in range(30)])

            await asyncio.to_thread(
                wait_for, "our records stand", lambda: len(read_all(engine.right, mirror.topic, 1)[0]) == 81, 20
            )
        dead.clear()
        await asyncio.to_thread(send, engine.left, topic, [f"c{n}" for n in range(10)])
        async with running(engine) as heir:
            await heir.mirrored(topic, {0: 90})
            journal = heir.flow.setup.journal_topic
        found = (await read_maps(client, journal)).source(topic, 0)
    assert found is not None
    stands = [*range(1, 51), *range(52, 82), *range(83, 93)]  # a marker first, the stranger, the heir's marker
    assert [found.forward(n).offset for n in range(90)] == stands
    assert [len(records) for records in read_all(engine.right, mirror.topic, 1).values()] == [91]


async def test_membership_unanswered_heartbeats_stop_sending(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked before the session ends: afterwards the fence would refuse the sends that the deadline must prevent."""
    topic = engine.topics
    engine.extra |= {"drlib.lanes": "1", "drlib.session.timeout.ms": "4000"}
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    heartbeat = group_requests.heartbeat
    silent, again = asyncio.Event(), asyncio.Event()

    async def unanswered(connection: Connection, **who: object) -> None:
        if silent.is_set() and not again.is_set():
            await again.wait()
            raise TimeoutError
        await heartbeat(connection, **who)  # type: ignore[arg-type]

    monkeypatch.setattr(group_requests, "heartbeat", unanswered)
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(topic, {0: 50})
        silent.set()
        member = owner.running_flow.membership
        await until("the deadline has passed", lambda: not member.may_send(), 10)
        before = (await log_ends(client, [mirror])).ends[mirror]
        await asyncio.to_thread(send, engine.left, topic, [f"b{n}" for n in range(50)])
        await asyncio.sleep(0.7)  # the absence of an event is what is tested
        assert (await log_ends(client, [mirror])).ends[mirror] == before
        again.set()
        await owner.mirrored(topic, {0: 100})
    engine.assert_same(topic, 1)


async def test_membership_is_kept_while_lost_lanes_drain(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that takes longer to drain than the session lasts: heartbeats go on, and the other lanes keep sending."""
    engine.extra |= {"drlib.lanes": "2", "drlib.session.timeout.ms": "4000"}
    await asyncio.to_thread(create_topic, engine.left, engine.topics, 2)
    monkeypatch.setattr(Lane, "stop", lambda lane: None)  # it ends when its time to drain is over
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(engine.topics, {0: 0, 1: 0})
        first = owner.running_flow.membership
        member_id, former = first.member_id, dict(owner.running_flow._tasks)
        second = Membership(client, first.group, first.journal_topic, 2, 4000, lambda lanes: None, lambda refused: None)
        joining = asyncio.create_task(second.run())
        try:
            await until("the lanes are shared", lambda: len(first.owned) == len(second.owned) == 1)
            (lost,) = second.owned
            expired: list[bool] = []

            def drained() -> bool:
                expired.append(not first.may_send())
                return former[lost].done()

            await until("the lost lane has ended", drained)
            assert not any(expired)
            assert (first.member_id, len(first.owned)) == (member_id, 1)
            await until("its partition is forgotten", lambda: len(owner.running_flow._streams) == 1)
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
        await until("the lane is back", lambda: len(first.owned) == 2)
        monkeypatch.undo()


async def test_membership_that_the_group_ended_stops_sending_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(create_topic, engine.left, engine.topics, 1)
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(engine.topics, {0: 0})
        member = owner.running_flow.membership
        could_send: list[bool] = []
        change = member.on_change

        def note(lanes: Collection[int]) -> None:
            could_send.append(member.may_send())
            change(lanes)

        member.on_change = note
        node = await client.coordinator(member.group, "group")
        connection = await client.connection(node)
        await group_requests.leave_group(connection, group=member.group, member_id=member.member_id)
        await until("it is a member again", lambda: len(could_send) == 2 and member.may_send())
        assert could_send == [False, True]  # without its lanes, and with those of its new membership


async def test_membership_counts_from_the_request_for_its_assignment(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A response that is long on its way says nothing about the present."""
    await asyncio.to_thread(create_topic, engine.left, engine.topics, 1)
    sync_group, valid_from = group_requests.sync_group, Membership._answered
    sent: list[float] = []
    counted: list[float] = []

    async def late(connection: Connection, **request: object) -> bytes:
        sent.append(time.monotonic())
        assigned = await sync_group(connection, **request)  # type: ignore[arg-type]
        await asyncio.sleep(1.5)
        return assigned

    def note(member: Membership, since: float) -> None:
        counted.append(since)
        valid_from(member, since)

    monkeypatch.setattr(group_requests, "sync_group", late)
    monkeypatch.setattr(Membership, "_answered", note)
    async with running(engine) as owner:
        await owner.mirrored(engine.topics, {0: 0})
        assert counted[0] <= sent[0]


async def test_claim_over_many_partitions_has_markers_in_all_when_it_returns(
    right: str, fresh_topic: Callable[[str], str]
) -> None:
    topic, count = fresh_topic("wide"), 60
    await asyncio.to_thread(create_topic, right, topic, count)
    everywhere = {topic: list(range(count))}
    async with connected(right) as client:
        owner = await take(client, f"lane-{topic}", everywhere)
        for _ in range(3):
            former, owner = owner, await take(client, f"lane-{topic}", everywhere)
            zombie = [append(client, TopicPartition(topic, n), former, 0) for n in range(count)]
            assert {code for code, _ in await asyncio.gather(*zombie)} == {REFUSED_EPOCH}


async def test_claim_partition_unknown_to_coordinator_is_not_fenced(
    right: str, fresh_topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator skips a missing partition and reports CompleteAbort nevertheless."""
    topic = fresh_topic("skipped")
    await asyncio.to_thread(create_topic, right, topic, 1)
    admin = AdminClient({"bootstrap.servers": right, "log_level": 0})
    end, describe = requests.end_txn_abort, requests.describe_transaction
    steps: list[str] = []

    def gone() -> None:
        admin.delete_topics([topic])[topic].result(30)
        wait_for("the topic is gone", lambda: topic not in admin.list_topics(timeout=5).topics)

    def made_again() -> None:
        create_topic(right, topic, 1)
        wait_for("its leader answers for it", led)

    def led() -> bool:
        asked = admin.list_offsets({KafkaPartition(topic, 0): OffsetSpec.latest()}, request_timeout=5)
        return all(future.exception(10) is None for future in asked.values())

    async def end_without_it(connection: Connection, *who: object) -> None:
        if "gone" not in steps:
            await asyncio.to_thread(gone)
            steps.append("gone")
        await end(connection, *who)  # type: ignore[arg-type]

    async def describe_and_make_again(connection: Connection, name: str) -> requests.TransactionState:
        state = await describe(connection, name)
        if state.state == claiming.COMPLETE_ABORT and "again" not in steps:
            await asyncio.to_thread(made_again)
            steps.append("again")
        return state

    monkeypatch.setattr(requests, "end_txn_abort", end_without_it)
    monkeypatch.setattr(requests, "describe_transaction", describe_and_make_again)
    wanted: Mapping[str, Sequence[int]] = {topic: [0]}
    async with connected(right) as client:
        with pytest.raises(LaneFault, match="no marker of ours"):
            await take(client, f"lane-{topic}", wanted)
    assert steps == ["gone", "again"]
