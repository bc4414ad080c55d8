"""What the histories of an unmodified client say of a move: when it continued, and what it lost, skipped or read again. Pure.

Rules:
- A client does not know which cluster it works with, so the logs of the cluster moved to decide: a record in the remote topic
  was written to the source and crossed, one in the local topic was written here. One that is in neither was acknowledged by
  the source and did not cross (the RPO), if its acknowledgement is older than the decision to move; a later one is lost.
  In a planned move the source served until all had crossed, so that every one is lost.
- All that is in both logs is due for the client's group: what it never processed, when it had time to, was skipped.
- A record that is in the logs once and was processed twice was read again. One that a producer wrote to both clusters, since
  it got no answer from the first one, is counted as written twice.
- A producer that reports no acknowledgement (the console producer) can be seen to continue, and what it lost is unknown.
- A producer's history has to end whole: what it leaves out may be lost. A consumer's need not: what it leaves out is skipped.
- A client may process, long after the move, what it had fetched from the source. A record that was written to the source and is
  processed under its topic's name there is no sign that the client continued.
- A Kafka Streams application is judged by its running sums, too (`sums`): other sums than those of the records on the target
  are a condition, as its state cannot be continued.
- A client that did nothing before the fault proves nothing. One that was left behind on purpose is reported, whatever it did.
Not for: the drill's own applications, which follow the pointer (`drlib.lab.checker`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from drlib.lab.checker.history import History, Produced, ProducedStatus
from drlib.lab.clients.families import Family
from drlib.lab.clients.sums import Sums, compare
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import ClientScore

REBUILD: Final = (
    "Rebuild its state: before it is started there, delete its internal topics and set it to the beginning of its input"
)


@dataclass(frozen=True, slots=True)
class Move:
    """Times in ms: at `fault_ms` the source was killed, or, in a `planned` move, the clients were made to leave it; until
    `decided_ms` nothing was led to the `target`."""

    source: str
    target: str
    fault_ms: int
    decided_ms: int
    planned: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """A client's own histories, and the ids in the target's two logs of its topic, each as often as it is there.

    `starts_ms`: of a client that is restarted, every start.
    """

    produced: History
    consumed: History
    remote: tuple[str, ...]
    local: tuple[str, ...]
    starts_ms: tuple[int, ...] = ()
    left_behind: bool = False


def wrote_at(produced: Iterable[Produced], since_ms: int) -> int | None:
    """When the first record was acknowledged since then."""
    return min(
        (row.acked_ms for row in produced if row.status is ProducedStatus.ACKED and row.acked_ms >= since_ms),
        default=None,
    )


def read_at(consumed: History, since_ms: int) -> int | None:
    """When the first record was processed since then."""
    return min((row.at_ms for row in consumed.consumed if row.at_ms >= since_ms), default=None)


def continued(family: Family, seen: Seen, move: Move) -> bool:
    """Whether both clients have done something since the decision, as far as their histories show it."""
    writes = not family.acknowledges or wrote_at(seen.produced.produced, move.decided_ms) is not None
    return writes and read_at(seen.consumed, move.decided_ms) is not None


def unread(seen: Seen) -> frozenset[str]:
    """Ids in the target's logs that were never processed."""
    done = {row.id for row in seen.consumed.consumed}
    return frozenset(name for name in (*seen.remote, *seen.local) if name not in done)


def finished(family: Family, seen: Seen, move: Move) -> bool:
    """Whether all that is in the target's logs was processed, and is in the sums of a family that has them."""
    return not unread(seen) and not (family.sums and _sums(seen, move).differing)


def judge(family: Family, version: str, seen: Seen, move: Move) -> ClientScore:
    """The row of one client: its figures, verdict and what that rests on."""
    since = move.decided_ms
    wrote, read = wrote_at(seen.produced.produced, since), read_at(_on_target(seen), since)
    logged = Counter((*seen.remote, *seen.local))
    acked = {row.id: row.acked_ms for row in seen.produced.produced if row.status is ProducedStatus.ACKED}
    absent = [at for name, at in acked.items() if name not in logged]
    processed = Counter(row.id for row in seen.consumed.consumed)
    gone = [move.planned or at >= since for at in absent]
    sums = _sums(seen, move) if family.sums and read is not None else None
    again = sum(max(0, times - max(1, logged[name])) for name, times in processed.items())
    score = ClientScore(
        family=family.name,
        library=family.title,
        version=version,
        settings=family.settings,
        wrote_after_s=_seconds(wrote, move),
        read_after_s=_seconds(read, move),
        restarts=sum(at > move.fault_ms for at in seen.starts_ms),
        acknowledged=len(acked) if family.acknowledges else None,
        processed=sum(processed.values()),
        re_read=again,
        written_twice=sum(times - 1 for times in logged.values()),
        not_crossed=gone.count(False),
        lost=gone.count(True) if family.acknowledges else None,
        skipped=len(unread(seen)),
        sums=None if sums is None else len({*sums.logged, *sums.kept}),
        sums_differ=None if sums is None else len(sums.differing),
        left_behind=seen.left_behind,
        verdict=Verdict.UNKNOWN,
    )
    verdict, why = _verdict(family, seen, score, move, sums)
    return score.model_copy(update={"verdict": verdict, "why": why})


