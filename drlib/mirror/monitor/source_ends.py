"""Where the source's logs begin and end, as far as the leaders of the partitions answer.

Rules: leaders are asked at the same time. One that does not answer leaves its own partitions unknown, and is named; where the
only one does not answer, that is an error. A partition without a leader is unknown. One that its leader refuses for a reason
that passes is asked of again, with new metadata and within the same time, and is unknown where it is refused still; one that
has been deleted meanwhile is left out.
Not for: which brokers answer at all (`drlib.kafka.admin.reachability`), what lag follows (`drlib.mirror.monitor.survey`).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drlib.errors import Unreachable
from drlib.formats import first_few
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, TopicMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import RETRIABLE, UNKNOWN_TOPIC_OR_PARTITION, name_of, raise_for
from drlib.kafka.security.errors import CANNOT_USE
from drlib.model import TopicPartition

Offsets = Mapping[TopicPartition, int]
PAUSES_S = (0.1, 0.3, 0.9)  # a leader that has just been elected learns of it within a second


@dataclass(frozen=True)
class SourceState:
    """Offsets of the mirrored partitions that are known. `stable`: last stable offsets; `unknown`: the other partitions;
    `partly`: why they are, empty where there are none. `silent`: some of their leaders do not answer."""

    ends: Offsets
    starts: Offsets
    stable: Offsets
    metadata: ClusterMetadata
    partly: str = ""
    unknown: frozenset[TopicPartition] = frozenset()
    silent: bool = False


@dataclass
class _Answers:
    """What the leaders have said so far; `refused`: the error code of each partition that was refused last."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    stable: dict[TopicPartition, int] = field(default_factory=dict)
    refused: dict[TopicPartition, int] = field(default_factory=dict)

    async def ask(self, client: ClusterClient, leader: int, partitions: Sequence[TopicPartition]) -> None:
        """Log ends, log starts and last stable offsets of what `leader` leads; those of which it says all are known."""
        found, refused = await log_bounds(await client.connection(leader), partitions)
        self.refused |= refused
        for at, bounds in found.items():
            self.ends[at], self.starts[at], self.stable[at] = bounds


async def log_bounds(
    leader: Connection, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, tuple[int, int, int]], dict[TopicPartition, int]]:
    """Log end, log start and last stable offset of each partition, and the error codes of those that `leader` refuses."""
    (
        (ends, no_end),
        (starts, no_start),
        (stable, not_stable),
    ) = await asyncio.gather(  # one round trip, which may be long
        requests.list_offsets_or_codes(leader, partitions, requests.LATEST),
        requests.list_offsets_or_codes(leader, partitions, requests.EARLIEST),
        requests.list_offsets_or_codes(leader, partitions, requests.LATEST, "read_committed"),
    )
    known = ends.keys() & starts.keys() & stable.keys()
    bounds = {at: (ends[at][0], starts[at][0], stable[at][0]) for at in partitions if at in known}
    return bounds, no_end | no_start | not_stable


