"""Decides for a Kafka Streams application with exactly_once_v2 whether its state on the target matches its positions. Pure.

Rules: its state is the changelog topics, and a transaction of one of its producers has the records of these, of its output,
and the positions of its input. So state and positions match where every transaction up to the ones of the known positions is
complete on the target, none of a later one is there, and the input was mirrored up to these positions. A position says of
which transaction it is where it was committed in one and the mirror read that commit; else nothing is determined. A changelog
that is not mirrored is no state there; neither are records in a repartition topic that is not.
Not for: which transactions are complete (`drlib.mirror.transactions.rules`), and rebuilding a state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drlib.drill.inventory.rules import CHANGELOG, streams_topics
from drlib.formats import first_few
from drlib.mirror.journal.transactions import TransactionCommitted
from drlib.mirror.transactions.rules import OWN_EPOCHS, Decision, FoundTransaction, Verdict
from drlib.model import TopicPartition


class Match(StrEnum):
    MATCHES = "matches"
    DIFFERS = "does not match"
    NOT_DETERMINED = "not determined"


@dataclass(frozen=True, slots=True)
class KnownInput:
    """A position of the application on the source: the transaction (producer ID, epoch) that committed it, None where that is
    not known; and up to which source offset the partition was mirrored, None where that is not known."""

    offset: int
    transaction: tuple[int, int] | None
    mirrored_to: int | None


@dataclass(frozen=True, slots=True)
class StreamsState:
    application: str
    match: Match
    why: str


def applications(groups: Collection[str], topics: Collection[str]) -> list[str]:
    """The groups that are Streams applications, by the internal topics that they have among `topics`."""
    return sorted(group for group in groups if streams_topics(group, topics, groups))


def judge(
    application: str,
    topics: Collection[str],
    positions: Mapping[TopicPartition, KnownInput],
    decision: Decision,
    committed: Sequence[TransactionCommitted],
    *,
    keeps_names: bool,
    others: Collection[str] = (),
    unmirrored: Collection[str] | None = (),
) -> StreamsState:
    """`topics`: the mirrored ones of the source; `keeps_names`: do they have the same names on the target? `others`: groups, of
    which some may be Streams applications, too; `unmirrored`: those that it has besides, None where that is not known."""
    internal = streams_topics(application, topics, others)
    longer = tuple(f"{each}-" for each in others if each.startswith(f"{application}-"))
    lacking = streams_topics(application, unmirrored or (), others)

    def is_ours(transactional_id: str, of: Iterable[str]) -> bool:
        begins = transactional_id.startswith(f"{application}-") and not transactional_id.startswith(longer)
        return begins or any(topic in internal for topic in of)

    def is_of(each: FoundTransaction) -> bool:
        return is_ours(each.transactional_id, (part.partition.topic for part in each.parts))

    mine = [each for each in decision.transactions if is_of(each)]
    named = [
        each
        for each in committed
        if each.version >= OWN_EPOCHS and is_ours(each.transactional_id, (topic for topic, _ in each.partitions))
    ]
    newest: dict[int, int] = {}
    for known in positions.values():
        if known.transaction is not None:
            producer, epoch = known.transaction
            newest[producer] = max(epoch, newest.get(producer, -1))
    absent = [each for each in decision.absent if each.own_epoch and is_of(each)]
    differs = _differences(mine, absent, positions, newest)
    if state := [topic for topic in lacking if topic.endswith(CHANGELOG)]:
        differs.insert(0, f"{first_few(state)} is not mirrored, so that it begins with an empty state")
    elif not keeps_names:
        differs.insert(0, "its changelog topics have other names on the target, so that it begins with an empty state")
    if differs:
        return StreamsState(application, Match.DIFFERS, "; ".join(differs))
    unknown = _not_known(mine, named, positions, newest)
    if lacking:
        unknown.insert(0, f"{first_few(lacking)} is not mirrored, and records may have been on their way through it")
    elif unmirrored is None and not any(topic.endswith(CHANGELOG) for topic in internal):
        unknown.insert(0, "none of its changelog topics is mirrored: where it has a state, that is not on the target")
    if unknown:
        return StreamsState(application, Match.NOT_DETERMINED, "; ".join(unknown))
    return StreamsState(application, Match.MATCHES, f"{len(mine)} transactions of it are complete, up to its positions")


def judge_drained(
    application: str,
    topics: Collection[str],
    members: int | None,
    missing: Mapping[TopicPartition, int],
    *,
    keeps_names: bool,
) -> StreamsState:
    """Where the source still serves and nothing is written to it any more: state and positions match once all of both crossed,
    whatever the client's transactions are, and no member changes them there.

    `topics`: those that it reads, and its internal ones; `members`: it has on the source, None where that is not known;
    `missing`: by partition, how many offsets have not crossed.
    """
    if not keeps_names:
        other = "its changelog topics have other names on the target, so that it begins with an empty state"
        return StreamsState(application, Match.DIFFERS, other)
    if members != 0:
        runs = "whether it still runs on the source is not known" if members is None else "it still runs on the source"
        return StreamsState(application, Match.NOT_DETERMINED, runs)
    behind = {partition: count for partition, count in sorted(missing.items()) if count and partition.topic in topics}
    if behind:
        listed = ", ".join(f"{count} offsets of {partition}" for partition, count in behind.items())
        return StreamsState(application, Match.NOT_DETERMINED, f"not all of its topics has crossed: {listed}")
    return StreamsState(application, Match.MATCHES, f"it was stopped, and all of its {len(topics)} topics have crossed")


def _differences(
    mine: Sequence[FoundTransaction],
    absent: Sequence[FoundTransaction],
    positions: Mapping[TopicPartition, KnownInput],
    newest: Mapping[int, int],
) -> list[str]:
    found = []
    partial = [each for each in mine if each.verdict is Verdict.PARTIAL]
    if partial:
        found.append(f"{len(partial)} of its transactions are there in part, with {_records(partial)} records")
    ahead = [e for e in mine if e.epoch > newest.get(e.producer_id, e.epoch) and e.verdict is not Verdict.PARTIAL]
    if ahead:
        found.append(
            f"its state has {len(ahead)} transactions, with {_records(ahead)} records, that are newer than its positions"
        )
    missing = [each for each in absent if each.epoch <= newest.get(each.producer_id, -1)]
    if missing:
        found.append(f"its positions are behind {len(missing)} transactions of which nothing is on the target")
    beyond = {p: k.offset - k.mirrored_to for p, k in positions.items() if k.mirrored_to is not None}
    beyond = {p: count for p, count in beyond.items() if count > 0}
    if beyond:
        listed = ", ".join(f"{partition} by {count}" for partition, count in sorted(beyond.items()))
        found.append(f"its state has offsets of its input that were not mirrored: {listed}")
    return found


def _not_known(
    mine: Sequence[FoundTransaction],
    named: Sequence[TransactionCommitted],
    positions: Mapping[TopicPartition, KnownInput],
    newest: Mapping[int, int],
) -> list[str]:
    if not positions:
        return ["none of its positions is known on the target"]
    found = []
    unknown = sorted(p for p, k in positions.items() if k.transaction is None)
    if unknown:
        listed = ", ".join(map(str, unknown))
        found.append(f"which transaction committed its positions in {listed} is not known")
    unmirrored = sorted(p for p, k in positions.items() if k.mirrored_to is None)
    if unmirrored:
        found.append(f"up to where {', '.join(map(str, unmirrored))} was mirrored is not known")
    earlier = {each.producer_id for each in mine if not each.own_epoch}
    if earlier:
        found.append(
            f"{len(earlier)} of its producers use no transaction version 2, so that their epochs name no commit"
        )
    open_ones = [each for each in mine if each.verdict is Verdict.NOT_DETERMINED]
    if open_ones:
        found.append(f"{len(open_ones)} of its transactions are not determined: {open_ones[0].why}")
    there = {(each.producer_id, each.epoch) for each in mine}
    if any((producer, epoch) not in there for producer, epoch in newest.items()):
        found.append("the transactions of its positions are no longer recorded")
    since = min((each.at_ms for each in named if newest.get(each.producer_id) == each.epoch - 1), default=0)
    others = {e.producer_id for e in named if e.producer_id not in newest and e.at_ms >= since}
    if others:
        found.append(f"{len(others)} of its producers have committed no position that is known")
    return found


def _records(transactions: Sequence[FoundTransaction]) -> int:
    return sum(each.present for each in transactions)
