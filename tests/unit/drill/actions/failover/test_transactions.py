"""What the step about transactions says: its check, its rows, and what groups are placed before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from drlib.drill.actions.failover import transactions
from drlib.drill.actions.failover.streams_rules import Match, StreamsState
from drlib.drill.actions.failover.transactions import (
    IN_PART,
    MOST_LISTED,
    NOT_DETERMINED,
    REBUILD,
    KeptTransactions,
    ListTransactions,
    evidence,
    first_offsets,
    judged,
    judged_state,
    keep,
    partial_rows,
    read_kept,
    table,
    unknown_rows,
)
from drlib.drill.step import step_output
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable, UsageError
from drlib.mirror.journal.entries import (
    Ack,
    ClaimId,
    CommittedTransactions,
    Covered,
    Entry,
    Placement,
    Run,
    SourcePartition,
    TopicNames,
    Transactions,
)
from drlib.mirror.journal.transactions import TransactionCommitted, TransactionEvent
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.transactions.find import TransactionsFound, found_in
from drlib.mirror.transactions.rules import Verdict
from drlib.mirror.transactions.tail import all_complete
from drlib.model import Flow, TopicPartition
from drlib.runs import check as checks
from drlib.runs.abort import Abort

A, B = UUID(int=1), UUID(int=2)
C = ClaimId(700, 0)
FLOW = Flow("LEFT", "RIGHT")
MIRROR = TopicPartition("LEFT.orders", 0)
NAMED = TransactionCommitted((0, 1), "shop", 4, 2, 2, 900, (("orders", (0,)), ("payments", (0,))))


def found(*committed: TransactionCommitted) -> TransactionsFound:
    """Two records from source offset 10 on, which are at 105 on the target; of the second topic nothing was read."""
    orders = SourcePartition(A, 0)
    events = TransactionEvent(4, 1, 10, 12, 2), TransactionEvent(4, 2, 12, 13, 0, 1000)
    maps = Maps()
    applied: list[Entry] = [
        Placement(orders, C, 0, 100),
        Run(orders, C, 0, 0),
        Run(orders, C, 5, 10),
        Ack(orders, C, 7, 107),
        Covered(orders, 13),
        Covered(SourcePartition(B, 0), 0),
    ]
    for entry in applied:
        maps.get(entry.partition).apply(entry)  # type: ignore[attr-defined]
    maps.names = {
        A: TopicNames(A, "orders", MIRROR.topic, UUID(int=3)),
        B: TopicNames(B, "payments", "LEFT.payments", UUID(int=4)),
    }
    maps.transactions = [Transactions(orders, 0, 0, events)]
    maps.transactions += [CommittedTransactions(0, 0, committed)] if committed else []
    return found_in(maps)


def test_partial_transaction_is_a_condition_with_its_partitions_and_its_place_on_the_target() -> None:
    it = found(NAMED)
    partial = it.decision.of(Verdict.PARTIAL)
    assert first_offsets(partial, it) == {MIRROR: 105}
    check = judged(it, FLOW)
    assert check is not None
    assert (check.name, check.verdict) == (IN_PART, checks.Verdict.CONDITIONS)
    assert check.evidence == (
        "1 transactions of LEFT have records on RIGHT. 1 in part: shop (producer 4, epoch 1): "
        "orders-0 all of it (2 of 2 records, source offsets 10 to 11), payments-0 nothing"
    )
    rows = partial_rows(partial, it)
    assert [(r["topic"], r["first source offset"], r["last source offset"], r["first offset there"]) for r in rows] == [
        ("orders", 10, 11, 105),
        ("payments", None, None, None),
    ]


def test_unknown_partitions_are_no_pass_and_name_the_right_that_is_missing() -> None:
    it = found()
    check = judged(it, FLOW)
    assert check is not None
    assert (check.name, check.verdict) == (NOT_DETERMINED, checks.Verdict.CONDITIONS)
    assert "Not determined: 1 of producer 4: which partitions it has is not recorded" in check.evidence
    assert "no worker could read __transaction_state: drlib doctor --rights" in check.evidence
    (row,) = unknown_rows(it.decision.of(Verdict.NOT_DETERMINED), it)
    assert (row["verdict"], row["records there"], row["first offset there"]) == ("not determined", 2, 105)
    assert row["on the target"] == "all of it; which partitions it has is not recorded"


def test_without_transactions_there_is_nothing_to_check() -> None:
    nothing = found_in(Maps())
    assert judged(nothing, FLOW) is None
    assert evidence(nothing, FLOW) == {
        "transactions": "not checked: no transaction of LEFT was read by a worker that records them"
    }
    numbers = evidence(found(NAMED), FLOW)
    assert (numbers["partial"], numbers["records_of_partial"], numbers["complete"]) == (1, 2, 0)
    assert "transactions" not in numbers


def test_state_that_does_not_match_says_how_to_rebuild_it() -> None:
    differs = judged_state(StreamsState("sums", Match.DIFFERS, "it is ahead"))
    assert (differs.verdict, REBUILD in differs.evidence) == (checks.Verdict.CONDITIONS, True)
    assert judged_state(StreamsState("sums", Match.NOT_DETERMINED, "why")).verdict is checks.Verdict.CONDITIONS
    matches = judged_state(StreamsState("sums", Match.MATCHES, "all complete"))
    assert (matches.verdict, matches.evidence) == (checks.Verdict.PASS, "matches: all complete")


def test_groups_are_placed_before_and_streams_applications_are_not(tmp_path: Path) -> None:
    assert read_kept(tmp_path, FLOW) == KeptTransactions()
    keep(tmp_path, FLOW, KeptTransactions(((MIRROR.topic, 0, 105),), ("sums",)))
    kept = read_kept(tmp_path, FLOW)
    assert kept.first("billing", MIRROR) == 105
    assert kept.first("billing", TopicPartition(MIRROR.topic, 1)) is None
    assert kept.first("sums", MIRROR) is None
    (tmp_path / "details" / "transactions.LEFT.RIGHT.json").write_text("{")
    with pytest.raises(UsageError):
        read_kept(tmp_path, FLOW)


def test_transactions_that_cannot_be_read_hold_up_no_emergency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> TransactionsFound:
        raise Unreachable("the journal cannot be read", "a format of a later version", "Use that version.")

    monkeypatch.setattr(transactions, "find_transactions", refused)
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = h:1\nRIGHT.bootstrap.servers = h:2\n")
    context = DrillContext(clusters={}, flow=FLOW, run_dir=tmp_path, properties=file)
    evidence = ListTransactions().bind(context, "transactions").act((), Abort(tmp_path))
    assert "a format of a later version" in str(evidence["not_determined"])
    assert read_kept(tmp_path, FLOW) == KeptTransactions()
    (check,) = step_output.read_part(tmp_path, "transactions").checks
    assert (check.name, check.verdict) == (NOT_DETERMINED, checks.Verdict.CONDITIONS)


def test_every_partial_transaction_is_in_the_table_with_its_number_and_the_text_has_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = found(NAMED)
    (partial,) = one.decision.of(Verdict.PARTIAL)
    many = MOST_LISTED + 5
    several = replace(one, decision=replace(one.decision, transactions=(partial,) * many))
    rows = partial_rows(several.decision.transactions, several)
    whole = table(rows, several, FLOW, "transactions")
    assert whole.caption.startswith(f"{many} transactions of LEFT are on RIGHT in part, 0 are not determined")
    assert len(whole.rows) == many * len(partial.parts)
    assert (whole.left_out, whole.file) == (0, "")
    assert whole.rows[0][:5] == ("shop", "4", "1", "partial", "orders")
    check = judged(several, FLOW)
    assert check is not None
    assert "and 5 more, in the table" in check.evidence
    monkeypatch.setattr(transactions, "MOST_ROWS", 3)
    cut = table(rows, several, FLOW, "transactions")
    assert (len(cut.rows), cut.left_out) == (3, many * len(partial.parts) - 3)
    assert cut.file == "details/transactions.rows.json"


def test_of_a_drained_source_every_transaction_is_complete() -> None:
    drained = replace(found(NAMED), decision=all_complete(found(NAMED).decision))
    check = judged(drained, FLOW)
    assert check is not None
    assert (check.name, check.verdict) == (transactions.CHECK, checks.Verdict.PASS)
    assert all_complete(found().decision).of(Verdict.NOT_DETERMINED) == ()