def continued_at(scores: Iterable[ClientScore], move: Move) -> int | None:
    """When the last of the clients that were to move had continued; None where one has not."""
    moved = [score for score in scores if not score.left_behind]
    reads = [score.read_after_s for score in moved]
    writes = [score.wrote_after_s for score in moved if score.acknowledged is not None]
    after_s = [each for each in (*reads, *writes) if each is not None]
    return move.fault_ms + round(1000 * max(after_s)) if after_s and len(after_s) == len(reads) + len(writes) else None


def not_run(family: Family, version: str, why: str) -> ClientScore:
    """The row of a family that this machine cannot run."""
    return ClientScore(
        family=family.name, library=family.title, version=version, verdict=Verdict.CONDITIONS, why=f"not run: {why}"
    )


def check(score: ClientScore, move: Move) -> Check:
    """A check whose name claims what the verdict leaves."""
    if score.why.startswith("not run: "):
        return Check(f"clients of {score.family} were not run", score.verdict, score.why)
    if score.left_behind:
        return Check(f"the {score.family} client left behind at {move.source} is reported", score.verdict, score.why)
    if score.verdict is Verdict.CONDITIONS:
        name = f"unmodified {score.family} clients continue on {move.target}, with other sums than those of the records there"
        return Check(name, score.verdict, score.why)
    name = f"unmodified {score.family} clients continue on {move.target}, and nothing is lost or skipped"
    return Check(name, score.verdict, score.why)


def _on_target(seen: Seen) -> History:
    """Without what was processed under the source's name of the topic, and is not in the target's topic of that name."""
    topics, local = {row.topic for row in seen.produced.produced}, frozenset(seen.local)
    return History(consumed=tuple(r for r in seen.consumed.consumed if r.topic not in topics or r.id in local))


def _sums(seen: Seen, move: Move) -> Sums:
    rows = [row for row in _on_target(seen).consumed if row.at_ms >= move.decided_ms]
    keys = {row.id: row.key for row in seen.produced.produced} | {row.id: row.key for row in seen.consumed.consumed}
    return compare((*seen.remote, *seen.local), keys, rows)


def _seconds(at_ms: int | None, move: Move) -> float | None:
    return None if at_ms is None else round((at_ms - move.fault_ms) / 1000, 3)


def _verdict(family: Family, seen: Seen, score: ClientScore, move: Move, sums: Sums | None) -> tuple[Verdict, str]:
    before = any(row.at_ms < move.fault_ms for row in seen.consumed.consumed)
    writes = score.wrote_after_s is not None if family.acknowledges else bool(seen.local)
    if not before:
        return (
            Verdict.UNKNOWN,
            f"it processed nothing on {move.source} before the {'move' if move.planned else 'fault'}",
        )
    if seen.left_behind:
        if writes or score.read_after_s is not None:
            return Verdict.UNKNOWN, f"it has the address of {move.source} alone, and yet it continued after the move"
        left = f"its bootstrap.servers are those of {move.source}; nothing written or processed since, {score.skipped:,} unread"
        return Verdict.CONDITIONS, f"{left} on {move.target}"
    wrong = [
        *([f"no record was written on {move.target}"] * (not writes)),
        *([f"no record was processed on {move.target}"] * (score.read_after_s is None)),
        *([f"{score.lost:,} acknowledged records are not in the log"] if score.lost else []),
        *([f"{score.skipped:,} records were not processed"] if score.skipped else []),
    ]
    if wrong:
        return Verdict.FAIL, "; ".join(wrong)
    if gaps := seen.produced.gaps + replace(seen.consumed, open=()).gaps:
        return Verdict.UNKNOWN, f"its history is incomplete: {', '.join(gaps)}"
    counted = "" if score.acknowledged is None else f"{score.acknowledged:,} acknowledged, "
    how = f"; restarted {score.restarts} times" if score.restarts else ""
    done = f"{counted}{score.processed:,} processed, {score.re_read:,} of them again{how}"
    if sums is None:
        return Verdict.PASS, done
    said = f"{done}; {sums.in_words(move.source, move.target)}"
    return (Verdict.CONDITIONS, f"{said}. {REBUILD}") if sums.differing else (Verdict.PASS, said)
