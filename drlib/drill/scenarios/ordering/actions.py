"""Actions of an ordering drill on a lab: a planned move there and back under traffic, with and without ordered reading.

Rules: the ordinary group's result is part of the proof: where the two groups do not differ, the comparison has shown nothing.
Not for: judging order (`drlib.lab.checker.key_order`), and real clusters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from drlib.client.pointer import Pointer
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.scenarios.ordering import proof as ordering_proof
from drlib.drill.scenarios.ordering.step import FAST, SLOW, OrderingStep
from drlib.drill.scenarios.ordering.testbed import GROUPS, ORDERED, ORDINARY
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Count, Number
from drlib.drill.step.step_output import Row, ScorecardPart
from drlib.drill.testbed import lab_step, sampler
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.lab.workload.topics import log_ends
from drlib.mirror.offsets.translation.translate_groups import commit_translations, translate_groups
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark


class Start(OrderingStep):
    """Start a producer, both groups and the mirror, with records left to read."""

    name = "ordering.start"

    records_per_second: Number = 300.0
    """Of the producer."""
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
        for group in GROUPS:
            testbed.start_members(group, SLOW)
        testbed.mirrors(self.flow).start(abort)
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

    def probe(self, changes: Changes) -> Reach:
        return lab_step.appeared(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        lab_step.disappear(self.testbed.applications, changes)
        self.testbed.pointer_path.unlink(missing_ok=True)

    def _ends(self) -> tuple[int, ...]:
        return self.testbed.ends(self.flow.source, self.topic)


class Move(OrderingStep):
    """Move the applications from the source to the target, with nothing left behind.

    `rto_seconds` is from the hold to the first record acknowledged there.
    """

    name = "ordering.move"

    def observe(self) -> Sequence[Fact]:
        return (*super().observe(), self._active())

    def changes(self, observed: Sequence[Fact]) -> Changes:
        before = self._active()
        return () if before.value == self.flow.target else (Change(before.entity, before.value, self.flow.target),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        testbed = self.testbed
        pointer = testbed.pointer()
        if pointer is None:
            raise UsageError(f"{self.topic} has no applications", "they were not started", "Start them first.")
        if pointer.active != self.flow.target:
            self._settle(abort, pointer)
            self.moment_ms("held")
            self._hold(abort)
            rows = self._translate(abort)
            self.show(rows)
            testbed.point(
                self.flow.target,
                prefix=f"{self.flow.source}.",
                cutover={self.remote_topic: testbed.ends(self.flow.target, self.remote_topic)},
            )
        for group in GROUPS:
            testbed.start_members(group, FAST)
        self.wait(abort, f"records are acknowledged on {self.flow.target}", self._acked_there)
        began_ms, until_ms = self.moment_ms("held"), self.moment_ms("acknowledged")
        for group in GROUPS:
            self.wait(
                abort,
                f"{group} reads on {self.flow.target}",
                lambda g=group: any(testbed.applications.done(name) for name in testbed.members(g)),  # type: ignore[misc]
            )
        self.score(ScorecardPart(marks=(Mark(name=f"moved to {self.flow.target}", at_ms=until_ms, detail="planned"),)))
        return {"rto_seconds": (until_ms - began_ms) / 1000}

    def probe(self, changes: Changes) -> Reach:
        """The pointer tells: held or moved is more than nothing, and all there is to find before the hold is nothing."""
        now = self.testbed.pointer()
        untouched = now is not None and now.active == self.flow.source and not now.hold
        return Reach.UNTOUCHED if untouched else Reach.PARTLY

    def undo(self, changes: Changes) -> None:
        """Stop the members and send the applications back; the positions they had at the source are still there."""
        now = self.testbed.pointer()
        if now is None or (now.active == self.flow.source and not now.hold):
            return
        self.testbed.applications.stop(*self.testbed.readers)
        self.testbed.point(self.flow.source)

    def _settle(self, abort: Abort, pointer: Pointer) -> None:
        """Wait until an earlier move is over: what came with it has been read, and need not be read again."""
        remote_topic = self.testbed.copy_of(self.flow.target)
        for group in GROUPS:
            self.wait(
                abort,
                f"{group} has read {remote_topic} to its cutover",
                lambda g=group: self.testbed.reached(
                    self.flow.source, g, remote_topic, pointer.cutover.get(remote_topic, ())
                ),  # type: ignore[misc]
            )

    def _hold(self, abort: Abort) -> None:
        """No producer has anything on its way, everything has crossed, and no group has a member any more."""
        testbed, source = self.testbed, self.flow.source
        now = testbed.pointer()
        if now is not None and not now.hold:
            testbed.point(source, prefix=now.remote_prefix, cutover=now.cutover, hold=True)
        self.wait(abort, "the producer holds", self._held)
        ends = log_ends(self.lab.clusters[source], [self.topic], timeout_s=2.0)
        mirrors = testbed.mirrors(self.flow)
        self.wait(abort, f"{self.flow} is drained", lambda: mirrors.crossed(self.flow, ends))
        testbed.applications.stop(*testbed.readers)
        for group in GROUPS:
            self.wait(
                abort,
                f"{group} has no members",
                lambda g=group: not testbed.member_count(source, g),  # type: ignore[misc]
            )

    def _held(self) -> bool:
        status = self.testbed.applications.status(self.testbed.producer)
        return status is not None and status.phase == "holding" and not status.in_flight

    def _translate(self, abort: Abort) -> list[Row]:
        """Commit each group's positions on the target: in the copy, and in the target's own topic as far as it was read."""
        testbed, settings = self.testbed, self.testbed.mirrors(self.flow).settings
        translations = translate_groups(settings, self.flow, GROUPS, source_alive=True)
        inexact = [item for item in translations if item.source.topic == self.topic and not item.translation.exact]
        if inexact:
            first = inexact[0]
            raise Deviated(
                f"the position of {first.group} in {first.source} has no exact counterpart",
                f"it is {first.translation.kind.value}",
                "See drlib status, then resume.",
            )
        commit_translations(settings, self.flow, translations)
        remote_topic = testbed.copy_of(self.flow.target)
        if testbed.ends(
            self.flow.source, remote_topic
        ):  # they have been at the target before: its topic was read at the source
            read = testbed.ends(self.flow.target, self.topic)
            for group in GROUPS:
                testbed.place(self.flow.target, group, self.topic, read)
        abort.check()
        return [
            {
                "group": item.group,
                "partition": item.source.partition,
                f"on {self.flow.source}": item.source_offset,
                f"on {self.flow.target}": item.translation.offset,
                "meaning": item.translation.kind.value,
            }
            for item in translations
        ]

    def _acked_there(self) -> bool:
        status = self.testbed.applications.status(self.testbed.producer)
        ends = self.testbed.ends(self.flow.target, self.topic)
        return status is not None and status.cluster == self.flow.target and status.phase == "running" and any(ends)


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
                lambda: all(self._processed(group) >= due for group in GROUPS),
            )
        testbed.applications.stop(*testbed.readers)
        proof = ordering_proof.prove(testbed)
        self.show(proof.rows)
        samples = sampler.stop(self.context.run_dir)
        self.score(ScorecardPart(records=proof.records, checks=proof.checks, groups=proof.groups, samples=samples))
        if proof.failed:
            raise Deviated("the proof failed", "; ".join(proof.failed), "See the histories in the run's folder.")
        return {
            **self._longest_hold(),
            "violations_ordered": proof.violations[ORDERED],
            "violations_ordinary": proof.violations[ORDINARY],
        }

    def _processed(self, group: str) -> int:
        return sum(self.testbed.applications.processed(name) for name in self.testbed.members(group))

    def _longest_hold(self) -> dict[str, float]:
        """`rto_seconds` of the drill: the longer one of its moves."""
        seconds = [
            (until - held) / 1000
            for step in self.context.run_dir.glob(f"{moments.FOLDER}/*-held")
            for held, until in [
                (int(step.read_text()), int(step.with_name(f"{step.name[:-5]}-acknowledged").read_text()))
            ]
        ]
        return {"rto_seconds": max(seconds)} if seconds else {}
