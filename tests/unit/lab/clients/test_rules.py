"""What histories of an unmodified client say of a move: each figure, and each way to fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.lab.checker.history import Consumed, History, Produced, ProducedStatus
from drlib.lab.clients.families import BY_NAME, FAMILIES, Family
from drlib.lab.clients.rules import Move, Seen, check, continued, continued_at, finished, judge, not_run, unread
from drlib.runs.check import Verdict

MOVE = Move("LEFT", "RIGHT", fault_ms=10_000, decided_ms=12_000)
JAVA, CONSOLE, STREAMS = BY_NAME["java"], BY_NAME["console"], BY_NAME["streams"]


def produced(times: dict[str, int], status: ProducedStatus = ProducedStatus.ACKED) -> History:
    return History(tuple(Produced(i, "k", 0, "address", "t", 0, 0, at - 1, at, status) for i, at in times.items()))


def consumed(rows: Sequence[tuple[str, int]]) -> History:
    return History(consumed=tuple(Consumed("g", "address", "LEFT.t", 0, 0, name, "k", 0, at) for name, at in rows))


# a and b cross, c does not; d and e are written on RIGHT
GOOD = Seen(
    produced=produced({"a": 8_000, "b": 9_000, "c": 9_900, "d": 14_500, "e": 14_600}),
    consumed=consumed([("a", 8_001), ("b", 9_001), ("c", 9_901), ("d", 15_250), ("e", 15_260)]),
    remote=("a", "b"),
    local=("d", "e"),
)


def test_client_that_continues_has_its_figures() -> None:
    score = judge(JAVA, "4.3.1", GOOD, MOVE)
    assert (score.wrote_after_s, score.read_after_s, score.restarts) == (4.5, 5.25, 0)
    assert (score.acknowledged, score.processed, score.re_read, score.written_twice) == (5, 5, 0, 0)
    assert (score.lost, score.not_crossed, score.skipped) == (0, 1, 0)
    assert (score.verdict, score.why) == (Verdict.PASS, "5 acknowledged, 5 processed, 0 of them again")
    assert check(score, MOVE).name == "unmodified java clients continue on RIGHT, and nothing is lost or skipped"


def test_record_that_was_acknowledged_after_the_decision_and_is_nowhere_is_lost() -> None:
    """As where its producer ID is another producer's: the leader takes its batch for a retry."""
    score = judge(JAVA, "", replace(GOOD, local=("e",)), MOVE)
    assert (score.lost, score.not_crossed, score.verdict) == (1, 1, Verdict.FAIL)
    assert score.why == "1 acknowledged records are not in the log"


def test_record_that_the_source_acknowledged_before_a_planned_move_and_is_nowhere_is_lost() -> None:
    """The source served until all had crossed: nothing is the price of a planned move."""
    planned = replace(MOVE, planned=True)
    score = judge(JAVA, "", GOOD, planned)
    assert (score.lost, score.not_crossed, score.verdict) == (1, 0, Verdict.FAIL)
    crossed = judge(JAVA, "", replace(GOOD, remote=("a", "b", "c")), planned)
    assert (crossed.lost, crossed.not_crossed, crossed.verdict) == (0, 0, Verdict.PASS)
    idle = judge(JAVA, "", replace(GOOD, remote=(), consumed=consumed([("d", 15_250), ("e", 15_260)])), planned)
    assert (idle.verdict, idle.why) == (Verdict.UNKNOWN, "it processed nothing on LEFT before the move")


def test_all_have_continued_when_the_slowest_one_has() -> None:
    good = judge(JAVA, "", GOOD, MOVE)  # written after 4.5 s, read after 5.25 s
    slow = good.model_copy(update={"wrote_after_s": 9.0})
    console = good.model_copy(update={"acknowledged": None, "wrote_after_s": None, "read_after_s": 5.5})
    left = good.model_copy(update={"left_behind": True, "wrote_after_s": None, "read_after_s": None})
    assert continued_at([good, console, left], MOVE) == 15_500
    assert continued_at([good, slow, console], MOVE) == 19_000
    assert continued_at([good, slow.model_copy(update={"read_after_s": None})], MOVE) is None
    assert continued_at([good, slow.model_copy(update={"wrote_after_s": None})], MOVE) is None
    assert continued_at([left], MOVE) is None
    assert continued_at([], MOVE) is None


@pytest.mark.parametrize("name", ["a", "d"])
def test_record_in_either_log_that_was_never_processed_is_skipped(name: str) -> None:
    seen = replace(GOOD, consumed=History(consumed=tuple(r for r in GOOD.consumed.consumed if r.id != name)))
    if name == "a":
        seen = replace(seen, consumed=seen.consumed + consumed([("z", 8_000)]))  # it did work before the fault
    score = judge(JAVA, "", seen, MOVE)
    assert (score.skipped, score.verdict, unread(seen)) == (1, Verdict.FAIL, {name})
    assert score.why == "1 records were not processed"


