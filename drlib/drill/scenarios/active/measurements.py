"""The measuring steps of an active/active drill: bytes over the link, and the effect of a cluster's death on the others.

Rules: bytes are those that the link's proxy delivered, records those in the log; pauses are taken from the applications'
histories, in a window before the fault and in one as long after it. A resumed step counts from the moment of the first kill.
Not for: starting applications that stay (`actions`).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median_low
from typing import Final

from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.scenarios.active import proof as active_proof
from drlib.drill.scenarios.active.testbed import READERS, ActiveStep
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.argument_types import Positive, Seconds, Text, Texts
from drlib.drill.step.step_output import Row, ScorecardPart
from drlib.errors import Deviated
from drlib.lab.checker.history import ProducedStatus
from drlib.lab.checker.lost_and_duplicated import seconds_lost
from drlib.runs.abort import Abort
from drlib.runs.scorecard import Mark

SERVES: Final = "serves"
DEAD: Final = "dead"
ONCE: Final = 1.5  # bytes per record with many groups, over those with one: a second crossing would make it 2
MEASUREMENTS: Final = 3  # at most


class MeasureLink(ActiveStep):
    """Measure what leaves `source` over its link while records cross to `at`: with one group reading, then with `groups`.

    Bytes as the link's proxy delivered them; records as the log of the copy has grown. Metadata and empty answers cross as
    well, by the second and not by the record, and what a worker had read before crosses no more: where the measurements
    say more than once, both are taken again; the median with one group and the least with all of them count.
    """

    name = "active.link"

    source: Text
    """Alias of the cluster whose records cross."""
    at: Text
    """Alias of the cluster they are read on."""
    groups: Positive = 5
    """How many groups read there in the second measurement."""
    records: Positive = 1500
    """How many records each measurement waits for."""

    @property
    def _more(self) -> tuple[str, ...]:
        return tuple(f"more-{number}" for number in range(2, self.groups + 1))

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        self._stop_more()
        rows: list[Row] = []

        def measured() -> tuple[float, float]:
            alone = self._measure(abort, 1)
            self._start_more(abort)
            together = self._measure(abort, self.groups)
            self._stop_more()
            rows.extend((alone, together))
            self.show(rows)
            return float(str(alone["bytes per record"])), float(str(together["bytes per record"]))

        ratio = bytes_ratio(measured)
        if ratio >= ONCE:
            raise Deviated(
                "records crossed the link more than once",
                f"{ratio} times the bytes per record",
                "Check the link and the mirrors on it.",
            )
        return {"groups": self.groups, "bytes_per_record_ratio": ratio}

    def undo(self, changes: Changes) -> None:
        self._stop_more()

    def _start_more(self, abort: Abort) -> None:
        for group in self._more:
            self.testbed.start_readers(self.at, group)
        ends = self.testbed.ends(self.at)
        for group in self._more:
            self.wait(
                abort,
                f"{group} has caught up",
                lambda g=group: self.testbed.has_read(self.at, g, ends),  # type: ignore[misc]
            )

    def _stop_more(self) -> None:
        """The groups of this step are here to be counted, and leave again."""
        self.testbed.applications.stop(*(self.testbed.readers(self.at, group) for group in self._more))

    def _measure(self, abort: Abort, groups: int) -> Row:
        def crossed() -> int:
            copy = self.testbed.copy_of(self.source)
            return sum(end for partition, end in self.testbed.ends(self.at).items() if partition.topic == copy)

        read = self._consumed(groups)
        first, delivered = crossed(), self._delivered()
        self.wait(abort, f"{self.records} records cross", lambda: crossed() >= first + self.records)
        delivered, records = self._delivered() - delivered, crossed() - first
        return {
            "groups": groups,
            "records crossed": records,
            "records read": self._consumed(groups) - read,
            "bytes over the link": delivered,
            "bytes per record": round(delivered / records, 1),
        }

    def _consumed(self, groups: int) -> int:
        """Records of `source` that the groups at `at` have processed."""
        copy = self.testbed.copy_of(self.source)
        who = (READERS, *self._more)[:groups]
        return sum(row.topic == copy for group in who for row in self.testbed.history_of(self.at, group).consumed)

    def _delivered(self) -> int:
        """Bytes that `source`'s brokers have sent over the link so far."""
        names = {broker.name for broker in self.lab.clusters[self.source].brokers}
        return sum(link.bytes_to_client for link in self.lab.proxy.links() if link.name in names)


