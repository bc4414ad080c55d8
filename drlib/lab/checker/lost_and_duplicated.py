"""The independent checker of one move: the applications' histories and a scan of the target decide what happened.

Rules: nothing that the engine reports is used, neither its journal nor its map nor its counters, and no code is shared with
it. A record is identified by the `id` that its producer gave it. Verdicts: *pass*, *fail* with evidence, and *unknown* where
the evidence is incomplete; incomplete evidence never passes.
Not for: reading files or topics; a move there and back (`round_trip`).
"""

from collections.abc import Collection, Iterable, Sequence

from drlib.lab.checker.history import (
    CommitStatus,
    Committed,
    Consumed,
    Mirrored,
    Produced,
    ProducedStatus,
    history_gaps,
)
from drlib.lab.checker.key_order import disordered, place
from drlib.lab.checker.report import (
    EXAMPLES,
    AlteredRecord,
    CheckInput,
    CheckReport,
    DuplicatedRecord,
    GroupReport,
    LostRecord,
    OutOfOrderRecord,
    decide,
    first_of,
    histories_complete,
)
from drlib.runs.check import Check


def check(evidence: CheckInput) -> CheckReport:
    """Judge one move of one topic. Never raises, whatever the evidence holds or lacks."""
    produced = None if evidence.produced is None else [row for row in evidence.produced if row.topic == evidence.topic]
    acked = {} if produced is None else _acked(produced, evidence.source)
    remote, local = _logs(evidence)
    can_compare = bool(acked) and evidence.mirrored is not None
    whole = not (evidence.torn or evidence.open or evidence.missing)

    remote_ids = {row.id for row in remote}
    lost = [
        LostRecord(row.id, row.key, row.partition, row.offset, row.acked_ms)
        for row in acked.values()
        if row.id not in remote_ids
    ]
    in_tail = _in_tail(lost, acked, remote)
    duplicated = _duplicated(remote, local)
    out_of_order = _disordered((*remote, *local))  # remote first, as the applications read them
    altered, compared = _altered(produced or [], evidence, acked, remote, local)
    known = {row.id for row in produced or []}
    invented = sum(row.id not in known for row in (*remote, *local))
    missing_at_target = _missing_at_target(produced or [], evidence.target, local)
    groups = tuple(_judge_group(group, evidence, acked, remote, local) for group in evidence.groups)
    rpo_seconds = seconds_lost_by_partition(acked.values(), {record.id for record in lost})

    findings = [
        _whole(evidence),
        _lost(lost, len(acked), len(remote_ids - acked.keys()), can_compare, evidence),
        decide("what is lost is the unmirrored tail", can_compare, in_tail,
                 f"{len(lost):,} lost, {'none' if in_tail else 'some'} with mirrored records after it"),
        decide("no record is there twice", evidence.mirrored is not None, not duplicated,
                 f"{len(duplicated)} ids in more than one place{first_of(duplicated)}"),
        decide("every key is in order", evidence.mirrored is not None, not out_of_order,
                 f"{len(out_of_order)} records after a later one of their key{first_of(out_of_order)}"),
        decide("no record is altered", can_compare and (compared > 0 or bool(altered)), not altered,
                 f"{len(altered):,} altered, {compared:,} compared by content{first_of(altered)}"),
        # a killed producer wrote records that its history does not know
        decide("no record is invented", can_compare and (whole or not invented), not invented,
                 f"{invented} records on the target were never produced"),
        decide("nothing acknowledged after the move is missing", can_compare, not missing_at_target,
                 f"{len(missing_at_target)} records acknowledged by {evidence.target} are not there"
                 f"{first_of(missing_at_target)}"),
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
        out_of_order=tuple(out_of_order[:EXAMPLES]),
        out_of_order_count=len(out_of_order) if both else None,
        altered=tuple(altered[:EXAMPLES]),
        altered_count=len(altered) if can_compare and (compared or altered) else None,
        invented_count=invented if can_compare else None,
        groups=groups,
        rpo_records=len(lost) if can_compare else None,
        rpo_seconds=max(rpo_seconds.values(), default=0.0) if can_compare else None,
        rpo_seconds_by_partition=rpo_seconds if can_compare else None,
        findings=tuple(findings),
    )


