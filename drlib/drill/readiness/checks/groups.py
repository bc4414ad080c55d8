"""Findings about consumer groups: where they would go on, what they read, and where they stand on the target already.

Rules: a position ahead of the mirror by no more than the objective allows to lose is fine: such a group waits for records
and skips none. A group that reads what no flow mirrors is a warning, since it may be meant to stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from drlib.drill.readiness.checks.objectives import NAMED, Found, Terms, count, fine, some
from drlib.drill.readiness.checks.observations import Placed, Seen, There, Unseen
from drlib.drill.readiness.score import Severity
from drlib.model import TranslationKind

_MEANS: Final[Mapping[TranslationKind, tuple[Severity, str]]] = {
    TranslationKind.EXACT: (Severity.OK, "exact"),
    TranslationKind.BEHIND: (Severity.WARN, "ahead of the mirror by"),
    TranslationKind.BOUNDED: (Severity.WARN, "known to within"),
    TranslationKind.NEVER_MIRRORED: (Severity.WARN, "before the first mirrored record"),
    TranslationKind.LOST: (Severity.CRITICAL, "in front of records that never reached the target:"),
    TranslationKind.UNKNOWN: (Severity.CRITICAL, "without a counterpart that anybody could vouch for"),
}


def groups(placed: tuple[Placed, ...], flow: str, terms: Terms) -> Found:
    """Can every position go on at the exact record?"""
    by_kind: dict[tuple[str, TranslationKind], list[Placed]] = defaultdict(list)
    for one in placed:
        by_kind[one.group, one.kind].append(one)
    rows: Found = []
    within = 0
    for (group, kind), ones in sorted(by_kind.items()):
        verdict, meaning = _MEANS[kind]
        records = sum(one.records for one in ones)
        if verdict is Severity.OK:
            continue
        if kind is TranslationKind.BEHIND and records <= terms.objectives.rpo_records:
            within += records  # what the lag's objective allows: such a group waits for records, it skips none
            continue
        counted = f" {count(records, 'record')}" if records else ""
        where = some(f"{one.source} at {one.position}" for one in ones)
        fix = f"See what can be said of it: {terms.drlib('translate', '--flow', flow, '--group', group)}"
        rows.append((group, verdict, f"{count(len(ones), 'position')} {meaning}{counted}: {where}", fix))
    if rows:
        return rows
    if not placed:
        return fine("no group has a position on a mirrored topic")
    counted = f"{count(len(placed), 'position')} of {count(len({one.group for one in placed}), 'group')}"
    waits = f"exact, or ahead of the mirror by {count(within, 'record')} in all, which the objective allows"
    return fine(f"{counted}: {waits if within else 'all exact'}")


def readers(seen: Seen, terms: Terms) -> Found:
    """Does anybody read what nothing mirrors?"""
    readers = seen.readers
    assert not isinstance(readers, Unseen)
    rows: Found = []
    for one in readers.unmirrored:
        why = f"it reads {some(one.topics)}, which no enabled flow mirrors: it has nothing to read after a failover"
        add = ", ".join(one.topics[:NAMED])
        fix = f"Add {add} to '{seen.flow}.topics' in {terms.file}, or the group to groups.exclude if it is to stay."
        rows.append((one.group, Severity.WARN, why, fix))
    for group, why in readers.unreadable:
        rows.append((group, Severity.UNKNOWN, why, f"Grant Describe on the group: {_grant(terms, group)}"))
    if not readers.all_listed:
        why = "the source lists only the groups we may describe: there may be others"
        fix = "Grant our principal Describe on the source cluster (kafka-acls.sh --add --operation Describe --cluster)."
        rows.append((seen.flow, Severity.UNKNOWN, why, fix))
    return rows or fine(f"{count(readers.groups, 'group')} read nothing else")


def _grant(terms: Terms, group: str) -> str:
    return terms.tool("kafka-acls", terms.source, "--add", "--allow-principal", "User:PRINCIPAL", "--operation",
                      "Describe", "--group", group)  # fmt: skip


def ahead(there: tuple[There, ...], terms: Terms) -> Found:
    """Would a group on the target skip records?"""
    rows: Found = []
    used = 0
    for one in there:
        over = one.log_end is not None and one.committed > one.log_end
        if one.committed <= one.translated and not over:
            continue
        if one.in_use:
            used += 1
            continue
        skips = one.committed - one.translated
        why = f"{one.target} stands at {one.committed}, the source's position is {one.translated} there: {skips} ahead"
        why = f"{one.target} stands at {one.committed}, past the log's end {one.log_end}" if over else why
        words = ("--group", one.group, "--topic", f"{one.target.topic}:{one.target.partition}", "--reset-offsets",
                 "--to-offset", str(one.translated), "--execute")  # fmt: skip
        fix = (
            f"Nothing, if the group moved there. Otherwise: {terms.tool('kafka-consumer-groups', terms.target, *words)}"
        )
        rows.append((one.group, Severity.WARN, why, fix))
    if rows:
        return rows
    live = f"; {count(used, 'position')} of groups that are in use on the target are theirs" if used else ""
    return fine(f"{count(len(there), 'position')} on the target, none ahead{live}")
