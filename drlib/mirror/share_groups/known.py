"""What is known of share groups: from a cluster that answers, or from the checkpoints on the target.

Rules:
- Which records are complete is in `__share_group_state`, which needs Read. Without it the start offset comes from the group's
  coordinator, and how many records are complete from the lag (Kafka 4.2): which ones is not known.
- A partition without a start offset begins where `share.auto.offset.reset` of its group says. Where that is `earliest`, it is
  at the log start; else it has no position (`unset`).
- Of a partition without a leader the coordinator answers with an error, as it cannot get the log end. It has what
  `__share_group_state` says; where that is not known either it is `unread`: what was checkpointed counts, else it is named.
- A share group's checkpoint has a header, by which readers of consumer groups' positions leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import TypeAdapter

from drlib import clock, decoding
from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import ReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Record
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.messages import DescribedGroup, Refusal, ShareOffset, StateKey
from drlib.kafka.share_groups.names import EARLIEST, STATE_TOPIC
from drlib.kafka.share_groups.state import ShareState, StateLog
from drlib.kafka.share_groups.state_topic import StateTopic
from drlib.mirror.mm2.checkpoint_log import checkpoints, read_checkpoints
from drlib.mirror.mm2.writer import SHARE_HEADER
from drlib.model import Flow, TopicPartition

Key = tuple[str, TopicPartition]  # a group, and a partition of the source


@dataclass(frozen=True, slots=True)
class KnownShare:
    """What a group had read of one partition, as of `as_of_ms`. `checkpointed`: what it acknowledged later is not known."""

    state: ShareState
    as_of_ms: int
    checkpointed: bool = False


@dataclass(frozen=True, slots=True)
class KnownShares:
    """`unset`: partitions without a start offset. `unread`: partitions of which nothing is known, with the reason. `refused`:
    groups that cannot be described. `states_refused`: why it is not known which records are complete, None where it is."""

    positions: Mapping[Key, KnownShare]
    unset: tuple[Key, ...] = ()
    unread: Mapping[Key, DrlibError] = field(default_factory=dict)
    refused: Mapping[str, DrlibError] = field(default_factory=dict)
    states_refused: DrlibError | None = None

    def incomplete(self, concerns: Callable[[str], bool] = lambda _: True) -> dict[str, DrlibError]:
        """Groups of which not everything is known that they read in the topics that `concerns` says, with the reason."""
        return {group: error for (group, at), error in self.unread.items() if concerns(at.topic)} | dict(self.refused)


@dataclass(frozen=True, slots=True)
class _Complete:
    complete: tuple[tuple[int, int], ...] | None
    count: int | None


_COMPLETE: Final = TypeAdapter(_Complete)
NO_SHARES: Final = KnownShares({})


def encoded(state: ShareState) -> bytes:
    """The header of a checkpoint: what is complete behind the start offset."""
    return _COMPLETE.dump_json(_Complete(state.complete, state.count))


def decoded(start: int, header: bytes) -> ShareState:
    """The state behind `start`; unknown where the header cannot be read."""
    try:
        found = decoding.json_as(_COMPLETE, header)
    except decoding.Undecodable:
        return ShareState(start, None, None)
    complete = found.complete
    sound = complete is None or all(
        before < first < end for before, (first, end) in zip([start, *(e for _, e in complete)], complete, strict=False)
    )
    return ShareState(start, complete, found.count) if sound else ShareState(start, None, None)


def combined(
    described: Mapping[str, DescribedGroup],
    logs: Mapping[StateKey, StateLog] | None,
    ends: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    resets: Mapping[str, str],
    at_ms: int,
) -> tuple[dict[Key, KnownShare], tuple[Key, ...], dict[Key, DrlibError]]:
    """Positions, partitions that have none, and those that are not known. `logs` None: which records are complete may not be
    read. Pure."""
    positions: dict[Key, KnownShare] = {}
    unset: list[Key] = []
    unread: dict[Key, DrlibError] = {}
    for group, each in described.items():
        for partition in (*each.offsets, *each.refused):
            log = None
            if logs is not None:
                log = logs.get(StateKey(group, each.topic_ids[partition.topic], partition.partition))
            state = log.state if log is not None else None
            offset = each.offsets.get(partition)
            if offset is None and state is None:
                unread[group, partition] = _not_read(group, partition, each.refused[partition])
                continue
            offset = offset or ShareOffset(None, None)
            if state is None and offset.start is not None:
                state = ShareState(offset.start, None, _count(offset, ends.get(partition)))
            if state is None and resets.get(group) == EARLIEST:
                state = ShareState(starts.get(partition, 0))
            if state is None:
                unset.append((group, partition))
            else:
                positions[group, partition] = KnownShare(state, at_ms)
    return positions, tuple(unset), unread


def _not_read(group: str, partition: TopicPartition, refusal: Refusal) -> DrlibError:
    doing = f"describing share group {group} in {partition}"
    error = BrokerError(refusal.code, doing, refusal.message)
    return ClusterRefused(
        f"{doing} failed",
        f"what it has read of {partition} is not known, as {error.why}",
        f"Start the brokers that have {partition}, or grant Read on {STATE_TOPIC}, which has it.",
        code=error.name,
    )


def _count(offset: ShareOffset, end: int | None) -> int | None:
    """How many records above the start offset are complete: those that need no delivery (KIP-1226)."""
    if offset.start is None or offset.lag is None or end is None:
        return None
    return max(0, end - offset.start - offset.lag)


def without_start(described: Mapping[str, DescribedGroup]) -> tuple[str, ...]:
    """Groups that have a partition without a start offset: whose `share.auto.offset.reset` matters."""
    return tuple(g for g, each in described.items() if any(o.start is None for o in each.offsets.values()))


def split(
    answers: Mapping[str, DescribedGroup | DrlibError],
) -> tuple[dict[str, DescribedGroup], dict[str, DrlibError]]:
    """What was described, and what was refused."""
    return (
        {group: each for group, each in answers.items() if isinstance(each, DescribedGroup)},
        {group: each for group, each in answers.items() if isinstance(each, DrlibError)},
    )


def read_states(topic: StateTopic, timeout_s: float) -> DrlibError | None:
    """Read what is new of `__share_group_state`; the refusal where that may not be read. Raises `Unreachable`."""
    try:
        topic.refresh(timeout_s)
    except ClusterRefused as error:
        return error
    return None


def log_bounds(
    cluster: ClusterSettings, described: Mapping[str, DescribedGroup], timeout_s: float
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Log starts and ends of all partitions of the groups that have a leader. Raises `Unreachable`."""
    partitions = {partition for each in described.values() for partition in each.offsets}
    with Cluster(cluster, timeout_s=timeout_s) as source:
        topics = source.topics({partition.topic for partition in partitions}, in_sight=True)
        there = {p for p in partitions if p.topic in topics and topics[p.topic].is_led(p.partition)}
        return source.log_starts(there), source.log_ends(there)


