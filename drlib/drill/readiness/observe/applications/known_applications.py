"""What the target knows of the applications of a source that does not answer: groups by checkpoints, and transactional IDs.

Rules: only what the mirror wrote there, so members, client IDs and hosts are not known, and producers without transactions are
not either. When a group last committed is the time of its newest checkpoint; when a transactional ID was last used that of its
newest transaction that a worker recorded. A group of Kafka Streams is known by its internal topics.
Not for: a source that answers (`applications`), and positions (`groups`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.inventory.rules import WAYS, Application, Kind, SeenGroup, in_order, of_group
from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.observe.ask import ask_blocking
from drlib.kafka.admin.connect import blocking
from drlib.kafka.share_groups.names import PROTOCOL
from drlib.mirror.journal.transactions import TransactionCommitted
from drlib.mirror.offsets.translation.translate_groups import Positions, checkpointed_positions
from drlib.mirror.share_groups.known import KnownShares, checkpointed_shares
from drlib.mirror.source_producers.leaders import OURS
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC
from drlib.mirror.transactions.find import TransactionsFound, find_transactions
from drlib.model import Flow, TopicPartition

Seen = dict[str, tuple[set[str], int]]
"""By group: its topics, and when it was last active."""

BY_CHECKPOINTS: Final = "checkpoints on {}"
_JOURNAL: Final = "the mirror's journal on {}"


def known_on_target(
    settings: MirrorSettings, flow: FlowSettings, seconds: float
) -> tuple[tuple[Application, ...], tuple[str, ...]]:
    """The applications of the source, and why something of them is not known after `seconds`. Blocks; raises nothing that a
    cluster can cause."""
    pair = flow.flow

    async def asked() -> tuple[Positions | Unanswered, KnownShares | Unanswered, TransactionsFound | Unanswered]:
        return await asyncio.gather(
            ask_blocking(partial(checkpointed_positions, settings, pair), seconds),
            ask_blocking(partial(checkpointed_shares, settings, pair), seconds),
            ask_blocking(partial(find_transactions, settings, pair), seconds),
        )

    answers = blocking(asked())
    positions, shares, found = answers
    refused = tuple(
        f"{what} by the target: {each.why}"
        for what, each in zip(("groups", "share groups", "transactions"), answers, strict=True)
        if isinstance(each, Unanswered)
    )
    groups = (
        {} if isinstance(positions, Unanswered) else seen((*key, known.as_of_ms) for key, known in positions.items())
    )
    shared = {} if isinstance(shares, Unanswered) else seen((*key, at.as_of_ms) for key, at in shares.positions.items())
    topics = {topic for of_group_, _ in (*groups.values(), *shared.values()) for topic in of_group_}
    names = set() if isinstance(found, Unanswered) else {each.source_topic for each in found.maps.names.values()}
    kept = [name for name in names | topics if flow.policy.remote_topic(pair.source, name) == name]
    rows = [
        row
        for protocol, those in (("consumer", groups), (PROTOCOL, shared))
        for row in group_rows(pair, those, protocol, sorted(names | topics), kept)
    ]
    committed = () if isinstance(found, Unanswered) else found.committed
    return in_order([*rows, *transactional_rows(pair, committed)]), refused


def seen(positions: Iterable[tuple[str, TopicPartition, int]]) -> Seen:
    """By group, of its positions with their times."""
    found: Seen = {}
    for group, partition, as_of_ms in positions:
        topics, last = found.get(group, (set(), 0))
        found[group] = topics | {partition.topic}, max(last, as_of_ms)
    return found


def group_rows(
    flow: Flow, groups: Seen, protocol: str, topics: Collection[str], kept_names: Collection[str]
) -> list[Application]:
    """Rows of groups that have checkpoints, so that the flow selects them."""
    rows = []
    for name, (of_it, last_ms) in groups.items():
        group = SeenGroup(name, protocol, "", topics=tuple(sorted(of_it)), last_ms=last_ms or None)
        row = of_group(flow.source, group, topics, selected=True, kept_names=kept_names, others=groups)
        rows.append(_not_seen(row, flow, BY_CHECKPOINTS))
    return rows


def transactional_rows(flow: Flow, committed: Iterable[TransactionCommitted]) -> list[Application]:
    """A row for each transactional ID; lanes of the flow back are drlib's own."""
    last: dict[str, tuple[int, set[str]]] = {}
    for each in committed:
        if not each.transactional_id.startswith(OURS):
            at_ms, topics = last.get(each.transactional_id, (0, set()))
            topics |= {topic for topic, _ in each.partitions if topic != OFFSETS_TOPIC}
            last[each.transactional_id] = max(at_ms, each.at_ms), topics
    rows = []
    for name, (at_ms, topics) in last.items():
        way = WAYS[Kind.TRANSACTIONAL]
        row = Application(
            flow.source, Kind.TRANSACTIONAL, name, "", None, (), (), tuple(sorted(topics)), at_ms or None, *way
        )
        rows.append(_not_seen(row, flow, _JOURNAL))
    return rows


def _not_seen(row: Application, flow: Flow, by: str) -> Application:
    why = f"{flow.source} did not answer: its clients and hosts are not known"
    return replace(row, unknown=why, as_of_ms=row.last_ms, known_by=by.format(flow.target))
