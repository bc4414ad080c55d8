"""Source topics that are gone, or that may not be described: each is one event, which ends with its cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, TopicMetadata
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from drlib.mirror.status.event_log import EventLog
from drlib.mirror.sync import create_topics
from drlib.mirror.sync.create_topics import MirrorTopics

FORBIDDEN, DELETED = "SourceTopicForbidden", "SourceTopicDeleted"


class Source:
    """Answers with one error code per topic, and remembers what it was asked."""

    def __init__(self, codes: Mapping[str, int]) -> None:
        self.codes = dict(codes)
        self.asked: list[Sequence[str]] = []

    async def metadata(self, names: Sequence[str]) -> ClusterMetadata:
        self.asked.append(names)
        topics = {name: TopicMetadata(name, UUID(int=0), self.codes[name], {}, False) for name in names}
        return ClusterMetadata("c", 1, {}, topics)


@pytest.fixture
def events() -> EventLog:
    return EventLog()


@pytest.fixture
def topics(events: EventLog, monkeypatch: pytest.MonkeyPatch) -> MirrorTopics:
    monkeypatch.setattr(create_topics, "not_authorized", lambda right, settings: f"no right to describe {right.name}")
    policy = SimpleNamespace(remote_topic=lambda source, name: f"{source}.{name}")
    settings = SimpleNamespace(policy=policy, flow=SimpleNamespace(source="A", target="B"))
    return MirrorTopics(cast(Any, settings), cast(Any, None), cast(Any, None), events)


async def deleted(topics: MirrorTopics, source: Source, *names: str) -> set[str]:
    return await topics.deleted(cast(ClusterClient, source), names)


async def test_forbidden_topic_that_was_deleted_meanwhile_is_no_longer_forbidden(
    topics: MirrorTopics, events: EventLog
) -> None:
    """It is no topic of the flow any more by then: it is asked for by name until the source says what it is."""
    source = Source({"t": TOPIC_AUTHORIZATION_FAILED, "other": UNKNOWN_TOPIC_OR_PARTITION})
    assert await deleted(topics, source, "t") == {"t"}
    assert events.is_open(FORBIDDEN, "t")
    assert await deleted(topics, source) == {"t"}  # a source does not say whether a topic exists that is forbidden
    assert events.is_open(FORBIDDEN, "t")
    source.codes["t"] = UNKNOWN_TOPIC_OR_PARTITION
    assert await deleted(topics, source, "other") == {"t", "other"}
    assert (events.is_open(FORBIDDEN, "t"), events.is_open(DELETED, "t")) == (False, True)
    asked = len(source.asked)
    assert await deleted(topics, source) == set()
    assert len(source.asked) == asked


async def test_forbidden_topic_that_is_listed_again_is_asked_for_no_more(
    topics: MirrorTopics, events: EventLog
) -> None:
    source = Source({"t": TOPIC_AUTHORIZATION_FAILED})
    await deleted(topics, source, "t")
    topics.listed(["t"])
    assert not events.is_open(FORBIDDEN, "t")
    assert await deleted(topics, source) == set()
    assert source.asked == [["t"]]
