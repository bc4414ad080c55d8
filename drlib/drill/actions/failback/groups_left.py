"""Action `groups.left`: wait until the members of the groups that were moved have left the cluster that they were moved from.

Rules: an application that follows the pointer leaves by itself; one that is configured by hand has to be stopped, and reads
there what it will read again at home until then. So it is waited for before the mirror copies to that cluster again. Who has
not left after `within_s` is named, and holds nothing up: the check is passed with conditions. Where the cluster does not say
who is there, that is unknown, and holds nothing up either: the applications have moved. Share groups count like others.
Where positions were moved with a bound, as in flows of MirrorMaker 2, the records that each group reads again are measured
here, beside what was predicted.
Not for: whether they read on (`groups.verify`).
"""

import time
from collections.abc import Collection, Sequence

from drlib.drill.actions.failback.actions import MoveArguments
from drlib.drill.actions.groups import decided, read_again
from drlib.drill.actions.groups.read_again import Compared, score
from drlib.drill.actions.groups.rules import PositionMove, sum_known
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Seconds
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import DrlibError, UsageError
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import GroupState
from drlib.model import TranslationKind
from drlib.outgoing.terminal import show
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import GroupScore
from drlib.runs.waiting import LOOK_S

_SHOWN = 5


class GroupsLeft(MoveArguments, ReadOnlyAction):
    """Wait until the moved groups have no members any more on the cluster they were moved from, such as those moved by hand."""

    name = "groups.left"

    within_s: Seconds = 60
    """How long to wait for them."""

    @property
    def needs_before(self) -> tuple[str, ...]:
        return decided.WRITERS

    def nothing_before(self) -> UsageError:
        return UsageError("no group was moved", "no step before it moved any", "Add switchover.move before it.")

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        moving = self.flow
        moves = decided.read(self.context.run_dir, moving.target) or ()  # None: an earlier run has moved them
        shares = share_moves.kept_by_any(self.context.run_dir, moving.target)
        groups = sorted({move.group for move in moves})
        everyone = sorted({*groups, *(move.group for move in shares)})
        end, said = time.monotonic() + self.within_s, False
        with Cluster(self.settings.clusters[moving.source]) as source:
            while True:
                busy, unknown = _busy(source, groups, shares)
                self.show({"group": g, moving.source: _stand(g, busy, unknown)} for g in everyone)
                if not (busy or unknown) or time.monotonic() >= end:
                    break
                if busy and not said:
                    self._say(busy)
                    said = True
                abort.wait(LOOK_S)
        again, skipping = self._measured(moves, abort)
        verdict = Verdict.UNKNOWN if unknown else Verdict.CONDITIONS if busy or not everyone else Verdict.PASS
        named = first_few(busy, _SHOWN)
        gone = f"{len(everyone)} groups" if everyone else "not checked: no group was moved"
        evidence = f"still in use there, and may read records again: {named}" if busy else gone
        if unknown:
            evidence = f"not known of {first_few(sorted(unknown), _SHOWN)}: {next(iter(unknown.values()))}" + (
                f"; {evidence}" if busy else ""
            )
        check = Check(f"the groups have left {moving.source}", verdict, evidence)
        self.score(ScorecardPart(checks=(check, *skipping), groups=again))
        counted = {
            "read_again": sum_known(group.re_read for group in again),
            "read_again_at_most": sum_known(group.re_read_at_most for group in again),
        }
        return {
            "groups": len(everyone),
            "still_in_use": named,
            **({"not_known": first_few(sorted(unknown), _SHOWN)} if unknown else {}),
            **(counted if again else {}),
        }

    def _measured(
        self, moves: Sequence[PositionMove], abort: Abort
    ) -> tuple[tuple[GroupScore, ...], tuple[Check, ...]]:
        """What each group reads again, by prediction and as measured, and whether it skips nothing; none of both where all
        positions are exact."""
        if not any(read_again.is_bounded(move) for move in moves):
            return (), ()
        moving, clusters = self.flow, self.settings.clusters
        source, target = clusters[moving.source], clusters[moving.target]
        found = (
            self._in_shared_topics(moves, abort) if self.both_ways else read_again.measure(source, target, moves, abort)
        )
        measured: dict[str, list[tuple[PositionMove, int | None]]] = {}
        wrong = []
        for move, each in zip(moves, found, strict=True):
            if each is not None and each.wrong:
                wrong.append(f"{move.group} in {move.target} at {move.offset}: {each.verdict}")
            exact = 0 if move.kind is TranslationKind.EXACT else None
            measured.setdefault(move.group, []).append((move, exact if each is None else each.again))
        compared = sum(each is not None and each.again is not None for each in found)
        verdict = Verdict.FAIL if wrong else Verdict.PASS if compared else Verdict.CONDITIONS
        said = "; ".join(wrong[:3]) or f"{compared} of {sum(each is not None for each in found)} positions compared"
        check = Check(f"no group skips records on {moving.target}", verdict, said)
        return tuple(score(group, those) for group, those in sorted(measured.items())), (check,)

    def _in_shared_topics(self, moves: Sequence[PositionMove], abort: Abort) -> list[Compared | None]:
        """As `read_again.measure`, where both directions copy the topics."""
        moving, clusters = self.flow, self.settings.clusters
        mine = [move for move in moves if move.offset is not None and read_again.is_bounded(move)]
        source, target = clusters[moving.source], clusters[moving.target]
        found, _ = read_again.measure_shared(source, target, mine, read_again.NEXT, abort)
        by_move = dict(zip(mine, (each for _, each in found), strict=True))
        return [by_move.get(move) for move in moves]

    def _say(self, busy: Collection[str]) -> None:
        moving = self.flow
        address = ",".join(self.settings.clusters[moving.target].bootstrap_servers)
        show(
            f"Stop on {moving.source}, and start on {moving.target} at {address}: {', '.join(sorted(busy)[:_SHOWN])}"
            f"{f' and {len(busy) - _SHOWN} more' if len(busy) > _SHOWN else ''}. Waiting {self.within_s:g} s for it."
        )


def _stand(group: str, busy: Collection[str], unknown: Collection[str]) -> str:
    return "still in use" if group in busy else "not known" if group in unknown else "left"


def _busy(source: Cluster, groups: Collection[str], shares: Sequence[ShareMove]) -> tuple[list[str], dict[str, str]]:
    """The groups that have members, and why that is not known of others."""
    busy, unknown = [], {}
    try:
        states = source.group_states(groups, surely=True)
    except DrlibError as error:
        states = dict.fromkeys(groups, error)
    for group, state in states.items():
        if isinstance(state, DrlibError):
            unknown[group] = str(state)
        elif state not in (GroupState.EMPTY, GroupState.ABSENT):
            busy.append(group)
    try:
        busy += share_moves.with_members(source.settings, shares) if shares else ()
    except DrlibError as error:
        unknown |= {move.group: str(error) for move in shares}
    return sorted(busy), unknown