def _lost(lost: Sequence[LostRecord], acked: int, unacked: int, known: bool, evidence: CheckInput) -> Check:
    """What the name claims is what the count and the objective leave: none, at most so many, or without a limit.

    `unacked`: records that were mirrored although their acknowledgement did not arrive, so that the counts add up.
    """
    allowed = evidence.rpo_records_allowed
    counted = (
        f"{len(lost):,} of {acked:,} records that {evidence.source} acknowledged are not in {evidence.remote_topic} "
        f"on {evidence.target}"
    )
    if unacked:
        counted += f"; {unacked:,} that are there were not acknowledged"
    if not lost or allowed == 0:
        return decide("no acknowledged record is lost", known, not lost, f"{counted}{first_of(lost)}")
    if allowed is None:
        return decide("lost records are counted", known, True, f"{counted}{first_of(lost)}", "no objective limits them")
    name = f"at most {allowed:,} acknowledged records are lost, as the objective says"
    said = f"{counted}; the objective allows {allowed:,}{first_of(lost)}"
    return decide(name, known, len(lost) <= allowed, said, "the loss is within the objective")


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


def _logs(evidence: CheckInput) -> tuple[list[Mirrored], list[Mirrored]]:
    """What was mirrored, and what was written after the move."""
    moved_at, local = evidence.moved_at, _log(evidence.mirrored, evidence.topic)
    if moved_at is None:
        return _log(evidence.mirrored, evidence.remote_topic), local
    remote = [row for row in local if row.offset < moved_at.get(row.partition, 0)]
    return remote, [row for row in local if row.offset >= moved_at.get(row.partition, 0)]


def _in_tail(lost: Sequence[LostRecord], acked: dict[str, Produced], remote: Iterable[Mirrored]) -> bool:
    """Whether every lost record has a higher offset than every mirrored one of its source partition."""
    last: dict[int, int] = {}
    for row in remote:
        if (origin := acked.get(row.id)) is not None:
            last[origin.partition] = max(last.get(origin.partition, -1), origin.offset)
    return all(record.offset > last.get(record.partition, -1) for record in lost)


def _duplicated(remote: Iterable[Mirrored], local: Iterable[Mirrored]) -> list[DuplicatedRecord]:
    places: dict[str, list[str]] = {}
    for row in (*remote, *local):
        if row.id:
            places.setdefault(row.id, []).append(place(row))
    return [DuplicatedRecord(name, tuple(where)) for name, where in places.items() if len(where) > 1]


def _disordered(rows: Iterable[Mirrored | Consumed], group: str = "") -> list[OutOfOrderRecord]:
    return [OutOfOrderRecord(group or row.topic, row.key, row.n, after, place(row)) for row, after in disordered(rows)]


def _altered(
    produced: Iterable[Produced],
    evidence: CheckInput,
    acked: dict[str, Produced],
    remote: Iterable[Mirrored],
    local: Iterable[Mirrored],
) -> tuple[list[AlteredRecord], int]:
    """The records that differ from what was produced, and how many had a digest on both sides."""
    digests: dict[tuple[str, str], set[int]] = {}
    plain: dict[str, tuple[str, int]] = {}
    for row in produced:
        plain[row.id] = (row.key, row.n)
        if row.digest is not None:
            digests.setdefault((row.cluster, row.id), set()).add(row.digest)
    altered: list[AlteredRecord] = []
    compared = 0
    for cluster, rows in ((evidence.source, remote), (evidence.target, local)):
        for seen in rows:
            sent = digests.get((cluster, seen.id))
            compared += sent is not None and seen.digest is not None
            origin = acked.get(seen.id) if cluster == evidence.source else None
            if seen.id in plain and plain[seen.id] != (seen.key, seen.n):
                altered.append(AlteredRecord(seen.id, place(seen), "key or number"))
            elif origin is not None and origin.partition != seen.partition:
                altered.append(AlteredRecord(seen.id, place(seen), f"partition, was {origin.partition}"))
            elif sent is not None and seen.digest is not None and seen.digest not in sent:
                altered.append(AlteredRecord(seen.id, place(seen), "key, value, headers or timestamp"))
    return altered, compared


