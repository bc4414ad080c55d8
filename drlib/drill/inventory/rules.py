"""Say what kind of application a group or a producer is, and how it moves to the other cluster. Pure.

Rules:
- A kind is what the broker reports: the protocol of a group, its assignor, its members. Names count only where Kafka makes
  them: `connect-NAME` of a sink's group, `APPLICATION-...-changelog` and `-repartition` of Kafka Streams. Where names of groups
  begin alike, as `orders` and `orders-totals`, such a topic is the one's whose name is longer.
- `WAYS` is a literal table. What cannot be known from outside, such as whether an application follows the pointer, is not
  guessed: a way is what is possible.
- A group that the flow does not select moves by hand, as nothing translates its positions.
- Kafka Streams continues at one address where its topics, internal ones included, are mirrored under their own names: then its
  state is there (docs/clients.md). Else it begins there with an empty state, and is reset by hand.
Source: KIP-848 (consumer groups), KIP-932 (share groups), KIP-1071 (streams groups), KIP-664 (DescribeProducers).
Not for: asking (`drlib.drill.readiness.observe.applications`), what a run keeps (`kept`), who stayed (`left_behind`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from drlib.kafka.net.group_requests import CONSUMERS, STREAMS
from drlib.kafka.net.requests import ProducerState
from drlib.mirror.offsets.map.flow_maps import OWN_GROUPS

BROKERS, GROUPS, PRODUCERS = "brokers", "groups", "producers"
"""What a line of `Inventory.unknown` begins with."""
OPEN: Final = "transaction open"
GROUPS_OF_DRLIB: Final = (OWN_GROUPS, "drlib.", "drill.")  # what those of workers, leases and shadows begin with
STREAMS_ASSIGNOR: Final = "stream"  # StreamsPartitionAssignor's name in the classic protocol
CHANGELOG, REPARTITION = "-changelog", "-repartition"
SINK_PREFIX: Final = "connect-"  # SinkUtils.consumerGroupId
_OF_CONNECT: Final = re.compile(r"(?:.*[.-])?connect[.-](?:configs?|offsets?|status(?:es)?)", re.IGNORECASE)


class Kind(StrEnum):
    GROUP = "consumer group"
    NEW_GROUP = "consumer group (KIP-848)"
    SHARE = "share group"
    STREAMS = "Kafka Streams"
    CONNECT = "Connect cluster"
    SINK = "Connect sink"
    OTHER = "group of another protocol"
    TRANSACTIONAL = "transactional producer"
    IDEMPOTENT = "idempotent producer"


class Way(StrEnum):
    """How an application moves. POINTER: it follows the pointer; ADDRESS: `drlib bootstrap`, a DNS name or a virtual IP."""

    EITHER = "pointer or address"
    ADDRESS = "address, or restart"
    POINTER = "pointer, or restart"
    BY_HAND = "by hand"


WAYS: Final[Mapping[Kind, tuple[Way, str]]] = {
    Kind.GROUP: (Way.EITHER, "positions are translated"),
    Kind.NEW_GROUP: (Way.EITHER, "positions are translated"),
    Kind.SHARE: (
        Way.EITHER,
        "start offsets and acknowledged records are translated; it sees no hold: stop its consumers before a planned move",
    ),
    Kind.STREAMS: (
        Way.ADDRESS,
        "its topics have the same names there; the failover says whether its state matches its positions, else rebuild it",
    ),
    Kind.CONNECT: (
        Way.BY_HAND,
        "its workers have bootstrap.servers, and topics of configs, offsets and status, of their own",
    ),
    Kind.SINK: (Way.BY_HAND, "positions are translated; its Connect cluster has to move"),
    Kind.OTHER: (Way.BY_HAND, "drlib does not know this protocol"),
    Kind.TRANSACTIONAL: (Way.POINTER, "a new producer is needed: its transactional ID is unknown to the other cluster"),
    Kind.IDEMPOTENT: (
        Way.POINTER,
        "a new producer is needed: its producer ID may be another one's on the other cluster",
    ),
}
_STATE_STAYS: Final = (
    Way.BY_HAND,
    "its changelogs and repartition topics are not mirrored under their names: reset it there, it begins with an empty state",
)
_TRANSLATED: Final = (Kind.GROUP, Kind.NEW_GROUP, Kind.SHARE, Kind.SINK, Kind.STREAMS)
NOT_SELECTED: Final = (Way.BY_HAND, "the flow's groups do not select it: its positions are not translated")


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A group as brokers describe it. `protocol_type` is consumer, connect, share, streams or "" ; `new_protocol`: of KIP-848.

    `members` None: not known, `why` says so. `clients` and `hosts` are those of its members. `last_ms`: when it last committed
    or acknowledged (Unix time in milliseconds), None where that is unknown.
    """

    name: str
    protocol_type: str
    state: str
    new_protocol: bool = False
    assignor: str = ""
    members: int | None = None
    clients: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    why: str = ""
    last_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Application:
    """One row. `last_ms`: of a producer the newest record's timestamp, of a group its last commit or acknowledgement (Unix time
    in milliseconds); None where it is unknown. `members`: None for producers, and where they are unknown. `as_of_ms`: when it
    was seen, where that was earlier than the inventory; None: then. `known_by`: where it is known from, if its cluster did not
    say so. `left_out`: how many topics, client IDs and hosts it has besides."""

    cluster: str
    kind: Kind
    name: str
    state: str
    members: int | None
    clients: tuple[str, ...]
    hosts: tuple[str, ...]
    topics: tuple[str, ...]
    last_ms: int | None
    way: Way
    how: str
    unknown: str = ""
    as_of_ms: int | None = None
    known_by: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Inventory:
    """`applications` are sorted. By cluster: `unknown`, what has no answer and why; `silent`, why it does not answer at all;
    `notes`, what is not known and need not be, such as times that this user may not read."""

    applications: tuple[Application, ...]
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def kind_of(group: SeenGroup, topics: Collection[str], others: Collection[str] = ()) -> Kind:
    """The kind of a group; `topics`: all of its cluster; `others`: groups there that may be Kafka Streams."""
    by_protocol = {"connect": Kind.CONNECT, "share": Kind.SHARE, STREAMS: Kind.STREAMS}
    if group.protocol_type in by_protocol:
        return by_protocol[group.protocol_type]
    if group.protocol_type not in CONSUMERS:
        return Kind.OTHER
    if group.assignor == STREAMS_ASSIGNOR or (not group.assignor and streams_topics(group.name, topics, others)):
        return Kind.STREAMS
    if group.name.startswith(SINK_PREFIX):
        return Kind.SINK
    return Kind.NEW_GROUP if group.new_protocol else Kind.GROUP


