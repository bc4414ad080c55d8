"""Findings about clients that write to the cluster that stands by.

Rules: a client that wrote there within the last hour is a warning: it has not moved, or writes where nothing is meant to. One
that wrote before that, since the cluster stands by, is advice. So are records without a producer ID, of which only the number
is known. A partition that was not asked about is unknown; so is everything where it is not known which cluster stands by.
Where none does there is nothing to check, and the evidence says so. At most `MOST` are named.
"""

from collections.abc import Sequence
from typing import Final

from drlib.drill.readiness.checks.objectives import Judgements, again, count, passed
from drlib.drill.readiness.score import Severity
from drlib.drill.writers.rules import HOUR_MS, Standby, StandbyWriters, Writer
from drlib.formats import first_few, moment, span
from drlib.kafka.protocol.batch import NO_PRODUCER

MOST: Final = 100
HIDDEN: Final = "how many producers that are, and which, is not known"


def standby(found: StandbyWriters | None, at_ms: int) -> Judgements:
    """Does a client write where none should? None: MirrorMaker 2 mirrors the flow."""
    if found is None:
        why = "not checked: MirrorMaker 2 keeps no record of its producers, so that any of them may be a client's"
        return [("", Severity.ADVICE, why, "A takeover by drlib mirror keeps one.")]
    by = found.standby
    if by is None:
        return passed(f"not asked: {found.why}")
    rows = [_writer(each, by, at_ms) for each in found.writers[:MOST]]
    if more := found.writers[MOST:]:
        severity = min((_severity(each, at_ms) for each in more), key=(Severity.WARN, Severity.ADVICE).index)
        rows.append((by.alias, severity, f"and {count(len(more), 'producer')} more", _fix(by)))
    rows += [(name, Severity.UNKNOWN, f"not asked: {why}", again(why)) for name, why in found.missing]
    if rows:
        return rows
    if found.unread:
        why = f"{count(found.unread, 'offset')} of {by.alias}, which stands by, were not read: more than is read"
        return [(by.alias, Severity.UNKNOWN, why, "Wait until the mirror has caught up, then run drlib doctor again.")]
    if not found.partitions:
        return passed(f"{by.alias} stands by ({by.by}), and has none of the flow's topics yet")
    return passed(
        f"{by.alias} stands by ({by.by}): no client wrote to {count(found.partitions, 'partition')} there since "
        f"{moment(found.since_ms)}; {count(found.own, 'producer')} there {'is' if found.own == 1 else 'are'} the mirror's"
    )


def _severity(each: Writer, at_ms: int) -> Severity:
    recent = each.last_ms >= at_ms - HOUR_MS or (each.last_ms < 0 and each.records > 0)
    return Severity.WARN if recent else Severity.ADVICE


def _writer(each: Writer, by: Standby, at_ms: int) -> tuple[str, Severity, str, str]:
    least = "at least " if each.at_least else ""
    records = f"{least}{count(each.records, 'record')}"
    last = "at an unknown time" if each.last_ms < 0 else f"{span(max(0, at_ms - each.last_ms) / 1000)} ago"
    when = "" if each.last_ms < 0 else f" ({moment(each.last_ms)})"
    where = f"{each.topic} on {by.alias}, which stands by ({by.by}), {_partitions(each.partitions)}"
    if each.producer_id == NO_PRODUCER:
        why = f"{where}: {records} of producers without an ID, the last {last}{when}; {HIDDEN}"
        return each.topic, _severity(each, at_ms), why, _fix(by)
    epoch = "epoch unknown" if each.epoch < 0 else f"epoch {each.epoch}"
    name = f"transactional ID {each.name}" if each.name else "no transactional ID is known"
    why = f"{where}: {records}, the last {last}{when}, {epoch}, {name}"
    return f"producer ID {each.producer_id}", _severity(each, at_ms), why, _fix(by)


def _partitions(numbers: Sequence[int]) -> str:
    return f"partition{'' if len(numbers) == 1 else 's'} {first_few(map(str, numbers), 10)}"


def _fix(by: Standby) -> str:
    return (
        f"Let it write to {by.active}; source.fence with deny_write keeps others out. drlib inventory FILE lists producers. "
        "docs/drills.md#denying-writes"
    )