def _missing_at_target(produced: Iterable[Produced], target: str, local: Iterable[Mirrored]) -> list[str]:
    present = {row.id for row in local}
    return [name for name in _acked(produced, target) if name not in present]


def seconds_lost(acked: Iterable[Produced], lost: Collection[str]) -> float:
    """The most time that the records with ids in `lost` span in one partition, as `seconds_lost_by_partition`; 0 without any.

    What other partitions mirrored later does not make it less: an application lost all of that time there.
    """
    return max(seconds_lost_by_partition(acked, lost).values(), default=0.0)


def seconds_lost_by_partition(acked: Iterable[Produced], lost: Collection[str]) -> dict[int, float]:
    """The time that the records with ids in `lost` span in each partition that has some: from when the one before the first of
    them was sent (the first itself, where there is none) to when the newest was. `acked`: those of one cluster's topic."""
    partitions: dict[int, list[Produced]] = {}
    for row in acked:
        partitions.setdefault(row.partition, []).append(row)
    spans = {}
    for partition, rows in partitions.items():
        rows.sort(key=lambda row: row.offset)
        first = next((at for at, row in enumerate(rows) if row.id in lost), None)
        if first is not None:
            newest_ms = max(row.sent_ms for row in rows[first:] if row.id in lost)
            spans[partition] = max(0, newest_ms - rows[max(0, first - 1)].sent_ms) / 1000
    return spans


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
        missing = "its history holds no record" if not consumed else "the target was not scanned"
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
    mirrored = [row for row in remote if row.offset >= start.get(row.partition, 0)]
    due = mirrored + list(local)
    passed = [row for row in due if row.offset < final.get((row.topic, row.partition), 0)]
    skipped = [place(row) for row in passed if row.id not in done]
    unread = [row for row in due if row.offset >= final.get((row.topic, row.partition), 0)]
    reached = all(row.offset < final.get((row.topic, row.partition), 0) for row in mirrored)
    out_of_order = _disordered(consumed, group)

    knows_source = bool(acked) and bool(last_commit)
    last = ", ".join(f"{partition} at {offset:,}" for partition, offset in commit_rows) or "nothing"
    after = {row.id for row in local}
    new = sum(row.id in after for row in consumed)
    parts = [
        f"{len(consumed):,} processed: {len(consumed) - new:,} written to {evidence.source}, "
        f"{new:,} to {evidence.target} after the move"
    ]
    came = any(row.cluster == evidence.target for row in consumed) or not due
    parts += [f"{len(unread):,} yet to read"]
    parts += [f"it has read nothing on {evidence.target}"] * (not came)
    parts += [f"read again: {', '.join(sorted(again)[:3])}"] * bool(again)
    parts += [f"skipped: {', '.join(skipped[:3])}"] * bool(skipped)
    parts += [f"out of order: {record}" for record in out_of_order[:1]]
    parts += [f"last committed on {evidence.source}, by partition: {last}"]
    unanswered = f"{evidence.source} did not answer the last commit, so it may have it or not"
    parts += [unanswered] * _left_unknown(commits, evidence.source)
    return GroupReport(
        group,
        len(again) if knows_source or again else None,
        len(skipped) if knows_source or skipped else None,
        len(out_of_order),
        commit_rows,
        reached,
        len(unread),
        "; ".join(parts),
        came,
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
        decide(
            f"{name} reads nothing again",
            group.re_read is not None and (group.came or group.re_read > 0),
            group.re_read == 0,
            group.evidence,
        ),
        decide(
            f"{name} skips nothing",
            group.skipped is not None and ((group.reached and group.came) or group.skipped > 0),
            group.skipped == 0,
            group.evidence if group.reached else f"it has not read the remote topic to its end; {group.evidence}",
        ),
        decide(
            f"{name} sees every key in order", group.out_of_order is not None, not group.out_of_order, group.evidence
        ),
    ]


def _whole(evidence: CheckInput) -> Check:
    parts = ("produced", "consumed", "committed", "mirrored")
    gaps = [f"no {part}" for part in parts if getattr(evidence, part) is None]
    return histories_complete([*gaps, *history_gaps(evidence.torn, evidence.open, evidence.missing)])
