"""Action `groups.translate`: positions of groups on the source, translated and committed on the target.

Rules: what is decided is on disk before anything is written, and a resumed step completes exactly that. A group that is used
on the target holds up no other: one with members there, or whose position is neither what it was nor what was decided. It is
left as a whole, and named, as is one that cannot be moved without a guess or a step back. What is further there than the
source's position was, but not than it is by now, the mirror synchronized: no sign of use. A partition of the target without a
leader is left alone, and named. A rehearsal is refused by all of these, by name, before any group is written. `leave` names
groups that may be moved in part. A source that does not answer in time is not waited for: positions are those that the target
knows, and the step says as of when. Undo restores what was there before; a group that had nothing there is deleted.
Share groups are moved by the same step (`drlib.drill.actions.groups.share_groups`), once everything of both kinds is decided.
One that cannot be moved is left as a whole, and named; with `leave` it is moved in part. It never holds up another group.
Not for: rehearsing (`rehearsal`), verifying (`verify`), and moving the applications (`actions.applications.move_pointer`).
"""

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar, Final

from drlib import clock, formats
from drlib.config.patterns.selection import breaks_the_line, matches
from drlib.drill.actions.failover.transactions import read_kept
from drlib.drill.actions.groups import commit as group_writing
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import (
    BEFORE_TRANSACTION,
    AsOf,
    Left,
    LogBounds,
    PositionMove,
    before_transactions,
    blocked,
    leave_groups,
    left_check,
    named,
    no_group,
    reasons,
)
from drlib.drill.actions.groups.rules import as_of as as_of_words
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups import rules as share_rules
from drlib.drill.actions.groups.share_groups.rules import ShareMove, rehearsed
from drlib.drill.actions.groups.share_groups.shown import counts as share_counts
from drlib.drill.actions.groups.share_groups.shown import evidence as share_evidence
from drlib.drill.actions.groups.share_groups.shown import rows as share_rows
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step import step_output
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Flag, Patterns
from drlib.drill.step.cluster_identity import identity
from drlib.drill.step.flow_arguments import FlowArguments, ProbeDeadline, Shared
from drlib.drill.step.known_silence import KnownSilence, ask_in_run, controller_of, counts
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow, no_positions, without_checkpoint
from drlib.mirror.offsets.translation.translate_groups import (
    PositionsFound,
    checkpointed_positions,
    newest_positions,
    translate_known,
)
from drlib.mirror.share_groups.known import known_shares
from drlib.model import GroupTranslation, TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.check import Check
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark

OF_LINES: Final = "no pattern of `groups` matches its name, whose line terminators `.` does not match: write (?s).*"


Asked = tuple[PositionsFound | None, bool | None]
"""Positions that are known, None where the caller reads them; and whether the source answers, None where that is not known."""


class PositionsFrom(StrEnum):
    SOURCE = "source"  # as the source has them now
    TARGET = "target"  # as the mirror last knew them
    EITHER = "either"  # of the source where it answers


