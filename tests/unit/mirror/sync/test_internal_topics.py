"""Internal topics that a cluster refuses: what is tried without, and which commands are left."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from drlib.config.flow_settings import FlowSettings
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync import internal_topics
from drlib.mirror.sync.internal_topics import (
    JOURNAL_LOG,
    InternalTopicsWatch,
    _bare,
    heartbeats_topic,
    journal_topic,
    not_created,
)
from drlib.model import Flow

SETTINGS = FlowSettings(flow=Flow("A", "B"))
TARGET = ClusterSettings("B", ("b:9092",))


def refused(code: str, remedy: str) -> ClusterRefused:
    return ClusterRefused("creating a topic on B was refused", f"{code}: why", remedy, code=code)


def test_journal_without_what_a_cluster_refuses_is_still_compacted() -> None:
    assert journal_topic(SETTINGS).config == {"cleanup.policy": "compact", **JOURNAL_LOG}
    assert _bare(journal_topic(SETTINGS)).config == {"cleanup.policy": "compact"}
    assert _bare(heartbeats_topic(SETTINGS)) == heartbeats_topic(SETTINGS)  # is not tried twice


def test_topics_that_may_not_be_created_are_one_error_with_every_command() -> None:
    journal, heartbeats = journal_topic(SETTINGS), heartbeats_topic(SETTINGS)
    commands = [topic.command(TARGET.bootstrap_servers) for topic in (journal, heartbeats)]
    assert commands[0].startswith(
        "kafka-topics.sh --bootstrap-server b:9092 --create --topic __drlib-journal.A.internal "
    )
    assert "--config cleanup.policy=compact --config segment.bytes=4194304" in commands[0]
    policy = [
        (journal, refused("POLICY_VIOLATION", "of one")),
        (heartbeats, refused("POLICY_VIOLATION", "of one")),
    ]
    error = not_created(policy, TARGET)
    assert isinstance(error, ClusterRefused)
    assert (error.code, error.why) == ("POLICY_VIOLATION", "POLICY_VIOLATION: why")
    assert error.remedy.startswith(
        "Let who may create them do so, with what B accepts; topics that exist are used: kafka-topics"
    )
    assert error.remedy.endswith("; ".join(commands))
    error = not_created([(journal, refused("TOPIC_AUTHORIZATION_FAILED", "of one"))], TARGET)
    assert error.remedy.startswith("Grant the right: kafka-acls.sh --bootstrap-server b:9092 --add")
    assert "--operation Create --topic __drlib-journal.A.internal" in error.remedy
    assert error.remedy.endswith(commands[0])
    secured = replace(
        TARGET, security={"security.protocol": "SASL_SSL"}
    )  # Kafka's tools do not reach it without a login
    remedy = not_created([(journal, refused("TOPIC_AUTHORIZATION_FAILED", "of one"))], secured).remedy
    for tool in ("kafka-acls.sh", "kafka-topics.sh"):
        assert f"{tool} --bootstrap-server b:9092 --command-config B-admin.properties " in remedy


class _Broker:
    """A cluster that answers what a test lets it: its metadata, and whether a topic is new to it."""

    def __init__(self, *, exists: bool) -> None:
        self.exists = exists
        self.altered: list[str] = []
        self.ids: dict[str, uuid.UUID] = {}

    async def metadata(self, names: Sequence[str]) -> Any:
        def found(name: str) -> Any:
            known = self.ids.get(name)
            return SimpleNamespace(topic_id=known, error_code=0 if known else UNKNOWN_TOPIC_OR_PARTITION)

        return SimpleNamespace(topics={name: found(name) for name in names})

    def __call__(self, *_: object, **__: object) -> _Broker:
        return self

    def __enter__(self) -> _Broker:
        return self

    def __exit__(self, *_: object) -> None: ...

    def create_topics(self, topics: Sequence[Any]) -> dict[str, bool]:
        return {topic.name: not self.exists for topic in topics}

    def alter_topic_settings(self, name: str, _: object) -> None:
        self.altered.append(name)


@pytest.mark.parametrize(
    ("seen", "exists", "deleted"),
    [
        pytest.param(False, True, False, id="a broker had not heard of a new topic"),
        pytest.param(False, False, True, id="deleted before it was first seen"),
        pytest.param(True, True, True, id="deleted, and created by a producer"),
        pytest.param(True, False, True, id="deleted"),
    ],
)
def test_topic_that_a_broker_has_not_heard_of_was_not_deleted(
    monkeypatch: pytest.MonkeyPatch, seen: bool, exists: bool, deleted: bool
) -> None:
    broker, events, rewritten = _Broker(exists=exists), EventLog(), list[bool]()
    monkeypatch.setattr(internal_topics, "Cluster", broker)
    name = heartbeats_topic(SETTINGS).name
    watch = InternalTopicsWatch(SETTINGS, (broker, TARGET), (broker, TARGET), events, lambda: rewritten.append(True))  # type: ignore[arg-type]
    if seen:
        watch._ids[TARGET.alias, name] = uuid.uuid4()
    asyncio.run(watch._look(broker, TARGET, {name: heartbeats_topic(SETTINGS)}))  # type: ignore[arg-type]
    assert [event.name for event in events.snapshot()] == ["InternalTopicDeleted"] * deleted
    assert (bool(rewritten), bool(broker.altered)) == (deleted, seen and exists)
