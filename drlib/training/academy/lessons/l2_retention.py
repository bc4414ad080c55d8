"""L2, lag, RPO and retention: what a link that is cut costs while it lasts, and what retention makes of it for good.

Rules: records are written as time passes, for lag is about time. The break is a cut link: the worker lives and cannot
reach LEFT. There are two topics, one that LEFT keeps for long enough to act and one that it does not: the broker itself
deletes what the mirror has not read, and the mirror tells it by its own event when it is back. The repair is two things in
the right order: longer retention first, since nobody knows how long the link will take, and then the link. Who waits too
long loses the orders as well, here as anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go

from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.descriptions import ConfigChange, Record
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.model import TranslationKind
from drlib.training.academy.lesson import BREAK, CheckResult, Lesson
from drlib.training.academy.pictures import Line, lines
from drlib.ui import words
from drlib.ui.display import Shown

TRAFFIC: Final = "traffic"
RETENTION_MS: Final = 1_800_000
ENOUGH_MS: Final = 3_600_000
BEFORE: Final = 300
RATE: Final = 100  # records per second
SECONDS: Final = 4
ALL: Final = BEFORE + RATE * SECONDS
CLICKS: Final = 100  # mirrored before the cut
GONE: Final = 200  # that LEFT takes while the link is cut, and keeps for
CLICKS_MS: Final = 2000
LOSS: Final = "SourceLoss"  # what the mirror calls it
_PROBE_S: Final = 10.0
_KEY: Final = "retention.ms"


class LagAndRetention(Lesson):
    key = "L2"
    title = "Lag, RPO and retention"
    hints = (
        "Two clocks run: the lag grows, and retention gets nearer. Which one may you stop at once, without knowing the cause?",
        "First keep records for longer, lesson.keep_for(hours=...), and then look at the link.",
        "lesson.keep_for(hours=24) gives you a day; lesson.mend_link() heals the link, and the mirror catches up by itself.",
    )
    claims = (
        "LEFT keeps both topics for an hour or longer",
        "all orders that LEFT has acknowledged are on RIGHT, in order",
        "what is written to LEFT now is on RIGHT in seconds",
    )

    @property
    def clicks(self) -> str:
        """A second topic, which LEFT keeps for two seconds."""
        return self.testbed.name("clicks")

    def traffic(self) -> Shown:
        """Orders that LEFT keeps for half an hour and clicks that it keeps for two seconds, mirrored; both clocks at rest."""
        self.step(TRAFFIC, self._traffic)
        return self.clocks()

    def clocks(self) -> Shown:
        """What RIGHT lacks now, how old it is, and what retention leaves for it."""
        self.require(TRAFFIC, "lesson.traffic()")
        orders, clicks = self._clock(self.topic, self._missing()), self._clock(self.clicks, self._missing_clicks())
        rows: list[Mapping[str, object]] = [
            {"what": what, "orders": now, "clicks": clicks[what]} for what, now in orders.items()
        ]
        gone = {"orders": self._lost(self.topic, BEFORE), "clicks": self._lost(self.clicks, CLICKS)}
        rows.append({"what": "deleted by LEFT before they were mirrored", **gone})
        return Shown("Two clocks", rows, note="Lag is what is lost with LEFT. Retention loses it without any fire.")

    def keep_for(self, hours: float) -> Shown:
        """Set how long LEFT keeps both topics, at once and without a restart. What is deleted already stays deleted."""
        self.require(TRAFFIC, "lesson.traffic()")
        change = ConfigChange(_KEY, None, str(int(hours * 3_600_000)))
        with BulkAdmin(self.testbed.lab.clusters["LEFT"].settings()) as cluster:
            for topic in (self.topic, self.clicks):
                cluster.alter_topic_settings(topic, [change])
        return self.clocks()

    def mend_link(self) -> Shown:
        """Heal the link between the clusters; the mirror notices by itself."""
        self.require(TRAFFIC, "lesson.traffic()")
        self.testbed.lab.proxy.clear("LEFT")
        self.testbed.wait("the mirror has caught up", lambda: not self._missing())
        ends = self.testbed.ends("LEFT", self.clicks)
        self.testbed.wait("the mirror has passed the clicks", lambda: self.testbed.fetched(self.clicks) == ends)
        return self.clocks()

    def question(self) -> str:
        return (
            f"The link is cut. LEFT goes on and takes {RATE} records a second for {SECONDS} seconds, and then burns down. "
            f"How many acknowledged records are lost?"
        )

    def reference_answer(self) -> str:
        return str(RATE * SECONDS)

    def show_truth(self) -> Shown:
        self.require(BREAK, "lesson.break_it()")
        lag = self.numbers["lag"]
        starts, clicks = self._starts(self.clicks), self._lost(self.clicks, CLICKS)
        rows = [
            {"what": "orders that only LEFT had when the seconds were over", "value": f"{lag:,}"},
            {"what": "which is, in seconds of traffic", "value": words.seconds(self.numbers["age_ms"] / 1000)},
            {"what": "clicks: the mirror had come to offset", "value": f"{CLICKS:,}"},
            {"what": "clicks: LEFT's log begins at offset", "value": f"{starts[0]:,}"},
            {"what": "clicks that nobody has any more", "value": f"{clicks:,}"},
            {"what": f"the mirror's event {LOSS}", "value": self._told()},
        ]
        note = f"It was {lag:,}: the lag is what a loss of LEFT costs. {clicks:,} clicks were lost without one."
        return Shown("The RPO of that moment, and what retention took", rows, note=note)

    def inject_fault(self) -> Mapping[str, int]:
        self.require(TRAFFIC, "lesson.traffic()")
        self.testbed.hasten("LEFT")  # a lab that was taken up again has forgotten it
        self.testbed.lab.proxy.set("LEFT", cut=True)
        self.testbed.write("LEFT", self.clicks, range(CLICKS + GONE), partitions=1)
        self.testbed.write("LEFT", self.topic, range(ALL), partitions=1, per_second=RATE)
        missing = self._missing()
        self.testbed.wait("retention has taken the clicks", lambda: self._starts(self.clicks) == [CLICKS + GONE])
        return {"lag": len(missing), "age_ms": missing[-1].timestamp_ms - missing[0].timestamp_ms if missing else 0}

    def fault_state(self) -> Shown:
        return self.clocks()

    def apply_reference(self) -> None:
        self.keep_for(hours=24)
        self.mend_link()

    def verify(self, number: int) -> CheckResult:
        if number == 1:
            keeps = {topic: self._retention_ms(topic) for topic in (self.topic, self.clicks)}
            seen = ", ".join(f"{topic}: {_kept(ms)}" for topic, ms in keeps.items())
            return CheckResult(
                all(not 0 <= ms < ENOUGH_MS for ms in keeps.values()), seen, "lesson.keep_for(hours=...)"
            )
        if number == 2:
            ours, theirs = self.testbed.read("LEFT", self.topic), self.testbed.read("RIGHT", self.copy)
            whole = [r.value for r in theirs] == [f"order {n}".encode() for n in range(ALL)]
            seen = f"{len(ours):,} on LEFT, {len(theirs):,} on RIGHT, of {ALL:,}"
            if gone := self._lost(self.topic, BEFORE):
                again = f"drlib.open_lesson({self.key!r}, lab_dir, run_dir, again=True) begins anew."
                return CheckResult(False, f"{seen}; retention was faster, {gone:,} orders are lost for good", again)
            return self.check_copy(whole, seen, "Where is the mirror held up?")
        return self.check_probe(_PROBE_S, "Look at the link.")

    def figure(self) -> go.Figure:
        ours = self.testbed.read("LEFT", self.topic)
        first = ours[0].timestamp_ms if ours else 0
        times = [(r.timestamp_ms - first) / 1000 for r in ours]
        stopped = self.numbers.get("lag", 0)
        mirrored = max(0, min(len(ours), ALL) - stopped)
        flat = ([*times[:mirrored], times[-1]], [*range(1, mirrored + 1), mirrored]) if ours else ([], [])
        drawn = [
            Line("acknowledged by LEFT", times, list(range(1, len(ours) + 1))),
            Line("on RIGHT at the end of it", flat[0], flat[1], dash="dash"),
        ]
        return lines(f"{stopped} records between the two lines: the RPO", drawn, "seconds", "records")

    def _traffic(self) -> None:
        self.testbed.hasten("LEFT")
        self.testbed.make("LEFT", self.topic, 1, {_KEY: str(RETENTION_MS)})
        self.testbed.make("LEFT", self.clicks, 1, {_KEY: str(CLICKS_MS)})
        self.testbed.make("LEFT", self.probe_topic, 1)
        self.testbed.start_mirror()
        self.testbed.wait("the mirror reads the clicks", lambda: bool(self.testbed.mirrored(self.clicks)))
        self.testbed.write("LEFT", self.clicks, range(CLICKS), partitions=1)
        self.testbed.write("LEFT", self.topic, range(BEFORE), partitions=1, per_second=2 * RATE)
        for topic in (self.topic, self.clicks):
            self.testbed.wait_crossed(topic)

    def _missing(self) -> list[Record]:
        """What LEFT has and RIGHT has not, by counting: the copy is LEFT's beginning."""
        ours, theirs = self.testbed.read("LEFT", self.topic), self.testbed.read("RIGHT", self.copy)
        there = {r.value for r in theirs}
        return [r for r in ours if r.value not in there]

    def _missing_clicks(self) -> list[Record]:
        """What LEFT still has behind the place to which the worker says it has come."""
        reached = self.testbed.fetched(self.clicks)
        return [r for r in self.testbed.read("LEFT", self.clicks) if r.offset >= (reached[0] if reached else 0)]

    def _clock(self, topic: str, missing: list[Record]) -> dict[str, str]:
        oldest = min((r.timestamp_ms for r in missing), default=None)
        age = None if oldest is None else max(0.0, time.time() - oldest / 1000)
        keeps = self._retention_ms(topic)
        left = (
            "no end" if keeps < 0 else "nothing waits" if age is None else words.duration(max(0.0, keeps / 1000 - age))
        )
        return {
            "lag: records that only LEFT has": f"{len(missing):,}",
            "lag: age of the oldest of them": "nothing waits" if age is None else words.seconds(age),
            "RPO, if LEFT were lost now": f"{len(missing):,} records",
            "LEFT keeps records for": _kept(keeps),
            "until retention takes the first of them": left,
        }

    def _starts(self, topic: str) -> list[int]:
        return self.testbed.bounds("LEFT", topic)[0]

    def _lost(self, topic: str, cut: int) -> int:
        """Records from offset `cut` on that LEFT deleted unread: those that the map tells as lost, and those that the mirror
        has still to find out."""
        (found,) = translate_offsets(self.file, "LEFT", "RIGHT", [(topic, 0, cut)])
        known = found.translation.records if found.translation.kind is TranslationKind.LOST else 0
        to_come = zip(self._starts(topic), self.testbed.fetched(topic), strict=False)
        return known + sum(max(0, start - position) for start, position in to_come)

    def _told(self) -> str:
        """What the worker says of it."""
        status = self.testbed.mirror().status()
        told = [e.detail for e in (status.events if status else ()) if e.name == LOSS and self.clicks in e.entity]
        return told[0] if told else "not told yet: the mirror cannot reach LEFT"

    def _retention_ms(self, topic: str) -> int:
        with self.testbed.cluster("LEFT") as cluster:
            return int(cluster.topic_config([topic], inherited=True)[topic][_KEY])


def _kept(retention_ms: int) -> str:
    return "ever" if retention_ms < 0 else words.duration(retention_ms / 1000)