def test_record_processed_twice_was_read_again_and_fails_nothing() -> None:
    score = judge(JAVA, "", replace(GOOD, consumed=GOOD.consumed + consumed([("b", 15_000), ("b", 15_001)])), MOVE)
    assert (score.re_read, score.verdict) == (2, Verdict.PASS)


def test_record_that_its_producer_wrote_to_both_clusters_was_not_read_again() -> None:
    seen = replace(GOOD, local=("b", "d", "e"), consumed=GOOD.consumed + consumed([("b", 15_000)]))
    score = judge(JAVA, "", seen, MOVE)
    assert (score.written_twice, score.re_read, score.verdict) == (1, 0, Verdict.PASS)


def test_client_that_does_not_continue_fails_by_what_it_did_not_do() -> None:
    before = consumed([("a", 8_001), ("b", 9_001)])
    stuck = replace(GOOD, produced=produced({"a": 8_000, "b": 9_000}), local=(), consumed=before)
    assert not continued(JAVA, stuck, MOVE)
    score = judge(JAVA, "", stuck, MOVE)
    assert (score.verdict, score.wrote_after_s, score.read_after_s) == (Verdict.FAIL, None, None)
    assert score.why == "no record was written on RIGHT; no record was processed on RIGHT"
    reads = replace(stuck, consumed=before + consumed([("b", 15_000)]))
    assert judge(JAVA, "", reads, MOVE).why == "no record was written on RIGHT"
    assert not continued(JAVA, reads, MOVE)
    assert not continued(JAVA, replace(GOOD, consumed=before), MOVE), "it wrote, and read nothing"
    assert continued(JAVA, GOOD, MOVE)


def test_client_that_did_nothing_before_the_fault_proves_nothing() -> None:
    seen = replace(GOOD, remote=(), consumed=consumed([("d", 15_250), ("e", 15_260)]))
    score = judge(JAVA, "", seen, MOVE)
    assert (score.verdict, score.why) == (Verdict.UNKNOWN, "it processed nothing on LEFT before the fault")


def test_history_that_does_not_end_is_unknown_and_hides_no_failure() -> None:
    opened = replace(GOOD, produced=replace(GOOD.produced, open=("client-java-produce.jsonl",)))
    assert judge(JAVA, "", opened, MOVE).verdict is Verdict.UNKNOWN
    assert judge(JAVA, "", replace(opened, local=("e",)), MOVE).verdict is Verdict.FAIL
    torn = replace(GOOD, consumed=replace(GOOD.consumed, torn=1))
    assert judge(JAVA, "", torn, MOVE).verdict is Verdict.UNKNOWN


def test_consumer_that_was_ended_while_it_began_again_hides_nothing() -> None:
    ended = replace(GOOD, consumed=replace(GOOD.consumed, open=("client-franz-go-consume.jsonl",)))
    assert judge(JAVA, "", ended, MOVE).verdict is Verdict.PASS


def test_console_producer_reports_no_acknowledgement_so_losses_are_unknown() -> None:
    doubts = produced({"a": -1, "b": -1, "d": -1, "e": -1}, ProducedStatus.IN_DOUBT)
    score = judge(CONSOLE, "", replace(GOOD, produced=doubts), MOVE)
    assert (score.lost, score.acknowledged, score.wrote_after_s, score.verdict) == (None, None, None, Verdict.PASS)
    silent = judge(CONSOLE, "", replace(GOOD, produced=doubts, local=()), MOVE)
    assert (silent.verdict, silent.why) == (Verdict.FAIL, "no record was written on RIGHT")


def summed(rows: Sequence[tuple[str, str, int, int]]) -> History:
    """Topic, record, when it was processed, and the sum with it; a record's number is its offset."""
    return History(
        consumed=tuple(
            Consumed("g", "address", t, 0, int(name[2:]), name, "k", 0, at, total) for t, name, at, total in rows
        )
    )


# s-1 and s-2 cross, s-3 is written on RIGHT
LEFT_SUMS = summed([("t", "s-1", 8_001, 1), ("t", "s-2", 9_001, 3)])
LEFT_WROTE = produced({"s-1": 8_000, "s-2": 9_000})
SUMMED = Seen(
    produced=LEFT_WROTE + produced({"s-3": 14_500}),
    consumed=LEFT_SUMS,
    remote=("s-1", "s-2"),
    local=("s-3",),
)


def test_streams_application_that_rebuilt_its_state_passes_with_all_read_again() -> None:
    again = summed([("LEFT.t", "s-1", 15_000, 1), ("LEFT.t", "s-2", 15_001, 3), ("t", "s-3", 15_002, 6)])
    seen = replace(SUMMED, consumed=LEFT_SUMS + again)
    score = judge(STREAMS, "4.3.1", seen, MOVE)
    assert (score.verdict, score.sums, score.sums_differ, score.re_read) == (Verdict.PASS, 1, 0, 2)
    assert score.why.endswith("2 of them again; its 1 running sums are those of the records on RIGHT")
    assert finished(STREAMS, seen, MOVE)
    half = replace(SUMMED, consumed=LEFT_SUMS + summed([("t", "s-3", 15_000, 3)]))
    assert not unread(half)
    assert not finished(STREAMS, half, MOVE)
    assert finished(JAVA, half, MOVE)


