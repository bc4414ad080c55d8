"""A survey of a flow of which one cluster is known to be lost."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest
from silent_clusters import silent_clusters

from drlib.config.settings import load_mirror_settings
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.journal.claims_and_runs import Claim
from drlib.mirror.journal.entries import ClaimId, Parked, SourcePartition, SourceTruncated, TopicNames
from drlib.mirror.monitor import survey
from drlib.mirror.monitor.source_ends import SourceState
from drlib.mirror.monitor.survey import Surveyor
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import Flow, TopicPartition


def test_survey_of_a_source_that_is_lost_does_not_need_its_key_store(tmp_path: Path) -> None:
    with silent_clusters(tmp_path / "mirror.properties", "LEFT", "RIGHT") as file:
        secured = f"LEFT.security.protocol = SSL\nLEFT.ssl.truststore.location = {tmp_path}/gone.p12\n"
        file.write_text(file.read_text() + secured)
        settings = load_mirror_settings(file)
        surveyor = Surveyor(settings, settings.flow("LEFT", "RIGHT"))
        found = asyncio.run(surveyor.survey(source_error="its key store is not here", answer_s=0.5))
    assert found.source_error == "its key store is not here"
    assert found.target_error


def test_target_has_its_full_time_to_answer_however_short_the_sources_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy target that was given a second ended an emergency."""
    waits: dict[str, float] = {}

    def asked(clusters: Sequence[ClusterSettings], _: object, timeout_s: float) -> Mapping[str, Unreachable]:
        waits.update({each.alias: timeout_s for each in clusters})
        return {each.alias: Unreachable(each.alias, "not asked", "") for each in clusters}

    monkeypatch.setattr(survey, "examine", asked)
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\nB.bootstrap.servers = 127.0.0.1:2\n"
    )
    settings = load_mirror_settings(file)
    asyncio.run(Surveyor(settings, settings.flow("A", "B")).survey(answer_s=1.0))
    assert waits == {"A": 1.0, "B": ANSWER_S}


@pytest.mark.parametrize(
    ("error", "right"),
    [
        (BrokerError(TOPIC_AUTHORIZATION_FAILED, "reading", topics=["A.t"]), "READ on topic A.t"),
        (BrokerError(TOPIC_AUTHORIZATION_FAILED, "reading"), "READ on topic __drlib-journal.A.internal"),
        (
            ClusterRefused("describing", "GROUP_AUTHORIZATION_FAILED", "", code="GROUP_AUTHORIZATION_FAILED"),
            f"DESCRIBE on group {worker_group(Flow('A', 'B'))}",
        ),
    ],
)
def test_survey_of_a_target_that_refuses_a_right_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: DrlibError, right: str
) -> None:
    """It was said to be unreachable, with the advice to look at its brokers."""

    async def refused(*_: object) -> ClusterService:
        raise error

    monkeypatch.setattr(Surveyor, "_examine", refused)
    file = tmp_path / "mirror.properties"
    addresses = "A.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:2"
    file.write_text(f"clusters = A, B\n{addresses}\nA->B.enabled = true\n")
    settings = load_mirror_settings(file)
    found = asyncio.run(Surveyor(settings, settings.flow("A", "B")).survey())
    assert right in found.target_error
    (event,) = [each for each in found.events if each.name == "TargetUnreachable"]
    assert right in event.detail
    assert "drlib doctor FILE --rights" in event.remedy


