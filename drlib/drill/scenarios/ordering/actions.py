"""Actions of an ordering drill on a lab: planned moves in both directions under traffic, with and without ordered reading.

Rules: the ordinary group's result is part of the proof: where the two groups do not differ, the comparison has shown nothing.
Not for: judging order (`drlib.lab.checker.key_order`), and real clusters.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from drlib.drill.actions.failback.switchover import MoveApplications
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Noted, Reach
from drlib.drill.scenarios.ordering import proof as ordering_proof
from drlib.drill.scenarios.ordering.testbed import GROUPS, ORDERED, ORDINARY, OrderingStep
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Count, Number
from drlib.drill.step.step_output import Row, ScorecardPart
from drlib.drill.testbed import lab_step, sampler
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.runs import journal
from drlib.runs.abort import Abort
from drlib.runs.journal import JOURNAL

_HELD_S: Final = 25.0  # a lab's machine may be busy
_RTO_S: Final = 30.0  # an interruption that the drill tolerates


class Start(lab_step.AppearingStep, OrderingStep):
    """Start a producer, both groups and the mirror, with records left to read."""

    name = "ordering.start"

    records_per_second: Number = 300.0
    """Records per second of the producer."""
    backlog: Count = 12_000
    """Records it produces at once, before that."""

    @property
    def _topics(self) -> list[tuple[str, str]]:
        return [
            (self.flow.source, self.topic),
            (self.flow.target, self.topic),
            *self.testbed.mirrors(self.flow).topics(),
        ]

    def observe(self) -> Sequence[Fact]:
        self.testbed.lab.require([self.flow.source, self.flow.target])
        players = [self.testbed.producer, *self.testbed.readers, self.testbed.mirrors(self.flow).name]
        return (
            *super().observe(),
            self._active(),
            *lab_step.processes(self.testbed.applications, players),
            *lab_step.topics(self.lab, self._topics),
        )

    def changes(self, observed: Sequence[Fact]) -> Changes:
        lab_step.refuse_present(observed, [(alias, self.topic) for alias in (self.flow.source, self.flow.target)])
        if self._active().value is not None:
            raise UsageError(
                f"{self.topic} has applications already", "their pointer is in the lab's folder", "Name another topic."
            )
        return (*lab_step.appear(observed), Change(self._active().entity, None, self.flow.source))

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        testbed = self.testbed
        testbed.make_topics([self.flow.source, self.flow.target])
        if testbed.pointer() is None:
            testbed.point(self.flow.source)
        testbed.start_producer(self.records_per_second, self.backlog)
        testbed.mirrors(self.flow).start(abort)
        for group in GROUPS:  # last: what they read while others start is not left for after the move
            testbed.start_members(group)
        for group in GROUPS:
            self.wait(
                abort,
                f"{group} has read in every partition",
                lambda g=group: testbed.reached(self.flow.source, g, self.topic, [1] * len(self._ends())),  # type: ignore[misc]
            )
        ends = self._ends()
        rows: list[Row] = []
        for group in GROUPS:
            read = sum(testbed.positions(self.flow.source, group, self.topic).values())
            rows.append(
                {"group": group, "members": len(testbed.members(group)), "read": read, "behind": sum(ends) - read}
            )
        self.show(rows)
        return {"records": sum(ends), "partitions": len(ends), "scope": self.scope.value}

    def undo(self, changes: Changes) -> None:
        super().undo(changes)
        self.testbed.pointer_path.unlink(missing_ok=True)

    def _ends(self) -> tuple[int, ...]:
        return self.testbed.ends(self.flow.source, self.topic)


class Move(OrderingStep):
    """Move the applications as `switchover.move` does, once both groups have read what came with an earlier move.

    `rto_seconds` is from the hold to the first record on the target.
    """

    name = "ordering.move"

    @property
    def _switchover(self) -> MoveApplications:
        """The shipped action, with the pointer and the mirror of this drill's applications.

        It logs in as the lab's admin: on a secured lab the user of drills has rights on the topics of the lab's file alone.
        """
        move = MoveApplications(source=self.source, target=self.target, groups=GROUPS, held_s=_HELD_S, stopped_s=_RTO_S)
        testbed = self.testbed
        context = replace(
            self.context,
            clusters={alias: each.settings(user=testbed.lab.admin) for alias, each in testbed.lab.clusters.items()},
            properties=testbed.mirrors(self.flow).properties,
            pointer=testbed.pointer_path,
        )
        return move.bind(context, self.step)

    def observe(self) -> Sequence[Fact]:
        return (*super().observe(), *self._switchover.observe())

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return self._switchover.changes(observed)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        remote_topic, pointer = self.testbed.copy_of(self.flow.target), self.testbed.pointer()
        if pointer is not None and pointer.active == self.flow.source:
            for group in GROUPS:
                self.wait(
                    abort,
                    f"{group} has read {remote_topic} to its cutover",
                    lambda g=group: self.testbed.reached(
                        self.flow.source, g, remote_topic, pointer.cutover.get(remote_topic, ())
                    ),  # type: ignore[misc]
                )
        return self._switchover.act(changes, abort)

    def probe(self, changes: Changes) -> Reach:
        return self._switchover.probe(changes)

    def undo(self, changes: Changes) -> None:
        """Stop the members and send the applications back; the positions they had at the source are still there."""
        now = self.testbed.pointer()
        if now is None or (now.active == self.flow.source and not now.hold):
            return
        self.testbed.applications.stop(*self.testbed.readers)
        self.testbed.point(self.flow.source)


class Prove(OrderingStep):
    """Stop the producer, let both groups read everything, and judge them by their members' histories."""

    name = "ordering.prove"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        testbed = self.testbed
        testbed.applications.stop(testbed.producer)
        due = ordering_proof.due(testbed)
        with contextlib.suppress(Unreachable):  # what is missing then is the proof's to say
            self.wait(
                abort,
                "both groups have read everything",
                lambda: all(sum(map(testbed.applications.processed, testbed.members(g))) >= due for g in GROUPS),
            )
        testbed.applications.stop(*testbed.readers)
        proof = ordering_proof.prove(testbed)
        self.show(proof.rows)
        samples = sampler.stop(self.context.run_dir)
        self.score(ScorecardPart(records=proof.records, checks=proof.checks, groups=proof.groups, samples=samples))
        if proof.failed:
            raise Deviated("the proof failed", "; ".join(proof.failed), "See the histories in the run's folder.")
        return {
            **self._longest_move(),
            "violations_ordered": proof.violations[ORDERED],
            "violations_ordinary": proof.violations[ORDINARY],
        }

    def _longest_move(self) -> dict[str, float]:
        """`rto_seconds` of the drill: the longer one of its moves."""
        lines = journal.read(self.context.run_dir / JOURNAL)
        found = [line.data.get("rto_seconds") for line in lines if line.event == Noted.STEP_SUCCEEDED]
        seconds = [value for value in found if isinstance(value, float)]
        return {"rto_seconds": max(seconds)} if seconds else {}
