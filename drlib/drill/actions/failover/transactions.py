"""Action `transactions.list`: which transactions of the source the target has in part, and where groups have to be placed.

Rules: it asks the target alone, so that a source that is lost can be judged. Every partial transaction is listed with each of
its partitions: the source offsets of its records as far as they were read, and how many of them are on the target. What is
not determined is listed, too, and counted by reason and producer; where nothing can be read the run continues without it. Each
makes the check a condition, as a loss does of which only the least is known: the source is gone, and the right to know more is
optional. In which mirror partitions a part begins is kept for `groups.translate`, which places groups before it. Without a
transaction that was read there is no check, and the step says "not checked" in place of numbers. Of each Kafka Streams
application it says whether its state matches the input positions that the target knows. `drained` is for a planned move, where
the source serves: once all that it has is on the target, no transaction is there in part, whatever the client.
Longer than most modules: what is found, judged, shown and kept is one step's.
Not for: a source that came back (`actions.failback.tail_transactions`), the decision (`drlib.mirror.transactions.rules`), and
positions (`actions.groups.rules`).
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from pydantic import TypeAdapter

from drlib import formats
from drlib.drill.actions.failover.streams_rules import (
    KnownInput,
    Match,
    StreamsState,
    applications,
    judge,
    judge_drained,
)
from drlib.drill.inventory.kept import kept_of
from drlib.drill.inventory.left_behind import unanswered
from drlib.drill.inventory.rules import PRODUCERS, Application, Kind, streams_topics
from drlib.drill.readiness.observe.applications.applications import take_inventory
from drlib.drill.readiness.observe.applications.known_applications import BY_CHECKPOINTS
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Flag, Seconds
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, Shared
from drlib.drill.step.step_output import DETAILS, ScorecardPart, rows_file
from drlib.errors import DrlibError, UsageError
from drlib.files import make_folder, read_json, write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.offsets.unreplicated.lag import mirrored_topics, replication_lag
from drlib.mirror.transactions.find import TransactionsFound, find_transactions
from drlib.mirror.transactions.rules import FoundTransaction, Part, State, Verdict
from drlib.mirror.transactions.tail import all_complete
from drlib.mirror.transactions.transaction_state import TRANSACTIONS_TOPIC
from drlib.model import Flow, TopicPartition
from drlib.runs import check as checks
from drlib.runs.abort import Abort
from drlib.runs.check import Check
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import KeptTable
from drlib.runs.waiting import LOOK_S

CHECK: Final = "no transaction is on the target in part"
IN_PART: Final = "transactions are on the target in part"
NOT_DETERMINED: Final = "whether transactions are on the target in part is not determined"
MOST_LISTED: Final = 20  # in the check's text; the table of the report and scorecard has all, up to `MOST_ROWS`
MOST_ROWS: Final = 10_000  # of the table; the step's rows have all
MOST_UNKNOWN: Final = 1000  # rows of transactions that are not determined: the last ones
_NAMED: Final = 5
STATE_CHECK: Final = "the state of Kafka Streams application {} matches its input positions"
STATES_CHECK: Final = "all Kafka Streams applications of {} are known"
REBUILD: Final = (
    "before it is started delete its internal topics on the target, and set it back to the beginning of its input "
    "(kafka-streams-application-reset): it then rebuilds its state from the records that crossed"
)


@dataclass(frozen=True, slots=True)
class KeptTransactions:
    """What `groups.translate` takes from it. `firsts`: topic and partition on the target, and the offset at which the first
    partial transaction begins there; `streams`: groups that are Kafka Streams applications. `rests`: of a way back, partitions
    that have the rest of these transactions, each with the end of that."""

    firsts: tuple[tuple[str, int, int], ...] = ()
    streams: tuple[str, ...] = ()
    rests: tuple[tuple[str, int, int], ...] = ()

    def first(self, group: str, partition: TopicPartition) -> int | None:
        """Where a group has to be placed at or before; None where it stays. The positions of a Streams application belong to
        its state, and are not changed."""
        if group in self.streams:
            return None
        return next((at for topic, n, at in self.firsts if (topic, n) == (partition.topic, partition.partition)), None)

    def has_rest(self, partition: TopicPartition, offset: int) -> bool:
        """Is there something left to read of the rest of these transactions, from `offset` on?"""
        return any(
            (topic, n) == (partition.topic, partition.partition) and offset < end for topic, n, end in self.rests
        )


_KEPT: Final = TypeAdapter(KeptTransactions)


@dataclass(frozen=True, slots=True)
class Names:
    """Of a check, by what it finds."""

    none: str
    in_part: str
    not_determined: str


ON_TARGET: Final = Names(CHECK, IN_PART, NOT_DETERMINED)


class TransactionsAction(ReadOnlyTargetAction):
    """Shows, scores and returns what was found; what that is a subclass says."""

    names: ClassVar[Names] = ON_TARGET

    def scored(self, found: TransactionsFound, *others: Check) -> Evidence:
        decision, check = found.decision, judged(found, self.flow, self.names)
        rows = [
            *partial_rows(decision.of(Verdict.PARTIAL), found),
            *unknown_rows(decision.of(Verdict.NOT_DETERMINED), found),
        ]
        self.show(rows)
        self.score(
            ScorecardPart(
                checks=(*([check] if check is not None else []), *others),
                tables=(table(rows, found, self.flow, self.step),) if rows else (),
            )
        )
        return evidence(found, self.flow)

    def unread(self, error: DrlibError, flow: Flow) -> Evidence:
        """Nothing could be read; no group of `flow` is placed by it."""
        keep(self.context.run_dir, flow, KeptTransactions())
        check = Check(self.names.not_determined, checks.Verdict.CONDITIONS, f"not determined: {error}")
        self.score(ScorecardPart(checks=(check,)))
        return {"partial": None, "not_determined": str(error), "why": error.why}

    def missing(self, abort: Abort, within_s: float = 0.0) -> dict[TopicPartition, int]:
        """How many offsets of each partition of the source have not crossed after at most `within_s`.

        Raises what a cluster says.
        """
        settings, flow = self.context.mirror_settings(), self.flow
        end = time.monotonic() + within_s
        with Cluster(settings.clusters[flow.source]) as source:
            topics = mirrored_topics(source, settings.flow(flow.source, flow.target))
            partitions = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
            while (lag := replication_lag(settings, flow, source, partitions)).missing and time.monotonic() < end:
                abort.wait(LOOK_S)
        return {each: sum(s.end - s.first for s in lag.missing.get(each, ())) for each in partitions}

    def streams(self, found: TransactionsFound) -> list[StreamsState]:
        """The Kafka Streams applications of the flow's groups, by the positions that the target knows."""
        settings, flow = self.context.mirror_settings(), self.flow
        known, mirrors = checkpointed_positions(settings, flow), settings.flow(flow.source, flow.target).mirrors_topic
        topics = {names.source_topic for names in found.maps.names.values()}
        keeps = {names.source_topic for names in found.maps.names.values() if names.target_topic == names.source_topic}
        groups = {group for group, _ in known}
        besides = {each.name: [t for t in each.topics if not mirrors(t)] for each in self._seen_streams(flow)}
        states = []
        for application in applications(groups, topics.union(*besides.values())):
            positions = {
                partition: KnownInput(at.offset, at.transaction, found.mirrored_to(partition))
                for (group, partition), at in known.items()
                if group == application
            }
            kept = keeps.issuperset(streams_topics(application, topics, groups))
            states.append(
                judge(
                    application,
                    topics,
                    positions,
                    found.decision,
                    found.committed,
                    keeps_names=kept,
                    others=groups,
                    unmirrored=besides.get(application),
                )
            )
        return states

    def _seen_streams(self, flow: Flow) -> list[Application]:
        """The Kafka Streams applications that the run's inventory has, as the source itself named them once."""
        with contextlib.suppress(UsageError):  # a file that was changed: then it is not known what they have besides
            if (kept := kept_of(self.context.run_dir, flow)) is not None:
                by_target = BY_CHECKPOINTS.format(flow.target)
                return [each for each in kept.movers if each.kind is Kind.STREAMS and each.known_by != by_target]
        return []


