"""Findings about consumer groups: where they would resume, what they read, and their committed offsets on the target.

Rules: a position ahead of the mirror by no more records than the objective allows to lose is ok: such a group waits for
records and skips none. Records that a group had not read and that have expired on the target are a warning: they do not come
back. Those that never arrived are critical while something can be done about it, and a warning once the source is lost, where
staying brings none of them back. A group that reads what no flow mirrors is a warning, since it may be meant to stay.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from drlib.drill.readiness.checks.objectives import NAMED, CheckContext, Judgements, count, passed
from drlib.drill.readiness.checks.observations import FlowObservation, Readers, TargetPosition, Unanswered
from drlib.drill.readiness.score import Severity
from drlib.formats import first_few
from drlib.model import GroupTranslation, TranslationKind

_MEANING: Final[Mapping[TranslationKind, tuple[Severity, str]]] = {
    TranslationKind.EXACT: (Severity.OK, "exact"),
    TranslationKind.BEHIND: (Severity.WARN, "ahead of the mirror by"),
    TranslationKind.BOUNDED: (Severity.WARN, "known to within"),
    TranslationKind.NEVER_MIRRORED: (Severity.WARN, "before the first mirrored record"),
    TranslationKind.LOST: (Severity.CRITICAL, "before records that never reached the target:"),
    TranslationKind.UNKNOWN: (Severity.CRITICAL, "without a known counterpart"),
}
_EXPIRED: Final = (Severity.WARN, "before the log start on the target:")


def exact(
    translations: tuple[GroupTranslation, ...], flow: str, context: CheckContext, *, source_lost: bool = False
) -> Judgements:
    """Can every group resume at the exact record? `source_lost`: there is no other place for it to stay."""
    by_kind: dict[tuple[str, TranslationKind, bool], list[GroupTranslation]] = defaultdict(list)
    for position in translations:
        found = position.translation
        by_kind[position.group, found.kind, 0 < found.records == found.expired].append(position)
    rows: Judgements = []
    allowed = 0
    for (group, kind, gone), positions in sorted(by_kind.items()):
        severity, meaning = _EXPIRED if gone else _MEANING[kind]
        if kind is TranslationKind.LOST and source_lost:
            severity = Severity.WARN
        expired = 0 if gone else sum(position.translation.expired for position in positions)
        records = sum(position.translation.records for position in positions) - expired
        if severity is Severity.OK:
            continue
        if kind is TranslationKind.BEHIND and records <= context.objectives.rpo_records:
            allowed += records
            continue
        counted = f" {count(records, 'record')}" if records else ""
        if gone:
            counted = f"{counted} that it had not read {'has' if records == 1 else 'have'} expired there"
        elif expired:
            counted = f"{counted}, and {expired:,} more have expired there"
        where = first_few(f"{position.source} at {position.source_offset}" for position in positions)
        fix = f"See its translation: {context.drlib('translate', '--flow', flow, '--group', group)}"
        rows.append((group, severity, f"{count(len(positions), 'position')} {meaning}{counted}: {where}", fix))
    if rows:
        return rows
    if not translations:
        fix = f"If applications read them, let each commit once; `groups` selects which count: {context.drlib('inventory')}"
        return [("", Severity.ADVICE, "nothing to check: no group has a committed offset on a mirrored topic", fix)]
    groups = count(len({position.group for position in translations}), "group")
    behind = f"exact, or ahead of the mirror by {count(allowed, 'record')} in all, which the objective allows"
    return passed(f"{count(len(translations), 'position')} of {groups}: {behind if allowed else 'all exact'}")


def positions(
    translations: tuple[GroupTranslation, ...], observed: FlowObservation, context: CheckContext
) -> Judgements:
    """`exact`, and whether positions are known without the source."""
    rows = _by_checkpoints(translations, observed)
    found = exact(translations, observed.flow, context, source_lost=bool(observed.source.error))
    return rows + [row for row in found if row[1] not in (Severity.OK, Severity.ADVICE)] if rows else found


def _by_checkpoints(translations: tuple[GroupTranslation, ...], observed: FlowObservation) -> Judgements:
    """Are positions known without the source, where MirrorMaker 2 mirrors the flow?"""
    found = None if isinstance(observed.mirror, Unanswered) else observed.mirror.view.mirror_maker
    if found is None:
        return []
    source, _, target = observed.flow.partition("->")
    fix = f"Set emit.checkpoints.enabled = true for {observed.flow} in MirrorMaker 2's file, and offset syncs."
    if observed.source.error and not translations:
        why = f"no position of any group is known: {target} has no checkpoint of MirrorMaker 2, and {source} does not answer"
        return [(observed.flow, Severity.CRITICAL, why, f"{fix} To move the applications without them, give a reason.")]
    if translations and not found.checkpoints:
        why = f"{target} has no checkpoint of MirrorMaker 2: without {source} no position of any group would be known"
        return [(observed.flow, Severity.WARN, why, fix)]
    return []


def mirrored(readers: Readers, flow: str, context: CheckContext) -> Judgements:
    """Does a group read a topic that no flow mirrors?"""
    rows: Judgements = []
    for reader in readers.unmirrored:
        why = f"it reads {first_few(reader.topics)}, which no enabled flow mirrors: it has nothing to read after a failover"
        add = ", ".join([name for name in reader.topics if name not in reader.as_mirrors][:NAMED])
        fix = f"Add {add} to '{flow}.topics' in {context.file}, or the group to groups.exclude if it is to stay."
        if reader.as_mirrors:
            kept = f"{first_few(reader.as_mirrors)}: a cluster's alias is a part of the name, so that it counts as a mirror"
            rename = (
                f"{kept}. Rename it, or set replication.policy.separator to what stands behind no alias in a topic."
            )
            fix = f"{fix} {rename}" if add else rename
        rows.append((reader.group, Severity.WARN, why, fix))
    for group, topics in readers.as_heartbeats:
        why = (
            f"it reads {first_few(topics)}, which counts as heartbeats of another cluster, as in MirrorMaker 2; "
            "what of it is lost is not counted, a move does not wait for its writers, and the pointer has no cutover for it"
        )
        fix = "Rename it, so that its name does not end with the separator and heartbeats, or set replication.policy.separator."
        rows.append((group, Severity.WARN, why, fix))
    for group in readers.of_lines:
        why = "its name has a line terminator, which `.` does not match, as in MirrorMaker 2: its positions are not mirrored"
        rows.append(
            (group, Severity.WARN, why, f"Let '{flow}.groups' in {context.file} begin with (?s), as (?s).* does.")
        )
    for group, why in readers.unreadable:
        rows.append((group, Severity.UNKNOWN, why, f"Grant Describe on the group: {_grant(context, '--group', group)}"))
    if readers.all_listed is None:
        why = "the source did not say whether we may list every group: there may be others"
        rows.append((flow, Severity.UNKNOWN, why, "Run the command again."))
    elif not readers.all_listed:
        why = "the source lists only groups we may describe: there may be others"
        rows.append((flow, Severity.UNKNOWN, why, f"Grant Describe on the cluster: {_grant(context, '--cluster')}"))
    if not readers.groups and not rows:
        return passed("nothing to check: the source has no consumer group")
    return rows or passed(f"{count(readers.groups, 'group')} read nothing else")


def _grant(context: CheckContext, *resource: str) -> str:
    return context.tool("kafka-acls", context.source, "--add", "--allow-principal", "User:PRINCIPAL", "--operation",
                        "Describe", *resource)  # fmt: skip


def ahead(positions: tuple[TargetPosition, ...], context: CheckContext) -> Judgements:
    """Would a group skip records on the target?"""
    rows: Judgements = []
    in_use = 0
    for position in positions:
        committed, log_end = position.committed, position.log_end
        group, partition = position.translation.group, position.translation.target
        translated = position.ahead[1].start
        past_end = log_end is not None and committed > log_end
        if (committed <= translated or position.markers_only or position.read_on) and not past_end:
            continue
        if position.in_use:
            in_use += 1
            continue
        skips = committed - translated
        why = f"{partition}: committed offset {committed} is {skips} ahead of the source's position, {translated}"
        why = f"{partition}: committed offset {committed} is past the log end {log_end}" if past_end else why
        options = ("--group", group, "--topic", f"{partition.topic}:{partition.partition}", "--reset-offsets",
                 "--to-offset", str(translated), "--execute")  # fmt: skip
        reset = context.tool("kafka-consumer-groups", context.target, *options)
        rows.append((group, Severity.WARN, why, f"Nothing, if the group moved there. Otherwise: {reset}"))
    if rows:
        return rows
    if not positions:
        return passed("nothing to check: no group has a committed offset on the target")
    used = f"; {count(in_use, 'position')} of groups with members on the target were not judged" if in_use else ""
    return passed(f"{count(len(positions), 'position')} on the target, none ahead{used}")
