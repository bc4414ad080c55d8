"""Actions that rehearse a failover without touching any group of an application: `groups.shadow` and `canary.read`.

Rules: a shadow group is `drill.<run>.<group>`, so it belongs to one run; undoing the step deletes every shadow of that run,
also those of a process that was killed. The canary reads without joining any group. What it reads is compared with what the
source has right after the group's position, by key, value, timestamp and headers; where there is nothing after it on either
side, the records right before it are. From a position that is bounded, or behind, it reads on until the record that the
group's own position has next, which measures what the group would read again; to find a later one first would mean that
records are skipped. A group that keeps up with its topic is ahead of the mirror by what is on its way: the mirror is waited
for. Where both directions copy the topic, the logs have orders of their own: the group's next records have to be at or behind
the position, and no more that it has read before than was predicted. Where the source does not answer, or not one position
could be compared, the check is unknown, which is not a pass.
A rehearsal reads positions of the source, with its own login; an emergency has only those of the mirror's checkpoints. So each
checkpoint has to be there, and to reach what the group had committed once its shadow was written. Its age alone says nothing:
a checkpoint is written when a position changes.
Not for: moving anything (`translate`).
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.patterns.selection import matches
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.actions.groups.read_again import (
    NOTHING_AFTER,
    Compared,
    compare_bounded,
    content,
    is_near,
    measure_shared,
    on_source,
    on_target,
    read_from,
    score,
    to_find,
)
from drlib.drill.actions.groups.rules import AsOf, PositionMove, read_again, sum_known
from drlib.drill.actions.groups.translate import TranslateGroups
from drlib.drill.actions.parts import Parts
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Patterns, Positive, Seconds
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, Shared
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Aborted, Deviated, DrlibError, Unreachable, UsageError
from drlib.formats import second
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Record
from drlib.mirror.offsets.translation.translate_groups import Positions, checkpointed_positions, source_positions
from drlib.model import TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.check import CANARY, Check, Verdict
from drlib.runs.journal import Scalar

PREFIX: Final = "drill."
SHADOW: Final = "shadow"
_LOOK_S: Final = 1.0  # between two looks at the checkpoints, which are read from the start of their topic
_MIRROR_S: Final = 10.0  # how long the mirror is waited for where groups were ahead of it
CHECKPOINTS: Final = "the mirror's own checkpoints have every group's position"


@dataclass(frozen=True, slots=True)
class CheckpointGap:
    """A position of `group`: on the source, and `known` by its checkpoint as of `as_of_ms`; None where it has none."""

    group: str
    partition: TopicPartition
    position: int
    known: int | None = None
    as_of_ms: int = 0

    def __str__(self) -> str:
        at = f"{self.group} in {self.partition}"
        if self.known is None:
            return f"{at}: no checkpoint"
        return f"{at}: {self.known:,} as of {second(self.as_of_ms)} UTC, {self.position - self.known:,} behind"


def checkpoint_gaps(
    moves: Sequence[PositionMove], on_the_source: Positions, checkpoints: Positions
) -> tuple[list[CheckpointGap], int]:
    """Which positions of `moves` a failover without the source would not have as the source had them; how many
    were compared. Pure.

    `moves` have the names of their groups on the source. One that is left, or begins at the start as nothing of its partition
    was mirrored yet, needs no checkpoint.
    """
    gaps, compared = [], 0
    for move in moves:
        key = (move.group, move.source)
        if move.offset is None or move.kind is TranslationKind.NEVER_MIRRORED or key not in on_the_source:
            continue
        compared += 1
        position, found = on_the_source[key].offset, checkpoints.get(key)
        if found is None:
            gaps.append(CheckpointGap(*key, position))
        elif found.offset < position:
            gaps.append(CheckpointGap(*key, position, found.offset, found.as_of_ms))
    return gaps, compared


def checkpoints_check(gaps: Sequence[CheckpointGap], compared: int, waited_s: float) -> Check:
    """The check of positions that were compared: `gaps` are those that had not come within `waited_s`. Pure."""
    if not compared:
        return Check(CHECKPOINTS, Verdict.UNKNOWN, "no position could be compared")
    if not gaps:
        return Check(CHECKPOINTS, Verdict.PASS, f"all {compared:,} positions are as the groups had committed them")
    groups = len({gap.group for gap in gaps})
    more = f"; and {len(gaps) - 3:,} more" if len(gaps) > 3 else ""
    first = "; ".join(str(gap) for gap in sorted(gaps, key=lambda gap: gap.known is not None)[:3])
    said = f"{len(gaps):,} of {compared:,} positions, of {groups:,} groups, did not come within {waited_s:g} s: {first}{more}"
    remedy = "see drlib status, and drlib doctor --rights for what the mirror's user needs"
    return Check(CHECKPOINTS, Verdict.FAIL, f"{said}; {remedy}")


class ShadowGroups(TranslateGroups):
    """Translate every group's position, and commit it on the target to a shadow of the group."""

    name = "groups.shadow"
    use: ClassVar[str] = SHADOW
    share_groups: ClassVar[bool] = False  # no shadow is made: what a failover would write is decided, and checked
    none_is_enough: ClassVar[bool] = False  # it would rehearse nothing
    leaves_used: ClassVar[bool] = False

    checkpoints_s: Seconds = 75
    """How long to wait until the mirror's checkpoints have what the groups had committed. MirrorMaker 2 writes them once a
    minute, a worker of drlib at once."""

    @property
    def entity(self) -> str:
        return f"shadow groups {self.prefix}* on {self.flow.target}"

    @property
    def prefix(self) -> str:
        return f"{PREFIX}{self.context.run_dir.name}."

    def named(self, group: str) -> str:
        return self.prefix + group

    def also_checked(self, abort: Abort) -> tuple[Evidence, tuple[Check, ...]]:
        gaps, check = self._checkpoints(abort)
        return {"checkpoints_missing": gaps, "checkpoints": check.evidence}, (check,)

    def _checkpoints(self, abort: Abort) -> tuple[int | None, Check]:
        """How many positions the checkpoints topic does not have, None where it is unknown, and the check of it."""
        began, settings = time.monotonic(), self.context.mirror_settings()
        named = [replace(move, group=move.group.removeprefix(self.prefix)) for move in self._kept() or ()]
        try:
            here = source_positions(settings, self.flow, self._chosen)
            while True:
                gaps, compared = checkpoint_gaps(named, here, checkpointed_positions(settings, self.flow))
                if not gaps or time.monotonic() - began >= self.checkpoints_s:
                    break
                abort.wait(_LOOK_S)
        except Aborted:
            raise
        except DrlibError as error:
            return None, Check(CHECKPOINTS, Verdict.UNKNOWN, f"{error.what}: {error.why}")
        return len(gaps), checkpoints_check(gaps, compared, self.checkpoints_s)

    def _as_of(self, moves: Sequence[PositionMove]) -> list[AsOf]:
        """What is predicted for a failover at this moment: no later commit is part of it."""
        return [
            replace(each, re_reads=read_again(move)) for move, each in zip(moves, super()._as_of(moves), strict=True)
        ]

    def changes(self, observed: Sequence[Fact]) -> Changes:
        (before,) = (fact.value for fact in observed if fact.entity == self.entity)
        return (Change(self.entity, before, f"at the records that groups {', '.join(self.groups)} have reached"),)

    def undo(self, changes: Changes) -> None:
        """Delete every shadow group of this run, whichever process made it."""
        parts = Parts()
        with Cluster(self.target_cluster, timeout_s=TIMEOUT_S) as cluster:
            for listing in cluster.groups():
                if listing.group.startswith(self.prefix):
                    with parts.each(listing.group):
                        cluster.delete_group(listing.group)
        parts.raise_failed()
        positions.forget(self.context.run_dir, self.flow.target, self.use)