class ListTransactions(TransactionsAction):
    """List the transactions that the target has in part."""

    name = "transactions.list"
    shared_topics = Shared.SOME

    drained: Flag = False
    """Whether the source serves and nothing is written to it any more: then it is waited for what has not crossed yet."""
    drained_s: Seconds = 10
    """How long to wait for that; what has not crossed by then is judged as in an emergency."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        try:
            missing = self.missing(abort, self.drained_s) if self.drained else None
            found = find_transactions(self.context.mirror_settings(), self.flow)
            if missing is not None and not any(missing.values()):
                found = replace(found, decision=all_complete(found.decision))
            states, unknown = (self.streams(found), ()) if missing is None else self._drained_streams(found, missing)
        except DrlibError as error:  # it holds up no emergency: what the next step cannot do without, that step refuses
            return self.unread(error, self.flow)
        first = first_offsets(found.decision.of(Verdict.PARTIAL), found)
        firsts = tuple((p.topic, p.partition, at) for p, at in sorted(first.items()))
        keep(self.context.run_dir, self.flow, KeptTransactions(firsts, tuple(each.application for each in states)))
        others = Check(STATES_CHECK.format(self.flow.source), checks.Verdict.CONDITIONS, "; ".join(unknown))
        return self.scored(found, *map(judged_state, states), *([others] if unknown else []))

    def _drained_streams(
        self, found: TransactionsFound, missing: Mapping[TopicPartition, int]
    ) -> tuple[list[StreamsState], tuple[str, ...]]:
        """The Kafka Streams applications that the source has, after they were moved or stopped; and why it may have others."""
        settings, flow = self.context.mirror_settings(), self.flow
        chosen = settings.flow(flow.source, flow.target)
        seen, _ = take_inventory(settings, [chosen], only=[flow.source], activity=False)
        keeps = {names.source_topic for names in found.maps.names.values() if names.target_topic == names.source_topic}
        applications = [each for each in seen.applications if each.kind is Kind.STREAMS]
        names = [each.name for each in applications]
        states = [
            judge_drained(each.name, each.topics, each.members, missing, keeps_names=keeps.issuperset(internal))
            for each in applications
            if (internal := streams_topics(each.name, each.topics, names))
        ]
        return states, tuple(why for why in unanswered(seen, flow.source) if not why.startswith(PRODUCERS))


_VERDICTS: Final = {
    Match.MATCHES: checks.Verdict.PASS,
    Match.DIFFERS: checks.Verdict.CONDITIONS,
    Match.NOT_DETERMINED: checks.Verdict.CONDITIONS,
}


def judged_state(state: StreamsState) -> Check:
    said = f"{state.match.value}: {state.why}"
    remedy = "" if state.match is Match.MATCHES else f". {REBUILD}"
    return Check(STATE_CHECK.format(state.application), _VERDICTS[state.match], said + remedy)


def evidence(found: TransactionsFound, flow: Flow) -> Evidence:
    """What the step reports; no numbers where no transaction was read, as 0 in part would be a pass over nothing."""
    decision = found.decision
    if not decision.transactions and not decision.older:
        none = f"none of {flow.source} has a record on {flow.target}, as far as the journal says"
        unread = f"not checked: no transaction of {flow.source} was read by a worker that records them"
        return {"transactions": none if found.noted else unread}
    partial, unknown = decision.of(Verdict.PARTIAL), decision.of(Verdict.NOT_DETERMINED)
    return {
        "partial": len(partial),
        "records_of_partial": sum(each.present for each in partial),
        "complete": len(decision.of(Verdict.COMPLETE)),
        "not_determined": "; ".join(_reasons(unknown, found)),
    }


def table(rows: Sequence[Mapping[str, Scalar]], found: TransactionsFound, flow: Flow, step: str) -> KeptTable:
    """`rows`: every partition of every transaction that is there in part, or of which that is not determined."""
    partial, unknown = found.decision.of(Verdict.PARTIAL), found.decision.of(Verdict.NOT_DETERMINED)
    number = (
        f"{len(partial)} transactions of {flow.source} are on {flow.target} in part, {len(unknown)} are not determined"
    )
    heads = tuple(rows[0])
    shown = rows[:MOST_ROWS]
    left_out = sum(len(each.parts) for each in (*partial, *unknown)) - len(shown)
    return KeptTable(
        title="Transactions in part",
        caption=f"{number}: a row for each of their partitions",
        heads=heads,
        rows=tuple(tuple(formats.cell(row[head]) for head in heads) for row in shown),
        left_out=left_out,
        file=rows_file(step) if left_out else "",
    )


def judged(found: TransactionsFound, flow: Flow, names: Names = ON_TARGET) -> Check | None:
    """None where no transaction was read: a check over nothing is none. Its name claims no more than was determined."""
    decision = found.decision
    if not decision.transactions and not decision.older:
        return None
    partial, unknown = decision.of(Verdict.PARTIAL), decision.of(Verdict.NOT_DETERMINED)
    said = [f"{len(decision.transactions)} transactions of {flow.source} have records on {flow.target}"]
    if partial:
        more = f"; and {len(partial) - MOST_LISTED} more, in the table" if len(partial) > MOST_LISTED else ""
        said.append(f"{len(partial)} in part: {'; '.join(map(in_words, partial[:MOST_LISTED]))}{more}")
    said += [f"Not determined: {reason}" for reason in _reasons(unknown, found)]
    name, verdict = names.none, checks.Verdict.PASS
    if partial or unknown or decision.older or decision.unread:
        name, verdict = names.in_part if partial else names.not_determined, checks.Verdict.CONDITIONS
    return Check(name, verdict, ". ".join(said))


def in_words(transaction: FoundTransaction) -> str:
    """One transaction with its partitions, in a line."""
    parts = ", ".join(
        f"{part.partition} {part.state.value}"
        + (
            f" ({part.present} of {part.known} records, source offsets {part.first} to {part.end - 1})"
            if part.known
            else ""
        )
        + _rest(part)
        for part in transaction.parts
    )
    return f"{_name(transaction)}: {parts}"


def _rest(part: Part) -> str:
    """Where the rest of a part is, behind what is on the target."""
    return f", the rest {part.rest}" if part.rest and part.state is not State.RECOVERED else ""


def _name(transaction: FoundTransaction) -> str:
    producer = f"producer {transaction.producer_id}, epoch {transaction.epoch}"
    return f"{transaction.transactional_id} ({producer})" if transaction.transactional_id else producer


def _reasons(unknown: Sequence[FoundTransaction], found: TransactionsFound) -> list[str]:
    by_reason: dict[str, list[FoundTransaction]] = defaultdict(list)
    for each in unknown:
        by_reason[each.why].append(each)
    reasons = []
    for why, those in by_reason.items():
        producers = sorted({each.transactional_id or f"producer {each.producer_id}" for each in those})
        named = ", ".join(producers[:_NAMED]) + (" and others" if len(producers) > _NAMED else "")
        reasons.append(f"{len(those)} of {named}: {why}")
    if found.decision.older:
        behind = ", ".join(map(str, found.decision.older[:_NAMED]))
        reasons.append(f"transactions older than those that are recorded, of which {behind} may lack a part")
    if found.decision.unread:
        lacking = ", ".join(map(str, found.decision.unread[:_NAMED]))
        reasons.append(f"transactions that the mirror had not read, of which {lacking} may lack a part")
    if unknown and not found.followed:
        reasons.append(f"no worker could read {TRANSACTIONS_TOPIC}: drlib doctor --rights names the right")
    return reasons


def first_offsets(partial: Iterable[FoundTransaction], found: TransactionsFound) -> dict[TopicPartition, int]:
    """By mirror partition: where the first record of a partial transaction is."""
    firsts: dict[TopicPartition, int] = {}
    for transaction in partial:
        for part in transaction.parts:
            mirror = found.mirror_of(part.partition)
            if not part.present or mirror is None or (there := found.target_offset(part.partition, part.first)) is None:
                continue
            firsts[mirror] = min(there, firsts.get(mirror, there))
    return firsts


def partial_rows(partial: Iterable[FoundTransaction], found: TransactionsFound) -> list[dict[str, Scalar]]:
    """A row for each partition of each transaction."""
    return [_row(each, part, part.state.value + _rest(part), found) for each in partial for part in each.parts]


def unknown_rows(unknown: Iterable[FoundTransaction], found: TransactionsFound) -> list[dict[str, Scalar]]:
    """The same of transactions that are not determined, with the reason: any of them may be there in part."""
    rows = [_row(each, part, f"{part.state.value}; {each.why}", found) for each in unknown for part in each.parts]
    return rows[-MOST_UNKNOWN:]


def _row(transaction: FoundTransaction, part: Part, on_target: str, found: TransactionsFound) -> dict[str, Scalar]:
    there = found.target_offset(part.partition, part.first) if part.present else None
    return {
        "transactional ID": transaction.transactional_id or "not known",
        "producer ID": transaction.producer_id,
        "epoch": transaction.epoch,
        "verdict": transaction.verdict.value,
        "topic": part.partition.topic,
        "partition": part.partition.partition,
        "on the target": on_target,
        "first source offset": part.first if part.known else None,
        "last source offset": part.end - 1 if part.known else None,
        "records there": part.present,
        "of records read": part.known,
        "first offset there": there,
    }


def keep(run_dir: Path, flow: Flow, kept: KeptTransactions) -> None:
    path = _path(run_dir, flow)
    make_folder(path.parent)
    write_whole(path, _KEPT.dump_json(kept))


def read_kept(run_dir: Path, flow: Flow) -> KeptTransactions:
    """What a step of this run kept; nothing where none listed transactions. Raises `UsageError` for a file that was changed."""
    try:
        kept: KeptTransactions = read_json(_path(run_dir, flow), _KEPT, "Begin a new run.")
    except FileNotFoundError:
        return KeptTransactions()
    return kept


def _path(run_dir: Path, flow: Flow) -> Path:
    return run_dir / DETAILS / f"transactions.{flow.source}.{flow.target}.json"