def test_survey_lists_a_partition_without_leader_that_was_never_mirrored_and_none_that_is_not_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics of the journal that the file does not select any more have no end that would be known."""
    metadata = ClusterMetadata("c", 1, {}, {})
    offline, retired = TopicPartition("orders", 1), TopicPartition("retired", 0)

    async def examined(*_: object) -> ClusterService:
        return ClusterService(metadata)

    async def source(*_: object) -> SourceState:
        return SourceState({}, {}, {}, metadata, "no leader: orders-1", frozenset({offline, retired}))

    async def target(*_: object) -> tuple[Maps, tuple[()]]:
        return Maps(), ()

    async def no_mirror_maker(*_: object) -> None: ...

    for name, fake in (("_examine", examined), ("_read_target", target), ("_mirror_maker", no_mirror_maker)):
        monkeypatch.setattr(Surveyor, name, fake)
    monkeypatch.setattr(survey, "read_source", source)
    with silent_clusters(tmp_path / "mirror.properties", "LEFT", "RIGHT") as file:
        file.write_text(f"{file.read_text()}topics.exclude = retired\n")
        settings = load_mirror_settings(file)
        found = asyncio.run(Surveyor(settings, settings.flow("LEFT", "RIGHT")).survey())
    assert [(p.topic, p.partition, p.known) for p in found.partitions] == [("orders", 1, False)]
    assert (found.source_error, found.source_partly) == ("", "no leader: orders-1")
    assert [event.detail for event in found.events if event.name == "SourceUnreachable"] == ["no leader: orders-1"]


@pytest.mark.parametrize(
    ("paused_s", "error"), [(60.0, ""), (0.02, "RIGHT throttles this user: its brokers answer"), (0.0, "no answer")]
)
def test_survey_of_a_target_that_throttles_this_user_waits_for_it_or_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paused_s: float, error: str
) -> None:
    """Its journal takes longer to be read than there is time for: it was said not to answer, and all of the source's records
    to be missing there."""
    orders = TopicPartition("orders", 0)

    class Paused:
        def __init__(self) -> None:
            self.paused_s = paused_s

    async def examined(*_: object) -> ClusterService:
        return ClusterService(ClusterMetadata("c", 1, {}, {}))

    async def source(*_: object) -> SourceState:
        return SourceState({orders: 9}, {orders: 0}, {orders: 9}, ClusterMetadata("s", 1, {}, {}), "", frozenset())

    async def at_once(ask: Callable[[], object]) -> object:
        return ask()

    async def none_read(*_: object) -> dict[object, object]:
        return {}

    async def journal(client: ClusterClient, *_: object, **__: object) -> Maps:
        connection = Paused()
        client._all.add(cast(Connection, connection))
        await asyncio.sleep(0.2)
        return Maps(claims={0: Claim(ClaimId(1, 1), 1, 1, "worker")})

    monkeypatch.setattr(Surveyor, "_examine", examined)
    monkeypatch.setattr(Surveyor, "_members", lambda *_: ())
    monkeypatch.setattr(Surveyor, "_read_retention", lambda *_: {})
    monkeypatch.setattr(survey, "read_source", source)
    monkeypatch.setattr(survey, "read_maps", journal)
    monkeypatch.setattr(survey, "_first_batches", none_read)
    monkeypatch.setattr(survey, "in_daemon", at_once)
    monkeypatch.setattr(survey, "CLUSTER_TIMEOUT_S", 0.05)
    with silent_clusters(tmp_path / "mirror.properties", "LEFT", "RIGHT") as file:
        file.write_text(f"{file.read_text()}topics = orders\n")
        settings = load_mirror_settings(file)
        found = asyncio.run(Surveyor(settings, settings.flow("LEFT", "RIGHT")).survey())
    assert found.target_error.startswith(error)
    assert bool(found.target_error) == bool(error)
    assert [(p.topic, p.known, p.lag) for p in found.partitions] == [("orders", not error, 0 if error else 9)]


def test_partition_whose_source_went_back_is_not_said_to_be_tried_again() -> None:
    """It is parked for good: of two events the one has the remedy, and the other said that nothing is to be done."""
    maps = Maps()
    key, other = SourcePartition(uuid.UUID(int=1), 0), SourcePartition(uuid.UUID(int=1), 1)
    maps.names[key.topic_id] = TopicNames(key.topic_id, "orders", "A.orders", uuid.UUID(int=2))
    maps.ledger += [
        SourceTruncated(key, 100, 105, 1),
        Parked(key, 105, "the log went back", 1),
        Parked(other, 7, "refused", 1),
    ]
    found = {(event.name, event.entity) for event in survey._journal_events(maps, "A->B")}
    assert found == {("SourceTruncated", "orders-0"), ("Parked", "orders-1")}
