"""The proof of a failover and failback on a lab: the applications' histories and plain scans of both clusters.

Rules: it changes nothing and does not use the engine. `tail` says how the tail was settled, so that records of the
tail are distinguished from losses; without it the move was planned and there must be no tail.
"""

from typing import Final

from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed.failover_step import ClusterArgument, FailoverStep
from drlib.drill.testbed.failover_testbed import GROUPS
from drlib.errors import Deviated
from drlib.lab.checker.round_trip import Trip, TripReport, check_round_trip
from drlib.lab.checker.scan import scan
from drlib.mirror.offsets.unreplicated.rules import Settle, quarantine_topic
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict
from drlib.runs.scorecard import GroupScore, Records, Rpo, RtoSeconds
from drlib.runs.table import check_rows

TOPIC: Final = "flights"


class WaitTraffic(ReadOnlyAction, ClusterArgument):
    """Wait until every application works at `cluster`: acknowledged, or processed, a second's worth of records there."""

    name = "lab.traffic"

    @property
    def alias(self) -> str:
        return self.cluster or self.flow.source

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        testbed, alias = self.testbed, self.alias
        before = {name: testbed.applications.done(name) for name in (TOPIC, *GROUPS)}
        enough = {name: testbed.traffic.records_per_second if name == TOPIC else 1 for name in before}

        def works(name: str) -> bool:
            status = testbed.applications.status(name)
            working = status is not None and (status.cluster, status.phase) == (alias, "running")
            return working and testbed.applications.done(name) >= before[name] + enough[name]

        for name in before:
            testbed.wait(f"{name} works at {alias}", lambda name=name: works(name), 60, abort)  # type: ignore[misc]
        self.show_progress()
        return {name: testbed.applications.done(name) - before[name] for name in before}


class ProveRoundTrip(ReadOnlyAction, FailoverStep):
    """Judge all that happened to the records of `flights` on both clusters."""

    name = "proof.round_trip"

    tail: Settle | None = None
    """How the tail was settled; by default there must be none."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` where a record was lost, duplicated or read twice; the results are kept first."""
        report = self._judged()
        abort.check()
        self.show(check_rows(report.checks))
        self.score(self._part(report))
        if report.verdict is Verdict.FAIL:
            failed = next(c for c in report.checks if c.verdict is Verdict.FAIL)
            raise Deviated(
                failed.name,
                failed.evidence,
                f"See the histories in the run's folder {self.context.run_dir.name}.",
            )
        return {
            "acknowledged": report.acknowledged,
            "lost": report.lost,
            "tail": report.tail,
            "recovered": report.recovered,
            "quarantined": report.quarantined,
            "read_again": sum(g.again for g in report.groups),
            "read_again_at_a_stated_price": sum(g.again_failover + g.again_tail for g in report.groups),
            "longest_pause_of_producers_seconds": max(report.pauses_s, default=None),
            "pause_at_the_last_move_seconds": report.pauses_s[-1] if report.pauses_s else None,
        }

    def _judged(self) -> TripReport:
        flow, testbed = self.flow, self.testbed
        home, away = (testbed.lab.clusters[alias].settings() for alias in (flow.source, flow.target))
        return check_round_trip(
            Trip(
                flow.source,
                flow.target,
                TOPIC,
                GROUPS,
                testbed.applications.history(TOPIC, *GROUPS),
                (*scan(home, TOPIC), *scan(home, f"{flow.target}.{TOPIC}")),
                (*scan(away, TOPIC), *scan(away, f"{flow.source}.{TOPIC}")),
                tuple(scan(away, quarantine_topic(flow.source, TOPIC))),
                self.tail,
            )
        )

    def _part(self, report: TripReport) -> ScorecardPart:
        return ScorecardPart(
            checks=report.checks,
            records=Records(
                produced=report.acknowledged,
                lost=report.lost,
                duplicated=report.doubled,
                out_of_order=sum(g.out_of_order for g in report.groups),
            ),
            rto_seconds=RtoSeconds(total=max(report.pauses_s)) if report.pauses_s else None,  # as producers felt it
            rpo=Rpo(records=report.lost, seconds=None if report.lost else 0.0),
            groups=tuple(
                GroupScore(group=g.group, re_read=g.again + g.again_failover + g.again_tail, skipped=g.skipped)
                for g in report.groups
            ),
        )