def read_shares(cluster: ClusterSettings, selected: Callable[[str], bool], timeout_s: float) -> KnownShares:
    """All that a cluster says of its share groups now. Blocks. Raises `Unreachable`, `BrokerError`."""
    groups = [group for group in admin.listed(cluster, timeout_s).share_groups if selected(group)]
    if not groups:
        return NO_SHARES
    topic, at_ms = StateTopic(cluster), clock.now_ms()
    states_refused = read_states(topic, timeout_s)
    logs = None if states_refused else topic.logs
    lacks = (lambda _: True) if logs is None else (lambda key: key not in logs)
    described, refused = split(admin.described(cluster, groups, timeout_s, lacks))
    starts, ends = log_bounds(cluster, described, timeout_s)
    resets = admin.reset_policies(cluster, without_start(described), timeout_s)
    return KnownShares(*combined(described, logs, ends, starts, resets, at_ms), refused, states_refused)


def source_shares(settings: MirrorSettings, flow: Flow, timeout_s: float) -> KnownShares:
    """Those of the flow's share groups on its source. Raises as `read_shares`."""
    chosen: FlowSettings = settings.flow(flow.source, flow.target)
    return read_shares(settings.clusters[flow.source], chosen.mirrors_group, timeout_s)


def checkpointed_shares(settings: MirrorSettings, flow: Flow) -> KnownShares:
    """Those that the mirror last knew, from the checkpoints on the target. Raises `Unreachable`."""
    policy = settings.flow(flow.source, flow.target).policy
    return KnownShares(last_known_shares(read_checkpoints(settings, flow), policy))


def known_shares(settings: MirrorSettings, flow: Flow, *, alive: bool | None, timeout_s: float) -> KnownShares:
    """Of the source, or what the mirror last knew where it does not answer; `alive` None: whichever answers, by group."""
    if alive is False:
        return checkpointed_shares(settings, flow)
    try:
        now = source_shares(settings, flow, timeout_s)
    except DrlibError:
        if alive:
            raise
        return checkpointed_shares(settings, flow)
    return now if alive or not now.incomplete() else filled_in(now, checkpointed_shares(settings, flow))


def filled_in(now: KnownShares, kept: KnownShares) -> KnownShares:
    """`now`, with the positions that were `kept` of groups that are refused now, and of partitions that are unread. Pure."""
    positions = {key: each for key, each in kept.positions.items() if key[0] in now.refused or key in now.unread}
    still = {group: error for group, error in now.refused.items() if group not in {key[0] for key in positions}}
    unread = {key: error for key, error in now.unread.items() if key not in positions}
    return replace(now, positions={**now.positions, **positions}, unread=unread, refused=still)


def last_known_shares(records: Iterable[Record], policy: ReplicationPolicy) -> dict[Key, KnownShare]:
    """The newest state of each share group and partition in a log of checkpoints; other records are skipped. Pure."""
    known: dict[Key, KnownShare] = {}
    for each in checkpoints(records, policy):
        if SHARE_HEADER in each.headers:
            known[each.key] = KnownShare(
                decoded(each.position, each.headers[SHARE_HEADER]), each.as_of_ms, checkpointed=True
            )
        else:
            known.pop(each.key, None)  # the group of that name is a consumer group by now
    return known