def streams_topics(application: str, topics: Collection[str], others: Collection[str] = ()) -> tuple[str, ...]:
    """The internal topics of a Kafka Streams application, without those of `others` whose names begin with its name."""
    longer = [each for each in others if each.startswith(f"{application}-")]
    own = (t for t in topics if _is_internal(t, application) and not any(_is_internal(t, each) for each in longer))
    return tuple(sorted(own))


def _is_internal(topic: str, application: str) -> bool:
    begin = f"{application}-"
    return any(
        topic.startswith(begin) and topic.endswith(end) and len(topic) > len(begin) + len(end)
        for end in (CHANGELOG, REPARTITION)
    )


def connect_topics(topics: Collection[str]) -> tuple[str, ...]:
    """Topics whose names are those that Connect's documentation gives its internal ones."""
    return tuple(sorted(topic for topic in topics if _OF_CONNECT.fullmatch(topic)))


def of_group(
    cluster: str,
    group: SeenGroup,
    topics: Collection[str],
    *,
    selected: bool,
    kept_names: Collection[str] = (),
    others: Collection[str] = (),
) -> Application:
    """The row of a group. `selected`: by the groups of a flow from this cluster; `kept_names`: the topics that such a flow
    mirrors under their own names; `others`: as `kind_of`."""
    kind = kind_of(group, topics, others)
    own = {Kind.STREAMS: streams_topics(group.name, topics, others), Kind.CONNECT: connect_topics(topics)}.get(kind, ())
    way, how = WAYS[kind]
    if kind in _TRANSLATED and not selected:
        way, how = NOT_SELECTED
    elif kind is Kind.STREAMS and not ({*own, *group.topics} and {*own, *group.topics} <= set(kept_names)):
        way, how = _STATE_STAYS
    return Application(
        cluster,
        kind,
        group.name,
        group.state.replace("_", " ").lower(),
        group.members,
        group.clients,
        group.hosts,
        tuple(sorted({*group.topics, *own})),
        group.last_ms,
        way,
        how,
        group.why,
    )


def may_be_streams(group: SeenGroup) -> bool:
    """Whether internal topics of Kafka Streams may be a group's: not of one whose members have another assignor."""
    return group.protocol_type in (*CONSUMERS, STREAMS) and group.assignor in ("", STREAMS_ASSIGNOR)


def of_producers(
    cluster: str, states: Collection[tuple[str, ProducerState]], ids: Mapping[int, str]
) -> list[Application]:
    """A row for each producer ID; `states` by topic, `ids`: the transactional IDs that coordinators know, by producer ID."""
    by_id: dict[int, list[tuple[str, ProducerState]]] = {}
    for topic, state in states:
        by_id.setdefault(state.producer_id, []).append((topic, state))
    rows = []
    for producer_id, known in by_id.items():
        transactional = producer_id in ids or any(state.transactional for _, state in known)
        kind = Kind.TRANSACTIONAL if transactional else Kind.IDEMPOTENT
        last = max(state.last_timestamp for _, state in known)
        is_open = any(state.txn_start_offset >= 0 for _, state in known)
        rows.append(
            Application(
                cluster,
                kind,
                ids.get(producer_id, f"producer ID {producer_id}"),
                OPEN if is_open else "",
                None,
                (),
                (),
                tuple(sorted({topic for topic, _ in known})),
                last if last >= 0 else None,
                *WAYS[kind],
            )
        )
    return rows


def in_order(rows: Collection[Application]) -> tuple[Application, ...]:
    """By cluster, kind in the order of `Kind`, and name; numbers in names by their value."""
    kinds = {kind: number for number, kind in enumerate(Kind)}
    return tuple(sorted(rows, key=lambda row: (row.cluster, kinds[row.kind], _with_numbers(row.name))))


def _with_numbers(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]{1,18})", name)
    return [(int(part), "") if number % 2 else (-1, part) for number, part in enumerate(parts)]
