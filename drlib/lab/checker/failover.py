"""The independent checker: histories of the applications and a scan of the target, judged by definition.

Rules: it trusts nothing the engine says: not its journal, map or counters, and shares no code with them; a record is
the `id` its producer gave it. Three verdicts: *pass*, *fail* with evidence, *unknown*: what nobody wrote down is
unknown, never pass.
Not for: reading files or topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drlib.lab.checker.history import CommitStatus, Committed, Consumed, Mirrored, Produced, ProducedStatus
from drlib.lab.checker.report import (
    EXAMPLES,
    AlteredRecord,
    CheckInput,
    CheckReport,
    DuplicatedRecord,
    GroupReport,
    LostRecord,
    OutOfOrderRecord,
)
from drlib.runs.check import Check, Verdict

__all__ = [
    "AlteredRecord",
    "Check",
    "CheckInput",
    "CheckReport",
    "DuplicatedRecord",
    "GroupReport",
    "LostRecord",
    "OutOfOrderRecord",
    "Verdict",
    "check",
]


def check(evidence: CheckInput) -> CheckReport:
    """Judges one move of one topic. Never raises for what the evidence holds or lacks."""
    produced = None if evidence.produced is None else [row for row in evidence.produced if row.topic == evidence.topic]
    acked = {} if produced is None else _acked(produced, evidence.source)
    remote = _log(evidence.mirrored, evidence.remote_topic)
    local = _log(evidence.mirrored, evidence.topic)
    can_compare = bool(acked) and evidence.mirrored is not None
    whole = not (evidence.torn or evidence.open or evidence.missing)

    found = {row.id for row in remote}
    lost = [
        LostRecord(row.id, row.key, row.partition, row.offset, row.acked_ms)
        for row in acked.values()
        if row.id not in found
    ]
    in_tail = _in_tail(lost, acked, remote)
    duplicated = _duplicated(remote, local)
    disordered = _disordered_log(remote, local)
    altered, compared = _altered(produced or [], evidence, acked, remote, local)
    known = {row.id for row in produced or []}
    invented = sum(row.id not in known for row in (*remote, *local))
    missing_at_target = _missing_at_target(produced or [], evidence.target, local)
    groups = tuple(_judge_group(group, evidence, acked, remote, local) for group in evidence.groups)
    rpo_seconds = _rpo_seconds(lost, produced or [], acked, remote)

    findings = [
        _whole(evidence),
        _finding("no acknowledged record is lost", can_compare, len(lost) <= evidence.rpo_records_allowed,
                 f"{len(lost):,} of {len(acked):,} acknowledged records are not in {evidence.remote_topic}, "
                 f"{evidence.rpo_records_allowed:,} allowed{_first(lost)}"),
        _finding("what is lost is the unmirrored tail", can_compare, in_tail,
                 f"{len(lost)} lost, {'none' if in_tail else 'some'} with mirrored records after it"),
        _finding("no record is there twice", evidence.mirrored is not None, not duplicated,
                 f"{len(duplicated)} ids in more than one place{_first(duplicated)}"),
        _finding("every key is in order", evidence.mirrored is not None, not disordered,
                 f"{len(disordered)} records after a later one of their key{_first(disordered)}"),
        _finding("no record is altered", can_compare and (compared > 0 or bool(altered)), not altered,
                 f"{len(altered):,} altered, {compared:,} compared by content{_first(altered)}"),
        # a killed producer wrote records that its history does not know
        _finding("no record is invented", can_compare and (whole or not invented), not invented,
                 f"{invented} records on the target were never produced"),
        _finding("nothing acknowledged after the move is missing", can_compare, not missing_at_target,
                 f"{len(missing_at_target)} records acknowledged by {evidence.target} are not there"
                 f"{_first(missing_at_target)}"),
    ]  # fmt: skip
    for group in groups:
        findings += _group_findings(group)
    both = evidence.mirrored is not None
    return CheckReport(
        produced=None if produced is None else len(acked),
        mirrored=len(remote) if both else None,
        lost=tuple(lost[:EXAMPLES]) if can_compare else (),
        lost_count=len(lost) if can_compare else None,
        lost_in_tail=in_tail if can_compare else None,
        duplicated=tuple(duplicated[:EXAMPLES]),
        duplicated_count=len(duplicated) if both else None,
        out_of_order=tuple(disordered[:EXAMPLES]),
        out_of_order_count=len(disordered) if both else None,
        altered=tuple(altered[:EXAMPLES]),
        altered_count=len(altered) if can_compare and (compared or altered) else None,
        invented_count=invented if can_compare else None,
        groups=groups,
        rpo_records=len(lost) if can_compare else None,
        rpo_seconds=rpo_seconds if can_compare else None,
        findings=tuple(findings),
    )


def _acked(produced: Iterable[Produced], cluster: str) -> dict[str, Produced]:
    acked: dict[str, Produced] = {}
    for row in produced:
        if row.cluster == cluster and row.status is ProducedStatus.ACKED:
            acked.setdefault(row.id, row)
    return acked


def _log(mirrored: Sequence[Mirrored] | None, topic: str) -> list[Mirrored]:
    rows = [row for row in mirrored or () if row.topic == topic]
    rows.sort(key=lambda row: (row.partition, row.offset))
    return rows


def _place(row: Mirrored | Consumed) -> str:
    return f"{row.topic}-{row.partition}@{row.offset}"


def _first(rows: Sequence[object]) -> str:
    return f"; the first: {rows[0]}" if rows else ""


def _in_tail(lost: Sequence[LostRecord], acked: dict[str, Produced], remote: Iterable[Mirrored]) -> bool:
    """Is every lost record behind every mirrored one of its source partition?"""
    last: dict[int, int] = {}
    for row in remote:
        if (origin := acked.get(row.id)) is not None:
            last[origin.partition] = max(last.get(origin.partition, -1), origin.offset)
    return all(record.offset > last.get(record.partition, -1) for record in lost)


def _duplicated(remote: Iterable[Mirrored], local: Iterable[Mirrored]) -> list[DuplicatedRecord]:
    places: dict[str, list[str]] = {}
    for row in (*remote, *local):
        if row.id:
            places.setdefault(row.id, []).append(_place(row))
    return [DuplicatedRecord(name, tuple(where)) for name, where in places.items() if len(where) > 1]


def _disordered_log(remote: Iterable[Mirrored], local: Iterable[Mirrored]) -> list[OutOfOrderRecord]:
    """Reads the remote topic, then the local one, as the applications do."""
    return _disordered("", [(row.id, row.key, row.n, row) for row in (*remote, *local)])


def _disordered(where: str, rows: Iterable[tuple[str, str, int, Mirrored | Consumed]]) -> list[OutOfOrderRecord]:
    """A repeated id is a duplicate, not a disorder: only its first appearance counts."""
    seen: set[str] = set()
    last: dict[str, int] = {}
    found: list[OutOfOrderRecord] = []
    for name, key, n, row in rows:
        if not name or name in seen:
            continue
        seen.add(name)
        after = last.get(key, -1)
        if n < after:
            found.append(OutOfOrderRecord(where or row.topic, key, n, after, _place(row)))
        last[key] = max(after, n)
    return found


def _altered(
    produced: Iterable[Produced],
    evidence: CheckInput,
    acked: dict[str, Produced],
    remote: Iterable[Mirrored],
    local: Iterable[Mirrored],
) -> tuple[list[AlteredRecord], int]:
    """What differs from what was produced, and how many records had a digest on both sides."""
    digests: dict[tuple[str, str], set[int]] = {}
    plain: dict[str, tuple[str, int]] = {}
    for row in produced:
        plain[row.id] = (row.key, row.n)
        if row.digest is not None:
            digests.setdefault((row.cluster, row.id), set()).add(row.digest)
    found: list[AlteredRecord] = []
    compared = 0
    for cluster, rows in ((evidence.source, remote), (evidence.target, local)):
        for seen in rows:
            sent = digests.get((cluster, seen.id))
            compared += sent is not None and seen.digest is not None
            origin = acked.get(seen.id) if cluster == evidence.source else None
            if seen.id in plain and plain[seen.id] != (seen.key, seen.n):
                found.append(AlteredRecord(seen.id, _place(seen), "key or number"))
            elif origin is not None and origin.partition != seen.partition:
                found.append(AlteredRecord(seen.id, _place(seen), f"partition, was {origin.partition}"))
            elif sent is not None and seen.digest is not None and seen.digest not in sent:
                found.append(AlteredRecord(seen.id, _place(seen), "key, value, headers or timestamp"))
    return found, compared


def _missing_at_target(produced: Iterable[Produced], target: str, local: Iterable[Mirrored]) -> list[str]:
    there = {row.id for row in local}
    return [name for name in _acked(produced, target) if name not in there]


def _rpo_seconds(
    lost: Sequence[LostRecord], produced: Iterable[Produced], acked: dict[str, Produced], remote: Sequence[Mirrored]
) -> float:
    if not lost:
        return 0.0
    sent = {row.id: row.sent_ms for row in produced if row.status is not ProducedStatus.MIRRORED}
    newest_lost = max(acked[record.id].sent_ms for record in lost)
    if remote:
        last_mirrored = max(sent.get(row.id, row.timestamp_ms) for row in remote)
    else:  # everything is lost
        last_mirrored = min(row.sent_ms for row in acked.values())
    return max(0, newest_lost - last_mirrored) / 1000


def _judge_group(
    group: str, evidence: CheckInput, acked: dict[str, Produced], remote: Sequence[Mirrored], local: Sequence[Mirrored]
) -> GroupReport:
    topics = (evidence.topic, evidence.remote_topic)
    consumed = [row for row in evidence.consumed or () if row.group == group and row.topic in topics]
    commits = [row for row in evidence.committed or () if row.group == group and row.topic in topics]
    consumed.sort(key=lambda row: row.at_ms)
    last_commit = {p: o for (_, p), o in _positions(commits, evidence.source).items()}
    final = _positions(commits, evidence.target)
    commit_rows = tuple(sorted(last_commit.items()))
    if not consumed or evidence.mirrored is None:
        missing = "no record of it was written down" if not consumed else "the target was not scanned"
        return GroupReport(group, None, None, None, commit_rows, False, None, missing)

    done: set[str] = set()
    again: set[str] = set()
    for row in consumed:
        origin = acked.get(row.id)
        below = origin is not None and origin.offset < last_commit.get(origin.partition, 0)
        if row.id in done or (row.cluster == evidence.target and row.topic == evidence.remote_topic and below):
            again.add(row.id)
        done.add(row.id)

    start: dict[int, int] = {}  # by remote partition: the first record at or after the group's last source commit
    for seen in remote:
        origin = acked.get(seen.id)
        if origin is not None and origin.offset < last_commit.get(origin.partition, 0):
            start[seen.partition] = max(start.get(seen.partition, 0), seen.offset + 1)
    due = [row for row in remote if row.offset >= start.get(row.partition, 0)] + list(local)
    passed = [row for row in due if row.offset < final.get((row.topic, row.partition), 0)]
    skipped = [_place(row) for row in passed if row.id not in done]
    unread = [row for row in due if row.offset >= final.get((row.topic, row.partition), 0)]
    reached = not any(row.topic == evidence.remote_topic for row in unread)
    disordered = _disordered(group, [(row.id, row.key, row.n, row) for row in consumed])

    knows_source = bool(acked) and bool(last_commit)
    stood = ", ".join(f"{partition} at {offset:,}" for partition, offset in commit_rows) or "nothing"
    parts = [f"{len(consumed):,} processed", f"{len(unread):,} yet to read"]
    parts += [f"read again: {', '.join(sorted(again)[:3])}"] * bool(again)
    parts += [f"skipped: {', '.join(skipped[:3])}"] * bool(skipped)
    parts += [f"out of order: {record}" for record in disordered[:1]]
    parts += [f"last committed on {evidence.source}, by partition: {stood}"]
    parts += ["a commit whose outcome was never heard"] * _left_unknown(commits, evidence.source)
    return GroupReport(
        group,
        len(again) if knows_source or again else None,
        len(skipped) if knows_source or skipped else None,
        len(disordered),
        commit_rows,
        reached,
        len(unread),
        "; ".join(parts),
    )


def _positions(commits: Iterable[Committed], cluster: str) -> dict[tuple[str, int], int]:
    """The last acknowledged position by topic and partition, in the order of the history."""
    return {
        (row.topic, row.partition): row.offset
        for row in commits
        if row.cluster == cluster and row.status is not CommitStatus.UNKNOWN
    }


def _left_unknown(commits: Iterable[Committed], cluster: str) -> bool:
    last = {(row.topic, row.partition): row.status for row in commits if row.cluster == cluster}
    return CommitStatus.UNKNOWN in last.values()


def _group_findings(group: GroupReport) -> list[Check]:
    name = f"group {group.group}"
    return [
        _finding(f"{name} reads nothing again", group.re_read is not None, group.re_read == 0, group.evidence),
        _finding(
            f"{name} skips nothing",
            group.skipped is not None and (group.reached or group.skipped > 0),
            group.skipped == 0,
            group.evidence if group.reached else f"it has not read the remote topic to its end; {group.evidence}",
        ),
        _finding(
            f"{name} sees every key in order", group.out_of_order is not None, not group.out_of_order, group.evidence
        ),
    ]


def _finding(name: str, known: bool, holds: bool, evidence: str) -> Check:
    if not known:
        return Check(name, Verdict.UNKNOWN, f"not enough was written down to say; {evidence}")
    return Check(name, Verdict.PASS if holds else Verdict.FAIL, evidence)


def _whole(evidence: CheckInput) -> Check:
    gaps = [
        f"no {what}" for what in ("produced", "consumed", "committed", "mirrored") if getattr(evidence, what) is None
    ]
    gaps += [f"missing: {name}" for name in evidence.missing]
    gaps += [f"not ended: {name}" for name in evidence.open]
    gaps += [f"torn lines: {evidence.torn}"] * bool(evidence.torn)
    return _finding(
        "the histories are whole", not gaps, True, "; ".join(gaps) or "every history ends with its end line"
    )