class ReadCanary(ReadOnlyTargetAction):
    """Read from the position of each shadow group, and compare with what the source has after the group's own position."""

    name = "canary.read"
    shared_topics = Shared.SOME

    records: Positive = 5
    """Records to read for each group and partition, at most."""
    groups: Patterns = (".*",)
    """Which groups."""

    @property
    def needs_before(self) -> tuple[str, ...]:
        return ("groups.shadow",)

    def nothing_before(self) -> UsageError:
        what = "the canary has nothing to read"
        return UsageError(what, "no shadow groups were made", "Add groups.shadow before it.")

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` naming the first record that is not the right one."""
        run_dir, flow = self.context.run_dir, self.flow
        moves = positions.read(run_dir, flow.target, SHADOW)
        if moves is None:
            raise self.nothing_before()
        prefix = f"{PREFIX}{run_dir.name}."
        chosen = [m for m in moves if matches(self.groups, m.group.removeprefix(prefix))]
        mine = [m for m in chosen if m.offset is not None]
        shared, others = self._by_order(mine)
        seen: dict[PositionMove, tuple[int, Compared]] = {}
        silence = ""
        if shared:
            found, silence = measure_shared(self.source_cluster, self.target_cluster, shared, self.records, abort)
            seen |= zip(shared, found, strict=True)
        if others or not shared:
            found, why = self._compare(others, abort)
            seen |= zip(others, found, strict=True)
            silence = silence or why
            until = time.monotonic() + _MIRROR_S
            while not silence and (ahead := [m for m in others if not_reached(m, seen[m][1])]):
                if time.monotonic() >= until:
                    break
                abort.wait(_LOOK_S)
                found, silence = self._compare(ahead, abort)
                seen |= zip(ahead, found, strict=True)
        rows: list[dict[str, Scalar]] = []
        wrong: list[str] = []
        measured: dict[str, list[tuple[PositionMove, int | None]]] = {}
        for move in mine:
            count, each = seen[move]
            measured.setdefault(move.group.removeprefix(prefix), []).append((move, each.again))
            if each.wrong:
                wrong.append(f"{move.group.removeprefix(prefix)} in {move.target} at {move.offset}: {each.verdict}")
            rows.append(
                {
                    "group": move.group.removeprefix(prefix),
                    "topic": move.target.topic,
                    "partition": move.target.partition,
                    "from": move.offset,
                    "meaning": move.kind.value,
                    "records read": count,
                    "reads again at most": read_again(move),
                    "reads again": each.again,
                    "compared": each.verdict,
                }
            )
        self.show(rows)
        compared = sum(str(row["compared"]).startswith("the same") for row in rows)
        total = sum({on_target(move): seen[move][0] for move in mine}.values())
        verdict = Verdict.FAIL if wrong else Verdict.UNKNOWN if silence or not compared else Verdict.PASS
        counted = (
            f"{total:,} records read; {compared:,} of {len(rows):,} positions lead to the same records as on the source"
        )
        counted += "" if compared == len(rows) else f"; the table has the other {len(rows) - compared:,}"
        evidence = "; ".join(wrong[:3]) or silence or (counted if compared else f"not checked: {counted}")
        for move in chosen:
            if move.offset is None:  # it is left where it is, and not compared
                measured.setdefault(move.group.removeprefix(prefix), []).append((move, None))
        check = Check(name=CANARY, verdict=verdict, evidence=evidence)
        scores = tuple(score(group, measured[group]) for group in sorted(measured))
        self.score(ScorecardPart(checks=(check,), groups=scores))
        if wrong:
            raise Deviated(
                f"{len(wrong)} of {len(rows)} positions lead to other records",
                "; ".join(wrong[:3]),
                "Do not fail over by this map. See the journal with drlib status, and report it.",
            )
        return {
            "positions": len(rows),
            "records": total,
            "the_same": compared,
            "reads_again_at_most": sum(map(read_again, mine)),
            "reads_again": sum_known(again for each in measured.values() for _, again in each),
            "source": silence or "it answers",
        }

    def _by_order(self, moves: Sequence[PositionMove]) -> tuple[list[PositionMove], list[PositionMove]]:
        """Those in topics that both directions copy, whose logs have orders of their own, and the others."""
        both = self.context.properties is not None and shared_between(self.context.mirror_settings(), self.flow)
        shared = both or (lambda _: False)
        parts: tuple[list[PositionMove], list[PositionMove]] = [], []
        for move in moves:
            parts[0 if shared(on_source(move)[0].topic) else 1].append(move)
        return parts

    def _compare(self, mine: Sequence[PositionMove], abort: Abort) -> tuple[list[tuple[int, Compared]], str]:
        """How many records were read of each position and what they are; and why the source was not read, if it was not."""
        wanted: dict[tuple[TopicPartition, int], int] = {}
        for m in mine:
            wanted[on_target(m)] = max(wanted.get(on_target(m), 0), to_find(m))
        read = read_from(self.target_cluster, wanted, self.records, abort)
        try:
            source_records = read_from(self.source_cluster, dict.fromkeys(map(on_source, mine), 0), self.records, abort)
            silence = ""
        except (Unreachable, UsageError) as error:
            source_records, silence = {}, str(error)
        ended = [
            m for m in mine if not read[on_target(m)] and not source_records.get(on_source(m), [None]) and _exact(m)
        ]
        at_end = [m for m in mine if is_near(m) and read[on_target(m)] and not source_records.get(on_source(m), [None])]
        before = read_from(self.target_cluster, dict.fromkeys(map(on_target, ended), 0), self.records, abort, back=True)
        source_before = read_from(
            self.source_cluster, dict.fromkeys(map(on_source, [*ended, *at_end]), 0), self.records, abort, back=True
        )
        found = []
        for move in mine:
            records = read[on_target(move)]
            one = Compared(_compared(move, records, source_records.get(on_source(move))))
            if one.verdict == NOTHING_AFTER and on_target(move) in before:
                one = Compared(_compared_before(before[on_target(move)], source_before[on_source(move)]))
            if is_near(move) and source_records:
                nearby = source_before.get(on_source(move), ())
                one = compare_bounded(records, source_records[on_source(move)], nearby)
            elif one.verdict.startswith("the same"):
                one = Compared(one.verdict, 0)
            found.append((len(records), one))
        return found, silence


def not_reached(move: PositionMove, compared: Compared) -> bool:
    """Had the mirror not reached the group's position, and is the record that it has next still not there? Pure."""
    return move.kind is TranslationKind.BEHIND and is_near(move) and compared.again is None and not compared.wrong


def _exact(move: PositionMove) -> bool:
    return move.kind is TranslationKind.EXACT


def _compared_before(records: Sequence[Record], expected: Sequence[Record]) -> str:
    """Compare the records right before a position that has nothing after it, from the last one back."""
    for actual, wanted in zip(reversed(records), reversed(expected), strict=False):
        if content(actual) != content(wanted):
            return f"wrong: before it, offset {actual.offset} is not what the source has at {wanted.offset}"
    if not records or not expected:
        return f"{NOTHING_AFTER}, nor before it on both sides"
    return "the same before it, nothing after it"


def _compared(move: PositionMove, records: Sequence[Record], expected: Sequence[Record] | None) -> str:
    """Compare records with those that the source has at the same position, as far as both have them."""
    if expected is None:
        return "unknown: the source does not answer"
    if move.kind is not TranslationKind.EXACT:
        return f"not compared: {move.kind}"
    for actual, wanted in zip(records, expected, strict=False):
        if content(actual) != content(wanted):
            return f"wrong: offset {actual.offset} is not what the source has at {wanted.offset}"
    if not records:
        return NOTHING_AFTER if not expected else "not mirrored yet"
    return "the same" if expected else "wrong: the source has nothing there"