class TranslateGroups(ProbeDeadline, FlowArguments, DrillAction):
    """Translate every group's position on the source, and commit it on the target."""

    name = "groups.translate"
    shared_topics = Shared.SOME
    use: ClassVar[str] = "groups"
    share_groups: ClassVar[bool] = True
    """Are share groups moved? Else their positions are decided, and nothing is written."""
    none_is_enough: ClassVar[bool] = True
    """Is it done where no group has a position on a mirrored topic, as with producers alone, or offsets kept elsewhere?"""
    leaves_used: ClassVar[bool] = True
    """Are groups that are used on the target, or cannot be moved, left, and the others moved? Else the step is refused."""

    groups: Patterns = (".*",)
    """Which groups."""
    leave: Patterns = ()
    """Groups that may be moved although some of their positions cannot be translated; those positions stay as they are. Another
    group with such a position stays as a whole, and is named; a rehearsal is refused by such a consumer group."""
    rewind: Flag = False
    """Whether a group that is further ahead on the target may be set back."""
    before_partial_transactions: Flag = True
    """Whether positions behind the first record of a transaction that `transactions.list` found in part are set back to it."""
    positions_from: PositionsFrom = PositionsFrom.EITHER
    """Where the positions are read: the source now, the mirror's last knowledge on the target, or whichever answers."""

    @property
    def entity(self) -> str:
        return f"positions of groups {', '.join(self.groups)} on {self.flow.target}"

    def observe(self) -> Sequence[Fact]:
        return (Fact(self.entity, "as they are"), identity(self.target_cluster))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return (Change(self.entity, "as they are", f"the records they have reached on {self.flow.source}"),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        began_ms = clock.now_ms()
        run_dir, target = self.context.run_dir, self.flow.target
        kept, shares = self._kept(), self._kept_shares()
        first = shares is None
        with ThreadPoolExecutor(1, "positions") as pool:
            reading = pool.submit(self._positions) if kept is None else None
            if shares is None:
                shares = self._decided_shares()
        moves = kept or ()
        if reading is not None:
            moves = self.decided(reading.result(), alone=not (shares and self.share_groups))
            moves = tuple(replace(m, re_reads=a.re_reads) for m, a in zip(moves, self._as_of(moves), strict=True))
            positions.write(run_dir, target, moves, self.use)
        if first and self.share_groups:
            share_moves.keep(run_dir, target, self.use, shares)
        decided_ms = clock.now_ms()
        abort.check()
        moves = self._written(moves)
        shares = share_moves.write(self.target_cluster, shares) if self.share_groups else shares
        done_ms = clock.now_ms()
        if self.share_groups:
            share_moves.keep(run_dir, target, self.use, shares)
        as_of = self._as_of(moves)
        shown = [_row(move, each, self.flow.source, target) for move, each in zip(moves, as_of, strict=True)]
        self.show([*shown, *share_rows(shares, self.flow)])
        again = share_moves.delivered_again(self.target_cluster, shares) if self.share_groups else {}
        marks = (Mark(name="groups translated", at_ms=done_ms, detail=f"committed on {target}"),)
        unknown = {str(row["share group"]): str(row["why"]) for row in self._unknown() if "share group" in row}
        left = left_check(moves, self._unknown_groups())
        checks = share_rules.checks(shares, again, unknown) if self.share_groups else rehearsed(shares, unknown)
        also, others = self.also_checked(abort)
        self.score(ScorecardPart(marks=marks, checks=(*left, *checks, *others)))
        before = sum(move.why == BEFORE_TRANSACTION for move in moves)
        kinds, re_reads = Counter(move.kind for move in moves), [each.re_reads for each in as_of]
        return {
            "groups": len({move.group for move in moves}),
            "positions": len(moves),
            "positions_as_of": _oldest(moves, decided_ms),
            "not_determined": ", ".join(
                f"positions of {row.get('group') or 'share group ' + str(row['share group'])} ({row['why']})"
                for row in self._unknown()
            ),
            **{kind.value: kinds[kind] for kind in TranslationKind if kinds[kind]},
            "records_behind": sum(move.records for move in moves if move.kind is TranslationKind.BEHIND),
            "left": sum(move.offset is None for move in moves),
            **({"before_partial_transactions": before} if before else {}),
            "re_reads_at_most": None if None in re_reads else sum(each or 0 for each in re_reads),
            "translated_s": (decided_ms - began_ms) / 1000,
            "committed_s": (done_ms - decided_ms) / 1000,
            **(share_evidence(shares, again) if self.share_groups else share_counts(shares)),
            **also,
        }

    def _written(self, moves: tuple[PositionMove, ...]) -> tuple[PositionMove, ...]:
        """Commit what was decided; `moves` with groups left that could not be written, which is on disk then."""
        if not self.leaves_used:
            group_writing.write(self.target_cluster, moves)
            group_writing.read_back(self.target_cluster, moves)
        elif used := group_writing.write_unless_used(self.target_cluster, moves, self._read_since):
            moves = leave_groups(moves, used)
            positions.write(self.context.run_dir, self.flow.target, moves, self.use)
        return moves

    def also_checked(self, abort: Abort) -> tuple[Evidence, tuple[Check, ...]]:
        """What else is looked at once the positions are written, and the checks of it. Raises what `abort` does."""
        return {}, ()

    def _as_of(self, moves: Sequence[PositionMove]) -> list[AsOf]:
        """What the time of each position means; a target that does not answer leaves the number of re-reads unknown."""
        fault, ahead = moments.moment_of(self.context.run_dir, "fault"), moments.mirror_ahead(self.context.run_dir)
        bounds = {}
        if fault is not None:
            with contextlib.suppress(DrlibError):
                bounds = group_writing.log_bounds(self.target_cluster, (move.target for move in moves))
        at_ms = None if fault is None else (fault.earliest_ms, fault.latest_ms)
        ends = {partition: each.end for partition, each in bounds.items() if isinstance(each, LogBounds)}
        return [as_of_words(move, ends.get(move.target), at_ms, ahead) for move in moves]

    def probe(self, changes: Changes) -> Reach:
        reach = group_writing.reached(self.target_cluster, self._kept())
        reach = share_moves.reached_with(reach, self.target_cluster, self._kept_shares())
        # a group that others have moved since is left by act, and named by an undo
        return Reach.PARTLY if reach is Reach.UNKNOWN and self.leaves_used else reach

    def undo(self, changes: Changes) -> None:
        """Restore what was there before. Raises `Deviated` for what was moved since, `GroupNotEmpty` for members."""
        decisions = self.context.run_dir, self.flow.target, self.use
        share_moves.take_back(self.target_cluster, decisions, self._kept(), self._kept_shares())

    def _kept_shares(self) -> tuple[ShareMove, ...] | None:
        return share_moves.kept(self.context.run_dir, self.flow.target, self.use) if self.share_groups else None

    def _decided_shares(self) -> tuple[ShareMove, ...]:
        """Decide every partition of the chosen share groups; those that cannot be moved are left, and hold up no other."""
        settings, flow = self.context.mirror_settings(), self.flow
        alive = _SOURCE_ALIVE[self.positions_from]
        if alive is None:
            answer = ask_in_run(self.context, [self.source_cluster], min(ANSWER_S, self.probe_s))[flow.source]
            mostly_silent = KnownSilence(self.context.run_dir).of(controller_of(flow.source))
            without_all = isinstance(answer, Unreachable) or counts(mostly_silent, clock.now_ms())
            alive = False if without_all else None  # all brokers have to say which share groups there are
        known = known_shares(settings, flow, alive=alive, timeout_s=self.probe_s)
        chosen = share_moves.Chosen(self._chosen, lambda group: matches(self.leave, group), self.rewind)
        made = share_moves.decide(
            settings,
            flow,
            known,
            lambda asked: translate_known(settings, flow, source_alive=alive, positions=asked).translations,
            chosen,
        )
        before = self._unknown()
        rows = [{"share group": group, "why": why} for group, why in sorted(made.unknown.items())]
        kept = [row for row in before if "share group" not in row]
        if rows or len(kept) < len(before):
            step_output.write_rows(self.context.run_dir, self._unknown_file, [*kept, *rows])
        return made.moves

    def _kept(self) -> tuple[PositionMove, ...] | None:
        return positions.read(self.context.run_dir, self.flow.target, self.use)

    # -- deciding --------------------------------------------------------------------------------------------------

    def decided(self, asked: Asked, *, alone: bool = True) -> tuple[PositionMove, ...]:
        """Decide every position of the chosen groups. Raises `UsageError` naming what prevents the move.

        Not `alone`: share groups were chosen, so that it is no mistake where no consumer group is.
        """
        flow, settings = self.flow, self.context.mirror_settings()
        newest, alive = asked
        if newest is not None:
            self._replace_unknown(newest.unknown)
        known, wanted = None if newest is None else newest.positions, lambda g: self._chosen(g) or self._of_line(g)
        found = translate_known(settings, flow, source_alive=alive, positions=known, wanted=wanted)
        translations = found.translations
        chosen = [item for item in translations if self._chosen(item.group)]
        self._keep_unknown([{"group": group, "why": OF_LINES} for group in self._of_lines(translations)])
        if alive is False and found.mirror_maker is not None:
            self._name_unknown(chosen, found.mirror_maker)
        if not chosen and (not alone or (not translations and self.none_is_enough)):
            return ()  # the applications move all the same: there is no group to place
        if not chosen:
            raise no_group(flow, [item.group for item in translations], self.groups, self.context.run_dir.name)
        names = {item.group: self.named(item.group) for item in chosen}
        committed, silent = group_writing.committed_as_far(self.target_cluster, names.values())
        if silent and not self.leaves_used:
            raise next(iter(silent.values()))
        in_use = set(group_writing.in_use(self.target_cluster, committed.keys()))
        if not self.leaves_used:
            group_writing.refuse_busy(self.target_cluster, in_use)
        before = {group: committed.get(name, {}) for group, name in names.items()}
        moves = group_writing.decide_there(self.target_cluster, chosen, before, rewind=self.rewind)
        if further := {move.group for move in moves if move.left is Left.AHEAD}:
            since = self._read_since(further)
            chosen = [since.get((item.group, item.target), item) for item in chosen]
            moves = group_writing.decide_there(self.target_cluster, chosen, before, rewind=self.rewind)
        used = dict.fromkeys((group for group, name in names.items() if name in in_use), group_writing.OWNED)
        used |= {group: silent[name].why for group, name in names.items() if name in silent}
        stuck = {
            group: those
            for group, those in blocked(
                m for m in moves if m.left is not Left.NO_LEADER or not self.leaves_used
            ).items()
            if group not in used and not matches(self.leave, group)
        }
        if stuck and not self.leaves_used:
            raise UsageError(
                f"{len(stuck)} groups have positions that cannot be translated",
                named(stuck),
                "See drlib translate; name groups that may stay in `leave`.",
            )
        moves = leave_groups(moves, {**reasons(stuck), **used})
        if self.before_partial_transactions:
            kept = read_kept(self.context.run_dir, flow)
            moves = tuple(before_transactions(move, kept.first(move.group, move.target)) for move in moves)
        return tuple(replace(move, group=names[move.group]) for move in moves)

    def _name_unknown(self, chosen: Sequence[GroupTranslation], mirror_maker: MirrorMakerFlow) -> None:
        """Keep which positions MirrorMaker 2 wrote no checkpoint of, for groups that have one in the same topic."""
        if not chosen:
            rows = [{"group": "every group", "why": no_positions(self.flow, mirror_maker)}]
        else:
            with Cluster(self.target_cluster) as cluster:
                topics = cluster.topics({item.target.topic for item in chosen})
            rows = [
                {"group": group, "why": f"MirrorMaker 2 wrote no checkpoint of it in {missing}"}
                for group, missing in without_checkpoint(chosen, {t.name: t.partitions for t in topics.values()})
            ]
        self._keep_unknown(rows)

    def _of_lines(self, translations: Sequence[GroupTranslation]) -> list[str]:
        """Groups that are not moved for nothing but the line terminators of their names."""
        return sorted({item.group for item in translations if self._of_line(item.group)})

    def _of_line(self, group: str) -> bool:
        return breaks_the_line(self._chosen, group)

    def _keep_unknown(self, rows: Sequence[step_output.Row]) -> None:
        """Add `rows` to the groups whose positions are not determined."""
        before = self._unknown()
        if new := [row for row in rows if row not in before]:
            step_output.write_rows(self.context.run_dir, self._unknown_file, [*before, *new])

    def _positions(self) -> Asked:
        """What is known of the groups' positions, where the source need not answer."""
        if self.positions_from is not PositionsFrom.EITHER:
            return None, _SOURCE_ALIVE[self.positions_from]
        settings = self.context.mirror_settings()
        answer = ask_in_run(self.context, [self.source_cluster], min(ANSWER_S, self.probe_s))[self.flow.source]
        if isinstance(answer, Unreachable):
            return PositionsFound(checkpointed_positions(settings, self.flow)), False
        return newest_positions(settings, self.flow, self.probe_s), None

    def _read_since(self, groups: Collection[str]) -> dict[tuple[str, TopicPartition], GroupTranslation]:
        """The newest positions of `groups`, asked now, by group and partition on the target."""
        newest, alive = self._positions()
        settings, known = self.context.mirror_settings(), None if newest is None else newest.positions
        found = translate_known(settings, self.flow, source_alive=alive, positions=known, wanted=groups.__contains__)
        return {(item.group, item.target): item for item in found.translations if item.group in groups}

    def _replace_unknown(self, unknown: Mapping[str, str]) -> None:
        """Keep why nothing is known of the positions of the chosen consumer groups among `unknown`."""
        rows = [{"group": group, "why": why} for group, why in sorted(unknown.items()) if self._chosen(group)]
        of_shares = [row for row in self._unknown() if "share group" in row]
        step_output.write_rows(self.context.run_dir, self._unknown_file, [*rows, *of_shares])

    def _unknown_groups(self) -> dict[str, str]:
        """Why nothing is known of the positions of a consumer group, by its name."""
        return {str(row["group"]): str(row["why"]) for row in self._unknown() if "group" in row}

    def _unknown(self) -> Sequence[Mapping[str, Scalar]]:
        return step_output.read_rows(self.context.run_dir, self._unknown_file)

    @property
    def _unknown_file(self) -> str:
        return f"{self.step}.unknown"

    def named(self, group: str) -> str:
        """The name on the target of the source's `group`."""
        return group

    def _chosen(self, group: str) -> bool:
        return matches(self.groups, group)


_SOURCE_ALIVE: Final[Mapping[PositionsFrom, bool | None]] = {
    PositionsFrom.SOURCE: True,
    PositionsFrom.TARGET: False,
    PositionsFrom.EITHER: None,
}


def _oldest(moves: Sequence[PositionMove], now_ms: int) -> str:
    """When the oldest position was last known to be the committed one: later commits of its group are read again."""
    if not moves:
        return ""
    oldest = min(move.as_of_ms for move in moves)
    return (
        f"{formats.second(oldest)} UTC, {formats.duration(max(0, now_ms - oldest) / 1000)} before they were translated"
    )


def _row(move: PositionMove, as_of: AsOf, source: str, target: str) -> dict[str, Scalar]:
    return {
        "group": move.group,
        "topic": move.source.topic,
        "partition": move.source.partition,
        f"on {source}": move.source_offset,
        f"on {target}": move.offset,
        "meaning": f"{move.kind.value}, {move.why}" if move.why and move.left is None else move.kind.value,
        "records": move.records,
        "reads again at most": move.re_reads,
        "before": "none" if move.before is None else move.before,
        "left because": "" if move.left is None else move.why,
        "as of": as_of.words,
    }
