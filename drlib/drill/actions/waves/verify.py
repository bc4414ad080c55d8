"""Action `wave.verify`: every application of a wave that was moved is observed on the target, before the next wave is moved.

Rules: each group reads on past the position that it was moved to (or, where the run moved none of it, past where it is now),
and to each topic a record is written. What was not seen within `within_s` is missed, and the step fails with the wave, the
application, what was expected and what was seen, and with the waves that have not moved. Nothing to read is no excuse, unless
the application is said to be idle: then the check has a condition. A share group reads on when it acknowledges a record that it
had not; one that was not moved is named, and was a condition of the step that left it.
Not for: judging one look (`verify_rules`), and what is missed (`missed`).
"""

import time
from collections.abc import Sequence

from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.commit import TIMEOUT_S
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.drill.actions.groups.share_groups.served import SharesSeen, wait_served
from drlib.drill.actions.groups.verify import VerifyGroups, Watch, topic_row
from drlib.drill.actions.waves.arguments import WaveArguments
from drlib.drill.actions.waves.missed import Missed, missed
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Patterns, Seconds
from drlib.drill.step.flow_arguments import ReadOnlyTargetAction, Shared
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Deviated
from drlib.kafka.admin.cluster import Cluster
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Mark
from drlib.runs.waiting import LOOK_S


class VerifyWave(WaveArguments, ReadOnlyTargetAction):
    """Observe that every group of the wave reads on at the target, and that its topics are written to there."""

    name = "wave.verify"
    shared_topics = Shared.SOME

    within_s: Seconds = 60
    """How long the wave's applications may take, those that are moved by hand included."""
    not_read: Patterns = ()
    """Topics that no group has to read, although it has a position and unread records there."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` naming the wave, and for each application that is not served what was expected of it."""
        plan, target = self.plan, self.flow.target
        topics = tuple(dict.fromkeys(plan.wave.written))
        watched = VerifyGroups(
            source=self.source,
            target=self.target,
            written=topics,
            deadline_s=self.within_s,
            members_s=self.within_s,
            not_read=self.not_read,
        ).bind(self.context, self.step)
        with Cluster(self.target_cluster, timeout_s=TIMEOUT_S) as cluster:
            moves = decided.read(self.context.run_dir, target) or ()
            shares = share_moves.kept_by_any(self.context.run_dir, target)
            of_shares = {move.group for move in shares}
            there = {listing.group for listing in cluster.groups()} | {move.group for move in moves}
            owners, share_owners = plan.groups_here(sorted(there - of_shares)), plan.groups_here(sorted(of_shares))
            ours = [move for move in moves if move.group in owners]
            watch = Watch(watched, cluster, ours, also=owners, local=plan.written)
            unwritable = watched.unwritable()
            if not unwritable:
                watch.begin()
                watch.say_by_hand()
            began = time.monotonic()
            while not unwritable:
                over = watch.look()
                self.show(watch.rows())
                if over and (
                    not self._missed(watch, owners, {}, share_owners) or time.monotonic() - began >= self.within_s
                ):
                    break
                abort.wait(max(LOOK_S, 3 * watch.took_s))
            unwritable = unwritable or (watched.unwritable() if watch.unwritten else {})
        watch.shares = self._shares(share_owners, shares, max(0.0, self.within_s - (time.monotonic() - began)), abort)
        self.show(watch.rows())
        found = self._missed(watch, owners, unwritable, share_owners)
        self._score(watch, found, sorted(share_owners.keys() - watch.shares.verdicts.keys()))
        if found:
            more = f"; and {len(found) - 1} more: {'; '.join(map(str, found[1:5]))}" if len(found) > 1 else ""
            raise Deviated(
                f"{plan.label}: {found[0].application} is not as expected on {target}",
                f"expected: {found[0].expected}; seen within {self.within_s:g} s: {found[0].seen}{more}",
                f"No further wave was moved ({plan.still_at(self.flow.source)}). Correct {found[0].application} first.",
            )
        return {
            "wave": plan.label,
            "groups": len(owners),
            "served": len(watch.served),
            "not_observed": "; ".join(f"{name}: {why}" for name, why in watch.not_observed().items()),
            **(
                {"share_groups": len(share_owners), "share_groups_served": len(watch.shares.served)}
                if share_owners
                else {}
            ),
            "others": plan.still_at(self.flow.source),
        }

    def _shares(self, owners: dict[str, str], shares: Sequence[ShareMove], within_s: float, abort: Abort) -> SharesSeen:
        """The wave's share groups, once those that are not idle read on, or the time is over; without those that were left."""
        idle = {each.name for each in self.plan.wave.applications if each.idle}
        expected = {group for group, application in owners.items() if application not in idle}
        ours = [move for move in shares if move.group in owners]
        return wait_served(self.target_cluster, ours, within_s, abort, expected)

    def _missed(
        self, watch: Watch, owners: dict[str, str], unwritable: dict[str, str], share_owners: dict[str, str]
    ) -> tuple[Missed, ...]:
        """What is missing as far as it was looked at; a topic that no producer can write to ends the look."""
        wave, shares = self.plan.wave, watch.shares
        left = share_owners.keys() - shares.verdicts.keys()  # a condition of the step that left them
        none = {t: "" if topic_row(t) in watch.served else "no record while it was watched" for t in wave.written}
        owners, verdicts = {**owners, **share_owners}, {**watch.verdicts, **shares.verdicts}
        served = {*watch.served, *shares.served, *left}
        return missed(wave, self.flow.target, owners, verdicts, served, {**none, **unwritable})

    def _score(self, watch: Watch, found: tuple[Missed, ...], left: Sequence[str]) -> None:
        plan, unseen = self.plan, [f"{name}: {why}" for name, why in watch.not_observed().items()]
        seen = len(watch.served) + len(watch.shares.served)
        verdict, evidence = Verdict.PASS, f"{seen} of {len(watch.applications) + len(watch.shares.verdicts)} observed"
        if found:
            verdict, evidence = Verdict.FAIL, "; ".join(map(str, found[:5]))
        elif left:
            verdict, evidence = (
                Verdict.CONDITIONS,
                f"{evidence}; share groups that were not moved: {', '.join(left[:5])}",
            )
        elif unseen:
            verdict, evidence = Verdict.CONDITIONS, f"{evidence}; said to be idle: {'; '.join(unseen[:5])}"
        check = Check(name=f"{plan.label}: applications are served", verdict=verdict, evidence=evidence)
        marks: tuple[Mark, ...] = ()
        if watch.served and not found:
            last = max(seen.by_ms for seen in watch.served.values())
            marks = (
                Mark(name=f"{plan.label}: served", at_ms=last, detail=f"on {self.flow.target}: {watch.slowest()}"),
            )
        self.score(ScorecardPart(checks=(check,), marks=marks))