def test_streams_application_with_other_sums_is_a_condition_with_the_remedy() -> None:
    score = judge(STREAMS, "", replace(SUMMED, consumed=LEFT_SUMS + summed([("t", "s-3", 15_002, 3)])), MOVE)
    assert (score.verdict, score.sums_differ, score.skipped) == (Verdict.CONDITIONS, 1, 0)
    assert "it began with an empty state on RIGHT" in score.why
    assert "delete its internal topics" in score.why
    found = check(score, MOVE)
    assert found.name == "unmodified streams clients continue on RIGHT, with other sums than those of the records there"
    assert found.verdict is Verdict.CONDITIONS


def test_streams_application_that_does_not_continue_or_skips_fails_whatever_its_sums() -> None:
    stuck = judge(STREAMS, "", SUMMED, MOVE)
    assert (stuck.verdict, stuck.sums, stuck.sums_differ) == (Verdict.FAIL, None, None)
    skips = replace(SUMMED, local=("s-3", "s-4"), consumed=LEFT_SUMS + summed([("t", "s-3", 15_002, 3)]))
    assert judge(STREAMS, "", skips, MOVE).verdict is Verdict.FAIL
    left = judge(STREAMS, "", replace(SUMMED, produced=LEFT_WROTE, local=(), left_behind=True), MOVE)
    assert (left.verdict, left.sums) == (Verdict.CONDITIONS, None)
    assert judge(JAVA, "", replace(SUMMED, consumed=skips.consumed), MOVE).sums is None


def test_starts_after_the_fault_are_counted() -> None:
    score = judge(BY_NAME["kafka-python"], "", replace(GOOD, starts_ms=(1_000, 13_000, 14_000)), MOVE)
    assert (score.restarts, score.verdict) == (2, Verdict.PASS)
    assert score.why.endswith("; restarted 2 times")


def test_client_left_behind_is_reported_with_what_it_has_not_read() -> None:
    before = consumed([("a", 8_001)])
    seen = replace(GOOD, produced=produced({"a": 8_000, "b": 9_000}), local=(), consumed=before, left_behind=True)
    score = judge(JAVA, "", seen, MOVE)
    assert (score.verdict, score.skipped) == (Verdict.CONDITIONS, 1)
    assert score.why.startswith("its bootstrap.servers are those of LEFT; nothing written or processed since, 1 unread")
    assert check(score, MOVE).name == "the java client left behind at LEFT is reported"
    assert judge(JAVA, "", replace(GOOD, left_behind=True), MOVE).verdict is Verdict.UNKNOWN


def test_record_fetched_from_the_source_and_processed_after_the_move_is_no_sign_of_continuing() -> None:
    """As Java does with what it had fetched, once its commit has failed after a minute."""
    fetched = Consumed("g", "address", "t", 0, 0, "b", "k", 0, 69_000)
    seen = Seen(produced({"a": 8_000, "b": 9_000}), consumed([("a", 8_001)]), ("a", "b"), (), left_behind=True)
    seen = replace(seen, consumed=seen.consumed + History(consumed=(fetched,)))
    score = judge(JAVA, "", seen, MOVE)
    assert (score.verdict, score.read_after_s, score.skipped) == (Verdict.CONDITIONS, None, 0)
    crossed = replace(seen, consumed=seen.consumed + consumed([("b", 70_000)]))
    assert judge(JAVA, "", crossed, MOVE).read_after_s == 60.0
    written_there = replace(seen, local=("b",))
    assert judge(JAVA, "", written_there, MOVE).read_after_s == 59.0


def test_family_that_was_not_run_is_a_condition_with_the_reason() -> None:
    score = not_run(BY_NAME["kafkajs"], "2.2.4", "no node on this machine")
    found = check(score, MOVE)
    assert (found.name, found.verdict) == ("clients of kafkajs were not run", Verdict.CONDITIONS)
    assert found.evidence == "not run: no node on this machine"


IDS = st.sampled_from("abcdef")


@given(
    st.dictionaries(IDS, st.integers(0, 20_000)),
    st.lists(st.tuples(IDS, st.integers(0, 20_000))),
    st.lists(IDS, unique=True),
    st.lists(IDS, unique=True),
    st.sampled_from(FAMILIES),
)
def test_pass_means_that_all_that_is_due_was_written_and_processed(
    acked: dict[str, int], read: list[tuple[str, int]], remote: list[str], local: list[str], chosen: Family
) -> None:
    seen = Seen(produced(acked), consumed(read), tuple(remote), tuple(local))
    score = judge(chosen, "", seen, MOVE)
    if score.verdict is Verdict.PASS:
        assert {*remote, *local} <= {name for name, _ in read}
        late = {name for name, at in acked.items() if at >= MOVE.decided_ms}
        assert not chosen.acknowledges or late <= {*remote, *local}
        assert score.read_after_s is not None
    assert (score.skipped or 0) >= 0
    assert (score.re_read or 0) <= len(read)
