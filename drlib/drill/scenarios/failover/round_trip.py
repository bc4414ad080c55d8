"""The proof of a failover and failback on a lab: the applications' histories and plain scans of both clusters.

Rules: it changes nothing and does not use the engine. `tail` says how the tail was settled, so that records of the
tail are distinguished from losses; without it the move was planned and there must be no tail. Under identical names nothing is
settled: what crossed late lies behind where the target's log ended before the source returned, which is kept (`keep_ends`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from drlib.drill.actions.failback.actions import wait_caught_up
from drlib.drill.actions.failback.unreplicated_actions import settings_of
from drlib.drill.actions.groups import decided as positions
from drlib.drill.step.action import Changes, Evidence, ReadOnlyAction
from drlib.drill.step.step_output import ScorecardPart, read_rows, write_rows
from drlib.drill.testbed.failover_step import ClusterArgument, FailoverStep
from drlib.drill.testbed.failover_testbed import GROUPS
from drlib.errors import Deviated
from drlib.lab.checker.round_trip import Trip, TripReport, check_round_trip
from drlib.lab.checker.scan import scan
from drlib.mirror.offsets.unreplicated.rules import Settle, quarantine_topic
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict
from drlib.runs.scorecard import GroupScore, Records, Rpo, RtoSeconds
from drlib.runs.table import check_rows

TOPIC: Final = "flights"
_ENDS: Final = "before-return"


def keep_ends(run_dir: Path, ends: Mapping[TopicPartition, int]) -> None:
    """Keep where the target's log of `TOPIC` ends while the source is away."""
    write_rows(run_dir, _ENDS, [{"partition": p.partition, "end": end} for p, end in ends.items() if p.topic == TOPIC])


def kept_ends(run_dir: Path) -> dict[int, int]:
    return {int(row["partition"] or 0): int(row["end"] or 0) for row in read_rows(run_dir, _ENDS)}


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
    """How the tail was settled; by default there must be none. Under identical names nothing is settled."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` where a record was lost, duplicated or read twice; the results are kept first."""
        if self.testbed.shared:
            settings = settings_of(self.context)
            for flow in (self.flow, self.flow.reverse):
                wait_caught_up(settings, flow, abort, 0, 60)
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
        history = testbed.applications.history(TOPIC, *GROUPS)
        if testbed.shared:
            home_log, away_log = tuple(scan(home, TOPIC)), tuple(scan(away, TOPIC))
            ends = kept_ends(self.context.run_dir)
            before = tuple(row for row in away_log if row.offset < ends.get(row.partition, 0))
            return check_round_trip(
                Trip(flow.source, flow.target, TOPIC, GROUPS, history, home_log, away_log, before_return=before)
            )
        return check_round_trip(
            Trip(
                flow.source,
                flow.target,
                TOPIC,
                GROUPS,
                history,
                (*scan(home, TOPIC), *scan(home, f"{flow.target}.{TOPIC}")),
                (*scan(away, TOPIC), *scan(away, f"{flow.source}.{TOPIC}")),
                tuple(scan(away, quarantine_topic(flow.source, TOPIC))),
                self.tail,
                crossed=self._crossed(),
            )
        )

    def _crossed(self) -> Mapping[tuple[str, int], int] | None:
        """The positions that the target knew of the groups when they moved there; None where this run has not moved any."""
        moves = positions.read(self.context.run_dir, self.flow.target)
        found = [move.translation for move in moves or () if move.translation.source.topic == TOPIC]
        return {(each.group, each.source.partition): each.source_offset for each in found} or None

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
