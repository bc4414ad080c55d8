"""The step of an ordering drill that disturbs the switch: a member of the ordered group is killed in the middle of it.

Rules: the member is killed between two of its batches, so that its history is whole; the group's own commits show where
that is. The group's position is recorded once, and a process that resumes the step does not read it again.
Not for: judging order (`proof`).
"""

import time
from collections.abc import Sequence
from typing import Final

from drlib.drill.scenarios.ordering.testbed import ORDERED, OrderingStep
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.step_output import Row, ScorecardPart
from drlib.drill.testbed.lab_step import PATIENCE_S
from drlib.errors import Deviated, Unreachable
from drlib.lab.checker.history import CommitStatus
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark

_STILL_S: Final = 0.2  # what a stopped member had sent has been taken by then


class Disturb(OrderingStep):
    """SIGKILL a member of the ordered group while it still reads the remote topic, wait for the rebalance, start it again."""

    name = "ordering.disturb"

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        testbed, at = self.testbed, self.flow.target
        doomed = testbed.members(ORDERED)[0]
        pointer = testbed.pointer()
        cutover = () if pointer is None else pointer.cutover.get(self.remote_topic, ())
        rows = list(details.read_rows(self.context.run_dir, self.step))  # as far as a process before this one came
        if not rows:
            if testbed.applications.runs(doomed):
                self._kill_between_batches(abort, doomed)
            self._saw(rows, "when it died", cutover)
        if rows[0]["still to read"] == 0:
            raise Deviated(
                "the switch was over before a member died",
                f"{ORDERED} had read {self.remote_topic} to its cutover",
                "Give it more to read (backlog), or produce faster.",
            )
        killed_ms = self.moment_ms("killed")
        if len(rows) == 1:
            self.wait(abort, "the others have its partitions", lambda: testbed.member_count(at, ORDERED) == 1)
            self._saw(rows, "one member less", cutover)
        testbed.start_member(doomed, ORDERED, moved=True)
        self.wait(
            abort, f"{doomed} is back", lambda: testbed.member_count(at, ORDERED) == len(testbed.members(ORDERED))
        )
        if len(rows) == 2:
            self._saw(rows, "two members again", cutover)
        self.score(
            ScorecardPart(marks=(Mark(name=f"{doomed} killed", at_ms=killed_ms, detail="in the middle of the switch"),))
        )
        return {"rebalances": 2, "still_to_read_at_the_kill": rows[0]["still to read"]}

    def undo(self, changes: Changes) -> None:
        """The entities: the processes that the start step created."""

    def _saw(self, rows: list[Row], when: str, cutover: Sequence[int]) -> None:
        """Record the group's position in the remote topic; the local topic opens when nothing of it is left."""
        at = self.testbed.positions(self.flow.target, ORDERED, self.remote_topic)
        left = sum(max(0, end - at.get(number, 0)) for number, end in enumerate(cutover))
        local = sum(self.testbed.positions(self.flow.target, ORDERED, self.topic).values())
        read = sum(at.values())
        rows.append(
            {"when": when, f"read of {self.remote_topic}": read, "still to read": left, f"of {self.topic}": local}
        )
        self.show(rows)

    def _kill_between_batches(self, abort: Abort, name: str) -> None:
        """Killed with a commit under way, it would be unknown whether that batch was processed, so the member is idle first."""
        applications = self.testbed.applications
        until = time.monotonic() + PATIENCE_S
        while True:
            applications.pause(name)
            abort.wait(_STILL_S)
            if self._all_told(name):
                applications.kill(name)
                return
            applications.resume(name)
            if time.monotonic() > until:
                raise Unreachable(f"waited for: {name} between two batches", "it never was", "Look at its log.")
            abort.wait(_STILL_S)

    def _all_told(self, name: str) -> bool:
        """Does the member's history have every position that the group has committed in its partitions?"""
        committed: dict[tuple[str, int], int] = {}
        for history in self.testbed.histories(ORDERED):
            for row in history.committed:
                if row.cluster == self.flow.target and row.status is not CommitStatus.UNKNOWN:
                    place = (row.topic, row.partition)
                    committed[place] = max(committed.get(place, 0), row.offset)
        mine = {
            (row.topic, row.partition)
            for row in self.testbed.applications.history(name).committed
            if row.cluster == self.flow.target
        }
        now = {
            topic: self.testbed.positions(self.flow.target, ORDERED, topic) for topic in {topic for topic, _ in mine}
        }
        return bool(mine) and all(now[topic].get(number, 0) <= committed[topic, number] for topic, number in mine)
