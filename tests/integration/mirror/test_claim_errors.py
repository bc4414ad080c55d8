"""Errors in callbacks and in tasks beside the produce loop: asyncio would only log them; each ends its claim by name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import pytest
from fix_engine import Engine, create_topic, wait_for
from testbed_lane import change_responses, connected, running, send, until

from drlib.kafka.net import api_versions as versions
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.mirror.engine.fetch import backlog_reader
from drlib.mirror.engine.fetch.fetch_response import FetchResponseHandler, PartitionFetch
from drlib.mirror.engine.lane import lane, produce_loop
from drlib.mirror.engine.lane.parked_partitions import ParkedPartitions
from drlib.mirror.engine.lane.topics import unavailable_mirrors
from drlib.mirror.errors import LaneFault
from drlib.mirror.flow import RunningFlow
from drlib.model import TopicPartition

DEFECT = "a defect of the test"


def fail(*_: object, **__: object) -> None:
    raise KeyError(DEFECT)


async def fail_later(*_: object, **__: object) -> None:
    fail()


def fail_in_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunningFlow, "acked", fail)


def fail_in_foreign_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_loop, "record_foreign", fail)


def fail_in_target_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_loop, "measure", fail_later)


def fail_in_source_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_reader, "measure", fail_later)


def fail_in_topic_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "TOPICS_POLL_S", 0.1)
    monkeypatch.setattr(lane, "recreated_in", fail)


def fail_in_retry_of_parks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParkedPartitions, "wait_for_retry", fail_later)


def fail_in_fetch_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FetchResponseHandler, "_plan", fail)


@pytest.mark.parametrize(
    "defect",
    [
        fail_in_acknowledgement,
        fail_in_foreign_read,
        fail_in_target_measurement,
        fail_in_source_measurement,
        fail_in_topic_watch,
        fail_in_retry_of_parks,
        fail_in_fetch_response,
    ],
)
async def test_claim_unexpected_error_anywhere_ends_the_lane_by_name(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, defect: object
) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(create_topic, engine.right, f"{engine.source}.{topic}", 1)
    assert callable(defect)
    defect(monkeypatch)
    async with running(engine) as owner:
        await until("the lane runs or has failed", lambda: owner.flow.ready or bool(owner.reported("LaneFailed")))
        # Another producer's record first: the acknowledgement of ours then shows that one more was written before it.
        await asyncio.to_thread(send, engine.right, f"{engine.source}.{topic}", ["foreign"])
        await asyncio.to_thread(send, engine.left, topic, ["a"])
        await until("the lane has failed", lambda: bool(owner.reported("LaneFailed")), 20)
        assert owner.reported("LaneFailed") == [f"unexpected KeyError: {DEFECT!r}"]


async def test_claim_fault_within_a_fetch_response_claims_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers run in a task group, whose error is a group: the lane must see the fault that is in it."""
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    faults: list[int] = []

    def faulty(
        handler: FetchResponseHandler, fetch: PartitionFetch, offset: int, response: FetchedPartition
    ) -> FetchedPartition:
        if not faults:
            faults.append(offset)
            raise LaneFault(handler.journal.lane, "the journal answered code 7")
        return response

    change_responses(monkeypatch, faulty)
    async with running(engine) as owner:
        await asyncio.to_thread(send, engine.left, topic, ["a", "b"])
        await owner.mirrored(topic, {0: 2})
        assert [e for e in owner.reported("LaneFault") if "code 7" in e]
        assert not owner.reported("LaneFailed")
    engine.assert_same(topic, 1)


@contextlib.contextmanager
def too_old(client: ClusterClient) -> Iterator[None]:
    """Inside, brokers do not offer what any mirror needs over new connections of `client`, which has no others."""
    check, name = versions.check, "InitProducerId" if client.as_target else "Fetch"
    (key, _, _) = versions.KNOWN[name]

    def older(peer: str, offered: versions.Offered, *, as_target: bool = False) -> None:
        less = {k: v for k, v in offered.items() if k != key}
        check(peer, less if as_target == client.as_target else offered, as_target=as_target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(versions, "check", older)
        for connection in list(client._all):
            connection.end("the broker restarts with another version")
        yield


@pytest.mark.parametrize(("side", "event"), [("target", "LaneFault"), ("source", "SourceUnreachable")])
async def test_broker_that_is_too_old_while_a_flow_runs_is_an_event_until_it_is_upgraded(
    engine: Engine, side: str, event: str
) -> None:
    topic, lane_name = engine.topics, f"drlib.{engine.source}.{engine.target}.0"
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    async with running(engine) as owner:
        await asyncio.to_thread(send, engine.left, topic, ["a", "b"])
        await owner.mirrored(topic, {0: 2})
        flow = owner.running_flow
        with too_old(flow._target if side == "target" else flow._source):
            await until("it is an event", lambda: bool(owner.reported(event)) or owner.task.done(), 20)
            await asyncio.to_thread(send, engine.left, topic, ["c"])

            def named() -> bool:
                found = [e for e in owner.events.snapshot() if e.name == event and "does not support" in e.detail]
                return any(e.resolved_ms is None and "Use a cluster of Kafka" in e.remedy for e in found)

            await until("the reason is named", named, 20)
            if side == "target":  # its groups' coordinator is too old as well
                flow_name = f"{engine.source}->{engine.target}"
                await until("so is the group", lambda: owner.events.is_open("MembershipRefused", flow_name), 20)
            assert not owner.task.done()
        await owner.mirrored(topic, {0: 3})
        await until("it is over", lambda: not owner.events.is_open(event, lane_name))
        await until("the worker is a member", lambda: owner.flow.ready)
        assert not owner.reported("LaneFailed")
        assert owner.running_flow is flow
    engine.assert_same(topic, 1)


async def test_mirror_partition_led_by_a_broker_that_is_too_old_says_so(engine: Engine) -> None:
    partition = TopicPartition(engine.topics, 0)
    await asyncio.to_thread(create_topic, engine.right, partition.topic, 1)
    async with connected(engine.right) as client:
        assert not await unavailable_mirrors(client, [partition])
        kept = client._seed
        client._all.discard(kept)  # type: ignore[arg-type]
        client.as_target = True
        with too_old(client):
            found = await unavailable_mirrors(client, [partition])
    assert list(found) == [partition]
    assert "does not support InitProducerId v4" in found[partition].why


def test_status_file_that_cannot_be_written_is_an_event_and_mirroring_continues(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    worker = engine.start("--metrics", "127.0.0.1:0")
    engine.wait_caught_up(topic, 1)
    path = engine.status_path(0)
    path.unlink()
    path.mkdir()  # a file cannot replace a directory
    wait_for("the worker says so", lambda: "StatusUnwritable" in engine.log())
    assert worker.poll() is None
    path.rmdir()
    send(engine.left, topic, ["a"])
    engine.wait_caught_up(topic, 1)
    engine.wait_reported("StatusUnwritable", str(path), resolved=True)
    assert engine.stop(worker) == 0, engine.log()
