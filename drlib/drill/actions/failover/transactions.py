"""Action `transactions.list`: which transactions of the source the target has in part, and where groups have to be placed.

Rules: it asks the target alone, so that a source that is lost can be judged. Every partial transaction is listed with each of
its partitions: the source offsets of its records as far as they were read, and how many of them are on the target. What is not
determined is counted by reason and producer, and makes the check unknown. In which mirror partitions a part begins is kept for
`groups.translate`, which places groups before it. Without a transaction that was read there is nothing to check.
Not for: the decision (`drlib.mirror.transactions.rules`), and positions (`actions.groups.rules`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, Shared
from drlib.drill.step.step_output import DETAILS, ScorecardPart
from drlib.files import read_json, write_whole
from drlib.mirror.transactions.find import TransactionsFound, find_transactions
from drlib.mirror.transactions.rules import FoundTransaction, Verdict
from drlib.mirror.transactions.transaction_state import TRANSACTIONS_TOPIC
from drlib.model import Flow, TopicPartition
from drlib.runs import check as checks
from drlib.runs.abort import Abort
from drlib.runs.check import Check
from drlib.runs.journal import Scalar

CHECK: Final = "no transaction is on the target in part"
_NAMED: Final = 5
_FIRSTS: Final = TypeAdapter(tuple[tuple[str, int, int], ...])


class ListTransactions(ReadOnlyTargetAction):
    """List the transactions that the target has in part."""

    name = "transactions.list"
    shared_topics = Shared.SOME

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        found = find_transactions(self.context.mirror_settings(), self.flow)
        decision = found.decision
        partial, unknown = decision.of(Verdict.PARTIAL), decision.of(Verdict.NOT_DETERMINED)
        firsts = first_offsets(partial, found)
        write_firsts(self.context.run_dir, self.flow, firsts)
        self.show([*partial_rows(partial, found), *unknown_rows(unknown)])
        check = judged(found, self.flow)
        if check is not None:
            self.score(ScorecardPart(checks=(check,)))
        return {
            "partial": len(partial),
            "records_of_partial": sum(each.present for each in partial),
            "complete": len(decision.of(Verdict.COMPLETE)),
            "not_determined": "; ".join(_reasons(unknown, found)),
            "why": ""
            if found.noted
            else f"no transaction of {self.flow.source} was read by a worker that records them",
        }


def judged(found: TransactionsFound, flow: Flow) -> Check | None:
    """None where no transaction was read: a check over nothing is none."""
    decision = found.decision
    if not decision.transactions and not decision.older:
        return None
    partial, unknown = decision.of(Verdict.PARTIAL), decision.of(Verdict.NOT_DETERMINED)
    said = [f"{len(decision.transactions)} transactions of {flow.source} have records on {flow.target}"]
    if partial:
        more = f", and {len(partial) - _NAMED} more" if len(partial) > _NAMED else ""
        said.append(f"{len(partial)} in part: {'; '.join(map(in_words, partial[:_NAMED]))}{more}")
    said += [f"not determined: {reason}" for reason in _reasons(unknown, found)]
    verdict = checks.Verdict.PASS
    if unknown or decision.older:
        verdict = checks.Verdict.UNKNOWN
    elif partial:
        verdict = checks.Verdict.CONDITIONS
    return Check(CHECK, verdict, ". ".join(said))


def in_words(transaction: FoundTransaction) -> str:
    """One transaction with its partitions, in a line."""
    parts = ", ".join(
        f"{part.partition} {part.state.value}" + (f" ({part.present} of {part.known} records)" if part.known else "")
        for part in transaction.parts
    )
    return f"{_name(transaction)}: {parts}"


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
    rows = []
    for each in partial:
        for part in each.parts:
            there = found.target_offset(part.partition, part.first) if part.present else None
            rows.append(
                _row(
                    each,
                    topic=part.partition.topic,
                    partition=part.partition.partition,
                    on_target=part.state.value,
                    first=part.first if part.known else None,
                    last=part.end - 1 if part.known else None,
                    present=part.present,
                    known=part.known,
                    there=there,
                )
            )
    return rows


def unknown_rows(unknown: Iterable[FoundTransaction]) -> list[dict[str, Scalar]]:
    """A row for each reason and producer, of the first of them."""
    first: dict[tuple[str, int], FoundTransaction] = {}
    for each in unknown:
        first.setdefault((each.why, each.producer_id), each)
    return [
        _row(
            each,
            topic=each.parts[0].partition.topic,
            partition=each.parts[0].partition.partition,
            on_target=each.why,
            first=each.parts[0].first,
            last=each.parts[0].end - 1,
            present=each.present,
            known=sum(part.known for part in each.parts),
            there=None,
        )
        for each in first.values()
    ]


def _row(
    transaction: FoundTransaction,
    *,
    topic: str,
    partition: int,
    on_target: str,
    first: int | None,
    last: int | None,
    present: int,
    known: int,
    there: int | None,
) -> dict[str, Scalar]:
    return {
        "transactional ID": transaction.transactional_id or "not known",
        "producer ID": transaction.producer_id,
        "epoch": transaction.epoch,
        "verdict": transaction.verdict.value,
        "topic": topic,
        "partition": partition,
        "on the target": on_target,
        "first source offset": first,
        "last source offset": last,
        "records there": present,
        "of records read": known,
        "first offset there": there,
    }


def write_firsts(run_dir: Path, flow: Flow, firsts: Mapping[TopicPartition, int]) -> None:
    """Keep where the first partial transaction begins in each mirror partition."""
    path = _path(run_dir, flow)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = tuple((p.topic, p.partition, offset) for p, offset in sorted(firsts.items()))
    write_whole(path, _FIRSTS.dump_json(rows))


def read_firsts(run_dir: Path, flow: Flow) -> dict[TopicPartition, int]:
    """Those of this run; empty where no step listed transactions. Raises `UsageError` for a file that was changed."""
    try:
        rows: tuple[tuple[str, int, int], ...] = read_json(_path(run_dir, flow), _FIRSTS, "Begin a new run.")
    except FileNotFoundError:
        return {}
    return {TopicPartition(topic, number): offset for topic, number, offset in rows}


def _path(run_dir: Path, flow: Flow) -> Path:
    return run_dir / DETAILS / f"transactions.{flow.source}.{flow.target}.json"