class Kill(ActiveStep):
    """SIGKILL a cluster, and measure how long the others' applications were not served, before it and after it.

    `rto_seconds` is the longest pause of any of them after the kill, `rpo_records` what the dead cluster had acknowledged
    and no other one has.
    """

    name = "active.kill"

    cluster: Text
    """Alias of the cluster to kill."""
    others: Texts
    """Aliases of the others."""
    watch_seconds: Seconds = 8.0
    """How long their applications are watched, before and after the kill."""

    @property
    def _entity(self) -> str:
        return f"cluster {self.cluster}"

    def observe(self) -> Sequence[Fact]:
        self.testbed.lab.require([self.cluster, *self.others])
        return (*super().observe(), Fact(self._entity, SERVES if self.lab.clusters[self.cluster].alive else DEAD))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return (Change(self._entity, SERVES, DEAD),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        at_ms = self.moment_ms("fault")
        self.lab.clusters[self.cluster].kill()
        until_ms = at_ms + int(self.watch_seconds * 1000)
        abort.wait(max(0.0, until_ms / 1000 - time.time()))  # what is measured is what happens meanwhile
        self.wait(abort, "the others have been watched", lambda: self._last_ms() >= until_ms)
        rows = [self._pauses(name, moments, at_ms) for name, moments in self._moments().items()]
        self.show(rows)
        self.score(ScorecardPart(marks=(Mark(name=f"{self.cluster} killed", at_ms=at_ms, detail="SIGKILL"),)))
        after = [row["longest pause after it (s)"] for row in rows]
        return {
            "rto_seconds": max(float(str(pause)) for pause in after),
            **self._stranded(),
            "applications_watched": len(rows),
        }

    def probe(self, changes: Changes) -> Reach:
        return Reach.UNTOUCHED if self.lab.clusters[self.cluster].alive else Reach.PARTLY

    def undo(self, changes: Changes) -> None:
        if not self.lab.clusters[self.cluster].alive:
            self.lab.clusters[self.cluster].restart()

    def _moments(self) -> dict[str, list[int]]:
        """When each application of the other clusters was served: a record acknowledged, or an offset committed."""
        moments_ms = {}
        for other in self.others:
            sent = self.testbed.applications.history(self.testbed.producer(other)).produced
            moments_ms[f"producer on {other}"] = [row.acked_ms for row in sent if row.status is ProducedStatus.ACKED]
            moments_ms[f"readers on {other}"] = [row.at_ms for row in self.testbed.history_of(other).consumed]
        return moments_ms

    def _last_ms(self) -> int:
        """Wait until every application has reported, or its time is up."""
        return min(max(moments, default=0) for moments in self._moments().values())

    def _pauses(self, name: str, moments: Sequence[int], at_ms: int) -> Row:
        window = int(self.watch_seconds * 1000)
        return {
            "application": name,
            "longest pause before it (s)": longest_pause_s(moments, at_ms - window, at_ms),
            "longest pause after it (s)": longest_pause_s(moments, at_ms, at_ms + window),
            "served before": sum(at_ms - window <= at < at_ms for at in moments),
            "served after": sum(at_ms <= at < at_ms + window for at in moments),
        }

    def _stranded(self) -> dict[str, float]:
        """RPO: acknowledged by the dead cluster and on no other one, which is lost if it never comes back; and how much
        time those records span."""
        sent = self.testbed.applications.history(self.testbed.producer(self.cluster)).produced
        acked = [row for row in sent if row.status is ProducedStatus.ACKED]
        lost = {row.id for row in acked}
        for other in self.others:
            lost.difference_update(
                active_proof.ids(self.lab.clusters[other].settings(), self.testbed.copy_of(self.cluster))
            )
        return {"rpo_records": len(lost), "rpo_seconds": seconds_lost(acked, lost)}


class Revive(ActiveStep):
    """Start the cluster again on its own data, and wait until its producer is acknowledged and its readers read."""

    name = "active.revive"

    cluster: Text
    """Alias of the cluster."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        self.sample()
        applications = (self.testbed.producer(self.cluster), self.testbed.readers(self.cluster))
        before = {name: self.testbed.applications.done(name) for name in applications}
        cluster = self.lab.clusters[self.cluster]
        if not cluster.alive:
            for broker in cluster.brokers:
                if not broker.alive:
                    broker.launch()
        self.wait(abort, f"{self.cluster} serves", lambda: self.testbed.serves(self.cluster), cluster.brokers[0].log)
        self.wait(
            abort,
            f"{self.cluster}'s applications continue",
            lambda: all(self.testbed.applications.done(name) > done for name, done in before.items()),
        )
        self.show(self.records_read([self.cluster]))
        at_ms = self.moment_ms("serves")
        self.score(
            ScorecardPart(
                marks=(Mark(name=f"{self.cluster} is back", at_ms=at_ms, detail="its applications continue"),)
            )
        )
        return {"restarted": self.cluster}


def longest_pause_s(moments_ms: Iterable[int], since_ms: int, until_ms: int) -> float | None:
    """Seconds of the longest pause between `moments_ms` within `since_ms`..`until_ms`; None for an empty window.

    The edges of the window count, so that a pause at its beginning or its end is included; a window without any event is one
    pause.
    """
    if until_ms <= since_ms:
        return None
    edges = [since_ms, *sorted(at for at in moments_ms if since_ms < at < until_ms), until_ms]
    return max(after - before for before, after in pairwise(edges)) / 1000


def bytes_ratio(measured: Callable[[], tuple[float, float]]) -> float:
    """Bytes per record with all groups over those with one: the least over the median of as many measurements as it takes to be
    below `ONCE`, at most `MEASUREMENTS`. `measured` takes both once.

    Other traffic adds bytes. Records that a worker had in memory when a measurement began take bytes away, from the first of
    both mostly: the least of those with one group would make one crossing look like several.
    """
    alone, together = (list(each) for each in zip(measured(), strict=True))
    while min(together) >= ONCE * median_low(alone) and len(alone) < MEASUREMENTS:
        for values, value in zip((alone, together), measured(), strict=True):
            values.append(value)
    return round(min(together) / median_low(alone), 3)