async def read_source(
    client: ClusterClient, service: ClusterService, mirrored: Callable[[str], bool], timeout_s: float
) -> SourceState:
    """Ask the leaders of the topics that are `mirrored`, within `timeout_s`.

    Raises `Unreachable` or TimeoutError where the only leader does not answer, and `BrokerError` where every partition is
    refused for a reason that does not pass.
    """
    until = asyncio.get_running_loop().time() + timeout_s
    topics, silent, found = dict(service.metadata.topics), dict(service.silent), _Answers()
    asked = leaders = _leaders(topics, mirrored)
    pauses = iter(PAUSES_S)
    while True:
        await _ask_leaders(client, asked, silent, found, until)
        again = [at for at, code in found.refused.items() if code in RETRIABLE]
        pause_s = next(pauses, None) if again else None
        if pause_s is None or asyncio.get_running_loop().time() + pause_s > until:
            break
        await asyncio.sleep(pause_s)
        try:
            async with asyncio.timeout_at(until):
                newest = (await client.metadata(sorted({at.topic for at in again}))).topics
        except (Unreachable, TimeoutError):
            break
        topics |= {name: topic for name, topic in newest.items() if topic.error_code == 0}
        for name in [name for name, topic in newest.items() if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION]:
            topics.pop(name, None)  # deleted
        leaders = _leaders(topics, mirrored)
        found.refused = {at: code for at, code in found.refused.items() if code not in RETRIABLE}
        asked = {at: leader for at, leader in leaders.items() if at in again}
    unknown = {at: leader for at, leader in leaders.items() if at not in found.ends}
    lasting = [at for at, code in found.refused.items() if code not in RETRIABLE]
    if lasting and len(lasting) == len(leaders):
        raise_for(found.refused[lasting[0]], f"listing the offsets of {lasting[0]}", topics=[lasting[0].topic])
    ends, starts, stable = (
        {at: offset for at, offset in offsets.items() if at in leaders}
        for offsets in (found.ends, found.starts, found.stable)
    )
    metadata = replace(service.metadata, topics=topics)
    text = partly(len(metadata.brokers), silent, unknown, found.refused)
    of_silent = any(leader in silent for leader in unknown.values())
    return SourceState(ends, starts, stable, metadata, text, frozenset(unknown), of_silent)


def _leaders(topics: Mapping[str, TopicMetadata], mirrored: Callable[[str], bool]) -> dict[TopicPartition, int]:
    """The leader of each mirrored partition, -1 where it has none."""
    return {
        TopicPartition(name, number): partition.leader
        for name, topic in topics.items()
        if topic.error_code == 0 and mirrored(name)
        for number, partition in topic.partitions.items()
    }


async def _ask_leaders(
    client: ClusterClient,
    leaders: Mapping[TopicPartition, int],
    silent: dict[int, str],
    found: _Answers,
    until: float,
) -> None:
    """Ask those that are not `silent`, and add those that turn out to be. Raises what the only one raises."""
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for at, leader in leaders.items():
        if leader >= 0:
            led[leader].append(at)

    async def one(leader: int) -> None:
        try:
            async with asyncio.timeout_at(until):
                await found.ask(client, leader, led[leader])
        except (Unreachable, TimeoutError) as error:
            if len(led) == 1 and not found.ends:
                raise
            silent[leader] = str(error) or "no answer"

    await asyncio.gather(*(one(leader) for leader in led if leader not in silent))


def partly(
    brokers: int,
    silent: Mapping[int, str],
    unknown: Mapping[TopicPartition, int],
    refused: Mapping[TopicPartition, int],
) -> str:
    """Why the ends of the partitions `unknown` are so, by their leaders; empty where there are none. Pure.

    `silent`: of `brokers`, those that do not answer; `refused`: error codes of partitions whose leader does.
    """
    of_silent = sum(leader in silent for leader in unknown.values())
    leaderless = [str(at) for at, leader in sorted(unknown.items()) if leader < 0]
    others = [at for at, leader in sorted(unknown.items()) if leader >= 0 and leader not in silent]
    texts: list[str] = []
    if of_silent:
        whom = ", ".join(
            f"broker {node}" + (f", {silent[node]}" if CANNOT_USE in silent[node] else "")
            for node in sorted(silent)[:5]
        )
        texts.append(
            f"{len(silent)} of {brokers} brokers do not answer ({whom}); they lead {of_silent} mirrored partitions, "
            "whose ends are unknown"
        )
    if leaderless:
        texts.append(f"mirrored partitions without a leader, whose ends are unknown: {_named(leaderless)}")
    if others:
        names = [f"{at} ({name_of(refused[at])})" if at in refused else str(at) for at in others]
        texts.append(f"mirrored partitions whose leaders do not say where they end: {_named(names)}")
    return "; ".join(texts)


def _named(texts: Sequence[str]) -> str:
    return f"{len(texts)}, {first_few(texts)}"
